"""`recipegen wait`: returns when a run has come as far as asked, and says by its exit code whether it did."""

from __future__ import annotations

import click

from recipegen.cli.connect import Session
from recipegen.cli.follow import Goal, conclude, detachable, follow, parse_seconds
from recipegen.cli.present import explain_state, print_json, state_object
from recipegen.cli.table import printable
from recipegen.lifecycle.tracker import Change


@click.command(name="wait", short_help="Wait until a run is ready or has ended.")
@click.argument("run")
@click.option("--for", "goal", default="ready", show_default=True, type=click.Choice([goal.value for goal in Goal]), help="What to wait for.")
@click.option("--timeout", type=parse_seconds, help="Give up after this long (exit code 5); default: never.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="Text, or one JSON object at the end.")
@click.pass_obj
def command(session: Session, run: str, goal: str, timeout: float | None, output: str) -> None:
    """Wait until RUN is READY (and print its URL) or DONE.

    Exit code 0: reached; 4: it failed, was cancelled or lost; 5: a deadline passed, the job's own or --timeout.
    """
    record, machine = session.open_run(run)
    tracker = session.track([record], machine)
    deadline = None if timeout is None else session.clock.now() + timeout
    with detachable(record):
        last = follow(tracker, Goal(goal).reached, deadline=deadline, show=_say)
    if output == "json":
        print_json(state_object(last))
    conclude(Goal(goal), last)
    if output == "text" and not last.state.phase.over:
        click.echo(printable(last.state.url))


def _say(change: Change) -> None:
    click.echo(printable(f"{change.run.id}: {change.state.phase.value} {explain_state(change.state)}".rstrip()), err=True)
