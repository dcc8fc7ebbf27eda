"""Which jobs become points of one matrix: those that share all but topology, concurrency, time limit and batch sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recipegen.errors import NOWHERE
from recipegen.model import RoleShape
from recipegen.srtslurm.recipe import Entry, SrtRecipe
from recipegen.topology import mixed_ep, point_name

BATCH = frozenset({"max-num-seqs", "max-cudagraph-capture-size", "max-num-batched-tokens"})
"""Flags that follow a point's concurrency."""
BLOCK = "block-size"
"""A flag that may follow a point's topology."""
MAX_NAME = 60


@dataclass(frozen=True)
class Group:
    """Jobs of one matrix, whose names as points are all different, and the name of the matrix; `cut` is a longer name that it was cut from."""

    name: str
    recipes: tuple[SrtRecipe, ...]
    cut: str = ""


def group(recipes: Iterable[SrtRecipe]) -> list[Group]:
    """Return the groups in the order of their first jobs; no two have one name."""
    alike: dict[object, list[SrtRecipe]] = {}
    for recipe in recipes:
        alike.setdefault(_shared(recipe), []).append(recipe)
    found: list[Group] = []
    taken: set[str] = set()
    for members in (part for whole in alike.values() for part in _with_own_names(whole)):
        whole = _matrix_name(members)
        name = _free(short := _cut(whole), taken)
        taken.add(name)
        found.append(Group(name, tuple(members), whole if short != whole else ""))
    return found


def shapes_of(recipe: SrtRecipe) -> tuple[RoleShape, ...]:
    """The shapes that a point of this job has."""
    return tuple(RoleShape(role=one.role, workers=one.workers, topology=one.topology, source=NOWHERE) for one in recipe.roles)


def point_names(recipes: Sequence[SrtRecipe]) -> list[str]:
    """The names that these jobs have as points of one matrix."""
    shapes = [shapes_of(recipe) for recipe in recipes]
    mixed = mixed_ep(shape.topology for point in shapes for shape in point)
    pairs = zip(shapes, recipes, strict=True)
    return [point_name(shape, recipe.mtp, recipe.concurrency, mixed, colocate=recipe.colocate) for shape, recipe in pairs]


def _shared(recipe: SrtRecipe) -> object:
    """What all points of a matrix have in common."""
    return (
        *(recipe.model, recipe.hardware, recipe.gpus_per_node, recipe.runtime, recipe.isl, recipe.osl, recipe.max_model_len),
        *(_values(entries) for entries in (recipe.benchmark, recipe.sbatch, recipe.srun)),
        *(_values(entries) for entries in (recipe.frontend.args, recipe.frontend.env)),
        *(recipe.frontend.replicas, recipe.frontend.nginx_image, recipe.frontend.session_header),
        *(recipe.setup_script, recipe.dedicated_node, recipe.ready_s, repr(sorted(recipe.carried.items()))),
        *(
            (one.role, one.kv_events, _values(one.env), _values(flag for flag in one.flags if flag.name not in BATCH | {BLOCK}))
            for one in recipe.roles
        ),
    )


def _values(entries: Iterable[Entry]) -> frozenset[tuple[str, str, object]]:
    """Entries by name and value; `true` is not 1."""
    return frozenset((entry.name, type(entry.value).__name__, entry.value) for entry in entries)


def _with_own_names(recipes: Sequence[SrtRecipe]) -> list[list[SrtRecipe]]:
    """Split where two jobs would be one point: the second goes into a further matrix."""
    parts: list[dict[str, SrtRecipe]] = []
    for name, recipe in zip(point_names(recipes), recipes, strict=True):
        free = next((part for part in parts if name not in part), None)
        if free is None:
            parts.append(free := {})
        free[name] = recipe
    return [list(part.values()) for part in parts]


def _matrix_name(recipes: Sequence[SrtRecipe]) -> str:
    """The jobs' names without their points' where they end so, or what the names begin with alike."""
    stems = {
        recipe.name.removesuffix(point).rstrip("-_.") if recipe.name.endswith(f"-{point}") else recipe.name
        for recipe, point in zip(recipes, point_names(recipes), strict=True)
    }
    if len(stems) == 1:
        return stems.pop()
    start = _beginning(min(stems), max(stems))
    if start not in stems:
        start = re.sub(r"[-_.][^-_.]*$", "", start) if re.search(r"[-_.]", start) else ""
    return start if len(start) >= 3 else recipes[0].name


def _beginning(one: str, other: str) -> str:
    """What two texts begin with alike; of the least and the greatest, all between do."""
    alike = next((index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:alike]


def _cut(name: str) -> str:
    return name[:MAX_NAME].rstrip("-_.") if len(name) > MAX_NAME else name


def _free(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    return found


def without_block_size(group: Group, points: frozenset[int]) -> Group:
    """Return the group without the block size of these jobs, counted from 0."""
    return replace(group, recipes=tuple(_without(recipe) if index in points else recipe for index, recipe in enumerate(group.recipes)))


def _without(recipe: SrtRecipe) -> SrtRecipe:
    roles = (replace(one, flags=tuple(flag for flag in one.flags if flag.name != BLOCK)) for one in recipe.roles)
    return replace(recipe, roles=tuple(roles))
