"""`recipegen schema`: JSON schemas of the files that people write, for editors and other tools."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

import click

from recipegen.errors import InputError


@click.command(name="schema", short_help="Print the JSON schema of a matrix or a cluster profile.")
@click.argument("kind", default="matrix", type=click.Choice(["matrix", "cluster", "model", "hardware"]))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write FILE whole, instead of printing.")
@click.option("--for", "file", type=click.Path(path_type=Path), metavar="PATH", help="Print the first line of PATH that points editors at --out.")
def command(kind: str, out: Path | None, file: Path | None) -> None:
    """Print the JSON schema (2020-12) of a kind of file: matrix (the default), cluster, model or hardware."""
    from recipegen.review.json_schema import editor_line, schema_text

    if out is None:
        if file is not None:
            raise click.UsageError("--for needs --out: the line leads from one file to the other")
        click.echo(schema_text(kind), nl=False)
        return
    _write(out, schema_text(kind))
    if file is not None:
        click.echo(editor_line(_absolute(file), _absolute(out)))


def _absolute(path: Path) -> PurePosixPath:
    return PurePosixPath(os.path.abspath(path))


def _write(out: Path, text: str) -> None:
    from recipegen.files import folder_for, reason, replace_file

    try:
        with folder_for(out):
            replace_file(out, text.encode(), mode=0o644)
    except OSError as error:
        raise InputError(f"{out}: cannot be written: {reason(error)}") from error
    click.echo(f"written: {out}", err=True)
