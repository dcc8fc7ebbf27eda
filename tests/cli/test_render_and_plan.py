"""`recipegen render` and `recipegen plan` as a terminal sees them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF, MINIMAL, ROOT, agg_point, matrix_of, published_plans

POINT = "1xtp2dep4-1xtp8-mtp-cc32-64"


def recipegen(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    """A copy of the published leaf folder."""
    return Path(shutil.copytree(LEAF, tmp_path / "leaf"))


def edit(leaf: Path, old: str, new: str) -> None:
    text = (leaf / "matrix.yaml").read_text()
    assert old in text
    (leaf / "matrix.yaml").write_text(text.replace(old, new))


def test_the_committed_leaf_is_fresh() -> None:
    result = recipegen("render", "--check", LEAF)
    assert (result.exit_code, result.stdout) == (0, "")
    assert "8 bundles are up to date" in result.stderr


def test_one_edited_value_makes_the_concerned_files_stale(leaf: Path) -> None:
    edit(leaf, "sized_for: 1024", "sized_for: 2048")
    result = recipegen("render", "--check", leaf)
    assert result.exit_code == 1
    folder = leaf / "2xtp2dep4-1xtp4dep4-mtp-cc512"
    export = f"stale: {leaf / 'srt-slurm' / folder.name}.yaml"
    assert result.stdout.splitlines() == [*(f"stale: {folder / name}" for name in ("MANIFEST", "decode.sh", "plan.json")), export]
    assert "recipegen render" in result.stderr


def test_check_finds_what_is_missing_and_orphaned_and_writes_nothing(leaf: Path) -> None:
    (leaf / POINT / "frontend.sh").unlink()
    (leaf / POINT / "extra.sh").write_text("x")
    shutil.copytree(leaf / POINT, leaf / "1xtp1-1xtp1-cc1")
    (leaf / "notes").mkdir()
    (leaf / "notes/mine.txt").write_text("not ours")
    before = {p: p.read_bytes() for p in leaf.rglob("*") if p.is_file()}
    result = recipegen("render", "--check", leaf)
    assert result.exit_code == 1
    assert f"missing: {leaf / POINT / 'frontend.sh'}" in result.stdout
    assert f"orphaned: {leaf / POINT / 'extra.sh'}" in result.stdout
    assert f"orphaned: {leaf / '1xtp1-1xtp1-cc1/MANIFEST'}" in result.stdout
    assert "mine.txt" not in result.stdout
    assert before == {p: p.read_bytes() for p in leaf.rglob("*") if p.is_file()}


def test_clean_removes_orphans_and_nothing_else(leaf: Path) -> None:
    shutil.copytree(leaf / POINT, leaf / "1xtp1-1xtp1-cc1")
    (leaf / "README.md").write_text("mine")
    assert recipegen("render", leaf, "--clean").exit_code == 0
    assert not (leaf / "1xtp1-1xtp1-cc1").exists()
    assert (leaf / "README.md").read_text() == "mine"
    assert recipegen("render", "--check", leaf).exit_code == 0


def test_render_makes_a_new_leaf_whole_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    shutil.copy(LEAF / "matrix.yaml", tmp_path)
    assert recipegen("render", tmp_path).exit_code == 0
    assert recipegen("export", tmp_path).exit_code == 0
    again = recipegen("render", tmp_path)
    assert (again.exit_code, again.stdout) == (0, "")
    rendered = {p.relative_to(tmp_path): p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert rendered == {p.relative_to(LEAF): p.read_bytes() for p in LEAF.rglob("*") if p.is_file()}


def test_one_point_elsewhere(tmp_path: Path) -> None:
    assert recipegen("render", LEAF, "--point", POINT, "--out", tmp_path / "o").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "o").iterdir()) == [POINT, "lib"]


def test_a_tree_keeps_its_shape_in_out(tmp_path: Path) -> None:
    assert recipegen("render", ROOT / "recipes", "--out", tmp_path / "o").exit_code == 0
    assert (tmp_path / "o" / LEAF.relative_to(ROOT / "recipes") / POINT / "job.sbatch").is_file()


def test_a_simulated_leaf_is_never_committed(tmp_path: Path) -> None:
    refused = recipegen("render", LEAF, "--simulate")
    assert refused.exit_code == 2
    assert "--simulate needs --out" in refused.stderr
    assert recipegen("render", LEAF, "--simulate", "--out", tmp_path / "o").exit_code == 0
    assert (tmp_path / "o/simulation/model/tokenizer.json").is_file()


def test_an_unknown_point_is_named_with_a_near_match() -> None:
    for verb in ("render", "plan"):
        result = recipegen(verb, LEAF, "--point", "1xtp8-1xtp8-mtp-cc1")
        assert result.exit_code == 2
        assert "did you mean '1xtp8-1xtp8-mtp-cc1-4'?" in result.stderr


def test_a_matrix_that_does_not_parse_writes_nothing(leaf: Path) -> None:
    edit(leaf, 'time_limit: "2:00:00"', "time_limit: 2:00:00")
    edit(leaf, "1xTP8, mtp", "1xTPP8, mtp")
    result = recipegen("render", leaf, "--clean")
    assert result.exit_code == 2
    assert f"error: {leaf / 'matrix.yaml'}:" in result.stderr


@pytest.mark.parametrize("path", ["/nonexistent/matrix.yaml", "/dev/null"])
def test_a_path_that_is_no_matrix_is_an_error(path: str) -> None:
    assert recipegen("render", path).exit_code == 2


def test_a_folder_without_a_matrix_is_an_error(tmp_path: Path) -> None:
    result = recipegen("plan", tmp_path)
    assert result.exit_code == 2
    assert "no matrix.yaml in it or below it" in result.stderr


def test_plan_prints_what_the_bundle_holds() -> None:
    result = recipegen("plan", LEAF, "--point", POINT, "--format", "json")
    document = json.loads(result.stdout)
    sizes = document.pop("sizes")
    assert document == json.loads((LEAF / POINT / "plan.json").read_text())
    assert [role["role"] for role in sizes] == ["prefill", "decode"]
    assert round(sizes[1]["fits"]["concurrency"], 2) == 192.71
    assert round(sizes[1]["fits"]["study_requests"], 1) == 110.1
    everything = json.loads(recipegen("plan", LEAF, "--format", "json").stdout)
    assert [plan["point"] for plan in everything] == [plan.recipe.point for plan in published_plans()]


def test_plan_for_people_has_a_line_for_each_point_and_each_process() -> None:
    table = recipegen("plan", LEAF).stdout.splitlines()
    assert len(table) == 1 + 8 * 3
    assert table[0].split()[:4] == ["WORKERS", "NODES", "GPUS", "WEIGHTS"]
    assert max(map(len, table)) <= 120
    decode = [line.split() for line in table[1:] if line.startswith("decode ")]
    assert [row[8] for row in decode] == ["303.00", "195.18", "192.71", "315.88", "315.88", "315.94", "315.94", "716.88"]
    studied = ["112.0", "111.5", "110.1", "180.4", "180.4", "180.5", "180.5", "179.2"]
    assert [row[9] for row in decode] == [f"{figure}/759" for figure in studied]
    one = recipegen("plan", LEAF, "--point", POINT).stdout
    assert "4 nodes of 4 GPUs, 2 prefill + 1 decode" in one
    assert "headless" in one
    assert "--data-parallel-hybrid-lb" in one


def test_a_plan_of_a_tree_names_the_matrix_of_a_point_and_says_why_there_are_no_sizes(tmp_path: Path) -> None:
    for name, repo in (("known", "qwen3.8-2.4t-nvfp4"), ("new", "{repo: Org/New}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "matrix.yaml").write_text(matrix_of(agg_point("1xTP8"), head=MINIMAL.replace("qwen3.8-2.4t-nvfp4", repo)))
    done = CliRunner().invoke(main, ["plan", str(tmp_path)])
    assert [line for line in done.stdout.splitlines() if line.startswith("#")] == [
        "# known: 1xtp8-agg-cc64: 2 nodes, 8 GPUs, 1 agg instance",
        "# new: 1xtp8-agg-cc64: 2 nodes, 8 GPUs, 1 agg instance",
    ]
    assert [line.partition(";")[0] for line in done.stderr.splitlines() if line.startswith("not sized")] == [
        "not sized: Org/New (1 point), of whose architecture nothing is known"
    ]
