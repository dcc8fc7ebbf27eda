"""Files of this machine: written whole, read only where they are files, and what the system says when it refuses."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 64 * 1024 * 1024
"""How much of a file is read at once: far more than any of ours holds."""


@contextlib.contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Make the folder of a file that is then written; where that fails, the folders made for it go again."""
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise


def replace_file(path: Path, data: bytes, *, mode: int, sync: bool = False) -> None:
    """Write into a temporary file beside the target and rename: a reader sees the old or the new, and two writers leave one of both.

    The folder must be there. With `sync` the bytes are on the disk before the name is. An OSError where something other than a
    regular file has the name: a device or a link would be gone.
    """
    if os.path.lexists(path):
        _require_regular(os.lstat(path).st_mode, str(path))
    with _beside(path, data, mode=mode, sync=sync) as temporary:
        os.replace(temporary, path)


def create_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that must not be there, whole or not at all: of two writers one has the name, and the other a FileExistsError.

    The folder must be there. Where the file system has no hard links, a kill at the worst moment leaves an empty file.
    """
    with _beside(path, data, mode=mode) as temporary:
        try:
            os.link(temporary, path)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
                raise
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.replace(temporary, path)


@contextlib.contextmanager
def _beside(path: Path, data: bytes, *, mode: int, sync: bool = False) -> Iterator[str]:
    """A whole temporary file beside the target, gone in the end; errors name the target."""
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".new", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if sync:
                os.fsync(file.fileno())
        yield temporary
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def read_regular(path: str, offset: int = 0, *, most: int = MOST_BYTES) -> bytes:
    """Return what a regular file holds, at most `most` bytes of it; an OSError for a pipe or a device, which might never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _require_regular(os.fstat(handle).st_mode, path)
        with open(handle, "rb", closefd=False) as file:
            file.seek(offset)
            return file.read(most)
    finally:
        os.close(handle)


def _require_regular(mode: int, path: str) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


def reason(error: OSError) -> str:
    """Return the system's words, as a clause."""
    return (error.strerror or str(error)).lower()
