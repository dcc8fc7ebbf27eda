"""A sweep: the product of its lists of values, filled into the templates of a document, within bounds."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from recipegen.errors import InputError, Problem, Source
from recipegen.srtslurm.tree import Tree, plain

MAX_JOBS = 10_000
"""Jobs of one file: a larger product is a typing error, or nothing that a person reads."""
MAX_VALUES = 2_000_000
"""Values of all jobs of one file: what an import holds in memory."""
MAX_TEXT = 131_071
"""Characters of a text that is filled in: one more and Linux (`MAX_ARG_STRLEN`, 32 pages) starts no engine with it."""
MAX_FILLED = 16 * 1024 * 1024
"""Characters of all texts that are filled in for one file."""
_TEMPLATE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LABEL = 60


@dataclass
class Room:
    """What is left for the jobs of a file."""

    jobs: int = MAX_JOBS
    values: int = MAX_VALUES
    filled: int = MAX_FILLED

    def take_jobs(self, count: int, values: int, at: Tree) -> None:
        """Make room for jobs of so many values each; InputError where there is none."""
        self.jobs -= count
        if self.jobs < 0:
            jobs = f"'{at.path}' makes {count} jobs" if count > MAX_JOBS else f"the file makes more than {MAX_JOBS} jobs by overrides and sweeps"
            raise InputError([form_problem(at.key, f"{jobs}; expected {MAX_JOBS} at most")])
        self.take_values(count * values, at)

    def take_values(self, count: int, at: Tree) -> None:
        self.values -= count
        if self.values < 0:
            raise InputError(
                [form_problem(at.key, f"the jobs of the file hold more than {MAX_VALUES} values in all; expected fewer or smaller jobs")]
            )

    def take_text(self, length: int, at: Tree) -> None:
        self.filled -= length
        if length > MAX_TEXT:
            message = f"'{at.path}' is a text of {length} characters when it is filled in; expected {MAX_TEXT} at most, as no engine starts with more"
            raise InputError([form_problem(at.source, message)])
        if self.filled < 0:
            raise InputError([form_problem(at.source, f"the texts that are filled in are longer than {MAX_FILLED} characters in all")])


@dataclass(frozen=True)
class _Value:
    """A value of a sweep, as it is filled in alone, and within a text."""

    tree: Tree
    text: str
    size: int


@dataclass(frozen=True)
class Sweep:
    """The values by name that some template uses, without repetitions, and notes on what was left out."""

    values: Mapping[str, tuple[_Value, ...]]
    notes: tuple[Problem, ...]

    @property
    def jobs(self) -> int:
        return math.prod(map(len, self.values.values()))

    def fill(self, tree: Tree, room: Room) -> Iterator[tuple[str, Tree]]:
        """Yield each job's label (`tp=4, ep=true`) and document."""
        for chosen in itertools.product(*self.values.values()):
            names = dict(zip(self.values, chosen, strict=True))
            yield ", ".join(f"{name}={_shown(one)}" for name, one in names.items()), _filled(tree, names, room)


def read_sweep(sweep: Tree, rest: Tree) -> Sweep:
    """Return the sweep over a document; InputError where its form cannot be followed."""
    if not sweep.entries:
        raise InputError([form_problem(sweep.key, f"'{sweep.path}' is {sweep.kind}; expected names with lists of values")])
    wrong = [one for one in sweep.entries.values() if not one.items]
    if wrong:
        raise InputError([form_problem(one.key, f"'{one.path}' is {one.kind}; expected a list of values") for one in wrong])
    used, notes, values = _used(rest), [], {}
    for name, one in sweep.entries.items():
        if name not in used:
            notes.append(Problem(one.key, f"'{{{name}}}' stands nowhere in the recipe: its values make equal jobs, each imported once"))
            continue
        values[name] = _different(one.items or ())
        if (again := len(one.items or ()) - len(values[name])) > 0:
            notes.append(Problem(one.key, f"'{one.path}' says {again} of its values again: each is imported once"))
    return Sweep(values, tuple(notes))


def size(tree: Tree) -> int:
    """How many values a document holds."""
    inner: Iterable[Tree] = tree.entries.values() if tree.entries is not None else tree.items or ()
    return 1 + sum(map(size, inner))


def form_problem(where: Source, message: str, hint: str = "") -> Problem:
    """A problem with the form of a file: overrides, zips or sweeps."""
    return Problem(where, message, hint, "srt-form")


def _used(tree: Tree) -> set[str]:
    """Names in the templates of a document."""
    if isinstance(tree.scalar, str):
        return set(_TEMPLATE.findall(tree.scalar))
    inner: Iterable[Tree] = tree.entries.values() if tree.entries is not None else tree.items or ()
    return set().union(*map(_used, inner))


def _different(values: Iterable[Tree]) -> tuple[_Value, ...]:
    """Values without repetitions; `true` is not 1, and 1 not 1.0."""
    found: dict[str, _Value] = {}
    for one in values:
        value = plain(one)
        found.setdefault(repr(value), _Value(one, str(value), size(one)))
    return tuple(found.values())


def _filled(tree: Tree, names: Mapping[str, _Value], room: Room) -> Tree:
    """Fill in templates: one that stands alone takes the value with its type, and where a text belongs as the text that srtctl fills in."""
    if tree.entries is not None:
        return replace(tree, entries={name: _filled(one, names, room) for name, one in tree.entries.items()})
    if tree.items is not None:
        return replace(tree, items=tuple(_filled(one, names, room) for one in tree.items))
    if not isinstance(tree.scalar, str) or "{" not in tree.scalar:
        return tree
    alone = _TEMPLATE.fullmatch(tree.scalar)
    if alone and alone[1] in names:
        value = names[alone[1]]
        room.take_values(value.size - 1, tree)
        filled = None if value.tree.scalar is None else value.text
        return replace(tree, entries=value.tree.entries, items=value.tree.items, scalar=value.tree.scalar, filled=filled)
    found = [names[name] for name in _TEMPLATE.findall(tree.scalar) if name in names]
    if not found:
        return tree
    room.take_text(len(tree.scalar) + sum(len(one.text) for one in found), tree)
    return replace(tree, scalar=_TEMPLATE.sub(lambda match: names[match[1]].text if match[1] in names else match[0], tree.scalar))


def _shown(value: _Value) -> str:
    text = value.text.lower() if isinstance(value.tree.scalar, bool) else value.text
    return text if len(text) <= _LABEL else f"{text[:_LABEL]}..."
