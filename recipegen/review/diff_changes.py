"""Which facts differ between two versions of a point."""

from __future__ import annotations

from collections.abc import Mapping

from recipegen.review.diff_model import Change, Fact, FactKey, Facts, FactValue, Section
from recipegen.review.diff_sizes import HEAD_ROOM, KV_CACHE

_TELLING = (Section.WORKLOAD, Section.ROLE, Section.FLAG)
"""Sections that sizes depend on: where one of them changes, a role's head room is told even where it stays."""
_DECISIVE = frozenset({KV_CACHE, HEAD_ROOM})
_Table = Mapping[FactKey, FactValue]


def fact_changes(had: Facts, has: Facts) -> tuple[Change, ...]:
    """Return what differs, in the order of sections; KV cache and head room always, of a role whose flags or shape, or whose load, differ."""
    told = {section: _differing(had.get(section, {}), has.get(section, {})) for section in Section}
    touched = {role for section in _TELLING for role, _ in told[section]}
    if touched:
        told[Section.SIZE] = _sizes(had.get(Section.SIZE, {}), has.get(Section.SIZE, {}), {*told[Section.SIZE]}, touched)
    return tuple(Change(_fact(had, section, key), _fact(has, section, key)) for section, keys in told.items() for key in keys)


def _differing(had: _Table, has: _Table) -> list[FactKey]:
    """Facts that one table has, or whose texts differ."""
    if had == has:
        return []
    return [key for key in {**had, **has} if key not in had or key not in has or _text(had[key]) != _text(has[key])]


def _text(value: FactValue) -> str:
    _, text, _ = value
    return text


def _sizes(had: _Table, has: _Table, differing: set[FactKey], touched: set[str]) -> list[FactKey]:
    return [key for key in {**had, **has} if key in differing or (key[1] in _DECISIVE and touched & {"", key[0]})]


def _fact(facts: Facts, section: Section, key: FactKey) -> Fact | None:
    found = facts.get(section, {}).get(key)
    if found is None:
        return None
    (role, name), (value, text, note) = key, found
    return Fact(section, role, name, value, text, note)
