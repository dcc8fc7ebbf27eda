"""The exports of leaf folders: what they should hold, what they hold, and their writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recipegen.cli.table import say
from recipegen.errors import InputError, Problem
from recipegen.files import reason
from recipegen.leaf import Differences, differences, read_present, remove, write

if TYPE_CHECKING:
    from recipegen.launch import LaunchPlan
    from recipegen.srtslurm.export import Form

_WRITTEN = {"stale": "updated", "missing": "written"}


@dataclass(frozen=True)
class ExportFolder:
    """The exports of one leaf folder in one form: what they should hold, and how what is there differs."""

    leaf: Path
    wanted: Mapping[str, bytes]
    differences: Differences

    def show(self) -> None:
        """Say what is stale, missing or orphaned."""
        for what, name in self.differences.lines():
            say(f"{what}: {self.leaf / name}")
        self._say_fresh()

    def write(self, *, clean: bool = False) -> None:
        """Make them fresh, with `clean` without those that no point makes, and say what was done."""
        write(self.leaf, {name: self.wanted[name] for name in (*self.differences.stale, *self.differences.missing)})
        if clean:
            remove(self.leaf, self.differences.orphaned)
        for what, name in self.differences.lines():
            say(f"{_WRITTEN.get(what, 'removed' if clean else what)}: {self.leaf / name}")
        if self.differences.orphaned and not clean:
            say("hint: no point makes what is orphaned; `recipegen render --clean` removes it", err=True)
        self._say_fresh()

    def refuse_others(self) -> None:
        """InputError where somebody's own file has the name of one."""
        from recipegen.srtslurm.export import is_export

        for name in self.differences.stale:
            if not is_export(read_present(self.leaf / name) or b""):
                message = f"{self.leaf / name}: not a file that recipegen exported; it stays as it is"
                raise InputError(message, hint="another folder by --out, or remove it")

    def _say_fresh(self) -> None:
        if not self.differences:
            count = len(self.wanted)
            say(f"{self.leaf}: {count} {'export is' if count == 1 else 'exports are'} up to date", err=True)


Leaves = Sequence[tuple[Path, Sequence["LaunchPlan"]]]
"""Leaf folders, each with the plans of its points."""


def export_folders(leaves: Leaves, form: str, *, only_point: bool, skip: bool = False) -> list[ExportFolder]:
    """Return the exports of these leaf folders in one form.

    InputError with all that the form cannot say; with `skip`, points that it cannot say are left out, and counted. With `only_point`,
    files of other points are none of our business.
    """
    return _compared([(leaf, plans, form) for leaf, plans in leaves], only_point=only_point, skip=skip)


def committed_exports(leaves: Leaves, *, only_point: bool) -> list[ExportFolder]:
    """Return the exports, in any form, of which the leaf folders hold files of ours; points that such a form cannot say are left out."""
    return _compared([(leaf, plans, form) for leaf, plans in leaves for form in _forms_in(leaf)], only_point=only_point, skip=True)


def _compared(wanted: Sequence[tuple[Path, Sequence[LaunchPlan], str]], *, only_point: bool, skip: bool) -> list[ExportFolder]:
    from recipegen.srtslurm.export import export_files

    found: list[ExportFolder] = []
    problems: list[Problem] = []
    for leaf, plans, form in wanted:
        exports = export_files(plans, form)
        found.append(ExportFolder(leaf, exports.files, _differences(leaf, exports.files, form, only_point=only_point)))
        problems += [problem for unsaid in exports.unsaid.values() for problem in unsaid]
        if exports.unsaid and skip:
            first = next(iter(exports.unsaid.values()))[0]
            count = f"{len(exports.unsaid)} of {len(plans)} points" if len(plans) > 1 else "its point"
            say(f"{leaf}: {count} left out, as {form} cannot say: {first.message}", err=True)
    if problems and not skip:
        raise InputError(list(dict.fromkeys(problems)), hint="--skip leaves such points out")
    return found


def write_folders(folders: Sequence[ExportFolder], *, clean: bool = False) -> None:
    """Make all of them fresh, or none where somebody's own file is in the way of one; `clean` as for one."""
    for folder in folders:
        folder.refuse_others()
    for folder in folders:
        folder.write(clean=clean)


def _forms_in(leaf: Path) -> Iterator[str]:
    """One form of each folder that holds exports."""
    from recipegen.srtslurm.export import FORMS

    by_folder: dict[str, Form] = {}
    for form in FORMS.values():
        by_folder.setdefault(form.folder, form)
    return (form.name for form in by_folder.values() if _ours(leaf / form.folder, form.ending))


def _differences(leaf: Path, wanted: Mapping[str, bytes], form: str, *, only_point: bool) -> Differences:
    """Orphaned are only files that were exported. InputError where something cannot be read."""
    from recipegen.srtslurm.export import FORMS

    folder, ending = FORMS[form].folder, FORMS[form].ending
    if (leaf / folder).is_symlink():
        raise InputError(f"{leaf / folder}: not a folder of its own, as exports need")
    present = {name: data for name in wanted if (data := read_present(leaf / name)) is not None}
    ours: set[str] = set() if only_point else {f"{folder}/{name}" for name in _ours(leaf / folder, ending)}
    return differences(wanted, present, ours)


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
