"""Sizes of a resolved recipe's roles: the step from flags to what `sizing` takes."""

from __future__ import annotations

from dataclasses import replace

from recipegen.model import Architecture, Recipe, Role, RoleRecipe
from recipegen.role_flags import draft_tokens, whole_number
from recipegen.sizing.block_size import DEFAULT_BLOCK, kernel_block_size, natural_block_size
from recipegen.sizing.budget import make_budget
from recipegen.sizing.cache import CacheSettings, cache_room, cache_sizes, study_request_mib
from recipegen.sizing.calibration import load_calibration
from recipegen.sizing.engine_build import is_blackwell
from recipegen.sizing.engine_settings import EngineSettings, cache_dtypes, engine_settings, mamba_cache_mode, mamba_chunk
from recipegen.sizing.estimates import Situation
from recipegen.sizing.graphs import graph_sizes
from recipegen.sizing.sizes import BlockSizes, Budget, CacheSizes, RoleSizes, Room
from recipegen.sizing.state import CacheDtypes, unknown_cache_dtype
from recipegen.sizing.weights import weight_parts

__all__ = ["block_size", "cache_dtypes", "known_dtypes", "own_block_size", "room_for", "size_role", "unknown_dtype"]


def unknown_dtype(role: RoleRecipe, model: Architecture | None = None) -> str:
    """The first cache dtype whose size is not known, or an empty string; some are known of one model's shape only."""
    return unknown_cache_dtype(cache_dtypes(role), model)


def own_block_size(model: Architecture, role: RoleRecipe, *, mtp: int) -> int:
    """Tokens of a block that vLLM settles on for this role when nothing is asked. KeyError for a cache type of unknown size."""
    return _settled(model, role, cache_dtypes(role), mtp=mtp, asked=None)


def known_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose, or the model's own where a size is not known."""
    return CacheDtypes() if unknown_dtype(role) else cache_dtypes(role)


def block_size(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of a block that vLLM settles on for this role, `block-size` of the recipe included."""
    asked, model = whole_number(role, "block-size"), recipe.model.architecture
    if model is None:
        return asked or DEFAULT_BLOCK
    return _settled(model, role, known_dtypes(role), mtp=draft_tokens(recipe, role), asked=asked)


def _settled(model: Architecture, role: RoleRecipe, dtypes: CacheDtypes, *, mtp: int, asked: int | None) -> int:
    mode, chunk = mamba_cache_mode(role, model), mamba_chunk(role)
    return natural_block_size(model, tp=role.topology.tp, mtp=mtp, dtypes=dtypes, asked=asked, cache_mode=mode, chunk=chunk)


def size_role(recipe: Recipe, role: RoleRecipe) -> RoleSizes | None:
    """Return everything that sizing knows of a role; None for a model without an architecture.

    Block sizes of 0 and no cache stand for a cache type whose size is not known.
    """
    model = recipe.model.architecture
    if model is None:
        return None
    settings = engine_settings(recipe, role, model)
    blocks, cache = _layout(recipe, role, model, settings)
    graphs = graph_sizes(settings.graphs)
    parts = weight_parts(model, role.topology, mtp_layers=settings.mtp_layers, sequence_parallel=settings.sequence_parallel)
    sizes = RoleSizes(
        role=role,
        ranks=role.workers * role.topology.dp,
        asked=_asked(recipe, role, settings),
        blocks=blocks,
        cache=cache,
        graphs=graphs,
        weight_parts=parts,
        budget=None,
        room=None,
        room_low=None,
    )
    budget = _budget(recipe, sizes, model, settings)
    if budget is None:
        return sizes
    best, low = (_room(model, settings, cache, kv_gib) for kv_gib in (budget.kv.best, budget.kv.low))
    return replace(sizes, budget=budget, room=best, room_low=low)


def room_for(recipe: Recipe, role: RoleRecipe, kv_gib: float) -> Room | None:
    """Return what `kv_gib` on each GPU hold of this role's requests; None where the layout is not known."""
    model = recipe.model.architecture
    if model is None:
        return None
    settings = engine_settings(recipe, role, model)
    return _room(model, settings, _layout(recipe, role, model, settings)[1], kv_gib)


def _room(model: Architecture, settings: EngineSettings, cache: CacheSizes | None, kv_gib: float) -> Room | None:
    if cache is None:
        return None
    return cache_room(cache, kv_gib=kv_gib, study_mib=study_request_mib(model, max_model_len=settings.max_model_len, dtypes=settings.dtypes))


def _asked(recipe: Recipe, role: RoleRecipe, settings: EngineSettings) -> int:
    """Requests at once on one rank: at the highest concurrency all of them decode, but only max-num-seqs prefill."""
    asked = -(-max(recipe.concurrency, default=0) // (role.workers * role.topology.dp))
    return min(asked, settings.graphs.max_num_seqs) if role.role is Role.PREFILL else asked


def _layout(recipe: Recipe, role: RoleRecipe, model: Architecture, settings: EngineSettings) -> tuple[BlockSizes, CacheSizes | None]:
    if unknown_cache_dtype(settings.dtypes, model):
        return BlockSizes(natural=0, chosen=0, kernel=0), None
    topology, draft, dtypes, mode, chunk = role.topology, settings.draft, settings.dtypes, settings.cache_mode, settings.chunk
    natural = natural_block_size(model, tp=topology.tp, mtp=draft, dtypes=dtypes, cache_mode=mode, chunk=chunk)
    chosen = natural
    if settings.block_size:
        chosen = natural_block_size(model, tp=topology.tp, mtp=draft, dtypes=dtypes, asked=settings.block_size, cache_mode=mode, chunk=chunk)
    kernel = kernel_block_size(model, tp=topology.tp, block=chosen, large_pages=is_blackwell(recipe.hardware.key))
    cache = CacheSettings(
        tp=topology.tp,
        pp=topology.pp,
        block=chosen,
        max_model_len=settings.max_model_len,
        draft=draft,
        extra_layers=settings.mtp_layers,
        cache_mode=mode,
        dtypes=dtypes,
    )
    return BlockSizes(natural=natural, chosen=chosen, kernel=kernel), cache_sizes(model, cache)


def _budget(recipe: Recipe, sizes: RoleSizes, model: Architecture, settings: EngineSettings) -> Budget | None:
    if not sizes.weight_parts or not recipe.hardware.gpu_memory_gib:
        return None
    wanted, graphs = settings.graphs, sizes.graphs
    situation = Situation(
        model=model,
        topology=sizes.role.topology,
        draft=settings.draft,
        max_num_seqs=wanted.max_num_seqs,
        max_num_batched_tokens=wanted.max_num_batched_tokens,
        capture=graphs.sizes[-1] if graphs.sizes else 0,
        graphs=graphs.count,
        mode=wanted.mode,
        all2all=settings.all2all,
        sequence_parallel=settings.sequence_parallel,
    )
    return make_budget(
        total_gib=recipe.hardware.gpu_memory_gib,
        utilization=settings.utilization,
        weights_gib=sizes.weights_gib,
        calibration=load_calibration(recipe.model.key, recipe.hardware.key),
        situation=situation,
    )
