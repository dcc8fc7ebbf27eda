"""The documentation of rules, from the rules themselves."""

from __future__ import annotations

from recipegen.checks.registry import all_rules
from recipegen.checks.rule import RuleText
from recipegen.errors import InputError, near_match

_HEAD = """\
# Rules of `recipegen check`

Written by `make docs` from the rules themselves. An error refuses `render` and `submit`, a warning is shown, a note is shown by `check` alone.
A matrix allows a finding, where that is wanted, with a reason: [the matrix](matrix.md). Input that cannot be read or followed cannot be allowed.
"""


def explain(rule_id: str) -> str:
    """Return what there is to say about one rule; InputError with a near match for one that does not exist."""
    rules = all_rules()
    if rule_id not in rules:
        raise InputError(f"no rule is called '{rule_id}'", hint=near_match(rule_id, rules) or f"rules: {', '.join(rules)}")
    return f"{_title(rules[rule_id])}\n\n{rules[rule_id].text}\n"


def rules_page() -> str:
    """Return docs/reference/rules.md: a table of contents, and every rule."""
    rules = all_rules().values()
    table = ["| rule | severity | |", "|---|---|---|", *(f"| [{rule.id}](#{rule.id}) | {rule.severity.value} | {rule.title} |" for rule in rules)]
    return "\n".join([_HEAD, *table, "", *(f"## {rule.id}\n\n*{rule.severity.value}* · {rule.text}\n" for rule in rules)])


def _title(rule: RuleText) -> str:
    return f"{rule.id} ({rule.severity.value})"
