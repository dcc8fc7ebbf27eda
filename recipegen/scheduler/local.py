"""The scheduler for one machine without Slurm: jobs run at once, as submitit tasks that any later process can find."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import recipegen
from recipegen.errors import PollError, SubmissionRefused
from recipegen.scheduler import Activity, JobView, SchedulerState, Submission
from recipegen.scheduler.local_ending import ending_of, explained, finite
from recipegen.scheduler.local_job import SPOOLED_SCRIPT, STAND_INS, VISIBLE_DEVICES, clean_environment
from recipegen.scheduler.local_request import expand_output, read_request
from recipegen.standins import processes, records
from recipegen.standins.hostlist import compress

FOLDER = "local"
"""The records of a local job, in its run folder."""
_JOBS = ".jobs"
_FIRST_IDS = 100_000
_PACKAGE_ROOT = str(Path(recipegen.__file__).resolve().parent.parent)
_START_TIMEOUT_S = 60.0
_TICK_S = 0.05


class LocalScheduler:
    """Runs jobs on this machine; `root` is the folder of all runs, where job ids are given out.

    A cancelled job may take `grace_s` to tear itself down; `kill_wait_s` is Slurm's KillWait, the time between TERM and KILL.
    """

    def __init__(
        self,
        root: str,
        *,
        grace_s: float = 60.0,
        kill_wait_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = os.path.abspath(root)
        self._grace_s, self._kill_wait_s = grace_s, kill_wait_s
        self._clock, self._sleep = clock, sleep
        self._unrecorded: dict[str, SchedulerState] = {}
        """Ends that this scheduler made where no record of them can be written."""

    def submit(self, submission: Submission) -> str:
        """Start the job and return its id once its batch script runs."""
        folder = os.path.join(submission.run_dir, FOLDER)
        job = ""
        try:
            os.makedirs(folder)
            job = self._take_id(folder)
            self._stage(folder, job, submission)
            self._launch(folder)
        except FileExistsError:
            raise SubmissionRefused(f"{submission.run_dir} already has a job") from None
        except BaseException as error:  # an interruption, too, leaves nothing behind
            self._undo(job, folder)
            if isinstance(error, (OSError, UnicodeDecodeError)):
                raise SubmissionRefused(f"the job cannot be started here: {error}") from error
            raise
        return job

    def poll(self, jobs: Sequence[str]) -> Mapping[str, JobView]:
        """Read the records of all jobs, and look in /proc whether they are still true."""
        with explained("the jobs here cannot be looked at"):
            return {job: self._view(job) for job in jobs}

    def find(self, run_id: str, run_dir: str) -> str | None:  # noqa: ARG002  # the record is in the folder
        """Return the job on record in a run's folder."""
        job = records.read(os.path.join(run_dir, FOLDER, records.JOB)).get("job")
        return job if isinstance(job, str) and job.isdecimal() else None

    def cancel(self, job: str) -> None:
        """Let the batch script tear down, and kill everything of the job that is left after the grace time."""
        with explained(f"job {job} cannot be ended"):
            self._cancel(job)

    # -- the end of a job ----------------------------------------------------------------------------------------------

    def _cancel(self, job: str) -> None:
        folder = self._folder(job)
        if folder is None:
            processes.end_all(lambda: records.processes_of_lost_job(self._root, job), grace_s=self._kill_wait_s)
            self._unrecorded[job] = SchedulerState.CANCELLED
            return
        if ending_of(folder) is not None:
            return
        if (host := self._elsewhere(folder)) is not None:
            raise PollError(f"job {job} runs on {host}; cancel it there")
        state, _ = self._state(folder)
        supervisor, batch = records.supervisor_of(folder), records.batch_of(folder)
        if not self._ask(folder) or not supervisor.alive:
            batch.send(signal.SIGTERM)
        deadline = self._clock() + self._grace_s + (2 * self._kill_wait_s if supervisor.alive else 0.0)
        while (supervisor.alive or batch.alive) and self._clock() < deadline:
            self._sleep(_TICK_S)
        if ending_of(folder) is None:
            # what had failed before has not been cancelled
            self._end_by_hand(job, folder, supervisor, state if state.activity is Activity.ENDED else SchedulerState.CANCELLED)

    def _ask(self, folder: str) -> bool:
        """Ask the supervisor for the end; a full disk cannot take the question, and signals need none."""
        try:
            records.write(os.path.join(folder, records.CANCEL), {"how": "batch", "grace_s": self._grace_s, "time": time.time()})
        except OSError:
            if os.geteuid() not in (0, os.stat(folder).st_uid):  # signals would not be ours to send, either
                raise
            return False
        return True

    def _end_by_hand(self, job: str, folder: str, supervisor: processes.Process, state: SchedulerState) -> None:
        """End a job whose supervisor does not: nothing of it stays."""
        processes.end_all(lambda: records.job_processes(folder), grace_s=self._kill_wait_s if not supervisor.alive else 0.0)
        if supervisor.alive and ending_of(folder) is None:
            processes.end_all(lambda: {supervisor} if supervisor.alive else set(), grace_s=0.0, first=signal.SIGKILL)
        if ending_of(folder) is None:
            self._unrecorded[job] = state
            with contextlib.suppress(OSError):
                records.write(os.path.join(folder, records.ENDED), {"state": state.value, "code": None, "signal": 0, "time": time.time()})
        if left := records.job_processes(folder):
            raise PollError(f"job {job}: {len(left)} of its processes do not end: {', '.join(str(one.pid) for one in sorted(left)[:10])}")

    # -- submission ----------------------------------------------------------------------------------------------------

    def _take_id(self, folder: str) -> str:
        """Give out the next number: a symbolic link is made whole, and only once.

        Each root begins elsewhere: jobs take their port offset from their id, and those of all roots share this machine's ports.
        """
        jobs = os.path.join(self._root, _JOBS)
        os.makedirs(jobs, exist_ok=True)
        number = max((int(name) for name in os.listdir(jobs) if name.isdecimal()), default=zlib.crc32(self._root.encode()) % _FIRST_IDS)
        while True:
            number += 1
            with contextlib.suppress(FileExistsError):
                os.symlink(folder, os.path.join(jobs, str(number)))
                return str(number)

    def _stage(self, folder: str, job: str, submission: Submission) -> None:
        script = Path(submission.script).read_bytes()
        request = read_request(script.decode(), submission.options, script_name=os.path.basename(submission.script), run_dir=submission.run_dir)
        Path(folder, SPOOLED_SCRIPT).write_bytes(script)
        width = max(2, len(str(request.nodes)))
        hosts = [f"local-{number:0{width}d}" for number in range(1, request.nodes + 1)]
        record: dict[str, Any] = {
            "job": job,
            "name": request.name,
            "script": submission.script,
            "args": list(submission.args),
            "env": dict(submission.env),
            "nodes": request.nodes,
            "hosts": hosts,
            "node_list": compress(hosts),
            "time_limit_s": request.time_limit_s,
            "output": expand_output(request.output, job, request.name),
            "work_dir": request.work_dir,
            "submit_dir": os.getcwd(),
            "kill_wait_s": self._kill_wait_s,
        }
        records.write(os.path.join(folder, records.JOB), record)
        _write_stand_ins(Path(folder, STAND_INS))

    def _launch(self, folder: str) -> None:
        env = clean_environment()
        if "CUDA_VISIBLE_DEVICES" in env:
            env[VISIBLE_DEVICES] = env["CUDA_VISIBLE_DEVICES"]
        env["PYTHONPATH"] = os.pathsep.join([_PACKAGE_ROOT, *filter(None, [env.get("PYTHONPATH")])])
        with open(os.path.join(folder, "launch.log"), "wb") as log:
            command = [sys.executable, "-m", "recipegen.scheduler.local_launch", folder]
            launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=folder, start_new_session=True)
        try:
            self._await_start(folder, launcher)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(launcher.pid, signal.SIGKILL)  # submitit's processes are in its group; the batch script follows them
            launcher.wait()
            raise

    def _await_start(self, folder: str, launcher: subprocess.Popen[bytes]) -> None:
        deadline = self._clock() + _START_TIMEOUT_S
        while not os.path.exists(os.path.join(folder, records.STARTED)):
            if ended := records.read(os.path.join(folder, records.ENDED)):
                raise SubmissionRefused(f"the batch script cannot be started: {ended.get('reason')}")
            if launcher.poll() not in (None, 0) or self._clock() >= deadline:
                raise SubmissionRefused(f"submitit did not start the job: {_last_line(folder)}")
            self._sleep(_TICK_S)
        launcher.wait()

    def _undo(self, job: str, folder: str) -> None:
        if job:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._root, _JOBS, job))
        shutil.rmtree(folder, ignore_errors=True)

    # -- what is known of a job ----------------------------------------------------------------------------------------

    def _folder(self, job: str) -> str | None:
        link = os.path.join(self._root, _JOBS, job)
        return os.readlink(link) if job.isdecimal() and os.path.islink(link) and os.path.isdir(link) else None

    def _view(self, job: str) -> JobView:
        folder = self._folder(job)
        if folder is None:
            return self._view_of_lost(job)
        record, started = records.read(os.path.join(folder, records.JOB)), records.read(os.path.join(folder, records.STARTED))
        state, reason = self._state(folder)
        if (ending := ending_of(folder)) is not None:
            state, reason = ending.state, ""
        elif state.activity is Activity.ENDED and job in self._unrecorded:
            state, reason = self._unrecorded[job], ""
        return JobView(
            job,
            state,
            reason=reason,
            exit_code=ending.code if ending else None,
            signal=ending.signal if ending else 0,
            nodes=str(record.get("node_list", "")),
            start=finite(started.get("time")),
            restarts=0,
        )

    def _view_of_lost(self, job: str) -> JobView:
        """Return what is known of a job without its records: its processes tell whether it runs here."""
        if job in self._unrecorded:
            return JobView(job, self._unrecorded[job])
        if job.isdecimal() and records.processes_of_lost_job(self._root, job):
            return JobView(job, SchedulerState.RUNNING, reason="its run folder is gone")
        return JobView(job, SchedulerState.UNKNOWN)

    def _state(self, folder: str) -> tuple[SchedulerState, str]:
        """Return the state of a job that has recorded no end (yet: look for one after this)."""
        started = records.read(os.path.join(folder, records.STARTED))
        if not started:
            return _state_before_start(folder)
        if (host := self._elsewhere(folder)) is not None:
            return SchedulerState.UNKNOWN, f"runs on {host}"
        if started.get("boot") != processes.boot_id():
            return SchedulerState.NODE_FAIL, "the machine was started anew"
        if records.batch_of(folder).alive:
            return SchedulerState.RUNNING, ""
        if records.supervisor_of(folder).alive:
            return SchedulerState.COMPLETING, ""
        return SchedulerState.NODE_FAIL, "the job's supervisor was killed, or could not write down its end"

    def _elsewhere(self, folder: str) -> str | None:
        host = records.read(os.path.join(folder, records.STARTED)).get("host")
        return str(host) if host and host != socket.gethostname() else None


def _state_before_start(folder: str) -> tuple[SchedulerState, str]:
    waited = time.time() - os.stat(folder).st_mtime
    if waited > 2 * _START_TIMEOUT_S:
        return SchedulerState.NODE_FAIL, "its submission was interrupted before it was started"
    return SchedulerState.PENDING, "Starting"


def _write_stand_ins(folder: Path) -> None:
    """Write the commands that job.sbatch finds first on its PATH; -I and -S spare them all but the standard library."""
    folder.mkdir()
    for name in ("srun", "scontrol", "scancel"):
        code = f"import sys; sys.path.append({_PACKAGE_ROOT!r}); from recipegen.standins.{name} import main; sys.exit(main(sys.argv[1:]))"
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -S -c {shlex.quote(code)} "$@"\n', encoding="utf-8")
        path.chmod(0o755)


def _last_line(folder: str) -> str:
    lines = Path(folder, "launch.log").read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "no answer within a minute")
