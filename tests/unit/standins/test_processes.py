"""Processes are found wherever they hide, and never confused with another that has their pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from recipegen.standins.processes import Process, below, end_all, marked, process, process_from_json, this_process


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_recycled_pid_is_not_signalled() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        real = process(child.pid)
        Process(real.pid, real.start - 1).send(signal.SIGKILL)
        assert real.alive
        assert not Process(real.pid, real.start - 1).alive
        real.send(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    real.send(signal.SIGKILL)
    assert not real.alive


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as child:
        one = process(child.pid)
        until(lambda: not one.alive)


def test_a_process_survives_json() -> None:
    assert process_from_json(this_process().to_json()) == this_process()
    for broken in (None, {}, {"pid": "1", "start": 2}, {"pid": -1, "start": 0}):
        assert not process_from_json(broken).alive


def test_descendants_are_found_in_other_sessions_and_marks_after_their_parent_died(tmp_path: Path) -> None:
    mark = {"OUR_TEST_MARK": str(tmp_path)}
    script = f"setsid sleep 61 & echo $! > {tmp_path}/a; (setsid sleep 62 & echo $! > {tmp_path}/b); touch {tmp_path}/done; wait"
    with subprocess.Popen(["bash", "-c", script], env={**os.environ, **mark}) as shell:
        until((tmp_path / "done").exists)
        first, second = (process(int((tmp_path / name).read_text())) for name in "ab")
        assert first in below([process(shell.pid)])
        assert second not in below([process(shell.pid)])
        until(lambda: {first, second, process(shell.pid)} <= marked(mark))
        assert marked({**mark, "ANOTHER": "x"}) == set()
        end_all(lambda: marked(mark), grace_s=5)
        shell.wait()
    assert not first.alive
    assert not second.alive


def test_what_ignores_the_first_signal_is_killed(tmp_path: Path) -> None:
    script = f"trap '' TERM; touch {tmp_path}/up; while true; do sleep 0.05; done"
    with subprocess.Popen(["bash", "-c", script]) as shell:
        until((tmp_path / "up").exists)
        one = process(shell.pid)
        end_all(lambda: {one} if one.alive else set(), grace_s=0.1)
        assert shell.wait() == -signal.SIGKILL


def test_stand_ins_load_quickly_and_nothing_heavy() -> None:
    heavy = {"dataclasses", "subprocess", "pydantic", "click", "yaml", "argparse", "typing_extensions", "ctypes", "inspect"}
    root = str(Path(__file__).parents[3])
    for name in ("srun", "scontrol", "scancel"):
        code = f"import sys; sys.path.append({root!r}); import recipegen.standins.{name}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
        assert not heavy & set(done.stdout.split()), name
