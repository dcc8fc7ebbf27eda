"""A variable that a recipe may set reaches a process as it was written, whatever bash makes of its name."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from recipegen.job_variables import why_reserved

OTHERS = (
    "COLUMNS",
    "COPROC",
    "HISTFILE",
    "LINES",
    "MAPFILE",
    "OLDPWD",
    "OPTARG",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS1",
    "PWD",
    "REPLY",
    "TIMEFORMAT",
)


def names_of_bash() -> list[str]:
    done = subprocess.run(["bash", "-c", "compgen -v"], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    return sorted({*done.stdout.split(), *OTHERS})


def test_bash_has_names_of_its_own() -> None:
    assert {"RANDOM", "SECONDS", "BASH_VERSION"} <= {*names_of_bash()}


@pytest.mark.parametrize("name", [name for name in names_of_bash() if not why_reserved(name)])
def test_a_name_that_is_bash_s_own_and_free_keeps_its_value(name: str, tmp_path: Path) -> None:
    value = f"NODE_RANK[$(touch {tmp_path}/ran)0] a"
    script = f"set -euo pipefail; NODE_RANK=0; args=(a b); export {name}={shlex.quote(value)}; [[ ${{#args[@]}} == 2 ]]; exec /usr/bin/env"
    done = subprocess.run(["bash", "-c", script], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    assert f"{name}={value}\n" in done.stdout, done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "name", ["RANDOM", "SRANDOM", "HISTCMD", "OPTIND", "SECONDS", "LINENO", "BASH_XTRACEFD", "_", "args", "DYN_NAMESPACE", "MODEL"]
)
def test_names_that_would_run_code_or_lose_their_value_are_refused(name: str) -> None:
    assert why_reserved(name)
