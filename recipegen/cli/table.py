"""Aligned columns on standard output."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

# control characters (C1 too), line and paragraph separators, directions of writing, lone surrogates
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_REPLACED = {"\n": " ", "\r": " ", "\t": " "}


def printable(text: str, *, keep: str = "") -> str:
    """Return a text that a job or a file gave with nothing in it that a terminal would obey, or that cannot be encoded."""
    return _UNPRINTABLE.sub(lambda found: found[0] if found[0] in keep else _REPLACED.get(found[0], "\N{REPLACEMENT CHARACTER}"), text)


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a head line and rows, every column but the last as wide as its widest cell; colours take no room."""
    widths = [max(len(click.unstyle(row[column])) for row in [heads, *rows]) for column in range(len(heads) - 1)]
    for row in [heads, *rows]:
        cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[-1]]).rstrip())
