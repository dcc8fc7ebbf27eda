"""srun for a local job: a step's tasks as processes of this machine, each told that it is on a node of its own."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import time

from recipegen.standins import records
from recipegen.standins.hostlist import compress, expand
from recipegen.standins.options import Options, Task, UsageError, parse
from recipegen.standins.processes import Process, adopt_orphans, below, end_all, reap, signal_on_parent_death, spawn, this_process


def main(argv: list[str]) -> int:
    """Run one step and return srun's exit code: the highest of its tasks' codes."""
    folder, job = os.environ.get(records.FOLDER_VARIABLE), os.environ.get("SLURM_JOB_ID")
    if not folder or not job:
        return _fail("srun: error: this srun works in a local job of recipegen only", 1)
    try:
        options = parse(argv, expand(os.environ.get("SLURM_JOB_NODELIST", "")))
    except UsageError as error:
        return _fail(str(error), error.code)
    try:
        number, path = records.new_step(folder)
        record = {"step": number, "name": options.name, "hosts": options.hosts, "srun": this_process().to_json()}
        records.write(os.path.join(path, records.STEP), record)
    except OSError as error:
        return _fail(f"srun: error: Unable to create step for job {job}: {error.strerror}", 1)
    return _Step(folder, job, number, options).run()


class _Step:
    """The tasks of one srun, from their start to the end of the last process of theirs."""

    def __init__(self, folder: str, job: str, number: int, options: Options) -> None:
        self._folder, self._job, self._number, self._options = folder, job, number, options
        self._kill_wait_s = float(records.read(os.path.join(folder, records.JOB)).get("kill_wait_s", 10))
        self._running: dict[int, Task] = {}
        self._labels: dict[int, tuple[str, int, bytes]] = {}  # pipe -> prefix, where its lines go, what has no newline yet
        self._files: dict[str, int] = {}
        self._codes: list[int] = []
        self._kill_at = float("inf")

    def run(self) -> int:
        adopt_orphans()
        wake = self._listen()
        signal_on_parent_death(signal.SIGPWR)
        self._orphaned()  # it may have died before that
        try:
            for task in self._options.tasks:
                self._start(task)
        except OSError as error:
            self._end(signal.SIGKILL)
            return _fail(f"srun: error: {error.filename}: {error.strerror}", 1)
        while self._running:
            self._wait(wake)
        self._end(signal.SIGKILL)  # what a task leaves behind does not outlive the step
        self._drain()
        return max(self._codes)

    def _listen(self) -> int:
        """Have signals end the wait: children, and those that end the step."""
        wake, write = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, self._forced)
        signal.signal(signal.SIGPWR, self._orphaned)
        return wake

    def _forced(self, *_: object) -> None:
        """Have the tasks killed at once, as the srun of Slurm does when it is told to end."""
        _say("srun: forcing job termination")
        self._kill_at = 0.0

    def _orphaned(self, *_: object) -> None:
        """End with the batch script: the parent that died may have been only a subshell of it."""
        if not records.batch_of(self._folder).alive:
            self._forced()

    def _start(self, task: Task) -> None:
        stdin = 0 if self._options.input and task.rank == 0 else self._open("/dev/null", os.O_RDONLY)
        stdout = self._stream(self._options.output, task, 1)
        stderr = self._stream(self._options.error, task, 2) if self._options.error else stdout if self._options.output else self._stream("", task, 2)
        pid = spawn(self._options.command, env=self._environment(task), streams=(stdin, stdout, stderr), on_parent_death=signal.SIGKILL)
        self._running[pid] = task
        if self._options.label:
            for pipe in {stdout, stderr} - {1, 2, *self._files.values()}:
                os.close(pipe)

    def _stream(self, pattern: str, task: Task, inherited: int) -> int:
        if pattern:
            return self._open(self._expanded(pattern, task), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        if not self._options.label:
            return inherited
        read, write = os.pipe()
        self._labels[read] = (f"{task.rank}: ", inherited, b"")
        return write

    def _open(self, path: str, flags: int) -> int:
        if path not in self._files:
            self._files[path] = os.open(path, flags, 0o666)
        return self._files[path]

    def _expanded(self, pattern: str, task: Task) -> str:
        values = {
            "t": str(task.rank),
            "n": str(task.node),
            "N": self._options.hosts[task.node],
            "j": self._job,
            "J": f"{self._job}.{self._number}",
            "s": str(self._number),
            "x": self._options.name,
            "%": "%",
        }
        return re.sub(r"%(\d?)([tnNjJsx%])", lambda m: values[m[2]].zfill(int(m[1] or 0)), pattern)

    def _environment(self, task: Task) -> dict[str, str]:
        options, step = self._options, str(self._number)
        nodes, tasks = str(len(options.hosts)), str(len(options.tasks))
        place = expand(os.environ["SLURM_JOB_NODELIST"]).index(options.hosts[task.node])
        return {
            **os.environ,
            **dict(one.partition("=")[::2] for one in options.export),
            records.STEP_VARIABLE: step,
            "SLURM_STEP_ID": step,
            "SLURM_STEPID": step,
            "SLURM_STEP_NODELIST": compress(options.hosts),
            "SLURM_STEP_NUM_NODES": nodes,
            "SLURM_STEP_NUM_TASKS": tasks,
            "SLURM_NNODES": nodes,
            "SLURM_NTASKS": tasks,
            "SLURM_NPROCS": tasks,
            "SLURM_PROCID": str(task.rank),
            "SLURM_NODEID": str(task.node),
            "SLURM_LOCALID": str(task.local),
            **node_environment(options.hosts[task.node], place),
        }

    def _wait(self, wake: int) -> None:
        timeout = max(0.0, self._kill_at - time.monotonic()) if self._kill_at != float("inf") else None
        ready, _, _ = select.select([wake, *self._labels], [], [], timeout)
        for pipe in ready:
            if pipe == wake:
                os.read(wake, 4096)
            else:
                self._copy(pipe)
        for pid, code in reap().items():
            if pid in self._running:
                self._ended(self._running.pop(pid), code)
        if time.monotonic() >= self._kill_at:
            self._kill_at = float("inf")
            self._end(signal.SIGKILL)

    def _ended(self, task: Task, code: int) -> None:
        self._codes.append(code if code >= 0 else 128 - code)
        if code:
            what = signal.strsignal(-code) if code < 0 else f"Exited with exit code {code}"
            _say(f"srun: error: {self._options.hosts[task.node]}: task {task.rank}: {what}")
        if not self._running or self._kill_at != float("inf"):
            return
        if code and self._options.kill_on_bad_exit:
            _say(f"srun: Terminating StepId={self._job}.{self._number}")
            self._kill_at = time.monotonic() + self._kill_wait_s
            for one in below([this_process()]):
                one.send(signal.SIGTERM)
                one.send(signal.SIGCONT)
        elif self._options.wait_s:
            self._kill_at = time.monotonic() + self._options.wait_s

    def _end(self, signum: int) -> None:
        """End everything of the step; the codes of its tasks are noted on the way."""
        end_all(self._left, grace_s=0.0, first=signum)
        self._left()

    def _left(self) -> set[Process]:
        for pid, code in reap().items():
            if pid in self._running:
                self._ended(self._running.pop(pid), code)
        return below([this_process()])

    def _copy(self, pipe: int) -> None:
        prefix, target, begun = self._labels[pipe]
        data = os.read(pipe, 65536)
        *lines, rest = (begun + data).split(b"\n")
        if not data and rest:
            lines, rest = [*lines, rest], b""
        _write(target, b"".join(prefix.encode() + line + b"\n" for line in lines))
        self._labels[pipe] = (prefix, target, rest)
        if not data:
            del self._labels[pipe]
            os.close(pipe)

    def _drain(self) -> None:
        while self._labels:
            self._copy(next(iter(self._labels)))


def node_environment(host: str, place: int) -> dict[str, str]:
    """Return what tells a process which node it is on: the nodes have loopback addresses of their own, from 127.0.1.1 on."""
    address = f"127.0.{1 + place // 254}.{place % 254 + 1}"
    return {"SLURMD_NODENAME": host, "RECIPEGEN_NODE_ADDRESS": address, "RECIPEGEN_NODE_INTERFACE": "lo"}


def _write(target: int, data: bytes) -> None:
    while data:
        data = data[os.write(target, data) :]


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _fail(text: str, code: int) -> int:
    _say(text)
    return code
