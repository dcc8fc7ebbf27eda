"""What SlurmScheduler runs, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from recipegen.errors import PollError, SubmissionInterrupted, SubmissionRefused
from recipegen.scheduler import SchedulerState, Submission
from recipegen.scheduler.slurm import SlurmScheduler
from recipegen.transport.scripted import ScriptedTransport

Answers = dict[str, Callable[[Sequence[str]], tuple[int, str, str]]]
SUBMISSION = Submission(run_dir="/r", script="/r/job.sbatch", args=("/r", "abc"), options=("--account=team",), env={"A": "1"})


class Slurm:
    """A transport whose Slurm commands are functions; what was run is kept without the cleaning around it."""

    def __init__(self, **answers: Callable[[Sequence[str]], tuple[int, str, str]]) -> None:
        self.ran: list[list[str]] = []
        self.answers = answers
        self.transport = ScriptedTransport({"sh": self._sh})
        self.now = 0.0
        self.scheduler = SlurmScheduler(self.transport, grace_s=10, clock=lambda: self.now, sleep=self._sleep)

    def _sh(self, argv: Sequence[str], _: str | None) -> tuple[int, str, str]:
        words = list(argv[5:])  # after: sh -c SCRIPT sh env
        command = words[next(i for i, word in enumerate(words) if "=" not in word) :]
        self.ran.append(command)
        return self.answers[command[0]](command)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def says(stdout: str = "", *, stderr: str = "", code: int = 0) -> Callable[[Sequence[str]], tuple[int, str, str]]:
    return lambda _: (code, stdout, stderr)


def row(job: str, state: str) -> str:
    return f"{job}|{state}|0:0|0|100|n1|None|\n"


def test_submission_is_options_script_arguments() -> None:
    slurm = Slurm(sbatch=says("777;foo\n"))
    assert slurm.scheduler.submit(SUBMISSION) == "777"
    assert slurm.ran == [["sbatch", "--parsable", "--account=team", "/r/job.sbatch", "/r", "abc"]]
    assert slurm.transport.commands[0][4:6] == ("env", "A=1")


@pytest.mark.parametrize(
    ("stderr", "said", "hint"),
    [
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            "Invalid account",
            "cluster profile",
        ),
        ("sbatch: unrecognized option '--segment=2'", "unrecognized option '--segment=2'", "slurm.segment"),
    ],
)
def test_a_refusal_says_what_sbatch_said(stderr: str, said: str, hint: str) -> None:
    with pytest.raises(SubmissionRefused, match=said) as caught:
        Slurm(sbatch=says(stderr=stderr, code=1)).scheduler.submit(SUBMISSION)
    assert hint in caught.value.hint


def test_no_sbatch_here() -> None:
    slurm = Slurm(sbatch=says(stderr="env: 'sbatch': No such file or directory", code=127))
    with pytest.raises(SubmissionRefused, match="the command is not there"):
        slurm.scheduler.submit(SUBMISSION)


def test_an_answer_without_an_id_is_refused() -> None:
    with pytest.raises(SubmissionRefused, match="printed no job id"):
        Slurm(sbatch=says("hello\n")).scheduler.submit(SUBMISSION)


def test_a_broken_line_during_submission_tells_where_to_look() -> None:
    slurm = Slurm()
    slurm.transport.outage = "sbatch did not answer within 120 s"
    with pytest.raises(SubmissionRefused, match="did not answer") as caught:
        slurm.scheduler.submit(SUBMISSION)
    assert "squeue --me" in caught.value.hint


def test_an_interrupted_submission_tells_what_to_look_for() -> None:
    def interrupt(_: Sequence[str]) -> tuple[int, str, str]:
        raise KeyboardInterrupt

    submission = replace(SUBMISSION, options=("--comment=point-1-ab12",))
    with pytest.raises(SubmissionInterrupted, match="interrupted") as caught:
        Slurm(sbatch=interrupt).scheduler.submit(submission)
    assert caught.value.exit_code == 130
    assert "squeue --me" in caught.value.hint
    assert "the comment point-1-ab12" in caught.value.hint


@pytest.mark.parametrize(
    ("stdout", "job"),
    [
        ("", None),
        ("41 p-2\n42 p-1\n43 (null)\n", "42"),
        ("42 p-1\n57 p-1\n6 p-1\n", "57"),
        ("42 p-1x\n43 xp-1\n42_1 p-1\n", None),
        ("42 p-1 \n", "42"),
    ],
)
def test_a_job_is_found_by_its_comment(stdout: str, job: str | None) -> None:
    slurm = Slurm(squeue=says(stdout))
    assert slurm.scheduler.find("p-1", "/r") == job
    assert slurm.ran == [["squeue", "--me", "--noheader", "--states=all", "--format=%i %k"]]


def test_finding_what_cannot_be_asked_is_a_poll_error() -> None:
    with pytest.raises(PollError, match=r"squeue: .*connect failure"):
        Slurm(squeue=says(stderr="slurm_load_jobs error: connect failure", code=1)).scheduler.find("p-1", "/r")


def test_a_command_that_hangs_is_named() -> None:
    slurm = Slurm()
    slurm.transport.outage = "no answer within 30 s"
    with pytest.raises(PollError, match=r"^scancel: no answer within 30 s$"):
        slurm.scheduler.cancel("1")
    with pytest.raises(PollError, match=r"^squeue: no answer within 30 s$"):
        slurm.scheduler.poll(["1"])


def test_one_squeue_for_all_and_one_sacct_for_the_rest() -> None:
    slurm = Slurm(squeue=says(row("1", "RUNNING")), sacct=says("2|CANCELLED by 0|0:0|100|n1|None\n"))
    views = slurm.scheduler.poll(["1", "2", "3", "abc"])
    assert [views[job].state.value for job in ("1", "2", "3", "abc")] == ["RUNNING", "CANCELLED", "UNKNOWN", "UNKNOWN"]
    assert [command[0] for command in slurm.ran] == ["squeue", "sacct"]
    assert "--jobs=1,2,3" in slurm.ran[0]
    assert "--jobs=2,3" in slurm.ran[1]


def test_without_accounting_scontrol_is_asked() -> None:
    slurm = Slurm(
        squeue=says(stderr="slurm_load_jobs error: Invalid job id specified", code=1),
        sacct=says(stderr="Slurm accounting storage is disabled", code=1),
        scontrol=says("JobId=1 JobState=COMPLETED Reason=None Restarts=0 ExitCode=0:0 StartTime=100 NodeList=n1\n"),
    )
    assert slurm.scheduler.poll(["1"])["1"].state is SchedulerState.COMPLETED
    slurm.answers["scontrol"] = says(stderr="slurm_load_jobs error: Invalid job id specified", code=1)
    assert slurm.scheduler.poll(["1"])["1"].state is SchedulerState.UNKNOWN


@pytest.mark.parametrize("command", ["squeue", "sacct", "scontrol"])
def test_a_question_that_fails_says_nothing_about_jobs(command: str) -> None:
    failing = says(stderr="slurm_load_jobs error: Unable to contact slurm controller (connect failure)", code=1)
    answers = {"squeue": says(), "sacct": says(stderr="Slurm accounting storage is disabled", code=1), "scontrol": says()} | {command: failing}
    with pytest.raises(PollError, match=f"{command}: .*Unable to contact"):
        Slurm(**answers).scheduler.poll(["1"])
    broken = Slurm()
    broken.transport.outage = "connection lost"
    with pytest.raises(PollError, match="connection lost"):
        broken.scheduler.poll(["1"])


def test_a_running_job_is_asked_first_and_ended_after_the_grace_time() -> None:
    slurm = Slurm(squeue=says(row("1", "RUNNING")), scancel=says())
    slurm.scheduler.cancel("1")
    cancels = [command[1:] for command in slurm.ran if command[0] == "scancel"]
    assert cancels == [["--state=PENDING", "1"], ["--signal=TERM", "--batch", "1"], ["1"]]
    assert slurm.now == 10


def test_a_job_that_ends_in_time_is_not_ended_twice() -> None:
    slurm = Slurm(scancel=says())
    slurm.answers["squeue"] = lambda _: (0, row("1", "RUNNING" if slurm.now < 3 else "COMPLETING"), "")
    slurm.scheduler.cancel("1")
    assert [command[1:] for command in slurm.ran if command[0] == "scancel"] == [["--state=PENDING", "1"], ["--signal=TERM", "--batch", "1"]]
    assert slurm.now == 3


def test_a_queued_job_is_not_signalled() -> None:
    slurm = Slurm(squeue=says(row("1", "CANCELLED")), scancel=says())
    slurm.scheduler.cancel("1")
    assert [command[1:] for command in slurm.ran if command[0] == "scancel"] == [["--state=PENDING", "1"]]


def test_cancelling_what_cannot_be_asked_is_a_poll_error() -> None:
    slurm = Slurm(scancel=says(stderr="scancel: error: Kill job error on job id 1: Access/permission denied", code=1))
    with pytest.raises(PollError, match="permission denied"):
        slurm.scheduler.cancel("1")
