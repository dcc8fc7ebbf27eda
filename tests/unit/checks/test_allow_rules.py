"""What is said of the allowances of a matrix."""

from __future__ import annotations

import pytest

from recipegen.checks.allow_rules import ALLOW_RULES, AllowView
from recipegen.checks.finding import Finding, Severity
from recipegen.checks.registry import CLUSTER_RULES, all_rules
from recipegen.errors import Source
from recipegen.model import Allowance

PLACE = Source("matrix.yaml", 30, 5)
ALLOWED = Finding(rule="pd-tp-ratio", severity=Severity.ERROR, source=PLACE, message="x", allowed="measured so")


def say(rule: str, *, reason: str = "measured so", whole: bool = True, cluster: bool = True) -> list[str]:
    view = AllowView(
        allow=(Allowance(rule=rule, reason=reason, source=PLACE),),
        findings=(ALLOWED,),
        rules=tuple(all_rules()),
        whole=whole,
        cluster=cluster,
        cluster_rules=tuple(one.id for one in CLUSTER_RULES),
    )
    return [f"{f.rule}: {f.mend}" for one in ALLOW_RULES for f in one.findings(view)]


UNUSED = ["allow-unused: take it out, or check its points"]
FIXED = ["allow-fixed: take the entry out"]


@pytest.mark.parametrize(
    ("rule", "whole", "cluster", "expected"),
    [
        ("pd-tp-ratio", True, True, []),
        ("pd-block-size", True, True, UNUSED),
        ("pd-block-size", True, False, UNUSED),
        ("pd-block-size", False, True, []),
        ("deadline-load", True, True, UNUSED),
        ("deadline-load", True, False, []),
        ("cluster-cpus", True, False, []),
        ("benchmark-offline", True, False, []),
        ("deadline-engine-owned", True, False, UNUSED),  # looks at no profile
        ("schema-value", True, True, FIXED),
        ("placement", False, False, FIXED),
        ("allow-unused", True, True, FIXED),
        ("pd-tp-rato", True, True, ["allow-unknown: did you mean 'pd-tp-ratio'?"]),
    ],
)
def test_an_allowance_and_what_is_said_of_it(rule: str, whole: bool, cluster: bool, expected: list[str]) -> None:
    assert say(rule, whole=whole, cluster=cluster) == expected
