"""Everything that a point would run, as facts: what two versions of it are compared by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from recipegen.benchmarks import benchmark_settings
from recipegen.checks.views import PointView
from recipegen.launch import LaunchPlan, Port, RolePlan
from recipegen.model import EnvVar, Flag, Point, Recipe
from recipegen.review.diff_model import Fact, Scalar, Section
from recipegen.review.diff_sizes import size_facts
from recipegen.role_flags import read_json
from recipegen.settings import Value


def point_facts(name: str, point: Point, view: PointView, plan: LaunchPlan) -> tuple[Fact, ...]:
    """Return the facts of one point of the matrix called `name`: what it states, what runs, what sizing makes of it."""
    recipe = view.recipe
    facts = [*_inputs(name, point), *_pins(recipe), *_workload(recipe), *_benchmarks(recipe), *_job(recipe, plan)]
    for planned, sized in zip(plan.roles, view.roles, strict=True):
        facts += [*_role(planned), *size_facts(planned.layout.role.value, sized.sizes)]
    return tuple(facts)


def _fact(section: Section, name: str, value: Scalar, role: str = "", *, text: str | None = None, note: str = "") -> Fact:
    return Fact(section, role, name, value, str(value) if text is None else text, note)


def _inputs(name: str, point: Point) -> Iterator[Fact]:
    yield _fact(Section.INPUT, "name", name)
    yield _fact(Section.INPUT, "sized_for", point.sized_for)
    yield _fact(Section.INPUT, "mtp", point.mtp)


def _pins(recipe: Recipe) -> Iterator[Fact]:
    model, runtime, dynamo = recipe.model, recipe.runtime, recipe.runtime.dynamo
    pins = {
        "model": model.repo,
        "model revision": model.revision,
        "served name": model.served_name,
        "hardware": recipe.hardware.key,
        "image": runtime.image,
        "vllm": runtime.vllm,
        "dynamo": dynamo.version,
        "dynamo install": dynamo.install,
        "dynamo source": dynamo.source,
    }
    yield from (_fact(Section.PIN, name, value) for name, value in pins.items() if value)


def _workload(recipe: Recipe) -> Iterator[Fact]:
    workload = recipe.workload
    yield _fact(Section.WORKLOAD, "isl", workload.isl)
    yield _fact(Section.WORKLOAD, "osl", workload.osl)
    yield _fact(Section.WORKLOAD, "max_model_len", workload.max_model_len)
    yield _fact(Section.WORKLOAD, "concurrency", ", ".join(map(str, recipe.concurrency)))


def _benchmarks(recipe: Recipe) -> Iterator[Fact]:
    whole = {"": recipe.benchmark} | {f"variant {variant.name}: ": variant.benchmark for variant in recipe.variants}
    for prefix, benchmark in whole.items():
        for name, value in benchmark_settings(benchmark).items():
            yield _fact(Section.BENCHMARK, prefix + name, ", ".join(value) if isinstance(value, tuple) else value)


def _job(recipe: Recipe, plan: LaunchPlan) -> Iterator[Fact]:
    yield _fact(Section.JOB, "time limit", recipe.time_limit_s, text=_duration(recipe.time_limit_s))
    yield _fact(Section.JOB, "nodes", plan.directives.nodes)
    yield _fact(Section.JOB, "GPUs", sum(len(process.device_ids) for process in plan.processes))
    yield _fact(Section.JOB, "GPUs per node", plan.directives.gpus_per_node)
    yield _fact(Section.JOB, "segment", plan.directives.segment)
    for role, count in plan.expected.items():
        yield _fact(Section.JOB, "expected instances", count, role.value)
    yield _fact(Section.PORT, "port step", plan.port_step)
    yield _fact(Section.PORT, "port slots", plan.port_slots)
    yield from _ports(plan.services, "")
    yield from _asked(recipe)


def _asked(recipe: Recipe) -> Iterator[Fact]:
    """What the matrix asks of the job around the engines, as far as it asks anything."""
    job = recipe.job
    stated = {
        "setup script": job.setup_script,
        "dedicated node": job.dedicated_node,
        "ready deadline": _duration(job.ready_s) if job.ready_s else "",
        "request plane": recipe.runtime.dynamo.request_plane,
        "srun": " ".join(job.srun),
        **{f"sbatch {name}": value for name, value in job.sbatch.items()},
        **{f"front end {flag.name}": str(flag.value) for flag in job.frontend_args},
        **{f"carried {name}": json.dumps(value, sort_keys=True) for name, value in job.carried.items()},
    }
    yield from (_fact(Section.JOB, name, value) for name, value in stated.items() if value)
    yield _fact(Section.WORKLOAD, "max_model_len stated", recipe.workload.stated)


def _duration(seconds: int) -> str:
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _ports(ports: tuple[Port, ...], role: str) -> Iterator[Fact]:
    for port in ports:
        text = f"{port.base}" if port.count == 1 else f"{port.base}-{port.base + port.count - 1}"
        yield _fact(Section.PORT, port.name, text, role)


def _role(plan: RolePlan) -> Iterator[Fact]:
    recipe, role = plan.recipe, plan.layout.role.value
    yield _fact(Section.ROLE, "workers", recipe.workers, role)
    yield _fact(Section.ROLE, "topology", str(recipe.topology), role)
    yield from _placement(plan, role)
    yield from _launch(plan, role)
    yield from _flags(recipe.flags, role)
    yield from _env(plan.command.env, role)


def _placement(plan: RolePlan, role: str) -> Iterator[Fact]:
    layout = plan.layout
    yield _fact(Section.ROLE, "nodes", layout.nodes, role)
    yield _fact(Section.ROLE, "GPUs", layout.workers * layout.nodes_per_worker * layout.gpus_per_process, role)
    yield _fact(Section.PLACEMENT, "launch", layout.mode.value, role)
    yield _fact(Section.PLACEMENT, "nodes per worker", layout.nodes_per_worker, role)
    yield _fact(Section.PLACEMENT, "workers per node", layout.workers_per_node, role)
    yield _fact(Section.PLACEMENT, "GPUs per process", layout.gpus_per_process, role)
    yield _fact(Section.PLACEMENT, "DP ranks per process", layout.local_dp, role)
    yield _fact(Section.PLACEMENT, "first node", layout.first_node, role)
    yield _fact(Section.PLACEMENT, "ports per worker", layout.slot_ports, role)
    yield from _ports(layout.ports, role)


def _launch(plan: RolePlan, role: str) -> Iterator[Fact]:
    """The program, and the arguments that the launcher adds for placement."""
    yield _fact(Section.PLACEMENT, "program", " ".join(plan.command.program), role)
    own = {"engine", "model"}  # told as flags and pins
    for arg in plan.command.args:
        if arg.group not in own:
            name, *values = map(str, arg.words)
            yield _fact(Section.LAUNCHER_FLAG, name.removeprefix("--"), " ".join(values), role, text=" ".join(values) or "(set)")


def _flags(flags: tuple[Flag, ...], role: str) -> Iterator[Fact]:
    """Flags as the command line has them; a JSON argument by its keys, as the order of keys means nothing to the engine.

    A flag that stands both as JSON and by dotted keys stays as it is: what such a pair means depends on both together.
    """
    dotted = {flag.name.partition(".")[0] for flag in flags if "." in flag.name}
    for flag in flags:
        name, value = (f"no-{flag.name}", True) if flag.value is False else (flag.name, flag.value)
        found = None if flag.name in dotted else _json_object(value)
        if not found:
            yield Fact(Section.FLAG, role, name, *_shown(value), flag.derivation)
            continue
        for path, leaf in _leaves(found, name):
            yield _fact(Section.FLAG, path, leaf, role, text=leaf if isinstance(leaf, str) else json.dumps(leaf), note=flag.derivation)


def _shown(value: Value) -> tuple[Scalar, str]:
    if isinstance(value, tuple):
        text = " ".join(map(str, value))
        return text, text
    return value, "(set)" if value is True else str(value)


def _json_object(value: Value) -> Mapping[str, Any] | None:
    if not isinstance(value, str) or not value.lstrip().startswith("{"):
        return None
    try:
        found = read_json(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _leaves(values: Mapping[str, Any], name: str) -> Iterator[tuple[str, Scalar]]:
    """Dotted paths to what is no object with keys; lists stay whole, as JSON."""
    for key, value in values.items():
        path = f"{name}.{key}"
        if isinstance(value, dict) and value:
            yield from _leaves(value, path)
        else:
            yield path, json.dumps(value) if isinstance(value, list | dict) else value


def _env(env: tuple[EnvVar, ...], role: str) -> Iterator[Fact]:
    for var in env:
        section = Section.LAUNCHER_ENV if var.launcher else Section.ENV
        yield _fact(section, var.name, str(var.value), role)
