"""Which findings of the checks a change of a matrix brings, and which it takes away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from recipegen.checks.finding import Finding, Severity
from recipegen.review.diff_model import FindingChange

_Key = tuple[str, Severity, str, str]
"""Rule, severity, the reason that allows it, point."""


def compare_findings(
    old: Sequence[Finding], new: Sequence[Finding], *, renamed: Mapping[str, str], both: AbstractSet[str]
) -> tuple[FindingChange, ...]:
    """Return the findings that one side has and the other lacks; those of `new` first, each side in its order.

    `renamed` leads from old names of points to new ones. A finding of the same rule, severity and point on both sides is the same,
    whatever the numbers in its message; where a side has more of them, those with messages of their own are told. Findings of points
    that only `old` has went with them, and are not told: `both` names the points that are on both sides, by their new names.
    """
    before, after = _by_key(old, renamed), _by_key(new, {})
    gone_with_points = {key: found for key, found in before.items() if key[3] and key[3] not in both}
    before = {key: found for key, found in before.items() if key not in gone_with_points}
    return (*_told(_surplus(after, before), appears=True), *_told(_surplus(before, after), appears=False))


def _by_key(findings: Iterable[Finding], renamed: Mapping[str, str]) -> dict[_Key, list[str]]:
    found: dict[_Key, list[str]] = {}
    for finding in findings:
        for point in finding.points or ("",):
            key = (finding.rule, finding.severity, finding.allowed, renamed.get(point, point))
            found.setdefault(key, []).append(finding.message)
    return found


def _surplus(have: Mapping[_Key, Sequence[str]], other: Mapping[_Key, Sequence[str]]) -> Iterator[tuple[_Key, str]]:
    for key, messages in have.items():
        known = Counter(other.get(key, ()))
        surplus = len(messages) - known.total()
        own = [message for message in messages if not known[message]]
        yield from ((key, message) for message in own[:surplus] if surplus > 0)


def _told(found: Iterable[tuple[_Key, str]], *, appears: bool) -> Iterator[FindingChange]:
    """One change for the points that share it."""
    points: dict[tuple[str, Severity, str, str], list[str]] = {}
    for (rule, severity, allowed, point), message in found:
        points.setdefault((rule, severity, allowed, message), []).append(point)
    for (rule, severity, allowed, message), names in points.items():
        concerned = tuple(name for name in names if name)
        yield FindingChange(appears=appears, rule=rule, severity=severity, message=message, allowed=allowed, points=concerned)
