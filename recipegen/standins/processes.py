"""Processes as /proc shows them, found and signalled without ever meeting a recycled pid."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

_HANDLED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGPWR,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


class Process(NamedTuple):
    """A process for as long as it lives: its pid and, in clock ticks since boot, its start."""

    pid: int
    start: int

    @property
    def alive(self) -> bool:
        found = _stat(self.pid)
        return found is not None and found[1] == self.start

    def send(self, signum: int) -> None:
        """Signal exactly this process; one that has ended is no error."""
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(self.pid)
            try:
                if self.alive:  # checked while the handle holds the pid
                    signal.pidfd_send_signal(handle, signum)
            finally:
                os.close(handle)

    def to_json(self) -> dict[str, int]:
        return {"pid": self.pid, "start": self.start}


def this_process() -> Process:
    return process(os.getpid())


def process(pid: int) -> Process:
    """Return the process that has this pid now."""
    found = _stat(pid)
    return Process(pid, found[1] if found else 0)


def process_from_json(data: object) -> Process:
    """Return the process that `to_json` told of; what cannot be one is a process that is not alive."""
    pid, start = (data.get("pid"), data.get("start")) if isinstance(data, dict) else (0, 0)
    return Process(pid, start) if isinstance(pid, int) and isinstance(start, int) and 0 < pid < 2**22 else Process(0, -1)


def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def below(roots: Iterable[Process]) -> set[Process]:
    """Return all living descendants of `roots`, and not `roots` themselves."""
    children: dict[int, list[Process]] = {}
    for pid in _pids():
        if found := _stat(pid):
            children.setdefault(found[0], []).append(Process(pid, found[1]))
    queue = [root for root in roots if root.alive]
    reached: set[Process] = set()
    while queue:
        fresh = [child for child in children.get(queue.pop().pid, ()) if child not in reached]
        reached.update(fresh)
        queue.extend(fresh)
    return reached


def marked(marks: Mapping[str, str]) -> set[Process]:
    """Return this user's processes that were started with all of these variables, whoever their parent is now."""
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    return with_environment(wanted.issubset)


def with_environment(fits: Callable[[Set[bytes]], bool]) -> set[Process]:
    """Return this user's processes, but for this one, that were started with fitting `NAME=value` entries."""
    found = set()
    for pid in _pids():
        one = process(pid)
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                variables = set(file.read().split(b"\0"))
            if one.start and fits(variables):
                found.add(one)
    return found - {this_process()}


def end_all(find: Callable[[], set[Process]], *, grace_s: float, first: int = signal.SIGTERM) -> None:
    """Signal what `find` returns, and kill what is there after the grace time, until nothing is left."""
    found = find()
    for one in found:
        one.send(first)
        one.send(signal.SIGCONT)
    deadline = time.monotonic() + grace_s
    while found and time.monotonic() < deadline:
        time.sleep(0.02)
        found = find()
    give_up = time.monotonic() + 10.0  # a process in uninterruptible sleep cannot be helped
    while found and time.monotonic() < give_up:
        for one in found:
            one.send(signal.SIGKILL)
        time.sleep(0.01)
        found = find()


def reap() -> dict[int, int]:
    """Collect ended children, adopted ones too; returns their exit codes, -9 for what died of signal 9."""
    codes = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            codes[pid] = os.waitstatus_to_exitcode(status)
    return codes


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none gets out of sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(signum: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signum)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    streams: tuple[int, int, int],
    on_parent_death: int,
    gate: int | None = None,
    cwd: str | None = None,
) -> int:
    """Start a command in a session of its own and return its pid.

    `streams` become its stdin, stdout and stderr; with a `gate` it waits for a byte from that descriptor before it becomes
    the command. `on_parent_death` is the signal that it gets when the calling process dies.
    """
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)  # a signal to the child must not meet the parent's handlers in it
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return pid
    try:  # the child: whatever happens, it must not return
        os.setsid()
        for signum in _HANDLED:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal_on_parent_death(on_parent_death)
        if os.getppid() != parent or (gate is not None and os.read(gate, 1) != b"g"):
            os._exit(1)
        for target, source in enumerate([os.dup(stream) for stream in streams]):
            os.dup2(source, target)
        if cwd is not None:
            os.chdir(cwd)
        os.closerange(3, 1024)
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - the words are argv, as job.sbatch gave them
    except OSError as error:
        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        os._exit(error.errno or 1)  # as slurmstepd does
    finally:
        os._exit(1)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _stat(pid: int) -> tuple[int, int] | None:
    """Return parent and start time, or None for what has ended (a zombie too) or belongs to nobody."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            after_name = file.read().rpartition(b") ")[2].split()
    except OSError:
        return None
    return None if after_name[0] in (b"Z", b"X") else (int(after_name[1]), int(after_name[19]))


def _prctl(option: int, value: int) -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
