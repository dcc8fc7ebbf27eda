"""Jobs of a file whose workers are given more GPUs than they use: told once for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from recipegen.errors import Problem
from recipegen.srtslurm.recipe import SrtRecipe, SrtRole

SHOWN = 4
"""Kinds of workers that the note names; the rest is counted."""


def idle_note(recipes: Iterable[SrtRecipe]) -> Problem | None:
    """Return the note on these jobs of one file; None where every worker uses all GPUs that it is given.

    vLLM uses TP x PP x DP GPUs. srtctl ends a job whose workers have more with an error, once it has its nodes.
    """
    found = [(recipe, role) for recipe in recipes for role in recipe.roles if role.topology.gpus < role.gpus]
    if not found:
        return None
    jobs = len({id(recipe) for recipe, _ in found})
    kinds = list(dict.fromkeys(_kind(role) for _, role in found))
    more = f" and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
    which = "1 job leaves" if jobs == 1 else f"{jobs} jobs leave"
    message = f"{which} GPUs idle ({', '.join(kinds[:SHOWN])}{more}): a worker takes the GPUs of its sizes alone; srtctl refuses such a job"
    return Problem(found[0][1].source, message)


def _kind(role: SrtRole) -> str:
    topology = role.topology
    sizes = "".join(f"{name}{size}" for name, size in (("TP", topology.tp), ("PP", topology.pp), ("DP", topology.dp)) if size > 1) or "TP1"
    return f"{sizes} of {role.gpus}"
