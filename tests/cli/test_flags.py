"""`recipegen flags extract` as a terminal sees it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.engine.flag_format import parse_flags
from tests.support import ROOT

LISTING = """\
usage: vllm serve [model_tag] [options]

options:
  --headless            Run in headless mode. (default: False)

ModelConfig:
  --dtype {auto,bfloat16}
                        Data type (default: auto)
  --seed SEED           Random seed (default: 0)
"""


def flags(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["flags", *map(str, args)])


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    path = tmp_path / "help.txt"
    path.write_text(LISTING)
    return path


def test_flags_go_to_standard_output(listing: Path) -> None:
    result = flags("extract", listing, "--vllm-version", "0.30.0")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert (data["program"], data["version"], [flag["name"] for flag in data["flags"]]) == ("vllm", "0.30.0", ["dtype", "headless", "seed"])
    assert result.stderr.startswith("vllm 0.30.0: 3 flags\nwarning: vllm 0.29.0 has 292 flags")


def test_flags_go_into_a_file_whole(listing: Path, tmp_path: Path) -> None:
    out = tmp_path / "vllm-0.30.0.json"
    out.write_text("what was there before, and is longer " * 1000)
    result = flags("extract", listing, "--vllm-version", "0.30.0", "--out", out)
    assert (result.exit_code, result.stdout) == (0, f"written: {out}\n")
    assert parse_flags(out.read_text()).version == "0.30.0"
    assert out.read_text() == flags("extract", listing, "--vllm-version", "0.30.0").stdout


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("none.whl", "there is no such file"),
        ("broken.whl", "is no wheel"),
        ("empty.txt", "no flag was found"),
        ("help.txt", "does not say which build"),
    ],
)
def test_an_input_that_cannot_be_used_leaves_the_file_as_it_was(listing: Path, tmp_path: Path, source: str, words: str) -> None:
    (tmp_path / "broken.whl").write_bytes(b"no zip")
    (tmp_path / "empty.txt").write_text("")
    out = tmp_path / "out.json"
    out.write_text("before")
    result = flags("extract", tmp_path / source, "--out", out)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert out.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.whl", "empty.txt", "help.txt", "out.json"]


def test_a_pipe_is_no_listing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = flags("extract", tmp_path / "pipe")
    assert (result.exit_code, "not a regular file" in result.stderr) == (2, True)


def test_a_folder_that_is_not_there_is_told(listing: Path, tmp_path: Path) -> None:
    result = flags("extract", listing, "--vllm-version", "1", "--out", tmp_path / "no" / "out.json")
    assert (result.exit_code, "cannot be written: no such file or directory" in result.stderr) == (2, True)


@pytest.mark.parametrize("version", ["banana", "nightly", "v0.30.0", "0.30.0 or so"])
def test_a_version_that_is_none_is_refused(listing: Path, tmp_path: Path, version: str) -> None:
    result = flags("extract", listing, "--vllm-version", version, "--out", tmp_path / "out.json")
    assert (result.exit_code, result.stdout, (tmp_path / "out.json").exists()) == (2, "", False)
    assert f"'{version}' is no version" in result.stderr


@pytest.mark.parametrize(("count", "warned"), [(10, True), (262, True), (263, False), (292, False)])
def test_far_fewer_flags_than_the_nearest_release_are_warned_of(tmp_path: Path, count: int, warned: bool) -> None:
    names = [flag["name"] for flag in json.loads((ROOT / "recipegen/data/engine_flags/vllm-0.29.0.json").read_text())["flags"]]
    assert len(names) == 292
    path = tmp_path / "help.txt"
    path.write_text("options:\n" + "".join(f"  --{name} X  what it is\n" for name in names[:count]))
    result = flags("extract", path, "--vllm-version", "0.29.1")
    assert result.exit_code == 0
    assert ("warning: vllm 0.29.0 has 292 flags" in result.stderr) is warned


def test_a_folder_of_flags_that_checks_do_not_read_is_told(listing: Path, tmp_path: Path) -> None:
    folder = tmp_path / "recipegen" / "data" / "engine_flags"
    folder.mkdir(parents=True)
    said = flags("extract", listing, "--vllm-version", "0.30.0", "--out", folder / "vllm-0.30.0.json").stderr
    assert "pip install -e ." in said
    assert str(ROOT / "recipegen/data/engine_flags") in said
