"""`recipegen render`: write the bundles of a matrix, or check that they are fresh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recipegen.cli.export_folders import ExportFolder, committed_exports, write_folders
from recipegen.cli.findings import refuse_errors
from recipegen.cli.index_file import committed_index
from recipegen.cli.matrices import check_path, target_of
from recipegen.cli.table import say
from recipegen.errors import DifferencesFound, InputError
from recipegen.launch import LaunchPlan
from recipegen.leaf import Differences, compare, leaf_files, remove, write

if TYPE_CHECKING:
    from recipegen.pipeline import Checked


@click.command(name="render", short_help="Write the bundles of a matrix, or check that they are fresh.")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--point", help="Only this point.")
@click.option("--out", type=click.Path(path_type=Path), help="Write below this folder instead of beside the matrix.")
@click.option("--simulate", is_flag=True, help="Mockers in the place of the engines; needs --out, and is never committed.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and say what is stale, missing or orphaned.")
@click.option("--clean", is_flag=True, help="Also remove what no point makes: folders with a MANIFEST of ours, further files and exports of ours.")
def command(path: Path, point: str | None, out: Path | None, simulate: bool, check: bool, clean: bool) -> None:
    """Render the bundles of PATH: a matrix file, a leaf folder, or a tree of them."""
    if simulate and out is None:
        raise InputError("--simulate needs --out: a simulated bundle is never committed")
    if check and clean:
        raise InputError("--check changes nothing, --clean removes: choose one")
    checked = check_path(path, point, simulate=simulate)
    refuse_errors([one for _, one in checked], "nothing was rendered")
    leaves = [(target_of(matrix, path, out), one.plans) for matrix, one in checked]
    exports = committed_exports(leaves, only_point=point is not None) if out is None else []
    found: list[object] = [_render_leaf(leaf, plans, point, check=check, clean=clean) for leaf, plans in leaves]
    found.append(_exports_are_stale(exports, check=check, clean=clean))
    if out is None and point is None:
        found.append(_index_is_stale(path, checked, check=check))
    if check and any(found):
        hint = f"recipegen render {path}, with --clean where something is orphaned"
        raise DifferencesFound("the bundles are not what the matrix renders", hint=hint)


def _exports_are_stale(exports: Sequence[ExportFolder], *, check: bool, clean: bool) -> bool:
    """Whether a leaf holds exported files that are not what its points give; they are made fresh unless that is only checked."""
    stale = [folder for folder in exports if folder.differences]
    if check:
        for folder in stale:
            folder.show()
    else:
        write_folders(stale, clean=clean)
    return bool(stale)


def _index_is_stale(path: Path, checked: Sequence[tuple[Path, Checked]], *, check: bool) -> bool:
    """Whether the tree holds an index that is not what its matrices say; it is made fresh unless that is only checked."""
    index = committed_index(path, checked)
    if index is None or index.is_fresh:
        return False
    if check:
        say(f"stale: {index.target}")
    else:
        index.write()
    return True


def _render_leaf(leaf: Path, plans: Sequence[LaunchPlan], point: str | None, *, check: bool, clean: bool) -> Differences:
    from recipegen.pipeline import render_plans

    files = leaf_files(render_plans(plans))
    differences = compare(leaf, files, only_point=point)
    if not check:
        write(leaf, {name: files[name] for name in (*differences.stale, *differences.missing)})
        if clean:
            remove(leaf, differences.orphaned)
    _report(leaf, differences, check=check, clean=clean, count=len(plans))
    return differences


def _report(leaf: Path, differences: Differences, *, check: bool, clean: bool, count: int) -> None:
    """A check names every file; what was written is summed up by folder."""
    verbs = {"stale": "updated", "missing": "written", "orphaned": "removed" if clean else "orphaned"}
    if check:
        for what, name in differences.lines():
            say(f"{what}: {leaf / name}")
    else:
        folders = Counter((verbs[what], (leaf / name).parent) for what, name in differences.lines())
        for (verb, folder), files in folders.items():
            say(f"{verb}: {folder} ({files} {'file' if files == 1 else 'files'})")
    if differences.orphaned and not (clean or check):
        click.echo("hint: --clean removes what is orphaned", err=True)
    if not differences:
        say(f"{leaf}: {count} {'bundle is' if count == 1 else 'bundles are'} up to date", err=True)
