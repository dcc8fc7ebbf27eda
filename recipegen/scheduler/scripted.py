"""A scheduler that says what it was told to say: for tests, and for trying things out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from recipegen.errors import PollError, SubmissionRefused
from recipegen.scheduler import Activity, JobView, SchedulerState, Submission


class ScriptedScheduler:
    """Jobs in a dictionary; `outage` makes polls fail, `refusal` makes submissions fail, as long as they are set."""

    def __init__(self, *, first_job: int = 1, on_cancel: Callable[[str], None] | None = None) -> None:
        self.jobs: dict[str, JobView] = {}
        self.job_of: dict[str, str] = {}
        """By run folder."""
        self.submissions: list[Submission] = []
        self.polls: list[tuple[str, ...]] = []
        self.cancelled: list[str] = []
        self.outage = ""
        self.refusal = ""
        self.on_cancel = on_cancel
        self._next = first_job

    def submit(self, submission: Submission) -> str:
        if self.refusal:
            raise SubmissionRefused(self.refusal)
        job = str(self._next)
        self._next += 1
        self.submissions.append(submission)
        self.jobs[job] = JobView(job, SchedulerState.PENDING)
        self.job_of[submission.run_dir] = job
        return job

    def find(self, run_id: str, run_dir: str) -> str | None:  # noqa: ARG002  # a folder is name enough here
        if self.outage:
            raise PollError(self.outage)
        return self.job_of.get(run_dir)

    def poll(self, jobs: Sequence[str]) -> Mapping[str, JobView]:
        self.polls.append(tuple(jobs))
        if self.outage:
            raise PollError(self.outage)
        return {job: self.jobs.get(job, JobView(job, SchedulerState.UNKNOWN)) for job in jobs}

    def cancel(self, job: str) -> None:
        if self.outage:
            raise PollError(self.outage)
        self.cancelled.append(job)
        view = self.jobs.get(job)
        if view is None or view.state.activity is Activity.ENDED:
            return
        self.jobs[job] = replace(view, state=SchedulerState.CANCELLED)
        if self.on_cancel is not None:
            self.on_cancel(job)

    def say(self, job: str, state: SchedulerState, **words: str | float | None) -> None:
        """Give a job a state, and whatever else a JobView holds."""
        self.jobs[job] = JobView(job, state, **words)  # type: ignore[arg-type]  # the names are checked by JobView itself

    def forget(self, job: str) -> None:
        """Purge a job, as a controller does some time after its end."""
        self.jobs.pop(job, None)
