"""A transport to a machine that exists in memory only: for tests, and for trying things out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from recipegen.errors import PathExists, TransportError
from recipegen.transport import Completed

Answer = Callable[[Sequence[str], str | None], tuple[int, str, str]]
"""What a program does: argv and standard input give exit code, standard output, standard error."""


class ScriptedTransport:
    """Files in a dictionary, programs as functions by name; `outage` breaks the line as long as it is set."""

    def __init__(self, programs: dict[str, Answer] | None = None) -> None:
        self.programs = programs or {}
        self.files: dict[str, bytes] = {}
        self.modes: dict[str, int] = {}
        self.dirs: set[str] = {"/"}
        self.commands: list[tuple[str, ...]] = []
        self.outage = ""

    def run(self, argv: Sequence[str], *, timeout: float, stdin: str | None = None) -> Completed:  # noqa: ARG002  # nothing here takes time
        self._check()
        self.commands.append(tuple(argv))
        answer = self.programs.get(argv[0])
        code, out, err = answer(argv, stdin) if answer is not None else (127, "", f"{argv[0]}: command not found\n")
        return Completed(tuple(argv), code, out, err)

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        self._check()
        self._add_dirs(str(PurePosixPath(path).parent))
        self.files[path] = data
        self.modes[path] = mode

    def read(self, path: str, offset: int = 0) -> bytes | None:
        self._check()
        data = self.files.get(path)
        return None if data is None else data[offset:]

    def make_dir(self, path: str) -> None:
        self._check()
        if path in self.dirs or path in self.files:
            raise PathExists(f"{path} is already there")
        self._add_dirs(path)

    def remove_tree(self, path: str) -> None:
        self._check()
        for name in [name for name in self.files if name == path or name.startswith(f"{path}/")]:
            del self.files[name]
        self.dirs -= {name for name in self.dirs if name == path or name.startswith(f"{path}/")}

    def list_dir(self, path: str) -> list[str]:
        self._check()
        return sorted(PurePosixPath(name).name for name in self.dirs | self.files.keys() if name != "/" and str(PurePosixPath(name).parent) == path)

    def append(self, path: str, data: bytes) -> None:
        """Let the far side add to a file, outage or not."""
        self._add_dirs(str(PurePosixPath(path).parent))
        self.files[path] = self.files.get(path, b"") + data

    def _check(self) -> None:
        if self.outage:
            raise TransportError(self.outage)

    def _add_dirs(self, path: str) -> None:
        self.dirs |= {path, *map(str, PurePosixPath(path).parents)}
