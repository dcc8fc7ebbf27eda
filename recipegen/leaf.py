"""A leaf folder on disk: its matrix, and its bundles compared, written and cleaned."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from recipegen.errors import InputError
from recipegen.files import folder_for, read_regular, reason, replace_file
from recipegen.launch import Bundle
from recipegen.yamlsource import MAX_BYTES

MATRIX = "matrix.yaml"
MAX_FILE_BYTES = 16 << 20
_MANIFEST = b"recipegen-bundle "


@dataclass(frozen=True)
class Differences:
    """Paths relative to the leaf folder, sorted."""

    stale: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.stale or self.missing or self.orphaned)

    def lines(self) -> list[tuple[str, str]]:
        """(what, path) pairs in the order of paths."""
        pairs = [(kind, path) for kind in ("stale", "missing", "orphaned") for path in getattr(self, kind)]
        return sorted(pairs, key=lambda pair: pair[1])


def find_matrices(path: Path) -> list[Path]:
    """Return the matrix files that PATH means: a file, a leaf folder, or a tree of them. InputError when there are none.

    What cannot be looked into is among them, so that it is not passed over in silence.
    """
    with _explained(path):
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            found = sorted(_matrices_below(path))
            if not found:
                raise InputError(f"{path}: no {MATRIX} in it or below it")
            return found
        if not stat.S_ISREG(mode):
            raise InputError(f"{path}: neither a file nor a folder")
    return [path]


def _matrices_below(folder: Path) -> Iterator[Path]:
    """Matrix files of a tree, links that lead nowhere among them: reading tells what is wrong.

    A folder that cannot be looked into counts as if one lay in it.
    """
    closed: list[Path] = []
    for root, _, names in os.walk(folder, onerror=lambda error: closed.append(Path(os.fsdecode(error.filename)))):
        if MATRIX in names:
            yield Path(root) / MATRIX
    yield from (path / MATRIX for path in closed)


def read_matrix(path: Path) -> bytes:
    """Return the matrix's bytes, and no more of a huge file than shows that it is one; InputError when it cannot be read."""
    with _explained(path):
        return _read(path, MAX_BYTES + 1)


def read_present(path: Path) -> bytes | None:
    """Return a file's bytes, None where there is none; InputError when it cannot be read."""
    try:
        return read_regular(str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}") from error


def leaf_files(bundles: Iterable[Bundle]) -> dict[str, bytes]:
    """Return every file of these bundles by its path below the leaf folder; what they share stands once."""
    found: dict[str, bytes] = {}
    for bundle in bundles:
        found |= {f"{bundle.point}/{name}": data for name, data in bundle.files.items()}
        found |= bundle.shared
    return found


def compare(leaf: Path, wanted: Mapping[str, bytes], *, only_point: str | None = None) -> Differences:
    """Compare a leaf folder with what it should hold. With `only_point`, orphans of other points are none of our business.

    Only real folders are looked into: a symbolic link in the place of one of ours is an InputError, anywhere else not ours.
    """
    with _explained(leaf):
        own = {name.split("/")[0] for name in wanted}
        for folder in sorted(own):
            if (leaf / folder).is_symlink() or ((leaf / folder).exists() and not (leaf / folder).is_dir()):
                raise InputError(f"{leaf / folder}: not a folder of its own, as a bundle needs")
        present = {name: _read(leaf / name, MAX_FILE_BYTES) for name in wanted if _is_there(leaf / name)}
        owned = {only_point, "lib"} if only_point else {*_bundle_folders(leaf), *own}
        found = {path.relative_to(leaf).as_posix() for folder in owned if folder for path in _files(leaf / folder)}
    return differences(wanted, present, found)


def differences(wanted: Mapping[str, bytes], present: Mapping[str, bytes], owned: Set[str]) -> Differences:
    """Tell files that should be apart from those that are there, `present`, and those that are ours to keep or drop, `owned`."""
    return Differences(
        stale=tuple(sorted(name for name, data in present.items() if data != wanted[name])),
        missing=tuple(sorted(wanted.keys() - present.keys())),
        orphaned=tuple(sorted(owned - wanted.keys())),
    )


def write(leaf: Path, files: Mapping[str, bytes]) -> None:
    """Write files, each whole or not at all; the manifests last, so that a bundle with a manifest is complete."""
    for name in sorted(files, key=lambda name: (name.endswith("/MANIFEST"), name)):
        path = leaf / name
        with _explained(path), folder_for(path):
            replace_file(path, files[name], mode=_new_mode())


def remove(leaf: Path, names: Iterable[str]) -> None:
    """Remove files, and the folders that are empty then."""
    for name in names:
        path = leaf / name
        with _explained(path):
            path.unlink(missing_ok=True)
            parent = path.parent
            while parent != leaf and not any(parent.iterdir()):
                parent.rmdir()
                parent = parent.parent


def _bundle_folders(leaf: Path) -> list[str]:
    """Folders that hold a rendered bundle: real ones, with a MANIFEST of ours."""
    if not leaf.is_dir():
        return []
    folders = (path for path in sorted(leaf.iterdir()) if path.is_dir() and not path.is_symlink())
    return [path.name for path in folders if (path / "MANIFEST").is_file() and _read(path / "MANIFEST", len(_MANIFEST)) == _MANIFEST]


def _files(folder: Path) -> Iterable[Path]:
    for root, folders, names in os.walk(folder):
        links = [name for name in folders if (Path(root) / name).is_symlink()]
        folders[:] = [name for name in folders if name != "__pycache__" and name not in links]
        yield from (Path(root) / name for name in (*names, *links))


def _is_there(path: Path) -> bool:
    """Whether a file stands there; anything else in its place is an InputError."""
    if path.is_file():
        return True
    if path.exists() or path.is_symlink():
        raise InputError(f"{path}: not a file, where a bundle has one")
    return False


def _read(path: Path, most: int) -> bytes:
    return read_regular(str(path), most=most)


def _new_mode() -> int:
    """The mode of a file that a person's editor would make."""
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{error.filename or path}: {reason(error)}") from error
    except ValueError as error:  # a NUL in a path
        raise InputError(f"{str(path)!r}: {error}") from error
