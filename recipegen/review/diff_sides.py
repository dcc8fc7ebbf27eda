"""Finds the two sides of a diff, revisions or folders, and reads what is not the same in them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recipegen.checks.registry import ARGUMENT
from recipegen.checks.run import finding_of
from recipegen.errors import InputError, Problem, Source
from recipegen.leaf import MATRIX, find_matrices, read_matrix
from recipegen.review.diff import MatrixText, TextPair
from recipegen.review.git_objects import Repository, TreeFile
from recipegen.yamlsource import MAX_BYTES

WORKING_TREE = "working tree"
_SHA256 = 64


class Side(Protocol):
    """One side: its label, and its matrices by their paths below PATH (empty: PATH is the matrix itself)."""

    label: str

    def digests(self, algorithm: str) -> Mapping[str, str]:
        """What each matrix holds, as git names it with a hash algorithm: equal digests are equal bytes."""

    def texts(self, keys: Iterable[str]) -> dict[str, MatrixText]:
        """Read these matrices."""


@dataclass(frozen=True, kw_only=True)
class Sides:
    """What differs between two sides, as text, and what does not: `moved` are paths of equal bytes, `same` keys of equal path too."""

    old: Side
    new: Side
    pairs: tuple[TextPair, ...]
    moved: tuple[tuple[str, str], ...]
    same: tuple[str, ...]

    def unchanged(self) -> list[MatrixText]:
        """Read the matrices that are the same on both sides, moved ones excepted."""
        return list(self.new.texts(self.same).values())


def open_sides(path: Path, old: str | None, new: str | None, environ: Mapping[str, str]) -> Sides:
    """Compare the matrices of PATH on two sides: a revision or a folder each, by default HEAD and the working tree.

    InputError for a side that there is not, and where no side has a matrix.
    """
    before = _open(path, "HEAD" if old is None else old, environ)
    after = _working_tree(path, before) if new is None else _open(path, new, environ)
    algorithm = "sha256" if {"sha256"} & {before.algorithm, after.algorithm} else "sha1"
    had, has = before.digests(algorithm), after.digests(algorithm)
    if not had and not has:
        raise InputError(f"{path}: no {MATRIX} in it or below it, neither in {before.label} nor in {after.label}")
    same = tuple(key for key in had if had[key] == has.get(key))
    moved = _moved(had, has)
    gone, come = [key for key in had if key not in (*same, *moved)], [key for key in has if key not in (*same, *moved.values())]
    olds, news = before.texts(gone), after.texts(come)
    pairs = tuple(TextPair(olds.get(key), news.get(key)) for key in dict.fromkeys((*gone, *come)))
    shown = tuple((_shown(path, one), _shown(path, other)) for one, other in moved.items())
    return Sides(old=before, new=after, pairs=pairs, moved=shown, same=same)


def _moved(had: Mapping[str, str], has: Mapping[str, str]) -> dict[str, str]:
    """Matrices of equal bytes that left one path and came to another, in the order of paths."""
    come: dict[str, list[str]] = {}
    for key in sorted(has.keys() - had.keys()):
        come.setdefault(has[key], []).append(key)
    return {key: come[had[key]].pop(0) for key in sorted(had.keys() - has.keys()) if come.get(had[key])}


def _shown(path: Path, key: str) -> str:
    return str(path / key) if key else str(path)


def _key(path: str, root: str) -> str:
    found = os.path.relpath(path, root or os.curdir)
    return "" if found == os.curdir else found


def _open(path: Path, name: str, environ: Mapping[str, str]) -> RevisionSide | FolderSide:
    """A revision or a folder by its name; InputError where it could be both."""
    if not name:
        raise InputError("the name of a side is empty", hint="a revision or a folder; leave the option out for HEAD and the working tree")
    folder = Path(name).is_dir()
    if folder and (name.startswith((".", os.sep)) or name.endswith(os.sep)):
        return FolderSide(name, path, _in_folder(path, name))
    try:
        repository = Repository.around(path, environ)
    except InputError as error:
        if folder:
            return FolderSide(name, path, _in_folder(path, name))
        raise InputError(f"{name}: no folder, and no revision either: {error}", hint=error.hint) from error
    if folder and repository.knows(name):
        raise InputError(f"{name}: a revision and a folder have this name", hint=f"./{name} is the folder, refs/heads/{name} a branch")
    if folder:
        return FolderSide(name, path, _in_folder(path, name))
    return RevisionSide(name, path, repository)


def _in_folder(path: Path, folder: str) -> Path:
    """PATH, with a folder in the place of the current one."""
    below = os.path.relpath(path)
    if below.split(os.sep)[0] == os.pardir:
        raise InputError(f"{path}: not below the current folder, whose place {folder} takes")
    return Path(folder) / below


def _working_tree(path: Path, other: RevisionSide | FolderSide) -> FolderSide:
    """PATH as it is now; beside a revision without what git ignores, unless nothing of PATH is git's, then or now."""
    if isinstance(other, RevisionSide):
        tracked = {
            _key(name, other.repository.path): file
            for name, file in other.repository.working_files().items()
            if (name == other.repository.path or file.name == MATRIX) and os.path.lexists(file) and not file.is_dir()
        }
        if tracked or other.digests(other.algorithm):
            return FolderSide(WORKING_TREE, path, path, tracked)
    return FolderSide(WORKING_TREE, path, path)


class FolderSide:
    """A folder that stands for the current one, or PATH itself in the working tree."""

    algorithm = ""

    def __init__(self, label: str, path: Path, root: Path, files: Mapping[str, Path] | None = None) -> None:
        self.label, self._path = label, path
        found = _found(root) if files is None else files
        self._texts = {key: _text(file, _shown(path, key)) for key, file in found.items()}

    def digests(self, algorithm: str) -> Mapping[str, str]:
        return {key: _digest(text, algorithm) for key, text in self._texts.items()}

    def texts(self, keys: Iterable[str]) -> dict[str, MatrixText]:
        return {key: self._texts[key] for key in keys}


def _found(root: Path) -> dict[str, Path]:
    if not os.path.lexists(root):
        return {}
    try:
        return {_key(str(file), str(root)): file for file in find_matrices(root)}
    except InputError:
        if root.is_dir():
            return {}
        raise


def _text(file: Path, shown: str) -> MatrixText:
    try:
        return MatrixText(path=shown, data=read_matrix(file))
    except InputError as error:
        return _unreadable(shown, str(error).removeprefix(f"{file}: "))


def _unreadable(shown: str, why: str) -> MatrixText:
    return MatrixText(path=shown, unreadable=(finding_of(Problem(Source(shown), why, rule=ARGUMENT.id)),))


def _digest(text: MatrixText, algorithm: str) -> str:
    """As git names these bytes; of what cannot be read a name of its own, so that it is looked at."""
    if text.unreadable:
        return f"unreadable {id(text)}"
    head = b"blob %d\0" % len(text.data)
    if algorithm == "sha256":
        return hashlib.sha256(head + text.data).hexdigest()
    return hashlib.sha1(head + text.data, usedforsecurity=False).hexdigest()  # git's own name for it


class RevisionSide:
    """A revision of the repository that PATH lies in."""

    def __init__(self, name: str, path: Path, repository: Repository) -> None:
        self.repository, self._path = repository, path
        self._oid = repository.resolve(name)
        self.label = name if self._oid.startswith(name) else f"{name} ({self._oid[:7]})"
        self.algorithm = "sha256" if len(self._oid) == _SHA256 else "sha1"
        self._files: dict[str, TreeFile] = {
            _key(file.path, repository.path): file
            for file in repository.files(self._oid)
            if file.path == repository.path or os.path.basename(file.path) == MATRIX
        }

    def digests(self, algorithm: str) -> Mapping[str, str]:  # noqa: ARG002  # a repository has one
        return {key: f"link {file.oid} {id(self)}" if file.link else file.oid for key, file in self._files.items()}

    def texts(self, keys: Iterable[str]) -> dict[str, MatrixText]:
        wanted = {key: self._files[key] for key in keys}
        found = self.repository.read(self._oid, list(wanted.values()), most=MAX_BYTES + 1)
        return {key: self._made(_shown(self._path, key), found[file.path]) for key, file in wanted.items()}

    @staticmethod
    def _made(shown: str, data: bytes | None) -> MatrixText:
        if data is None:
            return _unreadable(shown, "a symbolic link that leads to no file of the revision, or an object that this clone does not have")
        return MatrixText(path=shown, data=data)
