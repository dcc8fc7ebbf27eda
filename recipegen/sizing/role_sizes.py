"""Sizes of a resolved recipe's roles: the step from flags to what `sizing` takes."""

from __future__ import annotations

from collections.abc import Sequence

from recipegen.architecture import Architecture
from recipegen.model import Recipe, Role, RoleRecipe, Topology
from recipegen.role_flags import draft_tokens, own_draft_tokens, size
from recipegen.sizing.block_size import DEFAULT_BLOCK, block_misfit, kernel_block_size, natural_block_size
from recipegen.sizing.budget import make_budget, weights_estimate, with_given_kv
from recipegen.sizing.cache import GIB, CacheSettings, cache_room, cache_sizes, study_request_mib
from recipegen.sizing.calibration import load_calibration
from recipegen.sizing.engine_build import is_blackwell
from recipegen.sizing.engine_settings import EngineSettings, batch_limits, cache_dtypes, engine_settings, mamba_cache_mode, mamba_chunk
from recipegen.sizing.estimates import Situation
from recipegen.sizing.graphs import graph_sizes
from recipegen.sizing.sizes import BlockSizes, Budget, CacheSizes, GraphSizes, RoleSizes, Room, WeightPart
from recipegen.sizing.state import CacheDtypes, unknown_cache_dtype
from recipegen.sizing.unsized import BLOCKS_OVERRIDE, given_kv_flag, unsized_flags
from recipegen.sizing.weights import weight_parts

__all__ = [
    "asked_requests",
    "block_inputs",
    "block_size",
    "cache_dtypes",
    "known_dtypes",
    "own_block_size",
    "room_for",
    "shared_block_size",
    "size_role",
    "unknown_dtype",
]

LARGEST_GPU_GIB = 10_000
"""Above every GPU: bounds the cache where the memory of the GPU is not known."""


def unknown_dtype(role: RoleRecipe, model: Architecture | None = None) -> str:
    """The first cache dtype whose size is not known, or an empty string; some are known of one model's shape only."""
    return unknown_cache_dtype(cache_dtypes(role), model)


def own_block_size(model: Architecture, role: RoleRecipe, *, mtp: int) -> int:
    """Tokens of a block that vLLM settles on for this role when nothing is asked, `mtp` being the point's.

    KeyError for a cache type of unknown size.
    """
    return _settled(model, role, cache_dtypes(role), draft=own_draft_tokens(role, mtp=mtp), asked=None)


def shared_block_size(model: Architecture, roles: Sequence[RoleRecipe], *, mtp: int) -> int:
    """Tokens of the smallest block that every role settles on when it is asked of all of them. KeyError as above."""
    settled = {own_block_size(model, role, mtp=mtp) for role in roles}
    while len(settled) > 1:
        block = max(settled)
        settled = {_settled(model, role, cache_dtypes(role), draft=own_draft_tokens(role, mtp=mtp), asked=block) for role in roles} | {block}
    return settled.pop()


def block_inputs(model: Architecture, role: RoleRecipe, *, mtp: int) -> tuple[object, ...]:
    """What decides on a role's own block size beside the model: the same for two roles, the same block."""
    return role.topology.tp, own_draft_tokens(role, mtp=mtp), cache_dtypes(role), mamba_cache_mode(role, model), mamba_chunk(role)


def known_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose, or the model's own where a size is not known."""
    return CacheDtypes() if unknown_dtype(role) else cache_dtypes(role)


def block_size(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of a block that vLLM settles on for this role, `block-size` of the recipe included."""
    asked, model = size(role, "block-size"), recipe.model.architecture
    if model is None:
        return asked or DEFAULT_BLOCK
    return _settled(model, role, known_dtypes(role), draft=draft_tokens(recipe, role), asked=asked)


def _settled(model: Architecture, role: RoleRecipe, dtypes: CacheDtypes, *, draft: int, asked: int | None) -> int:
    mode, chunk = mamba_cache_mode(role, model), mamba_chunk(role)
    return natural_block_size(model, tp=role.topology.tp, mtp=draft, dtypes=dtypes, asked=asked, cache_mode=mode, chunk=chunk)


def size_role(recipe: Recipe, role: RoleRecipe) -> RoleSizes | None:
    """Return everything that sizing knows of a role; None for a model without an architecture.

    Block sizes of 0 and no cache stand for a cache type whose size is not known.
    """
    model = recipe.model.architecture
    if model is None:
        return None
    settings, unsized = engine_settings(recipe, role, model), unsized_flags(role, model)
    blocks, cache = _layout(recipe, role, model, settings)
    cache = None if unsized.cache else cache
    graphs, parts = graph_sizes(settings.graphs), () if unsized.weights else _weights(model, role.topology, settings)
    budget, kv = _budget(recipe, settings, _situation(model, role, settings, graphs), parts), _given_gib(role, cache)
    if budget and kv is not None:
        budget = with_given_kv(budget, kv, given_kv_flag(role))
    ends = (kv, kv, kv) if kv is not None else (budget.kv.best, budget.kv.low, budget.kv.high) if budget else None
    best, low, high = _rooms(recipe, model, settings, cache, ends)
    return RoleSizes(
        role=role,
        ranks=role.workers * role.topology.dp,
        asked=asked_requests(recipe, role),
        blocks=blocks,
        cache=cache,
        graphs=graphs,
        weight_parts=parts,
        budget=budget,
        room=best,
        room_low=low,
        room_high=high,
        unsized=unsized.flags,
    )


def room_for(recipe: Recipe, role: RoleRecipe, kv_gib: float) -> Room | None:
    """Return what `kv_gib` on each GPU hold of this role's requests; None where the layout is not known."""
    model = recipe.model.architecture
    if model is None:
        return None
    settings = engine_settings(recipe, role, model)
    cache = _layout(recipe, role, model, settings)[1]
    return cache_room(cache, kv_gib=kv_gib, study_mib=_study_mib(model, settings)) if cache else None


def asked_requests(recipe: Recipe, role: RoleRecipe) -> int:
    """Requests at once on one rank: at the highest concurrency all of them decode, but only max-num-seqs prefill."""
    asked = -(-max(recipe.concurrency, default=0) // (role.workers * role.topology.dp))
    return min(asked, batch_limits(recipe, role)[0]) if role.role is Role.PREFILL else asked


def _rooms(
    recipe: Recipe, model: Architecture, settings: EngineSettings, cache: CacheSizes | None, ends: tuple[float, float, float] | None
) -> tuple[Room | None, Room | None, Room | None]:
    """What the best, the lowest and the highest GiB of KV cache hold; of a cache that is asked to be larger than the GPU, no more than that."""
    if cache is None or ends is None:
        return None, None, None
    most, study = recipe.hardware.gpu_memory_gib or LARGEST_GPU_GIB, _study_mib(model, settings)
    best, low, high = (cache_room(cache, kv_gib=min(gib, most), study_mib=study) for gib in ends)
    return best, low, high


def _study_mib(model: Architecture, settings: EngineSettings) -> float:
    return study_request_mib(model, max_model_len=settings.max_model_len, dtypes=settings.dtypes)


def _given_gib(role: RoleRecipe, cache: CacheSizes | None) -> float | None:
    """GiB of KV cache on one GPU where a flag says them; None where none does, or blocks are counted whose size is not known."""
    flag = given_kv_flag(role)
    if not flag:
        return None
    count = size(role, flag) or 0
    if flag == BLOCKS_OVERRIDE:
        return count * cache.block_bytes / GIB if cache else None
    return count / GIB


def _layout(recipe: Recipe, role: RoleRecipe, model: Architecture, settings: EngineSettings) -> tuple[BlockSizes, CacheSizes | None]:
    if unknown_cache_dtype(settings.dtypes, model):
        return BlockSizes(natural=0, chosen=0, kernel=0), None
    natural = chosen = _own_block(model, role, settings, asked=None)
    if settings.block_size is not None:
        chosen = _own_block(model, role, settings, asked=settings.block_size)
    large, tp, backend = is_blackwell(recipe.hardware), role.topology.tp, settings.backend
    kernel = kernel_block_size(model, tp=tp, block=chosen, backend=backend, large_pages=large)
    misfit = block_misfit(model, tp=tp, block=chosen, backend=backend, large_pages=large)
    cache = CacheSettings(
        tp=tp,
        pp=role.topology.pp,
        block=chosen,
        max_model_len=settings.max_model_len,
        workload_tokens=settings.workload_tokens,
        batched_tokens=settings.graphs.max_num_batched_tokens,
        windows=settings.windows,
        sure=settings.mode_sure and (settings.windows_sure or not model.attention.sliding_layers),
        draft=settings.draft,
        extra_layers=settings.mtp_layers,
        cache_mode=settings.cache_mode,
        dtypes=settings.dtypes,
    )
    return BlockSizes(natural=natural, chosen=chosen, kernel=kernel, misfit=misfit), cache_sizes(model, cache)


def _own_block(model: Architecture, role: RoleRecipe, settings: EngineSettings, *, asked: int | None) -> int:
    mode, chunk, dtypes = settings.cache_mode, settings.chunk, settings.dtypes
    return natural_block_size(model, tp=role.topology.tp, mtp=settings.draft, dtypes=dtypes, asked=asked, cache_mode=mode, chunk=chunk)


def _weights(model: Architecture, topology: Topology, settings: EngineSettings, *, other: bool = False) -> tuple[WeightPart, ...]:
    """Weights as the build has them; `other` asks for those with the other answer to whether MoE is sequence-parallel."""
    sequence_parallel = settings.sequence_parallel is not other
    return weight_parts(model, topology, mtp_layers=settings.mtp_layers, sequence_parallel=sequence_parallel)


def _situation(model: Architecture, role: RoleRecipe, settings: EngineSettings, graphs: GraphSizes) -> Situation:
    wanted = settings.graphs
    return Situation(
        model=model,
        topology=role.topology,
        draft=settings.draft,
        max_num_seqs=wanted.max_num_seqs,
        max_num_batched_tokens=wanted.max_num_batched_tokens,
        capture=graphs.largest,
        graphs=graphs.count,
        mode=wanted.mode,
        all2all=settings.all2all,
        sequence_parallel=settings.sequence_parallel,
    )


def _budget(recipe: Recipe, settings: EngineSettings, situation: Situation, parts: tuple[WeightPart, ...]) -> Budget | None:
    if not parts or not recipe.hardware.gpu_memory_gib:
        return None
    calibration = load_calibration(recipe.model.key, recipe.hardware.key)
    own = other = sum(part.gpu_gib for part in parts)
    if not settings.sharding_sure:
        other = sum(part.gpu_gib for part in _weights(situation.model, situation.topology, settings, other=True))
    return make_budget(
        total_gib=recipe.hardware.gpu_memory_gib,
        utilization=settings.utilization,
        weights=weights_estimate(calibration, situation, own, other),
        calibration=calibration,
        situation=situation,
    )
