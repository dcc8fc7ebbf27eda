"""Python files of a wheel or of an unpacked folder, read one by one."""

from __future__ import annotations

import lzma
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipegen.errors import InputError
from recipegen.files import read_regular, reason

MOST_BYTES = 8 * 1024 * 1024
"""How much of one Python file is read: vLLM's largest has 0.2 MB."""

_DAMAGES = (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError)
"""What zipfile raises for a member that cannot be unpacked; RuntimeError is an encrypted one, or a method that it does not know."""
_PACKAGES = ("vllm", "dynamo")
_WHEEL = re.compile(r"(?P<name>\w+)-(?P<version>[^-]+)(?:-[^-]+){3,4}\.whl", re.ASCII)
_INFO = re.compile(r"(?P<name>\w+)-(?P<version>[^-/]+)\.dist-info", re.ASCII)


@dataclass(frozen=True)
class SourceTree:
    """`read` returns a file's text by its path below the root, such as `vllm/config/cache.py`, or None where there is none.

    `versions` are those of the distributions that the tree holds, by name as in file names (`ai_dynamo`).
    """

    name: str
    read: Callable[[str], str | None]
    versions: dict[str, str]


def open_tree(path: Path) -> SourceTree:
    """Open a wheel (`.whl`), a package's folder, or the folder that it lies in (a checkout has the same name); InputError for anything else."""
    path = path.absolute()
    if path.is_dir():
        root = path.parent if path.name in _PACKAGES and not (path / path.name).is_dir() else path
        return SourceTree(name=str(path), read=lambda member: _read_file(root, member), versions=_versions(root))
    if not path.is_file():
        raise InputError(f"{path}: cannot be read: not a regular file")
    try:
        archive = zipfile.ZipFile(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from error
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise InputError(f"{path}: is no wheel: {str(error).lower()}", hint="was it downloaded whole?") from error
    found = _WHEEL.fullmatch(path.name)
    versions = {found["name"]: found["version"]} if found else {}
    return SourceTree(name=str(path), read=lambda member: _read_member(archive, path, member), versions=versions)


def _versions(root: Path) -> dict[str, str]:
    matches = (_INFO.fullmatch(folder.name) for folder in sorted(root.glob("*.dist-info")))
    return {found["name"]: found["version"] for found in matches if found}


def _read_file(root: Path, member: str) -> str | None:
    try:
        data = read_regular(str(root / member), most=MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{root / member}: cannot be read: {reason(error)}") from error
    return _text(data, str(root / member))


def _read_member(archive: zipfile.ZipFile, path: Path, member: str) -> str | None:
    try:
        info = archive.getinfo(member)
    except KeyError:
        return None
    if info.file_size > MOST_BYTES:
        raise InputError(f"{path}: {member} has {info.file_size} bytes, which no Python file of an engine has")
    try:
        return _text(archive.read(info), f"{path}: {member}")
    except _DAMAGES as error:
        raise InputError(f"{path}: {member} cannot be unpacked: {str(error).lower()}", hint="was it downloaded whole?") from error


def _text(data: bytes, where: str) -> str:
    if len(data) > MOST_BYTES:
        raise InputError(f"{where} has more than {MOST_BYTES} bytes, which no Python file of an engine has")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{where} is not UTF-8 at byte {error.start}") from error
