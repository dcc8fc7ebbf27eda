"""Sizes of a resolved recipe's roles: the step from flags to what `sizing` takes."""

from __future__ import annotations

from recipegen.model import ModelSpec, Recipe, RoleRecipe
from recipegen.sizing.block_size import DTYPE_BYTES, CacheDtypes, natural_block_size


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


def own_block_size(model: ModelSpec, role: RoleRecipe, *, mtp: int) -> int:
    """Tokens of a block that vLLM settles on for this role when nothing is asked."""
    return natural_block_size(model, tp=role.topology.tp, mtp=mtp, dtypes=cache_dtypes(role))


def known_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose, or the model's own where a size is not known."""
    return CacheDtypes() if unknown_dtype(role) else cache_dtypes(role)


def block_size(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of a block that vLLM settles on for this role, `block-size` of the recipe included."""
    asked = role.flag("block-size")
    asked = asked if isinstance(asked, int) and not isinstance(asked, bool) else None
    return natural_block_size(recipe.model, tp=role.topology.tp, mtp=recipe.mtp, dtypes=known_dtypes(role), asked=asked)
