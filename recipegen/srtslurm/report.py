"""What came of each file: imported, imported with notes or in part, or refused and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from recipegen.errors import Problem, Source

SHOWN = 5
"""Kinds of problems of a file that text tells; the rest is counted, and in JSON."""
SHARED = 4
"""A note or a carried key of so many files stands once, at the end."""


class Outcome(str, Enum):
    """What came of a file."""

    IMPORTED = "imported"
    NOTED = "imported with notes"
    PARTLY = "imported in part"
    REFUSED = "refused"
    SKIPPED = "skipped"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One job that was refused, and why; an empty variant is the file as a whole."""

    variant: str
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class FileReport:
    """What came of one file: of `jobs` jobs, those not refused are points of `matrices`, `points` in each.

    `carried` names the keys that are kept without effect; a file that was `skipped`, with a note why, has no jobs.
    """

    file: str
    jobs: int
    refused: tuple[Refusal, ...] = ()
    notes: tuple[Problem, ...] = ()
    carried: tuple[str, ...] = ()
    matrices: tuple[str, ...] = ()
    points: tuple[int, ...] = ()
    skipped: bool = False

    @property
    def kept(self) -> int:
        return sum(self.points)

    @property
    def outcome(self) -> Outcome:
        if self.skipped:
            return Outcome.SKIPPED
        if not self.matrices:
            return Outcome.REFUSED
        if self.refused:
            return Outcome.PARTLY
        return Outcome.NOTED if self.notes else Outcome.IMPORTED


def unwritten(report: FileReport, lost: Mapping[str, Problem]) -> FileReport:
    """The report of a file when these matrices could not be written: their points are refused, each matrix for its reason."""
    held = [(name, points) for name, points in zip(report.matrices, report.points, strict=True) if name not in lost]
    refused = tuple(Refusal(variant="", problems=(lost[name],)) for name in report.matrices if name in lost)
    return replace(report, refused=report.refused + refused, matrices=tuple(name for name, _ in held), points=tuple(points for _, points in held))


def report_text(reports: Iterable[FileReport]) -> Iterator[str]:
    """Yield lines: a file and what came of it, below it what is to be known; then what is to be known of many files, and a count."""
    reports = list(reports)
    shared = _Shared.of(reports)
    for report in reports:
        jobs = "" if report.jobs <= 1 else f" ({report.kept} of {report.jobs} jobs)"
        where = f" -> {', '.join(report.matrices)}" if report.matrices else ""
        yield f"{report.file}: {report.outcome.value}{jobs}{where}"
        for line in _problem_lines(report, shared):
            yield f"  {line}"
    yield from shared.lines()
    yield _headline(counts(reports))


@dataclass(frozen=True)
class _Shared:
    """Notes and carried keys that many files have, each with the files and the first place of it."""

    notes: Mapping[str, tuple[int, Problem]]
    carried: Mapping[str, int]

    @classmethod
    def of(cls, reports: Iterable[FileReport]) -> _Shared:
        places: dict[str, list[Problem]] = {}
        carried: Counter[str] = Counter()
        for report in reports:
            for message, note in {note.message: note for note in reversed(report.notes)}.items():
                places.setdefault(message, []).append(note)
            carried.update(set(report.carried))
        notes = {message: (len(found), found[0]) for message, found in places.items() if len(found) >= SHARED}
        return cls(notes, {key: count for key, count in carried.items() if count >= SHARED})

    def lines(self) -> Iterator[str]:
        for count, first in sorted(self.notes.values(), key=lambda one: -one[0]):
            yield f"note of {count} files: {first.message} (first at {first.source})"
        for key, count in sorted(self.carried.items(), key=lambda one: (-one[1], one[0])):
            yield f"carried of {count} files: {key}"


def report_json(reports: Iterable[FileReport]) -> str:
    """Return everything as JSON."""
    reports = list(reports)
    document = {"files": [_file(report) for report in reports], "counts": counts(reports)}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def counts(reports: Iterable[FileReport]) -> dict[str, int]:
    """How many files came to what, and jobs to points."""
    reports = list(reports)
    found = Counter(report.outcome for report in reports)
    jobs, points = sum(report.jobs for report in reports), sum(report.kept for report in reports)
    return {outcome.value: found[outcome] for outcome in Outcome} | {"jobs": jobs, "points": points, "refused_jobs": jobs - points}


def _headline(found: Mapping[str, int]) -> str:
    seldom = {Outcome.PARTLY, Outcome.SKIPPED}
    files = ", ".join(f"{found[one.value]} {one.value}" for one in Outcome if found[one.value] or one not in seldom)
    return f"{files}; {_count(found['jobs'], 'job')}: {_count(found['points'], 'point')}, {found['refused_jobs']} refused"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"


def _problem_lines(report: FileReport, shared: _Shared) -> Iterator[str]:
    refused: Counter[str] = Counter()
    for refusal in report.refused:
        refused.update({f"{problem} [{problem.rule}]": 1 for problem in refusal.problems})
    for text, count in refused.most_common(SHOWN):
        yield f"refused: {text}" + (f" ({count} jobs)" if count > 1 else "")
    if len(refused) > SHOWN:
        yield f"refused: {len(refused) - SHOWN} more reasons"
    yield from (f"note: {text}" for text in dict.fromkeys(str(note) for note in report.notes if note.message not in shared.notes))
    if own := [key for key in report.carried if key not in shared.carried]:
        yield f"carried: {', '.join(own)}"


def _file(report: FileReport) -> dict[str, Any]:
    return {
        "file": report.file,
        "outcome": report.outcome.value,
        "jobs": report.jobs,
        "points": report.kept,
        "matrices": list(report.matrices),
        "notes": [_problem(note) for note in dict.fromkeys(report.notes)],
        "carried": list(report.carried),
        "refused": [{"variant": one.variant, "problems": [_problem(problem) for problem in one.problems]} for one in report.refused],
    }


def _problem(problem: Problem) -> dict[str, Any]:
    place: Source = problem.source
    found = {"file": place.file, "line": place.line, "column": place.column, "message": problem.message}
    return found | {name: value for name, value in (("hint", problem.hint), ("rule", problem.rule)) if value}
