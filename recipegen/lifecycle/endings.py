"""How a job ended, by its own word first, then the scheduler's, then by what its steps and the clock show."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.lifecycle.markers import Exit
from recipegen.lifecycle.states import Observation, Phase, RunState
from recipegen.scheduler import Activity, SchedulerState

_S = SchedulerState
DEADLINE = "deadline"
"""The reason of a run that was not READY in time."""


@dataclass(frozen=True)
class Ending:
    """A final phase, its reason in one word, and a line for people."""

    phase: Phase
    reason: str
    diagnosis: str = ""


_BY_REASON = {
    DEADLINE: "the endpoint was not READY by the deadline",
    "node_check": "a node did not pass its checks; see logs/check.*.log",
    "manifest": "the bundle is not the reviewed one: nothing was started",
    "site": "site.env is missing or lacks a value",
    "internal": "the batch script itself failed",
}
_BY_STATE = {
    _S.NODE_FAIL: "a node of the job failed",
    _S.OUT_OF_MEMORY: "the job ran out of memory",
    _S.PREEMPTED: "the job was preempted",
    _S.BOOT_FAIL: "a node of the job did not boot",
    _S.FAILED: "the batch script failed",
    _S.COMPLETED: "the batch script ended before the endpoint was READY",
}
_TIME_IS_UP = frozenset({_S.TIMEOUT, _S.DEADLINE})


def find_ending(state: RunState, seen: Observation) -> Ending | None:
    """Return how the job ended, or None as long as it lives or its last word may still come."""
    if seen.exit is not None and seen.belongs(seen.exit.stamp, state.trail.restart):
        return _by_marker(state, seen, seen.exit)
    if state.trail.ended_at is not None:
        return _by_scheduler(state, seen)
    if state.trail.failure and state.trail.said is not _S.COMPLETING:
        return Ending(Phase.FAILED, "step_ended", state.trail.failure)
    return _by_deadline(state, seen)


def is_ending(state: RunState) -> bool:
    """Whether the job has ended, but what it ended as is not settled yet."""
    return not state.phase.over and (state.trail.ended_at is not None or state.trail.exit_at is not None)


def _by_marker(state: RunState, seen: Observation, marker: Exit) -> Ending | None:
    if marker.reason == "served":
        return Ending(Phase.DONE, marker.reason)
    if marker.reason == "cancelled":
        return _by_signal(state, seen, was_ready=state.was_ready or marker.ready)
    if marker.reason == "step_ended":
        text = f"{marker.step or 'a step'} ended while the endpoint should have been up; see logs/{marker.step or '*'}.*.log"
        return Ending(Phase.FAILED, marker.reason, state.trail.failure or marker.detail or text)
    text = _BY_REASON.get(marker.reason, f"the job ended: {marker.reason}")
    return Ending(Phase.FAILED, marker.reason, _join(f"{text} (exit code {marker.code})", marker.detail))


def _by_signal(state: RunState, seen: Observation, *, was_ready: bool) -> Ending | None:
    """A signal ended the job: the scheduler knows whether it came from a user, from the time limit or from a fault."""
    trail = state.trail
    if trail.ended_at is None:
        unasked = seen.view is not None and seen.view.state.activity is Activity.UNKNOWN
        waited = trail.exit_at is not None and seen.now - trail.exit_at >= seen.limits.exit_grace_s
        return Ending(Phase.CANCELLED, "cancelled") if unasked or waited else None
    if trail.said in _TIME_IS_UP:
        return _time_limit(was_ready=was_ready)
    if trail.said in (_S.NODE_FAIL, _S.PREEMPTED, _S.OUT_OF_MEMORY):
        return Ending(Phase.FAILED, trail.said.value.lower(), _BY_STATE[trail.said])
    return Ending(Phase.CANCELLED, "cancelled")


def _by_scheduler(state: RunState, seen: Observation) -> Ending | None:
    """The scheduler alone tells; a job that ran gets time for its marker to cross a slow file system."""
    trail = state.trail
    ran = trail.started is not None or state.reached.rank >= Phase.ALLOCATED.rank
    if ran and trail.ended_at is not None and seen.now - trail.ended_at < seen.limits.exit_grace_s:
        return None
    if trail.said is _S.CANCELLED:
        return Ending(Phase.CANCELLED, "cancelled")
    if trail.said in _TIME_IS_UP:
        return _time_limit(was_ready=state.was_ready)
    if trail.said is _S.COMPLETED and state.was_ready:
        return Ending(Phase.DONE, "completed")
    text = trail.failure or _BY_STATE.get(trail.said, "the job ended")
    return Ending(Phase.FAILED, trail.said.value.lower(), f"{text} (scheduler: {_words(state, seen)}; no exit marker)")


def _by_deadline(state: RunState, seen: Observation) -> Ending | None:
    waits = seen.view is not None and (seen.view.state.queued or seen.view.state is _S.SUSPENDED)
    if state.was_ready or state.trail.started is None or seen.unreadable or waits:
        return None
    late = seen.now - state.trail.started - seen.ready_timeout_s
    if late <= seen.limits.ready_margin_s:
        return None
    return Ending(Phase.FAILED, DEADLINE, f"not READY {seen.ready_timeout_s:.0f} s after its start, and the job itself did not say so")


def _time_limit(*, was_ready: bool) -> Ending:
    if was_ready:
        return Ending(Phase.DONE, "time_limit")
    return Ending(Phase.TIMED_OUT, "time_limit", "the time limit passed before the endpoint was READY")


def _words(state: RunState, seen: Observation) -> str:
    view = seen.view
    if view is None or view.exit_code is None:
        return state.trail.said.value
    return " ".join(filter(None, [state.trail.said.value, f"{view.exit_code}:{view.signal}", view.reason if view.reason != "None" else ""]))


def _join(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
