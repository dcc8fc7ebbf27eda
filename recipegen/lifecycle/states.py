"""The nouns of tracking: the phases of a run, what is known of it, and what one look at it saw."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from recipegen.lifecycle.events import Event, Stamp
from recipegen.lifecycle.markers import Endpoint, Exit
from recipegen.model import Role
from recipegen.scheduler import JobView, SchedulerState


class Phase(str, Enum):
    """Where a run stands: those up to MEASURING live, in this order; LOST may be found again; the others are final."""

    SUBMITTED = "SUBMITTED"
    PENDING = "PENDING"
    ALLOCATED = "ALLOCATED"
    STARTING = "STARTING"
    LOADING = "LOADING"
    COMPILING = "COMPILING"
    CAPTURING = "CAPTURING"
    REGISTERING = "REGISTERING"
    READY = "READY"
    MEASURING = "MEASURING"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMED_OUT = "TIMED_OUT"
    LOST = "LOST"

    @property
    def final(self) -> bool:
        """Whether nothing can follow."""
        return self in _FINAL

    @property
    def over(self) -> bool:
        """Whether there is nothing to wait for: final, or lost."""
        return self in _FINAL or self is Phase.LOST

    @property
    def rank(self) -> int:
        """Place in the order of a life."""
        return _ORDER[self]


_FINAL = frozenset({Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.TIMED_OUT})
_ORDER = {phase: place for place, phase in enumerate(Phase)}


@dataclass(frozen=True)
class Worker:
    """One worker, `prefill-0`, and the phase it has reached as far as its events and its log tell."""

    name: str
    phase: Phase
    detail: str = ""


@dataclass(frozen=True)
class RoleCount:
    """Instances of one role: how many have registered of how many expected."""

    role: Role
    registered: int
    expected: int

    def __str__(self) -> str:
        return f"{self.role.value} {self.registered}/{self.expected}"


@dataclass(frozen=True, kw_only=True)
class Trail:
    """What the next look needs to know about the looks before it; times are of the tracker's clock, or a writer's."""

    restart: int = 0
    started: float | None = None
    """When the job began to run."""
    last_sign: float = 0.0
    """When anything was last heard, from the scheduler or from the job."""
    failed_polls: int = 0
    """Polls in a row that failed."""
    unknown_polls: int = 0
    """Polls in a row whose answer was UNKNOWN."""
    said: SchedulerState = SchedulerState.UNKNOWN
    """The last state that the scheduler gave, UNKNOWN aside."""
    ended_at: float | None = None
    """When the scheduler was first seen to say that the job has ended."""
    exit_at: float | None = None
    """When the exit marker was first seen."""
    stopping: str = ""
    """Why the job stops its steps; a step that ends then does not fail."""
    failure: str = ""
    """What ended that should not have, for people."""
    counted_at: float = 0.0
    """Time of the newest count of instances."""
    completions: str = ""
    """How many completions in a row have returned tokens, of how many that are needed."""
    serving: str = ""
    """How many instances have been seen to serve, of how many that tell."""


@dataclass(frozen=True, kw_only=True)
class RunState:
    """What is known of a run. `phase` is `reached` while it lives; `reason` is one word, `diagnosis` a line for people, `note` one of the job's."""

    phase: Phase = Phase.SUBMITTED
    detail: str = ""
    reached: Phase = Phase.SUBMITTED
    workers: tuple[Worker, ...] = ()
    instances: tuple[RoleCount, ...] = ()
    url: str = ""
    model: str = ""
    nodes: str = ""
    reason: str = ""
    diagnosis: str = ""
    warning: str = ""
    note: str = ""
    trail: Trail = field(default_factory=Trail, compare=False)

    @property
    def was_ready(self) -> bool:
        """Whether the endpoint has ever answered."""
        return self.reached.rank >= Phase.READY.rank


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How patient tracking is, in seconds and in polls in a row."""

    exit_grace_s: float = 60
    """How long after the job's end its exit marker may take to show: NFS keeps a directory's listing up to 60 s."""
    ready_margin_s: float = 120
    """How far beyond its own deadline a job may be before tracking calls it: it should have said so itself."""
    silence_s: float = 600
    """How long nothing must have been heard before a run can be LOST."""
    failed_polls: int = 20
    unknown_polls: int = 5


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One look at one run: the scheduler's word (or why there is none), and what is new in the run folder.

    The scheduler is asked after the files are read: when a step's end was seen, its word already tells whether somebody
    else, a user or the time limit, is ending the whole job.
    """

    now: float
    job: str | None
    created: float
    ready_timeout_s: float
    limits: Limits = field(default_factory=Limits)
    view: JobView | None = None
    poll_error: str = ""
    unreadable: str = ""
    events: tuple[Event, ...] = ()
    progress: tuple[Worker, ...] = ()
    endpoint: Endpoint | None = None
    exit: Exit | None = None

    def belongs(self, stamp: Stamp, restart: int) -> bool:
        """Whether something was written by the followed job, in the followed start of it."""
        return stamp.job == self.job and stamp.restart == restart
