"""Files are written whole, or nothing of them stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipegen.files import create_file, folder_for, replace_file


def test_folders_that_were_made_for_a_file_go_when_it_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there/a/b/file"
    with pytest.raises(OSError, match="No space left"), folder_for(target):
        raise OSError(28, "No space left on device")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["there"]


def test_folders_with_something_in_them_stay(tmp_path: Path) -> None:
    target = tmp_path / "a/b/file"
    with pytest.raises(OSError, match="Is a directory"), folder_for(target):
        write_over_a_folder(tmp_path / "a/other")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "other"]
    with folder_for(target):
        replace_file(target, b"x", mode=0o644)
    assert target.read_bytes() == b"x"


def write_over_a_folder(path: Path) -> None:
    path.mkdir()
    path.write_text("")


def test_a_file_is_created_once_and_whole(tmp_path: Path) -> None:
    create_file(tmp_path / "a", b"one", mode=0o640)
    assert ((tmp_path / "a").read_bytes(), (tmp_path / "a").stat().st_mode & 0o777) == (b"one", 0o640)
    with pytest.raises(FileExistsError) as refused:
        create_file(tmp_path / "a", b"two", mode=0o644)
    assert refused.value.filename == str(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"one"


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refused:
        replace_file(tmp_path / "no/a", b"", mode=0o644)
    assert refused.value.filename == str(tmp_path / "no/a")
