"""`recipegen import`: matrices from srt-slurm recipes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.table import printable
from recipegen.errors import ChecksFailed, InputError
from recipegen.files import read_regular, reason, replace_file

if TYPE_CHECKING:
    from recipegen.srtslurm.run import Import, RecipeFile

ENDINGS = (".yaml", ".yml")


@click.command(name="import", short_help="Make matrices of srt-slurm recipes.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Write the matrices below this folder.")
@click.option("--force", is_flag=True, help="Write over matrices that are there.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="The report, for people or programs.")
def command(paths: tuple[Path, ...], out: Path, force: bool, output: str) -> None:
    """Read srt-slurm recipes (PATHS: files, or folders of them), v1 or `schema: 2`, and write matrices for check, plan and render.

    Exit 0 all imported, 1 some refused, 2 none imported or a matrix in the way.
    """
    from recipegen.srtslurm.run import import_files

    found = import_files(_read_all(paths))
    _refuse_overwriting(out, found.matrices, force=force)
    _write_all(out, found.matrices)
    _print(found, output)
    refused = sum(not report.matrices for report in found.reports)
    if refused == len(found.reports):
        raise InputError("nothing was imported", hint="the report says why, file by file")
    if refused:
        raise ChecksFailed(f"{refused} of {len(found.reports)} files were refused", hint="the report says why; the others are imported")


def _read_all(paths: Sequence[Path]) -> list[RecipeFile]:
    from recipegen.srtslurm.run import RecipeFile

    files: dict[Path, RecipeFile] = {}
    for path in paths:
        for file, folder in _files_of(path):
            if file not in files:
                files[file] = RecipeFile(file=str(file), folder=folder, data=_read(file))
    return list(files.values())


def _files_of(path: Path) -> Iterator[tuple[Path, str]]:
    """The recipe files that an argument means, and the folder below the output in which each belongs."""
    if not path.is_dir():
        yield path, ""
        return
    names = sorted(name for name in _below(path) if name.endswith(ENDINGS))
    if not names:
        raise InputError(f"{path}: no recipe (*.yaml) in it or below it")
    for name in names:
        folder = Path(name).parent.as_posix()
        yield path / name, "" if folder == "." else folder


def _below(root: Path) -> Iterator[str]:
    def closed(error: OSError) -> None:
        raise InputError(f"{error.filename}: {reason(error)}") from error

    for folder, _, names in os.walk(root, onerror=closed):
        yield from (os.path.relpath(os.path.join(folder, name), root) for name in names)


def _read(path: Path) -> bytes:
    from recipegen.yamlsource import MAX_BYTES

    try:
        return read_regular(str(path), most=MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}") from error
    except ValueError as error:  # a NUL in a path
        raise InputError(f"{str(path)!r}: {error}") from error


def _refuse_overwriting(out: Path, names: Iterable[str], *, force: bool) -> None:
    there = [out / name for name in names if os.path.lexists(out / name)]
    if there and not force:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise InputError(f"{there[0]}{more}: already there; nothing was written", hint="--force writes over matrices, or choose another --out")


def _write_all(out: Path, matrices: Mapping[str, bytes]) -> None:
    for name, data in matrices.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, data, mode=0o644)
        except OSError as error:
            raise InputError(f"{path}: cannot be written: {reason(error)}") from error


def _print(found: Import, output: str) -> None:
    from recipegen.srtslurm.report import report_json, report_text

    if output == "json":
        click.echo(report_json(found.reports), nl=False)
        return
    for line in report_text(found.reports):
        click.echo(printable(line))
