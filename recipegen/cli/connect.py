"""What a verb has to work with: the process's surroundings, and the machine that a run is on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from recipegen.errors import InputError
from recipegen.lifecycle.clock import Clock, SystemClock
from recipegen.run_index import RunIndex
from recipegen.runs import RunRecord, read_run
from recipegen.scheduler import Scheduler
from recipegen.transport import Transport


@dataclass(frozen=True)
class Machine:
    """Where runs are: the way there, and what queues jobs there."""

    transport: Transport
    scheduler: Scheduler


Connect = Callable[[Mapping[str, object], str], Machine]
"""From a profile's JSON object and a scheduler's kind to a machine."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """The surroundings of one command; a test passes its own as click's `obj`."""

    environ: Mapping[str, str]
    terminal: bool
    clock: Clock
    index: RunIndex
    connect: Connect

    @classmethod
    def of_process(cls, environ: Mapping[str, str], *, terminal: bool) -> Session:
        """Return the surroundings of this process; `terminal` is whether a person reads its output."""
        lively = terminal and environ.get("TERM", "") not in ("", "dumb")
        return cls(environ=environ, terminal=lively, clock=SystemClock(), index=RunIndex.of_user(environ), connect=connect)

    def open_run(self, name: str) -> tuple[RunRecord, Machine]:
        """Find the run that RUN names, connect to its machine, and read its record there."""
        entry = self.index.find(name)
        machine = self.connect(entry.cluster, entry.scheduler)
        return read_run(machine.transport, entry.run_dir), machine


def connect(cluster: Mapping[str, object], scheduler: str) -> Machine:
    """Build the transport and the scheduler of a cluster; their modules are imported only here."""
    from recipegen.transport.local import LocalTransport  # see above

    transport = LocalTransport()
    if scheduler == "slurm":
        from recipegen.scheduler.slurm import SlurmScheduler  # see above

        return Machine(transport, SlurmScheduler(transport))
    if scheduler == "local":
        from recipegen.scheduler.local import LocalScheduler  # see above

        return Machine(transport, LocalScheduler(str(cluster.get("run_root"))))
    raise InputError(f"cluster {cluster.get('name')!r} has scheduler {scheduler!r}; expected slurm or local")
