"""Every public problem that can be seen before submission has a rule, or a reason why it needs none."""

from __future__ import annotations

import re

from recipegen.checks.registry import all_rules
from tests.support import ROOT

BEFORE_SUBMISSION = (1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 20, 22, 28, 29, 34, 36, 37, 38, 41, 44, 52, 54, 57)
"""Rows of the list that a launcher can catch from the recipe and the cluster profile."""


def table() -> dict[int, str]:
    text = (ROOT / "docs/reference/public-problems.md").read_text()
    return {int(number): caught for number, caught in re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE)}


def rules_in(text: str) -> set[str]:
    return {name for name in re.findall(r"`([a-z-]+)`", text) if name in all_rules()}


def test_every_problem_has_a_rule_or_a_reason() -> None:
    assert tuple(table()) == BEFORE_SUBMISSION
    assert [number for number, caught in table().items() if not rules_in(caught) and not caught.startswith("by design: ")] == []


def test_every_name_in_the_table_is_a_rule() -> None:
    named = {name for caught in table().values() for name in re.findall(r"`([a-z]+-[a-z-]+)`", caught)}
    assert named <= set(all_rules()), named - set(all_rules())


def test_rules_and_table_agree_on_what_is_covered() -> None:
    claimed = {number: {rule.id for rule in all_rules().values() if number in rule.covers} for number in BEFORE_SUBMISSION}
    assert {number: rules for number, rules in claimed.items() if not rules <= rules_in(table()[number])} == {}
    assert {number for rule in all_rules().values() for number in rule.covers} <= set(BEFORE_SUBMISSION) | {53}
