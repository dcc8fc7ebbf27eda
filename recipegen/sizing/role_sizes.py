"""Sizes of a resolved recipe's roles: the step from flags to what `sizing` takes."""

from __future__ import annotations

from recipegen.model import Architecture, Recipe, RoleRecipe
from recipegen.role_flags import draft_tokens, whole_number
from recipegen.sizing.block_size import DEFAULT_BLOCK, DTYPE_BYTES, CacheDtypes, natural_block_size


def cache_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose."""

    def chosen(flag: str) -> str:
        value = role.flag(flag)
        return "auto" if value is None else str(value)

    return CacheDtypes(kv=chosen("kv-cache-dtype"), conv=chosen("mamba-cache-dtype"), ssm=chosen("mamba-ssm-cache-dtype"))


def unknown_dtype(role: RoleRecipe) -> str:
    """The first cache dtype whose size is not known, or an empty string."""
    dtypes = cache_dtypes(role)
    return next((d for d in (dtypes.kv, dtypes.conv, dtypes.ssm) if d not in DTYPE_BYTES), "")


def own_block_size(model: Architecture, role: RoleRecipe, *, mtp: int) -> int:
    """Tokens of a block that vLLM settles on for this role when nothing is asked."""
    return natural_block_size(model, tp=role.topology.tp, mtp=mtp, dtypes=cache_dtypes(role))


def known_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose, or the model's own where a size is not known."""
    return CacheDtypes() if unknown_dtype(role) else cache_dtypes(role)


def block_size(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of a block that vLLM settles on for this role, `block-size` of the recipe included."""
    asked = whole_number(role, "block-size")
    if recipe.model.architecture is None:
        return asked or DEFAULT_BLOCK
    return natural_block_size(recipe.model.architecture, tp=role.topology.tp, mtp=draft_tokens(recipe, role), dtypes=known_dtypes(role), asked=asked)
