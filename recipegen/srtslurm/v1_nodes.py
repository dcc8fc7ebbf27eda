"""Whether a job's workers fit into the GPUs and nodes that its recipe gives them, and whether decode begins on prefill's nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recipegen.launch import LaunchMode, WorkerLayout
from recipegen.layout import LayoutError, beside, span, stand
from recipegen.model import Role
from recipegen.srtslurm.packing import elsewhere, packed
from recipegen.srtslurm.reading import Findings
from recipegen.srtslurm.recipe import SrtRole
from recipegen.srtslurm.tree import Tree

ALLOW, ACROSS = "allow_prefill_decode_colocation", "allow_prefill_decode_colocation_across_nodes"
"""The back end's switches: workers of both roles on the one node that holds them all; and, beside it, on as few nodes as hold them."""


@dataclass(frozen=True)
class Share:
    """Nodes, workers and GPUs of a worker, as far as a recipe gives them; `tree` is where that stands. Decode of 0 nodes stands on prefill's."""

    nodes: int | None
    workers: int | None
    gpus: int | None
    tree: Tree | None

    @property
    def given(self) -> bool:
        return self.tree is not None


@dataclass(frozen=True)
class Switches:
    """What the back end says of workers of both roles on one node; `tree` is where the first that is on stands."""

    allow: bool
    across: bool
    tree: Tree | None


@dataclass(frozen=True)
class Settled:
    """The roles with the nodes that their workers take and the GPUs that each is given, and whether decode begins on prefill's nodes."""

    roles: tuple[SrtRole, ...]
    colocate: bool


def settle(findings: Findings, shares: Mapping[Role, Share], roles: tuple[SrtRole, ...], per_node: int, switches: Switches) -> Settled:
    """Compare what workers take with what they are given; too few GPUs or nodes are problems, nodes to spare are left out with a note."""
    if any(share.nodes is None or share.tree is None for share in shares.values()):
        return Settled(roles, colocate=False)  # complained of already
    roles = tuple(replace(role, gpus=_given_gpus(shares, role.role, per_node)) for role in roles)
    layouts = [layout for role in roles if (layout := _stand(findings, shares[role.role], role, per_node)) is not None]
    if len(layouts) < len(roles):
        return Settled(roles, colocate=False)
    one_node = len(roles) > 1 and all(one.mode is LaunchMode.ONE_NODE for one in layouts)
    colocate = one_node and _wanted(shares, layouts[0].nodes, roles, per_node, switches)
    if switches.tree is not None and not colocate:
        findings.note(switches.tree.key, f"'{switches.tree.path}' changes nothing: {_why_apart(switches)}")
    if len(layouts) > 1:
        layouts[1] = beside(layouts[1], layouts[0]) if colocate else replace(layouts[1], first_node=layouts[0].nodes)
    if colocate or (len(roles) > 1 and not shares[Role.DECODE].nodes):
        _check_both(findings, shares, roles, span(layouts), per_node)
    else:
        for role, layout in zip(roles, layouts, strict=True):
            _check_one(findings, shares[role.role], role, layout.nodes, per_node)
    if colocate:
        _note_other_nodes(findings, shares, layouts, roles, per_node)
    taken = [span(layouts[: number + 1]) for number in range(len(layouts))]
    own = [end - begin for begin, end in zip([0, *taken], taken, strict=False)]
    return Settled(tuple(replace(role, nodes=nodes) for role, nodes in zip(roles, own, strict=True)), colocate)


def _note_other_nodes(
    findings: Findings, shares: Mapping[Role, Share], layouts: Sequence[WorkerLayout], roles: tuple[SrtRole, ...], per_node: int
) -> None:
    """Note a worker that stands on another node than srtctl's: sizes that do not divide each other leave gaps here."""
    theirs = packed([role.gpus for role in roles for _ in range(role.workers)], per_node)
    tree = shares[Role.DECODE].tree
    if tree is not None and (message := elsewhere(layouts, theirs, span(layouts))):
        findings.note(tree.key, message)


def _given_gpus(shares: Mapping[Role, Share], role: Role, per_node: int) -> int:
    """GPUs of a worker: as written, else an equal part of the role's nodes; decode without nodes has as many as prefill (srtctl 1.0)."""
    share = shares[role]
    if share.gpus:
        return share.gpus
    if role is Role.DECODE and not share.nodes and Role.PREFILL in shares:
        return _given_gpus(shares, Role.PREFILL, per_node)
    return (share.nodes or 0) * per_node // (share.workers or 1)


def _stand(findings: Findings, share: Share, role: SrtRole, per_node: int) -> WorkerLayout | None:
    """Where the role's workers stand; None, with a problem, where its GPUs do not hold one, or nothing can lay them out."""
    where, topology = (share.tree.key if share.tree else role.source), role.topology
    if topology.gpus > role.gpus:
        sizes = f"TP{topology.tp} x PP{topology.pp} x DP{topology.dp} = {topology.gpus}"
        given = "as the recipe says" if share.gpus else f"as nodes and workers give ({share.nodes} x {per_node} / {role.workers})"
        given = given if share.gpus or share.nodes else "as one of prefill has"
        findings.problem("srt-gpus", where, f"a worker of {role.role.value} has {role.gpus} GPUs, {given}, but {sizes} takes more")
        return None
    try:
        return stand(role.role, role.workers, topology, per_node)
    except LayoutError as error:
        findings.problem("srt-gpus", where, f"a worker of {role.role.value}: {error}")
        return None


def _wanted(shares: Mapping[Role, Share], prefills: int, roles: tuple[SrtRole, ...], per_node: int, switches: Switches) -> bool:
    """Whether srtctl lets decode begin on the last of the `prefills` nodes that prefill takes.

    By the back end's switches (`backends/vllm.py`, `should_colocate_prefill_decode`); without them only where no node is left behind
    that one (`core/topology.py`, `allocate_endpoints`).
    """
    fits_one = sum(role.workers * role.gpus for role in roles) <= per_node
    if switches.allow and (switches.across or fits_one):
        return True
    return shares[Role.DECODE].nodes == 0 and shares[Role.PREFILL].nodes == prefills


def _why_apart(switches: Switches) -> str:
    if not switches.allow:
        return f"srtctl heeds it beside `{ALLOW}` only"
    return "workers that fill nodes share none" if switches.across else f"the workers do not fit into one node, and `{ACROSS}` is not set"


def _check_one(findings: Findings, share: Share, role: SrtRole, needed: int, per_node: int) -> None:
    """Compare with a role's nodes: all GPUs that its workers are given have to fit there, for srtctl."""
    nodes, tree = share.nodes or 0, share.tree
    taken = -(-role.workers // (per_node // role.gpus)) if role.gpus <= per_node else role.workers * -(-role.gpus // per_node)
    if tree is None:
        return
    if nodes < max(taken, needed):
        told = f"{role.workers} x {role.gpus} GPUs take {max(taken, needed)} nodes of {per_node}"
        findings.problem("srt-nodes", tree.source, f"'{tree.path}' is {nodes}, but {told}")
    elif nodes > needed:
        told = f"{role.workers} x {role.topology.gpus} GPUs take {needed} nodes of {per_node}"
        findings.note(tree.source, f"'{tree.path}' is {nodes}, but {told}; the others are left out")


def _check_both(findings: Findings, shares: Mapping[Role, Share], roles: tuple[SrtRole, ...], needed: int, per_node: int) -> None:
    """Compare with the nodes of both roles together."""
    nodes, tree = sum(share.nodes or 0 for share in shares.values()), shares[Role.PREFILL].tree
    if tree is None or nodes == needed:
        return
    workers = " and ".join(f"{role.workers} x {role.topology.gpus}" for role in roles)
    told = f"prefill and decode have {nodes} nodes, but {workers} GPUs take {needed} of {per_node}"
    if nodes < needed:
        findings.problem("srt-nodes", tree.source, told)
    else:
        findings.note(tree.source, f"{told}; the others are left out")
