"""The arithmetic of sizes on the terminal, a line a step, and the sentences that follow from it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from recipegen.model import Recipe
from recipegen.sizing.choices import explain_choices
from recipegen.sizing.explain import explain_sizes
from recipegen.sizing.sizes import RoleSizes


def print_steps(recipe: Recipe, sizes: Sequence[RoleSizes]) -> None:
    """Print every step of each role, with its source, then why the recipe is as it is."""
    for role in sizes:
        click.echo(f"\n## {role.role.role.value}, {role.role.workers} x {role.role.topology}, one engine of {role.ranks}")
        for step in explain_sizes(recipe, role):
            click.echo(f"- {step.title}\n    {step.formula} = {step.result}    [{step.source}]")
    sentences = explain_choices(recipe)
    if sentences:
        click.echo("\n## What follows")
    for sentence in sentences:
        click.echo(f"- {sentence}")
