"""`recipegen export`: points as recipes of srt-slurm, as entries of InferenceX, or as plain commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.findings import refuse_errors
from recipegen.cli.matrices import check_path, target_of
from recipegen.cli.table import printable
from recipegen.errors import DifferencesFound, InputError
from recipegen.files import reason
from recipegen.leaf import Differences, read_present, write

if TYPE_CHECKING:
    from recipegen.launch import LaunchPlan

FORMATS = ("srt-slurm", "srt-slurm-v1", "srt-slurm-v2", "inferencex", "commands")


@click.command(name="export", short_help="Write points as srt-slurm recipes, InferenceX entries or plain commands.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", help="Only this point.")
@click.option("--format", "form", default="srt-slurm", type=click.Choice(FORMATS), help="srt-slurm is v1, as public recipes are; default: srt-slurm.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write below this folder instead of beside the matrix.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and say what is stale, missing or orphaned.")
def command(path: Path, point: str | None, form: str, out: Path | None, check: bool) -> None:
    """Write a file for each point of PATH (a matrix file, a leaf folder, or a tree of them) in a folder beside the matrix."""
    from recipegen.srtslurm.export import export_files

    checked = check_path(path, point)
    refuse_errors([one for _, one in checked], "nothing was exported")
    wanted = [(target_of(matrix, path, out), export_files(one.plans, form)) for matrix, one in checked]
    found = [(leaf, files, compare_files(leaf, files, form, only_point=point is not None)) for leaf, files in wanted]
    if check:
        _show(found)
        return
    for leaf, files, differences in found:
        _write(leaf, files, differences)
        _report(leaf, differences, len(files))


def write_exports(leaf: Path, plans: Sequence[LaunchPlan], form: str, differences: Differences) -> None:
    """Make the exports of one form fresh, and say what was written."""
    from recipegen.srtslurm.export import export_files

    files = export_files(plans, form)
    _write(leaf, files, differences)
    _report(leaf, differences, len(files))


def _write(leaf: Path, files: Mapping[str, bytes], differences: Differences) -> None:
    _refuse_others(leaf, differences)
    write(leaf, {name: files[name] for name in (*differences.stale, *differences.missing)})


def stale_exports(leaf: Path, plans: Sequence[LaunchPlan], *, only_point: bool = False) -> list[tuple[str, Differences]]:
    """What of the exports that a leaf folder holds is not what its points give: the form, and the differences.

    Only forms of which a file of ours lies there are compared. InputError for a point that such a form cannot say.
    """
    from recipegen.srtslurm.export import FORMS, export_files

    found = []
    for folder in dict.fromkeys(form.folder for form in FORMS.values()):
        form = next(form.name for form in FORMS.values() if form.folder == folder)
        if _ours(leaf / folder, FORMS[form].ending):
            differences = compare_files(leaf, export_files(plans, form), form, only_point=only_point)
            if differences:
                found.append((form, differences))
    return found


def compare_files(leaf: Path, wanted: Mapping[str, bytes], form: str, *, only_point: bool = False) -> Differences:
    """Compare a leaf folder's exports of one form with what they should be; with `only_point`, other points' are none of our business.

    Orphaned are only files that were exported. InputError where something cannot be read.
    """
    from recipegen.srtslurm.export import FORMS

    folder, ending = FORMS[form].folder, FORMS[form].ending
    if (leaf / folder).is_symlink():
        raise InputError(f"{leaf / folder}: not a folder of its own, as exports need")
    present = {name: data for name in wanted if (data := read_present(leaf / name)) is not None}
    ours = set() if only_point else {f"{folder}/{name}" for name in _ours(leaf / folder, ending)}
    return Differences(
        stale=tuple(sorted(name for name, data in present.items() if data != wanted[name])),
        missing=tuple(sorted(wanted.keys() - present.keys())),
        orphaned=tuple(sorted(ours - wanted.keys())),
    )


def _ours(folder: Path, ending: str) -> list[str]:
    """Names of the exported files of a folder; a link in its place is not looked into."""
    from recipegen.srtslurm.export import is_export

    if folder.is_symlink() or not folder.is_dir():
        return []
    try:
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(ending) and path.is_file() and not path.is_symlink())
    except OSError as error:
        raise InputError(f"{folder}: {reason(error)}") from error
    return [name for name in names if is_export(read_present(folder / name) or b"")]


def _refuse_others(leaf: Path, differences: Differences) -> None:
    """Somebody's own file stays as it is."""
    from recipegen.srtslurm.export import is_export

    for name in differences.stale:
        if not is_export(read_present(leaf / name) or b""):
            raise InputError(f"{leaf / name}: not a file that recipegen exported; it stays as it is", hint="another folder by --out, or remove it")


def _show(found: Sequence[tuple[Path, Mapping[str, bytes], Differences]]) -> None:
    for leaf, files, differences in found:
        for what, name in differences.lines():
            click.echo(printable(f"{what}: {leaf / name}"))
        if not differences:
            click.echo(printable(_fresh(leaf, len(files))), err=True)
    if any(differences for _, _, differences in found):
        raise DifferencesFound("the exports are not what the matrix gives", hint="run the same without --check; remove what is orphaned")


def _report(leaf: Path, differences: Differences, count: int) -> None:
    verbs = {"stale": "updated", "missing": "written", "orphaned": "orphaned"}
    for what, name in differences.lines():
        click.echo(printable(f"{verbs[what]}: {leaf / name}"))
    if differences.orphaned:
        click.echo("hint: no point makes what is orphaned; remove it", err=True)
    if not differences:
        click.echo(printable(_fresh(leaf, count)), err=True)


def _fresh(leaf: Path, count: int) -> str:
    return f"{leaf}: {count} {'export is' if count == 1 else 'exports are'} up to date"
