"""From a group of jobs to the text of its matrix, in the style of the published leaf."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from recipegen.catalogue import load_hardware, load_model, model_keys
from recipegen.model import ModelSpec, Role, Topology
from recipegen.plan import place_front_ends
from recipegen.srtslurm.comments import with_remarks
from recipegen.srtslurm.derive import FORMULAS, Derived, recognise
from recipegen.srtslurm.group import Group, point_names
from recipegen.srtslurm.layers import Layers, layer
from recipegen.srtslurm.recipe import Entry, SrtFrontend, SrtRecipe, SrtRole
from recipegen.srtslurm.yaml_text import Flow, Item, Key, MatrixText, block, flow

MAX_HOURS = 999
"""Hours that a duration has without days."""


def matrix_text(group: Group) -> MatrixText:
    """Return the matrix of a group: what its jobs have in common once, and a point for each."""
    derived = recognise(group.recipes)
    recipes = derived.recipes if derived else group.recipes
    first = group.recipes[0]
    cells = [((index, role.role), role) for index, recipe in enumerate(recipes) for role in recipe.roles]
    args = layer({cell: role.flags for cell, role in cells})
    env = layer({cell: role.env for cell, role in cells})
    experts = _experts(group.recipes)
    keys = (
        *_head_keys(group.name, first),
        *_frontend_keys(group.recipes),
        *_experts_key(experts),
        *_events_key(first),
        *_settings_keys(args, env, derived=derived is not None),
        Key(name="benchmark", value=tuple(_key(entry) for entry in first.benchmark)),
        Key(name="points", value=tuple(_points(group, args, env, derived, experts))),
        *([Key(name="carried", value=tuple(Key(name=n, value=Flow(v)) for n, v in first.carried.items()))] if first.carried else []),
    )
    return with_remarks(block(keys, head=_head(group)), group.recipes)


def _head(group: Group) -> Iterator[str]:
    """Comments of the first file, and where all came from."""
    yield from group.recipes[0].head
    files = list(dict.fromkeys(recipe.file for recipe in group.recipes))
    if group.recipes[0].head:
        yield ""
    if len(files) == 1:
        yield f"Imported from srt-slurm: {PurePosixPath(files[0]).name}"
    else:
        yield f"Imported from srt-slurm: {len(files)} files; a file's name stands behind its point where it is not the point's."


def _head_keys(name: str, recipe: SrtRecipe) -> Iterator[Key]:
    runtime, length = recipe.runtime, {} if recipe.max_model_len is None else {"max_model_len": recipe.max_model_len}
    yield Key(name="schema", value=Flow("recipegen/v1"))
    yield Key(name="name", value=Flow(name), source=recipe.place("name"))
    yield Key(name="model", value=Flow(_model(recipe)), source=recipe.place("model"))
    yield Key(name="hardware", value=Flow(_hardware(recipe)), source=recipe.place("hardware"))
    yield Key(name="workload", value=Flow({"isl": recipe.isl, "osl": recipe.osl, **length}), source=recipe.place("isl"))
    dynamo = {
        "version": runtime.dynamo,
        "install": runtime.install,
        **_given(source=runtime.install_source, request_plane=runtime.request_plane),
    }
    found = {"image": runtime.image, **_given(vllm=runtime.vllm), "dynamo": {name: one for name, one in dynamo.items() if one}}
    yield Key(name="runtime", value=tuple(Key(name=key, value=Flow(value), source=recipe.place(key)) for key, value in found.items()))
    yield from _job_keys(recipe)


def _job_keys(recipe: SrtRecipe) -> Iterator[Key]:
    if recipe.setup_script:
        yield Key(name="setup_script", value=Flow(recipe.setup_script), source=recipe.place("setup_script"))
    if slurm := tuple(_slurm_keys(recipe)):
        yield Key(name="slurm", value=slurm)
    if recipe.dedicated_node:
        yield Key(name="infra", value=Flow({"dedicated_node": True}), source=recipe.place("dedicated_node"))
    if recipe.ready_s is not None:
        yield Key(name="deadlines", value=Flow({"ready": recipe.ready_s}), source=recipe.place("ready_s"))


def _frontend_keys(recipes: Sequence[SrtRecipe]) -> Iterator[Key]:
    """The front ends; that there are several not where the recipes leave it to srtctl, and none has the nodes for them."""
    frontend = recipes[0].frontend
    several = any(one.frontend.stated or len(place_front_ends(one.frontend.replicas, one.nodes)) > 1 for one in recipes)
    found = [Key(name="args", value=tuple(map(_key, frontend.args)))] if frontend.args else []
    found += [Key(name="env", value=tuple(map(_variable, frontend.env)))] if frontend.env else []
    found += _several_keys(frontend) if several else []
    if found:
        yield Key(name="frontend", value=tuple(found))


def _several_keys(frontend: SrtFrontend) -> Iterator[Key]:
    """How many there are, and what is said of nginx."""
    if frontend.replicas > 1:
        said = {"replicas": frontend.replicas, "nginx_image": frontend.nginx_image, "session_header": frontend.session_header}
        yield from (Key(name=name, value=Flow(value), source=frontend.places[name]) for name, value in said.items() if value)


def _slurm_keys(recipe: SrtRecipe) -> Iterator[Key]:
    if recipe.sbatch:
        yield Key(name="sbatch", value=tuple(Key(name=entry.name, value=Flow(_option(entry)), source=entry.source) for entry in recipe.sbatch))
    if recipe.srun:
        options = [f"--{entry.name}" if entry.value is True else f"--{entry.name}={entry.value}" for entry in recipe.srun]
        yield Key(name="srun", value=Flow(options), source=recipe.srun[0].source)


def _option(entry: Entry) -> object:
    return entry.value if isinstance(entry.value, bool | int) else str(entry.value)


def _model(recipe: SrtRecipe) -> str | dict[str, object]:
    """The key of a known model that is served just so, or what the recipe says of it."""
    model, known = recipe.model, _known(recipe.model.repo)
    if known is not None and (known.revision, known.served_name) == (model.revision, model.served_name):
        return known.key
    architecture = known.key if known is not None else ""
    return {"repo": model.repo, **_given(revision=model.revision, served_name=model.served_name, architecture=architecture)}


def _known(repo: str) -> ModelSpec | None:
    return next((spec for spec in map(load_model, model_keys()) if spec.repo == repo), None)


def _hardware(recipe: SrtRecipe) -> str | dict[str, object]:
    same = load_hardware(recipe.hardware).gpus_per_node == recipe.gpus_per_node
    return recipe.hardware if same else {"type": recipe.hardware, "gpus_per_node": recipe.gpus_per_node}


def _experts(recipes: Iterable[SrtRecipe]) -> dict[Role, bool]:
    """Roles whose workers all have expert parallelism, or all not; a role that differs by point is left out."""
    found: dict[Role, set[bool]] = {}
    for recipe in recipes:
        for role in recipe.roles:
            found.setdefault(role.role, set()).add(role.topology.ep)
    return {role: switches.pop() for role, switches in found.items() if len(switches) == 1}


def _experts_key(experts: dict[Role, bool]) -> Iterator[Key]:
    on = {role.value: True for role, switch in experts.items() if switch}
    if on:
        yield Key(name="expert_parallel", value=Flow(True if len(on) == len(experts) and experts.keys() != {Role.PREFILL} else on))


def _events_key(recipe: SrtRecipe) -> Iterator[Key]:
    """Workers of one role can publish: prefill, or those that do both. It is the same in all jobs."""
    if on := any(role.kv_events for role in recipe.roles):
        yield Key(name="kv_events", value=Flow(on), source=recipe.place("kv_events"))


def _settings_keys(args: Layers, env: Layers, *, derived: bool) -> Iterator[Key]:
    layers: list[tuple[str, Sequence[Entry], Sequence[Entry]]] = [("common", args.common, env.common)]
    layers += [(role.value, args.roles.get(role, ()), env.roles.get(role, ())) for role in Role]
    for name, flags, variables in layers:
        parts = [Key(name="args", value=tuple(map(_key, flags)))] if flags else []
        parts += [Key(name="env", value=tuple(map(_variable, variables)))] if variables else []
        if derived and name == Role.DECODE.value:
            parts.append(Key(name="derive", value=tuple(Key(name=flag, value=Flow(formula)) for flag, formula in FORMULAS.items())))
        if parts:
            yield Key(name=name, value=tuple(parts))


def _points(group: Group, args: Layers, env: Layers, derived: Derived | None, experts: dict[Role, bool]) -> Iterator[Item]:
    single = len({recipe.file for recipe in group.recipes}) == 1
    names = point_names(group.recipes)
    for index, (recipe, name) in enumerate(zip(group.recipes, names, strict=True)):
        value: dict[str, object] = {}
        for role in recipe.roles:
            own = _own(args.cells.get((index, role.role), ()), env.cells.get((index, role.role), ()))
            shape = _shape(role, said=experts.get(role.role, False))
            value[role.role.value] = {"shape": shape, **own} if own else shape
        if both := _own(args.points.get(index, ()), env.points.get(index, ())):
            value["common"] = both
        if recipe.colocate:
            value["colocate"] = True
        if recipe.mtp:
            value["mtp"] = recipe.mtp
        value["concurrency"] = list(recipe.concurrency)
        if derived and derived.sized_for[index] != recipe.concurrency[-1]:
            value["sized_for"] = derived.sized_for[index]
        value["time_limit"] = _duration(recipe.time_limit_s)
        stem = PurePosixPath(recipe.file).name
        places = {"concurrency": recipe.place("concurrency"), "time_limit": recipe.place("time_limit_s")}
        yield Item(value=value, behind="" if single or PurePosixPath(stem).stem == name else stem, source=recipe.source, places=places)


def _own(flags: Sequence[Entry], variables: Sequence[Entry]) -> dict[str, object]:
    return _given(args={entry.name: _value(entry) for entry in flags}, env={entry.name: entry.value for entry in variables})


def _shape(role: SrtRole, *, said: bool) -> str:
    topology = role.topology
    if said and topology.ep:
        topology = Topology(tp=topology.tp, pp=topology.pp, dp=topology.dp)
    return f"{role.workers}x{topology}"


def _key(entry: Entry) -> Key:
    return Key(name=entry.name, value=Flow(_value(entry)), comment=entry.comment, source=entry.source)


def _variable(entry: Entry) -> Key:
    """A variable is a text, also where it looks like JSON."""
    return Key(name=entry.name, value=Flow(entry.value), comment=entry.comment, source=entry.source)


def _value(entry: Entry) -> object:
    """A JSON argument as a mapping where the matrix makes the same text of it again."""
    if isinstance(entry.value, str) and entry.value.startswith("{"):
        try:
            found = json.loads(entry.value)
        except ValueError:
            return entry.value
        if isinstance(found, dict) and json.dumps(found, ensure_ascii=False) == entry.value and flow(found):
            return found
    return list(entry.value) if isinstance(entry.value, tuple) else entry.value


def _given(**values: object) -> dict[str, object]:
    return {name: value for name, value in values.items() if value}


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    days = "" if hours <= MAX_HOURS else f"{hours // 24}-"
    return f"{days}{f'{hours % 24:02d}' if days else hours}:{rest // 60:02d}:{rest % 60:02d}"
