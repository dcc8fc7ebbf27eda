"""`recipegen import`: what is written, what is said, and what stays untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.unit.srtslurm.recipes import V1, V2, changed


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["import", *map(str, args)])


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    for name, text in {"one.yaml": V1, "deep/er/two.yml": V2, "README.md": "not a recipe"}.items():
        path = tmp_path / "recipes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "recipes"


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def test_a_tree_gives_a_tree_that_check_plan_and_render_take(recipes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(recipes, "--out", out)
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            f"{recipes}/deep/er/two.yml: imported -> deep/er/tiny/matrix.yaml",
            "  carried: model.precision",
            f"{recipes}/one.yaml: imported -> tiny/matrix.yaml",
            "  carried: model.precision",
            "2 imported, 0 imported with notes, 0 refused, 2 jobs, 2 points",
        ],
    )
    assert files(out) == ["deep/er/tiny/matrix.yaml", "tiny/matrix.yaml"]
    for verb in ("check", "plan", "render"):
        assert CliRunner().invoke(main, [verb, str(out)]).exit_code == 0


def test_a_file_gives_a_folder_by_its_name(recipes: Path, tmp_path: Path) -> None:
    assert run(recipes / "deep/er/two.yml", "--out", tmp_path / "out").exit_code == 0
    assert files(tmp_path / "out") == ["tiny/matrix.yaml"]


def test_the_report_is_json_for_programs(recipes: Path, tmp_path: Path) -> None:
    (recipes / "bad.yaml").write_text(changed(V1, ("type: vllm", "type: sglang")))
    done = run(recipes, "--out", tmp_path / "out", "--format", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert report["counts"] == {"imported": 2, "imported with notes": 0, "refused": 1, "jobs": 3, "points": 2}
    (bad,) = [one for one in report["files"] if one["outcome"] == "refused"]
    assert bad["refused"] == [
        {"variant": "", "problems": [{"file": str(recipes / "bad.yaml"), "line": 19, "column": 9, "rule": "srt-unsupported",
                                      "message": "'backend.type' is the text 'sglang'; only vllm is supported"}]}
    ]  # fmt: skip


def test_matrices_that_are_there_stay_unless_forced(recipes: Path, tmp_path: Path) -> None:
    there = tmp_path / "out/tiny/matrix.yaml"
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    done = run(recipes, "--out", tmp_path / "out")
    assert (done.exit_code, files(tmp_path / "out"), there.read_text()) == (2, ["tiny/matrix.yaml"], "mine")
    assert "already there; nothing was written" in done.stderr
    assert run(recipes, "--out", tmp_path / "out", "--force").exit_code == 0
    assert there.read_text().startswith("# Imported from srt-slurm: one.yaml")


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [("", 2, "nothing is here"), ("a: [", 2, "does not fit here"), (changed(V1, ("type: vllm", "type: trtllm")), 2, "only vllm is supported")],
)
def test_nothing_imported_is_an_error(tmp_path: Path, text: str, code: int, words: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    done = run(tmp_path / "r.yaml", "--out", tmp_path / "out")
    assert (done.exit_code, files(tmp_path / "out")) == (code, [])
    assert words in done.stdout
    assert "nothing was imported" in done.stderr


def test_paths_without_recipes_are_errors(tmp_path: Path) -> None:
    for path, words in ((tmp_path, "no recipe (*.yaml) in it or below it"), (tmp_path / "none.yaml", "no such file")):
        done = run(path, "--out", tmp_path / "out")
        assert (done.exit_code, words in done.stderr) == (2, True)
