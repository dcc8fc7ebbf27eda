"""Lets one `recipegen set` after the other at a matrix: each reads what the one before it wrote."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recipegen.errors import InputError

WAIT_S = 30.0
_STEP_S = 0.02


@contextmanager
def locked(target: Path, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a file that is replaced, not written into. InputError when another process keeps it for `wait_s` seconds.

    The lock is on the file itself: it leaves nothing behind, and ends with the process. Without one where the file cannot be opened
    (whoever reads it says why) or its file system has no locks: compare what the file holds before it is replaced.
    """
    until = time.monotonic() + wait_s
    handle = _opened(target)
    try:
        while handle is not None and not _is_held(handle, target):
            if time.monotonic() > until:
                raise InputError(f"{target}: another process is setting values in it; nothing was written", hint="try again")
            time.sleep(_STEP_S)
            os.close(handle)
            handle = _opened(target)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _opened(target: Path) -> int | None:
    """A handle; for reading and writing where that is allowed, for NFS asks for it."""
    for mode in (os.O_RDWR, os.O_RDONLY):
        with suppress(OSError):
            return os.open(target, mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    return None


def _is_held(handle: int, target: Path) -> bool:
    """Take the lock, and look whether it is still the file of this name: who held it before has replaced it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), os.stat(target))
    return True
