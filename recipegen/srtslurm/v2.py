"""A `schema: 2` document as the v1 document that means the same, so that one reader reads both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recipegen.errors import near_match
from recipegen.srtslurm import keys
from recipegen.srtslurm.expand import Job
from recipegen.srtslurm.reading import UNSUPPORTED, WRONG_TYPE, Findings, Section
from recipegen.srtslurm.recipe import SrtRecipe
from recipegen.srtslurm.tree import Scalar, Tree, plain
from recipegen.srtslurm.v1 import read_v1
from recipegen.srtslurm.v2_roles import MODES, read_engine, read_role_keys
from recipegen.srtslurm.v2_services import read_services

_SAME = (
    *("name", "model", "slurm", "health_check", "environment", "sbatch_directives", "setup_script", "identity", "srun_options", "benchmark"),
    *keys.TOP,
)
"""Sections that mean the same in both layouts."""
_ONLY_HERE = {"job_scoped_ports": "every job has ports of its own"}
"""Keys that the first layout does not have, and why they are without effect."""
_FRONTEND_NODES = ("head", "first_decode", "dedicated")
"""Where srtctl 2 places the front end: `frontend.placement.node`."""
_SOURCES = {"pypi": "version", "wheel": "wheel", "git": "git"}
_RENAMED = {"set_cuda_visible_devices": "set_visible_devices"}
"""Keys of the engine that the first releases of srtctl 2 called otherwise."""


def is_v2(job: Job) -> bool:
    """Whether a document declares the second layout, or is written in it."""
    entries = job.tree.entries or {}
    schema = entries.get("schema")
    return (schema is not None and repr(schema.scalar) == "2") or (schema is None and "roles" in entries)


def read_v2(job: Job, file: str, head: tuple[str, ...], hardware: str = "") -> SrtRecipe:
    """Return the recipe of one job; InputError with every problem of it. `hardware` as for `read_v1`."""
    findings = Findings()
    return read_v1(replace(job, tree=to_v1(job.tree, findings)), file, head, hardware, findings)


def to_v1(tree: Tree, findings: Findings) -> Tree:
    """Return the document in the first layout; what cannot be said there is among the findings.

    Early documents declare `schema: 2` with sections of the first layout (`backend`, `infra`, nodes among the resources), which
    srtctl 2.0 took as well: they stay as they are.
    """
    top = Section(findings, tree, "", tree.source)
    top.take("schema")
    found = {name: one for name in _SAME if (one := top.take(name)) is not None}
    resources, older = top.take("resources"), top.take("backend")
    roles, events = _without_events(top.take("roles"))
    own = read_role_keys(findings, Section(findings, roles, "roles", top.where))
    configs = {"vllm_config": _mapping(own.configs, tree)} if own.configs or older is None else {}
    backend = {**own.backend, **read_engine(findings, _engine(findings, top.take("engine"))), **configs, **events}
    found["resources"] = _joined(findings, resources, own.resources, tree)
    found["backend"] = _joined(findings, older, backend, tree)
    changed = {"frontend": _frontend(findings, top.take("frontend")), "dynamo": _dynamo(findings, top.take("dynamo"))}
    found |= {name: one for name, one in changed.items() if one is not None}
    infra = {"etcd_nats_dedicated_node": _leaf(tree, scalar=True)} if read_services(findings, top.take("services")) else {}
    if (given := top.take("infra")) is not None or infra:
        found["infra"] = _joined(findings, given, infra, tree)
    top.finish(_ONLY_HERE, known=("base", "sweep"))
    return replace(tree, entries=found)


def _joined(findings: Findings, older: Tree | None, newer: Mapping[str, Tree], at: Tree) -> Tree:
    """A section with what the second layout says elsewhere; said in both, nothing tells which one holds."""
    if older is None:
        return _mapping(newer, at)
    if older.entries is None:
        return older
    for name in (name for name in older.entries if name in newer):
        one, other = older.entries[name], newer[name]
        if not one.is_null and plain(one) != plain(other):
            findings.problem(UNSUPPORTED, one.key, f"'{one.path}' is said in both layouts, also as '{other.path or 'roles'}'; expected one of them")
    return replace(older, entries={**older.entries, **newer})


def _engine(findings: Findings, tree: Tree | None) -> Tree | None:
    """The engine's keys by their names of today."""
    if tree is None or tree.entries is None:
        return tree
    entries = dict(tree.entries)
    for older, newer in _RENAMED.items():
        one = entries.pop(older, None)
        if one is not None and newer in entries:
            findings.problem(UNSUPPORTED, one.key, f"'{one.path}' is the older name of '{newer}', which stands there, too; expected one of them")
        elif one is not None:
            entries[newer] = replace(one, path=f"{tree.path}.{newer}")
    return replace(tree, entries=entries)


def _without_events(roles: Tree | None) -> tuple[Tree | None, dict[str, Tree]]:
    """The roles without their KV events, and those as the first layout has them, for all roles together."""
    if roles is None or roles.entries is None:
        return roles, {}
    kept, events = {}, {}
    for name, role in roles.entries.items():
        entries = dict(role.entries or {})
        one = entries.pop("kv_events", None)
        if one is not None and not one.is_null and one.scalar is not False and one.entries != {}:
            events[MODES.get(name, name)] = one
        kept[name] = role if role.entries is None else replace(role, entries=entries)
    first = next(iter(events.values()), None)
    found = {} if first is None else {"kv_events_config": replace(first, entries=events, items=None, scalar=None)}
    return replace(roles, entries=kept), found


def _frontend(findings: Findings, tree: Tree | None) -> Tree | None:
    """Placement as the first layout has it."""
    if tree is None or tree.entries is None:
        return tree
    entries = dict(tree.entries)
    placement = entries.pop("placement", None)
    if placement is None:
        return tree
    given = Section(findings, placement, placement.path, placement.source)
    node = given.take("node")
    given.finish()
    if node is not None and node.scalar == "dedicated":
        entries["dedicated_node"] = _leaf(node, scalar=True)
    elif node is not None and node.text in _FRONTEND_NODES:
        entries["orchestrator_placement"] = node
    elif node is not None:
        near = near_match(node.text or "", _FRONTEND_NODES)
        findings.problem(WRONG_TYPE, node.source, f"'{node.path}' is {node.kind}; expected {', '.join(_FRONTEND_NODES)}", near)
    return replace(tree, entries=entries)


def _dynamo(findings: Findings, tree: Tree | None) -> Tree | None:
    """Where Dynamo comes from, in the words of the first layout."""
    if tree is None or tree.entries is None or "source" not in tree.entries:
        return tree
    entries = dict(tree.entries)
    source = entries.pop("source")
    given = Section(findings, source, source.path, source.source)
    named = {ours: one for theirs, ours in _SOURCES.items() if (one := given.take(theirs)) is not None}
    newest, commit = given.switch("top_of_tree") or "git" in named, _commit(findings, given)
    if commit is not None:
        named["hash"] = commit
    elif newest:
        named["top_of_tree"] = _leaf(source, scalar=True)
    given.finish({"patches": keys.DYNAMO["cargo_patches"]})
    if "version" in named and len(named) > 1:
        several = ", ".join(theirs for theirs, ours in _SOURCES.items() if ours in named)
        findings.problem(UNSUPPORTED, source.key, f"'{source.path}' names several sources: {several}; expected git, pypi or wheel alone")
    return _joined(findings, replace(tree, entries=entries), named, tree)


def _commit(findings: Findings, source: Section) -> Tree | None:
    """What is checked out: the commit that a submission found for `rev`, else `rev` itself."""
    rev, sha = source.take("rev"), source.take("sha")
    if rev is not None and sha is not None and rev.scalar != sha.scalar:
        findings.note(rev.key, f"'{rev.path}' is left out: '{sha.path}' is the commit that it stood for")
    return sha if sha is not None else rev


def _mapping(entries: Mapping[str, Tree], at: Tree) -> Tree:
    return Tree(entries=dict(entries), source=at.source, key=at.key)


def _leaf(at: Tree, *, scalar: Scalar) -> Tree:
    return replace(at, entries=None, items=None, scalar=scalar, filled=None)
