"""Following one run for a verb: shows its changes, and says how the wait ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

import click

from recipegen.cli.connect import Session
from recipegen.cli.present import make_live_view, print_json_line, print_line
from recipegen.cli.table import printable
from recipegen.errors import DeadlinePassed, JobFailed
from recipegen.lifecycle.endings import DEADLINE
from recipegen.lifecycle.states import Phase, RunState
from recipegen.lifecycle.tracker import Change, Tracker
from recipegen.runs import RunRecord

Show = Callable[[Change], None]
_MOST_DIGITS = 9
"""Of a number of seconds, minutes or hours: more is a slip, and would overflow."""


class Goal(str, Enum):
    """What is waited for."""

    READY = "ready"
    DONE = "done"

    def reached(self, state: RunState) -> bool:
        """Whether a run has come so far: READY stays reached when a run then ends as it should."""
        return state.phase in _REACHED[self]


_REACHED = {Goal.READY: {Phase.READY, Phase.MEASURING, Phase.DONE}, Goal.DONE: {Phase.DONE}}


def parse_seconds(text: str) -> float:
    """Read a duration for click: seconds, MM:SS or H:MM:SS."""
    parts = text.split(":")
    if len(parts) > 3 or not all(part.isdecimal() and part.isascii() and len(part) <= _MOST_DIGITS for part in parts):
        raise click.BadParameter(f"{text!r} is no duration; expected seconds, MM:SS or H:MM:SS")
    return float(sum(int(part) * 60**place for place, part in enumerate(reversed(parts))))


def follow(tracker: Tracker, goal: Callable[[RunState], bool], *, deadline: float | None, show: Show) -> Change:
    """Show every change until the goal is reached, the run is over, or the deadline has passed; return how it is then."""
    for change in tracker.follow(reached=goal, deadline=deadline):
        show(change)
    return tracker.latest[0]


def conclude(goal: Goal, change: Change) -> None:
    """Raise what the wait came to, unless the goal was reached."""
    run, state = change.run, change.state
    if goal.reached(state):
        return
    if not state.phase.over:
        raise DeadlinePassed(f"run {run.id} is not {goal.value} yet: {state.phase.value}", hint=f"it goes on: `recipegen watch {run.id}`")
    text = printable(f"run {run.id}: {state.phase.value}" + (f": {state.diagnosis}" if state.diagnosis else ""))
    if state.phase is Phase.TIMED_OUT or state.reason == DEADLINE:
        raise DeadlinePassed(text, hint=f"its logs: {run.paths.logs}")
    raise JobFailed(text, hint=f"its logs: {run.paths.logs}")


@contextmanager
def detachable(run: RunRecord) -> Iterator[None]:
    """Ctrl-C leaves the run alone, and tells how to come back."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo(f"\ndetached; the run goes on. Come back: recipegen watch {run.id}   End it: recipegen cancel {run.id}", err=True)
        raise click.exceptions.Exit(130) from None


@contextmanager
def shown(session: Session, output: str) -> Iterator[Show]:
    """Give the way to show changes: JSON lines, a live view on a terminal, or plain lines."""
    if output == "json":
        yield print_json_line
    elif session.terminal:
        with _live(session) as show:
            yield show
    else:
        yield print_line


@contextmanager
def _live(session: Session) -> Iterator[Show]:
    from rich.console import Console  # slow to import
    from rich.live import Live  # slow to import

    latest: list[Change] = []
    with Live(
        console=Console(), get_renderable=lambda: make_live_view(latest[-1], session.clock.now) if latest else "", refresh_per_second=2
    ) as live:

        def show(change: Change) -> None:
            latest.append(change)
            live.refresh()

        yield show
