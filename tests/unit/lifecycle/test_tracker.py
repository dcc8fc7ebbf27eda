from __future__ import annotations

import json

import pytest

from recipegen.errors import TransportError
from recipegen.lifecycle.folder import FolderReader
from recipegen.lifecycle.states import Limits, Phase, RunState
from recipegen.lifecycle.tracker import Pace, Tracker
from recipegen.runs import RunRecord, read_run, write_run
from recipegen.scheduler import SchedulerState as S
from recipegen.scheduler.scripted import ScriptedScheduler
from recipegen.transport.scripted import ScriptedTransport
from tests.scripted_run import START, ScriptedRun, make_record


def over(state: RunState) -> bool:
    return state.phase.over


def look(run: ScriptedRun, tracker: Tracker, seconds: float = 0) -> RunState:
    run.clock.sleep(seconds)
    tracker.look()
    return tracker.latest[0].state


def settled(run: ScriptedRun, **limits: float) -> RunState:
    """Follow to the end, at most for a day."""
    tracker = run.tracker(Limits(**limits))  # type: ignore[arg-type]
    list(tracker.follow(reached=over, deadline=run.clock.now() + 86_400))
    return tracker.latest[0].state


# -- a life without trouble --------------------------------------------------------------------------------------------


def test_from_submission_to_done() -> None:
    run = ScriptedRun()
    script = [
        (0, lambda: run.slurm(S.PENDING, reason="Resources")),
        (60, lambda: run.slurm(S.CONFIGURING, nodes="c[01-02]")),
        (70, run.start),
        (100, lambda: run.event("instances", writer="probe", prefill=1, decode=0, expected={"prefill": 1, "decode": 1})),
        (130, lambda: run.event("completion", writer="probe", ok=1, needed=3, tokens=4)),
        (140, run.become_ready),
        (900, lambda: run.event("tear_down", reason="served")),
        (901, lambda: run.event("step_ended", step="decode-0", code=143)),
        (905, lambda: run.exit("served", ready=True)),
        (906, lambda: run.slurm(S.COMPLETED, exit_code=0)),
    ]
    for at, action in script:
        run.clock.after(at, action)
    changes = list(run.tracker().follow(reached=over))
    phases = list(dict.fromkeys(change.state.phase for change in changes))
    assert phases == [Phase.SUBMITTED, Phase.PENDING, Phase.ALLOCATED, Phase.STARTING, Phase.REGISTERING, Phase.READY, Phase.DONE]
    registering = [change.state.detail for change in changes if change.state.phase is Phase.REGISTERING]
    assert registering == ["prefill 1/1, decode 0/1", "completions 1/3"]
    ready = next(change.state for change in changes if change.state.phase is Phase.READY)
    assert (ready.url, ready.model, ready.nodes, ready.detail) == ("http://10.0.0.11:20000", "qwen", "c[01-02]", "")
    assert [(worker.name, worker.phase) for worker in ready.workers] == [("prefill-0", Phase.READY), ("decode-0", Phase.READY)]
    assert [str(count) for count in ready.instances] == ["prefill 1/1", "decode 1/1"]


def test_another_process_comes_to_the_same_state_from_the_files() -> None:
    run = ScriptedRun()
    run.start()
    first = run.tracker()
    for _ in range(3):
        look(run, first, 5)
    run.become_ready()
    assert look(run, first, 5) == look(run, run.tracker())


def test_pending_shows_the_reason_as_it_changes() -> None:
    run = ScriptedRun()
    tracker = run.tracker()
    run.slurm(S.PENDING, reason="Priority")
    assert look(run, tracker).detail == "Priority"
    run.slurm(S.PENDING, reason="Resources")
    assert look(run, tracker).detail == "Resources"


def test_one_poll_for_all_runs_and_none_for_the_final_ones() -> None:
    transport, scheduler = ScriptedTransport(), ScriptedScheduler()
    runs = [ScriptedRun(make_record(job=job, token=f"000{job}"), transport=transport, scheduler=scheduler) for job in "123"]
    for run in runs:
        run.slurm(S.PENDING)
    tracker = Tracker([run.record for run in runs], transport, scheduler, runs[0].clock)
    tracker.look()
    runs[1].exit("served", ready=True)
    tracker.look()
    tracker.look()
    assert scheduler.polls == [("1", "2", "3"), ("1", "2", "3"), ("1", "3")]
    assert [change.state.phase for change in tracker.latest] == [Phase.PENDING, Phase.DONE, Phase.PENDING]


def test_a_run_gets_its_job_id_while_it_is_followed() -> None:
    run = ScriptedRun(make_record(job=None))
    tracker = run.tracker()
    assert look(run, tracker).phase is Phase.SUBMITTED
    assert run.scheduler.polls == []
    write_run(run.transport, run.record.with_job("42", START))
    run.scheduler.say("42", S.PENDING, reason="Resources")
    assert look(run, tracker).phase is Phase.PENDING
    assert tracker.latest[0].run.job == "42"


@pytest.mark.parametrize("mark", ["events", "ran", "endpoint"])
def test_a_job_that_nobody_wrote_down_is_found_by_its_marks(mark: str) -> None:
    run = ScriptedRun(make_record(job=None))
    run.scheduler.say("77", S.RUNNING)
    if mark == "events":
        run.event("job_started", job="77", nodes=2)
    elif mark == "endpoint":
        run.endpoint(job="77")
    else:
        run.transport.put(run.record.paths.ran, b'{"job": "77", "restart": 0}')
    heard: list[RunRecord] = []
    tracker = Tracker([run.record], run.transport, run.scheduler, run.clock, on_job=heard.append)
    assert look(run, tracker).phase in (Phase.ALLOCATED, Phase.STARTING, Phase.READY)
    assert [found.job for found in heard] == ["77"]
    assert read_run(run.transport, run.record.run_dir).job == "77"


def test_a_job_that_nobody_wrote_down_is_found_by_the_scheduler() -> None:
    run = ScriptedRun(make_record(job=None))
    run.scheduler.job_of[run.record.run_dir] = "77"
    run.scheduler.say("77", S.PENDING, reason="Resources")
    tracker = run.tracker()
    assert look(run, tracker).phase is Phase.PENDING
    assert read_run(run.transport, run.record.run_dir).job == "77"


def test_whether_there_is_a_job_is_not_known_while_the_scheduler_is_away() -> None:
    run = ScriptedRun(make_record(job=None))
    tracker = run.tracker()
    run.scheduler.outage = "connect failure"
    state = look(run, tracker, 10_000)
    assert (state.phase, state.warning) == (Phase.SUBMITTED, "whether it has a job could not be asked: connect failure")
    run.scheduler.outage = ""
    assert look(run, tracker).phase is Phase.LOST


def test_a_run_folder_that_is_removed_is_a_warning() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    assert look(run, tracker).warning == ""
    run.transport.remove_tree(run.record.run_dir)
    assert "holds no run.json any more" in look(run, tracker, 5).warning
    run.slurm(S.COMPLETED)
    assert look(run, tracker, 100).warning.startswith("the job has ended")
    assert look(run, tracker, 100).phase is Phase.FAILED


def test_a_file_that_cannot_be_read_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ScriptedRun()
    run.start()
    read = run.transport.read

    def refuse(path: str, offset: int = 0) -> bytes | None:
        if path.endswith(("exit.json", "events.x.jsonl")):
            raise TransportError(f"cannot read {path}: is a directory")
        return read(path, offset)

    monkeypatch.setattr(run.transport, "read", refuse)
    run.transport.append(run.record.paths.events("x"), b"")
    run.become_ready()
    state = look(run, run.tracker())
    assert state.phase is Phase.READY
    assert "exit.json: is a directory" in state.warning


@pytest.mark.timeout(20)
def test_very_many_steps() -> None:
    run = ScriptedRun()
    lines = [{"time": START, "job": "42", "restart": 0, "event": "step_started", "step": f"decode-{n}"} for n in range(30_000)]
    lines += [lines[0] | {"step": step} for step in ("decode-" + "9" * 5000, "decode-٣", "decode-")]
    run.transport.append(run.record.paths.events("job"), "".join(f"{json.dumps(line)}\n" for line in lines).encode())
    workers = look(run, run.tracker()).workers
    assert [worker.name for worker in workers] == [f"decode-{n}" for n in range(10_000)]


# -- READY ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("job", "restart"), [("41", 0), ("42", 0)])
def test_a_predecessors_markers_are_not_ours(job: str, restart: int) -> None:
    run = ScriptedRun()
    run.slurm(S.RUNNING, restarts=1)
    run.endpoint(job=job, restart=restart)
    run.exit("served", job=job, restart=restart, ready=True)
    run.event("step_ended", job=job, restart=restart, step="prefill-0", code=1)
    assert look(run, run.tracker()).phase is Phase.ALLOCATED


def test_a_requeued_job_begins_anew() -> None:
    run = ScriptedRun()
    run.start()
    run.become_ready()
    tracker = run.tracker()
    assert look(run, tracker).phase is Phase.READY
    run.slurm(S.PENDING, reason="BeginTime", restarts=1)
    state = look(run, tracker)
    assert (state.phase, state.detail, state.url, state.workers) == (Phase.PENDING, "BeginTime", "", ())
    run.event("job_started", restart=1)
    assert look(run, tracker).phase is Phase.STARTING


def test_the_ready_event_alone_is_not_ready() -> None:
    run = ScriptedRun()
    run.start()
    run.event("ready", writer="probe", url="http://10.0.0.11:20000")
    assert look(run, run.tracker()).phase is Phase.STARTING


def test_a_torn_endpoint_is_not_there_yet() -> None:
    run = ScriptedRun()
    run.start()
    run.transport.put(run.record.paths.endpoint, b'{"job": "42", "restart": 0, "ti')
    assert look(run, run.tracker()).phase is Phase.STARTING


def test_a_failed_completion_is_shown() -> None:
    run = ScriptedRun()
    run.start()
    run.event("completion_failed", writer="probe", status=503, message="no instance of decode")
    assert look(run, run.tracker()).detail == "completion failed: HTTP 503 no instance of decode"


def test_what_the_probe_still_waits_for_is_shown() -> None:
    """Completions go on when enough are good, until every instance serves; a failure begins anew."""
    run = ScriptedRun()
    run.start()
    script: list[tuple[str, dict[str, object], str]] = [
        ("completion", {"ok": 2, "needed": 2, "tokens": 4}, "completions 2/2"),
        ("serving", {"served": 5, "instances": 8}, "completions 2/2, serving 5/8"),
        ("completion", {"ok": 3, "needed": 2, "tokens": 4}, "completions 3/2, serving 5/8"),
        ("serving", {"served": 6, "instances": 8}, "completions 3/2, serving 6/8"),
        ("completion_failed", {"status": 503, "message": "busy"}, "completion failed: HTTP 503 busy"),
        ("completion", {"ok": 1, "needed": 2, "tokens": 4}, "completions 1/2"),
    ]
    tracker = run.tracker()
    for name, keys, shown in script:
        run.event(name, writer="probe", **keys)
        assert look(run, tracker, 1).detail == shown


def test_what_the_job_notes_is_kept() -> None:
    run = ScriptedRun()
    run.start()
    run.event("note", text="no nginx here")
    tracker = run.tracker()
    assert look(run, tracker).note == "no nginx here"
    run.become_ready()
    assert look(run, tracker, 5).note == "no nginx here"


# -- how it ends: the job's own word -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "code", "phase", "words"),
    [
        ("served", 0, Phase.DONE, ""),
        ("deadline", 5, Phase.FAILED, "not READY by the deadline"),
        ("step_ended", 1, Phase.FAILED, "it said so"),
        ("node_check", 1, Phase.FAILED, "see logs/check.*.log (exit code 1): it said so"),
        ("manifest", 1, Phase.FAILED, "not the reviewed one"),
        ("site", 1, Phase.FAILED, "site.env"),
        ("internal", 9, Phase.FAILED, "(exit code 9): it said so"),
        ("unheard_of", 1, Phase.FAILED, "unheard_of"),
    ],
)
def test_exit_marker_first(reason: str, code: int, phase: Phase, words: str) -> None:
    run = ScriptedRun()
    run.start()
    run.exit(reason, code=code, step="decode-0", detail="it said so")
    run.slurm(S.RUNNING)
    state = look(run, run.tracker())
    assert (state.phase, state.reason) == (phase, reason)
    assert words in state.diagnosis


def test_the_exit_marker_is_believed_when_the_scheduler_is_away() -> None:
    run = ScriptedRun()
    run.start()
    run.exit("served", ready=True)
    run.scheduler.outage = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
    assert look(run, run.tracker()).phase is Phase.DONE


@pytest.mark.parametrize(
    ("said", "ready", "phase"),
    [
        (S.CANCELLED, False, Phase.CANCELLED),
        (S.COMPLETED, False, Phase.CANCELLED),
        (S.FAILED, True, Phase.CANCELLED),
        (S.TIMEOUT, False, Phase.TIMED_OUT),
        (S.TIMEOUT, True, Phase.DONE),
        (S.NODE_FAIL, True, Phase.FAILED),
        (S.PREEMPTED, False, Phase.FAILED),
    ],
)
def test_a_signal_came_from_where_the_scheduler_says(said: S, ready: bool, phase: Phase) -> None:
    run = ScriptedRun()
    run.start()
    run.exit("cancelled", code=130, ready=ready)
    tracker = run.tracker()
    state = look(run, tracker)
    assert not state.phase.over
    assert "has ended" in state.warning
    run.slurm(said)
    assert look(run, tracker).phase is phase


def test_a_cancelled_job_that_the_scheduler_forgot_is_cancelled() -> None:
    run = ScriptedRun()
    run.exit("cancelled", code=130)
    assert look(run, run.tracker()).phase is Phase.CANCELLED


def test_a_cancelled_job_with_the_scheduler_away_is_cancelled_in_the_end() -> None:
    run = ScriptedRun()
    run.exit("cancelled", code=130)
    run.scheduler.outage = "away"
    tracker = run.tracker()
    assert not look(run, tracker).phase.over
    assert look(run, tracker, 61).phase is Phase.CANCELLED


# -- how it ends: the scheduler alone ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "ready", "phase", "words"),
    [
        (S.FAILED, False, Phase.FAILED, "FAILED 1:0 NonZeroExitCode; no exit marker"),
        (S.NODE_FAIL, True, Phase.FAILED, "a node of the job failed"),
        (S.OUT_OF_MEMORY, True, Phase.FAILED, "out of memory"),
        (S.COMPLETED, False, Phase.FAILED, "before the endpoint was READY"),
        (S.COMPLETED, True, Phase.DONE, ""),
        (S.TIMEOUT, False, Phase.TIMED_OUT, "time limit"),
        (S.TIMEOUT, True, Phase.DONE, ""),
        (S.CANCELLED, True, Phase.CANCELLED, ""),
    ],
)
def test_ended_without_a_marker(said: S, ready: bool, phase: Phase, words: str) -> None:
    run = ScriptedRun()
    run.start()
    if ready:
        run.become_ready()
    tracker = run.tracker()
    look(run, tracker)
    run.slurm(said, exit_code=1, reason="NonZeroExitCode")
    assert not look(run, tracker, 5).phase.over
    assert not look(run, tracker, 30).phase.over
    state = look(run, tracker, 31)
    assert state.phase is phase
    assert words in state.diagnosis


def test_the_marker_of_a_job_that_has_ended_may_come_late() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    run.slurm(S.FAILED, exit_code=1)
    assert look(run, tracker).phase is Phase.STARTING
    run.exit("manifest", code=1)
    assert look(run, tracker, 50).reason == "manifest"


def test_a_job_that_never_ran_has_no_last_word_to_wait_for() -> None:
    run = ScriptedRun()
    tracker = run.tracker()
    run.slurm(S.PENDING)
    look(run, tracker)
    run.slurm(S.CANCELLED)
    assert look(run, tracker).phase is Phase.CANCELLED


def test_stale_accounting_is_corrected() -> None:
    """Sacct may show the old attempt's NODE_FAIL although the job will run again."""
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    run.slurm(S.NODE_FAIL)
    look(run, tracker)
    run.slurm(S.RUNNING)
    assert look(run, tracker, 30).phase is Phase.STARTING
    run.slurm(S.NODE_FAIL)
    assert look(run, tracker, 31).phase is Phase.STARTING


# -- how it ends: steps and the clock ------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "code"), [("decode-0", 137), ("prefill-0", 0), ("frontend", 1), ("etcd", 0)])
def test_a_step_that_ends_is_a_failure_at_once(step: str, code: int) -> None:
    run = ScriptedRun()
    run.start()
    run.become_ready()
    run.event("step_ended", step=step, code=code)
    state = look(run, run.tracker())
    assert (state.phase, state.reason) == (Phase.FAILED, "step_ended")
    assert state.diagnosis == f"{step} ended with code {code} while the endpoint should have been up; see logs/{step}.*.log"


def test_the_probe_may_end_and_so_may_all_steps_of_a_tear_down() -> None:
    run = ScriptedRun()
    run.start()
    run.become_ready()
    run.event("step_ended", step="probe", code=0)
    run.event("tear_down", reason="served")
    run.event("step_ended", step="decode-0", code=143)
    state = look(run, run.tracker())
    assert (state.phase, state.warning) == (Phase.READY, "the job is stopping: served")


def test_a_step_ended_by_whoever_ends_the_job_is_no_failure() -> None:
    """Plain scancel sends TERM to the steps before the batch shell knows; the controller says COMPLETING by then."""
    run = ScriptedRun()
    run.start()
    run.event("step_ended", step="decode-0", code=143)
    run.slurm(S.COMPLETING)
    tracker = run.tracker()
    assert not look(run, tracker).phase.over
    run.scheduler.outage = "away for a moment"
    assert not look(run, tracker, 5).phase.over
    run.scheduler.outage = ""
    run.slurm(S.CANCELLED)
    assert look(run, tracker, 5).phase is Phase.STARTING
    assert look(run, tracker, 61).phase is Phase.CANCELLED


def test_a_step_that_failed_explains_a_job_without_a_marker() -> None:
    run = ScriptedRun()
    run.start()
    run.event("step_ended", step="decode-0", code=1)
    run.slurm(S.FAILED, exit_code=1)
    assert settled(run).diagnosis.startswith("decode-0 ended with code 1 ")


def test_the_deadline_passes_with_a_margin_over_the_jobs_own() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    assert look(run, tracker).phase is Phase.STARTING
    assert look(run, tracker, 1800 + 119).phase is Phase.STARTING
    state = look(run, tracker, 2)
    assert (state.phase, state.reason) == (Phase.FAILED, "deadline")


def test_no_deadline_while_queued_or_blind_or_ready() -> None:
    run = ScriptedRun()
    tracker = run.tracker()
    run.slurm(S.PENDING)
    look(run, tracker)
    assert look(run, tracker, 90_000).phase is Phase.PENDING
    run.start()
    look(run, tracker)
    run.transport.outage = "connection lost"
    state = look(run, tracker, 90_000)
    assert (state.phase, state.warning) == (Phase.STARTING, "the run folder could not be read: connection lost")
    run.transport.outage = ""
    run.become_ready()
    assert look(run, tracker, 90_000).phase is Phase.READY


@pytest.mark.parametrize("said", [S.SUSPENDED, S.REQUEUE_HOLD])
def test_a_job_that_is_kept_from_running_is_not_late(said: S) -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    look(run, tracker)
    run.slurm(said, reason="held")
    state = look(run, tracker, 90_000)
    assert state.phase is Phase.STARTING
    assert state.warning in ("the job is suspended", "the scheduler says REQUEUE_HOLD (held)")


# -- what is not an end --------------------------------------------------------------------------------------------


def test_a_poll_that_fails_is_not_a_job_that_fails() -> None:
    run = ScriptedRun()
    run.start()
    run.become_ready()
    tracker = run.tracker()
    look(run, tracker)
    run.scheduler.outage = "connect failure"
    for _ in range(100):
        assert look(run, tracker, 5).phase is Phase.READY
    assert "connect failure" in tracker.latest[0].state.warning


def test_lost_after_many_failures_and_long_silence_and_found_again() -> None:
    run = ScriptedRun()
    run.start()
    run.become_ready()
    tracker = run.tracker()
    look(run, tracker)
    run.scheduler.outage = "connect failure"
    look(run, tracker, 700)
    assert tracker.latest[0].state.phase is Phase.READY, "silence alone"
    for _ in range(20):
        look(run, tracker, 5)
    assert tracker.latest[0].state.phase is Phase.LOST
    assert "could not be asked" in tracker.latest[0].state.diagnosis
    run.event("serving", writer="probe", served=2, instances=2)
    assert look(run, tracker).phase is Phase.READY
    assert tracker.latest[0].state.diagnosis == ""


def test_unknown_is_not_ended() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    look(run, tracker)
    run.scheduler.forget("42")
    for _ in range(10):
        state = look(run, tracker, 30)
        assert (state.phase, state.warning) == (Phase.STARTING, "the scheduler does not know job 42")
    assert look(run, tracker, 301).phase is Phase.LOST
    run.slurm(S.RUNNING)
    assert look(run, tracker).phase is Phase.STARTING


def test_only_answers_in_a_row_count() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    for _ in range(4):
        run.scheduler.forget("42")
        look(run, tracker, 5)
    run.slurm(S.RUNNING)
    look(run, tracker, 5)
    run.scheduler.forget("42")
    assert look(run, tracker, 700).phase is Phase.STARTING


def test_a_submission_that_was_interrupted_is_lost_after_a_while() -> None:
    run = ScriptedRun(make_record(job=None))
    tracker = run.tracker()
    assert look(run, tracker).phase is Phase.SUBMITTED
    state = look(run, tracker, 601)
    assert (state.phase, state.diagnosis) == (Phase.LOST, "it never got a job id: its submission was interrupted")


def test_garbage_in_an_event_file_is_counted_and_survived() -> None:
    run = ScriptedRun()
    run.start()
    run.transport.append(run.record.paths.events("probe"), b"\0\0garbage\n")
    run.event("completion", writer="probe", ok="three", needed=None)
    run.event("instances", writer="probe", prefill="all", expected=[1])
    assert look(run, run.tracker()).phase is Phase.STARTING


def test_an_older_count_that_comes_late_changes_nothing() -> None:
    run = ScriptedRun()
    run.start()
    tracker = run.tracker()
    run.event("instances", writer="probe", time=START + 9, prefill=1, decode=1)
    look(run, tracker, 10)
    run.event("instances", writer="probe", time=START + 8, prefill=1, decode=0)
    assert [str(count) for count in look(run, tracker).instances] == ["prefill 1/1", "decode 1/1"]


def test_each_line_is_read_once() -> None:
    run = ScriptedRun()
    run.start()
    reader = FolderReader(run.record.paths)
    run.transport.append(run.record.paths.events("job"), b'no event\n{"time": 1, ')
    assert (len(reader.read(run.transport).events), reader.garbage) == (4, 1)
    run.transport.append(run.record.paths.events("job"), b'"job": "42", "restart": 0, "event": "ready"}\n')
    assert [event.name for event in reader.read(run.transport).events] == ["ready"]
    assert (reader.read(run.transport).events, reader.garbage) == ((), 1)


# -- the loop ------------------------------------------------------------------------------------------------------


def test_follow_stops_at_its_deadline() -> None:
    run = ScriptedRun()
    run.slurm(S.PENDING)
    changes = list(run.tracker().follow(reached=over, deadline=START + 100))
    assert run.clock.now() == START + 100
    assert [change.state.phase for change in changes] == [Phase.PENDING]


def test_the_pace_slows_down_in_quiet_times() -> None:
    pace = Pace(fastest=2, slowest=30)
    assert [pace.pause(quiet) for quiet in (0, 20, 100, 3000)] == [2, 2, 10, 30]


def test_of_a_ready_run_only_the_telling_files_are_read() -> None:
    run = ScriptedRun()
    run.start()
    run.event("process_started", writer="prefill-0-0", role="prefill", worker=0, rank=0, node="c01")
    run.become_ready()
    tracker = run.tracker()
    look(run, tracker)
    run.event("process_started", writer="prefill-0-0", role="prefill", worker=7, rank=0, node="c01")
    assert [worker.name for worker in look(run, tracker).workers] == ["prefill-0", "decode-0"]
