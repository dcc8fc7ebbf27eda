"""Rules over what prefill and decode have in common: each on a pair that breaks it, and on one that just does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.architecture import Architecture, Mla
from recipegen.checks import connector_rules, speculation_rules
from recipegen.checks.handshake_rules import POINT_RULES, ROLE_RULES
from recipegen.checks.views import PointView
from recipegen.errors import Source
from recipegen.model import Role
from tests.unit.checks.views_for_tests import POINT, agg, architecture_of, found, pair, point_of, role_of, rules_of, severities

RULES = rules_of(ROLE_RULES, POINT_RULES)
ELSEWHERE = rules_of(connector_rules.POINT_RULES, speculation_rules.ROLE_RULES, speculation_rules.POINT_RULES)
QWEN = architecture_of()
PLAIN = replace(QWEN, linear=None)
LATENT = replace(
    PLAIN, attention=replace(PLAIN.attention, kv_heads=1, mla=Mla(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128))
)
MOONCAKE = "kv-transfer-config: {kv_connector: MooncakeConnector, kv_role: kv_both}"
PERMUTING = "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both, enable_permute_local_kv: true}"
BYPASS = "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both, kv_connector_extra_config: {enforce_handshake_compat: false}}"
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
        environment(decode="VLLM_NIXL_SIDE_CHANNEL_HOST: null", args=NIXL.replace("Nixl", "NixlPush")),
        environment(decode="VLLM_NIXL_SIDE_CHANNEL_HOST: null", args=NIXL.replace("Nixl", "Mooncake")),
        "decode: VLLM_NIXL_SIDE_CHANNEL_HOST is taken back, and vLLM's own default is localhost",
    ),
    ("pd-cache-layout", environment("VLLM_KV_CACHE_LAYOUT: NHD"), environment("VLLM_KV_CACHE_LAYOUT: hnd"), "is NHD for prefill and HND for decode"),
    (
        "pd-cache-layout",
        environment(decode="VLLM_KV_CACHE_LAYOUT: NHD"),
        environment(decode="VLLM_KV_CACHE_LAYOUT: NHD", args=PERMUTING),
        "is HND for prefill and NHD for decode",
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
    assert {case[0] for case in FLAGS} == set(RULES) - set(ELSEWHERE)


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


DIFFERENT = [
    ("pd-dtype", "dtype: float16"),
    ("pd-kv-dtype", "kv-cache-dtype: fp8_e4m3"),
    ("pd-attention-backend", "attention-backend: FLASH_ATTN"),
    ("pd-hybrid-cache", "disable-hybrid-kv-cache-manager: true"),
]


@pytest.mark.parametrize(("rule", "flag"), [*DIFFERENT, ("pd-prefix-caching", "no-enable-prefix-caching: null"), ("pd-cache-layout", "")])
def test_another_connector_may_not_compare(rule: str, flag: str) -> None:
    """What NIXL is known to refuse is a warning with Mooncake, and says nothing of NIXL."""
    point = sides(flag) if flag else environment("VLLM_KV_CACHE_LAYOUT: NHD")
    (fault,) = found(RULES[rule], point_of(point, (NIXL, MOONCAKE)))
    assert severities([fault]) == ["warning"]
    assert "MooncakeConnector may not compare it" in fault.message
    assert "NIXL" not in fault.message
    assert severities(found(RULES[rule], point_of(point))) == ["error"]


def test_a_ratio_of_tp_is_a_warning_with_another_connector() -> None:
    (fault,) = found(RULES["pd-tp-ratio"], point_of(pair("1xTP4", "1xTP6"), (NIXL, MOONCAKE)))
    assert severities([fault]) == ["warning"]
    assert "which MooncakeConnector may not take" in fault.message
    assert found(RULES["pd-tp-ratio"], point_of(pair("1xTP8", "1xTP2"), (NIXL, MOONCAKE), architecture=PLAIN)) == []


@pytest.mark.parametrize(("rule", "flag"), DIFFERENT)
def test_what_only_the_hash_compares_is_a_warning_where_it_is_switched_off(rule: str, flag: str) -> None:
    """Decode compares, so decode's configuration counts."""
    assert severities(found(RULES[rule], point_of(sides(flag, BYPASS)))) == ["warning"]
    assert severities(found(RULES[rule], point_of(sides(f"{flag}, {BYPASS}")))) == ["error"]
    (fault,) = found(RULES[rule], point_of(sides(flag), (NIXL, BYPASS)))
    assert "enforce_handshake_compat: false" in fault.message


def test_a_side_that_pushes_compares_too() -> None:
    push, bypass = (text.replace("Nixl", "NixlPush") for text in (NIXL, BYPASS))
    assert severities(found(RULES["pd-dtype"], point_of(sides("dtype: float16", bypass), (NIXL, push)))) == ["error"]
    assert severities(found(RULES["pd-dtype"], point_of(sides("dtype: float16"), (NIXL, bypass)))) == ["warning"]


@pytest.mark.parametrize(("prefill", "severity"), [("auto", "error"), ("fp8_e5m2", "warning"), ("fp8_e4m3", "warning")])
def test_types_of_different_size_fail_without_the_hash_too(prefill: str, severity: str) -> None:
    assert severities(found(RULES["pd-kv-dtype"], point_of(sides(f"kv-cache-dtype: {prefill}"), (NIXL, BYPASS)))) == [severity]


def test_latent_attention_has_one_layout() -> None:
    assert found(RULES["pd-cache-layout"], point_of(environment("VLLM_KV_CACHE_LAYOUT: NHD"), architecture=LATENT)) == []


def test_prefill_cannot_permute_for_decode() -> None:
    view = point_of(environment("VLLM_KV_CACHE_LAYOUT: NHD", args=PERMUTING))
    assert severities(found(RULES["pd-cache-layout"], view)) == ["error"]


@pytest.mark.parametrize(
    ("shapes", "flags", "block"),
    [
        (("1xTP2DP4", "1xTP8"), ("block-size: 2176", "block-size: 1088"), 2176),
        (("1xTP4DP4", "1xTP4DP4"), ("block-size: 2304", "block-size: 2112"), 2176),
        (("1xTP8", "1xTP8"), ("block-size: 2176", "block-size: 1088"), 1088),
    ],
)
def test_the_mend_of_block_sizes_is_the_larger_natural_one(shapes: tuple[str, str], flags: tuple[str, str], block: int) -> None:
    (fault,) = found(RULES["pd-block-size"], point_of(sides(*flags, shapes=shapes)))
    assert fault.mend == f"set block-size {block} on both sides"
    mended = point_of(sides(*(f"block-size: {block}",) * 2, shapes=shapes))
    assert found(RULES["pd-block-size"], mended) == []
    assert [view.sizes.blocks.chosen for view in mended.roles if view.sizes] == [block, block]


def test_unequal_blocks_of_unknown_kernels_are_a_warning() -> None:
    view = point_of(sides("block-size: 64", "block-size: 32", shapes=("1xTP4", "1xTP4")), architecture=PLAIN)
    for prefill, decode, expected in ((64, 64, ["error"]), (0, 64, ["warning"]), (64, 0, ["warning"])):
        kernels = (prefill, 32 if decode else 0)
        roles = []
        for role, kernel in zip(view.roles, kernels, strict=True):
            assert role.sizes
            roles.append(replace(role, sizes=replace(role.sizes, blocks=replace(role.sizes.blocks, kernel=kernel))))
        assert severities(found(RULES["pd-block-size"], replace(view, roles=tuple(roles)))) == expected


def test_two_forms_of_prefix_caching_are_left_to_the_rules_over_flags() -> None:
    assert found(RULES["pd-prefix-caching"], point_of(sides(decode="enable-prefix-caching: true"))) == []


@pytest.mark.parametrize("connector", ["NixlConnector", "PdConnector"])
def test_dynamo_finds_an_address_of_its_own(connector: str) -> None:
    wrapped = "kv_connector_extra_config: {connectors: [{kv_connector: DynamoConnector}, {kv_connector: NixlConnector}]}"
    config = f"kv-transfer-config: {{kv_connector: {connector}, kv_role: kv_both{f', {wrapped}' if connector == 'PdConnector' else ''}}}"
    taken = "VLLM_NIXL_SIDE_CHANNEL_HOST: null"
    (fault,) = found(RULES["pd-side-channel-host"], point_of(environment(taken, taken, args=config)))
    assert severities([fault]) == ["warning"]
    assert fault.message.startswith("prefill and decode: VLLM_NIXL_SIDE_CHANNEL_HOST is taken back, and Dynamo takes")


def test_the_site_is_beneath_the_recipe() -> None:
    """What the profile sets holds where the recipe says nothing, and stands at the profile."""
    profile = Source("cluster.yaml")

    def at_site(view: PointView, **env: str) -> PointView:
        return replace(view, roles=tuple(replace(role, site_env=env, site_source=profile) for role in view.roles))

    bare = point_of(POINT, ("VLLM_SSM_CONV_STATE_LAYOUT: DS", "DYN_LOG: error"))
    assert found(RULES["pd-conv-layout"], at_site(bare, VLLM_SSM_CONV_STATE_LAYOUT="DS")) == []
    (fault,) = found(RULES["pd-conv-layout"], at_site(bare, VLLM_SSM_CONV_STATE_LAYOUT="SD"))
    assert (fault.source, "prefill and decode" in fault.message) == (profile, True)
    assert found(RULES["pd-conv-layout"], at_site(point_of(), VLLM_SSM_CONV_STATE_LAYOUT="SD")) == []
    (fault,) = found(RULES["pd-expandable-segments"], at_site(point_of(), PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"))
    assert fault.source == profile
    assert found(RULES["pd-side-channel-host"], at_site(point_of(), VLLM_NIXL_SIDE_CHANNEL_HOST="localhost")) == []
    taken = environment(decode="VLLM_NIXL_SIDE_CHANNEL_HOST: null")
    (fault,) = found(RULES["pd-side-channel-host"], at_site(point_of(taken), VLLM_NIXL_SIDE_CHANNEL_HOST="localhost"))
    assert fault.message.startswith("decode: VLLM_NIXL_SIDE_CHANNEL_HOST is 'localhost'")
    assert found(RULES["pd-multi-node-env"], at_site(point_of(), NCCL_MNNVL_ENABLE="0")) == []
    taken = environment(decode="NCCL_MNNVL_ENABLE: null")
    (fault,) = found(RULES["pd-multi-node-env"], at_site(point_of(taken), NCCL_MNNVL_ENABLE="0"))
    assert "NCCL_MNNVL_ENABLE is 0" in fault.message
    assert found(RULES["pd-multi-node-env"], at_site(point_of(taken), NCCL_MNNVL_ENABLE="1")) == []


def test_what_both_sides_leave_out_stands_at_the_first_shape_or_where_the_flags_begin() -> None:
    view = point_of(POINT, ("VLLM_SSM_CONV_STATE_LAYOUT: DS", "DYN_LOG: error"))
    assert [fault.source for fault in found(RULES["pd-conv-layout"], view)] == [view.roles[0].role.source]
    common = Source("matrix.yaml", 12, 3)
    placed = replace(view, roles=tuple(replace(role, args_source=common) for role in view.roles))
    assert [fault.source for fault in found(RULES["pd-conv-layout"], placed)] == [common]
