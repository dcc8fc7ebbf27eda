"""The nouns of a semantic diff: facts of a point, their changes, and what differs between two points, matrices and trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from recipegen.checks.finding import Finding, Severity


class Section(str, Enum):
    """What a fact is about. A member's value is the word that a report has for it."""

    INPUT = "input"
    PIN = "pin"
    WORKLOAD = "workload"
    BENCHMARK = "benchmark"
    JOB = "job"
    ROLE = "role"
    FLAG = "flag"
    ENV = "env"
    PORT = "port"
    LAUNCHER_FLAG = "launcher flag"
    LAUNCHER_ENV = "launcher env"
    PLACEMENT = "placement"
    SIZE = "size"


MECHANICAL = frozenset({Section.PORT, Section.LAUNCHER_FLAG, Section.LAUNCHER_ENV, Section.PLACEMENT})
"""Sections that follow from topology and placement alone: a short report can fold them away."""

Scalar = str | int | float | bool | None
"""A fact's value for programs; None stands where nothing is known."""

FactKey = tuple[str, str]
"""The role (empty: the point as a whole) and the name of a fact."""

FactValue = tuple[Scalar, str, str]
"""Value, text and note of a fact."""

Facts = Mapping[Section, Mapping[FactKey, FactValue]]
"""All facts of a point. Of thousands only a few differ: those become a Fact each."""


@dataclass(frozen=True)
class Fact:
    """One thing that is true of a point: of one of its roles where `role` is set.

    `text` is the value as people read it, and what two sides are compared by. `note` tells how a derived value came about.
    """

    section: Section
    role: str
    name: str
    value: Scalar
    text: str
    note: str = ""


@dataclass(frozen=True)
class Change:
    """A fact before and after; None where a side does not have it."""

    old: Fact | None
    new: Fact | None

    @property
    def fact(self) -> Fact:
        """The newer of the two: for what both have in common."""
        found = self.new or self.old
        if found is None:
            raise ValueError("a change has at least one side")
        return found

    @property
    def section(self) -> Section:
        return self.fact.section

    @property
    def same(self) -> bool:
        """Whether it is told for completeness only: head room that stayed, beside flags that did not."""
        return self.old is not None and self.new is not None and self.old.text == self.new.text

    @property
    def kind(self) -> str:
        """`added`, `removed`, `changed` or `same`."""
        if self.same:
            return "same"
        return "added" if self.old is None else "removed" if self.new is None else "changed"


@dataclass(frozen=True, kw_only=True)
class PointChange:
    """A point that differs: `old` and `new` are its names, empty where a side lacks it.

    `changes` holds every fact of a point that only one side has. `uncompared` tells that the other side could not be followed.
    """

    old: str
    new: str
    changes: tuple[Change, ...] = ()
    uncompared: bool = False

    @property
    def kind(self) -> str:
        """`added`, `removed`, `renamed`, `changed`, or `uncompared`."""
        if self.uncompared:
            return "uncompared"
        if not self.old or not self.new:
            return "removed" if self.old else "added"
        return "changed" if self.old == self.new else "renamed"

    @property
    def label(self) -> str:
        """The name; both of a renamed point."""
        return f"{self.old} -> {self.new}" if self.kind == "renamed" else self.new or self.old

    @property
    def name(self) -> str:
        return self.new or self.old


@dataclass(frozen=True, kw_only=True)
class FindingChange:
    """A finding of the checks that one side alone has, and the points that it concerns there (none: the file as a whole)."""

    appears: bool
    rule: str
    severity: Severity
    message: str
    allowed: str = ""
    points: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class UnusableSide:
    """A side whose matrix cannot be used, `from` or `to`, and the errors that say why."""

    side: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, kw_only=True)
class MatrixChange:
    """Two versions of a matrix: `old` and `new` are its paths, empty where a side lacks it.

    `points` are those that differ, `compared` counts those that both sides have, differing or not.
    """

    old: str
    new: str
    compared: int = 0
    points: tuple[PointChange, ...] = ()
    findings: tuple[FindingChange, ...] = ()
    unusable: tuple[UnusableSide, ...] = ()

    @property
    def kind(self) -> str:
        """`added`, `removed`, `renamed` or `changed`."""
        if not self.old or not self.new:
            return "removed" if self.old else "added"
        return "changed" if self.old == self.new else "renamed"

    @property
    def path(self) -> str:
        return self.new or self.old

    @property
    def label(self) -> str:
        return f"{self.old} -> {self.new}" if self.kind == "renamed" else self.path

    @property
    def differs(self) -> bool:
        return bool(self.kind != "changed" or self.points or self.findings or self.unusable)

    @property
    def only_moved(self) -> bool:
        """Whether the same runs from another path."""
        return self.kind == "renamed" and not (self.points or self.findings or self.unusable)

    def of_kind(self, *kinds: str) -> tuple[PointChange, ...]:
        """The points of these kinds."""
        return tuple(point for point in self.points if point.kind in kinds)


@dataclass(frozen=True, kw_only=True)
class Diff:
    """Two sides by the names that people gave them, and the matrices that differ.

    `same` counts the matrices that run the same on both sides, `reworded` those of them whose text is not the same.
    """

    old: str
    new: str
    matrices: tuple[MatrixChange, ...] = ()
    same: int = 0
    reworded: int = 0

    @property
    def usable(self) -> bool:
        return not any(matrix.unusable for matrix in self.matrices)
