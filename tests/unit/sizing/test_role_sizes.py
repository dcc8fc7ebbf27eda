"""From flags to sizes: defaults, unknown types, models without numbers, time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.catalogue import load_hardware
from recipegen.model import Flag, Recipe, Role, Topology
from recipegen.settings import Value
from recipegen.sizing.engine_settings import engine_settings
from recipegen.sizing.role_sizes import block_size, own_block_size, shared_block_size, size_role, unknown_dtype
from recipegen.sizing.sizes import RoleSizes
from recipegen.sizing.what_if import Assumptions, assumed_recipe
from tests.unit.sizing.models import DEEPSEEK, GB300, NEMOTRON, PLAIN, QWEN, SPEC


def recipe_of(topology: str | Topology = "", *, mtp: int = 0, model: object = QWEN, **flags: Value) -> Recipe:
    """A recipe of one decode role with just these flags."""
    shape = topology if isinstance(topology, Topology) else Topology(tp=4, dp=4, ep=True)
    spec = replace(SPEC, architecture=model)
    recipe = assumed_recipe(spec, GB300, shape, mtp=mtp, isl=8192, osl=1024, assume=Assumptions(vllm="0.28.0"))
    set_flags = tuple(Flag(name=name.replace("__", ".").replace("_", "-"), value=value) for name, value in flags.items())
    return replace(recipe, roles=(replace(recipe.roles[0], flags=set_flags),))


def sizes_of(recipe: Recipe) -> RoleSizes:
    found = size_role(recipe, recipe.roles[0])
    assert found is not None
    return found


def test_defaults_of_a_server_on_a_large_gpu() -> None:
    recipe = recipe_of()
    settings = engine_settings(recipe, recipe.roles[0], QWEN)
    assert (settings.graphs.mode, settings.graphs.max_num_seqs, settings.graphs.max_num_batched_tokens) == ("FULL_AND_PIECEWISE", 1024, 8192)
    assert (settings.cache_mode, settings.all2all, settings.utilization, settings.sequence_parallel) == (
        "align",
        "allgather_reducescatter",
        0.92,
        True,
    )
    assert (settings.graphs.cap, sizes_of(recipe).graphs.sizes[-1]) == (1024, 1024)
    small = replace(recipe, hardware=replace(GB300, key="a10g", gpu_memory_gib=24.0))
    assert engine_settings(small, small.roles[0], QWEN).graphs.max_num_seqs == 256


@pytest.mark.parametrize(
    ("flags", "mode", "count"),
    [
        ({"enforce_eager": True}, "NONE", 0),
        ({"compilation_config": '{"cudagraph_mode": "piecewise", "cudagraph_capture_sizes": [1, 8, 64]}'}, "PIECEWISE", 3),
        ({"compilation_config": '{"cudagraph_mode": "FULL_DECODE_ONLY", "max_cudagraph_capture_size": 64}'}, "FULL_DECODE_ONLY", 11),
        ({"cudagraph_capture_sizes": (1, 2, 4), "compilation_config": '{"cudagraph_mode": "FULL"}'}, "FULL", 3),
        ({"max_cudagraph_capture_size": 8, "compilation_config": '{"cudagraph_mode": "FULL"}'}, "FULL", 4),
    ],
)
def test_graph_flags(flags: dict[str, Value], mode: str, count: int) -> None:
    graphs = sizes_of(recipe_of(**flags)).graphs
    assert (graphs.mode, graphs.count) == (mode, count)


@pytest.mark.parametrize(
    ("model", "flags", "mode"),
    [
        (QWEN, {"no_enable_prefix_caching": True}, "none"),
        (QWEN, {"enable_prefix_caching": False}, "none"),
        (QWEN, {"no_enable_prefix_caching": True, "mamba_cache_mode": "align"}, "none"),
        (QWEN, {"mamba_cache_mode": "all"}, "align"),  # gated delta net has no such mode
        (NEMOTRON, {"mamba_cache_mode": "all"}, "all"),
        (NEMOTRON, {"mamba_cache_mode": "none"}, "align"),
    ],
)
def test_mamba_cache_mode(model: object, flags: dict[str, Value], mode: str) -> None:
    recipe = recipe_of(model=model, **flags)
    assert engine_settings(recipe, recipe.roles[0], model).cache_mode == mode


def test_a_cache_of_unknown_type_is_not_sized() -> None:
    sizes = sizes_of(recipe_of(kv_cache_dtype="nvfp4"))
    assert (sizes.cache, sizes.room, sizes.room_low, sizes.blocks.natural, sizes.blocks.kernel) == (None, None, None, 0, 0)
    assert sizes.budget is not None
    assert sizes.weights_gib > 100
    latent = recipe_of(kv_cache_dtype="fp8_ds_mla", model=DEEPSEEK)
    assert unknown_dtype(latent.roles[0]) == "fp8_ds_mla"
    assert unknown_dtype(latent.roles[0], DEEPSEEK) == ""
    assert sizes_of(latent).cache is not None


def test_models_with_little_known() -> None:
    recipe = recipe_of(model=None)
    assert size_role(recipe, recipe.roles[0]) is None
    assert block_size(recipe, recipe.roles[0]) == 16
    sizes = sizes_of(recipe_of(model=replace(QWEN, hidden_size=0)))
    assert (sizes.weight_parts, sizes.budget, sizes.room) == ((), None, None)
    assert sizes.cache is not None
    recipe = recipe_of()
    blind = replace(recipe, hardware=replace(GB300, gpu_memory_gib=0))
    assert sizes_of(blind).budget is None


def test_a_model_that_was_never_measured_has_an_upper_bound() -> None:
    recipe = recipe_of(Topology(tp=8), model=PLAIN)
    sizes = sizes_of(replace(recipe, model=replace(recipe.model, key="plain")))
    assert sizes.budget is not None
    assert sizes.room is not None
    assert sizes.room_low is not None
    assert (sizes.budget.kv.low, sizes.room_low.requests) == (0, 0)
    assert sizes.budget.kv.best == pytest.approx(276.62 * 0.92 - 0.95 * sizes.weights_gib)
    assert sizes.budget.kv.bound
    assert sizes.room == sizes.room_high
    assert sizes.room.requests > 0


def test_speculation_without_the_models_own_layers() -> None:
    own = recipe_of(speculative_config='{"method": "mtp", "num_speculative_tokens": 3}')
    other = recipe_of(speculative_config='{"method": "ngram", "num_speculative_tokens": 3}')
    for recipe, layers, parts in ((own, 24, True), (other, 23, False)):
        sizes = sizes_of(recipe)
        assert sizes.cache is not None
        assert sizes.cache.layers == layers
        assert any(part.name.startswith("MTP") for part in sizes.weight_parts) is parts


def test_asked_requests_by_role() -> None:
    recipe = replace(recipe_of(max_num_seqs=32), concurrency=(1, 1000))
    decode = replace(recipe.roles[0], workers=2)
    sizes = size_role(recipe, decode)
    prefill = size_role(recipe, replace(decode, role=Role.PREFILL))
    assert sizes is not None
    assert prefill is not None
    assert (sizes.ranks, sizes.asked, prefill.asked) == (8, 125, 32)


@pytest.mark.parametrize(
    ("text", "tokens"), [("80", 80), ("1k", 1000), ("1K", 1024), ("1.5k", 1500), ("2M", 2 << 20), (" 1_000 ", 1000), ("many", 8192), ("auto", 8192)]
)
def test_numbers_as_vllm_reads_them(text: str, tokens: int) -> None:
    recipe = recipe_of(max_num_batched_tokens=text)
    assert engine_settings(recipe, recipe.roles[0], QWEN).graphs.max_num_batched_tokens == tokens


def test_fit_is_judged_by_the_workloads_own_length() -> None:
    """1,024 + 1,024 tokens under a max_model_len of 262,144: 2,112 tokens with the template are one block beside the states."""
    recipe = recipe_of(kv_cache_dtype="fp8", mamba_ssm_cache_dtype="bfloat16", no_enable_prefix_caching=True)
    long = replace(recipe, workload=replace(recipe.workload, isl=1024, osl=1024, max_model_len=262_144))
    sizes, own = sizes_of(long), sizes_of(recipe)
    assert sizes.cache is not None
    assert own.cache is not None
    assert (sizes.cache.workload_tokens, sizes.cache.workload_blocks, sizes.cache.blocks_per_request) == (2112, 1 + 3, 125 + 3)
    assert (own.cache.workload_tokens, own.cache.workload_blocks) == (9280, 5 + 3)
    assert sizes.room is not None
    assert sizes.head_room == pytest.approx(sizes.room.workload_requests / sizes.asked - 1)
    assert sizes.room.workload_requests > 30 * sizes.room.requests
    capped = replace(recipe, workload=replace(recipe.workload, isl=9000, osl=1024, max_model_len=10_040))
    assert sizes_of(capped).cache.workload_tokens == 10_040


@pytest.mark.parametrize(
    ("flags", "touches"),
    [
        ({"cpu_offload_gb": 20}, "weights"),
        ({"offload_group_size": 4}, "weights"),
        ({"enable_eplb": True}, "weights"),
        ({"enable_eplb": True, "eplb_config__num_redundant_experts": 32}, "weights"),
        ({"decode_context_parallel_size": 2}, "cache"),
        ({"prefill_context_parallel_size": 2}, "cache"),
        ({"hf_overrides": '{"num_hidden_layers": 4}'}, "cache"),
        ({"hf_overrides__text_config__num_experts": 4}, "cache"),
        ({"hf_overrides": '{"rope_scaling": {"factor": 4.0}, "max_position_embeddings": 400000}'}, ""),
        ({"hf_overrides": '{"text_config": {"rope_parameters": {"factor": 4.0}}}'}, ""),
        ({"quantization": "modelopt_fp4"}, ""),  # the checkpoint is quantized
        ({"load_format": "dummy"}, ""),
        ({"cpu_offload_gb": 0, "decode_context_parallel_size": 1, "no_enable_eplb": True}, ""),
    ],
)
def test_flags_that_are_not_followed(flags: dict[str, Value], touches: str) -> None:
    sizes = sizes_of(recipe_of(**flags))
    names = tuple(name.partition("__")[0].replace("_", "-") for name in flags)
    assert sizes.unsized == (names[:1] if touches else ())
    assert (sizes.budget is None, sizes.room is None) == (bool(touches), bool(touches))
    assert (sizes.cache is None) is (touches == "cache")


def test_a_plain_checkpoint_quantized_at_load_is_not_sized() -> None:
    assert sizes_of(recipe_of(Topology(tp=8), model=PLAIN, quantization="fp8")).unsized == ("quantization",)
    assert sizes_of(recipe_of(Topology(tp=8), model=PLAIN)).unsized == ()


@pytest.mark.parametrize("offload", [{}, {"cpu_offload_gb": 20}], ids=["", "offload"])
@pytest.mark.parametrize(
    ("flags", "blocks", "gib"),
    [
        ({"num_gpu_blocks_override": 1000}, 1000, None),
        ({"kv_cache_memory_bytes": 40 << 30}, None, 40),
        ({"kv_cache_memory_bytes": "40G"}, None, 40),
        ({"kv_cache_memory_bytes": 40 << 30, "num_gpu_blocks_override": 1000}, 1000, None),
    ],
)
def test_a_cache_whose_size_is_said_is_exact(flags: dict[str, Value], blocks: int | None, gib: float | None, offload: dict[str, Value]) -> None:
    sizes = sizes_of(recipe_of(**flags, **offload))
    assert sizes.cache is not None
    assert sizes.room is not None
    assert sizes.room == sizes.room_low == sizes.room_high
    assert sizes.room.blocks == (blocks or int(gib * 2**30 // sizes.cache.block_bytes))
    assert sizes.room.kv_gib == pytest.approx(gib or blocks * sizes.cache.block_bytes / 2**30)
    assert (sizes.budget is None) is bool(offload)
    if sizes.budget:
        assert (sizes.budget.kv.exact, sizes.budget.kv.best) == (True, sizes.room.kv_gib)
        assert sizes.budget.given in {name.replace("_", "-") for name in flags}


WINDOWS = replace(PLAIN, attention=replace(PLAIN.attention, sliding_layers=40, window=128))


@pytest.mark.parametrize(
    ("flags", "groups", "lower_bound"),
    [
        ({}, 1, False),
        ({"no_disable_hybrid_kv_cache_manager": True, "kv_transfer_config": "{}"}, 1, False),
        ({"disable_hybrid_kv_cache_manager": True}, 0, False),
        ({"kv_transfer_config__kv_connector": "NixlConnector"}, 0, True),  # a connector may turn it off
    ],
)
def test_sliding_windows_by_the_cache_manager(flags: dict[str, Value], groups: int, lower_bound: bool) -> None:
    cache = sizes_of(recipe_of(Topology(tp=8), model=WINDOWS, **flags)).cache
    assert cache is not None
    assert (cache.sliding_groups, cache.lower_bound) == (groups, lower_bound)


@pytest.mark.parametrize(
    ("vllm", "flags", "sure"), [("0.28.0", {}, True), ("0.29.0", {}, False), ("0.29.0", {"no_enable_prefix_caching": True}, True)]
)
def test_prefix_caching_by_default_is_known_of_some_builds(vllm: str, flags: dict[str, Value], sure: bool) -> None:
    recipe = recipe_of(**flags)
    cache = sizes_of(replace(recipe, runtime=replace(recipe.runtime, vllm=vllm))).cache
    assert cache is not None
    assert cache.lower_bound is not sure


@pytest.mark.parametrize(
    ("hardware", "model", "flags", "backend"),
    [
        ("gb300-nvl72", QWEN, {}, "FLASHINFER"),
        ("b200", DEEPSEEK, {}, "FLASHINFER_MLA"),
        ("h200", QWEN, {}, "FLASH_ATTN"),
        ("h200", DEEPSEEK, {}, ""),
        ("gb300-nvl72", QWEN, {"attention_backend": "triton_attn"}, "TRITON_ATTN"),
        ("gb300-nvl72", QWEN, {"attention_config": '{"backend": "FLASH_ATTN"}'}, "FLASH_ATTN"),
        ("h100", QWEN, {"attention_config__backend": "FLASHINFER"}, "FLASHINFER"),
    ],
)
def test_attention_backend(hardware: str, model: object, flags: dict[str, Value], backend: str) -> None:
    recipe = replace(recipe_of(model=model, **flags), hardware=load_hardware(hardware))
    assert engine_settings(recipe, recipe.roles[0], model).backend == backend


def test_where_sequence_parallel_moe_is_only_inferred_weights_are_an_interval() -> None:
    recipe = recipe_of(all2all_backend="flashinfer_nvlink_one_sided")
    nightly = sizes_of(replace(recipe, runtime=replace(recipe.runtime, vllm="nightly"))).budget
    assert nightly is not None
    assert (nightly.weights.low, nightly.weights.high) == pytest.approx((101.04, 107.53), abs=0.01)


def test_one_block_for_roles_of_different_cache_modes() -> None:
    """The chunk of one side's mode makes its blocks multiples of 256: both settle on what is asked of both."""
    lean = recipe_of(Topology(tp=4), model=NEMOTRON, no_enable_prefix_caching=True).roles[0]
    wide = recipe_of(Topology(tp=8), model=NEMOTRON, mamba_cache_mode="all").roles[0]
    block = shared_block_size(NEMOTRON, (lean, wide), mtp=0)
    for role in (lean, wide):
        asked = recipe_of(role.topology, model=NEMOTRON)
        settled = sizes_of(replace(asked, roles=(replace(role, flags=(*role.flags, Flag(name="block-size", value=block))),)))
        assert settled.blocks.chosen == block >= settled.blocks.natural
    assert block % 256 == 0


def test_own_block_size_follows_the_cache_mode() -> None:
    recipe = recipe_of(model=NEMOTRON, mamba_cache_mode="all")
    own = own_block_size(NEMOTRON, recipe.roles[0], mtp=0)
    assert own % 256 == 0
    assert sizes_of(recipe).blocks.natural == own


@given(
    seqs=st.integers(1, 700),
    mtp=st.integers(0, 4),
    block=st.one_of(st.none(), st.integers(1, 160).map(lambda n: 16 * n)),
    tp=st.sampled_from([2, 4, 8]),
    dp=st.sampled_from([1, 2, 4, 8]),
    utilization=st.sampled_from([0.8, 0.9, 0.92, 0.95]),
)
def test_a_larger_share_of_the_gpu_never_holds_less(seqs: int, mtp: int, block: int | None, tp: int, dp: int, utilization: float) -> None:
    flags: dict[str, Value] = {"max_num_seqs": seqs, "kv_cache_dtype": "fp8", "mamba_ssm_cache_dtype": "bfloat16"}
    if block:
        flags["block_size"] = block
    if mtp:
        flags["speculative_config"] = f'{{"method": "mtp", "num_speculative_tokens": {mtp}}}'
    topology = Topology(tp=tp, dp=dp, ep=True)
    small, large = (sizes_of(recipe_of(topology, **flags, gpu_memory_utilization=share)) for share in (utilization, utilization + 0.04))
    assert small.room is not None
    assert large.room is not None
    assert small.room_low is not None
    assert small.room.requests <= large.room.requests
    assert small.room_low.requests <= small.room.requests
    assert small.blocks.chosen % (block or 16) == 0


def test_ten_thousand_roles_take_seconds() -> None:
    """As `plan` of a large matrix needs: topologies repeat, batch limits do not. The bound is loose for a busy machine."""
    base = recipe_of(kv_cache_dtype="fp8", mamba_ssm_cache_dtype="bfloat16", speculative_config='{"method": "mtp", "num_speculative_tokens": 3}')
    flags = base.roles[0].flags
    roles = [replace(base.roles[0], flags=(*flags, Flag(name="max-num-seqs", value=16 + n))) for n in range(1000)]
    began = time.perf_counter()
    for role in roles:
        size_role(base, role)
    assert (time.perf_counter() - began) / len(roles) < 0.0015
