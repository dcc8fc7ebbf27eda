"""Comments of a recipe file, carried over to the keys of its matrix."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from recipegen.document import Document
from recipegen.errors import NOWHERE
from recipegen.srtslurm.recipe import Remark, SrtRecipe
from recipegen.srtslurm.yaml_text import Line, MatrixText
from recipegen.yamlsource import MERGE
from recipegen.yamlsyntax import without_values

_BEHIND = re.compile(r"(?<=\s)#(.*)")
_VARIANT = re.compile(r"base$|override_|zip_override_")
_ROLES = {"prefill": "prefill", "decode": "decode", "aggregated": "agg", "agg": "agg"}
_KEYS = {
    "backend": "common",
    "benchmark": "benchmark",
    "dynamo": "runtime",
    "engine": "common",
    "environment": "common",
    "frontend": "frontend",
    "health_check": "deadlines",
    "identity": "model",
    "infra": "infra",
    "model": "model",
    "resources": "hardware",
    "roles": "common",
    "sbatch_directives": "slurm",
    "services": "infra",
    "setup_script": "setup_script",
    "slurm": "slurm",
    "srun_options": "slurm",
    "sweep": "points",
}
"""The key of a matrix that a section of a recipe becomes."""


def comment_lines(document: Document) -> list[str]:
    """Return the lines of a file with its values masked: a '#' that is left begins a comment."""
    return without_values(document.text.text).split("\n")


def comment_of(line: str) -> str | None:
    """Return the text of a masked line that is a comment, indented as it is behind its '#'; None for another line."""
    if not line.lstrip().startswith("#"):
        return None
    return line.strip().lstrip("#").removeprefix(" ").rstrip()


def comment_behind(line: str) -> str:
    """Return the comment at the end of a masked line."""
    found = _BEHIND.search(line)
    return found[1].lstrip("#").strip() if found else ""


# -- from a recipe -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class _Spot:
    """Where a key, or an entry of a list, begins; lines and columns count from 1."""

    line: int
    column: int
    path: tuple[str | int, ...]


def read_remarks(document: Document) -> tuple[Remark, ...]:
    """Return every comment of a file: blocks of lines of one indentation, and what stands behind a value."""
    lines = comment_lines(document)
    places: dict[tuple[int, int], _Spot] = {}
    for path, key, _ in document.places():  # an alias has the places of what it repeats
        places.setdefault((key.line, key.column), _Spot(key.line, key.column, path))
    spots = sorted(places.values(), key=lambda spot: (spot.line, spot.column))
    return tuple(_remarks(lines, spots))


def _remarks(lines: Sequence[str], spots: Sequence[_Spot]) -> Iterator[Remark]:
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if comment_of(line) is None:
            if behind := comment_behind(line):
                yield Remark(_name(_on(spots, number)), (behind,), behind=True)
            continue
        end, indent = number, _indent(line)
        while end < len(lines) and comment_of(lines[end]) is not None and _indent(lines[end]) == indent:
            end += 1
        yield Remark(_name(_beside(spots, number, end, indent, lines)), tuple(comment_of(one) or "" for one in lines[number - 1 : end]))
        number = end


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _before(spots: Sequence[_Spot], line: int) -> int:
    """How many spots stand on lines up to this one."""
    return bisect_right(spots, line, key=lambda spot: spot.line)


def _on(spots: Sequence[_Spot], line: int) -> tuple[str | int, ...]:
    """The first key on a line, else the last above it."""
    count = _before(spots, line)
    first = next((spot for spot in spots[_before(spots, line - 1) : count]), None)
    return (first or spots[count - 1]).path if count else ()


def _beside(spots: Sequence[_Spot], start: int, end: int, indent: int, lines: Sequence[str]) -> tuple[str | int, ...]:
    """The key below a block of comment lines; the one above where the block is its section's end, or stands right below it and alone."""
    count = _before(spots, start)
    above = next((spot for spot in reversed(spots[:count]) if spot.column - 1 <= indent), None)
    below = spots[count] if count < len(spots) else None
    alone = end >= len(lines) or not lines[end].strip()
    tight = above is not None and above.line == start - 1 and above.column - 1 == indent
    if below is None or below.column - 1 < indent or (alone and tight):
        return above.path if above else ()
    return below.path if above else ()


def _name(path: tuple[str | int, ...]) -> str:
    """A path without merge keys, and without its first key where that is a variant's."""
    names = [step for step in path if isinstance(step, str) and step != MERGE]
    return ".".join(names[1:] if names and _VARIANT.match(names[0]) else names)


# -- into a matrix -----------------------------------------------------------------------------------------------------


def with_remarks(text: MatrixText, recipes: Sequence[SrtRecipe]) -> MatrixText:
    """Return the matrix with what the comments of its recipes' files say beyond those that it has.

    Those of the first file stand above the keys that their sections became, or in the head; those of a further one above its first point.
    """
    taken = {found.strip() for line in text.lines if (found := comment_of(line.text) or comment_behind(line.text))}
    keys = {line.text.partition(":")[0]: number for number, line in reversed(list(enumerate(text.lines))) if line.text[:1].isalpha()}
    points = [number for number, line in enumerate(text.lines) if line.text.startswith("  - ") and keys["points"] < number < _end(keys, text)]
    added: dict[int, list[str]] = {}
    for remark in recipes[0].remarks:
        if any(line.strip() not in taken for line in remark.lines if line.strip()):
            where = _where(remark.path, keys, points[0], len(recipes[0].head))
            added.setdefault(where, []).extend(_shown(remark))
            taken.update(line.strip() for line in remark.lines)
    files = {recipes[0].file}
    for point, recipe in zip(points, recipes, strict=True):
        if recipe.file not in files:
            files.add(recipe.file)
            added.setdefault(point, []).extend(_new(recipe.remarks, taken))
    return MatrixText(tuple(_joined(text.lines, added, points)))


def _end(keys: dict[str, int], text: MatrixText) -> int:
    """The line at which the points end."""
    return min((number for number in keys.values() if number > keys["points"]), default=len(text.lines))


def _where(path: str, keys: dict[str, int], first_point: int, head: int) -> int:
    """The line above which a comment goes."""
    section, *inner = path.split(".")
    key = _KEYS.get(section, section if section in keys and section != "name" else "")
    if key == "common":
        role = next((_ROLES[name] for step in inner if (name := step.removesuffix("_environment")) in _ROLES), "common")
        key = next((one for one in (role, "common", "points") if one in keys), "")
    if section == "slurm" and key not in keys:
        return first_point
    return keys.get(key, head)


def _shown(remark: Remark) -> tuple[str, ...]:
    """Lines as they are; what stood behind a value with the name of its key."""
    return tuple(f"{remark.path.rpartition('.')[2]}: {line}" for line in remark.lines) if remark.behind else remark.lines


def _new(remarks: Iterable[Remark], taken: set[str]) -> Iterator[str]:
    for remark in remarks:
        for line, shown in zip(remark.lines, _shown(remark), strict=True):
            if line.strip() and line.strip() not in taken:
                taken.add(line.strip())
                yield shown


def _joined(lines: Sequence[Line], added: dict[int, list[str]], points: Sequence[int]) -> Iterator[Line]:
    for number, line in enumerate(lines):
        indent = "  " if number in points else ""
        yield from (Line(f"{indent}# {text}".rstrip(), NOWHERE) for text in added.get(number, ()))
        yield line
