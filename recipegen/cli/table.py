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


def say(text: str, *, err: bool = False) -> None:
    """Print one line that holds names from outside, which must not begin a line of their own: a CI runner would obey it."""
    click.echo(printable(text), err=err)


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a head line and rows, every column but the last as wide as its widest cell; colours take no room."""
    print_sections(heads, [("", rows)])


def print_sections(heads: Sequence[str], sections: Sequence[tuple[str, Sequence[Sequence[str]]]]) -> None:
    """Print a head line, and rows in sections, each below its title where it has one; columns are the same in all sections."""
    every = [heads, *(row for _, rows in sections for row in rows)]
    widths = [max(len(click.unstyle(row[column])) for row in every) for column in range(len(heads) - 1)]
    click.echo(_line(heads, widths))
    for title, rows in sections:
        if title:
            click.echo(f"# {title}")
        for row in rows:
            click.echo(_line(row, widths))


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(row, widths, strict=False)]
    return "  ".join([*cells, row[-1]]).rstrip()
