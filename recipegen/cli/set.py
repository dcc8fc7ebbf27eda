"""`recipegen set`: change values of a matrix and nothing else in the file."""

from __future__ import annotations

import difflib
import os
import stat
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.findings import refusal_of, show_findings
from recipegen.cli.table import printable
from recipegen.errors import InputError
from recipegen.leaf import find_matrices, read_matrix

if TYPE_CHECKING:
    from recipegen.checks.finding import Finding
    from recipegen.pipeline import Checked
    from recipegen.review.edit import Edited


@click.command(name="set", short_help="Change values of a matrix and nothing else in the file.")
@click.argument("path", type=click.Path(path_type=Path))
@click.argument("assignments", metavar="KEY=VALUE...", nargs=-1, required=True)
@click.option("--add", is_flag=True, help="Also add keys that are not there.")
@click.option("--force", is_flag=True, help="Write even what `recipegen check` finds new errors in; never what cannot be read.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print the difference.")
def command(path: Path, assignments: tuple[str, ...], add: bool, force: bool, dry_run: bool) -> None:
    """Set values in the matrix PATH (the file, or a leaf folder): all of them, or none when one cannot be set.

    KEY is points[3].sized_for, points[POINT].mtp, common.args.max-num-seqs, or common.args["a.b"] for a key with dots. VALUE is typed
    as YAML: 2048, true, null, text, "1", [1, 2], {a: 1}.
    """
    from recipegen.cli.matrix_lock import locked

    matrix = _one_matrix(path)
    if dry_run:
        _print_difference(matrix, *_edited(matrix, assignments, add=add, force=force))
        return
    target = Path(os.path.realpath(matrix))  # what a link leads to, not the link
    with locked(target):
        text, edited = _edited(matrix, assignments, add=add, force=force)
        write(matrix, target, text, edited)
    _print_changes(matrix, text, edited)


def _edited(matrix: Path, assignments: tuple[str, ...], *, add: bool, force: bool) -> tuple[bytes, Edited]:
    """The bytes that the matrix has, and those it is to have. InputError for what is not to be written."""
    from recipegen.pipeline import check_matrix
    from recipegen.review.edit import set_values

    text = read_matrix(matrix)
    edited = set_values(text, str(matrix), assignments, add=add)
    news = _news(check_matrix(text, str(matrix)), check_matrix(edited.text, str(matrix)))
    show_findings([news])
    if (refusal := refusal_of([news], "nothing was written")) and not (force and news.usable):
        refusal.hint = "--force writes it all the same" if news.usable else refusal.hint
        raise refusal
    return text, edited


def _one_matrix(path: Path) -> Path:
    found = find_matrices(path)
    if len(found) > 1:
        raise InputError(f"{path}: {len(found)} matrices; values are set in one", hint=f"such as {found[0]}")
    return found[0]


def _news(before: Checked, after: Checked) -> Checked:
    """What the edit brings: findings of a rule beyond those that it had before, at the same points; all of a file that is unusable."""
    if not after.usable:
        return after
    known = Counter((finding.rule, finding.points) for finding in before.findings)
    new: list[Finding] = []
    for finding in after.findings:
        known[finding.rule, finding.points] -= 1
        if known[finding.rule, finding.points] < 0:
            new.append(finding)
    return replace(after, findings=tuple(new))


def _print_difference(matrix: Path, old: bytes, edited: Edited) -> None:
    before, after = (data.decode().splitlines(keepends=True) for data in (old, edited.text))
    for line in difflib.unified_diff(before, after, str(matrix), str(matrix)):
        click.echo(printable(line.rstrip("\r\n")))


def write(matrix: Path, target: Path, old: bytes, edited: Edited) -> None:
    """Replace the file, unless it is no longer what was edited: an editor may have saved it meanwhile."""
    from recipegen.files import reason, replace_file

    if edited.text == old:
        return
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        if read_matrix(target) != old:
            raise InputError(f"{matrix}: the file has changed meanwhile; nothing was written", hint="try again")
        replace_file(target, edited.text, mode=mode)
    except OSError as error:
        raise InputError(f"{matrix}: cannot be written: {reason(error)}") from error


def _print_changes(matrix: Path, old: bytes, edited: Edited) -> None:
    for change in edited.changes:
        before = "not there" if change.before is None else change.before or "nothing"
        click.echo(printable(f"{change.source}: {change.path}: {before} -> {change.after}"))
    if edited.text != old:
        click.echo(f"hint: `recipegen render {matrix}` makes the bundles fresh", err=True)
