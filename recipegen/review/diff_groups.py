"""Groups changes, so that what is common to several points or roles is said once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from recipegen.review.diff_model import Change, Fact, MatrixChange, PointChange, Section

_T = TypeVar("_T", bound=Hashable)


@dataclass(frozen=True)
class Row:
    """A change, and the roles that it is the same in; none where it concerns the point as a whole."""

    roles: tuple[str, ...]
    change: Change

    @property
    def where(self) -> str:
        """`prefill, decode flag`, `input`: roles and section; of what concerns a role by its nature, the roles alone."""
        section = self.change.section
        words = [", ".join(self.roles), "" if self.roles and section in {Section.ROLE, Section.SIZE} else section.value]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Group:
    """Points that share changes, and these."""

    points: tuple[PointChange, ...]
    rows: tuple[Row, ...]


def cause_groups(matrix: MatrixChange) -> tuple[Group, ...]:
    """What was changed, by the points that it is the same for: those of most points first, and one row for equal changes of roles."""
    found = _grouped([(point, change) for point in _both(matrix) for change in point.changes if change.section is not Section.SIZE])
    return tuple(Group(points, _merged(changes)) for points, changes in found)


def consequence_groups(matrix: MatrixChange) -> tuple[Group, ...]:
    """What sizing makes of it, by the points that it is the same for; all figures of a role stay together."""
    units = [(point, unit) for point in _both(matrix) for unit in _sizes(point)]
    return tuple(Group(points, tuple(Row((change.fact.role,), change) for unit in found for change in unit)) for points, found in _grouped(units))


def group_label(group: Group, matrix: MatrixChange) -> str:
    """`all 8 points`, where both sides have no others; else their names."""
    count = len(group.points)
    if count > 1 and count == matrix.compared:
        return "all points that both sides have" if matrix.of_kind("added", "removed") else f"all {count} points"
    return ", ".join(point.name for point in group.points)


def summary(point: PointChange) -> str:
    """A point that one side alone has, in one line: nodes and GPUs, shapes, head room."""
    facts = {(f.section, f.role, f.name): f for f in (change.fact for change in point.changes)}
    roles = [f.role for f in facts.values() if f.section is Section.ROLE and f.name == "topology"]

    def text(section: Section, name: str, role: str = "") -> str:
        found = facts.get((section, role, name))
        return found.text if found else ""

    shapes = ", ".join(f"{role} {text(Section.ROLE, 'workers', role)} x {text(Section.ROLE, 'topology', role)}" for role in roles)
    rooms = ", ".join(f"{role} {room}" for role in roles if (room := text(Section.SIZE, "KV head room", role)))
    words = [f"{text(Section.JOB, 'nodes')} nodes, {text(Section.JOB, 'GPUs')} GPUs", shapes, f"KV head room {rooms}" if rooms else ""]
    return "; ".join(word for word in words if word)


def _both(matrix: MatrixChange) -> tuple[PointChange, ...]:
    return matrix.of_kind("changed", "renamed")


def _sizes(point: PointChange) -> list[tuple[Change, ...]]:
    """Each role's changes of sizes."""
    found: dict[str, list[Change]] = {}
    for change in point.changes:
        if change.section is Section.SIZE:
            found.setdefault(change.fact.role, []).append(change)
    return [tuple(changes) for changes in found.values()]


def _grouped(units: Iterable[tuple[PointChange, _T]]) -> list[tuple[tuple[PointChange, ...], list[_T]]]:
    """What each set of points has in common, the largest set first; sets and units stay in the order in which they are met."""
    owners: dict[_T, dict[str, PointChange]] = {}
    for point, unit in units:
        owners.setdefault(unit, {})[point.name] = point
    sets: dict[tuple[str, ...], tuple[tuple[PointChange, ...], list[_T]]] = {}
    for unit, points in owners.items():
        sets.setdefault(tuple(points), (tuple(points.values()), []))[1].append(unit)
    return sorted(sets.values(), key=lambda found: -len(found[0]))


def _merged(changes: Sequence[Change]) -> tuple[Row, ...]:
    rows: dict[Change, list[str]] = {}
    for change in changes:
        rows.setdefault(Change(_anyone(change.old), _anyone(change.new)), []).append(change.fact.role)
    return tuple(Row(tuple(role for role in roles if role), change) for change, roles in rows.items())


def _anyone(fact: Fact | None) -> Fact | None:
    """The fact without its role."""
    return fact and replace(fact, role="")
