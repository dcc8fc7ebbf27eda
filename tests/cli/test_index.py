"""`recipegen index`: written, checked, and never over somebody's own file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.review.index import MARKER
from tests.support import agg_point, matrix_of


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["index", *map(str, args)])


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("b", "a/deep"):
        (tmp_path / "recipes" / name).mkdir(parents=True)
        (tmp_path / "recipes" / name / "matrix.yaml").write_text(matrix_of(agg_point("TP8")))
    return tmp_path / "recipes"


def test_it_is_written_beside_the_recipes_and_fresh_then(tree: Path) -> None:
    missing = run(tree, "--check")
    assert (missing.exit_code, missing.stdout) == (1, f"missing: {tree}/README.md\n")
    written = run(tree)
    assert (written.exit_code, written.stdout) == (0, f"written: {tree}/README.md\n")
    text = (tree / "README.md").read_text()
    assert text.startswith(MARKER)
    assert text.index("[a/deep](a/deep/matrix.yaml)") < text.index("[b](b/matrix.yaml)")
    assert run(tree, "--check").exit_code == 0
    assert (run(tree).stdout, (tree / "README.md").read_text()) == ("", text)


def test_a_change_of_a_matrix_makes_it_stale(tree: Path) -> None:
    run(tree)
    (tree / "b/matrix.yaml").write_text(matrix_of(agg_point("TP8"), agg_point("TP4")))
    stale = run(tree, "--check")
    assert (stale.exit_code, stale.stdout) == (1, f"stale: {tree}/README.md\n")
    assert f"recipegen index {tree}" in stale.stderr
    assert run(tree).stdout == f"updated: {tree}/README.md\n"
    assert run(tree, "--check").exit_code == 0


def test_somebodys_own_file_stays(tree: Path) -> None:
    (tree / "README.md").write_text("# Ours\n")
    done = run(tree)
    assert done.exit_code == 2
    assert "not an index that recipegen wrote" in done.stderr
    assert (tree / "README.md").read_text() == "# Ours\n"


def test_links_lead_from_the_file_to_the_matrices(tree: Path) -> None:
    out = tree.parent / "docs"
    out.mkdir()
    assert run(tree, "--out", out / "index.md").exit_code == 0
    assert "[../recipes/b](../recipes/b/matrix.yaml)" in (out / "index.md").read_text()


def test_it_is_printed_where_that_is_asked_for(tree: Path) -> None:
    assert run(tree, "--out", "-").stdout.startswith(MARKER)
    assert [entry["path"] for entry in json.loads(run(tree, "--format", "json").stdout)] == ["a/deep/matrix.yaml", "b/matrix.yaml"]
    assert [line.split()[0] for line in run(tree, "--format", "text").stdout.splitlines()] == ["RECIPE", "a/deep", "b"]
    assert not (tree / "README.md").exists()


def test_a_broken_matrix_is_a_row_and_is_told(tree: Path) -> None:
    (tree / "b/matrix.yaml").write_text("schema: [\n")
    done = run(tree, "--out", "-")
    assert "cannot be used: 1 error" in done.stdout
    assert "[yaml-syntax]" in done.stderr


def test_a_check_of_another_format_is_refused(tree: Path) -> None:
    assert run(tree, "--check", "--format", "json").exit_code == 2
    assert run(tree / "nothing").exit_code == 2
