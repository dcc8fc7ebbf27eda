"""`recipegen index`: the table of all recipes of a tree."""

from __future__ import annotations

from pathlib import Path

import click

from recipegen.cli.findings import show_findings
from recipegen.cli.index_file import IndexFile, index_file, way_to
from recipegen.cli.matrices import check_path
from recipegen.cli.table import printable, say
from recipegen.errors import DifferencesFound


@click.command(name="index", short_help="Write the table of all recipes, or check that it is fresh.")
@click.argument("path", type=click.Path(path_type=Path), default=Path("recipes"))
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The index; default: README.md of PATH, `-` is standard output.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when the index is stale or missing.")
@click.option("--format", "output", default="markdown", type=click.Choice(["markdown", "text", "json"]), help="The others are printed.")
def command(path: Path, out: Path | None, check: bool, output: str) -> None:
    """Write the table of the recipes below PATH (default: recipes): what they serve and take, and the head room that is left."""
    from recipegen.review.index import NAME, index_json, index_rows, index_text, make_entry

    if check and output != "markdown":
        raise click.UsageError("--check compares the Markdown file: leave --format out")
    target = out or (path / NAME if path.is_dir() else path.parent / NAME)
    checked = check_path(path, None)
    base = path if path.is_dir() else path.parent
    entries = [make_entry(way_to(matrix, base), one) for matrix, one in checked]
    if output == "json":
        click.echo(index_json(entries), nl=False)
    elif output == "text":
        _print_text(index_rows(entries))
    elif str(target) == "-":
        click.echo(printable(index_text(entries), keep="\n"), nl=False)
    elif check:
        _compare(index_file(target, checked), path)
    else:
        index_file(target, checked).write()
    show_findings(one for _, one in checked if not one.usable)


def _print_text(rows: list[tuple[str, ...]]) -> None:
    from recipegen.cli.table import print_rows
    from recipegen.review.index import HEADS

    print_rows([head.upper() for head in HEADS], [tuple(map(printable, row)) for row in rows])


def _compare(index: IndexFile, path: Path) -> None:
    if not index.is_fresh:
        say(f"{'missing' if index.present is None else 'stale'}: {index.target}")
        raise DifferencesFound("the index is not what the matrices say", hint=f"recipegen index {path}")
    say(f"{index.target}: up to date", err=True)
