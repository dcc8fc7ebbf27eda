"""What an import kept without effect, put back into a recipe: where the recipe says nothing itself, and only what stays without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from recipegen.benchmarks import SETTINGS
from recipegen.errors import InputError, Source
from recipegen.srtslurm import keys
from recipegen.srtslurm.expand import Job
from recipegen.srtslurm.export_text import SrtDocument
from recipegen.srtslurm.recipe import SrtRecipe
from recipegen.srtslurm.tree import Tree
from recipegen.srtslurm.v1 import read_v1
from recipegen.srtslurm.v2 import read_v2

_FILE = "export"
_NOT_IN_V2 = frozenset({"backend", "infra", "resources"})
"""Sections that the second layout has under other names, or not at all."""
Read = Callable[[Job, str, tuple[str, ...]], SrtRecipe]


@dataclass(frozen=True)
class _Layout:
    """How an import reads a layout, and where a recipe of it has a key that an import of either layout kept; empty: nowhere."""

    read: Read
    place: Callable[[str, Mapping[str, Any]], str]


def carried_in_v1(document: SrtDocument, carried: Mapping[str, Any]) -> SrtDocument:
    """Return a recipe of the first layout with what an import kept."""
    return _with_carried(document, carried, _Layout(read_v1, _place_v1))


def carried_in_v2(document: SrtDocument, carried: Mapping[str, Any]) -> SrtDocument:
    """Return a recipe of the second layout with what an import kept."""
    return _with_carried(document, carried, _Layout(read_v2, _place_v2))


def _with_carried(document: SrtDocument, carried: Mapping[str, Any], layout: _Layout) -> SrtDocument:
    """Fill in all keys at once where that changes nothing that runs, else one by one; the head names those that are left out."""
    places = {path: layout.place(path, document.fields) for path in carried}
    wanted = {path: value for path, value in carried.items() if not _says(document.fields, places[path], value)}
    fields = dict(document.fields)
    meaning = _meaning(fields, layout) if wanted else None
    left = [path for path in wanted if meaning is None or not places[path] or wanted[path] is None]
    open_paths = [path for path in wanted if path not in left]
    if (whole := _filled(fields, [(places[path], wanted[path]) for path in open_paths])) is not None and _meaning(whole, layout) == meaning:
        fields, open_paths = whole, []
    for path in open_paths:
        one = _filled(fields, [(places[path], wanted[path])])
        if one is None or _meaning(one, layout) != meaning:
            left.append(path)
        else:
            fields = one
    told = (f"left out of what an import kept, as the matrix says otherwise or this layout has no such key: {', '.join(left)}",) if left else ()
    return replace(document, fields=fields, head=(*document.head, *told))


def _place_v1(path: str, _: Mapping[str, Any]) -> str:
    named = keys.CARRIED_IN_V1.get(path, path)
    return "" if "[" in named or named.partition(".")[0] in keys.ONLY_IN_V2 else named


def _place_v2(path: str, fields: Mapping[str, Any]) -> str:
    """As for the first layout; what a benchmark does not read is refused there."""
    named = keys.CARRIED_IN_V2.get(path, path)
    section, _, key = named.partition(".")
    unread = section == "benchmark" and key in keys.BENCHMARK_NAMES and fields[section]["type"] in SETTINGS
    return "" if "[" in named or section in _NOT_IN_V2 or unread else named


def _says(fields: Mapping[str, Any], place: str, value: object) -> bool:
    """Whether the recipe says just this itself."""
    found: Any = fields
    for name in place.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return False
        found = found[name]
    return type(found) is type(value) and bool(found == value)


def _filled(fields: Mapping[str, Any], kept: list[tuple[str, object]]) -> dict[str, Any] | None:
    """The fields with these values; None where one of their places is taken, or lies in what is no mapping."""
    found: dict[str, Any] | None = dict(fields)
    for place, value in kept:
        found = None if found is None else _with(found, place.split("."), value)
    return found


def _with(fields: Mapping[str, Any], path: list[str], value: object) -> dict[str, Any] | None:
    name, *rest = path
    if not rest:
        return None if name in fields else {**fields, name: value}
    below = fields.get(name, {})
    inner = _with(below, rest, value) if isinstance(below, Mapping) else None
    return None if inner is None else {**fields, name: inner}


def _meaning(fields: Mapping[str, Any], layout: _Layout) -> SrtRecipe | None:
    """What an import makes of a recipe, but for what it carries; None where it refuses it."""
    try:
        return replace(layout.read(Job(_tree(fields, "")), _FILE, ()), carried={})
    except InputError:
        return None


def _tree(value: object, path: str) -> Tree:
    place = Source(_FILE)
    if isinstance(value, Mapping):
        entries = {str(name): _tree(one, f"{path}.{name}" if path else str(name)) for name, one in value.items()}
        return Tree(entries=entries, source=place, key=place, path=path)
    if isinstance(value, list | tuple):
        return Tree(items=tuple(_tree(one, f"{path}[{number}]") for number, one in enumerate(value)), source=place, key=place, path=path)
    scalar = value if value is None or isinstance(value, str | int | float) else str(value)
    return Tree(scalar=scalar, source=place, key=place, path=path)
