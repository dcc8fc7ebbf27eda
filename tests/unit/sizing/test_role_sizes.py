"""From flags to sizes: defaults, unknown types, models without numbers, time."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.model import Flag, Recipe, Role, Topology, Value
from recipegen.sizing.engine_settings import engine_settings
from recipegen.sizing.role_sizes import block_size, own_block_size, size_role, unknown_dtype
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
    assert sizes.budget.kv.best == pytest.approx(276.62 * 0.92 - sizes.weights_gib)
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
