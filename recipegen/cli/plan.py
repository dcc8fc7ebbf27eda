"""`recipegen plan`: nodes, processes, ports and commands of a point, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from recipegen.launch import LaunchPlan, Process
from recipegen.leaf import find_matrices, read_matrix
from recipegen.shell import quote_word


@click.command(name="plan", short_help="Show nodes, processes, ports and commands of a point.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", help="Only this point; --format json prints it as one object, else a list.")
@click.option("--simulate", is_flag=True, help="The plan with mockers in the place of the engines.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="For people, or for programs.")
def command(path: Path, point: str | None, simulate: bool, output: str) -> None:
    """Show the launch plans of PATH: a matrix file, a leaf folder, or a tree of them."""
    from recipegen.pipeline import plan_matrix

    names = [point] if point else []
    plans = [p for m in find_matrices(path) for p in plan_matrix(read_matrix(m), str(m), points=names, simulate=simulate)]
    for warning in (w for plan in plans for w in plan.warnings):
        click.echo(f"warning: {warning}", err=True)
    if output == "json":
        _print_json(plans, single=point is not None and len(plans) == 1)
    elif point:
        for plan in plans:
            _print_processes(plan)
    else:
        _print_points(plans)


def _print_json(plans: Sequence[LaunchPlan], *, single: bool) -> None:
    from recipegen.plan_json import plan_document

    documents = [plan_document(plan) for plan in plans]
    click.echo(json.dumps(documents[0] if single else documents, indent=1, ensure_ascii=False))


def _print_points(plans: Sequence[LaunchPlan]) -> None:
    from recipegen.cli.table import print_rows

    rows = []
    for plan in plans:
        shapes = " + ".join(f"{r.layout.workers} x {r.recipe.topology}" for r in plan.roles)
        gpus = sum(len(process.device_ids) for process in plan.processes)
        rows.append((plan.recipe.point, shapes, str(plan.directives.nodes), str(gpus), _instances(plan)))
    print_rows(("POINT", "WORKERS", "NODES", "GPUS", "INSTANCES"), rows)


def _print_processes(plan: LaunchPlan) -> None:
    from recipegen.cli.table import print_rows

    click.echo(f"{plan.recipe.name}: {plan.directives.nodes} nodes of {plan.directives.gpus_per_node} GPUs, {_instances(plan)}")
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


def _instances(plan: LaunchPlan) -> str:
    return " + ".join(f"{count} {role.value}" for role, count in plan.expected.items())
