"""Flags as text: one JSON document, a flag a line, only what differs from the ordinary."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from recipegen.engine.flag_spec import FlagKind, FlagSpec

_KINDS = {kind.value: kind for kind in FlagKind}
_ORDER = ("kind", "choices", "loose", "hyphens", "item", "default", "optional", "negatable", "aliases", "bounds", "engine", "keys")


@dataclass(frozen=True, kw_only=True)
class FlagTable:
    """The flags of one build of one program (`vllm`, `dynamo`), sorted by name."""

    program: str
    version: str
    flags: Mapping[str, FlagSpec]


def dump_flags(table: FlagTable) -> str:
    """Return the file's text: the same bytes for the same flags."""
    lines = ",\n".join(_compact(_entry(spec)) for _, spec in sorted(table.flags.items()))
    return f'{{"program":{json.dumps(table.program)},"version":{json.dumps(table.version)},"flags":[\n{lines}\n]}}\n'


def parse_flags(text: str) -> FlagTable:
    """Read what `dump_flags` wrote; KeyError, TypeError or ValueError for anything else."""
    data = json.loads(text)
    return FlagTable(program=data["program"], version=data["version"], flags={raw["name"]: _spec(raw["name"], raw) for raw in data["flags"]})


def table_of(program: str, version: str, specs: Iterable[FlagSpec]) -> FlagTable:
    """Return a table of these flags; of two with one name the later counts, as in argparse with `conflict_handler="resolve"`."""
    return FlagTable(program=program, version=version, flags=dict(sorted((spec.name, spec) for spec in specs)))


def _spec(name: str, raw: Mapping[str, Any]) -> FlagSpec:
    keys, default, item = raw.get("keys"), raw.get("default"), raw.get("item")
    return FlagSpec(
        name=name,
        kind=_KINDS[raw["kind"]],
        choices=tuple(raw.get("choices", ())),
        default=tuple(default) if isinstance(default, list) else default,
        optional=raw.get("optional", False),
        negatable=raw.get("negatable", False),
        aliases=tuple(raw.get("aliases", ())),
        bounds=raw.get("bounds") or {},
        keys={key: _spec(key, value) for key, value in keys.items()} if keys else {},
        engine=raw.get("engine", True),
        item=_KINDS[item] if item else None,
        loose=raw.get("loose", False),
        hyphens=raw.get("hyphens", False),
    )


def _entry(spec: FlagSpec) -> dict[str, Any]:
    return {"name": spec.name, **_body(spec)}


def _body(spec: FlagSpec) -> dict[str, Any]:
    ordinary = FlagSpec(name=spec.name, kind=FlagKind.ANY)
    body: dict[str, Any] = {}
    for field in _ORDER:
        value = getattr(spec, field)
        if field == "keys":
            value = {key: _body(value[key]) for key in sorted(value)}
        if field == "kind" or value != getattr(ordinary, field):
            body[field] = value.value if isinstance(value, FlagKind) else value
    return body


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))
