"""Batch sizes that follow from a point's concurrency: the study's formulas, recognised in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recipegen.model import Role
from recipegen.srtslurm.recipe import SrtRecipe, SrtRole

SPARE = 16
"""Requests beyond those expected on a rank, and tokens beyond those of a captured batch: the published study."""
FORMULAS = {
    "max-num-seqs": f"sized_for / dp + {SPARE}",
    "max-cudagraph-capture-size": "max_num_seqs * (1 + mtp)",
    "max-num-batched-tokens": f"max_cudagraph_capture_size + {SPARE}",
}
"""Flags of decode, in the order in which one rests on another (the published study)."""


@dataclass(frozen=True)
class Derived:
    """Jobs without the flags that the formulas give, and the concurrency that each is sized for."""

    recipes: tuple[SrtRecipe, ...]
    sized_for: tuple[int, ...]


def recognise(recipes: Sequence[SrtRecipe]) -> Derived | None:
    """Return the jobs with their sizes as inputs when the formulas give all three flags on every one of them; else None."""
    sizes = [_sized_for(recipe) for recipe in recipes]
    if not all(sizes):
        return None
    return Derived(tuple(map(_without, recipes)), tuple(sizes))


def _sized_for(recipe: SrtRecipe) -> int:
    """The concurrency for which the formulas give a job's flags: its largest where that does; 0 where none does."""
    role = next((one for one in recipe.roles if one.role is Role.DECODE), None)
    if role is None:
        return 0
    seqs, capture, tokens = (_whole(role, flag) for flag in FORMULAS)
    if seqs <= SPARE or capture != seqs * (1 + recipe.mtp) or tokens != capture + SPARE:
        return 0
    largest, dp = recipe.concurrency[-1], role.topology.dp
    return largest if -(-largest // dp) + SPARE == seqs else (seqs - SPARE) * dp


def _whole(role: SrtRole, flag: str) -> int:
    value = role.flag(flag)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _without(recipe: SrtRecipe) -> SrtRecipe:
    roles = (
        replace(one, flags=tuple(flag for flag in one.flags if flag.name not in FORMULAS)) if one.role is Role.DECODE else one for one in recipe.roles
    )
    return replace(recipe, roles=tuple(roles))
