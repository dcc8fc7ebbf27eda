"""Whether a matrix gives back just what its recipes say; what it cannot hold is told at the place in the recipe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recipegen.engines import REAL
from recipegen.errors import InputError, Problem
from recipegen.matrix import parse_matrix
from recipegen.model import JobSettings, Recipe, Role, RoleRecipe
from recipegen.plan import place_front_ends
from recipegen.recipe import make_recipe
from recipegen.srtslurm.group import BLOCK, Group, without_block_size
from recipegen.srtslurm.recipe import SrtRecipe, SrtRole
from recipegen.srtslurm.to_matrix import matrix_text
from recipegen.srtslurm.v1_flags import METHOD, SIZES, TOKENS
from recipegen.srtslurm.yaml_text import MatrixText


@dataclass(frozen=True)
class Written:
    """A group's matrix as text that was read back, the jobs in it, and for each of them what is to be known of it beyond its recipe."""

    text: str
    recipes: tuple[SrtRecipe, ...]
    notes: tuple[tuple[Problem, ...], ...]


def write_matrix(group: Group) -> Written:
    """Return a group's matrix, without block sizes that recipegen derives itself; InputError where it would not say the same."""
    written = without_block_size(group, _derived_block_sizes(group))
    text = matrix_text(written)
    made = _read(text)
    problems = list(_misfits(written, made))
    if problems:
        raise InputError(problems)
    notes = tuple(tuple(_added_blocks(job, recipe)) for job, recipe in zip(group.recipes, made, strict=True))
    return Written(text.text, group.recipes, notes)


def _added_blocks(job: SrtRecipe, made: Recipe) -> Iterator[Problem]:
    """That a block size is set of which the recipe says nothing, where its first role stands."""
    for said, role in zip(job.roles, made.roles, strict=True):
        if said.flag(BLOCK) is None and (size := role.flag(BLOCK)) is not None:
            yield Problem(said.source, f"recipegen sets {BLOCK} {size} on both sides, which NIXL needs as their own differ; the recipe sets none")
            return


def _derived_block_sizes(group: Group) -> frozenset[int]:
    """Jobs, counted from 0, whose block size recipegen settles on by itself."""
    stated = {index: _block_size(recipe) for index, recipe in enumerate(group.recipes)}
    candidates = frozenset(index for index, block in stated.items() if block is not None)
    if not candidates:
        return candidates
    try:
        recipes = _read(matrix_text(without_block_size(group, candidates)))
    except InputError:
        return frozenset()  # told of the whole text later
    return frozenset(index for index in candidates if all(role.flag(BLOCK) == stated[index] for role in recipes[index].roles))


def _block_size(recipe: SrtRecipe) -> object:
    sizes = {role.flag(BLOCK) for role in recipe.roles}
    return sizes.pop() if len(sizes) == 1 else None


def _read(text: MatrixText) -> list[Recipe]:
    try:
        matrix = parse_matrix(text.text, "")
        return [make_recipe(matrix, point, REAL) for point in matrix.points]
    except InputError as error:
        problems = [
            Problem(text.origin(one.source.line, one.source.column), f"as a matrix: {one.message}", one.hint, one.rule) for one in error.problems
        ]
        raise InputError(problems or str(error), hint=error.hint) from error


def _misfits(group: Group, recipes: list[Recipe]) -> Iterator[Problem]:
    """Whatever differs between a job and what the matrix makes of it: nothing may be lost, and nothing added."""
    for job, recipe in zip(group.recipes, recipes, strict=True):
        if job.colocate != recipe.colocate:
            yield Problem(job.source, "prefill and decode would share no node, or one that they do not", rule="srt-misfit")
        yield from _front_end_misfits(job, recipe.job)
        for said, made in zip(job.roles, recipe.roles, strict=True):
            wanted, found = _flags(job, said), {flag.name: flag.value for flag in made.flags}
            if said.flag(BLOCK) is None:
                found.pop(BLOCK, None)
            yield from _differences(said, wanted, found)
            yield from _differences(said, {one.name: one.value for one in said.env}, {one.name: one.value for one in made.env})
            if (said.role, said.workers, said.topology) != _placed(made):
                yield Problem(job.source, f"{said.role.value} would be {made.workers} x {made.topology}", rule="srt-misfit")
            if said.kv_events != made.kv_events:
                yield Problem(job.source, f"{said.role.value} would publish {'' if made.kv_events else 'no '}KV events", rule="srt-misfit")


def _front_end_misfits(job: SrtRecipe, made: JobSettings) -> Iterator[Problem]:
    said = job.frontend
    count = [place_front_ends(wanted, job.nodes) for wanted in (said.replicas, made.front_ends)]
    args = [{one.name: one.value for one in said.args}, {one.name: one.value for one in made.frontend_args}]
    env = [{one.name: one.value for one in said.env}, {one.name: one.value for one in made.frontend_env}]
    for name, (wanted, found) in (("number", count), ("arguments", args), ("variables", env)):
        if wanted != found:
            yield Problem(job.source, f"the {name} of front ends would be {found!r}, not {wanted!r}", rule="srt-misfit")


def _placed(role: RoleRecipe) -> tuple[Role, int, object]:
    return role.role, role.workers, role.topology


def _differences(role: SrtRole, wanted: Mapping[str, object], found: Mapping[str, object]) -> Iterator[Problem]:
    places = {one.name: one.source for one in (*role.flags, *role.env) if one.source.line}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            message = f"'{name}' of {role.role.value} is {wanted.get(name)!r}, but would be {found.get(name)!r}"
            yield Problem(places.get(name, role.source), message, rule="srt-misfit")


def _flags(job: SrtRecipe, role: SrtRole) -> dict[str, object]:
    """All flags that the engine of a job's role has to get."""
    flags: dict[str, object] = {one.name: one.value for one in role.flags}
    flags |= {name: size for name, axis in SIZES.items() if (size := getattr(role.topology, axis)) > 1}
    flags |= {"enable-expert-parallel": True} if role.topology.ep else {}
    flags |= {} if job.max_model_len is None else {"max-model-len": job.max_model_len}
    return flags | ({METHOD: "mtp", TOKENS: job.mtp} if job.mtp else {})
