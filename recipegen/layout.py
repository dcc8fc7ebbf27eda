"""Where the workers of one role stand: nodes, GPUs, data-parallel ranks, port blocks."""

from __future__ import annotations

from collections.abc import Mapping

from recipegen.engine import Engine
from recipegen.launch import LaunchMode, Port, WorkerLayout
from recipegen.model import HardwareSpec, RoleRecipe, Topology

PORT_BASE = 20_000
PORT_LIMIT = 32_768
"""Linux hands out ephemeral ports from here on (net.ipv4.ip_local_port_range); ours stay below, offset included."""
WORKER_PORTS = PORT_BASE + 10
"""The first ten ports of a node are for services: front end, etcd, NATS."""


class LayoutError(ValueError):
    """A topology that cannot be laid on the nodes; the message says why and what would fit."""


def lay_out(role: RoleRecipe, hardware: HardwareSpec, engine: Engine, *, first_node: int) -> WorkerLayout:
    """Place a role's workers from `first_node` on. Raises LayoutError.

    Rule (vLLM `engine/arg_utils.py`, and what the reference launcher resolves): a replica that fits a node gives per-node data
    parallelism with a load balancer and an endpoint on every node; one that does not gives one rendezvous over all nodes of the
    worker; a worker that fits into a node is one process, and several share the node.
    """
    topology, gpus = role.topology, hardware.gpus_per_node
    if topology.gpus <= gpus:
        mode, nodes, per_process, local_dp = LaunchMode.ONE_NODE, 1, topology.gpus, topology.dp
    elif topology.replica_gpus <= gpus:
        local_dp = _ranks_per_node(topology, gpus)
        mode, nodes, per_process = LaunchMode.NODE_LOCAL_DP, topology.dp // local_dp, local_dp * topology.replica_gpus
    else:
        nodes_per_replica = _nodes_per_replica(topology, gpus)
        mode, nodes, local_dp = LaunchMode.SPANNING, nodes_per_replica * topology.dp, 1
        per_process = topology.replica_gpus // nodes_per_replica
    needs = engine.port_needs(topology, local_dp=local_dp, one_node=mode is LaunchMode.ONE_NODE)
    return WorkerLayout(
        role=role.role,
        mode=mode,
        workers=role.workers,
        nodes_per_worker=nodes,
        workers_per_node=gpus // topology.gpus if mode is LaunchMode.ONE_NODE else 1,
        gpus_per_process=per_process,
        local_dp=local_dp,
        first_node=first_node,
        ports=_blocks(needs),
        slot_ports=sum(needs.values()),
    )


def idle_gpus(layout: WorkerLayout, hardware: HardwareSpec) -> int:
    """GPUs of the role's nodes that no process uses."""
    used = layout.workers * layout.nodes_per_worker * layout.gpus_per_process
    return layout.nodes * hardware.gpus_per_node - used


def ports_of_node(layout: WorkerLayout) -> int:
    """How many ports from WORKER_PORTS on the workers of one node take."""
    return layout.slot_ports * min(layout.workers, layout.workers_per_node)


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
