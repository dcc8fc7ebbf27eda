"""The scheduler that is Slurm, through its commands over a transport."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from recipegen.errors import PollError, SubmissionInterrupted, SubmissionRefused, TransportError
from recipegen.scheduler import Activity, JobView, SchedulerState, Submission, slurm_text
from recipegen.transport import Completed, Transport

# Variables of the caller's Slurm (SBATCH_PARTITION, SQUEUE_STATES, SLURM_JOB_ID inside a job, ...) would change what the commands
# do; only how to reach and to convince the controller stays. In sh, so that it holds wherever the transport ends.
_CLEAN = r"""
for name in $(env | sed -n 's/^\(\(SBATCH\|SLURM\|SQUEUE\|SACCT\|SCANCEL\|SCONTROL\)_[A-Za-z0-9_]*\)=.*/\1/p'); do
  case $name in SLURM_CONF | SLURM_CONF_SERVER | SLURM_JWT) ;; *) unset "$name" ;; esac
done
exec "$@"
"""
_SUBMIT_TIMEOUT_S = 120.0  # sbatch itself tries a controller that does not answer for up to a minute
_POLL_TIMEOUT_S = 60.0
_SIGNAL_TIMEOUT_S = 30.0


class SlurmScheduler:
    """Slurm from 22.05 on, with accounting or without.

    `grace_s` is how long a cancelled job may take to tear itself down before Slurm ends it.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        grace_s: float = 90.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._transport = transport
        self._grace_s = grace_s
        self._clock = clock
        self._sleep = sleep

    def submit(self, submission: Submission) -> str:
        """Queue the script as it is; what sbatch says when it refuses is the message."""
        command = submit_command(submission)
        try:
            done = self._transport.run(_cleaned(command, submission.env), timeout=_SUBMIT_TIMEOUT_S)
        except TransportError as error:
            raise SubmissionRefused(f"sbatch: {error}", hint=_perhaps_queued(submission, error.hint)) from error
        except KeyboardInterrupt as error:
            raise SubmissionInterrupted("sbatch was interrupted before it answered", hint=_perhaps_queued(submission)) from error
        if done.code != 0:
            raise SubmissionRefused(f"sbatch refused the job: {_said(done)}", hint=_submit_hint(done))
        job = slurm_text.parse_submitted(done.stdout)
        if job is None:
            raise SubmissionRefused(f"sbatch printed no job id but {done.stdout.strip()!r}", hint="see `squeue --me` for what it queued")
        return job

    def poll(self, jobs: Sequence[str]) -> Mapping[str, JobView]:
        """Ask squeue about all, sacct about those it no longer knows, scontrol where there is no accounting."""
        known: dict[str, JobView] = {}
        for ask in (self._squeue, self._sacct):
            asked = [job for job in dict.fromkeys(jobs) if job not in known and slurm_text.is_job(job)]
            if asked:
                known |= {view.job: view for view in ask(asked)}
        return {job: known.get(job) or JobView(job, SchedulerState.UNKNOWN) for job in jobs}

    def cancel(self, job: str) -> None:
        """Let the batch script tear down, and end the job when it has not ended after the grace time.

        `scancel --signal=TERM --batch` reaches the batch shell alone, whose trap may take its time. A plain scancel kills all steps
        at once and the script after KillWait (5 to 30 s), and with --full the srun clients get TERM, too, and kill their steps; 24.11 and
        22.05 alike. A queued job has no script to signal: scancel would try for a minute and a half.
        """
        if not slurm_text.is_job(job):
            return
        self._scancel("--state=PENDING", job)
        if self._over(job):
            return
        if self._poll_one(job).state is SchedulerState.RUNNING and self._scancel("--signal=TERM", "--batch", job):
            deadline = self._clock() + self._grace_s
            while self._clock() < deadline:
                if self._over(job):
                    return
                self._sleep(1.0)
        self._scancel(job)

    def find(self, run_id: str, run_dir: str) -> str | None:  # noqa: ARG002  # a comment is shorter than a path, and no link hides it
        """Return the newest job of this user whose comment is the run's id."""
        done = self._run(["squeue", "--me", "--noheader", "--states=all", f"--format={slurm_text.COMMENT_FORMAT}"], _POLL_TIMEOUT_S)
        if done.code != 0:
            raise PollError(f"squeue: {_said(done)}")
        return slurm_text.job_of_comment(done.stdout, run_id)

    def _over(self, job: str) -> bool:
        view = self._poll_one(job)
        return view.state.activity is Activity.ENDED or view.state is SchedulerState.COMPLETING

    def _poll_one(self, job: str) -> JobView:
        return self.poll([job])[job]

    def _scancel(self, *arguments: str) -> bool:
        """Return whether something was there to signal."""
        done = self._run(["scancel", *arguments], _SIGNAL_TIMEOUT_S)
        if done.code == 0:
            return True
        if slurm_text.says_already_gone(done.stderr):
            return False
        raise PollError(f"scancel: {_said(done)}")

    def _squeue(self, jobs: Sequence[str]) -> Iterable[JobView]:
        command = ["squeue", "--noheader", "--states=all", f"--jobs={','.join(jobs)}", f"--Format={slurm_text.SQUEUE_FORMAT}"]
        done = self._run(command, _POLL_TIMEOUT_S)
        # of several ids squeue leaves out what it does not know; about a single one it complains
        if done.code != 0 and not slurm_text.says_no_such_job(done.stderr):
            raise PollError(f"squeue: {_said(done)}")
        return slurm_text.parse_squeue(done.stdout)

    def _sacct(self, jobs: Sequence[str]) -> Iterable[JobView]:
        command = ["sacct", "--noheader", "--allocations", "--parsable2", f"--jobs={','.join(jobs)}", f"--format={slurm_text.SACCT_FIELDS}"]
        done = self._run(command, _POLL_TIMEOUT_S)
        if done.code == 0:
            return slurm_text.parse_sacct(done.stdout)
        if slurm_text.says_no_accounting(done.stderr):
            return [view for job in jobs for view in self._scontrol(job)]
        raise PollError(f"sacct: {_said(done)}")

    def _scontrol(self, job: str) -> Iterable[JobView]:
        done = self._run(["scontrol", "--oneliner", "show", "job", job], _POLL_TIMEOUT_S)
        if done.code != 0 and not slurm_text.says_no_such_job(done.stderr):
            raise PollError(f"scontrol: {_said(done)}")
        return slurm_text.parse_scontrol_job(done.stdout)

    def _run(self, command: Sequence[str], timeout: float) -> Completed:
        try:
            return self._transport.run(_cleaned(command, {"SLURM_TIME_FORMAT": "%s"}), timeout=timeout)
        except TransportError as error:
            raise PollError(f"{command[0]}: {error}", hint=error.hint) from error


def submit_command(submission: Submission) -> tuple[str, ...]:
    """Return the sbatch command line, as `submit --dry-run` shows it."""
    return ("sbatch", "--parsable", *submission.options, submission.script, *submission.args)


def _perhaps_queued(submission: Submission, hint: str = "") -> str:
    comments = [option.partition("=")[2] for option in submission.options if option.startswith("--comment=")]
    named = f" for a job with the comment {comments[-1]}" if comments else ""
    return f"whether the job was queued is not known: see `squeue --me --format='%i %k'`{named}; {hint}".rstrip("; ")


def _cleaned(command: Sequence[str], env: Mapping[str, str]) -> list[str]:
    return ["sh", "-c", _CLEAN, "sh", "env", *(f"{name}={value}" for name, value in sorted(env.items())), *command]


def _said(done: Completed) -> str:
    if done.code in (126, 127) and "error:" not in done.stderr:
        return "the command is not there; is this a machine of the cluster, and are Slurm's commands on its PATH?"
    return slurm_text.message(done.stderr, f"exit code {done.code}")


def _submit_hint(done: Completed) -> str:
    if "--segment" in done.stderr:
        return "this Slurm may be older than 23.11: set slurm.segment to false in the cluster profile"
    if "nvalid account" in done.stderr or "nvalid partition" in done.stderr or "nvalid qos" in done.stderr:
        return "account, partition, qos and reservation stand in the cluster profile"
    return ""
