"""A run on a machine in memory: what its job and its scheduler do is said line by line."""

from __future__ import annotations

import json
from collections.abc import Mapping

from recipegen.lifecycle.clock import ScriptedClock
from recipegen.lifecycle.states import Limits
from recipegen.lifecycle.tracker import Pace, Tracker
from recipegen.model import Role
from recipegen.runs import RunRecord, new_run_id, write_run
from recipegen.scheduler import SchedulerState
from recipegen.scheduler.scripted import ScriptedScheduler
from recipegen.transport.scripted import ScriptedTransport

START = 1_800_000_000.0


def make_record(
    *, job: str | None = "42", token: str = "ab12", point: str = "1xtp8-1xtp8-mtp-cc1", expected: Mapping[Role, int] | None = None
) -> RunRecord:
    run_id = new_run_id(point, START, token)
    return RunRecord(
        id=run_id,
        point=point,
        name=f"qwen-{point}",
        digest="d" * 64,
        simulate=False,
        created=START,
        run_dir=f"/runs/{run_id}",
        cluster={"name": "oslo", "scheduler": "slurm"},
        scheduler="slurm",
        job=job,
        submitted=START if job else None,
        time_limit_s=3600,
        ready_timeout_s=1800,
        expected=expected or {Role.PREFILL: 1, Role.DECODE: 1},
    )


class ScriptedRun:
    """One run, its folder and its job; `job` writes events and markers, `slurm` gives the scheduler's words."""

    def __init__(
        self,
        record: RunRecord | None = None,
        *,
        transport: ScriptedTransport | None = None,
        scheduler: ScriptedScheduler | None = None,
        clock: ScriptedClock | None = None,
    ) -> None:
        self.record = record or make_record()
        self.transport = transport or ScriptedTransport()
        self.scheduler = scheduler or ScriptedScheduler()
        self.clock = clock or ScriptedClock(START)
        write_run(self.transport, self.record)

    def tracker(self, limits: Limits | None = None) -> Tracker:
        return Tracker([self.record], self.transport, self.scheduler, self.clock, limits=limits, pace=Pace(fastest=5, slowest=30))

    def event(self, event: str, *, writer: str = "job", restart: int = 0, job: str | None = None, **keys: object) -> None:
        line = {"time": self.clock.now(), "job": job or self.record.job, "restart": restart, "event": event} | keys
        self.transport.append(self.record.paths.events(writer), json.dumps(line).encode() + b"\n")

    def endpoint(self, *, restart: int = 0, job: str | None = None) -> None:
        self._mark(self.record.paths.endpoint, restart, job, url="http://10.0.0.11:20000", model="qwen", instances={"prefill": 1, "decode": 1})

    def exit(
        self, reason: str, *, code: int = 0, step: str = "", ready: bool = False, restart: int = 0, job: str | None = None, detail: str = ""
    ) -> None:
        self._mark(self.record.paths.exit, restart, job, code=code, reason=reason, step=step, ready=ready, detail=detail)

    def slurm(self, state: SchedulerState, **words: str | float | None) -> None:
        assert self.record.job is not None
        self.scheduler.say(self.record.job, state, **words)

    def start(self) -> None:
        """Get the nodes and start the workers."""
        self.slurm(SchedulerState.RUNNING, nodes="c[01-02]", start=self.clock.now())
        self.event("job_started", nodes=2)
        self.event("container_ready")
        self.event("step_started", step="prefill-0")
        self.event("step_started", step="decode-0")

    def become_ready(self) -> None:
        self.event("instances", writer="probe", prefill=1, decode=1, expected={"prefill": 1, "decode": 1})
        self.event("completion", writer="probe", ok=3, needed=3, tokens=8)
        self.endpoint()
        self.event("ready", writer="probe", url="http://10.0.0.11:20000")

    def _mark(self, path: str, restart: int, job: str | None, **keys: object) -> None:
        marker = {"job": job or self.record.job, "restart": restart, "time": self.clock.now()} | keys
        self.transport.put(path, json.dumps(marker).encode())
