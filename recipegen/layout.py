"""Where the workers of one role stand: nodes, GPUs, data-parallel ranks, port blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from recipegen.engine import Engine
from recipegen.launch import LaunchMode, Port, WorkerLayout
from recipegen.model import HardwareSpec, Role, RoleRecipe, Topology

PORT_BASE = 20_000
PORT_LIMIT = 32_768
"""Linux hands out ephemeral ports from here on (net.ipv4.ip_local_port_range); ours stay below, offset included."""
WORKER_PORTS = PORT_BASE + 10
"""The first ten ports of a node are for services: the front end or nginx, etcd and its peers, NATS, a front end behind nginx."""


class LayoutError(ValueError):
    """A topology that cannot be laid on the nodes; the message says why and what would fit."""


def lay_out(role: RoleRecipe, hardware: HardwareSpec, engine: Engine, *, first_node: int) -> WorkerLayout:
    """Place a role's workers from `first_node` on, with the ports that the engine needs. Raises LayoutError."""
    layout = stand(role.role, role.workers, role.topology, hardware.gpus_per_node, first_node=first_node)
    needs = engine.port_needs(role, local_dp=layout.local_dp, one_node=layout.mode is LaunchMode.ONE_NODE)
    return replace(layout, ports=_blocks(needs), slot_ports=sum(needs.values()))


def stand(role: Role, workers: int, topology: Topology, gpus_per_node: int, *, first_node: int = 0) -> WorkerLayout:
    """Return the nodes and GPUs of a role's workers, without ports. Raises LayoutError.

    Rule (vLLM `engine/arg_utils.py`, and what the reference launcher resolves): a replica that fits a node gives per-node data
    parallelism with a load balancer and an endpoint on every node; one that does not gives one rendezvous over all nodes of the
    worker; a worker that fits into a node is one process, and several share the node.
    """
    if topology.gpus <= gpus_per_node:
        mode, nodes, per_process, local_dp = LaunchMode.ONE_NODE, 1, topology.gpus, topology.dp
    elif topology.replica_gpus <= gpus_per_node:
        local_dp = _ranks_per_node(topology, gpus_per_node)
        mode, nodes, per_process = LaunchMode.NODE_LOCAL_DP, topology.dp // local_dp, local_dp * topology.replica_gpus
    else:
        nodes_per_replica = _nodes_per_replica(topology, gpus_per_node)
        mode, nodes, local_dp = LaunchMode.SPANNING, nodes_per_replica * topology.dp, 1
        per_process = topology.replica_gpus // nodes_per_replica
    return WorkerLayout(
        role=role,
        mode=mode,
        workers=workers,
        nodes_per_worker=nodes,
        workers_per_node=gpus_per_node // topology.gpus if mode is LaunchMode.ONE_NODE else 1,
        gpus_per_process=per_process,
        local_dp=local_dp,
        first_node=first_node,
        ports=(),
        slot_ports=0,
    )


def beside(layout: WorkerLayout, host: WorkerLayout) -> WorkerLayout:
    """Move a role's workers to the GPUs that `host` leaves free on its last node, and on from there. Raises LayoutError.

    They begin at the first free slot of their own size, counted in GPUs from the node's first, so that a worker's GPUs are those of
    a slot on every node. On a node of both, their ports begin where those of `host` end.
    """
    for one in (host, layout):
        if one.mode is not LaunchMode.ONE_NODE:
            raise LayoutError(
                f"a {one.role.value} worker takes {one.nodes_per_worker} nodes, and only workers that fit into one can share it with another role: "
                "leave `colocate` out, or take smaller workers"
            )
    last = host.first_node + host.nodes - 1
    there = (host.workers + host.first_slot - 1) % host.workers_per_node + 1
    slot = -(-there * host.gpus_per_process // layout.gpus_per_process)
    if slot >= layout.workers_per_node:
        return replace(layout, first_node=last + 1)
    behind = max(0, there * host.slot_ports - slot * layout.slot_ports)
    ports = tuple(replace(port, base=port.base + behind) for port in layout.ports)
    return replace(layout, first_node=last, first_slot=slot, ports=ports)


def span(layouts: Sequence[WorkerLayout]) -> int:
    """Nodes from the first to the last of these roles; one that two of them share counts once."""
    return max(one.first_node + one.nodes for one in layouts) - min(one.first_node for one in layouts)


def idle_gpus(layouts: Sequence[WorkerLayout], hardware: HardwareSpec) -> int:
    """GPUs that no process uses on the nodes of these roles, which follow each other."""
    used = sum(one.workers * one.nodes_per_worker * one.gpus_per_process for one in layouts)
    return span(layouts) * hardware.gpus_per_node - used


def ports_of_node(layout: WorkerLayout) -> int:
    """How many ports from WORKER_PORTS on the workers of one node take at most, those before their own included."""
    start = min((port.base for port in layout.ports), default=WORKER_PORTS) - WORKER_PORTS
    return start + layout.slot_ports * min(layout.workers + layout.first_slot, layout.workers_per_node)


def _ranks_per_node(topology: Topology, gpus: int) -> int:
    fitting = gpus // topology.replica_gpus
    if topology.dp % fitting:
        raise LayoutError(
            f"{topology} does not divide into nodes of {gpus} GPUs: {fitting} replicas of {topology.replica_gpus} GPUs fit a node, "
            f"and DP{topology.dp} is not a multiple of {fitting}"
        )
    return fitting


def _nodes_per_replica(topology: Topology, gpus: int) -> int:
    fewest = -(-topology.replica_gpus // gpus)
    if topology.replica_gpus % fewest:
        raise LayoutError(
            f"{topology} does not divide into nodes of {gpus} GPUs: a replica has TP{topology.tp} x PP{topology.pp} = "
            f"{topology.replica_gpus} GPUs, which {fewest} nodes cannot share evenly"
        )
    return fewest


def _blocks(needs: Mapping[str, int]) -> tuple[Port, ...]:
    base = WORKER_PORTS
    ports = []
    for name, count in needs.items():
        ports.append(Port(name, base, count))
        base += count
    return tuple(ports)
