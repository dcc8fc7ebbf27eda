"""An import as a whole: from the bytes of recipe files to matrices by path, and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from recipegen.errors import InputError, Problem, Source
from recipegen.srtslurm.expand import Job, expand
from recipegen.srtslurm.group import MAX_NAME, Group, group
from recipegen.srtslurm.idle import idle_note
from recipegen.srtslurm.recipe import SrtRecipe
from recipegen.srtslurm.report import FileReport, Refusal
from recipegen.srtslurm.source_text import parse_recipe
from recipegen.srtslurm.tree import head_comment, plant
from recipegen.srtslurm.v1 import read_v1
from recipegen.srtslurm.v2 import is_v2, read_v2
from recipegen.srtslurm.verify import Written, write_matrix


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe file: its name for messages, the folder below which its matrix belongs (empty: none), its bytes, or why there are none."""

    file: str
    folder: str
    data: bytes = b""
    unreadable: str = ""


@dataclass(frozen=True, kw_only=True)
class Import:
    """Matrices by their path below the output folder, and what came of every file."""

    matrices: dict[str, bytes]
    reports: tuple[FileReport, ...]


@dataclass
class _State:
    """What is known of one file on the way."""

    source: RecipeFile
    jobs: int = 1
    recipes: list[SrtRecipe] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    matrices: Counter[str] = field(default_factory=Counter)
    skipped: bool = False

    def report(self) -> FileReport:
        idle = filter(None, [idle_note(self.recipes)])
        notes = tuple(dict.fromkeys((*self.notes, *(note for recipe in self.recipes for note in recipe.notes), *idle)))
        return FileReport(
            file=self.source.file,
            jobs=self.jobs,
            refused=tuple(self.refused),
            notes=notes,
            carried=tuple(dict.fromkeys(key for recipe in self.recipes for key in recipe.carried)),
            matrices=tuple(self.matrices),
            points=tuple(self.matrices.values()),
            skipped=self.skipped,
        )


def import_files(files: Iterable[RecipeFile], hardware: str = "") -> Import:
    """Read, expand, group and write; a file or a job that cannot be imported is refused in the report, and the others go on.

    `hardware` is the machine of recipes that name none.
    """
    states = [_read(source, hardware) for source in files]
    matrices: dict[str, bytes] = {}
    for folder in dict.fromkeys(state.source.folder for state in states):
        here = [state for state in states if state.source.folder == folder]
        matrices |= _write(folder, here)
    return Import(matrices=matrices, reports=tuple(state.report() for state in states))


def _read(source: RecipeFile, hardware: str) -> _State:
    state = _State(source)
    if source.unreadable:
        state.refused.append(Refusal(variant="", problems=(Problem(Source(source.file), source.unreadable, rule="srt-file"),)))
        return state
    try:
        document, notes = parse_recipe(source.data, source.file)
        if _is_matrix(document.data):
            state.jobs, state.skipped = 0, True
            state.notes = [Problem(document.source("schema"), "is a matrix already")]
            return state
        jobs = expand(plant(document))
    except InputError as error:
        state.refused.append(Refusal(variant="", problems=_problems(error, source.file)))
        return state
    state.jobs, state.notes = len(jobs), [*notes, *dict.fromkeys(note for job in jobs for note in job.notes)]
    head = head_comment(document)
    for job in jobs:
        _read_job(state, job, head, hardware)
    return state


def _is_matrix(data: object) -> bool:
    return isinstance(data, dict) and str(data.get("schema")).startswith("recipegen/")


def _read_job(state: _State, job: Job, head: tuple[str, ...], hardware: str) -> None:
    read = read_v2 if is_v2(job) else read_v1
    try:
        state.recipes.append(read(job, state.source.file, head, hardware))
    except InputError as error:
        state.refused.append(Refusal(variant=job.variant, problems=_problems(error, state.source.file)))


def _write(folder: str, states: list[_State]) -> dict[str, bytes]:
    """The matrices of one folder."""
    owner = {id(recipe): state for state in states for recipe in state.recipes}
    found: dict[str, bytes] = {}
    for members in group(recipe for state in states for recipe in state.recipes):
        path = "/".join(filter(None, (folder, members.name, "matrix.yaml")))
        text = _written(members, owner)
        if text is not None:
            found[path] = text.text.encode()
            for recipe, notes in zip(text.recipes, text.notes, strict=True):
                owner[id(recipe)].matrices[path] += 1
                owner[id(recipe)].notes += notes
                if members.cut:
                    message = f"the name '{members.cut}' is longer than {MAX_NAME} characters: the matrix is called '{members.name}'"
                    owner[id(recipe)].notes.append(Problem(recipe.place("name"), message))
    return found


def _written(members: Group, owner: dict[int, _State]) -> Written | None:
    """A group's matrix. Jobs that a matrix cannot hold are refused, each for its own reason, and the others written without them."""
    try:
        return write_matrix(members)
    except InputError as error:
        alone = {id(recipe): _why_not(Group(members.name, (recipe,))) for recipe in members.recipes}
        if len(members.recipes) == 1 or not any(alone.values()):
            alone = dict.fromkeys(alone, error)
    kept = []
    for recipe in members.recipes:
        why = alone[id(recipe)]
        if why is None:
            kept.append(recipe)
            continue
        state = owner[id(recipe)]
        state.recipes = [one for one in state.recipes if one is not recipe]
        state.refused.append(Refusal(variant=recipe.variant, problems=_problems(why, state.source.file)))
    return _written(replace(members, recipes=tuple(kept)), owner) if kept else None


def _why_not(members: Group) -> InputError | None:
    try:
        write_matrix(members)
    except InputError as error:
        return error
    return None


def _problems(error: InputError, file: str) -> tuple[Problem, ...]:
    return error.problems or (Problem(Source(file), str(error), error.hint, "srt-form"),)
