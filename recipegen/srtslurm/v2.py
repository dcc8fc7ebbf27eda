"""A `schema: 2` document as the v1 document that means the same, so that one reader reads both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recipegen.srtslurm import keys
from recipegen.srtslurm.expand import Job
from recipegen.srtslurm.reading import Findings, Section
from recipegen.srtslurm.recipe import SrtRecipe
from recipegen.srtslurm.tree import Scalar, Tree
from recipegen.srtslurm.v1 import read_v1
from recipegen.srtslurm.v2_roles import read_engine, read_role_keys
from recipegen.srtslurm.v2_services import read_services

_SAME = (
    *("name", "model", "slurm", "health_check", "environment", "sbatch_directives", "setup_script", "identity", "srun_options", "benchmark"),
    *keys.TOP,
)
"""Sections that mean the same in both layouts."""


def is_v2(job: Job) -> bool:
    """Whether a document declares the second layout, or is written in it."""
    entries = job.tree.entries or {}
    schema = entries.get("schema")
    return (schema is not None and schema.scalar == 2) or (schema is None and "roles" in entries)


def read_v2(job: Job, file: str, head: tuple[str, ...]) -> SrtRecipe:
    """Return the recipe of one job; InputError with every problem of it."""
    findings = Findings()
    return read_v1(replace(job, tree=to_v1(job.tree, findings)), file, head, findings)


def to_v1(tree: Tree, findings: Findings) -> Tree:
    """Return the document in the first layout; what cannot be said there is among the findings."""
    top = Section(findings, tree, "", tree.source)
    top.take("schema")
    found = {name: one for name in _SAME if (one := top.take(name)) is not None}
    resources = top.take("resources")
    own = read_role_keys(findings, top.section("roles"))
    backend = {**own.backend, **read_engine(findings, top.take("engine")), "vllm_config": _mapping(own.configs, tree)}
    found["resources"] = _mapping({**((resources.entries if resources is not None else None) or {}), **own.resources}, resources or tree)
    found["backend"] = _mapping(backend, tree)
    changed = {"frontend": _frontend(top.take("frontend")), "dynamo": _dynamo(findings, top.take("dynamo"))}
    found |= {name: one for name, one in changed.items() if one is not None}
    if read_services(findings, top.take("services")):
        found["infra"] = _mapping({"etcd_nats_dedicated_node": _leaf(tree, scalar=True)}, tree)
    top.finish(known=("base", "sweep"))
    return replace(tree, entries=found)


def _frontend(tree: Tree | None) -> Tree | None:
    """Placement as the first layout has it."""
    if tree is None or tree.entries is None:
        return tree
    entries = dict(tree.entries)
    placement = entries.pop("placement", None)
    node = None if placement is None else (placement.entries or {}).get("node")
    if node is not None and node.scalar == "dedicated":
        entries["dedicated_node"] = _leaf(node, scalar=True)
    elif node is not None:
        entries["orchestrator_placement"] = node
    elif placement is not None:
        entries["placement"] = placement
    return replace(tree, entries=entries)


def _dynamo(findings: Findings, tree: Tree | None) -> Tree | None:
    """Where Dynamo comes from, in the words of the first layout."""
    if tree is None or tree.entries is None or "source" not in tree.entries:
        return tree
    entries = dict(tree.entries)
    source = entries.pop("source")
    given = Section(findings, source, source.path, source.source)
    named = {ours: one for theirs, ours in (("pypi", "version"), ("wheel", "wheel"), ("git", "git")) if (one := given.take(theirs)) is not None}
    commits = [one for key in ("rev", "sha") if (one := given.take(key)) is not None]
    newest = given.take("top_of_tree") or named.get("git")
    if commits:
        named["hash"] = commits[0]
    elif newest is not None:
        named["top_of_tree"] = _leaf(newest, scalar=True)
    given.finish({"patches": keys.DYNAMO["cargo_patches"]})
    return replace(tree, entries={**entries, **named})


def _mapping(entries: Mapping[str, Tree], at: Tree) -> Tree:
    return Tree(entries=dict(entries), source=at.source, key=at.key)


def _leaf(at: Tree, *, scalar: Scalar) -> Tree:
    return replace(at, entries=None, items=None, scalar=scalar)
