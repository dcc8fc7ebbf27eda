"""`recipegen export`: what is written where, what is said, and what stays untouched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.cli.export import FORMATS
from recipegen.cli.export_folders import ExportFolder, committed_exports
from recipegen.launch import LaunchPlan
from recipegen.pipeline import plan_matrix
from recipegen.srtslurm.export import FORMS
from tests.support import LEAF, agg_point, matrix_of


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, args)])


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    (tmp_path / "tree/leaf").mkdir(parents=True)
    (tmp_path / "tree/leaf/matrix.yaml").write_text(matrix_of(agg_point("1xTP8DP2"), agg_point("2xTP8DP2")))
    return tmp_path / "tree/leaf"


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def points(leaf: Path) -> list[str]:
    return [plan.recipe.point for plan in plan_matrix((leaf / "matrix.yaml").read_bytes(), "matrix.yaml")]


def test_the_formats_offered_are_those_there_are() -> None:
    assert tuple(FORMS) == FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_a_tree_gets_a_file_a_point_beside_its_matrices(leaf: Path, form: str) -> None:
    if form == "inferencex":
        (leaf / "matrix.yaml").write_bytes((LEAF / "matrix.yaml").read_bytes())
    done = run(leaf.parent, "--format", form)
    files = [f"{FORMS[form].folder}/{point}{FORMS[form].ending}" for point in points(leaf)]
    assert (done.exit_code, sorted(done.stdout.splitlines())) == (0, sorted(f"written: {leaf}/{name}" for name in files))
    assert names(leaf) == sorted(["matrix.yaml", *files])
    again = run(leaf.parent, "--format", form, "--check")
    assert (again.exit_code, again.stdout) == (0, "")
    assert again.stderr.endswith("up to date\n")
    if form != "commands":
        assert all(isinstance(yaml.safe_load((leaf / name).read_text()), dict) for name in files)


def test_the_default_is_the_first_layout_of_srt_slurm(leaf: Path) -> None:
    assert run(leaf / "matrix.yaml").exit_code == 0
    first = (leaf / "srt-slurm" / f"{points(leaf)[0]}.yaml").read_bytes()
    assert run(leaf, "--format", "srt-slurm-v1").stdout == ""
    assert b"vllm_config" in first


def test_another_folder_and_a_single_point(leaf: Path, tmp_path: Path) -> None:
    point = points(leaf)[1]
    assert run(leaf.parent, "--out", tmp_path / "out", "--point", point).exit_code == 0
    assert names(tmp_path / "out") == [f"leaf/srt-slurm/{point}.yaml"]
    assert names(leaf) == ["matrix.yaml"]
    assert run(leaf.parent, "--out", tmp_path / "out", "--point", point, "--check").exit_code == 0


def test_a_check_tells_what_is_stale_missing_and_orphaned_and_writes_nothing(leaf: Path) -> None:
    run(leaf)
    one, two = (leaf / "srt-slurm" / f"{point}.yaml" for point in points(leaf))
    two.rename(two.with_name("gone.yaml"))
    one.write_text(one.read_text() + "# more\n")
    (leaf / "srt-slurm/README.yaml").write_text("mine: 1\n")
    before = {name: (leaf / name).read_bytes() for name in names(leaf)}
    done = run(leaf, "--check")
    assert done.exit_code == 1
    assert sorted(done.stdout.splitlines()) == [f"missing: {two}", f"orphaned: {leaf}/srt-slurm/gone.yaml", f"stale: {one}"]
    assert {name: (leaf / name).read_bytes() for name in names(leaf)} == before
    assert run(leaf).exit_code == 0
    assert (leaf / "srt-slurm/gone.yaml").exists()
    (leaf / "srt-slurm/gone.yaml").unlink()
    assert run(leaf, "--check").exit_code == 0


def test_somebodys_own_file_stays(leaf: Path) -> None:
    own = leaf / "srt-slurm" / f"{points(leaf)[0]}.yaml"
    own.parent.mkdir()
    own.write_text("name: mine\n")
    done = run(leaf)
    assert "not a file that recipegen exported" in done.stderr
    assert done.exit_code
    assert own.read_text() == "name: mine\n"


def test_somebodys_own_file_in_one_leaf_stops_the_others_before_anything_is_written(leaf: Path) -> None:
    other = leaf.parent / "other"
    (other / "srt-slurm").mkdir(parents=True)
    (other / "matrix.yaml").write_bytes((leaf / "matrix.yaml").read_bytes())
    (other / "srt-slurm" / f"{points(leaf)[0]}.yaml").write_text("name: mine\n")
    assert run(leaf.parent).exit_code == 2
    assert names(leaf) == ["matrix.yaml"]


def test_errors_and_what_cannot_be_said_export_nothing(leaf: Path) -> None:
    text = (leaf / "matrix.yaml").read_text()
    for changed, message in ((text + "benchmark: {type: aiperf}\n", "srtctl has no benchmark 'aiperf'"), (text.replace("1xTP8DP2", "1xTP4"), "")):
        (leaf / "matrix.yaml").write_text(changed)
        done = run(leaf)
        assert done.exit_code
        assert message in done.stderr
        assert names(leaf) == ["matrix.yaml"]


def test_what_a_leaf_holds_of_exports_is_compared(leaf: Path) -> None:
    plans = plan_matrix((leaf / "matrix.yaml").read_bytes(), "matrix.yaml")
    assert committed_exports([(leaf, plans)], only_point=False) == []
    run(leaf, "--point", plans[0].recipe.point)
    run(leaf, "--format", "commands")
    assert [folder.differences.missing for folder in stale(leaf, plans)] == [(f"srt-slurm/{plans[1].recipe.point}.yaml",)]
    run(leaf)
    assert stale(leaf, plans) == []
    orphaned = [folder.differences.orphaned for folder in stale(leaf, plans[:1])]
    assert orphaned == [(f"srt-slurm/{plans[1].recipe.point}.yaml",), (f"commands/{plans[1].recipe.point}.sh",)]
    assert stale(leaf, plans[:1], only_point=True) == []


def stale(leaf: Path, plans: Sequence[LaunchPlan], *, only_point: bool = False) -> list[ExportFolder]:
    return [folder for folder in committed_exports([(leaf, plans)], only_point=only_point) if folder.differences]


def test_all_that_a_form_cannot_say_of_a_tree_is_said_at_once(leaf: Path) -> None:
    other = leaf.parent / "other"
    other.mkdir()
    for folder in (leaf, other):
        (folder / "matrix.yaml").write_text(matrix_of(agg_point("1xTP8")) + "benchmark: {type: aiperf}\n")
    done = run(leaf.parent)
    assert done.exit_code == 2
    assert [f"{folder}/matrix.yaml" in done.stderr for folder in (leaf, other)] == [True, True]
    assert names(leaf.parent) == ["leaf/matrix.yaml", "other/matrix.yaml"]


def test_a_clean_rendering_takes_the_exports_of_points_that_are_gone(leaf: Path) -> None:
    run(leaf)
    gone = points(leaf)[1]
    (leaf / "matrix.yaml").write_text(matrix_of(agg_point("1xTP8DP2")))
    assert CliRunner().invoke(main, ["render", str(leaf)]).exit_code == 0
    assert f"srt-slurm/{gone}.yaml" in names(leaf)
    assert f"removed: {leaf}/srt-slurm/{gone}.yaml" in CliRunner().invoke(main, ["render", str(leaf), "--clean"]).stdout
    assert CliRunner().invoke(main, ["render", str(leaf), "--check"]).exit_code == 0


def test_points_that_a_form_cannot_say_are_left_out_where_that_is_wanted(leaf: Path) -> None:
    """A leaf with such exports stays fresh without them."""
    disaggregated = '{prefill: 1xTP8, decode: 1xTP8, concurrency: [4], time_limit: "1:00:00"}'
    (leaf / "matrix.yaml").write_text(matrix_of(agg_point("1xTP8"), disaggregated))
    refused = run(leaf, "--format", "inferencex")
    assert (refused.exit_code, names(leaf)) == (2, ["matrix.yaml"])
    assert "--skip leaves such points out" in refused.stderr
    done = run(leaf, "--format", "inferencex", "--skip")
    assert (done.exit_code, names(leaf)) == (0, ["inferencex/1xtp8-1xtp8-cc4.yaml", "matrix.yaml"])
    assert "1 of 2 points left out, as inferencex cannot say: point 1xtp8-agg-cc64 is aggregated" in done.stderr
    assert CliRunner().invoke(main, ["render", str(leaf)]).exit_code == 0
    assert CliRunner().invoke(main, ["render", str(leaf), "--check"]).exit_code == 0


def test_a_folder_that_is_something_else_is_refused(leaf: Path, tmp_path: Path) -> None:
    (leaf / "srt-slurm").write_text("a file")
    assert run(leaf).exit_code == 2
    (leaf / "srt-slurm").unlink()
    (tmp_path / "elsewhere").mkdir()
    (leaf / "srt-slurm").symlink_to(tmp_path / "elsewhere")
    assert run(leaf).exit_code == 2
    assert names(tmp_path / "elsewhere") == []
