"""Rules over what a matrix allows: an allowance names a rule that exists, and is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recipegen.checks.finding import Fault, Finding, Severity
from recipegen.checks.input_rules import INPUT_RULES
from recipegen.checks.rule import Rule, rule
from recipegen.errors import near_match
from recipegen.model import Allowance


@dataclass(frozen=True, kw_only=True)
class AllowView:
    """The allowances of a matrix beside everything that was found; `whole` tells that all of its points were looked at.

    `cluster` tells that they were held against a profile, without which `cluster_rules` find nothing.
    """

    allow: tuple[Allowance, ...]
    findings: tuple[Finding, ...]
    rules: tuple[str, ...]
    whole: bool
    cluster: bool = True
    cluster_rules: tuple[str, ...] = ()

    def judges(self, rule_id: str) -> bool:
        """Whether all was looked at that the rule could find something in."""
        return self.whole and rule_id in self.rules and (self.cluster or rule_id not in self.cluster_rules)


@rule("allow-unknown", Severity.ERROR)
def unknown(view: AllowView) -> Iterator[Fault]:
    """`allow` names a rule that does not exist.

    Nothing would be allowed by it, and the finding that was meant stays.

    Mend: take the id that stands in brackets behind the finding.
    """
    for allowance in view.allow:
        if allowance.rule not in view.rules:
            hint = near_match(allowance.rule, view.rules) or "take the id that stands in brackets behind a finding"
            yield Fault(allowance.source, f"no rule is called '{allowance.rule}'", hint)


@rule("allow-unused", Severity.WARNING)
def unused(view: AllowView) -> Iterator[Fault]:
    """`allow` holds an entry that allows nothing.

    What it was written for is mended, or its points are not those that the finding concerns. Left in place it would hide the
    next fault of its kind. Not said when only some points are looked at, nor, without a profile, of rules that look at one.

    Mend: take the entry out, or name the points that it is for.
    """
    for allowance in view.allow:
        used = any(finding.rule == allowance.rule and finding.allowed == allowance.reason for finding in view.findings)
        if not used and view.judges(allowance.rule) and allowance.rule not in _FIXED:
            yield Fault(allowance.source, f"nothing that '{allowance.rule}' finds is allowed by this entry", "take it out, or check its points")


@rule("allow-fixed", Severity.ERROR)
def fixed(view: AllowView) -> Iterator[Fault]:
    """`allow` names a rule whose findings cannot be allowed.

    Input that cannot be used gives no plan, whatever is allowed; and what is said of `allow` itself is mended there.

    Mend: take the entry out, and mend what the rule finds.
    """
    for allowance in view.allow:
        if allowance.rule in _FIXED:
            yield Fault(allowance.source, f"what '{allowance.rule}' finds cannot be allowed: it has to be mended", "take the entry out")


ALLOW_RULES: tuple[Rule[AllowView], ...] = (unknown, unused, fixed)
_FIXED = frozenset(rule.id for rule in (*INPUT_RULES, *ALLOW_RULES))
