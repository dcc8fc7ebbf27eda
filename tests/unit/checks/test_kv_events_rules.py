"""What the rules say of routers that look for cached prefixes, and of workers that tell of them."""

from __future__ import annotations

import pytest

from recipegen.checks.kv_events_rules import POINT_RULES, ROLE_RULES
from tests.unit.checks.views_for_tests import HEAD, POINT, agg, found, points_of, rules_of

RULES = rules_of(ROLE_RULES, POINT_RULES)
CACHING = ("no-enable-prefix-caching: true", "enable-prefix-caching: true")
KV = "frontend: {args: {router-mode: kv}}"
ON = "kv_events: true"


def said(rule: str, more: str, *changes: tuple[str, str], point: str = POINT) -> list[str]:
    """`severity: message` of a rule under HEAD with lines behind it and texts replaced."""
    text = f"{HEAD}  - {point}\n{more}\n"
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    (view,) = points_of(text)
    findings = found(RULES[rule], view)
    assert all(finding.source.line and finding.mend for finding in findings)
    return [f"{finding.severity.value}: {finding.message}; {finding.mend}" for finding in findings]


@pytest.mark.parametrize(
    ("more", "dynamo", "expected"),
    [
        (KV, "1.2.1", "warning: the router looks for cached prefixes, but prefill workers publish no KV events: all"),
        (KV, "1.1.0", "warning: "),
        (KV, "1.2.0.dev20260526", "warning: "),
        (KV, "1.0.2", ""),
        (KV, "0.8.0", ""),
        (KV, "", "note: the router looks for cached prefixes"),
        ("frontend: {env: {DYN_ROUTER_MODE: kv}}", "1.2.1", "warning: "),
        ("frontend: {args: {router_mode: kv}, env: {DYN_ROUTER_USE_KV_EVENTS: 'true'}}", "1.2.1", "warning: "),
        ("frontend: {args: {router-mode: kv, router-kv-overlap-score-credit: 0.5}}", "1.2.1", "warning: "),
        (f"{KV}\n{ON}", "1.2.1", ""),
        ("kv_events: {agg: true}\n" + KV, "1.2.1", "warning: "),
        ("frontend: {args: {router-mode: round-robin}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: round-robin}, env: {DYN_ROUTER_MODE: kv}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv, no-router-kv-events: true}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv, no-kv-events: true}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv, load-aware: true}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv, router-kv-overlap-score-credit: 0}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv}, env: {DYN_ROUTER_USE_KV_EVENTS: 'False'}}", "1.2.1", ""),
        ("frontend: {args: {router-mode: kv}, env: {DYN_ROUTER_LOAD_AWARE: '1'}}", "1.2.1", ""),
        ("", "1.2.1", ""),
    ],
)
def test_a_router_by_kv_events_needs_them(more: str, dynamo: str, expected: str) -> None:
    version = f"{{version: {dynamo}}}" if dynamo else "{}"
    findings = said("kv-router-events", more, CACHING, ("{version: 1.2.1}", version))
    assert len(findings) == bool(expected), findings
    assert not expected or findings[0].startswith(expected)


@pytest.mark.parametrize(("config", "publishes"), [("{enable_kv_cache_events: true}", True), ("{publisher: zmq}", False)])
def test_a_flag_of_the_recipe_s_own_counts(config: str, publishes: bool) -> None:
    flag = ("prefill:\n  args: {", f"prefill:\n  args: {{kv-events-config: {config}, ")
    assert (said("kv-router-events", KV, CACHING, flag) == []) is publishes


@pytest.mark.parametrize(
    ("dynamo", "mend"),
    [("1.2.1", "set `kv_events: true` and switch prefix caching on"), ("0.8.0", "switch prefix caching on, or `no-router-kv-events: true`")],
)
def test_without_prefix_caching_nothing_is_published_by_any_release(dynamo: str, mend: str) -> None:
    (finding,) = said("kv-router-events", KV, ("{version: 1.2.1}", f"{{version: {dynamo}}}"))
    assert "as their prefix caching is off" in finding
    assert mend in finding


@pytest.mark.parametrize(
    ("point", "more", "changes", "told"),
    [
        (POINT, ON, (), "prefill"),
        (agg("1xTP4"), ON, (), "agg"),
        (POINT, ON, (CACHING,), ""),
        (POINT, ON, (("    no-enable-prefix-caching: true\n", ""),), ""),
        (POINT, "", (), ""),
        (POINT, "", (("prefill:\n  args: {", "prefill:\n  args: {kv-events-config: {enable_kv_cache_events: true}, "),), "prefill"),
        (POINT, "", (("decode:\n  args:", "decode:\n  args:\n    kv-events-config: {enable_kv_cache_events: true}"),), ""),
    ],
)
def test_events_need_prefix_caching(point: str, more: str, changes: tuple[tuple[str, str], ...], told: str) -> None:
    findings = said("kv-events-prefix", more, *changes, point=point)
    assert [text.startswith(f"warning: {told} workers are told to publish KV events") for text in findings] == [True] * bool(told)
    assert not said("kv-router-events", f"{more}\n{KV}", *changes, point=point) or not told


def test_the_fault_stands_where_it_was_written() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n{KV}\n{ON}\n")
    lines = HEAD.splitlines()
    (finding,) = found(RULES["kv-events-prefix"], view)
    assert "no-enable-prefix-caching" in lines[finding.source.line - 1]
    (view,) = points_of(f"{HEAD}  - {POINT}\n{KV}\n")
    (finding,) = found(RULES["kv-router-events"], view)
    assert (finding.source.line, finding.source.column) == (len(lines) + 2, KV.index("kv}") + 1)
