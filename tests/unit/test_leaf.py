"""Leaf folders as people leave them: links, pipes, devices, things in each other's place, two writers at once."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recipegen.errors import InputError
from recipegen.leaf import compare, find_matrices, leaf_files, read_matrix, remove, write
from recipegen.pipeline import render_plans
from tests.support import LEAF, published_plans

POINT = "1xtp8-1xtp8-mtp-cc1-4"


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return leaf_files(render_plans(published_plans()[:1]))


def test_a_linked_folder_is_not_ours_to_clean(tmp_path: Path, files: dict[str, bytes]) -> None:
    leaf, precious = tmp_path / "leaf", tmp_path / "precious"
    write(leaf, files)
    shutil.copytree(LEAF / POINT, precious)
    (leaf / "link").symlink_to(precious)
    (leaf / POINT / "notes").symlink_to(precious)
    differences = compare(leaf, files)
    assert differences.orphaned == (f"{POINT}/notes",)
    remove(leaf, differences.orphaned)
    assert sorted(p.name for p in precious.iterdir()) == sorted(p.name for p in (LEAF / POINT).iterdir())
    assert not compare(leaf, files)


@pytest.mark.parametrize("name", ["lib", POINT])
def test_a_link_in_the_place_of_our_folder_is_refused(tmp_path: Path, files: dict[str, bytes], name: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="not a folder of its own"):
        compare(tmp_path, files)


def test_things_in_each_other_s_place_are_named(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / POINT / "job.sbatch").mkdir(parents=True)
    with pytest.raises(InputError, match=r"job.sbatch: not a file, where a bundle has one"):
        compare(tmp_path, files)
    shutil.rmtree(tmp_path / POINT)
    (tmp_path / POINT).write_text("a file")
    with pytest.raises(InputError, match=f"{POINT}: not a folder of its own"):
        compare(tmp_path, files)


@pytest.mark.parametrize(
    "path",
    ["x" * 300, "/tmp/" + "x/" * 3000, "a\0b", "/dev/null/matrix.yaml", "/nonexistent"],
    ids=["long name", "long path", "NUL", "below a file", "nothing"],
)
def test_a_path_that_cannot_be_is_an_input_error(path: str) -> None:
    with pytest.raises(InputError):
        find_matrices(Path(path))


def test_pipes_and_devices_are_no_matrices(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(InputError, match="neither a file nor a folder"):
            find_matrices(tmp_path / name)
        with pytest.raises(InputError, match="not a regular file"):
            read_matrix(tmp_path / name)


def test_a_pipe_among_the_manifests_hangs_nobody(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other/MANIFEST")
    assert compare(tmp_path, files).orphaned == ()


def test_a_file_where_the_leaf_should_be(tmp_path: Path, files: dict[str, bytes]) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(InputError, match="out"):
        write(tmp_path / "out", files)


def test_several_writers_at_once_leave_whole_files(tmp_path: Path, files: dict[str, bytes]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: write(tmp_path, files), range(24)))
    assert not compare(tmp_path, files)
