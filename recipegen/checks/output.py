"""Findings for programs: JSON, GitHub's workflow commands, SARIF 2.1.0."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from recipegen import __version__
from recipegen.checks.finding import Finding, Severity
from recipegen.checks.registry import all_rules
from recipegen.checks.rule import RuleText

FORMAT = 1
_SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_GITHUB = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def as_json(files: Sequence[str], findings: Sequence[Finding]) -> str:
    """Return one object: the files looked at, every finding, and how many of each severity are not allowed."""
    counts = {f"{severity.value}s": sum(f.severity is severity and not f.allowed for f in findings) for severity in Severity}
    return _dumped({"format": FORMAT, "files": list(files), **counts, "findings": [_object(f) for f in findings]})


def as_github(findings: Iterable[Finding]) -> str:
    """Return a workflow command a line, which GitHub shows beside the code; what is allowed is left out.

    Source: https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    return "\n".join(_command(finding) for finding in findings if not finding.allowed)


def as_sarif(findings: Sequence[Finding]) -> str:
    """Return a SARIF 2.1.0 log of one run; what is allowed is a result with a suppression in source."""
    rules = list(all_rules().values())
    index = {rule.id: number for number, rule in enumerate(rules)}
    driver = {
        "name": "recipegen",
        "version": __version__,
        "rules": [_sarif_rule(rule) for rule in rules],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_sarif_result(f, index) for f in findings]}
    return _dumped({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _object(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity.value,
        "file": finding.source.file,
        "line": finding.source.line,
        "column": finding.source.column,
        "message": finding.message,
        "mend": finding.mend,
        "points": list(finding.points),
        "allowed": finding.allowed,
    }


def _command(finding: Finding) -> str:
    place = {"file": finding.source.file, "line": finding.source.line or "", "col": finding.source.column or "", "title": finding.rule}
    properties = ",".join(f"{name}={_escape(str(value), more=':,')}" for name, value in place.items() if value)
    return f"::{_GITHUB[finding.severity]} {properties}::{_escape(_sentence(finding))}"


def _escape(text: str, *, more: str = "") -> str:
    return "".join(f"%{ord(char):02X}" if char in "%\r\n" + more else char for char in text)


def _sentence(finding: Finding) -> str:
    return finding.message + (f"; {finding.mend}" if finding.mend else "")


def _sarif_rule(rule: RuleText) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "help": {"text": rule.text},
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _sarif_result(finding: Finding, index: dict[str, int]) -> dict[str, Any]:
    region = {"startLine": finding.source.line, "startColumn": max(1, finding.source.column)} if finding.source.line else None
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(finding.source.file)}} | ({"region": region} if region else {})
    result: dict[str, Any] = {"ruleId": finding.rule, "level": finding.severity.value, "message": {"text": _sentence(finding)}}
    if finding.rule in index:
        result["ruleIndex"] = index[finding.rule]
    if finding.source.file:
        result["locations"] = [{"physicalLocation": place}]
    if finding.allowed:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.allowed}]
    return result


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.encode("utf-8", "surrogateescape"))


def _dumped(document: dict[str, Any]) -> str:
    """JSON text that can be encoded: bytes of a file name that are not UTF-8 become question marks."""
    return json.dumps(document, indent=1, ensure_ascii=False).encode("utf-8", "replace").decode()
