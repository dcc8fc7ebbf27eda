"""`recipegen export`: points as recipes of srt-slurm, as entries of InferenceX, or as plain commands."""

from __future__ import annotations

from pathlib import Path

import click

from recipegen.cli.export_folders import export_folders, write_folders
from recipegen.cli.findings import refuse_errors
from recipegen.cli.matrices import check_path, target_of
from recipegen.errors import DifferencesFound

FORMATS = ("srt-slurm", "srt-slurm-v1", "srt-slurm-v2", "inferencex", "commands")


@click.command(name="export", short_help="Write points as srt-slurm recipes, InferenceX entries or plain commands.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", help="Only this point.")
@click.option("--format", "form", default="srt-slurm", type=click.Choice(FORMATS), help="srt-slurm is v1, as public recipes are; default: srt-slurm.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write below this folder instead of beside the matrix.")
@click.option("--skip", is_flag=True, help="Leave out points that the form cannot say, and tell how many.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and say what is stale, missing or orphaned.")
def command(path: Path, point: str | None, form: str, out: Path | None, skip: bool, check: bool) -> None:
    """Write a file for each point of PATH (a matrix file, a leaf folder, or a tree of them) in a folder beside the matrix."""
    checked = check_path(path, point)
    refuse_errors([one for _, one in checked], "nothing was exported")
    leaves = [(target_of(matrix, path, out), one.plans) for matrix, one in checked]
    folders = export_folders(leaves, form, only_point=point is not None, skip=skip)
    if not check:
        write_folders(folders)
        return
    for folder in folders:
        folder.show()
    if any(folder.differences for folder in folders):
        raise DifferencesFound("the exports are not what the matrix gives", hint="run the same without --check; remove what is orphaned")
