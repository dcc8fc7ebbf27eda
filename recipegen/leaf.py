"""A leaf folder on disk: its matrix, and its bundles compared, written and cleaned."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from recipegen.errors import InputError
from recipegen.launch import Bundle
from recipegen.yamlsource import MAX_BYTES

MATRIX = "matrix.yaml"
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
    """Return the matrix files that PATH means: a file, a leaf folder, or a tree of them. InputError when there are none."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(f"{path}: no such file or folder")
    found = sorted(p for p in path.rglob(MATRIX) if p.is_file())
    if not found:
        raise InputError(f"{path}: no {MATRIX} in it or below it")
    return found


def read_matrix(path: Path) -> bytes:
    """Return the matrix's bytes, and no more of a huge file than shows that it is one; InputError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def leaf_files(bundles: Iterable[Bundle]) -> dict[str, bytes]:
    """Return every file of these bundles by its path below the leaf folder; what they share stands once."""
    found: dict[str, bytes] = {}
    for bundle in bundles:
        found |= {f"{bundle.point}/{name}": data for name, data in bundle.files.items()}
        found |= bundle.shared
    return found


def compare(leaf: Path, wanted: Mapping[str, bytes], *, only_point: str | None = None) -> Differences:
    """Compare a leaf folder with what it should hold. With `only_point`, orphans of other points are none of our business."""
    here = {name: leaf / name for name in wanted}
    present = {name: path.read_bytes() for name, path in here.items() if path.is_file()}
    owned = {only_point, "lib"} if only_point else {*_bundle_folders(leaf), *(name.split("/")[0] for name in wanted)}
    found = {path.relative_to(leaf).as_posix() for folder in owned if folder for path in _files(leaf / folder)}
    return Differences(
        stale=tuple(sorted(name for name, data in present.items() if data != wanted[name])),
        missing=tuple(sorted(wanted.keys() - present.keys())),
        orphaned=tuple(sorted(found - wanted.keys())),
    )


def write(leaf: Path, files: Mapping[str, bytes]) -> None:
    """Write files, each whole or not at all; the manifests last, so that a bundle with a manifest is complete."""
    for name in sorted(files, key=lambda name: (name.endswith("/MANIFEST"), name)):
        path = leaf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.write_bytes(files[name])
        temporary.replace(path)


def remove(leaf: Path, names: Iterable[str]) -> None:
    """Remove files, and the folders that are empty then."""
    for name in names:
        path = leaf / name
        path.unlink(missing_ok=True)
        parent = path.parent
        while parent != leaf and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent


def _bundle_folders(leaf: Path) -> list[str]:
    """Folders that hold a rendered bundle: they have a MANIFEST of ours."""
    manifests = leaf.glob("*/MANIFEST")
    return [path.parent.name for path in manifests if path.read_bytes()[: len(_MANIFEST)] == _MANIFEST]


def _files(folder: Path) -> Iterable[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (Path(root) / name for name in names)
