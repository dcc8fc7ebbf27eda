"""A v1 document, one job of it, to SrtRecipe."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recipegen.catalogue import hardware_keys
from recipegen.errors import InputError, Problem, Source, near_match
from recipegen.matrix import parse_duration
from recipegen.srtslurm import keys
from recipegen.srtslurm.expand import Job
from recipegen.srtslurm.reading import MISSING, WRONG_TYPE, Findings, Section
from recipegen.srtslurm.recipe import Entry, SrtFrontend, SrtModel, SrtRecipe, SrtRuntime
from recipegen.srtslurm.tree import Tree
from recipegen.srtslurm.v1_benchmark import BenchmarkPart, read_benchmark
from recipegen.srtslurm.v1_flags import read_env
from recipegen.srtslurm.v1_frontend import cap_front_ends, note_places, read_frontend
from recipegen.srtslurm.v1_options import read_options
from recipegen.srtslurm.v1_roles import Roles, read_roles
from recipegen.srtslurm.v1_runtime import read_identity, read_model, read_name, read_runtime, with_wheel

DEFAULT_LIMIT_S = 4 * 3600
"""Time limit where a recipe leaves it to the cluster: what srt-slurm's set-up proposes as the cluster's default."""
MAX_ATTEMPTS, INTERVAL_S = 180, 10
"""srtctl's health check where one of its two keys is not given."""

PLACES = {
    "name": "name",
    "model": "model.path",
    "hardware": "resources.gpu_type",
    "isl": "benchmark.isl",
    "image": "model.container",
    "vllm": "identity.frameworks.vllm",
    "dynamo": "dynamo",
    "setup_script": "setup_script",
    "dedicated_node": "infra",
    "kv_events": "backend.kv_events_config",
    "ready_s": "health_check",
    "concurrency": "benchmark.concurrencies",
    "time_limit_s": "slurm.time_limit",
}
"""Where a document says what becomes a field of SrtRecipe."""


def read_v1(job: Job, file: str, head: tuple[str, ...], hardware: str = "", findings: Findings | None = None) -> SrtRecipe:
    """Return the recipe of one job; InputError with every problem of it.

    `hardware` is the machine where the recipe names none. `findings` brings what was found on the way here: a document of another
    layout turned into this one.
    """
    findings = findings or Findings()
    top = Section(findings, job.tree, "", Source(file, 1, 1))
    _check_schema(top)
    parts = _read_parts(findings, top, hardware)
    top.finish(keys.TOP, known=("base", "sweep", "roles", "engine", "services"))
    if findings.problems:
        raise InputError(findings.problems)
    return replace(
        _assembled(parts, file, job.variant),
        head=head,
        remarks=job.tree.remarks,
        carried=dict(findings.carried),
        notes=tuple(findings.notes),
        source=top.where,
        places=dict(_places(job.tree)),
    )


@dataclass(frozen=True, kw_only=True)
class _Parts:
    name: str
    model: SrtModel
    hardware: str
    runtime: SrtRuntime
    roles: Roles
    benchmark: BenchmarkPart
    site: _Site


def _read_parts(findings: Findings, top: Section, hardware: str) -> _Parts:
    name = read_name(findings, top)
    identity = read_identity(top.section("identity"))
    shared = with_wheel(read_env(findings, top.take("environment")), top.rest.get("dynamo"))
    roles = read_roles(findings, top, shared)
    model = read_model(findings, top.section("model"), identity, roles.served_name)
    return _Parts(
        name=name,
        model=model.model,
        hardware=_hardware(findings, roles, hardware),
        runtime=read_runtime(findings, top.section("dynamo"), identity, model.image),
        roles=roles,
        benchmark=read_benchmark(findings, top.section("benchmark"), top.where),
        site=_read_site(findings, top, shared, sum(role.nodes for role in roles.roles)),
    )


def _assembled(parts: _Parts, file: str, variant: str) -> SrtRecipe:
    roles, benchmark, site = parts.roles, parts.benchmark, parts.site
    return SrtRecipe(
        file=file,
        variant=variant,
        name=parts.name,
        model=parts.model,
        hardware=parts.hardware,
        gpus_per_node=roles.gpus_per_node,
        runtime=parts.runtime,
        isl=benchmark.isl,
        osl=benchmark.osl,
        max_model_len=roles.max_model_len,
        roles=roles.roles,
        mtp=roles.mtp,
        concurrency=benchmark.concurrency,
        time_limit_s=site.time_limit_s,
        benchmark=benchmark.settings,
        setup_script=site.setup_script,
        sbatch=site.sbatch,
        srun=site.srun,
        dedicated_node=site.dedicated_node,
        ready_s=site.ready_s,
        frontend=site.frontend,
        colocate=roles.colocate,
    )


def _places(tree: Tree) -> Iterator[tuple[str, Source]]:
    for name, path in PLACES.items():
        here: Tree | None = tree
        for key in path.split("."):
            here = (here.entries or {}).get(key) if here is not None else None
        if here is not None and not here.is_null:
            yield name, here.source if here.entries is None else here.key


def _check_schema(top: Section) -> None:
    tree = top.take("schema")
    if tree is not None and repr(tree.scalar) != "1":
        raise InputError([Problem(tree.source, f"'{tree.path}' is {tree.kind}; expected 1 or 2, the layouts of srt-slurm", rule="srt-form")])


@dataclass(frozen=True, kw_only=True)
class _Site:
    time_limit_s: int
    setup_script: str
    sbatch: tuple[Entry, ...]
    srun: tuple[Entry, ...]
    dedicated_node: bool
    ready_s: int | None
    frontend: SrtFrontend


def _read_site(findings: Findings, top: Section, shared: tuple[Entry, ...], workers: int) -> _Site:
    ready_s = _read_health(top.section("health_check"))
    frontend, frontend_alone = read_frontend(findings, top.section("frontend"), shared)
    infra = top.section("infra")
    infra_alone = infra.switch("etcd_nats_dedicated_node") or False
    infra.finish(keys.INFRA)
    if frontend_alone and not infra_alone:
        findings.note(top.where, "the dedicated node of the front end holds etcd and NATS, too")
    elif frontend_alone:
        findings.note(top.where, "one dedicated node holds etcd, NATS and the front end; the recipe has two")
    note_places(findings, frontend, workers, infra.where, alone=frontend_alone, infra_alone=infra_alone)
    return _Site(
        time_limit_s=_read_time_limit(findings, top.section("slurm")),
        setup_script=_read_setup(findings, top),
        sbatch=read_options(findings, top.take("sbatch_directives")),
        srun=read_options(findings, top.take("srun_options")),
        dedicated_node=infra_alone or frontend_alone,
        ready_s=ready_s,
        frontend=cap_front_ends(findings, frontend, top.where),
    )


def _read_time_limit(findings: Findings, slurm: Section) -> int:
    tree = slurm.take("time_limit")
    slurm.finish(keys.SLURM)
    if tree is None:
        hours = f"{DEFAULT_LIMIT_S // 3600}:00:00"
        findings.note(slurm.where, f"no slurm.time_limit: the cluster's default would hold, which is not known here; {hours} is written")
        return DEFAULT_LIMIT_S
    text = tree.scalar if isinstance(tree.scalar, str) else ""
    try:
        return parse_duration(text)
    except ValueError:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected H:MM:SS or D-HH:MM:SS, in quotes")
        return DEFAULT_LIMIT_S


def _read_health(health: Section) -> int | None:
    given = health.given
    attempts, interval = health.whole("max_attempts"), health.whole("interval_seconds")
    health.finish(keys.HEALTH)
    return (attempts or MAX_ATTEMPTS) * (interval or INTERVAL_S) if given and (attempts or interval) else None


def _read_setup(findings: Findings, top: Section) -> str:
    tree = top.take("setup_script")
    if tree is None:
        return ""
    text = tree.text or ""
    if not text:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected the path of a script")
    elif ".." in text.split("/"):
        findings.problem("srt-path", tree.source, f"'{tree.path}' climbs out of its folder by '..'; expected the path that it leads to")
    return text


def _hardware(findings: Findings, roles: Roles, default: str) -> str:
    tree = roles.gpu_type
    if tree is None and not default:
        message = "'resources.gpu_type' is missing; srtctl may have it from its cluster's file, a matrix names it"
        findings.problem(MISSING, roles.resources, message, "add it, or say --hardware")
    if tree is None:
        return default
    text = tree.scalar.lower() if isinstance(tree.scalar, str) else ""
    key = keys.HARDWARE.get(text, text)
    if key not in hardware_keys():
        hint = near_match(key, hardware_keys()) or f"known: {', '.join(hardware_keys())}"
        findings.problem("srt-hardware", tree.source, f"'{tree.path}' is {tree.kind}, a GPU type of which nothing is known", hint)
    return key
