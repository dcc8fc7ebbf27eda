"""The runner: what is the same stands once, allowances are applied, and nothing hides anything."""

from __future__ import annotations

from recipegen.checks.finding import Finding
from recipegen.checks.registry import CLUSTER_RULES, POINT_RULES, ROLE_RULES, SETTING_RULES, all_rules
from recipegen.pipeline import Checked, check_matrix
from tests.support import LEAF, matrix_of

PD = '{{prefill: 1xTP8, decode: 1xTP8, concurrency: [{}], time_limit: "1:00:00"}}'
POINTS = (PD.format(4), PD.format(8))


def checked(text: str, *points: str) -> Checked:
    return check_matrix(text.encode(), "matrix.yaml", points=points)


def found(text: str, rule: str) -> list[Finding]:
    return [finding for finding in checked(text).findings if finding.rule == rule]


def misspelt(*points: str) -> str:
    return matrix_of(*points).replace("kv-cache-dtype: fp8", "kv-cache-dtype: fp8, max-num-seq: 8")


def test_ids_are_unique() -> None:
    rules = [rule.id for rule in (*SETTING_RULES, *ROLE_RULES, *POINT_RULES, *CLUSTER_RULES)]
    assert len(set(rules)) == len(rules)
    assert set(rules) < set(all_rules())


def test_the_published_matrix_has_neither_error_nor_warning() -> None:
    result = check_matrix((LEAF / "matrix.yaml").read_bytes(), "matrix.yaml")
    assert [str(f) for f in result.findings if f.severity.value != "note"] == []
    assert len(result.plans) == len(result.points) == 8
    assert result.usable


def test_a_fault_of_all_points_stands_once() -> None:
    (finding,) = found(misspelt(*POINTS), "flag-unknown")
    assert finding.source.line == misspelt(*POINTS)[: misspelt(*POINTS).index("max-num-seq")].count("\n") + 1
    assert "max-num-seqs" in finding.mend


def test_a_point_that_cannot_be_placed_hides_no_other_fault() -> None:
    text = misspelt('{agg: TP1PP5, concurrency: [4], time_limit: "1:00:00"}', POINTS[0])
    result = checked(text)
    assert {"placement", "flag-unknown"} <= {f.rule for f in result.findings}
    assert not result.usable
    assert [plan.recipe.point for plan in result.plans] == ["1xtp8-1xtp8-cc4"]


def test_an_allowance_needs_a_rule_that_exists_and_something_to_allow() -> None:
    text = misspelt(*POINTS) + "allow:\n  - {rule: flag-unknown, reason: our image has it}\n"
    (finding,) = found(text, "flag-unknown")
    assert finding.allowed == "our image has it"
    assert checked(text).errors == ()
    assert [f.rule for f in checked(text + "  - {rule: flag-unknwon, reason: x}\n").errors] == ["allow-unknown"]
    assert [f.source.line for f in found(text + "  - {rule: pd-tp-ratio, reason: x}\n", "allow-unused")] == [text.count("\n") + 1]


def test_an_allowance_for_one_point_leaves_the_others() -> None:
    tight = "common: {args: {max-num-batched-tokens: 8, max-num-seqs: 16}}"
    points = [point.replace("concurrency", f"{tight}, concurrency") for point in POINTS]
    allow = "allow:\n  - {rule: capacity-batched-tokens, reason: x, points: [1xtp8-1xtp8-cc4]}\n"
    errors = [f for f in checked(matrix_of(*points) + allow).errors if f.rule == "capacity-batched-tokens"]
    assert errors
    assert all(f.points == ("1xtp8-1xtp8-cc8",) for f in errors)


def test_unused_allowances_are_not_judged_when_some_points_are_left_out() -> None:
    text = matrix_of(*POINTS) + "allow:\n  - {rule: pd-tp-ratio, reason: x}\n"
    assert "allow-unused" in {f.rule for f in checked(text).findings}
    assert "allow-unused" not in {f.rule for f in checked(text, "1xtp8-1xtp8-cc4").findings}
