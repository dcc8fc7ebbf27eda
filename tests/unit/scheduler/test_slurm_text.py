"""Slurm's output as captured on 24.11.5 and 22.05.8, the odd ones too."""

from __future__ import annotations

import pytest

from recipegen.scheduler import JobView, SchedulerState
from recipegen.scheduler.slurm_text import (
    Ending,
    message,
    parse_ending,
    parse_sacct,
    parse_scontrol_job,
    parse_squeue,
    parse_submitted,
    says_already_gone,
    says_no_accounting,
    says_no_such_job,
)

SQUEUE_24 = """\
1|CANCELLED|0:9|0|1795975054|gb300-r01-c[01-02]|None|
5|PENDING|0:0|0|N/A||JobHeldUser|
6|RUNNING|0:0|1|1795975400|gb300-r01-c01|None|
2|FAILED|130:0|0|1795975422|gb300-r01-c[01-02,07]|NonZeroExitCode|
7|PENDING|0:0|0|1795990000||ReqNodeNotAvail, UnavailableNodes:gb300-r01-c04|
"""
SQUEUE_22 = """\
4|CANCELLED|9|0|1795975441|gb300-r01-c[01-02]|None|
3|FAILED|33280|0|1795975432|gb300-r01-c[01-02]|NonZeroExitCode|
"""
SACCT_24 = """\
1|COMPLETED|0:0|1795975400|gb300-r01-c01|None
2|FAILED|42:0|1795975400|gb300-r01-c01|None
3|CANCELLED by 0|0:0|None|None assigned|None
4|PENDING|0:0|Unknown|None assigned|None
5|TIMEOUT|0:0|1795975400|gb300-r01-c01|None
"""
SCONTROL_22 = (
    "JobId=5 JobName=ok.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=0 Nice=0 Account=(null) QOS=(null) JobState=CANCELLED "
    "Reason=JobHeldUser Dependency=(null) Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:00 TimeLimit=01:00:00 "
    "TimeMin=N/A SubmitTime=1795975453 EligibleTime=Unknown AccrueTime=Unknown StartTime=1795975473 EndTime=1795975473 Deadline=N/A "
    "Partition=batch AllocNode:Sid=localhost:14328 ReqNodeList=(null) ExcNodeList=(null) NodeList= NumNodes=1 NumCPUs=1 NumTasks=N/A "
    "Command=/tmp/ok.sh 5 JobState=RUNNING WorkDir=/tmp Comment=ExitCode=7:7  StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= \n"
)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("777\n", "777"),
        ("777;foo\n", "777"),
        ("NOTE: your quota is nearly used up\n778\n", "778"),
        ("", None),
        ("Submitted batch job 777 on cluster foo\n", None),
        ("0\n", None),
    ],
)
def test_the_id_that_sbatch_prints(text: str, job: str | None) -> None:
    assert parse_submitted(text) == job


def test_squeue_of_two_versions() -> None:
    cancelled, held, running, failed, waiting = parse_squeue(SQUEUE_24)
    assert cancelled == JobView("1", SchedulerState.CANCELLED, "", 0, 9, "gb300-r01-c[01-02]", 1795975054.0, 0)
    assert held == JobView("5", SchedulerState.PENDING, "JobHeldUser", None, 0, "", None, 0)
    assert running == JobView("6", SchedulerState.RUNNING, "", None, 0, "gb300-r01-c01", 1795975400.0, 1)
    assert (failed.exit_code, failed.reason, failed.nodes) == (130, "NonZeroExitCode", "gb300-r01-c[01-02,07]")
    assert (waiting.reason, waiting.start) == ("ReqNodeNotAvail, UnavailableNodes:gb300-r01-c04", 1795990000.0)
    old_cancelled, old_failed = parse_squeue(SQUEUE_22)
    assert (old_cancelled.exit_code, old_cancelled.signal) == (0, 9)
    assert (old_failed.exit_code, old_failed.signal) == (130, 0)


def test_lines_that_are_no_jobs_are_passed_over() -> None:
    assert parse_squeue("slurm_load_jobs error: Invalid job id specified\n\n9_[0-3%2]|PENDING|0:0|0|N/A||None|\n1|RUNN") == []
    assert parse_sacct("sacct: error: something\n1.batch|COMPLETED|0:0|1|n|None\n") == []
    assert parse_scontrol_job("\nNo jobs in the system\n") == []


def test_sacct_names_who_cancelled() -> None:
    views = {view.job: view for view in parse_sacct(SACCT_24)}
    assert [views[job].state.value for job in "12345"] == ["COMPLETED", "FAILED", "CANCELLED", "PENDING", "TIMEOUT"]
    assert (views["2"].exit_code, views["3"].nodes, views["3"].start, views["4"].start) == (42, "", None, None)


def test_the_last_of_a_requeued_jobs_lines_counts() -> None:
    (view,) = parse_sacct("8|NODE_FAIL|1:0|1|a|None\n8|RUNNING|0:0|2|b|None\n")
    assert (view.state, view.nodes) == (SchedulerState.RUNNING, "b")


def test_scontrol_is_not_misled_by_a_command_or_a_comment() -> None:
    (view,) = parse_scontrol_job(SCONTROL_22)
    assert view == JobView("5", SchedulerState.CANCELLED, "JobHeldUser", 0, 0, "", 1795975473.0, 0)


@pytest.mark.parametrize(
    ("text", "ending"),
    [("0:15", Ending(0, 15)), ("42:0", Ending(42, 0)), ("33280", Ending(130, 0)), ("9", Ending(0, 9)), ("11", Ending(0, 11)), ("", Ending(None, 0))],
)
def test_the_two_halves_of_an_ending(text: str, ending: Ending) -> None:
    assert parse_ending(text) == ending


def test_what_failures_mean() -> None:
    assert says_no_such_job("slurm_load_jobs error: Invalid job id specified")
    assert not says_no_such_job("slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    assert says_no_accounting("Slurm accounting storage is disabled")
    assert says_no_accounting("You are not running a supported accounting_storage plugin")
    assert not says_no_accounting("sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection")
    assert says_already_gone("scancel: error: Kill job error on job id 1: Invalid job id specified")
    assert not says_already_gone("scancel: error: Kill job error on job id 5: Job can not be altered now, try again later")


@pytest.mark.parametrize(
    ("stderr", "said"),
    [
        (
            "sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job submission failed: Invalid partition name specified\n",
            "invalid partition specified: nosuch; Batch job submission failed: Invalid partition name specified",
        ),
        ("sbatch: unrecognized option '--segment=2'\nTry \"sbatch --help\" for more information\n", "unrecognized option '--segment=2'"),
        (
            "sbatch: lua: too many jobs\nsbatch: error: Batch job submission failed: Unspecified error\n",
            "Batch job submission failed: Unspecified error",
        ),
        ("something odd\n", "something odd"),
        ("", "exit code 1"),
    ],
)
def test_a_refusal_in_one_line(stderr: str, said: str) -> None:
    assert message(stderr, "exit code 1") == said
