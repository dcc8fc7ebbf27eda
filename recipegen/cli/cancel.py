"""`recipegen cancel`: asks for a run's end and waits for it."""

from __future__ import annotations

import click

from recipegen.cli.connect import Session
from recipegen.cli.follow import follow, parse_seconds
from recipegen.cli.present import print_json, state_object
from recipegen.cli.status import look
from recipegen.cli.table import printable
from recipegen.errors import DeadlinePassed, InputError
from recipegen.lifecycle.states import Phase, RunState
from recipegen.lifecycle.tracker import Change


@click.command(name="cancel", short_help="End a run.")
@click.argument("run")
@click.option("--timeout", default="180", show_default=True, type=parse_seconds, help="How long to wait for its end (then exit code 5).")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="Text, or one JSON object at the end.")
@click.pass_obj
def command(session: Session, run: str, timeout: float, output: str) -> None:
    """End RUN and wait until it has ended; a run that has ended already is left as it is.

    RUN is an id, a job id, a run folder, or what begins or ends one id alone, at a hyphen.
    """
    found, machine = session.open_run(run, exactly=True)
    last = look(session, machine, [found])[0]
    record = last.run
    if record.job is None:
        why = last.state.warning or "its submission was interrupted, or is under way"
        raise InputError(f"run {record.id} has no job to cancel: {why}")
    if not last.state.phase.final:
        _say(last)
        click.echo(f"{record.id}: asking for its end", err=True)
        machine.scheduler.cancel(record.job)
        last = follow(session.track([record], machine), _has_ended, deadline=session.clock.now() + timeout, show=_say)
    elif _may_have_left_something(last.state):
        machine.scheduler.cancel(record.job)
    if not last.state.phase.over:
        raise DeadlinePassed(f"run {record.id} has not ended yet: {last.state.phase.value}", hint="ask again: `recipegen cancel` may be repeated")
    if output == "json":
        print_json(state_object(last))
    else:
        click.echo(f"{record.id}: {last.state.phase.value}")


def _has_ended(state: RunState) -> bool:
    return state.phase.over


def _may_have_left_something(state: RunState) -> bool:
    """Whether a job failed without having torn itself down; a scheduler that knows of nothing left does nothing."""
    return state.phase is Phase.FAILED and state.trail.exit_at is None


def _say(change: Change) -> None:
    if change.state.warning:
        click.echo(printable(f"{change.run.id}: {change.state.warning}"), err=True)
