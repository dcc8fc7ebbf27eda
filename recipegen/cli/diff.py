"""`recipegen diff`: what a change of matrices changes in what runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.connect import Session
from recipegen.cli.table import printable
from recipegen.errors import InputError, near_match

if TYPE_CHECKING:
    from recipegen.review.diff_model import Diff, MatrixChange
    from recipegen.review.diff_sides import Sides


@click.command(name="diff", short_help="Show what a change of matrices changes in what runs.")
@click.argument("path", type=click.Path(path_type=Path), default=".")
@click.option("--from", "old", metavar="REV|DIR", help="The side before: a git revision, or a folder in the place of the current one. Default: HEAD.")
@click.option("--to", "new", metavar="REV|DIR", help="The side after. Default: the working tree.")
@click.option("--point", help="Only this point, by its name on either side.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "markdown", "json"]), help="For people, a review, or programs.")
@click.pass_context
def command(ctx: click.Context, path: Path, old: str | None, new: str | None, point: str | None, output: str) -> None:
    """Compare what would run of PATH: a matrix file, a leaf folder, or a tree of them. Exit 0 the same, 1 it differs, 2 a side cannot be used."""
    from recipegen.review.diff_sides import open_sides

    session: Session = ctx.obj
    sides = open_sides(path, old, new, session.environ)
    diff = _diff(sides, point)
    _print(diff, output)
    if not diff.usable:
        raise InputError("the matrices of a side cannot be used", hint="`recipegen check` tells what is wrong with those of the working tree")
    if diff.matrices:
        ctx.exit(1)


def _diff(sides: Sides, point: str | None) -> Diff:
    from recipegen.review.diff import compare_all, only_point
    from recipegen.review.diff_model import Diff, MatrixChange

    changes = [*compare_all(sides.pairs), *(MatrixChange(old=one, new=other) for one, other in sides.moved)]
    if point is not None:
        _refuse_unknown(sides, changes, point)
        changes = [only_point(change, point) for change in changes]
        changes = [change for change in changes if change.points or change.findings or change.unusable]
    differing = sorted((change for change in changes if change.differs), key=lambda change: change.path)
    reworded = sum(not change.differs for change in changes)
    return Diff(old=sides.old.label, new=sides.new.label, matrices=tuple(differing), same=len(sides.same) + reworded, reworded=reworded)


def _refuse_unknown(sides: Sides, changes: Iterable[MatrixChange], name: str) -> None:
    """InputError for a point that no side has: a typing error would else look like no difference."""
    from recipegen.review.diff import point_names

    if any(name in {point.old, point.new} for change in changes for point in change.points):
        return
    texts = [text for pair in sides.pairs for text in (pair.old, pair.new) if text]
    known = [known for text in (*texts, *sides.unchanged()) for known in point_names(text)]
    if name not in known:
        raise InputError(f"no point is called '{name}' on either side", hint=near_match(name, known) or "`recipegen plan PATH` lists the points")


def _print(diff: Diff, output: str) -> None:
    if output == "json":
        from recipegen.review.diff_json import diff_text_json

        click.echo(diff_text_json(diff))
        return
    if output == "markdown":
        from recipegen.review.diff_markdown import markdown_lines as lines
    else:
        from recipegen.review.diff_text import text_lines as lines
    click.echo("\n".join(printable(line) for line in lines(diff)))
