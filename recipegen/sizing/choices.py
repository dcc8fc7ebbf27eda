"""Why a recipe chose as it did: sentences that sizing computes, each figure labelled as vLLM's or the study's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recipegen.model import Flag, Recipe, Role, RoleRecipe
from recipegen.role_flags import draft_tokens
from recipegen.sizing.role_sizes import room_for, size_role
from recipegen.sizing.sizes import RoleSizes, Room

DEFAULT_DEPTH = 3
"""Drafted tokens that a recipe without MTP is compared with: what the published study runs."""


def explain_choices(recipe: Recipe) -> tuple[str, ...]:
    """Return sentences on speculation and block size; none for what cannot be sized."""
    return (*explain_mtp(recipe), *explain_block_size(recipe))


def explain_mtp(recipe: Recipe, *, depth: int = DEFAULT_DEPTH) -> tuple[str, ...]:
    """Return, for each role that decodes, whether the asked concurrency fits with speculation and without.

    The other case takes this role's KV cache, more or less by the weights of the MTP layer; all other parts stay as they are.
    """
    architecture = recipe.model.architecture
    if architecture is None or not architecture.mtp_layers:
        return ()
    return tuple(sentence for role in recipe.roles if role.role is not Role.PREFILL for sentence in _mtp_sentences(recipe, role, depth))


def explain_block_size(recipe: Recipe) -> tuple[str, ...]:
    """Return why `block-size` is set, or need not be, and what it costs each role."""
    alone = {role.role: sizes for role in recipe.roles if (sizes := size_role(*_without_block_size(recipe, role))) and sizes.cache}
    if len(alone) < len(recipe.roles) or len(alone) < 2 or recipe.model.architecture is None or recipe.model.architecture.linear is None:
        return ()
    settled = ", ".join(f"{role.value} on {sizes.blocks.natural}" for role, sizes in alone.items())
    if not any(role.flag("block-size") for role in recipe.roles):
        same = len({sizes.blocks.natural for sizes in alone.values()}) == 1
        return (f"block-size is not set: alone {settled} tokens" + (", the same on all sides." if same else "; NIXL needs one for both."),)
    kernels = ", ".join(f"{role.value} {sizes.blocks.kernel}" for role, sizes in alone.items())
    why = f"block-size is set: alone, {settled} tokens would be taken (kernel blocks: {kernels}), and NIXL refuses kernel blocks that do not divide."
    return (why, *(cost for role in recipe.roles for cost in _block_cost(recipe, role, alone[role.role])))


def _mtp_sentences(recipe: Recipe, role: RoleRecipe, depth: int) -> Iterator[str]:
    own = draft_tokens(recipe, role)
    other = 0 if own else depth
    sizes = size_role(recipe, role)
    other_recipe, other_role = _with_mtp(recipe, role, other)
    other_sizes = size_role(other_recipe, other_role)
    if not sizes or not other_sizes or not sizes.room or not sizes.cache or not other_sizes.cache:
        return
    kv = max(0.0, sizes.room.kv_gib + sizes.weights_gib - other_sizes.weights_gib)
    other_room = room_for(other_recipe, other_role, kv)
    if other_room is None:
        return
    asked, engines = sizes.asked, f"{sizes.ranks} engine{'s' if sizes.ranks > 1 else ''}"
    bound = _is_bound(sizes)
    yield (
        f"{role.role.value}: concurrency {max(recipe.concurrency)} asks {asked} requests of each of {engines}. "
        f"As set, {_speculation(own)}, {_verdict(sizes, sizes.room, bound=bound)}; "
        f"{_speculation(other)} {_verdict(other_sizes, other_room, bound=bound)}."
    )
    yield _price(sizes, other_sizes, own, other)
    yield (
        f"The study's figure ignores MTP and TP: {sizes.room.study_requests:.1f} requests of an engine (as set), "
        f"{other_room.study_requests:.1f} {_speculation(other)}, against {asked} asked."
    )


def _price(sizes: RoleSizes, other: RoleSizes, own: int, other_draft: int) -> str:
    """What the deeper of two cases takes more of the cache."""
    deep, flat, depth = (sizes, other, own) if own > other_draft else (other, sizes, other_draft)
    assert deep.cache is not None, "the caller looked"  # noqa: S101
    assert flat.cache is not None, "the caller looked"  # noqa: S101
    states = f"{depth} more states in each of {deep.cache.linear_groups} linear groups, " if deep.cache.linear_groups else ""
    return (
        f"MTP {depth} costs {states}one more attention layer and longer convolution states: the longest request takes "
        f"{deep.cache.blocks_per_request} blocks "
        f"instead of {flat.cache.blocks_per_request}, {deep.cache.request_mib:g} MiB on a GPU instead of {flat.cache.request_mib:g}."
    )


def _block_cost(recipe: Recipe, role: RoleRecipe, alone: RoleSizes) -> Iterator[str]:
    sizes = size_role(recipe, role)
    if not sizes or not sizes.room or not alone.room:
        return
    name = f"{role.role.value} {role.topology}"
    if sizes.blocks.chosen == alone.blocks.natural:
        yield f"{name}: {sizes.blocks.chosen} tokens are its own block, nothing is lost (vLLM's maximum concurrency {sizes.room.concurrency:.2f})."
        return
    loss = 1 - sizes.room.concurrency / alone.room.concurrency if alone.room.concurrency else 0.0
    yield (
        f"{name}: {sizes.blocks.chosen} instead of {alone.blocks.natural} tokens cost {loss:.0%}: vLLM's maximum concurrency "
        f"{alone.room.concurrency:.2f} -> {sizes.room.concurrency:.2f}, with {sizes.asked} asked; "
        f"the study's figure, {sizes.room.study_requests:.1f}, does not see it."
    )


def _speculation(draft: int) -> str:
    return f"with MTP {draft}" if draft else "without MTP"


def _verdict(sizes: RoleSizes, room: Room, *, bound: bool) -> str:
    """Whether what is asked fits, by requests of the workload's length; with vLLM's own figure, by the longest."""
    most = "at most " if bound else ""
    fits = "they do not fit" if room.workload_requests < sizes.asked else "they may fit" if bound else "they fit"
    tokens = sizes.cache.workload_tokens if sizes.cache else 0
    return f"{fits}: vLLM's maximum concurrency is {most}{room.concurrency:.2f}, and {most}{room.workload_requests} requests of {tokens} tokens fit"


def _is_bound(sizes: RoleSizes) -> bool:
    return sizes.budget is not None and sizes.budget.kv.bound


def _with_mtp(recipe: Recipe, role: RoleRecipe, depth: int) -> tuple[Recipe, RoleRecipe]:
    kept = tuple(f for f in role.flags if f.name.partition(".")[0] != "speculative-config")
    if depth:
        kept = (*kept, Flag(name="speculative-config.method", value="mtp"), Flag(name="speculative-config.num_speculative_tokens", value=depth))
    return replace(recipe, mtp=depth), replace(role, flags=kept)


def _without_block_size(recipe: Recipe, role: RoleRecipe) -> tuple[Recipe, RoleRecipe]:
    return recipe, replace(role, flags=tuple(f for f in role.flags if f.name != "block-size"))
