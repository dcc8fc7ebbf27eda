"""Rules over speculation: what both sides must have alike, by model, build and connector."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.architecture import Architecture
from recipegen.checks.speculation_rules import POINT_RULES, ROLE_RULES
from tests.unit.checks.views_for_tests import agg, architecture_of, found, pair, point_of, rules_of, severities

RULES = rules_of(ROLE_RULES, POINT_RULES)
QWEN = architecture_of()
PLAIN = replace(QWEN, linear=None)
MTP = "speculative-config: {method: mtp, num_speculative_tokens: 3}"
EAGLE = "speculative-config: {method: eagle3, model: a/b, num_speculative_tokens: 3%s}"
NGRAM = "speculative-config: {method: ngram, num_speculative_tokens: 3}"
NIXL = "{kv_connector: NixlConnector, kv_role: kv_both}"


def sides(prefill: str, decode: str) -> str:
    return pair(*(f"{{shape: {shape}, args: {{{args}}}}}" for shape, args in (("1xTP2DP4", prefill), ("1xTP4DP4", decode))), mtp=0)


@pytest.mark.parametrize(
    ("prefill", "decode", "model", "severity", "says"),
    [
        (MTP, "", QWEN, "error", "prefill speculates by mtp (3 tokens), decode does not speculate: only one side"),
        (MTP, NGRAM, PLAIN, "error", "only one side caches layers"),
        (MTP, MTP.replace("3", "2"), QWEN, "error", "decode speculates by mtp (2 tokens): the states of a hybrid model differ"),
        (MTP, MTP.replace("3", "2"), PLAIN, "warning", "the blocks of a plain model fit all the same"),
        (EAGLE % "", (EAGLE % "").replace("a/b", "c/d"), PLAIN, "error", "eagle3 with a/b (3 tokens), decode speculates by eagle3 with c/d"),
        (EAGLE % "", EAGLE % ", revision: abc", PLAIN, "error", "revision abc"),
        (EAGLE % "", EAGLE % ", code_revision: abc", PLAIN, "error", "code revision abc"),
        (EAGLE % "", EAGLE % ", parallel_drafting: true", PLAIN, "error", "in parallel"),
        (EAGLE % "", EAGLE % ", kv_cache_dtype: bfloat16", PLAIN, "error", "cache type bfloat16"),
        (
            "speculative-config: {method: draft_model, model: a/b, num_speculative_tokens: 3}",
            "speculative-config: {method: draft_model, model: c/d, num_speculative_tokens: 3}",
            PLAIN,
            "warning",
            "blocks of a plain model",
        ),
        (NGRAM, "", QWEN, "error", "the states of a hybrid model differ"),
        (
            "spec-method: eagle3, spec-model: a/b, spec-tokens: 3",
            "spec-method: eagle3, spec-model: c/d, spec-tokens: 3",
            QWEN,
            "error",
            "c/d (3 tokens)",
        ),
        ("speculative-config: {method: mtp}", "", PLAIN, "error", "prefill speculates by mtp, decode does not speculate"),
    ],
)
def test_sides_that_speculate_differently(prefill: str, decode: str, model: Architecture, severity: str, says: str) -> None:
    (fault,) = found(RULES["pd-speculation"], point_of(sides(prefill, decode), architecture=model))
    assert says in fault.message
    assert severities([fault]) == [severity]


@pytest.mark.parametrize(
    ("prefill", "decode", "model"),
    [
        (MTP, MTP.replace("mtp", "qwen3_5_mtp"), QWEN),
        (EAGLE % "", "spec-method: eagle3, spec-model: a/b, spec-tokens: 3", QWEN),
        (EAGLE % "", EAGLE % ", kv_cache_dtype: fp8", QWEN),
        (NGRAM, "", PLAIN),
        (MTP.replace("3", "0"), "", PLAIN),
    ],
)
def test_sides_that_speculate_alike(prefill: str, decode: str, model: Architecture) -> None:
    assert found(RULES["pd-speculation"], point_of(sides(prefill, decode), architecture=model)) == []


@pytest.mark.parametrize(
    ("build", "config", "severity"),
    [
        ("0.28.0", NIXL, "error"),
        ("0.26.1rc1.dev1177+ga9a17e709", NIXL, "error"),
        ("0.27.0", NIXL, "warning"),
        ("0.28.0", f"{NIXL[:-1]}, kv_connector_extra_config: {{enforce_handshake_compat: false}}}}", "warning"),
        ("0.28.0", NIXL.replace("Nixl", "Mooncake"), "warning"),
    ],
)
def test_draft_models_are_compared_since_0_28_and_by_nixl(build: str, config: str, severity: str) -> None:
    point = sides(EAGLE % "", (EAGLE % "").replace("a/b", "c/d"))
    view = point_of(point, ("vllm: 0.28.0", f"vllm: {build}"), (NIXL, config), architecture=PLAIN)
    assert severities(found(RULES["pd-speculation"], view)) == [severity]


def test_one_side_without_mtp_fails_in_every_build() -> None:
    view = point_of(sides(MTP, ""), ("vllm: 0.28.0", "vllm: 0.26.0"), architecture=PLAIN)
    assert severities(found(RULES["pd-speculation"], view)) == ["error"]


def test_tokens_of_a_model_that_is_not_known_are_a_warning() -> None:
    view = point_of(sides(MTP, MTP.replace("3", "2")))
    recipe = replace(view.recipe, model=replace(view.recipe.model, architecture=None))
    roles = tuple(replace(role, recipe=recipe, sizes=None) for role in view.roles)
    assert severities(found(RULES["pd-speculation"], replace(view, recipe=recipe, roles=roles))) == ["warning"]


@pytest.mark.parametrize(
    ("point", "layers", "faults"),
    [
        (agg("1xTP4", mtp=3), 0, 1),
        (agg("1xTP4", mtp=3), 1, 0),
        (agg("1xTP4"), 0, 0),
        (agg(f"{{shape: 1xTP4, args: {{{MTP}}}}}"), 0, 1),
        (agg(f"{{shape: 1xTP4, args: {{{MTP.replace('mtp', 'deepseek_mtp')}}}}}"), 0, 1),
        (agg(f"{{shape: 1xTP4, args: {{{EAGLE % ''}}}}}"), 0, 0),
        (agg(f"{{shape: 1xTP4, args: {{{(EAGLE % '').replace('eagle3', 'mtp')}}}}}"), 0, 0),
        (pair(mtp=3), 0, 1),
    ],
)
def test_mtp_needs_a_layer(point: str, layers: int, faults: int) -> None:
    """Both roles of a point have one fault, which folds."""
    view = point_of(point, architecture=replace(QWEN, mtp_layers=layers))
    findings = set(found(RULES["speculation-layers"], view))
    assert len(findings) == faults
    assert all("no MTP layer to load" in finding.message and finding.source.line for finding in findings)


def test_a_model_that_is_not_known_may_have_mtp() -> None:
    view = point_of(agg("1xTP4", mtp=3))
    recipe = replace(view.recipe, model=replace(view.recipe.model, architecture=None))
    role = replace(view.roles[0], recipe=recipe, sizes=None)
    assert list(RULES["speculation-layers"].findings(role)) == []
