"""Where srtctl puts workers of both roles that may share a node, and which of ours stands elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from recipegen.launch import WorkerLayout

Place = tuple[int, int]
"""The node of a worker, counted from the first of them all, and its first GPU there."""


def places(layouts: Sequence[WorkerLayout]) -> list[Place]:
    """Return where workers stand that fit into a node: each in a slot of its own size."""
    return [(one.node(worker), one.slot(worker) * one.gpus_per_process) for one in layouts for worker in range(one.workers)]


def packed(sizes: Sequence[int], gpus_per_node: int) -> list[Place]:
    """Return where srtctl puts workers of these GPUs (`core/topology.py`, `allocate_endpoints`).

    It leaves no gap behind a worker; one that fills a node does not heed what stands there.
    """
    node, used = 0, 0
    found: list[Place] = []
    for size in sizes:
        if size == gpus_per_node:
            found.append((node, 0))
            node += 1
            continue
        if used + size > gpus_per_node:
            node, used = node + 1, 0
        found.append((node, used))
        node, used = (node + 1, 0) if used + size == gpus_per_node else (node, used + size)
    return found


def elsewhere(layouts: Sequence[WorkerLayout], theirs: Sequence[Place], nodes: int) -> str:
    """Return what to say of the first worker that srtctl, with so many nodes, puts on another node, or on none; empty where there is none."""
    names = [f"{one.role.value} worker {number}" for one in layouts for number in range(one.workers)]
    for name, (node, _), place in zip(names, places(layouts), theirs, strict=True):
        if node == place[0] < nodes:
            continue
        where = f"on node {place[0]}" if place[0] < nodes else f"on a further one than the {nodes} that it asks for, and end"
        where += ", on GPUs that another worker has" if theirs.count(place) > 1 else ""
        return f"{name} stands on node {node}, but srtctl, which packs workers of both roles without gaps, would put it {where}"
    return ""
