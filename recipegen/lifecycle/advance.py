"""One step of tracking: what was known and one more look give what is known now."""

from __future__ import annotations

from dataclasses import replace

from recipegen.lifecycle.endings import find_ending, is_ending
from recipegen.lifecycle.evidence import fold
from recipegen.lifecycle.states import Observation, Phase, RunState


def advance(state: RunState, seen: Observation) -> RunState:
    """Return the state after one look; a final phase stays, a lost run that gives a sign is found again."""
    if state.phase.final:
        return state
    state = replace(fold(state, seen), diagnosis="", reason="")
    ending = find_ending(state, seen)
    if ending is not None:
        reached = Phase.READY if ending.phase is Phase.DONE and not state.was_ready else state.reached
        return replace(state, phase=ending.phase, reached=reached, reason=ending.reason, diagnosis=ending.diagnosis, detail="", warning="")
    lost = _find_loss(state, seen)
    if lost:
        return replace(state, phase=Phase.LOST, reason="lost", diagnosis=lost)
    state = replace(state, phase=state.reached)
    return replace(state, warning=_what_ends(state) or state.warning)


def _find_loss(state: RunState, seen: Observation) -> str:
    """A run is lost when nobody has answered for long: neither the scheduler nor the job itself."""
    trail, limits = state.trail, seen.limits
    quiet = seen.now - trail.last_sign
    if quiet <= limits.silence_s:
        return ""
    if seen.job is None:
        return "" if seen.poll_error else "it never got a job id: its submission was interrupted"
    if trail.failed_polls >= limits.failed_polls:
        return f"the scheduler could not be asked {trail.failed_polls} times, and the job has been silent for {quiet:.0f} s"
    if trail.unknown_polls >= limits.unknown_polls:
        return f"the scheduler does not know the job, and the job has been silent for {quiet:.0f} s"
    return ""


def _what_ends(state: RunState) -> str:
    if is_ending(state):
        how = f" ({state.trail.said.value})" if state.trail.ended_at is not None else ""
        return f"the job has ended{how}; waiting for the last word on it"
    return f"the job is stopping: {state.trail.stopping}" if state.trail.stopping else ""
