"""`recipegen import`: what is written, what is said, and what stays untouched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.cli.import_ import _write_all
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
            "2 imported, 0 imported with notes, 0 refused; 2 jobs: 2 points, 0 refused",
        ],
    )
    assert files(out) == ["deep/er/tiny/matrix.yaml", "tiny/matrix.yaml"]
    for verb in ("check", "plan", "render"):
        assert CliRunner().invoke(main, [verb, str(out)]).exit_code == 0


def test_a_file_gives_a_folder_by_its_name(recipes: Path, tmp_path: Path) -> None:
    assert run(recipes / "deep/er/two.yml", "--out", tmp_path / "out").exit_code == 0
    assert files(tmp_path / "out") == ["tiny/matrix.yaml"]


def test_the_machine_of_recipes_that_name_none_is_said_once(recipes: Path, tmp_path: Path) -> None:
    """srtctl 2 may have it from its cluster's file."""
    (recipes / "deep/er/two.yml").write_text(changed(V2, ("gpu_type: gb300, ", "")))
    done = run(recipes, "--out", tmp_path / "a")
    assert done.exit_code == 1
    assert "'resources.gpu_type' is missing; srtctl may have it from its cluster's file" in done.stdout
    assert run(recipes, "--out", tmp_path / "b", "--hardware", "h100").exit_code == 0
    assert [
        f"hardware: {one}" in (tmp_path / "b" / name).read_text()
        for one, name in (("gb300", "tiny/matrix.yaml"), ("{type: h100,", "deep/er/tiny/matrix.yaml"))
    ]
    wrong = run(recipes, "--out", tmp_path / "c", "--hardware", "gb30")
    assert (wrong.exit_code, files(tmp_path / "c")) == (2, [])
    assert "unknown hardware entry 'gb30'" in wrong.stderr


def test_the_report_is_json_for_programs(recipes: Path, tmp_path: Path) -> None:
    (recipes / "bad.yaml").write_text(changed(V1, ("type: vllm", "type: sglang")))
    done = run(recipes, "--out", tmp_path / "out", "--format", "json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1
    assert report["counts"] == {
        "imported": 2,
        "imported with notes": 0,
        "imported in part": 0,
        "refused": 1,
        "skipped": 0,
        "jobs": 3,
        "points": 2,
        "refused_jobs": 1,
    }
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


def test_a_file_that_cannot_be_read_stops_no_other(recipes: Path, tmp_path: Path) -> None:
    (recipes / "gone.yaml").symlink_to("nowhere")
    os.mkfifo(recipes / "pipe.yaml")
    done = run(recipes, "--out", tmp_path / "out")
    assert (done.exit_code, files(tmp_path / "out")) == (1, ["deep/er/tiny/matrix.yaml", "tiny/matrix.yaml"])
    assert f"{recipes}/gone.yaml: refused" in done.stdout
    assert f"  refused: {recipes}/pipe.yaml: not a regular file [srt-file]" in done.stdout
    assert done.stdout.endswith("2 imported, 0 imported with notes, 2 refused; 4 jobs: 2 points, 2 refused\n")


def test_jobs_that_are_refused_are_counted_and_end_in_1(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(changed(V1, ("isl: 8192", 'isl: "{isl}"')) + "sweep: {isl: [0, 8192, -1]}\n")
    done = run(tmp_path / "r.yaml", "--out", tmp_path / "out")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == f"{tmp_path}/r.yaml: imported in part (1 of 3 jobs) -> tiny/matrix.yaml"
    assert done.stdout.splitlines()[-1] == "0 imported, 0 imported with notes, 1 imported in part, 0 refused; 3 jobs: 1 point, 2 refused"
    assert "2 of 3 jobs were refused, in 1 of 1 files" in done.stderr


def test_what_could_not_be_written_is_told_and_the_rest_is_written(recipes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "deep").write_text("in the way")
    done = run(recipes, "--out", out)
    assert (done.exit_code, files(out)) == (2, ["deep", "tiny/matrix.yaml"])
    assert f"{recipes}/deep/er/two.yml: refused" in done.stdout
    assert f"  refused: {out}/deep/er/tiny/matrix.yaml: cannot be written: not a directory [srt-write]" in done.stdout
    assert done.stdout.endswith("1 imported, 0 imported with notes, 1 refused; 2 jobs: 1 point, 1 refused\n")
    assert "1 of 2 matrices could not be written" in done.stderr


def test_matrices_in_a_folder_are_skipped(recipes: Path, tmp_path: Path) -> None:
    assert run(recipes, "--out", recipes / "ours").exit_code == 0
    done = run(recipes, "--out", tmp_path / "out")
    assert (done.exit_code, files(tmp_path / "out")) == (0, ["deep/er/tiny/matrix.yaml", "tiny/matrix.yaml"])
    assert f"{recipes}/ours/tiny/matrix.yaml: skipped" in done.stdout
    assert done.stdout.endswith("2 imported, 0 imported with notes, 0 refused, 2 skipped; 2 jobs: 2 points, 0 refused\n")
    only = run(recipes / "ours", "--out", tmp_path / "more")
    assert (only.exit_code, "nothing was imported" in only.stderr) == (2, True)


def test_an_empty_out_is_refused(recipes: Path) -> None:
    done = run(recipes, "--out", "")
    assert (done.exit_code, "--out is empty" in done.stderr) == (2, True)


def test_of_two_writers_of_one_name_the_first_stays(tmp_path: Path) -> None:
    name = "a/matrix.yaml"
    assert _write_all(tmp_path, {name: b"first"}, force=False) == {}
    lost = _write_all(tmp_path, {name: b"second"}, force=False)
    assert (lost[name].message, (tmp_path / name).read_text()) == ("cannot be written: file exists", "first")
    assert _write_all(tmp_path, {name: b"third"}, force=True) == {}
    assert (tmp_path / name).read_text() == "third"
