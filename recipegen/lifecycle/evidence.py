"""What one look adds to the knowledge of a run that lives."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import replace

from recipegen.lifecycle.events import Event, as_count
from recipegen.lifecycle.states import Observation, Phase, RoleCount, RunState, Trail, Worker
from recipegen.model import Role
from recipegen.scheduler import Activity, JobView, SchedulerState

_WORKER = re.compile(r"(prefill|decode|agg)-[0-9]{1,4}")
_MAY_END = frozenset({"probe", "bench"})
"""Steps whose end, before the tear-down, is no failure."""


def fold(state: RunState, seen: Observation) -> RunState:
    """Take in what is new; what belongs to another job, or to an earlier start of this one, is left out."""
    state = _follow_restart(state, seen)
    for event in seen.events:
        if seen.belongs(event.stamp, state.trail.restart):
            state = _EVENTS.get(event.name, _no_change)(state, event)
            state = _sign(state, min(event.stamp.time, seen.now))
    state = _fold_progress(state, seen.progress)
    state = _fold_endpoint(state, seen)
    state = _fold_poll(replace(state, warning=seen.unreadable), seen)
    if state.trail.exit_at is None and seen.exit is not None and seen.belongs(seen.exit.stamp, state.trail.restart):
        state = _trail(state, exit_at=seen.now)
    return state


def _follow_restart(state: RunState, seen: Observation) -> RunState:
    """A job that was queued anew begins anew: the highest restart count seen is the current one."""
    stamps = [event.stamp for event in seen.events] + [marker.stamp for marker in (seen.endpoint, seen.exit) if marker is not None]
    restarts = [stamp.restart for stamp in stamps if stamp.job == seen.job]
    restarts.append((seen.view.restarts or 0) if seen.view is not None else 0)
    restart = max(restarts)
    if restart <= state.trail.restart:
        return state if state.trail.last_sign else _sign(state, seen.created)
    counts = tuple(replace(count, registered=0) for count in state.instances)
    old = state.trail
    trail = Trail(restart=restart, last_sign=old.last_sign, failed_polls=old.failed_polls, unknown_polls=old.unknown_polls)
    return RunState(instances=counts, trail=trail)


def _fold_endpoint(state: RunState, seen: Observation) -> RunState:
    found = seen.endpoint
    if found is None or not seen.belongs(found.stamp, state.trail.restart):
        return state
    workers = tuple(Worker(worker.name, Phase.READY) if worker.phase.rank < Phase.READY.rank else worker for worker in state.workers)
    state = _sign(replace(state, url=found.url, model=found.model, workers=workers), min(found.stamp.time, seen.now))
    return _reach(state, Phase.READY, "" if state.reached is not Phase.READY else state.detail)


def _fold_progress(state: RunState, progress: tuple[Worker, ...]) -> RunState:
    """Workers go forward only; the run shows the slowest of them."""
    for news in progress:
        state = _put_worker(state, news)
    slowest = min(state.workers, key=lambda worker: worker.phase.rank, default=None)
    if slowest is None or not Phase.STARTING.rank < slowest.phase.rank < Phase.READY.rank:
        return state
    return _reach(state, slowest.phase, f"{slowest.name} {slowest.detail}".rstrip())


def _fold_poll(state: RunState, seen: Observation) -> RunState:
    view = seen.view
    if seen.job is None:
        return _warn(state, f"whether it has a job could not be asked: {seen.poll_error}") if seen.poll_error else state
    if view is None and not seen.poll_error:
        return state
    if view is None:
        return _warn(_trail(state, failed_polls=state.trail.failed_polls + 1), f"the scheduler could not be asked: {seen.poll_error}")
    if view.state.activity is Activity.UNKNOWN:
        return _warn(_trail(state, failed_polls=0, unknown_polls=state.trail.unknown_polls + 1), f"the scheduler does not know job {view.job}")
    state = _sign(_trail(state, failed_polls=0, unknown_polls=0, said=view.state), seen.now)
    return _fold_view(replace(state, nodes=view.nodes or state.nodes), view, seen.now)


def _fold_view(state: RunState, view: JobView, now: float) -> RunState:
    if view.state.activity is Activity.ENDED:
        return _trail(state, ended_at=now if state.trail.ended_at is None else state.trail.ended_at)
    state = _trail(state, ended_at=None)
    if view.state.queued:
        if state.reached.rank > Phase.PENDING.rank:
            return _warn(state, f"the scheduler says {view.state.value} ({view.reason})")
        return _reach(state, Phase.PENDING, view.reason)
    if state.trail.started is None and view.state is SchedulerState.RUNNING:
        state = _trail(state, started=view.start if view.start is not None and view.start <= now else now)
    if view.state in (SchedulerState.SUSPENDED, SchedulerState.STOPPED):
        state = _warn(state, "the job is suspended")
    return _reach(state, Phase.ALLOCATED, f"on {view.nodes}" if view.nodes else "")


def _job_started(state: RunState, event: Event) -> RunState:
    return _reach(_trail(state, started=event.stamp.time), Phase.STARTING, "checking the nodes")


def _container_ready(state: RunState, _event: Event) -> RunState:
    return _reach(state, Phase.STARTING, "the container is ready")


def _step_started(state: RunState, event: Event) -> RunState:
    step = event.text("step")
    if not step:
        return state
    if step == "bench" and state.was_ready:
        return _reach(state, Phase.MEASURING, "")
    if _WORKER.fullmatch(step):
        state = _put_worker(state, Worker(step, Phase.STARTING))
    return _reach(state, Phase.STARTING, f"started {step}")


def _process_started(state: RunState, event: Event) -> RunState:
    name = f"{event.text('role')}-{event.number('worker')}"
    return _put_worker(state, Worker(name, Phase.STARTING, event.text("node"))) if _WORKER.fullmatch(name) else state


def _step_ended(state: RunState, event: Event) -> RunState:
    step, code = event.text("step"), event.number("code")
    if not step or step in _MAY_END or state.trail.stopping:
        return state
    how = f"{step} ended with code {'?' if code is None else code}"
    if _WORKER.fullmatch(step):
        state = _put_worker(state, Worker(step, Phase.FAILED, how))
    return state if state.trail.failure else _trail(state, failure=f"{how} while the endpoint should have been up; see logs/{step}.*.log")


def _instances(state: RunState, event: Event) -> RunState:
    """Take the newest count; while logs show a worker behind, only the full count means that all are registering."""
    if event.stamp.time < state.trail.counted_at:
        return state
    counts = _role_counts(state.instances, event)
    state = _trail(replace(state, instances=counts), counted_at=event.stamp.time)
    complete = all(count.registered >= count.expected for count in counts)
    behind = any(Phase.LOADING.rank <= worker.phase.rank < Phase.REGISTERING.rank for worker in state.workers)
    if any(count.registered for count in counts) and (complete or not behind):
        return _reach(state, Phase.REGISTERING, ", ".join(map(str, counts)))
    return state


def _role_counts(known: tuple[RoleCount, ...], event: Event) -> tuple[RoleCount, ...]:
    wanted = event.data.get("expected")
    expected = {count.role: count.expected for count in known} | _counts_in(wanted if isinstance(wanted, Mapping) else {})
    present = _counts_in(event.data)
    roles = [role for role in Role if role in expected or role in present]
    return tuple(RoleCount(role, present.get(role, 0), expected.get(role, present.get(role, 0))) for role in roles)


def _counts_in(record: Mapping[str, object]) -> dict[Role, int]:
    return {role: count for role in Role if (count := as_count(record.get(role.value))) is not None}


def _completion(state: RunState, event: Event) -> RunState:
    good, needed = event.number("ok"), event.number("needed")
    if good is None or needed is None:
        return state
    state = _trail(state, completions=f"completions {good}/{needed}")
    return _reach(state, Phase.REGISTERING, _probed(state) if good >= needed else state.trail.completions)


def _completion_failed(state: RunState, event: Event) -> RunState:
    status = event.number("status")
    words = [f"HTTP {status}" if status else "", event.text("message")]
    return _reach(state, Phase.REGISTERING, "completion failed: " + " ".join(filter(None, words)))


def _serving(state: RunState, event: Event) -> RunState:
    served, instances = event.number("served"), event.number("instances")
    if served is None or instances is None:
        return state
    state = _trail(state, serving=f"serving {served}/{instances}")
    return _reach(state, Phase.REGISTERING, _probed(state))


def _probed(state: RunState) -> str:
    """How far the probe is, once enough completions are good: more are asked for only until every instance serves."""
    return ", ".join(filter(None, [state.trail.completions, state.trail.serving]))


def _note(state: RunState, event: Event) -> RunState:
    return replace(state, note=event.text("text"))


def _tear_down(state: RunState, event: Event) -> RunState:
    return _trail(state, stopping=event.text("reason") or "tear-down")


def _no_change(state: RunState, _event: Event) -> RunState:
    return state


_EVENTS: Mapping[str, Callable[[RunState, Event], RunState]] = {
    "job_started": _job_started,
    "container_ready": _container_ready,
    "step_started": _step_started,
    "process_started": _process_started,
    "step_ended": _step_ended,
    "instances": _instances,
    "completion": _completion,
    "completion_failed": _completion_failed,
    "serving": _serving,
    "note": _note,
    "tear_down": _tear_down,
}


def _reach(state: RunState, phase: Phase, detail: str) -> RunState:
    """Go forward, never back: news of an earlier phase, late or repeated, changes nothing."""
    if phase.final or phase.rank < state.reached.rank:
        return state
    return replace(state, reached=phase, detail=detail)


def _put_worker(state: RunState, news: Worker) -> RunState:
    workers, place = state.workers, bisect_left(state.workers, _place(news), key=_place)
    known = workers[place : place + 1]
    if known and known[0].name == news.name:
        if known[0] == news or news.phase.rank < known[0].phase.rank:
            return state
        return replace(state, workers=(*workers[:place], news, *workers[place + 1 :]))
    return replace(state, workers=(*workers[:place], news, *workers[place:]))


def _place(worker: Worker) -> tuple[int, int, str]:
    role, _, number = worker.name.partition("-")
    roles = [role.value for role in Role]
    return (roles.index(role) if role in roles else len(roles), int(number) if number.isdecimal() else 0, worker.name)


def _trail(state: RunState, **changes: object) -> RunState:
    return replace(state, trail=replace(state.trail, **changes))  # type: ignore[arg-type]  # the names are checked by Trail itself


def _sign(state: RunState, time: float) -> RunState:
    return _trail(state, last_sign=max(time, state.trail.last_sign))


def _warn(state: RunState, text: str) -> RunState:
    return replace(state, warning="; ".join(filter(None, [state.warning, text])))
