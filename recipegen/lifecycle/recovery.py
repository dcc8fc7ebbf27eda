"""Finding the job of a run whose submission was killed before it wrote the job's id down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from recipegen.errors import TransportError
from recipegen.lifecycle.events import parse_events, parse_object
from recipegen.runs import RunPaths, RunRecord, write_run
from recipegen.scheduler import Scheduler
from recipegen.transport import Transport

_JOB = re.compile(r"[1-9][0-9]{0,17}")


def find_job(run: RunRecord, transport: Transport, scheduler: Scheduler) -> str | None:
    """Return the job by its own marks in the run folder, else by what the scheduler has queued for the run.

    PollError or TransportError when that could not be asked.
    """
    return next(_marked_jobs(transport, run.paths), None) or scheduler.find(run.id, run.run_dir)


def record_job(run: RunRecord, job: str, transport: Transport) -> RunRecord:
    """Enter a job that was found into the run's record, on the disk too where that can be written."""
    found = run.with_job(job, run.created)
    if run.is_whole:
        with suppress(TransportError):
            write_run(transport, found)
    return found


def _marked_jobs(transport: Transport, paths: RunPaths) -> Iterator[str]:
    """Return who wrote into the folder, the latest first: a folder has one job."""
    for path in (paths.endpoint, paths.ran, paths.exit):
        yield from _job_of(_read_object(transport, path))
    with suppress(TransportError):
        for event in reversed(parse_events(transport.read(paths.events("job")) or b"").events):
            yield from _job_of({"job": event.stamp.job})


def _read_object(transport: Transport, path: str) -> Mapping[str, object]:
    with suppress(TransportError):
        return parse_object(transport.read(path)) or {}
    return {}


def _job_of(record: Mapping[str, object]) -> Iterator[str]:
    job = record.get("job")
    if isinstance(job, str) and _JOB.fullmatch(job):
        yield job
