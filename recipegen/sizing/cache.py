"""vLLM's layout of the KV cache on one GPU: groups, padding, blocks of a request, and what a cache of some GiB holds.

Sources: vLLM 0.28 `v1/core/kv_cache_utils.py` (_get_kv_cache_groups_uniform_page_size, get_num_blocks,
get_max_concurrency_for_kv_cache_config) and `v1/kv_cache_interface.py` (max_memory_usage_bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recipegen.architecture import Architecture
from recipegen.sizing.block_size import natural_block_size
from recipegen.sizing.sizes import CacheSizes, Room
from recipegen.sizing.state import CacheDtypes, attention_bytes_per_token

GIB = 2**30
NULL_BLOCKS = 1
"""Of the pool, one block id stands for "nothing" and is never a request's. vLLM's maximum concurrency counts it all the same."""


@dataclass(frozen=True, kw_only=True)
class CacheSettings:
    """What decides on the layout: `draft` the tokens of speculation a step, `extra_layers` attention layers of the MTP head.

    `workload_tokens` are those of a request of the workload (0: as `max_model_len`), `batched_tokens` those of a step. With
    `windows`, sliding-window layers keep their window only; without, they keep all, as where vLLM's hybrid cache manager is off.
    `sure` tells that the layout is certain.
    """

    tp: int
    pp: int
    block: int
    max_model_len: int
    workload_tokens: int = 0
    batched_tokens: int = 0
    windows: bool = True
    sure: bool = True
    draft: int
    extra_layers: int
    cache_mode: str
    dtypes: CacheDtypes


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Cache groups by kind, and the layers that a block id costs on the fullest pipeline stage."""

    attention: int
    sliding: int = 0
    linear: int
    layers: int
    padding: int


def cache_groups(attention: int, linear: int, *, sliding: int = 0, pp: int = 1) -> Groups:
    """Split layers into groups of one kind with as equal numbers of layers as vLLM makes them.

    A group has as many layers as the rarest kind, or as the commonest one when that has less than 1.5 times as many. Groups are
    made for the whole model and then cut by stage: a stage has at most its share, rounded up, of each group.
    """
    kinds = (attention, sliding, linear)
    there = [layers for layers in kinds if layers]
    if not there:
        return Groups(attention=0, linear=0, layers=0, padding=0)
    size = max(there) if max(there) < min(there) * 1.5 else min(there)
    counts = tuple(-(-layers // size) for layers in kinds)
    fullest = max(-(-layers // count) for layers, count in zip(kinds, counts, strict=True) if count)
    return Groups(attention=counts[0], sliding=counts[1], linear=counts[2], layers=-(-fullest // pp), padding=sum(counts) * fullest - sum(kinds))


def linear_blocks(tokens: int, *, block: int, draft: int, cache_mode: str) -> int:
    """Blocks that a request of some tokens takes in one linear-attention group; each drafted token keeps a state of its own."""
    states = {"none": 1, "align": 2}.get(cache_mode) or -(-tokens // block)
    return states + draft


def sliding_blocks(tokens: int, *, block: int, window: int, batched_tokens: int) -> int:
    """Blocks that vLLM reserves for a request of some tokens in one sliding-window group: the window and a step, and one for the offset.

    Source: SlidingWindowSpec. While a request decodes it holds a window: that is with `batched_tokens` 1.
    """
    return -(-min(window - 1 + batched_tokens, tokens) // block) + 1


def request_blocks(groups: Groups, tokens: int, *, block: int, draft: int, cache_mode: str) -> int:
    """Block ids that a request of some tokens takes of the pool, over the groups of full and of linear attention."""
    linear = groups.linear * linear_blocks(tokens, block=block, draft=draft, cache_mode=cache_mode)
    return groups.attention * -(-tokens // block) + linear


@lru_cache(maxsize=4096)
def cache_sizes(model: Architecture, settings: CacheSettings) -> CacheSizes:
    """Return the layout on one GPU. KeyError for a type of unknown size."""
    attention, block = model.attention, settings.block
    sliding = attention.sliding_layers if settings.windows and attention.window else 0
    full = attention.layers - sliding + settings.extra_layers
    groups = cache_groups(full, model.linear.layers if model.linear else 0, sliding=sliding, pp=settings.pp)
    own = settings.workload_tokens or settings.max_model_len
    longest, workload = (
        request_blocks(groups, tokens, block=block, draft=settings.draft, cache_mode=settings.cache_mode) for tokens in (settings.max_model_len, own)
    )
    if sliding:
        longest += groups.sliding * sliding_blocks(
            settings.max_model_len, block=block, window=attention.window, batched_tokens=settings.batched_tokens
        )
        held = sliding_blocks(own, block=block, window=attention.window, batched_tokens=1 + settings.draft)
        workload += groups.sliding * min(held, -(-own // block))
    return CacheSizes(
        attention_groups=groups.attention,
        linear_groups=groups.linear,
        sliding_groups=groups.sliding,
        layers=groups.layers,
        padding_layers=groups.padding,
        page_bytes=block * attention_bytes_per_token(model, tp=settings.tp, dtype=settings.dtypes.kv),
        blocks_per_request=longest,
        workload_tokens=own,
        workload_blocks=workload,
        lower_bound=not settings.sure or (attention.sliding_layers > 0 and not attention.window),
    )


@lru_cache(maxsize=4096)
def study_request_mib(model: Architecture, *, max_model_len: int, dtypes: CacheDtypes) -> float:
    """MiB of a request as the published study counts: every layer's blocks on one GPU, without TP and MTP."""
    block = natural_block_size(model, tp=1, mtp=0, dtypes=dtypes)
    layer_blocks = -(-max_model_len // block) * model.attention.layers + (model.linear.layers if model.linear else 0)
    return layer_blocks * block * attention_bytes_per_token(model, tp=1, dtype=dtypes.kv) / 2**20


def cache_room(cache: CacheSizes, *, kv_gib: float, study_mib: float) -> Room:
    """Return what `kv_gib` on each GPU hold, per engine."""
    blocks = int(round(kv_gib * GIB) // cache.page_bytes // cache.layers)
    return Room(
        kv_gib=kv_gib,
        blocks=blocks,
        concurrency=blocks / cache.blocks_per_request,
        requests=max(0, blocks - NULL_BLOCKS) // cache.blocks_per_request,
        workload_requests=max(0, blocks - NULL_BLOCKS) // cache.workload_blocks,
        study_requests=kv_gib * 1024 / study_mib,
    )
