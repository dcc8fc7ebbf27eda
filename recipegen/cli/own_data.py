"""Where the tool's own data lies, and whether what is written there stays."""

from __future__ import annotations

from pathlib import Path

_INSTALLED = ("site-packages", "dist-packages")


def data_folder(kind: str) -> Path:
    """Return the folder of `models`, `hardware` or `engine_flags` that is read."""
    import recipegen

    return Path(recipegen.__file__).resolve().parent / "data" / kind


def is_installed_copy(folder: Path) -> bool:
    """Whether a folder belongs to an installed copy, that is, to no checkout: the next install replaces it, and no repository holds it."""
    return any(part in _INSTALLED for part in folder.parts)
