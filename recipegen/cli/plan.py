"""`recipegen plan`: nodes, sizes, processes, ports and commands of a point, before anything runs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.findings import refusal_of, refuse_errors, show_findings
from recipegen.cli.index_file import way_to
from recipegen.cli.matrices import check_path
from recipegen.cli.table import printable, say
from recipegen.launch import LaunchPlan, Process, RolePlan
from recipegen.shell import quote_word

if TYPE_CHECKING:
    from recipegen.checks.views import PointView
    from recipegen.pipeline import Checked


@click.command(name="plan", short_help="Show nodes, sizes, processes, ports and commands of a point.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", help="Only this point; --format json prints it as one object, else a list.")
@click.option("--simulate", is_flag=True, help="The plan with mockers in the place of the engines.")
@click.option("--explain", is_flag=True, help="The arithmetic of the sizes step by step, with sources, and what follows from it.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="For people, or for programs.")
def command(path: Path, point: str | None, simulate: bool, explain: bool, output: str) -> None:
    """Show the launch plans of PATH, and what their engines hold: a matrix file, a leaf folder, or a tree of them."""
    found = check_path(path, point, simulate=simulate)
    checked = [one for _, one in found]
    if not all(one.usable for one in checked):
        refuse_errors(checked, "nothing was planned")
    show_findings(checked)
    pairs = [pair for one in checked for pair in _pairs(one)]
    places = [way_to(matrix.parent, path) if len(found) > 1 else "" for matrix, one in found for _ in one.plans]
    if output == "json":
        _print_json(pairs, single=point is not None and len(pairs) == 1)
    elif explain:
        _print_steps([view for _, view in pairs], places)
        _say_unsized([view for _, view in pairs])
    else:
        if point:
            for plan, _ in pairs:
                _print_processes(plan)
        _print_points(pairs, places)
        _say_unsized([view for _, view in pairs])
    if refusal := refusal_of(checked, "this plan is not fit to be submitted"):
        raise refusal


def _pairs(checked: Checked) -> list[tuple[LaunchPlan, PointView]]:
    return list(zip(checked.plans, checked.points, strict=True))


def _print_json(pairs: Sequence[tuple[LaunchPlan, PointView]], *, single: bool) -> None:
    """What plan.json holds, and beside it the sizes of each role."""
    from recipegen.plan_json import plan_document
    from recipegen.sizes_json import sizes_document

    documents = [
        plan_document(plan) | {"sizes": [None if role.sizes is None else sizes_document(role.sizes) for role in view.roles]} for plan, view in pairs
    ]
    click.echo(json.dumps(documents[0] if single else documents, indent=1, ensure_ascii=False))


def _print_points(pairs: Sequence[tuple[LaunchPlan, PointView]], places: Sequence[str]) -> None:
    """A section for each point, below the folder of its matrix where there are several; a row for each of its roles."""
    from recipegen.cli.sizes_table import LEGEND, SIZE_HEADS, size_cells
    from recipegen.cli.table import print_sections

    sections = []
    for (plan, view), place in zip(pairs, places, strict=True):
        roles = zip(plan.roles, view.roles, strict=True)
        sections.append((printable(_placed(place, _title(plan))), [(*_placed_cells(planned), *size_cells(sized.sizes)) for planned, sized in roles]))
    print_sections(("WORKERS", "NODES", "GPUS", *SIZE_HEADS), sections)
    if any(role.sizes for _, view in pairs for role in view.roles):
        click.echo(LEGEND, err=True)


def _say_unsized(views: Sequence[PointView]) -> None:
    """Why there are no sizes: a model of which no numbers are known."""
    points = Counter(view.recipe.model.repo for view in views if view.recipe.model.architecture is None)
    for repo, count in points.items():
        mend = "`recipegen model add CONFIG_JSON`, then `model: {repo: ..., architecture: KEY}`"
        say(f"not sized: {repo} ({count} point{'' if count == 1 else 's'}), of whose architecture nothing is known; {mend}", err=True)


def _placed(place: str, text: str) -> str:
    return f"{place}: {text}" if place else text


def _title(plan: LaunchPlan) -> str:
    gpus = sum(len(process.device_ids) for process in plan.processes)
    instances = f"{_instances(plan)} instance{'' if sum(plan.expected.values()) == 1 else 's'}"
    return f"{plan.recipe.point}: {_nodes(plan)}, {gpus} GPU{'' if gpus == 1 else 's'}, {instances}{_front_ends(plan)}"


def _nodes(plan: LaunchPlan) -> str:
    return f"{plan.directives.nodes} node{'' if plan.directives.nodes == 1 else 's'}"


def _placed_cells(role: RolePlan) -> tuple[str, str, str]:
    layout = role.layout
    gpus = layout.workers * layout.nodes_per_worker * layout.gpus_per_process
    return f"{layout.role.value} {layout.workers}x{role.recipe.topology}", str(layout.nodes), str(gpus)


def _print_steps(views: Sequence[PointView], places: Sequence[str]) -> None:
    from recipegen.cli.sizes_steps import print_steps

    for view, place in zip(views, places, strict=True):
        click.echo(printable(f"# {_placed(place, view.recipe.point)}"))
        print_steps(view.recipe, [role.sizes for role in view.roles if role.sizes is not None])


def _print_processes(plan: LaunchPlan) -> None:
    from recipegen.cli.table import print_rows

    click.echo(f"{plan.recipe.name}: {_nodes(plan)} of {plan.directives.gpus_per_node} GPUs, {_instances(plan)}{_front_ends(plan)}")
    rows = [
        (
            str(process.node_index),
            f"{process.role.value}-{process.worker}",
            str(process.node_rank) + (" headless" if process.headless else ""),
            ",".join(map(str, process.device_ids)),
            " ".join(f"{port.name}={port.base}" for port in process.ports),
        )
        for process in plan.processes
    ]
    print_rows(("NODE", "WORKER", "RANK", "GPUS", "PORT BASES"), rows)
    for role in plan.roles:
        first = next(process for process in plan.processes if process.role is role.layout.role)
        click.echo(f"\n# {role.layout.role.value}, first process")
        click.echo(" \\\n  ".join(_lines(first)))


def _lines(process: Process) -> list[str]:
    """The command with one flag a line, quoted for a shell."""
    lines: list[str] = []
    for word in process.argv:
        starts = str(word).startswith("--") or not lines
        lines = [*lines, quote_word(word)] if starts else [*lines[:-1], f"{lines[-1]} {quote_word(word)}"]
    return lines


def _front_ends(plan: LaunchPlan) -> str:
    found = plan.front_ends
    return f"; front ends on nodes {found[0]}-{found[-1]}, behind nginx on node 0" if plan.several_front_ends else ""


def _instances(plan: LaunchPlan) -> str:
    return " + ".join(f"{count} {role.value}" for role, count in plan.expected.items())
