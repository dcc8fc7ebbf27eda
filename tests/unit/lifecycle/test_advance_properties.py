from __future__ import annotations

from hypothesis import event as note
from hypothesis import given, settings
from hypothesis import strategies as st

from recipegen.lifecycle.advance import advance
from recipegen.lifecycle.events import Event, Stamp
from recipegen.lifecycle.markers import Endpoint, Exit
from recipegen.lifecycle.states import Limits, Observation, Phase, RoleCount, RunState, Worker
from recipegen.model import Role
from recipegen.scheduler import JobView, SchedulerState

NAMES = [
    *("job_started", "container_ready", "step_started", "step_ended", "process_started", "instances", "completion"),
    *("completion_failed", "serving", "note", "ready", "tear_down", "unheard_of", ""),
]
KEYS = [
    "step",
    "code",
    "role",
    "worker",
    "rank",
    "node",
    "prefill",
    "decode",
    "agg",
    "expected",
    "ok",
    "needed",
    "status",
    "message",
    "served",
    "reason",
]
REASONS = ["served", "cancelled", "step_ended", "deadline", "node_check", "manifest", "site", "internal", "unheard_of"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.sampled_from(["prefill-0", "decode-1", "probe", "bench", "prefill", "x", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)
stamps = st.builds(Stamp, st.floats(0, 5000), st.sampled_from(["42", "41"]), st.integers(0, 1))
events = st.builds(Event, stamps, st.sampled_from(NAMES), st.dictionaries(st.sampled_from(KEYS), json_values, max_size=5))
views = st.builds(
    JobView,
    st.just("42"),
    st.sampled_from(SchedulerState),
    reason=st.sampled_from(["", "None", "Resources"]),
    exit_code=st.none() | st.integers(0, 255),
    start=st.none() | st.floats(0, 5000),
    restarts=st.none() | st.integers(0, 1),
)
endpoints = st.builds(Endpoint, stamps, st.just("http://x:1"), st.just("m"))
exits = st.builds(Exit, stamps, st.integers(0, 9), st.sampled_from(REASONS), st.sampled_from(["", "decode-0"]), st.booleans(), st.just(""))
workers = st.builds(Worker, st.sampled_from(["prefill-0", "decode-0", "odd"]), st.sampled_from(Phase))
steps = st.tuples(
    st.floats(0, 400),
    st.lists(events, max_size=4),
    st.none() | views,
    st.booleans(),
    st.none() | endpoints,
    st.none() | exits,
    st.lists(workers, max_size=2),
)

START = RunState(instances=(RoleCount(Role.PREFILL, 0, 1), RoleCount(Role.DECODE, 0, 1)))


def observe(now: float, step: tuple[object, ...], *, job: str | None = "42") -> Observation:
    _, news, view, blind, endpoint, end, progress = step
    return Observation(
        now=now,
        job=job,
        created=0,
        ready_timeout_s=1000,
        limits=Limits(failed_polls=3, unknown_polls=2, silence_s=300),
        view=view,  # type: ignore[arg-type]
        poll_error="" if view else "away",
        unreadable="gone" if blind else "",
        events=tuple(news),  # type: ignore[call-overload]
        progress=tuple(progress),  # type: ignore[call-overload]
        endpoint=endpoint,  # type: ignore[arg-type]
        exit=end,  # type: ignore[arg-type]
    )


@settings(max_examples=400)
@given(st.lists(steps, max_size=12), st.sampled_from(["42", None]))
def test_any_event_soup(script: list[tuple[object, ...]], job: str | None) -> None:
    """Nothing raises; a life goes forward within one start of the job; a final phase stays; the words fit the phase."""
    state, now, best = START, 0.0, {}
    for step in script:
        now += step[0]  # type: ignore[operator]
        before, state = state, advance(state, observe(now, step, job=job))
        if before.phase.final:
            assert state is before
        assert state.trail.restart >= before.trail.restart
        if not state.phase.over:
            assert state.phase is state.reached
            assert state.phase.rank >= best.get(state.trail.restart, 0)
            best[state.trail.restart] = state.phase.rank
            assert not state.diagnosis
            assert not state.reason
        if state.phase in (Phase.FAILED, Phase.TIMED_OUT, Phase.LOST):
            assert state.diagnosis
        if state.phase in (Phase.READY, Phase.MEASURING):
            assert state.url
        note(state.phase.value)


@given(st.lists(steps, max_size=8))
def test_the_same_looks_give_the_same_state(script: list[tuple[object, ...]]) -> None:
    def run() -> RunState:
        state, now = START, 0.0
        for step in script:
            now += step[0]  # type: ignore[operator]
            state = advance(state, observe(now, step))
        return state

    assert run() == run()


@given(st.lists(events, max_size=6))
def test_foreign_events_change_nothing(soup: list[Event]) -> None:
    foreign = [Event(Stamp(event.stamp.time, "41", event.stamp.restart), event.name, event.data) for event in soup]
    quiet = (0.0, [], JobView("42", SchedulerState.RUNNING), False, None, None, [])
    loud = (0.0, foreign, JobView("42", SchedulerState.RUNNING), False, None, None, [])
    assert advance(START, observe(1, loud)) == advance(START, observe(1, quiet))


def test_the_run_shows_its_slowest_worker() -> None:
    view = JobView("42", SchedulerState.RUNNING)

    def see(state: RunState, *progress: Worker, counts: int | None = None) -> RunState:
        news = [] if counts is None else [Event(Stamp(1, "42", 0), "instances", {"prefill": counts, "decode": 0})]
        return advance(state, observe(1, (0, news, view, False, None, None, progress)))

    state = see(START, Worker("prefill-0", Phase.CAPTURING, "3/35"), Worker("decode-0", Phase.LOADING, "40 %"))
    assert (state.phase, state.detail) == (Phase.LOADING, "decode-0 40 %")
    state = see(state, Worker("decode-0", Phase.LOADING, "80 %"), counts=1)
    assert (state.phase, state.detail, str(state.instances[0])) == (Phase.LOADING, "decode-0 80 %", "prefill 1/1")
    state = see(state, Worker("decode-0", Phase.CAPTURING, "4/35"), Worker("prefill-0", Phase.LOADING, "late news"))
    assert (state.phase, state.detail) == (Phase.CAPTURING, "prefill-0 3/35")


def test_every_state_of_slurm_is_in_the_table() -> None:
    assert {state.activity.value for state in SchedulerState} == {"active", "ended", "unknown"}
    assert SchedulerState.parse("CANCELLED by 1000") is SchedulerState.CANCELLED
    assert SchedulerState.parse("cancelled+") is SchedulerState.CANCELLED
    assert [SchedulerState.parse(text) for text in ("", "  ", "BORED", "activity", "parse")] == [SchedulerState.UNKNOWN] * 5
