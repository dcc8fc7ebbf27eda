"""From a LaunchPlan to the `schema: 2` recipe that means the same for srtctl 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recipegen.benchmarks import LOAD_TYPES
from recipegen.launch import LaunchPlan
from recipegen.model import Dynamo
from recipegen.srtslurm.export_benchmark import foreign_type
from recipegen.srtslurm.export_carried import carried_in_v2
from recipegen.srtslurm.export_text import Path, SrtDocument
from recipegen.srtslurm.export_v1 import common_document, git_source, role_nodes
from recipegen.srtslurm.v1_events import MODES
from recipegen.srtslurm.v1_nodes import ACROSS, ALLOW

_NOT_READ = ("backend", "endpoint")
"""Settings of a benchmark that `schema: 2` does not have: its loader refuses them."""
_LENGTHS = ("isl", "osl", "concurrencies")
_ROLE_OF = {mode: role.value for role, mode in MODES.items()}
_AGAIN = frozenset({"resources", "backend", "dynamo", "infra", "benchmark"})
"""Sections that are not as in the first layout."""


def v2_document(plan: LaunchPlan) -> SrtDocument:
    """Return a point as a recipe of the second layout; InputError with everything that srtctl cannot be told."""
    first = common_document(plan)
    fields: dict[str, Any] = {"schema": 2}
    for name, value in first.fields.items():
        if name not in _AGAIN:
            fields[name] = value
        elif name == "resources":
            fields |= _resources(plan, value)
        elif name == "backend":
            fields |= {"engine": _engine(value), "roles": _roles(plan, value)}
        elif name == "infra":
            fields |= _services(plan, value)
        else:
            fields[name] = _CHANGED[name](plan, value)
    left_out = [f"{name}: {value}" for name, value in first.fields["benchmark"].items() if name not in fields["benchmark"]]
    head = (f"left out, as `schema: 2` refuses it here: benchmark.{', benchmark.'.join(left_out)}",) if left_out else ()
    document = SrtDocument(fields=fields, notes=dict(_notes(first)), head=(*first.head, *head))
    return carried_in_v2(document, plan.recipe.job.carried)


def _resources(plan: LaunchPlan, section: Mapping[str, Any]) -> dict[str, Any]:
    moved = {f"{one}{role.layout.role.value}{other}" for role in plan.roles for one, other in (("", "_nodes"), ("", "_workers"), ("gpus_per_", ""))}
    return {"resources": {name: value for name, value in section.items() if name not in moved}}


def _engine(backend: Mapping[str, Any]) -> dict[str, Any]:
    return {name: backend[name] for name in ("type", "connector", ALLOW, ACROSS) if name in backend}


def _roles(plan: LaunchPlan, backend: Mapping[str, Any]) -> dict[str, Any]:
    found, nodes = {}, role_nodes(plan)
    for role in plan.roles:
        mode, layout = MODES[role.layout.role], role.layout
        env = backend.get(f"{mode}_environment")
        found[layout.role.value] = {
            "nodes": nodes[layout.role] or "colocate",
            "workers": layout.workers,
            "gpus": role.recipe.topology.gpus,
            **({"env": env} if env else {}),
            **({"kv_events": True} if role.recipe.kv_events else {}),
            "args": backend["vllm_config"][mode],
        }
    return found


def _services(plan: LaunchPlan, infra: Mapping[str, Any]) -> dict[str, Any]:
    """etcd on a node of its own, and NATS beside it where requests go over it: srtctl 2 starts it for nothing else."""
    if not infra.get("etcd_nats_dedicated_node"):
        return {}
    kinds = ("etcd", "nats") if plan.recipe.runtime.dynamo.request_plane == "nats" else ("etcd",)
    return {"services": [{"name": kind, "type": kind, "placement": {"node": "dedicated"}} for kind in kinds]}


def _dynamo(plan: LaunchPlan, section: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in section.items() if name not in {"version", "wheel", "hash", "top_of_tree"}}
    source = _source(plan.recipe.runtime.dynamo, section)
    return {**({"source": source} if source else {}), **rest}


def _source(dynamo: Dynamo, section: Mapping[str, Any]) -> dict[str, str]:
    if "wheel" in section:
        return {"wheel": section["wheel"]}
    if dynamo.install == "git":
        repository, commit = git_source(dynamo)
        return {"git": repository, **({"rev": commit} if commit else {})}
    return {"pypi": dynamo.version} if dynamo.version else {}


def _benchmark(plan: LaunchPlan, section: Mapping[str, Any]) -> dict[str, Any]:
    """Only what the type reads, as anything else is refused."""
    measures = plan.recipe.benchmark.type in LOAD_TYPES or foreign_type(plan.recipe)
    unread = _NOT_READ if measures else (*_NOT_READ, *_LENGTHS)
    return {name: value for name, value in section.items() if name not in unread}


_CHANGED = {"dynamo": _dynamo, "benchmark": _benchmark}


def _notes(first: SrtDocument) -> Iterator[tuple[Path, str]]:
    for (_, _, mode, flag), note in first.notes.items():
        yield ("roles", _ROLE_OF[mode], "args", flag), note
