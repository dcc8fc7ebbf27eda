"""The processes on the nodes of a test cluster, found by network namespace, as `ip netns pids` finds them; the nodes' own daemons left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.slurm_cluster import SlurmCluster

STEP_DAEMON = "slurmstepd"


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process of a job, as it was when it was seen."""

    pid: int
    parent: int
    node: str
    name: str  # at most 15 characters: /proc/PID/comm
    argv: str
    environ: dict[str, str]


def processes_on(cluster: SlurmCluster) -> list[Process]:
    """Everything that jobs have running on the nodes."""
    node_by_namespace = {Path(f"/run/netns/{cluster.bridge}-{node}").stat().st_ino: node for node in cluster.nodes}
    daemons = {int(text) for path in (cluster.base / "pid").glob("slurmd.*.pid") if (text := path.read_text().strip())}
    return [process for pid, node in _pids(node_by_namespace) if pid not in daemons and (process := _look_at(pid, node)) is not None]


def tasks_on(cluster: SlurmCluster, *, node: str | None = None) -> list[Process]:
    """The tasks of steps and the batch scripts: what Slurm itself started."""
    found = processes_on(cluster)
    daemons = {process.pid for process in found if process.name == STEP_DAEMON}
    return [process for process in found if process.parent in daemons and process.name != STEP_DAEMON and node in (None, process.node)]


def _pids(node_by_namespace: dict[int, str]) -> Iterator[tuple[int, str]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            node = node_by_namespace.get((folder / "ns/net").stat().st_ino)
        except OSError:  # it has ended
            continue
        if node is not None:
            yield int(folder.name), node


def _look_at(pid: int, node: str) -> Process | None:
    """None when it has ended; a zombie, which only waits to be reaped, has."""
    folder = Path(f"/proc/{pid}")
    try:
        before, _, after = (folder / "stat").read_text().rpartition(")")
        state, parent = after.split()[:2]
        argv = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        entries = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return None
    if state in "ZX":
        return None
    environ = dict(entry.split("=", 1) for entry in entries if "=" in entry)
    return Process(pid=pid, parent=int(parent), node=node, name=before.partition("(")[2], argv=argv, environ=environ)
