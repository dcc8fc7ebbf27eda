"""`recipegen check`, and the same rules before render and submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF, MINIMAL, ROOT, agg_point, matrix_of

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
    shown = run("check", matrix)
    assert "allowed error: " in shown.stdout
    assert "(reason: a build of ours)" in shown.stdout
    assert "1 allowed" in shown.stderr
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


def test_what_the_command_cannot_use_is_said_in_every_format(tmp_path: Path) -> None:
    for output in ("json", "github", "sarif"):
        done = run("check", tmp_path / "none.yaml", "--format", output)
        assert done.exit_code == 2
        assert "argument" in done.stdout
        assert "none.yaml" in done.stderr


def test_a_broken_profile_is_said_with_its_place(matrix: Path) -> None:
    profile = matrix.parent / "oslo.yaml"
    profile.write_text("schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /runs\nstorge: {}\n")
    done = run("check", matrix, "--cluster", profile)
    assert done.exit_code == 2
    assert f"{profile}:5:1: " in done.stderr
    assert "[schema-unknown-key]" in done.stderr
    (finding,) = json.loads(run("check", matrix, "--cluster", profile, "--format", "json").stdout)["findings"]
    assert (finding["rule"], finding["line"]) == ("schema-unknown-key", 5)


def test_the_built_in_cluster_has_nothing_to_check() -> None:
    assert run("check", LEAF, "--cluster", "local").stdout == run("check", LEAF).stdout


def test_plan_shows_its_table_and_refuses(matrix: Path) -> None:
    done = run("plan", matrix)
    assert done.exit_code == 1
    assert "decode 1xTP8+EP" in done.stdout


def test_what_cannot_be_read_is_a_finding_beside_the_others(matrix: Path) -> None:
    (matrix.parent / "sub").mkdir()
    (matrix.parent / "sub" / "matrix.yaml").symlink_to("/proc/self/mem")
    document = json.loads(run("check", matrix.parent, "--format", "json").stdout)
    assert {"argument", "flag-choice"} <= {finding["rule"] for finding in document["findings"]}
    assert run("check", matrix.parent).exit_code == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user to be refused")
def test_a_closed_folder_is_not_passed_over() -> None:
    code = "import os, sys; from recipegen.leaf import find_matrices; from pathlib import Path; os.setuid(65534); print(find_matrices(Path(sys.argv[1])))"
    with TemporaryDirectory(dir="/tmp") as folder:
        for name in ("open", "closed"):
            (Path(folder) / name).mkdir()
            (Path(folder) / name / "matrix.yaml").write_text(GOOD)
        Path(folder).chmod(0o755)
        (Path(folder) / "closed").chmod(0)
        shown = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert "closed/matrix.yaml" in shown
    assert "open/matrix.yaml" in shown


def test_a_hostile_name_begins_no_line(tmp_path: Path) -> None:
    folder = tmp_path / "a\n::error::pwn"
    folder.mkdir()
    (folder / "matrix.yaml").write_text(BAD)
    checks = (("check", folder), ("check", folder, "--format", "github"), ("check", folder, "--point", "x"), ("check", folder / "none"))
    for args in (*checks, ("render", folder), ("plan", folder)):
        done = run(*args)
        assert done.exit_code
        assert not [line for line in (done.stdout + done.stderr).splitlines() if line.lstrip().startswith("::error::pwn")]
    (folder / "matrix.yaml").write_text(GOOD)
    for args in (("render", "--check", folder), ("render", folder), ("render", folder), ("export", folder), ("index", folder)):
        done = run(*args)
        assert not [line for line in (done.stdout + done.stderr).splitlines() if line.lstrip().startswith("::error::pwn")]


def test_a_name_that_is_not_utf8_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff.yaml")
    path.write_text(BAD)
    for output in ("json", "sarif", "github", "text"):
        done = subprocess.run(
            [sys.executable, "-m", "recipegen", "check", os.fsencode(path), "--format", output], capture_output=True, check=False, cwd=ROOT
        )
        assert done.returncode == 1, done.stderr
        assert b"flag-choice" in done.stdout
        done.stdout.decode()


def test_an_empty_option_is_not_an_absent_one() -> None:
    assert run("check", LEAF, "--point", "").exit_code == 2
    assert run("check", LEAF, "--cluster", "").exit_code == 2
    assert run("check", LEAF, "--explain", "all").exit_code == 2


@pytest.mark.parametrize("target", ["nowhere", "matrix.yaml"])
def test_a_link_that_leads_nowhere_is_not_passed_over(tmp_path: Path, target: str) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "matrix.yaml").write_text(GOOD)
    (tmp_path / "matrix.yaml").symlink_to(target)
    done = run("check", tmp_path)
    assert done.exit_code == 2
    assert "[argument]" in done.stdout


def test_other_commands_show_the_first_warnings_and_count_the_rest(tmp_path: Path) -> None:
    for name in map(str, range(12)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "matrix.yaml").write_text(matrix_of(agg_point("1xTP8"), head=MINIMAL.replace("qwen3.8-2.4t-nvfp4", "{repo: Org/New}")))
    done = CliRunner().invoke(main, ["render", str(tmp_path), "--out", str(tmp_path / "out")])
    told = [line for line in done.stderr.splitlines() if "warning" in line]
    assert (len(told), told[-1]) == (11, "2 more warnings; `recipegen check` shows all")
    assert CliRunner().invoke(main, ["check", str(tmp_path)]).stdout.count("model-unpinned") == 12
