"""Findings for programs, and what is said of rules."""

from __future__ import annotations

import json

import pytest
from sarif_pydantic import Sarif

from recipegen.checks.explain import explain, rules_page
from recipegen.checks.finding import Finding, Severity
from recipegen.checks.output import as_github, as_json, as_sarif
from recipegen.checks.registry import all_rules
from recipegen.errors import NOWHERE, InputError, Source
from tests.support import ROOT

PLACE = Source("a b/matrix.yaml", 12, 5)
ERROR = Finding(rule="flag-unknown", severity=Severity.ERROR, source=PLACE, message="no 'x'", mend="did you mean 'y'?", points=("p1", "p2"))
ALLOWED = Finding(rule="capacity-batch", severity=Severity.WARNING, source=PLACE, message="m", allowed="measured so")
BROKEN = Finding(rule="text-encoding", severity=Severity.ERROR, source=Source("matrix.yaml"), message="50% of\nit, all: bad")
NOTE = Finding(rule="flag-build", severity=Severity.NOTE, source=NOWHERE, message="nearest")
ALL = (ERROR, ALLOWED, BROKEN, NOTE)


def test_json_has_every_finding_and_counts_what_is_not_allowed() -> None:
    document = json.loads(as_json(["matrix.yaml"], ALL))
    assert (document["errors"], document["warnings"], document["notes"]) == (2, 0, 1)
    assert document["findings"][0] == {
        "rule": "flag-unknown", "severity": "error", "file": "a b/matrix.yaml", "line": 12, "column": 5,
        "message": "no 'x'", "mend": "did you mean 'y'?", "points": ["p1", "p2"], "allowed": "",
    }  # fmt: skip
    assert document["findings"][1]["allowed"] == "measured so"


def test_github_commands_are_one_line_each_and_escaped() -> None:
    assert as_github(ALL).split("\n") == [
        "::error file=a b/matrix.yaml,line=12,col=5,title=flag-unknown::no 'x'; did you mean 'y'?",
        "::error file=matrix.yaml,title=text-encoding::50%25 of%0Ait, all: bad",
        "::notice title=flag-build::nearest",
    ]
    odd = Finding(rule="r", severity=Severity.ERROR, source=Source("a,b:c.yaml", 1, 1), message="m")
    assert as_github([odd]) == "::error file=a%2Cb%3Ac.yaml,line=1,col=1,title=r::m"


def test_sarif_is_valid_and_marks_what_is_allowed() -> None:
    text = as_sarif(ALL)
    log = Sarif.model_validate_json(text)
    (run,) = log.runs
    assert [rule.id for rule in run.tool.driver.rules or []] == list(all_rules())
    results = json.loads(text)["runs"][0]["results"]
    assert [result["level"] for result in results] == ["error", "warning", "error", "note"]
    assert results[0]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "a%20b/matrix.yaml"},
        "region": {"startLine": 12, "startColumn": 5},
    }
    assert results[1]["suppressions"] == [{"kind": "inSource", "justification": "measured so"}]
    assert "region" not in results[2]["locations"][0]["physicalLocation"]
    assert all(list(all_rules())[result["ruleIndex"]] == result["ruleId"] for result in results)


@pytest.mark.parametrize("rule", all_rules())
def test_every_rule_says_why_and_how_to_mend(rule: str) -> None:
    text = all_rules()[rule].text
    title, blank, *rest = text.splitlines()
    assert title.endswith(".")
    assert not blank
    assert rest
    assert len(title) <= 120
    assert "Mend:" in text
    assert text in explain(rule)


def test_the_page_of_rules_is_fresh() -> None:
    assert (ROOT / "docs/reference/rules.md").read_text() == rules_page(), "make docs"


def test_an_unknown_rule_is_explained_by_a_near_one() -> None:
    with pytest.raises(InputError) as error:
        explain("flag-unknwon")
    assert error.value.hint == "did you mean 'flag-unknown'?"
