"""`recipegen flags extract` as a terminal sees it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.engine.flag_format import parse_flags

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
    assert result.stderr == "vllm 0.30.0: 3 flags\n"


def test_flags_go_into_a_file_whole(listing: Path, tmp_path: Path) -> None:
    out = tmp_path / "vllm-0.30.0.json"
    out.write_text("what was there before, and is longer " * 1000)
    result = flags("extract", listing, "--vllm-version", "0.30.0", "--out", out)
    assert (result.exit_code, result.stdout) == (0, "")
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
