"""What every scheduler keeps to: the scripted one, the local one, and a real Slurm, new and old."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from recipegen.errors import PollError, SubmissionRefused
from recipegen.scheduler import Activity, JobView, Scheduler, SchedulerState, Submission
from recipegen.scheduler.local import LocalScheduler
from recipegen.scheduler.scripted import ScriptedScheduler
from recipegen.scheduler.slurm import SlurmScheduler
from recipegen.transport.local import LocalTransport

REAL = [
    "local",
    pytest.param("cluster", marks=[pytest.mark.slurm, pytest.mark.timeout(900)]),
    pytest.param("old_cluster", marks=[pytest.mark.slurm, pytest.mark.timeout(900)]),
]
TEAR_DOWN = """
trap 'echo asked; trap "" TERM; sleep 0.5; echo torn down; exit 130' TERM
srun --overlap --ntasks=1 --nodes=1 sleep 100 &
echo begun
wait
"""


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """Each scheduler that runs jobs, asked from an environment that would mislead it."""
    yield from make_scheduler(request, tmp_path, monkeypatch)


@pytest.fixture(params=["scripted", *REAL])
def scheduler(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    """Each scheduler there is."""
    yield from make_scheduler(request, tmp_path, monkeypatch)


def make_scheduler(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SBATCH_PARTITION", "nosuch")
    monkeypatch.setenv("SQUEUE_STATES", "FAILED")
    if request.param == "scripted":
        yield ScriptedScheduler()
    elif request.param == "local":
        local = LocalScheduler(str(tmp_path), kill_wait_s=1.0)
        yield local
        for link in (tmp_path / ".jobs").glob("*"):
            local.cancel(link.name)
    else:
        for name, value in request.getfixturevalue(request.param).env.items():
            monkeypatch.setenv(name, value)
        yield SlurmScheduler(LocalTransport(), grace_s=20.0)


def submission(folder: Path, script: str, *args: str, options: tuple[str, ...] = ()) -> Submission:
    run_dir = folder / "run dir"
    run_dir.mkdir(exist_ok=True)
    path = folder / "job.sbatch"
    path.write_text(f"#!/usr/bin/env bash\n#SBATCH --nodes=2\n#SBATCH --time=0:05:00\n{script}\n")
    options = (f"--chdir={run_dir}", f"--output={run_dir}/out-%j", *options)
    return Submission(run_dir=str(run_dir), script=str(path), args=args, options=options, env={"OURS": "a b"})


def await_end(scheduler: Scheduler, job: str) -> JobView:
    deadline = time.monotonic() + 60
    while (view := scheduler.poll([job])[job]).state.activity is not Activity.ENDED:
        assert time.monotonic() < deadline, view
        time.sleep(0.05)
    return view


def await_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < deadline, f"no {text!r} in {path}"
        time.sleep(0.02)


def output(folder: Path, job: str) -> str:
    return (folder / "run dir" / f"out-{job}").read_text()


def test_a_poll_answers_for_every_job(scheduler: Scheduler, tmp_path: Path) -> None:
    job = scheduler.submit(submission(tmp_path, "sleep 60"))
    assert job.isdecimal()
    assert int(job) > 0
    views = scheduler.poll([job, "987654", "nonsense", job])
    assert {name: view.job for name, view in views.items()} == {job: job, "987654": "987654", "nonsense": "nonsense"}
    assert views[job].state.activity is Activity.ACTIVE
    assert views["987654"].state is views["nonsense"].state is SchedulerState.UNKNOWN
    assert scheduler.poll(["987654"])["987654"].state is SchedulerState.UNKNOWN
    assert scheduler.poll([]) == {}
    scheduler.cancel(job)


def test_a_job_is_found_by_its_run(scheduler: Scheduler, tmp_path: Path) -> None:
    run_dir = str(tmp_path / "run dir")
    job = scheduler.submit(submission(tmp_path, "sleep 60", options=("--comment=point-20261129-152839-0f3a",)))
    assert scheduler.find("point-20261129-152839-0f3a", run_dir) == job
    assert scheduler.find("point-20261129-152839-0f3b", f"{run_dir}2") is None
    scheduler.cancel(job)


def test_a_cancelled_job_ends_and_may_be_cancelled_again(scheduler: Scheduler, tmp_path: Path) -> None:
    job = scheduler.submit(submission(tmp_path, "trap 'exit 130' TERM; sleep 60 & wait"))
    scheduler.cancel(job)
    assert await_end(scheduler, job).state in (SchedulerState.CANCELLED, SchedulerState.FAILED)
    scheduler.cancel(job)
    scheduler.cancel("987654")
    scheduler.cancel("nonsense")


def test_a_job_gets_arguments_environment_and_folder(real: Scheduler, tmp_path: Path) -> None:
    script = (
        'printf "<%s>\\n" "$@" "$OURS" "$PWD" "$SLURM_JOB_ID" "$SLURM_JOB_NUM_NODES" "${SBATCH_PARTITION-none}"; scontrol show job "$SLURM_JOB_ID"'
    )
    job = real.submit(submission(tmp_path, script, "one", "t w;o'"))
    view = await_end(real, job)
    assert (view.state, view.exit_code, view.signal) == (SchedulerState.COMPLETED, 0, 0)
    lines = output(tmp_path, job).splitlines()
    assert lines[:7] == ["<one>", "<t w;o'>", "<a b>", f"<{tmp_path}/run dir>", f"<{job}>", "<2>", "<none>"]
    assert any(line.strip().startswith(f"Command={tmp_path}/job.sbatch") for line in lines)


def test_a_failure_tells_its_code_time_and_nodes(real: Scheduler, tmp_path: Path) -> None:
    before = time.time()
    job = real.submit(submission(tmp_path, "exit 42"))
    view = await_end(real, job)
    assert (view.state, view.exit_code, view.signal) == (SchedulerState.FAILED, 42, 0)
    assert view.start is not None
    assert before - 2 <= view.start <= time.time() + 2
    assert "[" in view.nodes


def test_a_death_by_signal_is_told(real: Scheduler, tmp_path: Path) -> None:
    job = real.submit(submission(tmp_path, "kill -SEGV $$"))
    view = await_end(real, job)
    assert (view.state, view.signal) == (SchedulerState.FAILED, 11)


def test_a_cancelled_script_has_time_to_tear_down(real: Scheduler, tmp_path: Path) -> None:
    job = real.submit(submission(tmp_path, TEAR_DOWN))
    await_text(tmp_path / "run dir" / f"out-{job}", "begun")
    real.cancel(job)
    await_end(real, job)
    assert "asked\n" in output(tmp_path, job)
    assert "torn down\n" in output(tmp_path, job)


def test_a_signal_to_the_steps_spares_the_script(real: Scheduler, tmp_path: Path) -> None:
    script = """
srun --overlap --ntasks=2 --nodes=2 --kill-on-bad-exit=1 bash -c 'trap "exit 5" TERM; echo up >> "$1"; sleep 60 & wait' _ "$1" &
until [[ -f $1 && $(wc -l < "$1") == 2 ]]; do sleep 0.1; done
scancel --signal=TERM "$SLURM_JOB_ID"; wait $!; echo "code $?"
"""
    job = real.submit(submission(tmp_path, script, str(tmp_path / "up")))
    assert await_end(real, job).state is SchedulerState.COMPLETED
    assert "code 5" in output(tmp_path, job)


def test_steps_fill_nodes_in_the_order_of_the_allocation(real: Scheduler, tmp_path: Path) -> None:
    script = """
mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --overlap --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist="${hosts[1]},${hosts[0]}" --kill-on-bad-exit=1 --wait=5 --cpu-bind=none --mpi=none \
  --export=ALL --job-name=step --output="$PWD/step.%t.log" bash -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_NTASKS $SLURM_NNODES $SLURMD_NODENAME'
for i in 0 1; do [[ $(< "step.$i.log") == "$i $i 0 2 2 ${hosts[i]}" ]] && echo "good $i"; done
srun --overlap --nodes=1 --ntasks=1 --nodelist="${hosts[1]}" --output="$PWD/one.%t.log" bash -c 'echo $SLURM_PROCID $SLURM_NODEID $SLURMD_NODENAME'
[[ $(< one.0.log) == "0 0 ${hosts[1]}" ]] && echo "good one"
"""
    job = real.submit(submission(tmp_path, script))
    assert await_end(real, job).state is SchedulerState.COMPLETED
    assert [line for line in output(tmp_path, job).splitlines() if line.startswith("good")] == ["good 0", "good 1", "good one"]


@pytest.mark.parametrize(
    ("task", "code"),
    [("exit 7", 143), ("kill -KILL $$", 143), ("exit 0", 137)],
)
def test_one_task_ends_the_others(real: Scheduler, tmp_path: Path, task: str, code: int) -> None:
    script = f"srun --overlap --nodes=2 --ntasks=2 --kill-on-bad-exit=1 --wait=1 bash -c 'if ((SLURM_PROCID == 0)); then {task}; fi; exec sleep 60'; echo code $?"
    job = real.submit(submission(tmp_path, script))
    await_end(real, job)
    assert f"code {code}" in output(tmp_path, job) or (task.startswith("kill") and "code 137" in output(tmp_path, job))


def test_a_refusal_is_in_the_schedulers_own_words(real: Scheduler, tmp_path: Path) -> None:
    with pytest.raises(SubmissionRefused, match="time"):
        real.submit(submission(tmp_path, "true", options=("--time=soon",)))
    (tmp_path / "job").write_text("not a script\n")
    with pytest.raises(SubmissionRefused, match="batch script"):
        real.submit(Submission(run_dir=str(tmp_path), script=str(tmp_path / "job")))
    assert not (tmp_path / "local").exists()


def test_options_win_over_the_script(real: Scheduler, tmp_path: Path) -> None:
    script = 'scontrol show job "$SLURM_JOB_ID" | grep -o "TimeLimit=[0-9:]*"; echo "left $((${SLURM_JOB_END_TIME:-0} - $(date +%s)))"'
    job = real.submit(submission(tmp_path, script, options=("--time=00:20:00",)))
    await_end(real, job)
    limit, left = output(tmp_path, job).splitlines()
    assert limit == "TimeLimit=00:20:00"
    assert 1100 < int(left.split()[1]) <= 1200 or int(left.split()[1]) < 0  # Slurm 22.05 does not tell the end


@pytest.mark.slurm
@pytest.mark.timeout(900)
def test_a_held_job_is_cancelled_without_waiting(cluster: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.env.items():  # type: ignore[attr-defined]
        monkeypatch.setenv(name, value)
    slurm = SlurmScheduler(LocalTransport())
    job = slurm.submit(submission(tmp_path, "true", options=("--hold",)))
    view = slurm.poll([job])[job]
    assert (view.state, view.reason, view.nodes, view.start) == (SchedulerState.PENDING, "JobHeldUser", "", None)
    before = time.monotonic()
    slurm.cancel(job)
    assert slurm.poll([job])[job].state is SchedulerState.CANCELLED
    assert time.monotonic() - before < 5


@pytest.mark.slurm
@pytest.mark.timeout(900)
def test_no_controller_is_a_failed_poll(cluster: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.env.items():  # type: ignore[attr-defined]
        monkeypatch.setenv(name, value)
    conf = Path(os.environ["SLURM_CONF"]).read_text().splitlines()
    dead = ["SlurmctldPort=1" if line.startswith("SlurmctldPort") else line for line in conf]
    (tmp_path / "slurm.conf").write_text("\n".join([*dead, "MessageTimeout=2"]))
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(PollError, match="Unable to contact"):
        SlurmScheduler(LocalTransport()).poll(["1"])
