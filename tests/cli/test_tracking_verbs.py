from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.cli.connect import Machine, Session, connect
from recipegen.cli.present import format_age
from recipegen.errors import InputError, TransportError
from recipegen.lifecycle.clock import ScriptedClock
from recipegen.run_index import RunIndex
from recipegen.runs import RunRecord
from recipegen.scheduler import SchedulerState as S
from recipegen.scheduler.scripted import ScriptedScheduler
from recipegen.transport.scripted import ScriptedTransport
from tests.scripted_run import START, ScriptedRun, make_record


class Bench:
    """Runs on a machine in memory, and the command line to look at them."""

    def __init__(self, root: Path) -> None:
        self.transport, self.scheduler, self.clock = ScriptedTransport(), ScriptedScheduler(), ScriptedClock(START)
        self.index = RunIndex(root)
        self.terminal = False
        self.environ: dict[str, str] = {}
        self.connected: list[str] = []

    def add(self, record: RunRecord | None = None) -> ScriptedRun:
        run = ScriptedRun(record, transport=self.transport, scheduler=self.scheduler, clock=self.clock)
        self.index.add(run.record)
        return run

    def __call__(self, *arguments: str, color: bool = False) -> Result:
        session = Session(environ=self.environ, terminal=self.terminal, clock=self.clock, open_index=lambda: self.index, connect=self._connect)
        return CliRunner().invoke(main, arguments, obj=session, color=color, catch_exceptions=False)

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        self.clock.after(seconds, lambda: (action(), None)[1])

    def _connect(self, cluster: Mapping[str, object], scheduler: str) -> Machine:
        self.connected.append(f"{cluster['name']} {scheduler}")
        if cluster["name"] == "gone":
            raise TransportError("gone: connection refused")
        return Machine(self.transport, self.scheduler)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "index")


def interrupt() -> None:
    raise KeyboardInterrupt


# -- status --------------------------------------------------------------------------------------------------------


def test_status_of_nothing(bench: Bench) -> None:
    result = bench("status")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "no runs in" in result.stderr
    assert bench("status", "--format", "json").stdout == "[]\n"


def test_status_lists_all_runs_with_one_poll(bench: Bench) -> None:
    first, second = bench.add(make_record(job="42", token="aaaa")), bench.add(make_record(job="43", token="bbbb"))
    first.start()
    first.become_ready()
    second.slurm(S.PENDING, reason="Resources")
    bench.clock.sleep(125)
    result = bench("status")
    assert result.stdout.splitlines() == [
        "RUN                                       JOB  PHASE    AGE  DETAIL",
        f"{second.record.id}  43   PENDING  2m   Resources",
        f"{first.record.id}  42   READY    2m   http://10.0.0.11:20000",
    ]
    assert bench.scheduler.polls == [("43", "42")]
    assert bench.connected == ["oslo slurm"]


def test_status_shows_what_it_can(bench: Bench) -> None:
    good = bench.add(make_record(token="aaaa"))
    torn, elsewhere = make_record(token="bbbb", job="1"), replace(make_record(token="cccc", job="2"), cluster={"name": "gone"})
    bench.index.add(torn)
    bench.index.add(elsewhere)
    bench.transport.put(torn.paths.record, b"{")
    good.slurm(S.RUNNING)
    result = bench("status")
    assert result.exit_code == 0
    assert "ALLOCATED" in result.stdout
    assert "is not JSON" in result.stdout
    assert "gone: connection refused" in result.stdout
    assert "run.json" not in bench("status", "--last", "1").stdout


def test_status_of_one_run(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.event("instances", writer="probe", prefill=1, decode=0)
    result = bench("status", "42")
    assert result.stdout.splitlines() == [
        f"run        {run.record.id}",
        "job        42 on oslo",
        "phase      REGISTERING",
        "           prefill 1/1, decode 0/1",
        "instances  prefill 1/1, decode 0/1",
        "nodes      c[01-02]",
        "prefill-0  STARTING",
        "decode-0   STARTING",
        f"folder     {run.record.run_dir}",
    ]


def test_status_as_json(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.become_ready()
    values = json.loads(bench("status", run.record.id, "--format", "json").stdout)
    assert values["phase"] == "READY"
    assert values["url"] == "http://10.0.0.11:20000"
    assert values["instances"] == {"prefill": {"registered": 1, "expected": 1}, "decode": {"registered": 1, "expected": 1}}
    assert values["workers"][0] == {"name": "prefill-0", "phase": "READY", "detail": ""}
    assert json.loads(bench("status", "--format", "json").stdout) == [values]


def test_the_reference_lists_every_key_and_phase(bench: Bench) -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "run-states.md").read_text(encoding="utf-8")
    bench.add().start()
    values = json.loads(bench("status", "42", "--format", "json").stdout)
    assert [key for key in values if f"`{key}`" not in text] == []


def test_status_waits_a_moment_for_the_last_word(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.slurm(S.FAILED, exit_code=1)
    bench.at(2, lambda: run.exit("site", code=1))
    assert "site.env" in bench("status", "42").stdout
    assert bench.clock.now() == START + 2


def test_status_does_not_wait_for_ever_for_a_last_word(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.slurm(S.FAILED, exit_code=1)
    assert "no exit marker" in bench("status", "42").stdout
    assert bench.clock.now() == START + 3


def test_status_with_the_scheduler_away(bench: Bench) -> None:
    run = bench.add()
    run.start()
    bench.clock.sleep(1000)
    bench.scheduler.outage = "connect failure"
    result = bench("status", "42")
    assert "phase      STARTING" in result.stdout
    assert "connect failure" in result.stdout


def test_status_of_a_run_long_gone_without_a_trace(bench: Bench) -> None:
    bench.add()
    bench.clock.sleep(10_000)
    assert "LOST" in bench("status").stdout


@pytest.mark.parametrize("verb", ["status", "watch", "wait", "cancel"])
def test_no_such_run(bench: Bench, verb: str) -> None:
    bench.add()
    result = bench(verb, "nothing-like-it")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: no run is called 'nothing-like-it'\nhint: ")


def test_colour_only_where_it_is_wanted(bench: Bench) -> None:
    bench.add().slurm(S.RUNNING)
    assert "\x1b[" in bench("status", color=True).stdout
    bench.environ["NO_COLOR"] = "1"
    assert "\x1b[" not in bench("status", color=True).stdout


def test_no_colour_on_a_dumb_terminal(bench: Bench) -> None:
    bench.add().slurm(S.RUNNING)
    bench.environ["TERM"] = "dumb"
    assert "\x1b[" not in bench("status", color=True).stdout


EVIL = "\x1b]0;owned\x07\x1b[2J\nrun 1  READY\u202e\x9b"


def test_what_a_job_writes_does_not_move_the_terminal(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.event("completion_failed", writer="probe", status=500, message=EVIL)
    bench.at(60, lambda: run.exit("step_ended", code=1, step="decode-0", detail=EVIL))
    bench.at(60, lambda: run.slurm(S.FAILED, reason=EVIL))
    shown = [bench("status", "42"), bench("status"), bench("watch", "42"), bench("cancel", "42"), bench("wait", "42")]
    for text in [result.stdout + result.stderr for result in shown]:
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(text)
        assert "run 1  READY" not in text.splitlines()
    assert "owned" in shown[0].stdout
    assert "owned" in shown[-1].stderr


def test_lone_surrogates_can_be_shown(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.event("completion_failed", writer="probe", status=500, message="\ud800 x")
    assert "\N{REPLACEMENT CHARACTER} x" in bench("status", "42").stdout
    assert json.loads(bench("status", "42", "--format", "json").stdout)["phase"] == "REGISTERING"


def test_a_job_that_nobody_wrote_down_is_found_and_entered(bench: Bench) -> None:
    run = bench.add(make_record(job=None))
    bench.scheduler.job_of[run.record.run_dir] = "77"
    bench.scheduler.say("77", S.RUNNING)
    assert "ALLOCATED" in bench("status").stdout
    assert bench.index.find("77").id == run.record.id
    assert json.loads(bench.transport.files[run.record.paths.record])["job"] == "77"


def test_a_run_whose_folder_is_gone_is_told_by_the_scheduler(bench: Bench) -> None:
    run = bench.add()
    run.start()
    bench.transport.remove_tree(run.record.run_dir)
    for result in (bench("status"), bench("status", "42"), bench("status", run.record.run_dir)):
        assert "ALLOCATED" in result.stdout
        assert "is no run folder" in result.stdout


# -- watch ---------------------------------------------------------------------------------------------------------


def script_a_good_life(bench: Bench) -> ScriptedRun:
    run = bench.add()
    run.slurm(S.PENDING, reason="Priority")
    bench.at(60, run.start)
    bench.at(120, run.become_ready)
    bench.at(600, lambda: run.exit("served", ready=True))
    return run


def test_watch_prints_a_line_a_change(bench: Bench) -> None:
    script_a_good_life(bench)
    result = bench("watch", "42")
    assert result.exit_code == 0
    assert [line[10:] for line in result.stdout.splitlines()] == [
        "PENDING      Priority",
        "STARTING     started decode-0",
        "READY        http://10.0.0.11:20000",
        "DONE",
    ]


def test_what_a_job_notes_stands_beside_ready_in_every_view(bench: Bench) -> None:
    run = script_a_good_life(bench)
    bench.at(90, lambda: run.event("note", text="no nginx here"))
    shown = [bench("watch", "42", "--until", "ready"), bench("status", "42"), bench("status")]
    said = "http://10.0.0.11:20000 · no nginx here"
    assert [[line.endswith(said) for line in result.stdout.splitlines() if "nginx" in line] for result in shown] == [[True]] * 3
    assert json.loads(bench("status", "42", "--format", "json").stdout)["note"] == "no nginx here"


def test_watch_until_ready(bench: Bench) -> None:
    script_a_good_life(bench)
    result = bench("watch", "42", "--until", "ready", "--format", "json")
    assert result.exit_code == 0
    assert [json.loads(line)["phase"] for line in result.stdout.splitlines()] == ["PENDING", "STARTING", "READY"]


def test_watch_on_a_terminal(bench: Bench) -> None:
    run = script_a_good_life(bench)
    bench.terminal = True
    result = bench("watch", "42", "--until", "ready")
    assert result.exit_code == 0
    assert run.record.id in result.stdout
    assert "READY" in result.stdout


def test_ctrl_c_detaches(bench: Bench) -> None:
    run = bench.add()
    run.slurm(S.PENDING)
    bench.at(30, interrupt)
    for arguments in (["watch", "42"], ["wait", "42"]):
        bench.clock = ScriptedClock(START)
        bench.at(30, interrupt)
        result = bench(*arguments)
        assert result.exit_code == 130
        assert f"recipegen watch {run.record.id}" in result.stderr
    assert bench.scheduler.cancelled == []


# -- wait ----------------------------------------------------------------------------------------------------------


def test_wait_for_ready_prints_the_url_alone(bench: Bench) -> None:
    script_a_good_life(bench)
    result = bench("wait", "42")
    assert (result.exit_code, result.stdout) == (0, "http://10.0.0.11:20000\n")
    assert "STARTING" in result.stderr


def test_wait_for_done(bench: Bench) -> None:
    script_a_good_life(bench)
    result = bench("wait", "42", "--for", "done", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["phase"] == "DONE"
    assert bench("wait", "42", "--for", "ready").stdout == ""


def fail_by(bench: Bench, reason: str) -> None:
    run = bench.add()
    run.start()
    bench.at(60, lambda: run.exit(reason, code=1, step="decode-0"))
    bench.at(60, lambda: run.slurm(S.CANCELLED if reason == "cancelled" else S.FAILED))


@pytest.mark.parametrize(("reason", "code"), [("step_ended", 4), ("cancelled", 4), ("manifest", 4), ("deadline", 5)])
@pytest.mark.parametrize("verb", [["wait"], ["wait", "--for", "done"], ["watch"]])
def test_how_a_wait_ends(bench: Bench, reason: str, code: int, verb: list[str]) -> None:
    fail_by(bench, reason)
    result = bench(*verb, "42")
    assert result.exit_code == code
    assert "error: run " in result.stderr


def test_a_job_beyond_its_time_limit(bench: Bench) -> None:
    bench.add().slurm(S.PENDING)
    bench.at(10, lambda: bench.scheduler.say("42", S.TIMEOUT))
    assert bench("wait", "42").exit_code == 5


def test_a_lost_run(bench: Bench) -> None:
    bench.add()
    assert bench("wait", "42", "--format", "json").exit_code == 4


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1:30", 90), ("0:01:30", 90), ("0", 0)])
def test_a_wait_may_have_a_timeout(bench: Bench, text: str, seconds: int) -> None:
    bench.add().slurm(S.PENDING)
    result = bench("wait", "42", "--timeout", text)
    assert result.exit_code == 5
    assert "is not ready yet: PENDING" in result.stderr
    assert bench.clock.now() == START + seconds


@pytest.mark.parametrize("text", ["", "x", "-1", "1:2:3:4", "1h", "٣", "1.5", "9" * 400, "1:" + "9" * 400])
def test_a_timeout_that_is_none(bench: Bench, text: str) -> None:
    bench.add()
    result = bench("wait", "42", "--timeout", text)
    assert result.exit_code == 2
    assert "expected seconds" in result.stderr


# -- cancel --------------------------------------------------------------------------------------------------------


def test_cancel_waits_for_the_end(bench: Bench) -> None:
    run = bench.add()
    run.start()
    bench.scheduler.on_cancel = lambda _job: bench.clock.after(20, lambda: run.exit("cancelled", code=130))
    result = bench("cancel", "42")
    assert (result.exit_code, result.stdout) == (0, f"{run.record.id}: CANCELLED\n")
    assert bench.scheduler.cancelled == ["42"]
    assert 20 <= bench.clock.now() - START <= 60


def test_cancel_may_be_repeated(bench: Bench) -> None:
    run = bench.add()
    run.slurm(S.PENDING)
    assert bench("cancel", "42").exit_code == 0
    again = bench("cancel", "42", "--format", "json")
    assert (again.exit_code, json.loads(again.stdout)["phase"]) == (0, "CANCELLED")
    assert bench.scheduler.cancelled == ["42"]


def test_cancel_leaves_what_has_ended(bench: Bench) -> None:
    bench.add().exit("served", ready=True)
    assert bench("cancel", "42").stdout.endswith(": DONE\n")
    assert bench.scheduler.cancelled == []


def test_cancel_gives_up_in_the_end(bench: Bench) -> None:
    run = bench.add()
    run.start()
    bench.scheduler.on_cancel = lambda _job: run.slurm(S.COMPLETING)
    result = bench("cancel", "42", "--timeout", "30")
    assert result.exit_code == 5
    assert "has not ended yet" in result.stderr


def test_cancel_without_a_job(bench: Bench) -> None:
    run = bench.add(make_record(job=None))
    result = bench("cancel", run.record.id)
    assert result.exit_code == 2
    assert "has no job" in result.stderr


def test_cancel_with_the_scheduler_away(bench: Bench) -> None:
    bench.add().start()
    bench.scheduler.outage = "connect failure"
    result = bench("cancel", "42")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "error: connect failure" in result.stderr


@pytest.mark.parametrize("word", ["20", "2027", "cc1", "tp8", "1xtp8-1xtp8-mtp-cc"])
def test_cancel_takes_no_part_that_could_mean_anything(bench: Bench, word: str) -> None:
    bench.add().start()
    result = bench("cancel", word)
    assert (result.exit_code, result.stdout) == (2, "")
    assert bench.scheduler.cancelled == []


@pytest.mark.parametrize("word", ["1xtp8", "ab12", "42"])
def test_cancel_takes_what_begins_or_ends_one_id(bench: Bench, word: str) -> None:
    bench.add().slurm(S.PENDING)
    assert bench("cancel", word).exit_code == 0
    assert bench.scheduler.cancelled == ["42"]


def test_cancel_finds_a_job_that_nobody_wrote_down(bench: Bench) -> None:
    run = bench.add(make_record(job=None))
    bench.scheduler.job_of[run.record.run_dir] = "77"
    bench.scheduler.say("77", S.PENDING)
    assert bench("cancel", run.record.id).exit_code == 0
    assert bench.scheduler.cancelled == ["77"]


@pytest.mark.parametrize("job", ["42", None])
def test_cancel_ends_a_job_whose_folder_is_gone(bench: Bench, job: str | None) -> None:
    run = bench.add(make_record(job=job))
    bench.scheduler.job_of[run.record.run_dir] = "42"
    bench.scheduler.say("42", S.RUNNING)
    bench.transport.remove_tree(run.record.run_dir)
    result = bench("cancel", run.record.run_dir)
    assert (result.exit_code, result.stdout) == (0, f"{run.record.id}: CANCELLED\n")
    assert "is no run folder" in result.stderr
    assert bench.scheduler.cancelled == ["42"]
    assert bench.transport.files == {}


def test_cancel_of_a_job_that_is_not_known_says_so(bench: Bench) -> None:
    run = bench.add(make_record(job=None))
    bench.scheduler.outage = "connect failure"
    result = bench("cancel", run.record.id)
    assert result.exit_code == 2
    assert "whether it has a job could not be asked: connect failure" in result.stderr


def test_cancel_of_a_failure_returns_at_once_and_leaves_it_one(bench: Bench) -> None:
    run = bench.add()
    run.start()
    run.slurm(S.NODE_FAIL)
    result = bench("cancel", "42", "--timeout", "10")
    assert (result.exit_code, result.stdout) == (0, f"{run.record.id}: FAILED\n")
    assert bench.scheduler.cancelled == ["42"]
    assert bench.scheduler.jobs["42"].state is S.NODE_FAIL
    assert bench.clock.now() - START <= 3


# -- what they share -----------------------------------------------------------------------------------------------


def test_a_scheduler_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="expected slurm or local"):
        connect({"name": "x"}, "pbs")


@pytest.mark.parametrize("root", [None, 1, "relative", "/a\0b"])
def test_a_run_root_that_is_none_is_refused(root: object) -> None:
    with pytest.raises(InputError, match="expected an absolute path"):
        connect({"name": "x", "run_root": root}, "local")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h00m"), (86399, "23h59m"), (90000, "1d01h")],
)
def test_ages(seconds: float, text: str) -> None:
    assert format_age(seconds) == text
