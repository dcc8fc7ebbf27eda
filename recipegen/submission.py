"""Submit one bundle: stage its bytes and the site's values into a new run folder, hand it to the scheduler, record the run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from recipegen.clusters import ClusterProfile, sbatch_options, site_env
from recipegen.errors import RecipegenError, SubmissionRefused, TransportError
from recipegen.launch import Bundle, LaunchPlan
from recipegen.render import bundle_digest
from recipegen.run_index import RunIndex
from recipegen.runs import RunPaths, RunRecord, format_run, write_run
from recipegen.scheduler import Scheduler, Submission
from recipegen.transport import Transport


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """All that a submission would write and run; nothing has been touched yet."""

    record: RunRecord
    files: Mapping[str, bytes]
    submission: Submission


def prepare(
    plan: LaunchPlan,
    bundle: Bundle,
    profile: ClusterProfile,
    *,
    run_id: str,
    now: float,
    profile_json: Mapping[str, object],
    time_limit_s: int | None = None,
) -> Prepared:
    """Work out a submission. `time_limit_s` replaces the recipe's limit.

    The deadline for READY is the profile's, or the recipe's where that is later, cut to fit the limit.
    """
    limit = time_limit_s or plan.directives.time_limit_s
    ready = max(profile.ready_timeout_s, plan.recipe.job.ready_s)  # as job.sbatch reckons it
    paths = RunPaths(f"{profile.run_root.rstrip('/')}/{run_id}")
    folder = paths.bundle(bundle.point)
    digest = bundle_digest(bundle)
    record = RunRecord(
        id=run_id,
        point=bundle.point,
        name=plan.recipe.name,
        digest=digest,
        simulate=plan.engine == "mocker",
        created=now,
        run_dir=paths.run_dir,
        cluster=profile_json,
        scheduler=profile.scheduler,
        job=None,
        submitted=None,
        time_limit_s=limit,
        ready_timeout_s=max(0, min(ready, limit - profile.reserve_s)),
        expected=plan.expected,
    )
    files = {f"{folder}/{name}": data for name, data in bundle.files.items()}
    files |= {paths.shared(name): data for name, data in bundle.shared.items()}
    nginx_image = plan.recipe.job.nginx_image if plan.several_front_ends else ""
    files[paths.site_env] = site_env(profile, image=plan.recipe.runtime.image, repo=plan.recipe.model.repo, nginx_image=nginx_image)
    return Prepared(
        record=record,
        files=files,
        submission=Submission(
            run_dir=paths.run_dir,
            script=f"{folder}/job.sbatch",
            args=(paths.run_dir, digest),
            options=sbatch_options(profile, plan.directives, run_dir=paths.run_dir, run_id=run_id, time_limit_s=time_limit_s),
        ),
    )


def submit(prepared: Prepared, transport: Transport, scheduler: Scheduler, index: RunIndex, *, now: float) -> RunRecord:
    """Stage, submit, record. What fails before the scheduler has taken the job leaves nothing behind.

    Raises SubmissionRefused with the scheduler's or the file system's own words.
    """
    record = prepared.record
    _make_folder(prepared, transport)
    try:
        _stage(prepared, transport)
        index.add(record)
        job = scheduler.submit(prepared.submission)
    except BaseException as error:
        _undo(record, transport, index)
        if isinstance(error, TransportError):
            raise SubmissionRefused(f"the run could not be prepared: {error}", hint=error.hint) from error
        raise
    submitted = record.with_job(job, now)
    try:
        write_run(transport, submitted)
        index.add(submitted)
    except (TransportError, KeyboardInterrupt) as error:
        raise RecipegenError(
            f"job {job} was submitted, but the run could not be recorded: {str(error) or 'interrupted'}",
            hint=f"`recipegen status {shlex.quote(record.run_dir)}` finds the job again, and enters it where that can be written",
        ) from error
    return submitted


def _make_folder(prepared: Prepared, transport: Transport) -> None:
    run_dir = prepared.record.run_dir
    try:
        _require_root(prepared, transport)
        transport.make_dir(run_dir)
    except TransportError as error:
        hint = error.hint or "is run_root of the cluster profile right?"
        raise SubmissionRefused(f"the run folder cannot be made: {error}", hint=hint) from error


def _stage(prepared: Prepared, transport: Transport) -> None:
    for path, data in prepared.files.items():
        transport.put(path, data)
    transport.put(prepared.record.paths.record, format_run(prepared.record))


def _undo(record: RunRecord, transport: Transport, index: RunIndex) -> None:
    """Take back what was prepared; what cannot be removed must not hide why it has to be."""
    with suppress(RecipegenError):
        transport.remove_tree(record.run_dir)
    with suppress(RecipegenError):
        index.remove(record.id)


def _require_root(prepared: Prepared, transport: Transport) -> None:
    """A run root that is not there is more likely a slip of the profile than a folder to make on a shared file system."""
    root = prepared.record.run_dir.rpartition("/")[0]
    if prepared.record.scheduler == "slurm" and transport.run(["test", "-d", root], timeout=30).code != 0:
        raise SubmissionRefused(f"run_root {root} is not a folder here", hint=f"if it is the right one: mkdir -p {shlex.quote(root)}")
