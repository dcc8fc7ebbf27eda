"""What every transport keeps to, the one in memory and the one to this machine."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

from recipegen.errors import PathExists, TransportError
from recipegen.files import MOST_BYTES
from recipegen.transport import Transport
from recipegen.transport.local import LocalTransport
from recipegen.transport.scripted import ScriptedTransport


@pytest.fixture(params=["scripted", "local"])
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param == "local":
        return LocalTransport()
    return ScriptedTransport({"sh": lambda argv, stdin: (3, stdin or "", "oops\n")})


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "a space; and 'quotes'")


def test_a_file_comes_back_whole_or_from_an_offset(transport: Transport, root: str) -> None:
    transport.put(f"{root}/deep/er/file", b"hello")
    assert transport.read(f"{root}/deep/er/file") == b"hello"
    assert transport.read(f"{root}/deep/er/file", 3) == b"lo"
    assert transport.read(f"{root}/deep/er/file", 99) == b""
    transport.put(f"{root}/deep/er/file", b"anew")
    assert transport.read(f"{root}/deep/er/file") == b"anew"
    assert transport.list_dir(f"{root}/deep/er") == ["file"]


def test_what_is_not_there_is_none_and_nothing(transport: Transport, root: str) -> None:
    assert transport.read(f"{root}/nothing") is None
    assert transport.list_dir(f"{root}/nothing") == []
    transport.remove_tree(f"{root}/nothing")


def test_a_directory_is_made_once(transport: Transport, root: str) -> None:
    transport.make_dir(f"{root}/runs/one")
    with pytest.raises(PathExists, match="already there"):
        transport.make_dir(f"{root}/runs/one")
    transport.put(f"{root}/runs/one/x/file", b"")
    transport.put(f"{root}/runs/two", b"")
    assert transport.list_dir(f"{root}/runs") == ["one", "two"]
    transport.remove_tree(f"{root}/runs/one")
    assert transport.list_dir(f"{root}/runs") == ["two"]
    assert transport.read(f"{root}/runs/one/x/file") is None


def test_a_command_tells_its_code_and_both_streams(transport: Transport) -> None:
    done = transport.run(["sh", "-c", "cat; echo oops >&2; exit 3"], timeout=10, stdin="in\n")
    assert (done.code, done.stdout, done.stderr) == (3, "in\n", "oops\n")
    assert done.argv[0] == "sh"


def test_a_program_that_is_not_there_is_127(transport: Transport) -> None:
    done = transport.run(["no-such-program-here"], timeout=10)
    assert done.code == 127
    assert "not found" in done.stderr


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(TransportError, match="no answer within"):
        LocalTransport().run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], timeout=0.3)
    state = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    deadline = time.monotonic() + 5
    while state.exists() and ") Z " not in state.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_command_counts_as_in_a_shell() -> None:
    assert LocalTransport().run(["sh", "-c", "kill -KILL $$"], timeout=10).code == 137


def test_undecodable_output_is_replaced() -> None:
    assert LocalTransport().run(["printf", r"a\377b"], timeout=10).stdout == "a\ufffdb"


def test_what_cannot_be_written_says_why() -> None:
    with pytest.raises(TransportError, match="cannot write /dev/null/file: a part of the path is there, and is no directory"):
        LocalTransport().put("/dev/null/file", b"")


def test_a_full_disk_is_told_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TransportError, match="no space left on device") as caught:
        LocalTransport().put(str(tmp_path / "x"), b"data")
    assert "free some space" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(TransportError, match="is a directory"):
        LocalTransport().put(str(tmp_path / "target"), b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


def test_a_file_is_readable_for_others_as_asked(tmp_path: Path) -> None:
    LocalTransport().put(str(tmp_path / "x"), b"", mode=0o750)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o750


@pytest.mark.timeout(20)
def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(TransportError, match="not a regular file"):
            LocalTransport().read(str(tmp_path / name))
    with pytest.raises(TransportError, match="is a directory"):
        LocalTransport().read(str(tmp_path))


def test_a_huge_file_is_read_in_parts(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(10 * MOST_BYTES)
    assert len(LocalTransport().read(str(tmp_path / "huge")) or b"") == MOST_BYTES


@pytest.mark.parametrize("path", ["/tmp/a\0b", "/tmp/\ud800"])
def test_a_path_that_no_file_can_have(path: str) -> None:
    local = LocalTransport()
    for act in (local.read, local.list_dir, local.make_dir, local.remove_tree, lambda name: local.put(name, b"")):
        with pytest.raises(TransportError, match="cannot"):
            act(path)


def test_remove_tree_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    LocalTransport().remove_tree(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
