"""`recipegen status`: the runs of the index, or one run, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import click

from recipegen.cli.connect import Machine, Session, read_entry
from recipegen.cli.present import print_json, print_run, print_table, state_object
from recipegen.errors import RecipegenError
from recipegen.lifecycle.endings import is_ending
from recipegen.lifecycle.states import Limits
from recipegen.lifecycle.tracker import Change
from recipegen.run_index import IndexEntry
from recipegen.runs import RunRecord

_SETTLE_S = 3.0
_ONE_LOOK = Limits(exit_grace_s=_SETTLE_S, unknown_polls=1, failed_polls=1_000_000)
"""A single look cannot count polls: an UNKNOWN after long silence is lost, a failed poll says nothing."""


@click.command(name="status", short_help="Show the runs, or one run.")
@click.argument("run", required=False)
@click.option("--last", default=20, show_default=True, type=click.IntRange(min=1), help="Without RUN: how many runs, the newest first.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="For people, or for programs.")
@click.pass_obj
def command(session: Session, run: str | None, last: int, output: str) -> None:
    """Show the runs, or one RUN: an id, a unique part of one, a job id, or a run folder."""
    if run is not None:
        record, machine = session.open_run(run)
        change = look(session, machine, [record])[0]
        if output == "json":
            print_json(state_object(change))
        else:
            print_run(change)
        return
    found = look_at_all(session, session.index.entries()[:last])
    if output == "json":
        print_json([state_object(change) for change in found.changes])
    elif found.changes or found.unread:
        print_table(found.changes, found.unread)
    else:
        click.echo(f"no runs in {session.index.root}", err=True)


@dataclass(frozen=True)
class Found:
    """What there is to show: states, and the runs whose machine could not be reached with the reason."""

    changes: list[Change] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)


def look_at_all(session: Session, entries: Sequence[IndexEntry]) -> Found:
    """Look at every run, with one scheduler poll a machine; a run that cannot be read hides no other."""
    found = Found()
    for group in _by_machine(entries):
        try:
            machine = session.connect(group[0].cluster, group[0].scheduler)
        except RecipegenError as error:  # a machine, not a row
            found.unread.extend((entry.id, str(error)) for entry in group)
            continue
        found.changes.extend(look(session, machine, [read_entry(machine, entry) for entry in group]))
    found.changes.sort(key=lambda change: change.run.created, reverse=True)
    return found


def look(session: Session, machine: Machine, records: Sequence[RunRecord]) -> list[Change]:
    """Look once, and again for a moment where a job has just ended and its last word is on the way."""
    tracker = session.track(records, machine, limits=_ONE_LOOK)
    tracker.look()
    until = session.clock.now() + _SETTLE_S
    while any(is_ending(change.state) for change in tracker.latest) and session.clock.now() < until:
        session.clock.sleep(1)
        tracker.look()
    return [replace(change, time=session.clock.now()) for change in tracker.latest]


def _by_machine(entries: Sequence[IndexEntry]) -> list[list[IndexEntry]]:
    groups: list[list[IndexEntry]] = []
    for entry in entries:
        group = next((group for group in groups if (group[0].cluster, group[0].scheduler) == (entry.cluster, entry.scheduler)), None)
        if group is None:
            groups.append([entry])
        else:
            group.append(entry)
    return groups
