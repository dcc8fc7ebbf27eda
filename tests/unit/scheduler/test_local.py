"""Local jobs under everything that can befall them: signals, deaths, deadlines, other processes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from recipegen.errors import PollError, SubmissionRefused
from recipegen.scheduler import Activity, JobView, SchedulerState, Submission
from recipegen.scheduler.local import LocalScheduler
from recipegen.standins import records
from recipegen.standins.processes import Process, marked

ROOT = Path(__file__).parents[3]


class Local:
    """A scheduler in a folder of its own, and what is left of its jobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.scheduler = LocalScheduler(str(folder), grace_s=2.0, kill_wait_s=0.5)

    def submit(self, script: str, *options: str, name: str = "run") -> str:
        run_dir = self.folder / name
        run_dir.mkdir()
        (run_dir / "job.sbatch").write_text(f"#!/usr/bin/env bash\n#SBATCH --nodes=2\n#SBATCH --time=1:00\n{script}\n")
        return self.scheduler.submit(Submission(run_dir=str(run_dir), script=str(run_dir / "job.sbatch"), args=("arg",), options=options))

    def view(self, job: str) -> JobView:
        return self.scheduler.poll([job])[job]

    def end(self, job: str) -> JobView:
        until(lambda: self.view(job).state.activity is Activity.ENDED)
        return self.view(job)

    def records(self, name: str = "run") -> str:
        return str(self.folder / name / "local")

    def left(self, name: str = "run") -> set[Process]:
        return marked({records.FOLDER_VARIABLE: self.records(name)})

    def seen(self, text: str, name: str = "run") -> bool:
        return any(text in path.read_text() for path in (self.folder / name).glob("slurm-*.out"))


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    local = Local(tmp_path)
    yield local
    jobs = sorted(path.name for path in (tmp_path / ".jobs").glob("*"))
    for job in jobs:
        local.scheduler.cancel(job)
    for job in jobs:
        folder = (tmp_path / ".jobs" / job).readlink()
        assert marked({records.FOLDER_VARIABLE: str(folder)}) == set()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_ids_are_numbers_that_are_never_given_twice(local: Local) -> None:
    first, second = local.submit("true", name="a"), local.submit("true", name="b")
    assert int(first) > 0
    assert int(second) == int(first) + 1
    local.end(first)
    local.end(second)
    assert local.submit("true", name="c") == str(int(first) + 2)
    local.end(str(int(first) + 2))


def test_a_job_outlives_the_process_that_submitted_it(local: Local, tmp_path: Path) -> None:
    code = (
        "import sys; from recipegen.scheduler import Submission; from recipegen.scheduler.local import LocalScheduler; root = sys.argv[1];"
        "print(LocalScheduler(root).submit(Submission(run_dir=root + '/run', script=root + '/job.sh')))"
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "job.sh").write_text("#!/bin/bash\necho begun\nsleep 1\necho over\n")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True, start_new_session=True)
    job = done.stdout.strip()
    assert local.view(job).state is SchedulerState.RUNNING
    assert local.end(job).state is SchedulerState.COMPLETED
    assert local.seen("over")


def test_the_callers_job_and_submitit_do_not_show(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SLURM_JOB_ID": "99", "SLURM_FOO": "1", "SBATCH_X": "1", "RECIPEGEN_LOCAL_STEP": "7", "CUDA_VISIBLE_DEVICES": "3"}.items():
        monkeypatch.setenv(name, value)
    job = local.submit("env | sort > env.txt")
    local.end(job)
    env = dict(line.split("=", 1) for line in (local.folder / "run/env.txt").read_text().splitlines() if "=" in line)
    assert not {name for name in env if name.startswith(("SUBMITIT", "SBATCH_"))} | ({"SLURM_FOO", "RECIPEGEN_LOCAL_STEP"} & env.keys())
    assert env["CUDA_VISIBLE_DEVICES"] == "3"
    assert env["SLURM_JOB_ID"] == env["RECIPEGEN_LOCAL_JOB"] == job
    assert (env["SLURM_JOB_NODELIST"], env["SLURM_NNODES"], env["SLURM_RESTART_COUNT"]) == ("local-[01-02]", "2", "0")
    assert 0 < int(env["SLURM_JOB_END_TIME"]) - int(env["SLURM_JOB_START_TIME"]) <= 60
    assert env["PATH"].split(":")[0] == f"{local.records()}/bin"


def test_nodes_have_names_and_addresses_of_their_own(local: Local) -> None:
    job = local.submit("srun --nodes=2 --ntasks=2 --label bash -c 'echo $SLURMD_NODENAME $RECIPEGEN_NODE_ADDRESS $RECIPEGEN_NODE_INTERFACE'")
    local.end(job)
    lines = sorted((local.folder / f"run/slurm-{job}.out").read_text().splitlines())
    assert lines == ["0: local-01 127.0.1.1 lo", "1: local-02 127.0.1.2 lo"]


def test_the_time_limit_is_kept(local: Local) -> None:
    job = local.submit("trap 'echo warned' TERM; srun --ntasks=1 --nodes=1 sleep 100 & while true; do wait; done", "--time=0:01")
    view = local.end(job)
    assert (view.state, view.signal) == (SchedulerState.TIMEOUT, 9)
    assert local.seen("warned")
    assert local.left() == set()


def test_what_does_not_want_to_end_is_killed(local: Local) -> None:
    job = local.submit(
        "trap '' TERM; (trap '' TERM HUP; setsid bash -c 'trap \"\" TERM; while :; do sleep 0.1; done' &) ; "
        "srun --nodes=1 --ntasks=1 bash -c 'trap \"\" TERM; echo ready; while :; do sleep 0.1; done' & while :; do sleep 0.1; done"
    )
    until(lambda: local.seen("ready"))
    local.scheduler.cancel(job)
    assert local.view(job).state is SchedulerState.CANCELLED
    assert local.left() == set()


def test_a_hidden_process_is_found(local: Local) -> None:
    job = local.submit(
        "srun --nodes=1 --ntasks=1 env -i /bin/bash -c 'setsid /bin/sleep 987 & echo $! > pid; wait' & until [[ -s pid ]]; do sleep 0.1; done; echo up; wait"
    )
    until(lambda: local.seen("up"))
    hidden = Path("/proc", (local.folder / "run/pid").read_text().strip())
    local.scheduler.cancel(job)
    assert not hidden.exists()


def test_killing_srun_leaves_no_task(local: Local) -> None:
    script = "srun --nodes=2 --ntasks=2 bash -c 'echo up; bash -c \"setsid sleep 986 & wait\"' & pid=$!; sleep 0.3; echo $pid > srun; wait $pid; echo code $?; sleep 100"
    job = local.submit(script)
    until(lambda: (local.folder / f"run/slurm-{job}.out").read_text().count("up") == 2 and (local.folder / "run/srun").exists())
    os.kill(int((local.folder / "run/srun").read_text()), signal.SIGKILL)
    until(lambda: local.seen("code 137"))
    until(lambda: not marked({records.FOLDER_VARIABLE: local.records(), records.STEP_VARIABLE: "0"}), 5)
    assert local.view(job).state is SchedulerState.RUNNING


def test_killing_the_script_leaves_no_step(local: Local) -> None:
    job = local.submit("srun --nodes=2 --ntasks=2 bash -c 'echo up; setsid sleep 985 & wait' & wait")
    until(lambda: local.seen("up"))
    records.batch_of(local.records()).send(signal.SIGKILL)
    view = local.end(job)
    assert (view.state, view.signal, view.exit_code) == (SchedulerState.FAILED, 9, 0)
    assert local.left() == set()


def test_killing_the_supervisor_ends_the_job_too(local: Local) -> None:
    job = local.submit("trap 'echo asked; exit 130' TERM; srun --nodes=1 --ntasks=1 sleep 984 & echo up; wait")
    until(lambda: local.seen("up"))
    records.supervisor_of(local.records()).send(signal.SIGKILL)
    view = local.end(job)
    assert (view.state, view.reason) == (SchedulerState.NODE_FAIL, "the job's supervisor was killed, or could not write down its end")
    assert local.seen("asked")
    until(lambda: not local.left(), 5)


def test_a_job_without_a_supervisor_can_be_cancelled(local: Local) -> None:
    job = local.submit("trap 'echo asked' TERM; setsid sleep 983 & echo up; while :; do wait; sleep 0.1; done")
    until(lambda: local.seen("up"))
    records.supervisor_of(local.records()).send(signal.SIGKILL)
    until(lambda: local.seen("asked"))
    assert local.view(job).state is SchedulerState.RUNNING
    local.scheduler.cancel(job)
    assert local.view(job).state is SchedulerState.CANCELLED
    assert local.left() == set()


def test_what_failed_before_has_not_been_cancelled(local: Local) -> None:
    job = local.submit("trap 'exit 130' TERM; setsid sleep 982 & echo up; wait")
    until(lambda: local.seen("up"))
    records.supervisor_of(local.records()).send(signal.SIGKILL)
    assert local.end(job).state is SchedulerState.NODE_FAIL
    local.scheduler.cancel(job)
    assert LocalScheduler(str(local.folder)).poll([job])[job].state is SchedulerState.NODE_FAIL
    assert local.left() == set()


def full_disk(path: str, _data: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def test_a_full_disk_does_not_keep_a_job_alive(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    job = local.submit("trap 'echo asked; exit 130' TERM; srun --nodes=1 --ntasks=1 sleep 981 & echo up; wait")
    until(lambda: local.seen("up"))
    monkeypatch.setattr(records, "write", full_disk)
    local.scheduler.cancel(job)
    assert local.seen("asked")
    assert local.left() == set()
    assert local.view(job).state.activity is Activity.ENDED


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 2 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_job_on_a_disk_that_is_really_full_is_cancelled(small_disk: Path) -> None:
    local = Local(small_disk)
    job = local.submit("trap 'exit 130' TERM; srun --nodes=1 --ntasks=1 sleep 978 & wait")
    until(lambda: bool(records.steps(local.records())))
    with (small_disk / "fill").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    assert shutil.disk_usage(small_disk).free == 0
    local.scheduler.cancel(job)
    assert local.left() == set()
    assert not records.supervisor_of(local.records()).alive
    assert local.view(job).state is SchedulerState.CANCELLED
    assert LocalScheduler(str(small_disk)).poll([job])[job].state is SchedulerState.NODE_FAIL


def test_an_end_that_cannot_be_written_down_is_one(local: Local) -> None:
    """The supervisor cannot replace a directory with its record."""
    job = local.submit("echo up; sleep 1")
    Path(local.records(), records.ENDED, "in the way").mkdir(parents=True)
    view = local.end(job)
    assert (view.state, view.reason) == (SchedulerState.NODE_FAIL, "the job's supervisor was killed, or could not write down its end")
    assert "Traceback" not in "".join(path.read_text() for path in Path(local.records(), "submitit").glob("*.out"))
    Path(local.records(), records.ENDED, "in the way").rmdir()
    Path(local.records(), records.ENDED).rmdir()


def test_a_foreign_job_is_not_ours_to_end(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str, _data: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    job = local.submit("sleep 100")
    monkeypatch.setattr(records, "write", denied)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(PollError, match=f"job {job} cannot be ended: permission denied") as caught:
        local.scheduler.cancel(job)
    assert "another user" in caught.value.hint
    assert local.view(job).state is SchedulerState.RUNNING


@pytest.mark.parametrize("everything", [False, True], ids=["run folder", "run root"])
def test_a_job_whose_folder_is_gone_can_be_cancelled(local: Local, everything: bool) -> None:
    job = local.submit("srun --nodes=1 --ntasks=1 bash -c 'trap \"\" TERM; setsid sleep 980 & echo up; wait; sleep 979' & wait")
    until(lambda: local.seen("up"))
    supervisor = records.supervisor_of(local.records())
    for path in [local.folder / "run", *([local.folder / ".jobs"] if everything else [])]:
        shutil.rmtree(path)
    other = LocalScheduler(str(local.folder / "other"))
    other.cancel(job)  # a job of this id, but below another root
    assert (local.view(job).state, local.view(job).reason) == (SchedulerState.RUNNING, "its run folder is gone")
    local.scheduler.cancel(job)
    assert local.left() == set()
    assert local.view(job).state is SchedulerState.CANCELLED
    assert LocalScheduler(str(local.folder)).poll([job])[job].state is SchedulerState.UNKNOWN
    until(lambda: not supervisor.alive)


@pytest.mark.parametrize(
    "ended",
    [
        "[]",
        "{}",
        '{"state": 3}',
        '{"state": "CANCELLED", "code": NaN, "signal": "x"}',
        '{"state": "FAILED", "code": Infinity, "signal": 1e400}',
        "[" * 9999,
    ],
)
def test_a_damaged_record_of_an_end_is_none_or_is_understood(local: Local, ended: str) -> None:
    job = local.submit("true")
    local.end(job)
    until(lambda: not records.supervisor_of(local.records()).alive)
    Path(local.records(), records.ENDED).write_text(ended)
    view = local.view(job)
    assert view.state.activity is Activity.ENDED
    assert view.exit_code is None


def test_a_job_is_found_by_its_run_folder(local: Local) -> None:
    job = local.submit("sleep 100")
    assert local.scheduler.find("any", str(local.folder / "run")) == job
    assert local.scheduler.find("any", str(local.folder / "none")) is None


def test_a_job_that_nobody_started_is_not_queued_for_ever(local: Local) -> None:
    job = local.submit("true")
    local.end(job)
    until(lambda: not records.supervisor_of(local.records()).alive)
    for name in (records.ENDED, records.STARTED):
        Path(local.records(), name).unlink()
    assert local.view(job).state is SchedulerState.PENDING
    os.utime(local.records(), (0, 0))
    assert local.view(job).state is SchedulerState.NODE_FAIL


def test_scancel_in_the_job_ends_it(local: Local) -> None:
    job = local.submit('srun --nodes=1 --ntasks=1 sleep 100 & scancel "$SLURM_JOB_ID"; wait; sleep 100')
    assert local.end(job).state is SchedulerState.CANCELLED


def test_scancel_knows_its_own_job_only(local: Local) -> None:
    job = local.submit(
        'scancel 99; echo "plain $?"; scancel --signal=TERM 99; echo "signal $?"; scancel --signal=FOO 99; echo "foo $?"; scontrol show job 99; echo "show $?"'
    )
    local.end(job)
    for text in ("plain 0", "Kill job error on job id 99: Invalid job id specified", "signal 1", "Unknown job signal: FOO", "foo 1", "show 1"):
        assert local.seen(text)


def test_scancel_signals_one_step_or_the_script(local: Local) -> None:
    script = """
trap 'echo script got USR1' USR1
for i in 0 1; do
  srun --nodes=1 --ntasks=1 --output=step.$i bash -c 'trap "echo got; exit 4" USR1; echo up; for i in {1..600}; do sleep 0.1; done' & pids[i]=$!
  until grep -q up step.$i 2>/dev/null; do sleep 0.05; done
done
scancel --signal=USR1 "$SLURM_JOB_ID.1"; wait ${pids[1]}; echo "second $?"
grep -c got step.0
scancel --signal=SIGUSR1 --batch "$SLURM_JOB_ID"; sleep 0.1
scancel --signal=9 "$SLURM_JOB_ID"; wait ${pids[0]}; echo "first $?"
"""
    job = local.submit(script)
    assert local.end(job).state is SchedulerState.COMPLETED
    for text in ("second 4", "\n0\n", "script got USR1", "first 137"):
        assert local.seen(text), text


def test_a_record_of_another_boot_or_host(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    job = local.submit("sleep 100")
    monkeypatch.setattr("socket.gethostname", lambda: "elsewhere")
    assert local.view(job).state is SchedulerState.UNKNOWN
    with pytest.raises(PollError, match="cancel it there"):
        local.scheduler.cancel(job)
    monkeypatch.undo()
    started = records.read(f"{local.records()}/{records.STARTED}")
    records.write(f"{local.records()}/{records.STARTED}", {**started, "boot": "another"})
    assert (local.view(job).state, local.view(job).reason) == (SchedulerState.NODE_FAIL, "the machine was started anew")
    records.write(f"{local.records()}/{records.STARTED}", started)


def test_a_refused_submission_leaves_nothing_behind(local: Local) -> None:
    (local.folder / "run").mkdir()
    with pytest.raises(SubmissionRefused, match="No such file"):
        local.scheduler.submit(Submission(run_dir=f"{local.folder}/run", script=f"{local.folder}/none"))
    (local.folder / "job.sh").write_text("#!/bin/bash\n")
    with pytest.raises(SubmissionRefused, match="cannot be started: /no/such/folder/x: No such file"):
        local.scheduler.submit(Submission(run_dir=f"{local.folder}/run", script=f"{local.folder}/job.sh", options=("--output=/no/such/folder/x",)))
    assert list((local.folder / "run").iterdir()) == list((local.folder / ".jobs").iterdir()) == []


def test_a_run_folder_takes_one_job(local: Local) -> None:
    job = local.submit("true")
    local.end(job)
    with pytest.raises(SubmissionRefused, match="already has a job"):
        local.scheduler.submit(Submission(run_dir=f"{local.folder}/run", script=f"{local.folder}/run/job.sbatch"))
    assert local.view(job).state is SchedulerState.COMPLETED
