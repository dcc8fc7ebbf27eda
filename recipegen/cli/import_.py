"""`recipegen import`: matrices from srt-slurm recipes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.table import printable
from recipegen.errors import ChecksFailed, InputError, Problem, Source
from recipegen.files import create_file, folder_for, read_regular, reason, replace_file

if TYPE_CHECKING:
    from recipegen.srtslurm.report import FileReport
    from recipegen.srtslurm.run import RecipeFile

ENDINGS = (".yaml", ".yml")


@click.command(name="import", short_help="Make matrices of srt-slurm recipes.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, metavar="DIR", help="Write the matrices below this folder.")
@click.option("--hardware", default="", metavar="KEY", help="The machine of recipes that name no `gpu_type`, such as gb300-nvl72.")
@click.option("--force", is_flag=True, help="Write over matrices that are there.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="The report, for people or programs.")
def command(paths: tuple[Path, ...], out: str, hardware: str, force: bool, output: str) -> None:
    """Read srt-slurm recipes (PATHS: files, or folders of them), v1 or `schema: 2`, and write matrices for check, plan and render.

    Exit 0 all imported, 1 some refused, 2 none imported, a matrix in the way, or one that could not be written.
    """
    from recipegen.catalogue import load_hardware
    from recipegen.srtslurm.report import unwritten
    from recipegen.srtslurm.run import import_files

    if not out:
        raise InputError("--out is empty; expected a folder")
    if hardware:
        load_hardware(hardware)
    found = import_files(_read_all(paths), hardware)
    _refuse_overwriting(Path(out), found.matrices, force=force)
    lost = _write_all(Path(out), found.matrices, force=force)
    reports = [unwritten(report, lost) for report in found.reports]
    _print(reports, output)
    _judge(reports, lost, len(found.matrices))


def _judge(reports: Sequence[FileReport], lost: Mapping[str, Problem], matrices: int) -> None:
    """End with an error where something was refused."""
    if lost:
        message = f"{len(lost)} of {matrices} matrices could not be written: {next(iter(lost.values()))}"
        raise InputError(message, hint="the report says which; the others are written")
    from recipegen.srtslurm.report import counts

    jobs = counts(reports)
    refused, files = jobs["refused_jobs"], sum(bool(report.refused) for report in reports)
    if not jobs["points"]:
        raise InputError("nothing was imported", hint="the report says why, file by file")
    if refused:
        message = f"{refused} of {jobs['jobs']} jobs were refused, in {files} of {len(reports)} files"
        raise ChecksFailed(message, hint="the report says why; the others are imported")


def _read_all(paths: Sequence[Path]) -> list[RecipeFile]:
    files: dict[str, RecipeFile] = {}
    for path in paths:
        if path.is_dir():
            found = _below(path)
        elif os.path.lexists(path) or "\0" in str(path):
            found = [_read(path, "")]
        else:
            raise InputError(f"{path}: no such file or directory")
        for file in found:
            files.setdefault(os.path.realpath(file.file), file)
    return list(files.values())


def _below(root: Path) -> list[RecipeFile]:
    """The recipe files of a folder, each with the folder below the output in which its matrix belongs."""
    from recipegen.srtslurm.run import RecipeFile

    closed: list[RecipeFile] = []

    def refuse(error: OSError) -> None:
        if error.filename == str(root):
            raise InputError(f"{root}: {reason(error)}") from error
        closed.append(RecipeFile(file=str(error.filename), folder="", unreadable=reason(error)))

    names = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, inside in os.walk(root, onerror=refuse)
        for name in inside
        if name.endswith(ENDINGS)
    )
    if not names and not closed:
        raise InputError(f"{root}: no recipe (*.yaml) in it or below it")
    return [_read(root / name, "" if (folder := Path(name).parent.as_posix()) == "." else folder) for name in names] + closed


def _read(path: Path, folder: str) -> RecipeFile:
    """A file's bytes, or why they cannot be read: one bad file stops no other."""
    from recipegen.srtslurm.run import RecipeFile
    from recipegen.yamlsource import MAX_BYTES

    try:
        return RecipeFile(file=str(path), folder=folder, data=read_regular(str(path), most=MAX_BYTES + 1))
    except OSError as error:
        return RecipeFile(file=str(path), folder=folder, unreadable=reason(error))
    except ValueError as error:  # a NUL in a path
        raise InputError(f"{str(path)!r}: {error}") from error


def _refuse_overwriting(out: Path, names: Iterable[str], *, force: bool) -> None:
    there = [out / name for name in names if os.path.lexists(out / name)]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise InputError(f"{there[0]}{more}: already there; nothing was written", hint="--force writes over matrices, or choose another --out")


def _write_all(out: Path, matrices: Mapping[str, bytes], *, force: bool) -> dict[str, Problem]:
    """Write what can be written; return why the others could not."""
    lost: dict[str, Problem] = {}
    for name, data in matrices.items():
        path = out / name
        try:
            with folder_for(path):
                if force:
                    replace_file(path, data, mode=0o644)
                else:
                    create_file(path, data, mode=0o644)
        except OSError as error:
            lost[name] = Problem(Source(str(path)), f"cannot be written: {reason(error)}", rule="srt-write")
    return lost


def _print(reports: Sequence[FileReport], output: str) -> None:
    from recipegen.srtslurm.report import report_json, report_text

    if output == "json":
        click.echo(report_json(reports), nl=False)
        return
    for line in report_text(reports):
        click.echo(printable(line))
