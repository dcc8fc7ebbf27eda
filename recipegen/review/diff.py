"""Compares matrices by what they would run: two versions of each, as text, to what differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recipegen.checks.finding import Finding
from recipegen.checks.run import finding_of
from recipegen.errors import InputError
from recipegen.launch import LaunchPlan
from recipegen.matrix import parse_matrix
from recipegen.model import Matrix, Point
from recipegen.pipeline import Checked, check_points
from recipegen.plan_json import plan_document
from recipegen.review.diff_changes import fact_changes
from recipegen.review.diff_facts import FactTeller
from recipegen.review.diff_findings import compare_findings
from recipegen.review.diff_model import Change, Fact, Facts, FindingChange, MatrixChange, PointChange, Section, UnusableSide
from recipegen.review.diff_points import common_meaning, meaning, pair_points


@dataclass(frozen=True, kw_only=True)
class MatrixText:
    """One version of a matrix: the path that reports give it, and its bytes; or why they could not be read."""

    path: str
    data: bytes = b""
    unreadable: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class TextPair:
    """Two versions of a matrix; None where a side has none."""

    old: MatrixText | None
    new: MatrixText | None


@dataclass(frozen=True, kw_only=True)
class _Version:
    """One version as far as it can be read; no text at all is a version without points."""

    path: str = ""
    matrix: Matrix | None = None
    errors: tuple[Finding, ...] = ()

    @property
    def points(self) -> tuple[Point, ...]:
        return self.matrix.points if self.matrix else ()


def compare_all(pairs: Iterable[TextPair]) -> tuple[MatrixChange, ...]:
    """Compare pairs of versions; those that run the same are among the results, with nothing in them.

    A matrix that left its path, and one of the same `name` that came to another, are two versions of one matrix where there is just one
    of each: a leaf folder that was renamed and edited.
    """
    versions = _with_moves([(_version(pair.old), _version(pair.new)) for pair in pairs])
    return tuple(_compare(old, new) for old, new in versions)


def point_names(text: MatrixText) -> tuple[str, ...]:
    """The names of a matrix's points; none where it cannot be read."""
    return tuple(point.name for point in _version(text).points)


def only_point(change: MatrixChange, name: str) -> MatrixChange:
    """What of a change concerns the point of this name, on either side; the file as a whole, and errors of a side, included."""
    points = tuple(point for point in change.points if name in {point.old, point.new})
    names = {name, *(point.name for point in points)}
    findings = tuple(replace(f, points=tuple(p for p in f.points if p in names)) for f in change.findings if not f.points or names & {*f.points})
    return replace(change, points=points, findings=findings, compared=sum(point.kind in {"changed", "renamed"} for point in points))


def _version(text: MatrixText | None) -> _Version:
    if text is None:
        return _Version()
    if text.unreadable:
        return _Version(path=text.path, errors=text.unreadable)
    try:
        return _Version(path=text.path, matrix=parse_matrix(text.data, text.path))
    except InputError as error:
        if not error.problems:
            raise
        return _Version(path=text.path, errors=tuple(map(finding_of, error.problems)))


def _with_moves(versions: list[tuple[_Version, _Version]]) -> list[tuple[_Version, _Version]]:
    """Make one pair of a matrix that went and the only one of its name that came; both by their `name`."""
    gone = _by_name(old for old, new in versions if not new.path)
    come = _by_name(new for old, new in versions if not old.path)
    moved = [(gone[name][0], come[name][0]) for name in gone if len(gone[name]) == len(come.get(name, ())) == 1]
    taken = {id(version) for pair in moved for version in pair}
    return [pair for pair in versions if not taken & {id(pair[0]), id(pair[1])}] + moved


def _by_name(versions: Iterable[_Version]) -> dict[str, list[_Version]]:
    found: dict[str, list[_Version]] = {}
    for version in versions:
        if version.matrix:
            found.setdefault(version.matrix.name, []).append(version)
    return found


def _compare(old: _Version, new: _Version) -> MatrixChange:
    pairs = pair_points(old.points, new.points)
    chosen = _concerned(old, new, pairs)
    if not chosen and old.matrix and new.matrix:
        return MatrixChange(old=old.path, new=new.path, compared=len(pairs))
    before, after = _Side(old, [one for one, _ in chosen if one]), _Side(new, [other for _, other in chosen if other])
    failed = {"from": before.errors, "to": after.errors}
    renamed = {one.name: other.name for one, other in pairs if one and other}
    points = (_compare_point(before, after, one, other) for one, other in chosen)
    return MatrixChange(
        old=old.path,
        new=new.path,
        compared=len(renamed),
        points=tuple(point for point in points if point),
        findings=() if any(failed.values()) or not new.path else _findings(before, after, renamed),
        unusable=tuple(UnusableSide(side=side, findings=errors) for side, errors in failed.items() if errors),
    )


def _concerned(old: _Version, new: _Version, pairs: list[tuple[Point | None, Point | None]]) -> list[tuple[Point | None, Point | None]]:
    """The pairs that can differ. What all points share decides for all; allowances are judged by the points together."""
    if old.matrix is None or new.matrix is None or old.matrix.allow or common_meaning(old.matrix) != common_meaning(new.matrix):
        return pairs
    return [(one, other) for one, other in pairs if one is None or other is None or meaning(one) != meaning(other)]


class _Side:
    """A version with some of its points followed: what was found, and what is true of each."""

    def __init__(self, version: _Version, points: Sequence[Point]) -> None:
        self.version, matrix = version, version.matrix
        self.checked = check_points(matrix, points) if matrix else Checked(findings=(), usable=not version.errors)
        self._teller = FactTeller(matrix) if matrix else None
        self._views = {view.recipe.point: view for view in self.checked.points}
        self._plans = {plan.recipe.point: plan for plan in self.checked.plans}

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Why the side cannot be used; none where it can."""
        return () if self.checked.usable else self.version.errors or self.checked.errors

    def plan(self, point: str) -> LaunchPlan | None:
        return self._plans.get(point)

    def facts(self, point: Point | None) -> Facts:
        """The facts of a point; none where it was not followed to its plan."""
        plan = self._plans.get(point.name) if point else None
        return self._teller.facts(point, self._views[point.name], plan) if self._teller and point and plan else {}


def _compare_point(before: _Side, after: _Side, one: Point | None, other: Point | None) -> PointChange | None:
    """What differs between two points; None where nothing does, or where neither could be followed.

    A point that a side lacks because it could not be read or followed there is shown, but neither added nor removed.
    """
    had, has = before.facts(one), after.facts(other)
    old, new = one.name if had and one else "", other.name if has and other else ""
    if not had and not has:
        return None
    missing, beyond = (after.version, other) if had else (before.version, one)
    lost = not (had and has) and (beyond is not None or (missing.path != "" and missing.matrix is None))
    changes = fact_changes(had, has)
    if had and has and old == new and not changes:
        changes = _rest(before.plan(old), after.plan(new))
        if not changes:
            return None
    return PointChange(old=old, new=new, changes=changes, uncompared=lost)


def _rest(before: LaunchPlan | None, after: LaunchPlan | None) -> tuple[Change, ...]:
    """What is not the same in two plans whose facts are: a part of a plan that no fact tells of must not pass for no difference."""
    had, has = (_parts(plan) if plan else {} for plan in (before, after))
    return tuple(
        Change(*(Fact(Section.JOB, "", name, text, text) for text in (had.get(name, ""), has.get(name, ""))))
        for name in {**had, **has}
        if had.get(name) != has.get(name)
    )


def _parts(plan: LaunchPlan) -> dict[str, str]:
    """The plan's document without its command lines and digests, which hold flags as they were written."""
    document = plan_document(plan)
    placed = [{name: value for name, value in process.items() if name not in {"argv", "env"}} for process in document["processes"]]
    return {name: json.dumps(value) for name, value in {**document, "processes": placed}.items() if name != "recipe_digest"}


def _findings(before: _Side, after: _Side, renamed: dict[str, str]) -> tuple[FindingChange, ...]:
    return compare_findings(before.checked.findings, after.checked.findings, renamed=renamed, both=set(renamed.values()))
