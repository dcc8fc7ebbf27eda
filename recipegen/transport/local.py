"""The transport to this very machine."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from recipegen.errors import PathExists, TransportError
from recipegen.files import read_regular, reason, replace_file
from recipegen.transport import Completed

_COMMAND_NOT_FOUND = 127
_COMMAND_NOT_EXECUTABLE = 126
_HINTS = {
    errno.ENOSPC: "free some space there, or give the profile another run_root",
    errno.EDQUOT: "your quota there is used up: free some space, or give the profile another run_root",
    errno.EACCES: "you may not write or read there; the profile's run_root says where runs go",
    errno.EROFS: "that file system is read-only here; the profile's run_root says where runs go",
    errno.ENAMETOOLONG: "give the profile a shorter run_root",
}


class LocalTransport:
    """Commands and files of the machine that recipegen runs on."""

    def run(self, argv: Sequence[str], *, timeout: float, stdin: str | None = None) -> Completed:
        """Run a command in a session of its own; on a timeout its whole process group is killed."""
        source = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        try:
            process = subprocess.Popen(list(argv), stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except (FileNotFoundError, NotADirectoryError):
            return Completed(tuple(argv), _COMMAND_NOT_FOUND, "", f"{argv[0]}: command not found")
        except PermissionError:
            return Completed(tuple(argv), _COMMAND_NOT_EXECUTABLE, "", f"{argv[0]}: permission denied")
        except OSError as error:
            raise TransportError(f"cannot start {argv[0]}: {_reason(error)}") from error
        try:
            out, err = process.communicate(None if stdin is None else stdin.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            raise TransportError(f"no answer within {timeout:g} s") from None
        finally:
            _end(process)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        return Completed(tuple(argv), code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file whole: into a temporary one beside it, synced, then renamed."""
        target = Path(path)
        with _explained("write", path):
            target.parent.mkdir(parents=True, exist_ok=True)
            replace_file(target, data, mode=mode, sync=True)

    def read(self, path: str, offset: int = 0) -> bytes | None:
        """Return the bytes from `offset` on, or None when there is no such file."""
        with _explained("read", path):
            try:
                return read_regular(path, offset)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def make_dir(self, path: str) -> None:
        """Make a directory that is not there yet; of two who try, one gets PathExists."""
        with _explained("make the directory", path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                os.mkdir(path)
            except FileExistsError:
                raise PathExists(f"{path} is already there") from None

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; a symbolic link is removed, not followed."""
        with _explained("remove", path), contextlib.suppress(FileNotFoundError):
            if os.path.islink(path):
                os.unlink(path)
            else:
                shutil.rmtree(path)

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none when it is not there."""
        with _explained("list", path):
            try:
                return sorted(os.listdir(path))
            except (FileNotFoundError, NotADirectoryError):
                return []


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command's group when it did not end by itself, and close its pipes."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@contextlib.contextmanager
def _explained(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TransportError(f"cannot {verb} {path}: {_reason(error)}", hint=_HINTS.get(error.errno or 0, "")) from error
    except ValueError as error:  # a NUL or a lone surrogate in the path
        raise TransportError(f"cannot {verb} {path!r}: {error}") from error


def _reason(error: OSError) -> str:
    if error.errno == errno.EEXIST:
        return "a part of the path is there, and is no directory"
    return reason(error)
