"""A semantic diff as JSON, for programs: every change of every point."""

from __future__ import annotations

import json
from typing import Any

from recipegen.checks.finding import Finding
from recipegen.review.diff_groups import Group, cause_groups, consequence_groups
from recipegen.review.diff_model import Change, Diff, Fact, FindingChange, MatrixChange, PointChange

FORMAT = 1


def diff_text_json(diff: Diff) -> str:
    """Return one object, in ASCII; null stands where a side lacks something."""
    document = {
        "format": FORMAT,
        "from": diff.old,
        "to": diff.new,
        "differs": bool(diff.matrices),
        "usable": diff.usable,
        "same": diff.same,
        "reworded": diff.reworded,
        "matrices": [_matrix(matrix) for matrix in diff.matrices],
    }
    return json.dumps(document, indent=1)


def _matrix(matrix: MatrixChange) -> dict[str, Any]:
    return {
        "kind": matrix.kind,
        "from": matrix.old or None,
        "to": matrix.new or None,
        "compared": matrix.compared,
        "points": [_point(point) for point in matrix.points],
        "groups": [_group(group) for group in (*cause_groups(matrix), *consequence_groups(matrix))],
        "findings": [_finding(finding) for finding in matrix.findings],
        "unusable": {side.side: [_error(finding) for finding in side.findings] for side in matrix.unusable},
    }


def _point(point: PointChange) -> dict[str, Any]:
    return {
        "kind": point.kind,
        "from": point.old or None,
        "to": point.new or None,
        "changes": [_change(change) for change in point.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    fact = change.fact
    return {
        "section": fact.section.value,
        "role": fact.role or None,
        "name": fact.name,
        "kind": change.kind,
        "from": _fact(change.old),
        "to": _fact(change.new),
    }


def _fact(fact: Fact | None) -> dict[str, Any] | None:
    return None if fact is None else {"value": fact.value, "text": fact.text} | ({"note": fact.note} if fact.note else {})


def _group(group: Group) -> dict[str, Any]:
    """Points by their new names, and the changes that they share, with the roles that each is the same in."""
    return {
        "points": [point.name for point in group.points],
        "changes": [{**_change(row.change), "role": None, "roles": list(row.roles)} for row in group.rows],
    }


def _finding(finding: FindingChange) -> dict[str, Any]:
    return {
        "kind": "added" if finding.appears else "removed",
        "rule": finding.rule,
        "severity": finding.severity.value,
        "message": finding.message,
        "allowed": finding.allowed,
        "points": list(finding.points),
    }


def _error(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "file": finding.source.file,
        "line": finding.source.line,
        "column": finding.source.column,
        "message": finding.message,
        "mend": finding.mend,
    }
