"""The seam between recipegen and whatever queues and runs jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class Activity(Enum):
    """What a scheduler's state says about the job's life."""

    ACTIVE = "active"
    """Queued, running, or sure to be so again."""
    ENDED = "ended"
    """Nothing of it will run any more."""
    UNKNOWN = "unknown"
    """Nothing is known, which is not the same as ended."""


class SchedulerState(str, Enum):
    """Slurm's job states and state flags (`man squeue`, JOB STATE CODES; 24.11), and UNKNOWN."""

    BOOT_FAIL = "BOOT_FAIL"
    CANCELLED = "CANCELLED"
    COMPLETED = "COMPLETED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    DEADLINE = "DEADLINE"
    EXPEDITING = "EXPEDITING"
    FAILED = "FAILED"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PENDING = "PENDING"
    POWER_UP_NODE = "POWER_UP_NODE"
    PREEMPTED = "PREEMPTED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    REVOKED = "REVOKED"
    RUNNING = "RUNNING"
    SIGNALING = "SIGNALING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    STAGE_OUT = "STAGE_OUT"
    STOPPED = "STOPPED"
    SUSPENDED = "SUSPENDED"
    TIMEOUT = "TIMEOUT"
    UPDATE_DB = "UPDATE_DB"
    UNKNOWN = "UNKNOWN"

    @property
    def activity(self) -> Activity:
        """Whether a job in this state lives; one table for all who ask."""
        return _ACTIVITY[self]

    @property
    def queued(self) -> bool:
        """Whether the job waits for (or again for) its nodes."""
        return self in _QUEUED

    @classmethod
    def parse(cls, text: str) -> SchedulerState:
        """Read a state as squeue, scontrol or sacct write it (`CANCELLED by 1000`, `COMPLETED+`); unheard-of is UNKNOWN."""
        words = text.strip().upper().split()
        name = words[0].rstrip("+") if words else ""
        return cls(name) if name in cls.__members__ else cls.UNKNOWN


_S = SchedulerState
_ENDED = {_S.BOOT_FAIL, _S.CANCELLED, _S.COMPLETED, _S.DEADLINE, _S.FAILED, _S.NODE_FAIL, _S.OUT_OF_MEMORY, _S.PREEMPTED, _S.TIMEOUT}
_NOTHING_SAID = {_S.UNKNOWN, _S.REVOKED, _S.RECONFIG_FAIL, _S.UPDATE_DB}
_QUEUED = {_S.PENDING, _S.REQUEUED, _S.REQUEUE_FED, _S.REQUEUE_HOLD, _S.RESV_DEL_HOLD, _S.SPECIAL_EXIT, _S.LAUNCH_FAILED}
_ACTIVITY = {
    state: Activity.ENDED if state in _ENDED else Activity.UNKNOWN if state in _NOTHING_SAID else Activity.ACTIVE for state in SchedulerState
}


@dataclass(frozen=True)
class JobView:
    """What the scheduler says about one job; `nodes` and `reason` are in its own words.

    `exit_code` and `signal` are the two halves of Slurm's `0:15`; `start` is UNIX seconds, for a queued job the expected
    start; `restarts` is how often the job was requeued. What is not told is None or empty.
    """

    job: str
    state: SchedulerState
    reason: str = ""
    exit_code: int | None = None
    signal: int = 0
    nodes: str = ""
    start: float | None = None
    restarts: int | None = None


@dataclass(frozen=True, kw_only=True)
class Submission:
    """One job to queue: `script` with `args`, `options` for the scheduler before it, `env` added to the job's environment.

    Paths are absolute; `run_dir` is the run folder, and the job's working directory.
    """

    run_dir: str
    script: str
    args: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Scheduler(Protocol):
    """Four verbs; an implementation asks its transport and keeps no state of its own that another process would need."""

    def submit(self, submission: Submission) -> str:
        """Queue a job and return its id; SubmissionRefused, with the scheduler's own words, when it does not take it."""

    def poll(self, jobs: Sequence[str]) -> Mapping[str, JobView]:
        """Ask about all jobs at once; the answer has every one of them, UNKNOWN when the scheduler does not know it.

        PollError when the question could not be asked or answered: that says nothing about any job.
        """

    def cancel(self, job: str) -> None:
        """Ask for a job's end; one that has ended, or is not known, is no error. PollError when it could not be asked."""

    def find(self, run_id: str, run_dir: str) -> str | None:
        """Return the job that was submitted for a run, as when nobody was left to write its id down. PollError as with `poll`."""
