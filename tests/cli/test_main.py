from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from recipegen.cli import VERBS, main, module_of
from recipegen.errors import InputError, JobFailed, Problem, RecipegenError, Source

SLOW = ["jinja2", "pydantic", "rich", "paramiko", "submitit", "matplotlib", "yaml", "ruamel"]


def python(code: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status"], ["status", "--help"], ["wait", "--help"]])
def test_a_verb_imports_only_what_it_needs(arguments: list[str], tmp_path: Path) -> None:
    code = f"""
import sys
from recipegen.cli import main
try:
    main({arguments!r}, prog_name="recipegen")
finally:
    print([name for name in {SLOW!r} if name in sys.modules], file=sys.stderr)
"""
    done = python(code, env=os.environ | {"XDG_STATE_HOME": str(tmp_path)})
    assert done.returncode == 0
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_lists_the_verbs() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert [verb for verb in VERBS if f"  {verb} " not in result.output] == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_verbs_own_help_says_the_same(verb: str) -> None:
    command = importlib.import_module(module_of(verb)).command
    assert command.name == verb
    assert command.short_help == VERBS[verb]


def test_an_unknown_verb_gets_a_near_match() -> None:
    result = CliRunner().invoke(main, ["staus"])
    assert result.exit_code == 2
    assert result.stderr == "error: no such verb: 'staus'\nhint: did you mean 'status'?\n"
    assert CliRunner().invoke(main, ["zzz"]).stderr.endswith("hint: `recipegen --help` lists the verbs\n")


def test_wrong_usage_is_explained_by_click() -> None:
    result = CliRunner().invoke(main, ["status", "--no-such-option"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: No such option")
    assert result.stderr.endswith("hint: `recipegen status --help` tells how it is used\n")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (JobFailed("it failed", hint="look there"), 4, "error: it failed\nhint: look there\n"),
        (RecipegenError("plain"), 1, "error: plain\n"),
        (
            InputError([Problem(Source("b.yaml", 2, 1), "wrong"), Problem(Source("a.yaml", 1, 1), "odd", "hm")]),
            2,
            "error: a.yaml:1:1: odd; hm\nerror: b.yaml:2:1: wrong\n",
        ),
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, ""),
        (click.exceptions.Exit(7), 7, ""),
    ],
)
def test_what_is_raised_becomes_words_and_an_exit_code(error: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(_raising(error, monkeypatch), ["raise"])
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", text)


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(_raising(ZeroDivisionError("bug"), monkeypatch), ["raise"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_a_reader_that_went_away_is_no_error_of_ours() -> None:
    code = "from recipegen.cli import main; main(['--help'] * 1 + [], prog_name='recipegen')"
    shell = f'set -o pipefail; {sys.executable} -c "{code}" | true; {sys.executable} -c "{code}" >&-'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("{status} >&-", 0),
        ("{status} <&- >&- 2>&-", 0),
        ("{status} --format json >/dev/full", 1),
        ("{nothing} 2>/dev/full", 2),
        ("{nothing} 2>&-", 2),
        ("{nothing} >&- 2>&-", 2),
        ("{usage} 2>/dev/full", 2),
    ],
)
def test_output_that_cannot_be_written_is_said_and_keeps_the_exit_code(shell: str, code: int, tmp_path: Path) -> None:
    command = f"{sys.executable} -m recipegen"
    words = shell.format(status=f"{command} status", nothing=f"{command} status nothing-like-it", usage=f"{command} status --nonsense")
    done = subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, check=False, timeout=60, env=os.environ | {"XDG_STATE_HOME": str(tmp_path)}
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert "Traceback" not in done.stderr
    assert ("the output cannot be written: no space left on device" in done.stderr) == (code == 1)


def test_without_a_home_only_what_needs_one_complains() -> None:
    env = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_STATE_HOME")}
    done = subprocess.run([sys.executable, "-m", "recipegen", "status"], capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith("error: there is no folder to keep runs in")
    done = subprocess.run([sys.executable, "-m", "recipegen", "--help"], capture_output=True, text=True, check=False, timeout=60, env=env)
    assert done.returncode == 0


def _raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> click.Command:
    @click.command(name="raise")
    def command() -> None:
        raise error

    monkeypatch.setattr(type(main), "get_command", lambda _self, _ctx, _name: command)
    monkeypatch.setitem(VERBS, "raise", "Raise.")
    return main
