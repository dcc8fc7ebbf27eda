"""Writes a model as a data file, in the style of the shipped ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING

from recipegen.architecture import Architecture
from recipegen.model import ModelSpec
from recipegen.yamlscalars import UnreadableScalarError, read_scalar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def make_key(repo: str) -> str:
    """Return the key of a repository: the part behind its owner, in lower case."""
    return repo.rpartition("/")[2].lower()


def format_model(model: ModelSpec, notes: Iterable[str] = ()) -> bytes:
    """Return the data file of a model: what says nothing beyond a default is left out, notes become comments."""
    lines = [f"# {make_title(model)}. Numbers: the config.json of this revision.", *(f"# {note}" for note in notes)]
    lines += [f"{name}: {_scalar(getattr(model, name))}" for name in ("repo", "revision", "served_name")]
    if model.checkpoint_bytes:
        lines.append(f"checkpoint_bytes: {model.checkpoint_bytes}")
    if model.architecture:
        lines += ["architecture:", *(f"  {line}" for line in _entries(model.architecture))]
    return ("\n".join(lines) + "\n").encode()


def make_title(model: ModelSpec) -> str:
    """Return a model's name for people: its repository without the owner."""
    return model.repo.rpartition("/")[2]


def _entries(architecture: Architecture) -> Iterator[str]:
    for name, value in _stated(architecture):
        yield f"{name}: {_flow(value) if is_dataclass(value) and not isinstance(value, type) else _scalar(value)}"


def _flow(value: DataclassInstance) -> str:
    inner = (f"{name}: {_flow(v) if is_dataclass(v) and not isinstance(v, type) else _scalar(v)}" for name, v in _stated(value))
    return "{" + ", ".join(inner) + "}"


def _stated(value: DataclassInstance) -> list[tuple[str, object]]:
    """Return the fields that differ from their default."""
    found = [(f.name, getattr(value, f.name), f.default) for f in fields(value)]
    return [(name, own) for name, own, default in found if default is MISSING or own != default]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return value if _reads_as_itself(value) else json.dumps(value)
    return str(value).lower()


def _reads_as_itself(text: str) -> bool:
    try:
        return read_scalar(text, plain=True, tag=None) == text
    except UnreadableScalarError:
        return False
