"""The life of one local job, from its batch script's start to the end of its last process; runs as a submitit task."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from typing import Any

from recipegen.standins import processes, records
from recipegen.standins.srun import node_environment

SPOOLED_SCRIPT, STAND_INS = "slurm_script", "bin"
VISIBLE_DEVICES = "RECIPEGEN_LOCAL_VISIBLE_DEVICES"
"""Keeps the caller's CUDA_VISIBLE_DEVICES from submitit, which sets its own."""
_TICK_S = 0.1
_CALLERS_OWN = ("SLURM_", "SBATCH_", "SUBMITIT_", "RECIPEGEN_LOCAL_", "SLURMD_")


def supervise(folder: str) -> int:
    """Run the job whose records are in `folder`; returns the batch script's exit code, -9 when it died of signal 9."""
    return _Supervisor(folder).run()


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what an outer job, or submitit, put into it."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_CALLERS_OWN)}


class _Supervisor:
    """Watches the batch script, the time limit and the request to cancel, and leaves nothing behind."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._job = records.read(os.path.join(folder, records.JOB))
        self._kill_wait_s = float(self._job["kill_wait_s"])
        self._code: int | None = None
        self._state = ""  # why the job has to end, in Slurm's word
        self._kill_at = float("inf")
        self._sruns: dict[int, processes.Process] = {}
        self._dead_steps: set[int] = set()

    def run(self) -> int:
        processes.adopt_orphans()
        try:
            batch = self._start_batch()
        except OSError as error:
            self._record({"state": "BOOT_FAIL", "code": None, "reason": f"{error.filename}: {error.strerror}", "time": time.time()})
            raise
        while self._code is None:
            time.sleep(_TICK_S)
            self._code = processes.reap().get(batch.pid)
            if self._code is None:
                self._look_at_limits(batch)
                self._sweep_dead_steps()
        processes.end_all(lambda: records.job_processes(self._folder), grace_s=self._kill_wait_s)
        self._record_end(self._code)
        return self._code

    def _start_batch(self) -> processes.Process:
        """Start the script behind a gate, so that its record is there before it does anything."""
        start, gate, opened = time.time(), *os.pipe()
        output = os.open(self._job["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o666)
        nothing = os.open(os.devnull, os.O_RDONLY)
        pid = processes.spawn(
            ["bash", os.path.join(self._folder, SPOOLED_SCRIPT), *self._job["args"]],
            env=self._environment(start),
            streams=(nothing, output, output),
            on_parent_death=signal.SIGTERM,
            gate=gate,
            cwd=self._job["work_dir"],
        )
        batch = processes.process(pid)
        record = {"batch": batch.to_json(), "supervisor": processes.this_process().to_json(), "time": start, "end_time": self._end_time(start)}
        records.write(os.path.join(self._folder, records.STARTED), {**record, "boot": processes.boot_id(), "host": socket.gethostname()})
        os.write(opened, b"g")
        for descriptor in (gate, opened, output, nothing):
            os.close(descriptor)
        self._deadline = self._end_time(start)
        return batch

    def _end_time(self, start: float) -> int:
        return int(start) + int(self._job["time_limit_s"])

    def _look_at_limits(self, batch: processes.Process) -> None:
        cancel = records.read(os.path.join(self._folder, records.CANCEL))
        if not self._state and cancel:
            self._stop("CANCELLED", batch, everything=cancel.get("how") == "all", grace_s=float(cancel.get("grace_s", self._kill_wait_s)))
        elif self._state and cancel.get("how") == "all" and self._kill_at > time.monotonic() + self._kill_wait_s:
            self._stop(self._state, batch, everything=True, grace_s=self._kill_wait_s)
        elif not self._state and time.time() >= self._deadline:
            self._stop("TIMEOUT", batch, everything=False, grace_s=self._kill_wait_s)
        if time.monotonic() >= self._kill_at:
            processes.end_all(lambda: records.job_processes(self._folder) - {batch}, grace_s=0.0, first=signal.SIGKILL)
            batch.send(signal.SIGKILL)

    def _stop(self, state: str, batch: processes.Process, *, everything: bool, grace_s: float) -> None:
        self._state = state
        self._kill_at = time.monotonic() + grace_s
        for one in records.job_processes(self._folder) if everything else {batch}:
            one.send(signal.SIGTERM)
            one.send(signal.SIGCONT)

    def _sweep_dead_steps(self) -> None:
        """Kill what a srun that was itself killed has left behind."""
        for step in set(records.steps(self._folder)) - self._dead_steps:
            srun = self._sruns.get(step) or records.srun_of(self._folder, step)
            if srun.pid:  # on record by now
                self._sruns[step] = srun
            if srun.pid and not srun.alive:
                self._dead_steps.add(step)
                for one in records.step_processes(self._folder, step):
                    one.send(signal.SIGKILL)

    def _record_end(self, code: int) -> None:
        state = self._state or ("COMPLETED" if code == 0 else "FAILED")
        self._record({"state": state, "code": max(code, 0), "signal": max(-code, 0), "time": time.time()})

    def _record(self, ended: dict[str, Any]) -> None:
        """Write down the end; a disk that is full, or a folder that is gone, is no reason to end otherwise."""
        with contextlib.suppress(OSError):
            records.write(os.path.join(self._folder, records.ENDED), ended)

    def _environment(self, start: float) -> dict[str, str]:
        job: dict[str, Any] = self._job
        base = clean_environment()
        base.pop("CUDA_VISIBLE_DEVICES", None)
        if VISIBLE_DEVICES in os.environ:
            base["CUDA_VISIBLE_DEVICES"] = os.environ[VISIBLE_DEVICES]
        base |= job["env"]
        nodes = str(job["nodes"])
        return {
            **base,
            "PATH": os.pathsep.join([os.path.join(self._folder, STAND_INS), base.get("PATH", os.defpath)]),
            records.FOLDER_VARIABLE: self._folder,
            records.JOB_VARIABLE: job["job"],
            "SLURM_CLUSTER_NAME": "local",
            "SLURM_JOB_PARTITION": "local",
            "SLURM_JOB_ID": job["job"],
            "SLURM_JOBID": job["job"],
            "SLURM_JOB_NAME": job["name"],
            "SLURM_JOB_NODELIST": job["node_list"],
            "SLURM_NODELIST": job["node_list"],
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_NNODES": nodes,
            "SLURM_JOB_START_TIME": str(int(start)),
            "SLURM_JOB_END_TIME": str(self._end_time(start)),
            "SLURM_RESTART_COUNT": "0",
            "SLURM_SUBMIT_DIR": job["submit_dir"],
            "SLURM_PROCID": "0",
            "SLURM_NODEID": "0",
            "SLURM_LOCALID": "0",
            **node_environment(job["hosts"][0], 0),
        }
