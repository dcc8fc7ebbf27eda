"""The arithmetic behind a role's sizes, step by step, to be checked by hand.

A formula is arithmetic in numbers (`x`, `/`, `//`, `ceil`, `floor`, `max`) whose value the result starts with, or words where a
part has no such formula.
"""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.architecture import Architecture
from recipegen.model import TEMPLATE_TOKENS, Recipe
from recipegen.sizing.block_size import DEFAULT_BLOCK, MLA_HYBRID_ALIGN, natural_block_size
from recipegen.sizing.cache import NULL_BLOCKS, linear_blocks, study_request_mib
from recipegen.sizing.engine_settings import EngineSettings, engine_settings
from recipegen.sizing.explain_graphs import graph_steps
from recipegen.sizing.explain_memory import budget_steps, weight_steps
from recipegen.sizing.explain_step import KV_UTILS, STUDY, Step, amount
from recipegen.sizing.sizes import BlockSizes, CacheSizes, RoleSizes, Room
from recipegen.sizing.state import PACKED_MLA, attention_bytes_per_token, conv_channels, dtype_bytes, linear_state_bytes
from recipegen.sizing.unsized import BLOCKS_OVERRIDE, given_kv_flag

__all__ = ["Step", "explain_sizes"]

_INTERFACE = "vLLM platforms/interface.py _align_hybrid_block_size"
_SPECS = "vLLM v1/kv_cache_interface.py"
_STATE = "vLLM mamba_utils.py"


def explain_sizes(recipe: Recipe, sizes: RoleSizes) -> tuple[Step, ...]:
    """Return the steps from the model's numbers to the requests that fit; those whose inputs are not known are left out."""
    model = recipe.model.architecture
    if model is None:
        return ()
    settings = engine_settings(recipe, sizes.role, model)
    steps: list[Step] = []
    if sizes.cache is not None:
        steps += _state_steps(model, settings, sizes.role.topology.tp)
        steps += _block_steps(model, settings, sizes.blocks, sizes.role.topology.tp)
        steps += _cache_steps(model, settings, sizes.blocks, sizes.cache, sizes.role.topology.pp)
    steps += graph_steps(settings.graphs, sizes.graphs)
    steps += weight_steps(sizes)
    if sizes.budget is not None:
        steps += budget_steps(sizes.budget)
    return (*steps, *_room_steps(recipe, model, settings, sizes))


def _state_steps(model: Architecture, settings: EngineSettings, tp: int) -> Iterator[Step]:
    attention, kv = model.attention, settings.dtypes.kv
    token = attention_bytes_per_token(model, tp=tp, dtype=kv)
    if kv == PACKED_MLA:
        formula, title = "512 + 16 + 128", "latent, its scales and rotary key"
    elif attention.mla is not None:
        formula = f"({attention.mla.kv_lora_rank} + {attention.mla.qk_rope_head_dim}) x {dtype_bytes(kv, model.dtype)}"
        title = "latent and rotary key, whole on every GPU"
    else:
        formula = f"max(1, {attention.kv_heads} // {tp}) x 2 x {attention.head_dim} x {dtype_bytes(kv, model.dtype)}"
        title = "KV heads of this GPU x K and V x head dimension x bytes"
    yield Step(f"attention state of a token in a layer: {title}", formula, amount(token, "B"), f"{_SPECS} real_page_size_bytes")
    linear = model.linear
    if linear is None:
        return
    conv, ssm = dtype_bytes(settings.dtypes.conv, model.dtype), dtype_bytes(settings.dtypes.ssm, linear.ssm_dtype)
    channels = conv_channels(linear, tp=tp)
    rows = f"({linear.conv_kernel} - 1 + {settings.draft})"
    heads = f"{linear.value_heads} // {tp} x {linear.value_head_dim} x {linear.key_head_dim} x {ssm}"
    state = linear_state_bytes(model, linear, tp=tp, mtp=settings.draft, dtypes=settings.dtypes)
    title = "linear state of a request in a layer: convolution channels / TP x (kernel - 1 + drafted tokens) x bytes, and SSM state"
    yield Step(title, f"{channels} // {tp} x {rows} x {conv} + {heads}", amount(state, "B"), f"{_STATE} {linear.kind} state shape")


def _block_steps(model: Architecture, settings: EngineSettings, blocks: BlockSizes, tp: int) -> Iterator[Step]:
    linear = model.linear
    if linear is None or settings.cache_mode == "all":
        yield Step("block", str(blocks.chosen), amount(blocks.chosen, "tokens"), _INTERFACE)
    else:
        state = linear_state_bytes(model, linear, tp=tp, mtp=settings.draft, dtypes=settings.dtypes)
        token = attention_bytes_per_token(model, tp=tp, dtype=settings.dtypes.kv)
        floor = MLA_HYBRID_ALIGN if model.attention.mla else DEFAULT_BLOCK
        for title, asked, block in (("alone", None, blocks.natural), ("with --block-size", settings.block_size, blocks.chosen)):
            if asked or title == "alone":
                step = max(asked or 0, floor)
                formula = f"{step} x ceil({state} / ({step} x {token}))"
                yield Step(f"block {title}: as many steps of {step} tokens as hold one linear state", formula, amount(block, "tokens"), _INTERFACE)
    if blocks.kernel:
        title = "kernel block: the largest the backend offers that divides the block"
        yield Step(title, f"{blocks.chosen} / {blocks.chosen // blocks.kernel}", amount(blocks.kernel, "tokens"), "vLLM select_common_block_size")


def _cache_steps(model: Architecture, settings: EngineSettings, blocks: BlockSizes, cache: CacheSizes, pp: int) -> Iterator[Step]:
    token = cache.page_bytes // blocks.chosen
    yield Step("page: a block in one layer", f"{blocks.chosen} x {token}", amount(cache.page_bytes, "B"), f"{_SPECS} page_size_bytes")
    kinds = [kind for kind in _kinds(model, settings, cache) if kind[2]]
    title = "layers of a block id: " + ", ".join(f"{layers} {name} in {count} group(s)" for name, layers, count in kinds)
    if cache.padding_layers:
        title += f", {cache.padding_layers} padding"
    fullest = ", ".join(f"ceil({layers} / {count})" for _, layers, count in kinds)
    formula = f"max({fullest})" if len(kinds) > 1 else fullest
    formula = f"ceil({formula} / {pp})" if pp > 1 else formula
    yield Step(title, formula, amount(cache.layers, "layers"), f"{KV_UTILS} _get_kv_cache_groups_uniform_page_size")
    longest = _request_formula(model, settings, blocks, cache, longest=True)
    note = f" (linear: mamba cache mode {settings.cache_mode}, {settings.draft} drafted tokens)" if cache.linear_groups else ""
    title = f"block ids of a request of {settings.max_model_len} tokens, max-model-len{note}"
    yield Step(title, longest, amount(cache.blocks_per_request, "blocks"), f"{_SPECS} max_memory_usage_bytes")
    formula = f"{cache.blocks_per_request} x {cache.layers} x {cache.page_bytes} / 1048576"
    yield Step("memory of such a request on one GPU", formula, f"{cache.request_mib:.2f} MiB", "blocks x layers x page")
    own = _request_formula(model, settings, blocks, cache, longest=False)
    title = f"block ids of a request of the workload: {cache.workload_tokens} tokens, ISL + OSL + {TEMPLATE_TOKENS} for a chat template"
    yield Step(title, own, amount(cache.workload_blocks, "blocks"), _SPECS)


def _kinds(model: Architecture, settings: EngineSettings, cache: CacheSizes) -> tuple[tuple[str, int, int], ...]:
    """Kinds of layers with their number and their groups."""
    sliding = model.attention.sliding_layers if cache.sliding_groups else 0
    return (
        ("attention", model.attention.layers - sliding + settings.mtp_layers, cache.attention_groups),
        ("sliding-window", sliding, cache.sliding_groups),
        ("linear", model.linear.layers if model.linear else 0, cache.linear_groups),
    )


def _request_formula(model: Architecture, settings: EngineSettings, blocks: BlockSizes, cache: CacheSizes, *, longest: bool) -> str:
    tokens, block = settings.max_model_len if longest else cache.workload_tokens, blocks.chosen
    formula = f"{cache.attention_groups} x ceil({tokens} / {block})"
    if cache.sliding_groups:
        step = settings.graphs.max_num_batched_tokens if longest else 1 + settings.draft
        window = f"ceil(min({model.attention.window} - 1 + {step}, {tokens}) / {block}) + 1"
        formula += f" + {cache.sliding_groups} x " + (f"({window})" if longest else f"min({window}, ceil({tokens} / {block}))")
    if cache.linear_groups:
        states = linear_blocks(tokens, block=block, draft=settings.draft, cache_mode=settings.cache_mode)
        formula += f" + {cache.linear_groups} x {states}"
    return formula


def _study_steps(model: Architecture, settings: EngineSettings, room: Room, kv: str) -> Iterator[Step]:
    """The published study's request lies on one GPU: a block of its own size, no TP, no MTP."""
    block = natural_block_size(model, tp=1, mtp=0, dtypes=settings.dtypes)
    token = attention_bytes_per_token(model, tp=1, dtype=settings.dtypes.kv)
    linear = model.linear.layers if model.linear else 0
    formula = f"(ceil({settings.max_model_len} / {block}) x {model.attention.layers} + {linear}) x {block} x {token} / 1048576"
    mib = study_request_mib(model, max_model_len=settings.max_model_len, dtypes=settings.dtypes)
    title = f"the study's request: blocks of {block} tokens in {model.attention.layers} attention layers, one in each of {linear} linear"
    yield Step(title, formula, f"{mib:g} MiB", STUDY)
    title = "the study's figure: KV over a request on one GPU without TP and MTP"
    yield Step(title, f"{kv} x 1024 / {mib:g}", f"{room.study_requests:.1f} requests", STUDY)


def _room_steps(recipe: Recipe, model: Architecture, settings: EngineSettings, sizes: RoleSizes) -> Iterator[Step]:
    cache, room = sizes.cache, sizes.room
    if cache is None or room is None:
        return
    kv = f"{room.kv_gib:.6f}".rstrip("0").rstrip(".")
    if given_kv_flag(sizes.role) == BLOCKS_OVERRIDE:
        yield Step("block ids of the pool", str(room.blocks), amount(room.blocks, "blocks"), BLOCKS_OVERRIDE)
    else:
        formula = f"floor({kv} x 1073741824 / ({cache.page_bytes} x {cache.layers}))"
        yield Step("block ids of the pool", formula, amount(room.blocks, "blocks"), f"{KV_UTILS} get_num_blocks")
    concurrency, source = f"{room.concurrency:.2f} requests of an engine", f"{KV_UTILS} get_max_concurrency_for_kv_cache_config"
    title = f"vLLM's maximum concurrency, of {settings.max_model_len} tokens each"
    yield Step(title, f"{room.blocks} / {cache.blocks_per_request}", concurrency, source)
    for tokens, blocks, fit in (
        (settings.max_model_len, cache.blocks_per_request, room.requests),
        (cache.workload_tokens, cache.workload_blocks, room.workload_requests),
    ):
        title = f"whole requests of {tokens} tokens that fit beside the null block"
        yield Step(title, f"floor(({room.blocks} - {NULL_BLOCKS}) / {blocks})", amount(fit, "requests of an engine"), "vLLM v1/core/block_pool.py")
    yield from _study_steps(model, settings, room, kv)
    yield from _asked_steps(recipe, sizes, room)


def _asked_steps(recipe: Recipe, sizes: RoleSizes, room: Room) -> Iterator[Step]:
    asked, title = f"ceil({max(recipe.concurrency, default=0)} / {sizes.ranks})", "requests asked of an engine at the highest concurrency"
    if sizes.asked * sizes.ranks < max(recipe.concurrency, default=0):
        asked, title = str(sizes.asked), f"{title}, at most max-num-seqs prefill at once"
    yield Step(title, asked, amount(sizes.asked, "requests"), "concurrency / (workers x DP)")
    if sizes.head_room is not None:
        title, source = "head room, by requests of the workload's length", "requests that fit / asked - 1"
        yield Step(title, f"({room.workload_requests} / {sizes.asked} - 1) x 100", f"{sizes.head_room * 100:.1f} %", source)
