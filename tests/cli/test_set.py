"""`recipegen set`: one value in a file, checked before it is written."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.cli.matrix_lock import locked
from recipegen.cli.set import write
from recipegen.errors import InputError
from recipegen.review.edit import Edited
from tests.support import matrix_of

POINT = '{prefill: 1xTP8, decode: 1xTP8, concurrency: [4], time_limit: "1:00:00"}'
GOOD = matrix_of(f"{POINT} # measured")


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["set", *map(str, args)])


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "leaf/matrix.yaml"
    path.parent.mkdir()
    path.write_text(GOOD)
    path.chmod(0o640)
    return path


def test_a_value_is_set_and_told(matrix: Path) -> None:
    done = run(matrix.parent, "points[0].concurrency=[4, 8]", "runtime.dynamo.version=1.2.2")
    assert done.exit_code == 0
    assert matrix.read_text() == GOOD.replace("[4]", "[4, 8]").replace("1.2.1", "1.2.2")
    assert stat.S_IMODE(matrix.stat().st_mode) == 0o640
    assert done.stdout.splitlines() == [
        f"{matrix}:15:50: points[0].concurrency: [4] -> [4, 8]",
        f"{matrix}:9:21: runtime.dynamo.version: 1.2.1 -> 1.2.2",
    ]
    assert "recipegen render" in done.stderr


def test_a_point_is_named(matrix: Path) -> None:
    assert run(matrix, "points[1xtp8-1xtp8-cc4].sized_for=64", "--add").exit_code == 0
    assert matrix.read_text() == GOOD.replace('"1:00:00"}', '"1:00:00", sized_for: 64}')


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["points[0].sized_for=64"], 2, "--add adds a key"),
        (["points[0].sized=64", "--add"], 2, "points[0]: unknown key 'sized'; did you mean 'sized_for'? [schema-unknown-key]"),
        (["workload.isl=many"], 2, "workload.isl: expected an integer, found the string 'many' [schema-type]"),
        (["points[0].decode=TP0"], 2, "[topology-notation]"),
        (["workload.osl=512", "model=qwen3.8-2.4t-nvfp5"], 2, "did you mean 'qwen3.8-2.4t-nvfp4'? [model-unknown]"),
        (["common.args.kv-cache-dtype=fp9"], 1, "[flag-choice]"),
        (["common.args.max-num-seq=5", "--add"], 1, "did you mean 'max-num-seqs'? [flag-unknown]"),
        (["nonsense"], 2, "sets nothing"),
        (["points[1xtp8-1xtp8-cc5].mtp=1"], 2, "did you mean '1xtp8-1xtp8-cc4'?"),
    ],
)
def test_what_makes_the_file_worse_is_not_written(matrix: Path, arguments: list[str], code: int, words: str) -> None:
    done = run(matrix, *arguments)
    assert done.exit_code == code
    assert words in done.stderr
    assert done.stdout == ""
    assert matrix.read_text() == GOOD
    assert list(matrix.parent.iterdir()) == [matrix]


def test_an_error_of_checks_can_be_forced_but_not_what_cannot_be_read(matrix: Path) -> None:
    assert run(matrix, "--force", "workload.isl=many").exit_code == 2
    assert matrix.read_text() == GOOD
    done = run(matrix, "--force", "common.args.kv-cache-dtype=fp9")
    assert done.exit_code == 0
    assert "[flag-choice]" in done.stderr
    assert "kv-cache-dtype: fp9," in matrix.read_text()


def test_errors_that_were_there_before_do_not_stop_an_edit(matrix: Path) -> None:
    matrix.write_text(GOOD.replace("fp8", "fp9"))
    assert run(matrix, "points[0].concurrency=[8]").exit_code == 0
    assert run(matrix, "common.args.kv-cache-dtype=fp8").exit_code == 0
    assert matrix.read_text() == GOOD.replace("[4]", "[8]")


def test_a_file_that_cannot_be_used_can_be_mended(matrix: Path) -> None:
    matrix.write_text(GOOD.replace("isl: 8192", "isl: many"))
    assert run(matrix, "workload.isl=8192").exit_code == 0
    assert matrix.read_text() == GOOD


def test_a_dry_run_prints_the_difference(matrix: Path) -> None:
    done = run(matrix, "points[0].concurrency=[8]", "--dry-run")
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line[:1] in "+-"][2:] == [
        f"-  - {POINT} # measured",
        f"+  - {POINT.replace('[4]', '[8]')} # measured",
    ]
    assert matrix.read_text() == GOOD


def test_a_link_stays_one(matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "link.yaml").symlink_to(matrix)
    assert run(tmp_path / "link.yaml", "points[0].concurrency=[8]").exit_code == 0
    assert (tmp_path / "link.yaml").is_symlink()
    assert "concurrency: [8]" in matrix.read_text()


def test_values_are_set_in_one_matrix(matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/matrix.yaml").write_text(GOOD)
    done = run(tmp_path, "name=x")
    assert done.exit_code == 2
    assert "2 matrices" in done.stderr


ORDERS = ("workload.isl=4096", "workload.osl=512", "points[0].concurrency=[8]", "runtime.dynamo.version=1.2.2", "name=other")


def test_several_at_once_lose_nothing(matrix: Path) -> None:
    command = [sys.executable, "-m", "recipegen", "set", str(matrix)]
    running = [subprocess.Popen([*command, order], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for order in ORDERS]
    assert [(process.communicate(timeout=100)[1], process.returncode)[1] for process in running] == [0] * len(ORDERS)
    expected = GOOD.replace("isl: 8192", "isl: 4096").replace("osl: 1024", "osl: 512").replace("[4]", "[8]").replace("1.2.1", "1.2.2")
    assert matrix.read_text() == expected.replace("name: tiny", "name: other")
    assert list(matrix.parent.iterdir()) == [matrix]


def test_a_file_that_an_editor_saves_meanwhile_is_not_overwritten(matrix: Path) -> None:
    mine = matrix.read_bytes()
    matrix.write_text(GOOD.replace("measured", "saved"))
    with pytest.raises(InputError, match="the file has changed meanwhile; nothing was written") as raised:
        write(matrix, matrix, mine, Edited(mine.replace(b"8192", b"4096"), ()))
    assert raised.value.hint == "try again"
    assert matrix.read_text() == GOOD.replace("measured", "saved")
    assert list(matrix.parent.iterdir()) == [matrix]


def test_a_lock_that_another_keeps_ends_the_wait(matrix: Path) -> None:
    with (
        locked(matrix),
        pytest.raises(InputError, match="another process is setting values in it"),
        locked(matrix, wait_s=0.1),
    ):
        raise AssertionError("both have the lock")
    with locked(matrix, wait_s=0.0), locked(matrix.parent / "none", wait_s=0.0):
        pass
    assert list(matrix.parent.iterdir()) == [matrix]


def test_the_lock_follows_a_file_that_was_replaced(matrix: Path) -> None:
    with locked(matrix):
        (matrix.parent / "new").write_text(GOOD)
        (matrix.parent / "new").replace(matrix)
        with locked(matrix, wait_s=0.0):
            pass


def test_an_endless_index_is_no_entry(matrix: Path) -> None:
    done = run(matrix, f"points[{'9' * 5000}].mtp=1")
    assert (done.exit_code, "there is no [999" in done.stderr) == (2, True)
    assert done.exception is None or isinstance(done.exception, SystemExit)
