"""Topology rules: each on a point that breaks it, and on one that just does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.architecture import Architecture, LinearAttention, Mla
from recipegen.checks.topology_rules import POINT_RULES, ROLE_RULES
from recipegen.model import HardwareSpec, Role
from tests.unit.checks.views_for_tests import agg, architecture_of, found, pair, point_of, role_of, rules_of, severities, together

RULES = rules_of(ROLE_RULES, POINT_RULES)
QWEN = architecture_of()


def plain(*, heads: int = 64, kv_heads: int = 4) -> Architecture:
    return replace(QWEN, linear=None, attention=replace(QWEN.attention, heads=heads, kv_heads=kv_heads))


def moe(experts: int) -> Architecture:
    assert QWEN.moe
    return replace(QWEN, moe=replace(QWEN.moe, experts=experts))


def eplb(shape: str, redundant: int) -> str:
    return agg(f"{{shape: {shape}, args: {{enable-eplb: true, eplb-config: {{num_redundant_experts: {redundant}}}}}}}")


MLA = replace(
    plain(kv_heads=1),
    attention=replace(plain(kv_heads=3).attention, mla=Mla(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128)),
)
MAMBA = replace(
    QWEN, linear=LinearAttention(kind="mamba2", layers=69, key_heads=1, value_heads=128, key_head_dim=128, value_head_dim=64, conv_kernel=4)
)


@pytest.mark.parametrize(
    ("rule", "breaks", "holds", "says"),
    [
        ("topology-heads", (agg("1xTP3"), None), (agg("1xTP4"), None), "TP3 does not divide 64 attention heads"),
        ("topology-heads", (agg("1xTP8"), plain(heads=96, kv_heads=12)), (agg("1xTP4"), plain(heads=96, kv_heads=12)), "TP8 and 12 KV heads"),
        ("topology-heads", (agg("1xTP8"), plain(kv_heads=3)), (agg("1xTP8"), MLA), "neither divides the other"),
        ("topology-linear", (agg("1xTP32"), None), (agg("1xTP16"), None), "does not divide the 16 key heads"),
        ("topology-experts", (agg("1xTP8"), moe(4)), (agg("1xTP4"), moe(4)), "TP8 exceeds the 4 experts"),
        ("topology-experts", (agg("1xTP4DP4"), moe(8)), (agg("1xTP4DP2"), moe(8)), "EP16 (TP4 x DP4) exceeds the 8 experts"),
        ("topology-layers", (agg("1xTP1PP94"), None), (agg("1xTP1PP92"), None), "PP94 exceeds the model's 92 layers"),
        ("topology-uneven-experts", (agg("1xTP4DP3"), None), (agg("1xTP4DP4"), None), "512 experts over EP12: 8 ranks hold one expert more"),
        ("topology-uneven-experts", (eplb("1xTP4DP9", 31), moe(256)), (eplb("1xTP4DP9", 32), moe(256)), "256 + 31 redundant experts over EP36"),
        ("topology-experts", (eplb("1xTP4DP5", 8), moe(8)), (eplb("1xTP4DP4", 8), moe(8)), "EP20 (TP4 x DP5) exceeds the 8 + 8 redundant experts"),
        ("topology-idle-gpus", (agg("1xTP1PP6"), None), (agg("1xTP1PP8"), None), "2 of the 8 GPUs of its 2 nodes stay idle"),
        ("topology-segment", (pair("8xTP2DP4"), None), (pair("7xTP2DP4"), None), "takes 20 nodes (16 prefill + 4 decode)"),
        ("topology-colocation", (pair("1xTP2", "1xTP2"), None), (pair("2xTP2", "1xTP2"), None), "would need 1 of their 2 nodes"),
        ("topology-colocation", (pair("5xTP1", "6xTP1"), None), (pair("5xTP1", "8xTP1"), None), "would need 3 of their 4 nodes"),
        ("topology-colocation", (pair("1xTP1", "1xTP1"), None), (pair("1xTP1PP6", "2xTP1"), None), "would need 1 of their 2 nodes"),
        ("topology-colocation", (pair("1xTP2", "1xTP2"), None), (together("1xTP2", "1xTP2"), None), "would need 1 of their 2 nodes"),
        ("topology-idle-gpus", (together("1xTP2", "3xTP1"), None), (together("1xTP2", "2xTP1"), None), "3 of the 8 GPUs of its 2 nodes stay idle"),
        (
            "topology-segment",
            (together("71xTP1", "2xTP1"), None),
            (together("71xTP1", "1xTP1"), None),
            "takes 19 nodes (18 prefill + 2 decode, one of them shared)",
        ),
    ],
)
def test_rule(rule: str, breaks: tuple[str, Architecture | None], holds: tuple[str, Architecture | None], says: str) -> None:
    faults = found(RULES[rule], point_of(breaks[0], architecture=breaks[1]))
    assert len(faults) == 1
    assert says in faults[0].message
    assert f"point {point_of(breaks[0]).recipe.point}" in faults[0].message
    assert faults[0].mend
    assert found(RULES[rule], point_of(holds[0], architecture=holds[1])) == []


def test_a_fault_of_a_shape_stands_where_the_shape_does() -> None:
    view = point_of(pair("1xTP2DP4", "1xTP3"))
    (fault,) = found(RULES["topology-heads"], view)
    assert fault.source == role_of(view, Role.DECODE).role.source != view.recipe.source


def test_expert_parallelism_needs_experts() -> None:
    dense = replace(QWEN, moe=None)
    (fault,) = found(RULES["topology-experts"], point_of(agg("1xTP4"), architecture=dense))
    assert "has no experts" in fault.message
    assert found(RULES["topology-experts"], point_of(agg("1xTP4"), ("expert_parallel: true", "expert_parallel: false"), architecture=dense)) == []


def test_one_mamba_group_is_replicated() -> None:
    assert found(RULES["topology-linear"], point_of(agg("1xTP8"), architecture=MAMBA)) == []
    assert MAMBA.linear
    grouped = replace(MAMBA, linear=replace(MAMBA.linear, key_heads=4))
    assert "4 key heads" in found(RULES["topology-linear"], point_of(agg("1xTP8"), architecture=grouped))[0].message


def test_feed_forward_layers_of_mamba_models_count_as_stages() -> None:
    """Where each block is a layer of its own, 100 stages of 23 + 69 mixers and 92 MoE blocks are not surely too many."""
    assert found(RULES["topology-layers"], point_of(agg("1xTP1PP100"), architecture=MAMBA)) == []


@pytest.mark.parametrize(("topology", "nodes", "faults"), [("1xTP8", 1, 1), ("1xTP4DP2", 1, 1), ("1xTP4", 1, 0), ("1xTP8", 2, 0)])
def test_a_group_beyond_the_domain(topology: str, nodes: int, faults: int) -> None:
    view = point_of(agg(topology))
    hardware: HardwareSpec = replace(view.recipe.hardware, nodes_per_domain=nodes)
    role = replace(view.roles[0], recipe=replace(view.recipe, hardware=hardware))
    messages = [fault.message for fault in RULES["topology-domain"].findings(role)]
    assert len(messages) == faults
    assert all("group of 8 GPUs spans 2 nodes" in message for message in messages)


def test_dp_without_ep_may_leave_the_domain() -> None:
    view = point_of(agg("1xTP4DP2"), ("expert_parallel: true", "expert_parallel: false"))
    hardware = replace(view.recipe.hardware, nodes_per_domain=1)
    assert list(RULES["topology-domain"].findings(replace(view.roles[0], recipe=replace(view.recipe, hardware=hardware)))) == []


def test_nothing_is_said_of_a_model_that_is_not_known() -> None:
    view = point_of(agg("1xTP3"))
    recipe = replace(view.recipe, model=replace(view.recipe.model, architecture=None))
    roles = [replace(role, recipe=recipe, sizes=None) for role in view.roles]
    rules = [rule for name, rule in RULES.items() if name not in {"topology-idle-gpus"} and rule in ROLE_RULES]
    assert [finding for rule in rules for role in roles for finding in rule.findings(role)] == []


def test_what_cannot_be_placed_is_left_to_placement() -> None:
    view = point_of(pair("1xTP2DP3", "1xTP2"))
    assert role_of(view, Role.PREFILL).layout is None
    for rule in ("topology-idle-gpus", "topology-colocation"):
        assert [f for f in found(RULES[rule], view) if "prefill" in f.message] == []


def test_experts_of_a_dense_model_without_ep_are_no_matter() -> None:
    dense = replace(QWEN, moe=None)
    view = point_of(agg("1xTP4DP3"), ("expert_parallel: true", "expert_parallel: false"), architecture=dense)
    assert found(RULES["topology-uneven-experts"], view) == []


@pytest.mark.parametrize(
    ("args", "severity"),
    [
        ("", "note"),
        ("eplb-config: {num_redundant_experts: 4}", "note"),
        ("enable-eplb: true", "error"),
        ("enable-eplb: true, eplb-config.num_redundant_experts: 4", ""),
        ("enable-eplb: true, eplb-config: {num_redundant_experts: 3}", "error"),
        ("no-enable-eplb: true, eplb-config: {num_redundant_experts: 4}", "note"),
    ],
)
def test_redundant_experts_count_with_eplb_only_which_wants_them_even(args: str, severity: str) -> None:
    """512 experts over 12 ranks leave 8; four more make 516 = 43 x 12."""
    view = point_of(agg(f"{{shape: 1xTP4DP3, args: {{{args}}}}}"))
    assert severities(found(RULES["topology-uneven-experts"], view)) == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("point", "nodes_per_domain", "faults"),
    [
        (pair("8xTP2DP4"), 18, 1),
        (pair("8xTP2DP4"), 20, 0),
        (pair("8xTP2DP4"), 1, 0),  # a node is a domain of its own: blocks take the network
        (agg("10xTP8"), 18, 0),  # no blocks move between workers
    ],
)
def test_only_blocks_that_move_over_nvlink_need_one_segment(point: str, nodes_per_domain: int, faults: int) -> None:
    view = point_of(point)
    recipe = replace(view.recipe, hardware=replace(view.recipe.hardware, nodes_per_domain=nodes_per_domain))
    assert len(found(RULES["topology-segment"], replace(view, recipe=recipe))) == faults
