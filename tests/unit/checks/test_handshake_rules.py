"""Rules over what prefill and decode have in common: each on a pair that breaks it, and on one that just does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.checks.handshake_rules import POINT_RULES, ROLE_RULES
from recipegen.model import Architecture, Mla, Role
from tests.unit.checks.views_for_tests import POINT, agg, architecture_of, found, pair, point_of, role_of, rules_of, severities

RULES = rules_of(ROLE_RULES, POINT_RULES)
QWEN = architecture_of()
PLAIN = replace(QWEN, linear=None)
LATENT = replace(
    PLAIN, attention=replace(PLAIN.attention, kv_heads=1, mla=Mla(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128))
)
NIXL = "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}"


def sides(prefill: str = "", decode: str = "", *, shapes: tuple[str, str] = ("1xTP2DP4", "1xTP4DP4"), mtp: int = 3) -> str:
    """A point whose sides have these flags of their own."""
    return pair(*(f"{{shape: {shape}, args: {{{args}}}}}" for shape, args in zip(shapes, (prefill, decode), strict=True)), mtp=mtp)


def environment(prefill: str = "", decode: str = "", *, args: str = "") -> str:
    return pair(*(f"{{shape: {shape}, args: {{{args}}}, env: {{{env}}}}}" for shape, env in (("1xTP2DP4", prefill), ("1xTP4DP4", decode))))


def test_there_is_nothing_to_say_of_a_pair_that_agrees() -> None:
    assert [finding for rule in RULES.values() for finding in found(rule, point_of())] == []


def test_an_aggregated_point_has_no_sides() -> None:
    view = point_of(agg("1xTP4"), (NIXL, "kv-transfer-config: null"), ("env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}", "env: {}"))
    assert [finding for rule in RULES.values() for finding in found(rule, view)] == []


FLAGS = [
    ("pd-connector", sides("kv-transfer-config: null"), sides(), "prefill: no kv-transfer-config"),
    ("pd-connector", sides("kv-transfer-config: null", "kv-transfer-config: null"), sides(), "prefill and decode: no kv-transfer-config"),
    (
        "pd-connector",
        sides("kv-transfer-config: {kv_connector: MooncakeConnector, kv_role: kv_both}"),
        sides(NIXL),
        "prefill moves KV blocks by MooncakeConnector, decode by NixlConnector",
    ),
    (
        "pd-connector",
        sides(decode="kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_producer}"),
        sides(decode="kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_consumer}"),
        "decode: kv_role 'kv_producer' does not fit",
    ),
    (
        "pd-connector",
        sides("kv-transfer-config: {kv_connector: NixlConnector}"),
        sides("kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_producer}"),
        "prefill: no kv_role is set",
    ),
    ("pd-connector", sides("kv-transfer-config: {kv_role: kv_both}", "kv-transfer-config: null"), sides(), "decode: no kv-transfer-config"),
    ("pd-dtype", sides("dtype: float16"), sides("dtype: bfloat16"), "dtype is float16 for prefill and bfloat16 for decode"),
    ("pd-dtype", sides("dtype: half", "dtype: auto"), sides("dtype: half", "dtype: float16"), "dtype is float16 for prefill and bfloat16 for decode"),
    ("pd-kv-dtype", sides(decode="kv-cache-dtype: fp8_e4m3"), sides(decode="kv-cache-dtype: fp8"), "fp8 for prefill and fp8_e4m3 for decode"),
    ("pd-kv-dtype", sides("kv-cache-dtype: null"), sides("kv-cache-dtype: auto", "kv-cache-dtype: null"), "auto for prefill and fp8 for decode"),
    ("pd-state-dtype", sides("mamba-ssm-cache-dtype: null"), sides("mamba-ssm-cache-dtype: bfloat16"), "float32 for prefill and bfloat16 for decode"),
    ("pd-state-dtype", sides("mamba-cache-dtype: float32"), sides("mamba-cache-dtype: auto"), "mamba-cache-dtype is float32"),
    (
        "pd-attention-backend",
        sides("attention-backend: FLASH_ATTN"),
        sides("attention-backend: flashinfer", "attention-config.backend: FLASHINFER"),
        "FLASH_ATTN",
    ),
    (
        "pd-attention-backend",
        sides("attention-config: {backend: TRITON_ATTN}"),
        sides("attention-config: {use_fp4_indexer_cache: true}"),
        "not set for decode",
    ),
    (
        "pd-hybrid-cache",
        sides("disable-hybrid-kv-cache-manager: true"),
        sides("no-disable-hybrid-kv-cache-manager: true"),
        "is on for prefill and off",
    ),
    (
        "pd-speculation",
        sides("speculative-config: {method: mtp, num_speculative_tokens: 3}", mtp=0),
        sides(),
        "prefill speculates by mtp (3 tokens), decode does not",
    ),
    (
        "pd-speculation",
        sides("speculative-config: {method: mtp, num_speculative_tokens: 3}", "speculative-config: {method: mtp, num_speculative_tokens: 2}", mtp=0),
        sides(
            "speculative-config: {method: mtp, num_speculative_tokens: 3}",
            "speculative-config: {method: qwen3_5_mtp, num_speculative_tokens: 3}",
            mtp=0,
        ),
        "(3 tokens), decode speculates by mtp (2 tokens)",
    ),
    (
        "pd-speculation",
        sides("spec-method: eagle3, spec-model: a/b, spec-tokens: 3", "spec-method: eagle3, spec-model: c/d, spec-tokens: 3", mtp=0),
        sides(
            "spec-method: eagle3, spec-model: a/b, spec-tokens: 3",
            "speculative-config: {method: eagle3, model: a/b, num_speculative_tokens: 3}",
            mtp=0,
        ),
        "with a/b (3 tokens)",
    ),
    (
        "pd-block-size",
        sides("block-size: 2176", "block-size: 1088", shapes=("1xTP2DP4", "1xTP8")),
        sides("block-size: 2176", "block-size: 2176"),
        "decode's 64 is no multiple",
    ),
    (
        "pd-block-size",
        sides("block-size: 1088", shapes=("1xTP8", "1xTP4DP4")),
        sides("block-size: 1088", shapes=("1xTP4DP2", "1xTP4DP4")),
        "prefill's TP is the larger",
    ),
    ("pd-tp-ratio", pair("1xTP4PP1", "1xTP6"), pair("1xTP4", "1xTP8"), "prefill has TP4, decode TP6"),
    ("pd-prefix-caching", sides(decode="no-enable-prefix-caching: null"), sides("enable-prefix-caching: false"), "off for prefill and on for decode"),
    ("pd-model-flags", sides("trust-remote-code: true"), sides("no-trust-remote-code: true"), "trust-remote-code is on for prefill and off"),
    ("pd-model-flags", sides("quantization: modelopt_fp4"), sides("quantization: fp8", "quantization: fp8"), "quantization is 'modelopt_fp4'"),
    (
        "pd-model-flags",
        sides(decode="hf-overrides: {a: 1}"),
        sides("hf-overrides: {a: 1}", "hf-overrides: {a: 1}"),
        "hf-overrides is not set for prefill",
    ),
    ("pd-model-flags", sides("load-format: dummy"), sides(), "load-format is 'dummy'"),
    (
        "pd-conv-layout",
        environment("VLLM_SSM_CONV_STATE_LAYOUT: SD"),
        environment("VLLM_SSM_CONV_STATE_LAYOUT: DS"),
        "prefill: VLLM_SSM_CONV_STATE_LAYOUT is 'SD'",
    ),
    ("pd-conv-layout", environment(decode="VLLM_SSM_CONV_STATE_LAYOUT: null"), environment(), "decode: VLLM_SSM_CONV_STATE_LAYOUT is not set"),
    (
        "pd-expandable-segments",
        environment("PYTORCH_CUDA_ALLOC_CONF: 'max_split_size_mb:512,expandable_segments:True'"),
        environment("PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:False'"),
        "prefill: PYTORCH_CUDA_ALLOC_CONF has expandable_segments:True",
    ),
    (
        "pd-expandable-segments",
        environment(decode="PYTORCH_ALLOC_CONF: 'expandable_segments:True'"),
        environment(decode="PYTORCH_ALLOC_CONF: 'expandable_segments:True'", args="enable-cumem-allocator: true"),
        "decode: PYTORCH_ALLOC_CONF has expandable_segments:True",
    ),
    (
        "pd-side-channel-host",
        environment("VLLM_NIXL_SIDE_CHANNEL_HOST: localhost"),
        environment("VLLM_NIXL_SIDE_CHANNEL_HOST: 10.0.0.7"),
        "prefill: VLLM_NIXL",
    ),
    ("pd-side-channel-host", environment(decode="VLLM_NIXL_SIDE_CHANNEL_HOST: 127.0.1.1"), environment(), "which every node is to itself"),
    (
        "pd-side-channel-host",
        environment(decode="VLLM_NIXL_SIDE_CHANNEL_HOST: null"),
        environment(),
        "decode: VLLM_NIXL_SIDE_CHANNEL_HOST is taken back",
    ),
    (
        "pd-multi-node-env",
        environment('NCCL_MNNVL_ENABLE: "0"'),
        environment('NCCL_MNNVL_ENABLE: "1"'),
        "prefill: NCCL_MNNVL_ENABLE is 0 for workers across nodes",
    ),
    ("pd-multi-node-env", environment("UCX_CUDA_IPC_ENABLE_MNNVL: 'n'"), environment("UCX_CUDA_IPC_ENABLE_MNNVL: try"), "needs 'y' there"),
    ("pd-multi-node-env", environment(decode="NCCL_CUMEM_ENABLE: null"), environment(), "decode: NCCL_CUMEM_ENABLE is taken back"),
]


@pytest.mark.parametrize(("rule", "breaks", "holds", "says"), FLAGS)
def test_rule(rule: str, breaks: str, holds: str, says: str) -> None:
    faults = found(RULES[rule], point_of(breaks))
    assert len(faults) == 1, faults
    assert says in faults[0].message
    assert faults[0].mend
    assert faults[0].source.line
    assert severities(faults) == ["warning" if rule in {"pd-model-flags", "pd-multi-node-env"} else "error"]
    assert found(RULES[rule], point_of(holds)) == []


def test_every_rule_is_tried() -> None:
    assert {case[0] for case in FLAGS} == set(RULES)


def test_a_connector_without_a_name_moves_nothing() -> None:
    view = point_of(sides("kv-transfer-config: {kv_role: kv_both}", "kv-transfer-config: {kv_role: kv_both}"))
    assert [f.message for f in found(RULES["pd-connector"], view)] == [
        f"{r}: kv-transfer-config names no kv_connector, so that no KV blocks move" for r in ("prefill", "decode")
    ]


def test_a_text_that_is_no_json_is_left_to_the_rules_over_flags() -> None:
    assert found(RULES["pd-connector"], point_of(sides("kv-transfer-config: '{kv_connector'"))) == []


def test_dotted_keys_are_a_config_too() -> None:
    dotted = "kv-transfer-config: null, kv-transfer-config.kv_connector: NixlConnector, kv-transfer-config.kv_role: kv_both"
    assert found(RULES["pd-connector"], point_of(sides(dotted))) == []


def test_a_difference_stands_where_it_was_written_last() -> None:
    """An override of prefill stands behind what decode inherits."""
    view = point_of(sides("kv-cache-dtype: auto"))
    (fault,) = found(RULES["pd-kv-dtype"], view)
    assert fault.source == role_of(view, Role.PREFILL).at("kv-cache-dtype")
    assert fault.source > role_of(view, Role.DECODE).at("kv-cache-dtype")


def test_what_both_sides_inherit_is_said_once() -> None:
    view = point_of(
        POINT, ("{VLLM_SSM_CONV_STATE_LAYOUT: DS}", "{VLLM_SSM_CONV_STATE_LAYOUT: DS, PYTORCH_CUDA_ALLOC_CONF: 'expandable_segments:True'}")
    )
    (fault,) = found(RULES["pd-expandable-segments"], view)
    assert fault.message.startswith("prefill and decode: ")
    (fault,) = found(RULES["pd-conv-layout"], point_of(POINT, ("VLLM_SSM_CONV_STATE_LAYOUT: DS", "DYN_LOG: error")))
    assert fault.message.startswith("prefill and decode: ")


@pytest.mark.parametrize("rule", ["pd-conv-layout", "pd-prefix-caching", "pd-state-dtype"])
def test_a_plain_model_has_no_states(rule: str) -> None:
    point = sides("mamba-ssm-cache-dtype: null, no-enable-prefix-caching: null")
    assert found(RULES[rule], point_of(point, ("VLLM_SSM_CONV_STATE_LAYOUT: DS", "DYN_LOG: error"), architecture=PLAIN)) == []


def test_another_connector_needs_no_layout() -> None:
    mooncake = NIXL.replace("Nixl", "Mooncake")
    assert found(RULES["pd-conv-layout"], point_of(POINT, (NIXL, mooncake), ("VLLM_SSM_CONV_STATE_LAYOUT: DS", "DYN_LOG: error"))) == []
    assert found(RULES["pd-side-channel-host"], point_of(environment("VLLM_NIXL_SIDE_CHANNEL_HOST: localhost"), (NIXL, mooncake))) == []


@pytest.mark.parametrize(
    ("build", "faults"),
    [("0.26.0", 1), ("0.27.0", 0), ("0.28.0", 0), ("0.26.1rc1.dev1177+ga9a17e709", 0)],
)
def test_kernel_blocks_of_a_hybrid_may_differ_since_0_27(build: str, faults: int) -> None:
    """Prefill 1088 (kernel 64) and decode 2176 (kernel 128), at the same TP."""
    point = sides("block-size: 1088", "block-size: 2176", shapes=("1xTP8", "1xTP8"))
    assert len(found(RULES["pd-block-size"], point_of(point, ("vllm: 0.28.0", f"vllm: {build}")))) == faults


def test_the_larger_block_on_both_sides_is_what_the_tool_chooses() -> None:
    view = point_of(pair("1xTP2DP4", "1xTP8"))
    assert [role.role.flag("block-size") for role in view.roles] == [2176, 2176]
    assert found(RULES["pd-block-size"], view) == []


def test_equal_blocks_of_different_kernels_do_not_pass_with_prefix_caching() -> None:
    """Prefill at 2240 (35 kernel blocks of 64) beside decode at 1088 (17): fine without prefix caching, refused with it."""
    point = "block-size: 2240{}", "block-size: 1088{}"
    on, off = (tuple(text.format(more) for text in point) for more in (", no-enable-prefix-caching: null", ""))
    shapes = ("1xTP2DP4", "1xTP8")
    assert found(RULES["pd-block-size"], point_of(sides(*off, shapes=shapes))) == []
    assert found(RULES["pd-prefix-caching"], point_of(sides(*off, shapes=shapes))) == []
    (fault,) = found(RULES["pd-prefix-caching"], point_of(sides(*on, shapes=shapes)))
    assert "prefix caching is on, and a block holds 35 kernel blocks for prefill, 17 for decode" in fault.message


@pytest.mark.parametrize(
    ("prefill", "decode", "faults"),
    [
        ("block-size: 32", "block-size: 64", 0),
        ("block-size: 64", "block-size: 32", 1),
        ("block-size: 64", "", 1),
        ("", "block-size: 64", 0),
        ("", "", 0),
    ],
)
def test_blocks_of_a_plain_model(prefill: str, decode: str, faults: int) -> None:
    """In every version decode's must be a multiple; vLLM's own is 16."""
    view = point_of(sides(prefill, decode, shapes=("1xTP4DP2", "1xTP4DP4")), ("vllm: 0.28.0", "vllm: 0.26.0"), architecture=PLAIN)
    assert len(found(RULES["pd-block-size"], view)) == faults


def test_blocks_of_a_model_that_is_not_known_are_compared_when_both_are_set() -> None:
    for flags, faults in ((("block-size: 64", "block-size: 32"), 1), (("block-size: 64", ""), 0)):
        view = point_of(sides(*flags))
        recipe = replace(view.recipe, model=replace(view.recipe.model, architecture=None))
        point = replace(view, recipe=recipe, roles=tuple(replace(role, recipe=recipe, sizes=None) for role in view.roles))
        assert len(found(RULES["pd-block-size"], point)) == faults


@pytest.mark.parametrize(
    ("architecture", "prefill", "faults"),
    [(PLAIN, "1xTP8", 1), (PLAIN, "1xTP4", 0), (QWEN, "1xTP8", 0), (LATENT, "1xTP8", 0)],
)
def test_a_plain_model_must_not_replicate_heads_on_the_larger_prefill(architecture: Architecture, prefill: str, faults: int) -> None:
    view = point_of(pair(prefill, "1xTP2"), architecture=architecture)
    messages = [fault.message for fault in found(RULES["pd-tp-ratio"], view)]
    assert len(messages) == faults
    assert all("prefill's TP8 replicates 4 KV heads and is larger than decode's TP2" in message for message in messages)


def test_a_worker_within_a_node_needs_no_multi_node_nvlink() -> None:
    view = point_of(pair('{shape: 1xTP4, env: {NCCL_MNNVL_ENABLE: "0"}}', "1xTP4DP4"))
    assert found(RULES["pd-multi-node-env"], view) == []
