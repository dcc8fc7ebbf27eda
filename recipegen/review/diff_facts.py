"""Everything that a point would run, as facts: what two versions of it are compared by."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from recipegen.benchmarks import benchmark_settings
from recipegen.checks.views import PointView
from recipegen.launch import LaunchPlan, Port, RolePlan
from recipegen.model import EnvVar, Flag, JobSettings, Matrix, Point
from recipegen.review.diff_model import FactKey, Facts, FactValue, Scalar, Section
from recipegen.review.diff_sizes import size_facts
from recipegen.role_flags import read_json
from recipegen.settings import Value

_Table = dict[FactKey, FactValue]
_OWN_ARGS = frozenset({"engine", "model"})
"""Groups of arguments that are told as flags and pins."""


class FactTeller:
    """Tells the facts of the points of one matrix: what each states, what runs, what sizing makes of it."""

    def __init__(self, matrix: Matrix) -> None:
        self._name, self._workload = matrix.name, matrix.workload
        self._pins, self._benchmarks, self._asked = _pins(matrix), _benchmarks(matrix), _asked(matrix.job, matrix.runtime.dynamo.request_plane)

    def facts(self, point: Point, view: PointView, plan: LaunchPlan) -> Facts:
        """Return the facts of one point, which was followed to its view and plan, by section."""
        found: dict[Section, _Table] = {section: {} for section in Section}
        found[Section.INPUT] = _told({"name": self._name, "sized_for": point.sized_for, "mtp": point.mtp, "colocate": point.colocate})
        found[Section.PIN], found[Section.BENCHMARK] = {**self._pins}, {**self._benchmarks}
        found[Section.WORKLOAD] = _told(self._load(view))
        found[Section.JOB] = {**_job(plan), **self._asked}
        found[Section.PORT] = {**_told({"port step": plan.port_step, "port slots": plan.port_slots}), **_ports(plan.services, "")}
        for planned, sized in zip(plan.roles, view.roles, strict=True):
            _add_role(found, planned)
            found[Section.SIZE].update(size_facts(planned.layout.role.value, sized.sizes))
        return found

    def _load(self, view: PointView) -> Mapping[str, Scalar]:
        own, concurrency = self._workload, ", ".join(map(str, view.recipe.concurrency))
        lengths = {"isl": own.isl, "osl": own.osl, "max_model_len": own.max_model_len}
        return {**lengths, "concurrency": concurrency, "max_model_len stated": own.stated}


def _told(values: Mapping[str, Scalar], role: str = "") -> _Table:
    """Facts whose text is the value's own."""
    return {(role, name): (value, str(value), "") for name, value in values.items()}


def _pins(matrix: Matrix) -> _Table:
    model, runtime, dynamo = matrix.model, matrix.runtime, matrix.runtime.dynamo
    pins = {
        "model": model.repo,
        "model revision": model.revision,
        "served name": model.served_name,
        "hardware": matrix.hardware.key,
        "image": runtime.image,
        "vllm": runtime.vllm,
        "dynamo": dynamo.version,
        "dynamo install": dynamo.install,
        "dynamo source": dynamo.source,
    }
    return _told({name: value for name, value in pins.items() if value})


def _benchmarks(matrix: Matrix) -> _Table:
    whole = {"": matrix.benchmark} | {f"variant {variant.name}: ": variant.benchmark for variant in matrix.variants}
    settings = {prefix + name: value for prefix, benchmark in whole.items() for name, value in benchmark_settings(benchmark).items()}
    return _told({name: ", ".join(value) if isinstance(value, tuple) else value for name, value in settings.items()})


def _job(plan: LaunchPlan) -> _Table:
    limit, directives = plan.recipe.time_limit_s, plan.directives
    gpus = sum(len(process.device_ids) for process in plan.processes)
    sizes: dict[str, Scalar] = {"nodes": directives.nodes, "GPUs": gpus, "GPUs per node": directives.gpus_per_node, "segment": directives.segment}
    sizes |= _front_ends(plan)
    expected = {(role.value, "expected instances"): (count, str(count), "") for role, count in plan.expected.items()}
    return {("", "time limit"): (limit, _duration(limit), ""), **_told(sizes), **expected}


def _front_ends(plan: LaunchPlan) -> dict[str, Scalar]:
    """How many there are, and are wanted where nodes for them lack; of several, where they stand and what is said of nginx."""
    job, found = plan.recipe.job, plan.front_ends
    told: dict[str, Scalar] = {
        "front ends": len(found),
        "front ends wanted": job.front_ends if job.front_ends > len(found) else 0,
        "front end nodes": f"{found[0]}-{found[-1]}" if plan.several_front_ends else "",
        "nginx image": job.nginx_image,
        "session header": job.session_header,
    }
    return {name: value for name, value in told.items() if value}


def _asked(job: JobSettings, request_plane: str) -> _Table:
    """What the matrix asks of the job around the engines, as far as it asks anything."""
    stated: dict[str, Scalar] = {
        "setup script": job.setup_script,
        "dedicated node": job.dedicated_node,
        "ready deadline": _duration(job.ready_s) if job.ready_s else "",
        "request plane": request_plane,
        "srun": " ".join(job.srun),
        **{f"sbatch {name}": value for name, value in job.sbatch.items()},
        **{f"front end {flag.name}": str(flag.value) for flag in job.frontend_args},
        **{f"front end variable {var.name}": str(var.value) for var in job.frontend_env},
        **{f"carried {name}": json.dumps(value, sort_keys=True) for name, value in job.carried.items()},
    }
    return _told({name: value for name, value in stated.items() if value})


def _duration(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _ports(ports: Iterable[Port], role: str) -> _Table:
    return _told({port.name: f"{port.base}" if port.count == 1 else f"{port.base}-{port.base + port.count - 1}" for port in ports}, role)


def _add_role(found: Mapping[Section, _Table], plan: RolePlan) -> None:
    recipe, layout, role = plan.recipe, plan.layout, plan.layout.role.value
    gpus = layout.workers * layout.nodes_per_worker * layout.gpus_per_process
    shape: dict[str, Scalar] = {"workers": recipe.workers, "topology": str(recipe.topology), "nodes": layout.nodes, "GPUs": gpus}
    found[Section.ROLE].update(_told(shape, role))
    found[Section.INPUT].update(_told({"kv_events": True} if recipe.kv_events else {}, role))
    found[Section.PLACEMENT].update(_told(_placement(plan), role))
    found[Section.PORT].update(_ports(layout.ports, role))
    found[Section.LAUNCHER_FLAG].update(_launch(plan, role))
    found[Section.FLAG].update(_flags(recipe.flags, role))
    _add_env(found, plan.command.env, role)


def _placement(plan: RolePlan) -> Mapping[str, Scalar]:
    layout = plan.layout
    return {
        "launch": layout.mode.value,
        "nodes per worker": layout.nodes_per_worker,
        "workers per node": layout.workers_per_node,
        "GPUs per process": layout.gpus_per_process,
        "DP ranks per process": layout.local_dp,
        "first node": layout.first_node,
        "first slot": layout.first_slot,
        "ports per worker": layout.slot_ports,
        "program": " ".join(plan.command.program),
    }


def _launch(plan: RolePlan, role: str) -> _Table:
    """The arguments that the launcher adds for placement."""
    words = [list(map(str, arg.words)) for arg in plan.command.args if arg.group not in _OWN_ARGS]
    given = {name.removeprefix("--"): " ".join(values) for name, *values in words}
    return {(role, name): (text, text or "(set)", "") for name, text in given.items()}


def _flags(flags: tuple[Flag, ...], role: str) -> _Table:
    """Flags as the command line has them; a JSON argument by its keys, as the order of keys means nothing to the engine.

    A flag that stands both as JSON and by dotted keys stays as it is: what such a pair means depends on both together.
    """
    dotted = {flag.name.partition(".")[0] for flag in flags if "." in flag.name}
    found: _Table = {}
    for flag in flags:
        name, value = (f"no-{flag.name}", True) if flag.value is False else (flag.name, flag.value)
        if isinstance(value, str) and name not in dotted and (leaves := _json_leaves(value)):
            found.update({(role, name + path): (leaf, text, flag.derivation) for path, leaf, text in leaves})
        else:
            found[role, name] = (*_shown(value), flag.derivation)
    return found


def _shown(value: Value) -> tuple[Scalar, str]:
    if isinstance(value, tuple):
        text = " ".join(map(str, value))
        return text, text
    return value, "(set)" if value is True else str(value)


@lru_cache(maxsize=1024)
def _json_leaves(text: str) -> tuple[tuple[str, Scalar, str], ...]:
    """Path, value and text of all that a JSON object holds; none of what is no object. Points mostly share such arguments."""
    if not text.lstrip().startswith("{"):
        return ()
    try:
        found = read_json(text)
    except ValueError:
        return ()
    leaves = _leaves(found, "") if isinstance(found, dict) else ()
    return tuple((path, leaf, leaf if isinstance(leaf, str) else json.dumps(leaf)) for path, leaf in leaves)


def _leaves(values: Mapping[str, Any], name: str) -> Iterator[tuple[str, Scalar]]:
    """Dotted paths to what is no object with keys; lists stay whole, as JSON."""
    for key, value in values.items():
        path = f"{name}.{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, path)
        else:
            yield path, json.dumps(value) if isinstance(value, list | dict) else value


def _add_env(found: Mapping[Section, _Table], env: tuple[EnvVar, ...], role: str) -> None:
    for var in env:
        text = str(var.value)
        found[Section.LAUNCHER_ENV if var.launcher else Section.ENV][role, var.name] = (text, text, "")
