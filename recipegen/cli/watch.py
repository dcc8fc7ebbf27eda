"""`recipegen watch`: follows a run and shows what changes."""

from __future__ import annotations

import click

from recipegen.cli.connect import Session
from recipegen.cli.follow import Goal, conclude, detachable, follow, shown


@click.command(name="watch", short_help="Follow a run until it is ready or has ended.")
@click.argument("run")
@click.option("--until", default="done", show_default=True, type=click.Choice([goal.value for goal in Goal]), help="When to stop watching.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="Text, or one JSON object a change.")
@click.pass_obj
def command(session: Session, run: str, until: str, output: str) -> None:
    """Follow RUN until it has ended, or is READY; Ctrl-C leaves it running."""
    record, machine = session.open_run(run)
    tracker = session.track([record], machine)
    with detachable(record), shown(session, output) as show:
        last = follow(tracker, Goal(until).reached, deadline=None, show=show)
    conclude(Goal(until), last)
