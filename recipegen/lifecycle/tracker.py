"""The one loop that looks at runs until they have come where the caller waits for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from recipegen.errors import PollError, RecipegenError, TransportError
from recipegen.lifecycle.advance import advance
from recipegen.lifecycle.clock import Clock
from recipegen.lifecycle.folder import FolderReader, News
from recipegen.lifecycle.recovery import find_job, record_job
from recipegen.lifecycle.states import Limits, Observation, RoleCount, RunState
from recipegen.runs import RunRecord, read_run
from recipegen.scheduler import JobView, Scheduler
from recipegen.transport import Transport


@dataclass(frozen=True)
class Change:
    """A run came into a state; the first look at a run is a change too."""

    run: RunRecord
    state: RunState
    time: float


@dataclass(frozen=True)
class Pace:
    """Seconds between looks: short while things happen, a tenth of the quiet time later, but not longer than `slowest`."""

    fastest: float = 2
    slowest: float = 30

    def pause(self, quiet: float) -> float:
        """Return how long to wait after so long without a change."""
        return min(self.slowest, max(self.fastest, quiet / 10))


@dataclass
class _Followed:
    run: RunRecord
    reader: FolderReader
    state: RunState
    changed_at: float
    seen: bool = False


@dataclass(frozen=True)
class _Fresh:
    news: News
    unreadable: str = ""
    unasked: str = ""


class Tracker:
    """Follows runs of one machine; a new tracker, anywhere, comes to the same states from the same files.

    `on_job` hears of a run whose job was found again.
    """

    def __init__(
        self,
        runs: Sequence[RunRecord],
        transport: Transport,
        scheduler: Scheduler,
        clock: Clock,
        *,
        limits: Limits | None = None,
        pace: Pace | None = None,
        on_job: Callable[[RunRecord], None] = lambda _run: None,
    ) -> None:
        self._transport = transport
        self._scheduler = scheduler
        self._clock = clock
        self._limits = limits or Limits()
        self._pace = pace or Pace()
        self._on_job = on_job
        self._followed = [_Followed(run, FolderReader(run.paths), _first_state(run), clock.now()) for run in runs]

    @property
    def latest(self) -> list[Change]:
        """All runs as they were at the last look, in the order they were given."""
        return [Change(followed.run, followed.state, followed.changed_at) for followed in self._followed]

    def look(self) -> list[Change]:
        """Look once at every run that is not final: files first, then one question to the scheduler about all."""
        alive = [followed for followed in self._followed if not followed.state.phase.final]
        news = [self._read(followed) for followed in alive]
        views, poll_error = self._poll([followed.run.job for followed in alive if followed.run.job is not None])
        found = []
        for followed, fresh in zip(alive, news, strict=True):
            before = followed.state
            followed.state = advance(before, self._observation(followed.run, fresh, views, fresh.unasked or poll_error))
            if followed.state != before or not followed.seen:
                followed.changed_at = self._clock.now()
                found.append(Change(followed.run, followed.state, followed.changed_at))
            followed.seen = True
        return found

    def follow(self, *, reached: Callable[[RunState], bool], deadline: float | None = None) -> Iterator[Change]:
        """Yield changes until every run has reached what is waited for, or is over, or the deadline has passed."""
        changed_at = self._clock.now()
        while True:
            changes = self.look()
            yield from changes
            now = self._clock.now()
            changed_at = now if changes else changed_at
            left = None if deadline is None else deadline - now
            if all(reached(followed.state) or followed.state.phase.over for followed in self._followed) or (left is not None and left <= 0):
                return
            pause = self._pace.pause(now - changed_at)
            self._clock.sleep(pause if left is None else min(pause, left))

    def _read(self, followed: _Followed) -> _Fresh:
        unreadable, unasked = self._complete(followed)
        if followed.run.job is None:  # nothing in the folder could be told from what a stranger wrote
            return _Fresh(News(), unreadable, unasked)
        news = followed.reader.read(self._transport, ready=followed.state.was_ready)
        return _Fresh(news, unreadable or news.problem)

    def _complete(self, followed: _Followed) -> tuple[str, str]:
        """Read a record again that has no job yet, or is known from the index only, and look for its job."""
        run, unreadable = followed.run, ""
        if run.job is None or not run.is_whole:
            try:
                followed.run = run = read_run(self._transport, run.run_dir)
            except RecipegenError as error:
                unreadable = str(error)
        if run.job is None:
            try:
                job = find_job(run, self._transport, self._scheduler)
            except (PollError, TransportError) as error:
                return unreadable, str(error)
            if job is not None:
                followed.run = record_job(run, job, self._transport)
                self._on_job(followed.run)
        return unreadable, ""

    def _poll(self, jobs: Sequence[str]) -> tuple[Mapping[str, JobView], str]:
        try:
            return self._scheduler.poll(jobs) if jobs else {}, ""
        except (PollError, TransportError) as error:
            return {}, str(error)

    def _observation(self, run: RunRecord, fresh: _Fresh, views: Mapping[str, JobView], poll_error: str) -> Observation:
        news = fresh.news
        return Observation(
            now=self._clock.now(),
            job=run.job,
            created=run.submitted or run.created,
            ready_timeout_s=run.ready_timeout_s,
            limits=self._limits,
            view=views.get(run.job) if run.job is not None else None,
            poll_error=poll_error,
            unreadable=f"the run folder could not be read: {fresh.unreadable}" if fresh.unreadable else "",
            events=news.events,
            endpoint=news.endpoint,
            exit=news.exit,
        )


def _first_state(run: RunRecord) -> RunState:
    return RunState(instances=tuple(RoleCount(role, 0, count) for role, count in run.expected.items()))
