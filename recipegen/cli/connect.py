"""What a verb has to work with: the process's surroundings, and the machine that a run is on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from recipegen.errors import InputError, RecipegenError
from recipegen.lifecycle.clock import Clock, SystemClock

if TYPE_CHECKING:
    from recipegen.lifecycle.states import Limits
    from recipegen.lifecycle.tracker import Tracker
    from recipegen.run_index import IndexEntry, RunIndex
    from recipegen.runs import RunRecord
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
    open_index: Callable[[], RunIndex]
    connect: Connect

    @classmethod
    def of_process(cls, environ: Mapping[str, str], *, terminal: bool) -> Session:
        """Return the surroundings of this process; `terminal` is whether a person reads its output."""
        lively = terminal and environ.get("TERM", "") not in ("", "dumb")
        return cls(environ=environ, terminal=lively, clock=SystemClock(), open_index=lambda: _index_of(environ), connect=connect)

    @cached_property
    def index(self) -> RunIndex:
        """The user's list of runs; opened when it is asked for."""
        return self.open_index()

    def open_run(self, name: str, *, exactly: bool = False) -> tuple[RunRecord, Machine]:
        """Find the run that RUN names, connect to its machine, and read its record there."""
        entry = self.index.find(name, exactly=exactly)
        machine = self.connect(entry.cluster, entry.scheduler)
        return read_entry(machine, entry), machine

    def track(self, runs: Sequence[RunRecord], machine: Machine, *, limits: Limits | None = None) -> Tracker:
        """Return what follows runs, and enters in the index the jobs that it finds again."""
        from recipegen.lifecycle.tracker import Tracker  # the pure verbs never track

        return Tracker(runs, machine.transport, machine.scheduler, self.clock, limits=limits, on_job=self.index.update)


def _index_of(environ: Mapping[str, str]) -> RunIndex:
    from recipegen.run_index import RunIndex  # the pure verbs have no runs

    return RunIndex.of_user(environ)


def read_entry(machine: Machine, entry: IndexEntry) -> RunRecord:
    """Read a run's record; of one that is gone or damaged, what the index knows: tracking then tells what is wrong."""
    from recipegen.runs import read_run  # see above

    try:
        return read_run(machine.transport, entry.run_dir)
    except RecipegenError:
        return entry.as_record()


def connect(cluster: Mapping[str, object], scheduler: str) -> Machine:
    """Build the transport and the scheduler of a cluster; their modules are imported only here."""
    from recipegen.transport.local import LocalTransport  # see above

    transport = LocalTransport()
    if scheduler == "slurm":
        from recipegen.scheduler.slurm import SlurmScheduler  # see above

        return Machine(transport, SlurmScheduler(transport))
    if scheduler == "local":
        from recipegen.scheduler.local import LocalScheduler  # see above

        root = cluster.get("run_root")
        if not isinstance(root, str) or not root.startswith("/") or "\0" in root:
            raise InputError(f"cluster {cluster.get('name')!r} has run_root {root!r}; expected an absolute path")
        return Machine(transport, LocalScheduler(root))
    raise InputError(f"cluster {cluster.get('name')!r} has scheduler {scheduler!r}; expected slurm or local")
