"""The seam between recipegen and the machine where the scheduler's commands and the run folders are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Completed:
    """A command that ran: its exit code and what it printed, as UTF-8 text with undecodable bytes replaced."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str


class Transport(Protocol):
    """Commands and files of one machine, here or there; paths are absolute POSIX paths.

    Everything that goes wrong on the way is a `TransportError`; a command's own failure is its exit code.
    """

    def run(self, argv: Sequence[str], *, timeout: float, stdin: str | None = None) -> Completed:
        """Run one command without a shell's interpretation; a program that is not there is code 127, as in a shell.

        After `timeout` seconds the command is killed and a TransportError is raised.
        """

    def put(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file so that a reader sees all of it or nothing (temporary name, rename); parents are made."""

    def read(self, path: str, offset: int = 0) -> bytes | None:
        """Return the bytes from `offset` on (none past the end), or None when there is no such file.

        Of a very large file it is the first part; what is no regular file is a TransportError.
        """

    def make_dir(self, path: str) -> None:
        """Make a directory, and its parents; PathExists when it is already there, whoever made it."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all it holds; one that is not there is no error."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; a directory that is not there holds none."""
