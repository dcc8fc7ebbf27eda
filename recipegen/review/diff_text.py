"""A semantic diff as lines of text, for people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from recipegen.review.diff_groups import Group, Row, cause_groups, consequence_groups, group_label, summary
from recipegen.review.diff_model import Change, Diff, FindingChange, MatrixChange

_SIGNS = {"added": "+", "removed": "-", "changed": "~", "same": "="}


def text_lines(diff: Diff) -> Iterator[str]:
    """Lines of the report. They hold what files say: whoever prints them has to make them printable, line by line."""
    yield f"{diff.old} -> {diff.new}: {headline(diff)}"
    for matrix in diff.matrices:
        yield ""
        yield from _matrix(matrix, diff)


def headline(diff: Diff) -> str:
    """How many matrices differ, how many only moved, and how many do neither."""
    count, moved = len(diff.matrices), sum(matrix.only_moved for matrix in diff.matrices)
    differ = [_count(count - moved, "matrix differs", "matrices differ")] if count > moved else []
    differ += [_count(moved, "matrix only moved", "matrices only moved")] if moved else []
    same = [_count(diff.same, "runs the same", "run the same") if count else _count(diff.same, "matrix runs the same", "matrices run the same")]
    reworded = [f"{diff.reworded} of them in other words"] if diff.reworded else []
    return ", ".join([*differ, *(same if diff.same or not count else []), *reworded])


def title(matrix: MatrixChange) -> str:
    """What happened to a matrix, in one clause: how many of its points changed, were added, removed or renamed."""
    if matrix.kind in {"added", "removed"} and not matrix.unusable:
        counted = _count(len(matrix.points), "point", "points")
        return f"matrix {matrix.kind}, {counted}"
    words = [
        "cannot be used" if matrix.unusable else "",
        "matrix renamed" if matrix.kind == "renamed" else "",
        _points(matrix),
        "other findings" if matrix.findings and not matrix.points else "",
        "the same content" if not (matrix.points or matrix.findings or matrix.unusable) else "",
    ]
    return "; ".join(word for word in words if word)


def _points(matrix: MatrixChange) -> str:
    counts = {kind: len(matrix.of_kind(kind)) for kind in ("changed", "renamed", "added", "removed")}
    told = [f"{count} {kind}" for kind, count in counts.items() if count]
    if told == [f"{counts['changed']} changed"]:
        return f"{counts['changed']} of {_count(matrix.compared, 'point', 'points')} changed"
    return f"points: {', '.join(told)} ({matrix.compared} on both sides)" if told else ""


def finding_words(finding: FindingChange, matrix: MatrixChange) -> str:
    """`new warning on all 8 points`, `gone: error on NAME`, and the reason by which it is allowed."""
    points = f" on {named(finding.points, matrix)}" if finding.points else ""
    kind = f"allowed {finding.severity.value}" if finding.allowed else finding.severity.value
    return f"{'new' if finding.appears else 'gone'}: {kind}{points}"


def named(points: Sequence[str], matrix: MatrixChange) -> str:
    """Names of points, or `all N points` where these are all."""
    everyone = matrix.compared + len(matrix.of_kind("added")) if matrix.new else len(matrix.points)
    return f"all {len(points)} points" if len(points) > 1 and len(points) == everyone else ", ".join(points)


def change_text(change: Change) -> str:
    """`80 -> 48`, what came or went alone, and how derived values came about."""
    old, new = change.old, change.new
    if change.same:
        return f"{change.fact.text}, as before"
    notes = [note for note in (new.note if new else "", f"was {old.note}" if new and old and old.note else "") if note]
    told = f"   ({'; '.join(notes)})" if notes else ""
    return (f"{old.text} -> {new.text}" if old and new else change.fact.text) + told


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _matrix(matrix: MatrixChange, diff: Diff) -> Iterator[str]:
    yield f"{matrix.label}: {title(matrix)}"
    for side in matrix.unusable:
        yield f"  {diff.old if side.side == 'from' else diff.new} cannot be used:"
        yield from (f"    {finding}" for finding in side.findings)
    for point in matrix.points:
        if point.kind not in {"changed", "renamed"}:
            yield f"  {point.kind} {point.name}: {summary(point)}"
        elif point.kind == "renamed":
            yield f"  renamed {point.label}"
    for group in cause_groups(matrix):
        yield f"  {group_label(group, matrix)}"
        yield from _rows(group.rows)
    yield from _consequences(consequence_groups(matrix), matrix)
    for finding in matrix.findings:
        yield f"  {finding_words(finding, matrix)}: {finding.message} [{finding.rule}]"


def _rows(rows: Sequence[Row]) -> Iterator[str]:
    where = max(len(row.where) for row in rows)
    name = max(len(row.change.fact.name) for row in rows)
    for row in rows:
        sign = _SIGNS[row.change.kind]
        yield f"    {sign} {row.where:{where}}  {row.change.fact.name:{name}}  {change_text(row.change)}"


def _consequences(groups: Sequence[Group], matrix: MatrixChange) -> Iterator[str]:
    if groups:
        yield "  what follows from it (GiB of one GPU, requests of one engine)"
    for group in groups:
        yield f"    {group_label(group, matrix)}"
        roles = dict.fromkeys(row.where for row in group.rows)
        for role in roles:
            told = [f"{row.change.fact.name} {_short(row.change)}" for row in group.rows if row.where == role]
            yield f"      {role}: {'; '.join(told)}"


def _short(change: Change) -> str:
    """Without the notes: where figures come from is for `plan --explain`."""
    old, new = change.old, change.new
    if change.same or not (old and new):
        return change.fact.text + {"same": ", as before", "added": " (new)", "removed": " (gone)"}[change.kind]
    return f"{old.text} -> {new.text}"
