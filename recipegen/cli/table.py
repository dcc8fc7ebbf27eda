"""Aligned columns on standard output."""

from __future__ import annotations

from collections.abc import Sequence

import click


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a head line and rows, every column but the last as wide as its widest cell; colours take no room."""
    widths = [max(len(click.unstyle(row[column])) for row in [heads, *rows]) for column in range(len(heads) - 1)]
    for row in [heads, *rows]:
        cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
