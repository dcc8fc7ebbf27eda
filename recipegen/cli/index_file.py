"""The index of a tree as a file: what it should hold, what it holds, and its writing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recipegen.cli.table import say
from recipegen.errors import InputError
from recipegen.files import reason, replace_file
from recipegen.leaf import read_present

if TYPE_CHECKING:
    from recipegen.pipeline import Checked


@dataclass(frozen=True)
class IndexFile:
    """An index: its place, what it should hold, and what it holds (None: there is none)."""

    target: Path
    wanted: bytes
    present: bytes | None

    @property
    def is_fresh(self) -> bool:
        return self.present == self.wanted

    def write(self) -> None:
        """Write it whole, unless it is fresh; InputError where somebody's own file has its name."""
        from recipegen.review.index import is_index

        if self.present is not None and not is_index(self.present):
            raise InputError(f"{self.target}: not an index that recipegen wrote; it stays as it is", hint="another file by --out, or remove it")
        if self.is_fresh:
            say(f"{self.target}: up to date", err=True)
            return
        try:
            replace_file(self.target, self.wanted, mode=0o644)
        except OSError as error:
            raise InputError(f"{self.target}: cannot be written: {reason(error)}") from error
        say(f"{'written' if self.present is None else 'updated'}: {self.target}")


def index_file(target: Path, checked: Sequence[tuple[Path, Checked]]) -> IndexFile:
    """The index of these matrices at `target`, with ways from there."""
    from recipegen.review.index import index_text, make_entry

    entries = [make_entry(way_to(matrix, target.parent), one) for matrix, one in checked]
    return IndexFile(target, index_text(entries).encode(), read_present(target))


def committed_index(path: Path, checked: Sequence[tuple[Path, Checked]]) -> IndexFile | None:
    """The index that a tree holds; None where it holds none of ours."""
    from recipegen.review.index import NAME, is_index

    present = read_present(path / NAME) if path.is_dir() else None
    return index_file(path / NAME, checked) if present is not None and is_index(present) else None


def way_to(matrix: Path, base: Path) -> str:
    """The relative way to a matrix, with slashes."""
    return Path(os.path.relpath(matrix, base)).as_posix()
