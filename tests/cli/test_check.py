"""`recipegen check`, and the same rules before render and submit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF, matrix_of

POINT = '{prefill: 1xTP8, decode: 1xTP8, concurrency: [4], time_limit: "1:00:00"}'
GOOD = matrix_of(POINT)
BAD = GOOD.replace("kv-cache-dtype: fp8", "kv-cache-dtype: fp9")
UNUSABLE = GOOD.replace("isl: 8192", "isl: many")


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, args)))


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.yaml"
    path.write_text(BAD)
    return path


def test_the_published_leaf_is_clean() -> None:
    done = run("check", LEAF)
    assert done.exit_code == 0
    assert "error" not in done.stdout
    assert "warning" not in done.stdout


def test_an_error_is_one_line_with_place_and_rule_and_exit_1(matrix: Path) -> None:
    done = run("check", matrix)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("error:")]
    assert line.startswith(f"error: {matrix}:12:26: ")
    assert line.endswith("[flag-choice]")
    assert "fp8" in line
    assert done.exit_code == 1
    assert "1 error" in done.stderr


def test_input_that_cannot_be_used_is_exit_2_in_every_format(matrix: Path) -> None:
    matrix.write_text(UNUSABLE)
    for output in ("text", "json", "github", "sarif"):
        done = run("check", matrix, "--format", output)
        assert done.exit_code == 2
        assert "schema-type" in done.stdout


@pytest.mark.parametrize("verb", [("render",), ("render", "--check")])
def test_render_refuses_and_writes_nothing(matrix: Path, verb: tuple[str, ...]) -> None:
    done = run(*verb, matrix)
    assert done.exit_code == 1
    assert "[flag-choice]" in done.stderr
    assert list(matrix.parent.iterdir()) == [matrix]


def test_submit_refuses(matrix: Path) -> None:
    done = run("submit", matrix, "--point", "1xtp8-1xtp8-cc4", "--simulate")
    assert done.exit_code == 1
    assert "[flag-choice]" in done.stderr
    assert done.stdout == ""


def test_what_the_matrix_allows_is_shown_by_check_alone(matrix: Path) -> None:
    matrix.write_text(BAD + "allow:\n  - {rule: flag-choice, reason: a build of ours}\n")
    assert "(allowed: a build of ours)" in run("check", matrix).stdout
    done = run("render", matrix)
    assert done.exit_code == 0
    assert "flag-choice" not in done.stderr


def test_json_counts(matrix: Path) -> None:
    document = json.loads(run("check", matrix, "--format", "json").stdout)
    assert document["errors"] == 1
    assert document["files"] == [str(matrix)]


def test_a_tree_is_checked_whole(matrix: Path) -> None:
    for name in ("a", "b"):
        (matrix.parent / name).mkdir()
        (matrix.parent / name / "matrix.yaml").write_text(BAD)
    assert json.loads(run("check", matrix.parent, "--format", "json").stdout)["errors"] == 3


def test_a_rule_is_explained() -> None:
    done = run("check", "--explain", "pd-block-size")
    assert done.exit_code == 0
    assert done.stdout.startswith("pd-block-size (")
    assert run("check", "--explain", "nothing").exit_code == 2
    assert run("check").exit_code == 2
