"""A semantic diff as Markdown, for a comment at a pull or merge request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from recipegen.review.diff_groups import Group, Row, cause_groups, consequence_groups, group_label, summary
from recipegen.review.diff_model import MECHANICAL, Change, Diff, Fact, FindingChange, MatrixChange
from recipegen.review.diff_sizes import COLUMNS
from recipegen.review.diff_text import finding_words, headline, title

MARKER = "<!-- recipegen diff -->"
"""The first line: by it, CI finds its own comment again and updates it."""

MOST_BYTES = 50_000
"""All lines in UTF-8 are no longer. GitHub takes 65536 characters in a comment; CI may put words of its own around them."""
_LAST_LINE = 200
_LONGEST = 300
_MOST_ROWS = 6
_PLAIN = re.compile(r"[^`|\x00-\x1f\x7f]+")


def markdown_lines(diff: Diff) -> Iterator[str]:
    """Lines of the comment, no longer in all than one may be: matrices that do not fit are told by their headline, or counted in the last line.

    Everything that a file says stands in code, where neither Markdown nor HTML nor @mentions work.
    """
    head = (MARKER, f"### recipegen diff: {headline(diff)}", "", f"{code(diff.old)} to {code(diff.new)}")
    yield from head
    left, shortened, told = MOST_BYTES - _size(head) - _LAST_LINE, 0, 0
    for matrix in diff.matrices:
        whole, brief = list(_matrix(matrix, diff)), ["", _head(matrix)]
        block = next((lines for lines in (whole, brief) if _size(lines) <= left), None)
        if block is None:
            break
        told, shortened, left = told + 1, shortened + (block is brief), left - _size(block)
        yield from block
    if shortened or told < len(diff.matrices):
        yield from ("", _left_out(shortened, len(diff.matrices) - told))


def _left_out(shortened: int, untold: int) -> str:
    what = [f"the details of {shortened} of these matrices"] if shortened else []
    what += [f"{untold} more matrices that differ"] if untold else []
    return f"Too long for a comment, and left out: {' and '.join(what)}. `recipegen diff` with `--format text` prints all of it."


def code(text: str, *, in_html: bool = False) -> str:
    """A text as code, inert wherever it stands: in backticks, or else as HTML whose every special character is an entity."""
    text = text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
    if not in_html and _PLAIN.fullmatch(text) and text.strip() == text:
        return f"`{text}`"
    return f"<code>{''.join(_entity(char) for char in text) or ' '}</code>"


def _entity(char: str) -> str:
    """ASCII that could mean something to Markdown or HTML by its number; a line break becomes a space."""
    if char in "\r\n\t":
        return " "
    return char if char.isalnum() or char in " -,=+%()" or ord(char) > 127 else f"&#{ord(char)};"


def _size(lines: Sequence[str]) -> int:
    """How many bytes lines take at most; a character that is made printable takes no more than its escape."""
    return sum(len(line.encode("ascii", "backslashreplace")) + 1 for line in lines)


def _head(matrix: MatrixChange) -> str:
    paths = [path for path in dict.fromkeys((matrix.old, matrix.new)) if path]
    return f"#### {' to '.join(map(code, paths))}: {title(matrix)}"


def _matrix(matrix: MatrixChange, diff: Diff) -> Iterator[str]:
    yield from ("", _head(matrix))
    for side in matrix.unusable:
        yield from ("", f"{code(diff.old if side.side == 'from' else diff.new)} cannot be used:", "")
        yield from (f"- {code(f'{finding.source}: {finding.message}')} {code(finding.rule)}" for finding in side.findings)
    yield from _points(matrix)
    for group in cause_groups(matrix):
        yield from _group(group, matrix)
    yield from _consequences(consequence_groups(matrix), matrix)
    yield from _findings(matrix.findings, matrix)


def _points(matrix: MatrixChange) -> Iterator[str]:
    told = [point for point in matrix.points if point.kind != "changed"]
    if told:
        yield ""
    for point in told:
        if point.kind == "renamed":
            yield f"- renamed: {code(point.old)} to {code(point.new)}"
        else:
            yield f"- {point.kind}: {code(point.name)}: {code(summary(point))}"


def _group(group: Group, matrix: MatrixChange) -> Iterator[str]:
    """A table of what was changed; what follows from topology and placement alone is folded away, unless there is nothing else."""
    mechanical = [row for row in group.rows if row.change.section in MECHANICAL]
    stated = [row for row in group.rows if row.change.section not in MECHANICAL]
    yield from ("", f"**{_label(group, matrix)}**")
    yield from _table(stated or mechanical)
    if stated and mechanical:
        yield from ("", f"<details><summary>{len(mechanical)} more, of ports and placement</summary>")
        yield from (*_table(mechanical), "", "</details>")


def _label(group: Group, matrix: MatrixChange) -> str:
    label = group_label(group, matrix)
    return label if label.startswith("all ") else ", ".join(code(point.name) for point in group.points)


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield from ("", "| | | before | after |", "|---|---|---|---|")
    for row in rows:
        yield f"| {row.where} | {code(row.change.fact.name)} | {_cell(row.change.old)} | {_cell(row.change.new)} |"


def _cell(fact: Fact | None) -> str:
    if fact is None:
        return "-"
    return code(fact.text) + (f" = {code(fact.note)}" if fact.note else "")


def _consequences(groups: Sequence[Group], matrix: MatrixChange) -> Iterator[str]:
    """A row for each role of each set of points, a column for each figure that changes anywhere."""
    if not groups:
        return
    told = {row.change.fact.name for group in groups for row in group.rows}
    names = [name for name in COLUMNS if name in told]
    rows = list(_figures(groups, matrix, names))
    title = "What follows from it (GiB of one GPU, requests of one engine)"
    folded = len(rows) > _MOST_ROWS
    yield from ("", f"<details><summary>{title}: {len(rows)} rows</summary>" if folded else f"**{title}**", "")
    yield from (f"| points | role | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|")
    yield from rows
    yield from ("", "</details>") if folded else ()


def _figures(groups: Sequence[Group], matrix: MatrixChange, names: Sequence[str]) -> Iterator[str]:
    for group in groups:
        for role in dict.fromkeys(row.where for row in group.rows):
            figures = {row.change.fact.name: row.change for row in group.rows if row.where == role}
            cells = (_figure(figures[name]) if name in figures else "" for name in names)
            yield f"| {_label(group, matrix)} | {role} | {' | '.join(cells)} |"


def _figure(change: Change) -> str:
    old, new = change.old, change.new
    if change.same:
        return f"{code(change.fact.text)} as before"
    return f"{code(old.text) if old else '-'} to {code(new.text) if new else '-'}"


def _findings(findings: Sequence[FindingChange], matrix: MatrixChange) -> Iterator[str]:
    if not findings:
        return
    yield from ("", f"<details{' open' if _bad(findings) else ''}><summary>Findings that come or go: {len(findings)}</summary>", "")
    yield from (f"- {finding_words(finding, matrix)}: {code(finding.rule)} {code(finding.message)}" for finding in findings)
    yield from ("", "</details>")


def _bad(findings: Sequence[FindingChange]) -> bool:
    """Whether there is an error or a warning that was not there."""
    return any(finding.appears and not finding.allowed and finding.severity.value != "note" for finding in findings)
