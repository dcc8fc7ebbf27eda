"""From a LaunchPlan to the v1 recipe that means the same for srtctl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from recipegen.errors import InputError, Problem
from recipegen.launch import LaunchPlan, RolePlan
from recipegen.layout import span
from recipegen.model import NGINX_IMAGE, Dynamo, EnvVar, Flag, JobSettings, ModelSpec, Recipe, Role
from recipegen.srtslurm import keys
from recipegen.srtslurm.export_benchmark import benchmark_fields
from recipegen.srtslurm.export_carried import carried_in_v1
from recipegen.srtslurm.export_limits import is_switched, limits, other_gpus
from recipegen.srtslurm.export_text import Path, SrtDocument
from recipegen.srtslurm.v1 import INTERVAL_S
from recipegen.srtslurm.v1_events import MODES
from recipegen.srtslurm.v1_flags import SERVED
from recipegen.srtslurm.v1_frontend import AFFINITY, HEADER, IMAGE, MORE, SEVERAL, other_places
from recipegen.srtslurm.v1_nodes import ACROSS, ALLOW
from recipegen.srtslurm.v1_runtime import DYNAMO_GIT, HUB, WHEEL, wheel_variables

UNKNOWN_PRECISION = "unknown"
"""srtctl wants a text, and only shows it."""
_PRECISION = "model.precision"
_IDENTITY = "identity."
_MOST_HOURS = 999
_GPU_TYPES = {ours: theirs for theirs, ours in keys.HARDWARE.items()}


def v1_document(plan: LaunchPlan) -> SrtDocument:
    """Return a point as a recipe of the first layout; InputError with everything that srtctl cannot be told."""
    if problems := [*limits(plan), *_other_git(plan.recipe)]:
        raise InputError(problems)
    document, job = _document(plan), plan.recipe.job
    told = other_places(job.front_ends, plan.directives.nodes - job.dedicated_node, alone=False, infra_alone=job.dedicated_node)
    head = (*document.head, *filter(None, [told.replace("; here", "; in the plan")]))
    return carried_in_v1(replace(document, head=head), job.carried)


def common_document(plan: LaunchPlan) -> SrtDocument:
    """Return what the second layout is made from: as `v1_document`, but for what an import kept, and Dynamo may come from any repository."""
    if problems := limits(plan):
        raise InputError(problems)
    return _document(plan)


def _document(plan: LaunchPlan) -> SrtDocument:
    recipe, job = plan.recipe, plan.recipe.job
    fields: dict[str, Any] = {
        "name": recipe.name,
        **_given(identity=_identity(recipe)),
        "slurm": {"time_limit": _duration(recipe.time_limit_s)},
        "model": {"path": model_path(recipe.model), "container": recipe.runtime.image, "precision": _precision(recipe)},
        "dynamo": _dynamo(recipe),
        **_given(setup_script=job.setup_script, infra={"etcd_nats_dedicated_node": True} if job.dedicated_node else {}),
        "resources": _resources(plan),
        "frontend": _frontend(recipe),
        "backend": _backend(plan),
        **_given(health_check=_health(job.ready_s), sbatch_directives=_sbatch(job), srun_options=_srun(job)),
        "benchmark": benchmark_fields(recipe),
    }
    return SrtDocument(fields=fields, notes=dict(_notes(plan)), head=tuple(filter(None, [other_gpus(plan)])))


def _other_git(recipe: Recipe) -> Iterator[Problem]:
    dynamo = recipe.runtime.dynamo
    if dynamo.install == "git" and not is_dynamo_git(git_source(dynamo)[0]):
        message = f"the first layout only knows Dynamo's own repository, not {git_source(dynamo)[0]}"
        yield Problem(recipe.runtime.image_source, message, "export by --format srt-slurm-v2", "export-dynamo")


def model_path(model: ModelSpec) -> str:
    """Return a model's path as srtctl has it: `hf:ORG/NAME`, an alias, or a path of the cluster."""
    return HUB + model.repo if model.is_hub_id else model.repo


def _identity(recipe: Recipe) -> dict[str, Any]:
    """The pins that are checked on the nodes; none where the revision, a build and what an import kept say no more than the other keys.

    What only says another key again gives way to what an import kept in its place.
    """
    model, runtime = recipe.model, recipe.runtime
    kept = {path: value for path, value in recipe.job.carried.items() if path.startswith(_IDENTITY)}
    instead = {path.removeprefix(_IDENTITY) for path, value in kept.items() if isinstance(value, str)}
    from_git = runtime.dynamo.install == "git"
    if not model.revision and not runtime.vllm and not kept and not from_git:
        return {}
    again = model.is_hub_id and (model.revision or (kept and "model.repo" not in instead))
    container = {} if "container.image" in instead else {"image": runtime.image}
    dynamo = "" if "frameworks.dynamo" in instead and not from_git else runtime.dynamo.version
    pin = _given(repo=model.repo if again else "", revision=model.revision)
    return _given(model=pin, container=container, frameworks=_given(dynamo=dynamo, vllm=runtime.vllm))


def _precision(recipe: Recipe) -> str:
    """What an import kept, else the type of most weights: that of the experts where there are any."""
    model, kept = recipe.model, recipe.job.carried.get(_PRECISION)
    if isinstance(kept, str):
        return kept
    if model.architecture is None:
        return UNKNOWN_PRECISION
    moe = model.architecture.moe
    return (moe.expert_dtype if moe else model.architecture.dtype).upper()


def _dynamo(recipe: Recipe) -> dict[str, Any]:
    dynamo, wheel = recipe.runtime.dynamo, _wheel(recipe)
    plane = _given(request_plane=dynamo.request_plane if dynamo.request_plane != "tcp" else "")
    if dynamo.install == "git":
        commit = git_source(dynamo)[1]
        return {**({"hash": commit} if commit else {"top_of_tree": True}), "install": True, **plane}
    source = {"wheel": wheel} if wheel else _given(version=dynamo.version)
    return {**source, "install": dynamo.install == "pip", **plane}


def _wheel(recipe: Recipe) -> str:
    """The version of the wheel that an import kept, unless the matrix has come to name another Dynamo: srtctl stages wheels from other indexes."""
    dynamo = recipe.runtime.dynamo
    kept = recipe.job.carried.get(WHEEL)
    return dynamo.version if kept == dynamo.version and dynamo.install in {"pip", "present"} else ""


def _variables(recipe: Recipe, variables: Iterable[EnvVar]) -> dict[str, str]:
    """Variables without those that srtctl derives from a wheel itself."""
    derived = wheel_variables(wheel) if (wheel := _wheel(recipe)) else {}
    return {var.name: str(var.value) for var in variables if derived.get(var.name) != str(var.value)}


def git_source(dynamo: Dynamo) -> tuple[str, str]:
    """Return the repository and the commit of a Dynamo from git; the second is empty where none is named."""
    source = dynamo.source.removeprefix("git+")
    start = source.find("@", source.rfind("/"))
    return (source, "") if start < 0 else (source[:start], source[start + 1 :])


def is_dynamo_git(repository: str) -> bool:
    """Whether this is Dynamo's own repository, the only one that the first layout knows."""
    return repository.removesuffix(".git") == DYNAMO_GIT.removesuffix(".git")


def _resources(plan: LaunchPlan) -> dict[str, Any]:
    hardware = plan.recipe.hardware
    found: dict[str, Any] = {"gpu_type": _GPU_TYPES.get(hardware.key, hardware.key), "gpus_per_node": hardware.gpus_per_node}
    nodes = role_nodes(plan)
    for role in plan.roles:
        name = role.layout.role.value
        found |= {
            f"{name}_nodes": nodes[role.layout.role],
            f"{name}_workers": role.layout.workers,
            f"gpus_per_{name}": role.recipe.topology.gpus,
        }
    return found


def role_nodes(plan: LaunchPlan) -> dict[Role, int]:
    """Return the nodes of each role; where decode begins on prefill's, all are prefill's and decode has none, which means that to srtctl."""
    if plan.recipe.colocate:
        return {Role.PREFILL: span([role.layout for role in plan.roles]), Role.DECODE: 0}
    return {role.layout.role: role.layout.nodes for role in plan.roles}


def _colocation(plan: LaunchPlan) -> dict[str, bool]:
    """The switches by which srtctl goes on to nodes without prefill workers; for one that both share it needs none."""
    return {ALLOW: True, ACROSS: True} if is_switched(plan) else {}


def _frontend(recipe: Recipe) -> dict[str, Any]:
    """The number as it is wanted: srtctl starts no more than there are nodes for, either."""
    job = recipe.job
    args, env = {flag.name: flag.value for flag in job.frontend_args}, _variables(recipe, job.frontend_env)
    several: dict[str, Any] = {MORE: job.front_ends - 1} if job.front_ends > 1 else {}
    several |= {IMAGE: job.nginx_image} if job.nginx_image not in ("", NGINX_IMAGE) else {}
    several |= {AFFINITY: True, HEADER: job.session_header} if job.session_header else {}
    return {"type": "dynamo", SEVERAL: bool(several), **several, **_given(args=args, env=env)}


def _backend(plan: LaunchPlan) -> dict[str, Any]:
    environment = {f"{MODES[role.layout.role]}_environment": _variables(plan.recipe, role.recipe.env) for role in plan.roles}
    configs = {MODES[role.layout.role]: _flags(plan.recipe, role) for role in plan.roles}
    events = {MODES[role.layout.role]: True for role in plan.roles if role.recipe.kv_events}
    return {"type": "vllm", "connector": None, **_colocation(plan), **_given(kv_events_config=events, **environment), "vllm_config": configs}


def _flags(recipe: Recipe, role: RolePlan) -> dict[str, Any]:
    """What the engine of a role is told; its name for clients only where it is not the last part of the model's path."""
    model = recipe.model
    served = "" if model.served_name == model.repo.rstrip("/").rpartition("/")[2] else model.served_name
    return {**_given(**{SERVED: served}), **{flag_key(flag): _value(flag) for flag in role.recipe.flags}}


def flag_key(flag: Flag) -> str:
    """Return a flag as srt-slurm has it: a false one by its negative, as srtctl drops what is false, a dotted one with `_`, as published."""
    head, dot, rest = flag.name.partition(".")
    name = head.replace("-", "_") + dot + rest if dot else head
    return f"no-{name}" if flag.value is False else name


def _value(flag: Flag) -> object:
    if isinstance(flag.value, bool):
        return True
    return list(flag.value) if isinstance(flag.value, tuple) else flag.value


def _notes(plan: LaunchPlan) -> Iterator[tuple[Path, str]]:
    for role in plan.roles:
        for flag in role.recipe.flags:
            if flag.derivation:
                yield ("backend", "vllm_config", MODES[role.layout.role], flag_key(flag)), " ".join(flag.derivation.split())


def _health(ready_s: int) -> dict[str, int]:
    """Attempts and seconds between them, whose product srtctl waits."""
    if not ready_s:
        return {}
    interval = next(step for step in range(INTERVAL_S, 0, -1) if ready_s % step == 0)
    return {"max_attempts": ready_s // interval, "interval_seconds": interval}


def _sbatch(job: JobSettings) -> dict[str, Any]:
    return {name: "" if value is True else value for name, value in job.sbatch.items()}


def _srun(job: JobSettings) -> dict[str, str]:
    pairs = (option.removeprefix("--").partition("=") for option in job.srun)
    return {name: value for name, _, value in pairs}


def _duration(seconds: int) -> str:
    hours, rest = divmod(seconds, 3600)
    days, hours = divmod(hours, 24) if hours > _MOST_HOURS else (0, hours)
    clock = f"{rest // 60:02d}:{rest % 60:02d}"
    return f"{days}-{hours:02d}:{clock}" if days else f"{hours}:{clock}"


def _given(**values: object) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value}
