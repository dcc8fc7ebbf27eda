"""From one file to its jobs: `base` with overrides, zipped overrides, and sweeps."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from recipegen.errors import InputError, Problem, near_match
from recipegen.srtslurm.tree import Tree, plain

OVERRIDE, ZIPPED = "override_", "zip_override_"
MAX_JOBS = 10_000
"""Jobs of one file: a larger product is a typing error, or nothing that a person reads."""
_TEMPLATE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class Job:
    """One job's document, and what makes it: `override_x`, `zip_override_y[2]`, `tp=4, ep=true`."""

    tree: Tree
    variant: str = ""


def expand(tree: Tree) -> list[Job]:
    """Return every job of a file, in srtctl's order; InputError where the file's form cannot be followed.

    As srtctl without a selector: every override and zipped override by name, but not `base` itself, unless there is nothing else.
    """
    entries = tree.entries or {}
    jobs = _overridden(tree) if "base" in entries else [Job(tree)]
    return [swept for job in jobs for swept in _swept(job)]


def merge(base: Tree, over: Tree) -> Tree:
    """Merge mappings deeply: a list or a scalar takes the place of what is there, null removes it."""
    if base.entries is None or over.entries is None:
        return over
    entries = dict(base.entries)
    for name, entry in over.entries.items():
        if entry.is_null:
            entries.pop(name, None)
        elif name in entries:
            entries[name] = merge(entries[name], entry)
        else:
            entries[name] = entry
    return replace(base, entries=entries)


def _overridden(tree: Tree) -> list[Job]:
    entries = dict(tree.entries or {})
    schema, sweep, base = entries.pop("schema", None), entries.pop("sweep", None), entries.pop("base")
    wrong = [key for key in entries if not key.startswith((OVERRIDE, ZIPPED))]
    problems = [_problem(entries[key], f"'{key}' cannot stand beside 'base'", near_match(key, ["base", OVERRIDE, ZIPPED])) for key in wrong]
    problems += [_problem(one, f"'{one.path}' is {one.kind}; expected a mapping") for one in (base, *entries.values()) if one.entries is None]
    if problems:
        raise InputError(problems)
    shared = {name: one for name, one in (("schema", schema), ("sweep", sweep)) if one is not None}
    start = _unrooted(base)
    start = replace(start, entries={**shared, **(start.entries or {})})
    jobs = [_named(start, key, merge(start, _unrooted(entries[key]))) for key in sorted(k for k in entries if k.startswith(OVERRIDE))]
    for key in sorted(k for k in entries if k.startswith(ZIPPED)):
        jobs += _zipped(start, key, _unrooted(entries[key]))
    return jobs or [Job(start, "base")]


def _unrooted(tree: Tree) -> Tree:
    """A variant's keys are called as in a plain file."""
    cut = len(tree.path) + 1
    return _renamed(replace(tree, path=""), cut)


def _renamed(tree: Tree, cut: int) -> Tree:
    if tree.entries is not None:
        return replace(tree, entries={name: _renamed(replace(one, path=one.path[cut:]), cut) for name, one in tree.entries.items()})
    if tree.items is not None:
        return replace(tree, items=tuple(_renamed(replace(one, path=one.path[cut:]), cut) for one in tree.items))
    return tree


def _named(base: Tree, key: str, job: Tree, number: int | None = None) -> Job:
    """srtctl names a variant by its base and its key."""
    suffix = key.removeprefix(ZIPPED).removeprefix(OVERRIDE) + ("" if number is None else f"_{number}")
    name = (base.entries or {}).get("name")
    label = key if number is None else f"{key}[{number}]"
    if name is None or not isinstance(name.scalar, str):
        return Job(job, label)
    return Job(replace(job, entries={**(job.entries or {}), "name": replace(name, scalar=f"{name.scalar}_{suffix}")}), label)


def _zipped(base: Tree, key: str, over: Tree) -> list[Job]:
    lengths = set(_list_lengths(over))
    longer = lengths - {1}
    if not lengths or 0 in lengths or len(longer) > 1:
        found = ", ".join(map(str, sorted(lengths))) or "none"
        raise InputError([_problem(over, f"'{key}' has lists of these lengths: {found}; expected one length, and 1 for what is the same in all")])
    count = longer.pop() if longer else 1
    own_names = (over.entries or {}).get("name", over).items is not None
    slices = [merge(base, _slice(over, index)) for index in range(count)]
    return [Job(one, f"{key}[{index}]") if own_names else _named(base, key, one, index) for index, one in enumerate(slices)]


def _list_lengths(tree: Tree) -> Iterator[int]:
    for one in (tree.entries or {}).values():
        if one.items is not None:
            yield len(one.items)
        yield from _list_lengths(one)


def _slice(tree: Tree, index: int) -> Tree:
    if tree.items is not None:
        return replace(tree.items[0 if len(tree.items) == 1 else index], path=tree.path)
    if tree.entries is None:
        return tree
    return replace(tree, entries={name: _slice(one, index) for name, one in tree.entries.items()})


def _swept(job: Job) -> Iterator[Job]:
    entries = dict(job.tree.entries or {})
    sweep = entries.pop("sweep", None)
    if sweep is None or sweep.is_null:
        yield Job(replace(job.tree, entries=entries) if sweep else job.tree, job.variant)
        return
    values = _sweep_values(sweep)
    rest = replace(job.tree, entries=entries)
    for chosen in itertools.product(*values.values()):
        names = dict(zip(values, chosen, strict=True))
        label = ", ".join(f"{name}={_shown(one)}" for name, one in names.items())
        yield Job(_filled(rest, names), ", ".join(filter(None, (job.variant, label))))


def _sweep_values(sweep: Tree) -> dict[str, tuple[Tree, ...]]:
    if not sweep.entries:
        raise InputError([_problem(sweep, f"'{sweep.path}' is {sweep.kind}; expected names with lists of values")])
    wrong = [one for one in sweep.entries.values() if not one.items]
    if wrong:
        raise InputError([_problem(one, f"'{one.path}' is {one.kind}; expected a list of values") for one in wrong])
    values = {name: one.items or () for name, one in sweep.entries.items()}
    if (count := math.prod(map(len, values.values()))) > MAX_JOBS:
        raise InputError([_problem(sweep, f"'{sweep.path}' makes {count} jobs; expected {MAX_JOBS} at most")])
    return values


def _filled(tree: Tree, names: Mapping[str, Tree]) -> Tree:
    """Fill in templates: one that stands alone takes the value with its type."""
    if tree.entries is not None:
        return replace(tree, entries={name: _filled(one, names) for name, one in tree.entries.items()})
    if tree.items is not None:
        return replace(tree, items=tuple(_filled(one, names) for one in tree.items))
    if not isinstance(tree.scalar, str) or "{" not in tree.scalar:
        return tree
    alone = _TEMPLATE.fullmatch(tree.scalar)
    if alone and alone[1] in names:
        value = names[alone[1]]
        return replace(tree, entries=value.entries, items=value.items, scalar=value.scalar)
    return replace(tree, scalar=_TEMPLATE.sub(lambda found: str(plain(names[found[1]])) if found[1] in names else found[0], tree.scalar))


def _shown(tree: Tree) -> str:
    value = plain(tree)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _problem(tree: Tree, message: str, hint: str = "") -> Problem:
    return Problem(tree.key, message, hint, "srt-form")
