"""How runs look: as JSON objects, as plain lines, as a table, as a live view."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from recipegen.cli.table import print_rows, printable
from recipegen.lifecycle.states import Phase, RunState
from recipegen.lifecycle.tracker import Change

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLOURS = {Phase.READY: "green", Phase.MEASURING: "green", Phase.DONE: "green", Phase.CANCELLED: "magenta", Phase.LOST: "red"}
_COLOURS |= {Phase.FAILED: "red", Phase.TIMED_OUT: "red"}


def state_object(change: Change) -> dict[str, object]:
    """Return what `--format json` prints of a run; docs/reference/run-states.md lists the keys."""
    run, state = change.run, change.state
    return {
        "id": run.id,
        "point": run.point,
        "name": run.name,
        "cluster": run.cluster_name,
        "job": run.job,
        "run_dir": run.run_dir,
        "simulate": run.simulate,
        "created": run.created,
        "time": change.time,
        "phase": state.phase.value,
        "reached": state.reached.value,
        "detail": state.detail,
        "reason": state.reason,
        "diagnosis": state.diagnosis,
        "warning": state.warning,
        "note": state.note,
        "url": state.url or None,
        "model": state.model or None,
        "nodes": state.nodes,
        "instances": {count.role.value: {"registered": count.registered, "expected": count.expected} for count in state.instances},
        "workers": [{"name": worker.name, "phase": worker.phase.value, "detail": worker.detail} for worker in state.workers],
    }


def explain_state(state: RunState) -> str:
    """Return the words beside a phase; beside READY also what the job notes."""
    ready = state.phase is Phase.READY
    words = state.diagnosis or (state.url if ready else "") or state.detail
    return " · ".join(filter(None, [words, state.warning, state.note if ready else ""])) if not state.phase.final else state.diagnosis


def style_phase(phase: Phase, width: int = 0) -> str:
    """Return a phase in its colour, padded; the output drops the colour where it cannot be shown."""
    return click.style(phase.value.ljust(width), fg=_COLOURS.get(phase, "yellow"))


def format_age(seconds: float) -> str:
    """Return a time span in two units at most: `45s`, `12m`, `3h05m`, `2d04h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def print_line(change: Change) -> None:
    """Print one state as one line: the local time, the phase, its words."""
    time = f"{datetime.fromtimestamp(change.time).astimezone():%H:%M:%S}"
    words = explain_state(change.state)
    click.echo(f"{time}  {style_phase(change.state.phase, 11 if words else 0)}" + (f"  {printable(words)}" if words else ""))


def print_json_line(change: Change) -> None:
    """Print one state as one JSON object on one line."""
    click.echo(json.dumps(state_object(change)))


def print_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(value, indent=2))


def print_table(changes: Sequence[Change], unread: Sequence[tuple[str, str]] = ()) -> None:
    """Print runs as aligned columns, newest first, and those that could not be read."""
    rows = [_row(change) for change in changes]
    rows += [(printable(run_id), "-", "?", "-", printable(text)) for run_id, text in unread]
    print_rows(("RUN", "JOB", "PHASE", "AGE", "DETAIL"), rows)


def _row(change: Change) -> tuple[str, str, str, str, str]:
    run, state = change.run, change.state
    return printable(run.id), printable(run.job or "-"), style_phase(state.phase), _age(change), printable(explain_state(state))


def print_run(change: Change) -> None:
    """Print all that is known of one run, a line for each thing."""
    width = max(len(key) for key, _ in _lines(change))
    for key, value in _lines(change):
        click.echo(f"{key.ljust(width)}  {value}")


def make_live_view(change: Change, now: Callable[[], float]) -> RenderableType:
    """Return the view that `watch` keeps on a terminal: what is known, and how long it has been so."""
    from rich.table import Table  # slow to import
    from rich.text import Text  # slow to import

    view = Table.grid(padding=(0, 2))
    for key, value in _lines(change, styled=False):
        style = _COLOURS.get(change.state.phase, "yellow") if key == "phase" else ""
        view.add_row(Text(key, style="dim"), Text(value, style=style))
    if not change.state.phase.over:
        view.add_row(Text("since", style="dim"), Text(format_age(now() - change.time), style="dim"))
    return view


def _lines(change: Change, *, styled: bool = True) -> list[tuple[str, str]]:
    """What is known of a run; of one that is over, not what it had while it lived."""
    run, state = change.run, change.state
    where = f" on {run.cluster_name}" if run.cluster_name else ""
    alive = not state.phase.over
    lines = [
        ("run", run.id + (" (simulated)" if run.simulate else "")),
        ("job", f"{run.job or 'none yet'}{where}"),
        ("phase", state.phase.value),
        ("", explain_state(state)),
        ("endpoint", state.url if alive else ""),
        ("model", state.model if alive else ""),
        ("instances", ", ".join(map(str, state.instances)) if alive else ""),
        ("nodes", state.nodes),
        *((worker.name, f"{worker.phase.value}  {worker.detail}".rstrip()) for worker in state.workers if alive),
        ("folder", run.run_dir),
    ]
    shown = [(key, printable(value)) for key, value in lines if value]
    return [(key, style_phase(state.phase) if styled and key == "phase" else value) for key, value in shown]


def _age(change: Change) -> str:
    return format_age(change.time - change.run.created)
