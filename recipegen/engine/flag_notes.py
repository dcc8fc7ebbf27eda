"""What is known of flags beyond an engine's own files: successors, values that the engine replaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from recipegen.yamlsource import parse_yaml


@dataclass(frozen=True, kw_only=True)
class Replacement:
    """A value (none: any; `suffix`: any with that end) that the engine takes and replaces, or means to drop.

    `flag` may have dotted keys; `where` are keys of the same JSON argument that must have these values; `note` tells that it works.
    """

    flag: str
    values: tuple[str, ...] = ()
    suffix: str = ""
    where: Mapping[str, str] = field(default_factory=dict)
    message: str
    mend: str
    note: bool = False

    def holds(self, value: object) -> bool:
        """Whether the value is one of those meant."""
        text = str(value)
        if self.suffix:
            return text.endswith(self.suffix)
        return not self.values or text in self.values


@dataclass(frozen=True, kw_only=True)
class FlagNotes:
    """`instead`: a flag and its successor; `refused`: a flag and why it stops a worker."""

    instead: Mapping[str, str]
    refused: Mapping[str, str]
    replaced: tuple[Replacement, ...]

    def replaced_of(self, flag: str) -> tuple[Replacement, ...]:
        """What is known to be replaced of a flag's values, or of those of its keys."""
        return self._by_flag.get(flag, ())

    @cached_property
    def _by_flag(self) -> Mapping[str, tuple[Replacement, ...]]:
        found: dict[str, tuple[Replacement, ...]] = {}
        for known in self.replaced:
            head = known.flag.partition(".")[0]
            found[head] = (*found.get(head, ()), known)
        return found


@cache
def flag_notes() -> FlagNotes:
    """Read the shipped notes."""
    text = (files("recipegen") / "data" / "engine_flags" / "notes.yaml").read_bytes()
    data: Any = parse_yaml(text, "data/engine_flags/notes.yaml").data
    return FlagNotes(
        instead=data["instead"],
        refused=data["refused"],
        replaced=tuple(_replacement(raw) for raw in data["replaced"]),
    )


def _replacement(raw: Mapping[str, Any]) -> Replacement:
    return Replacement(**{**raw, "values": tuple(map(str, raw.get("values", ())))})
