"""From one file to its jobs: `base` with overrides, zipped overrides, and sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from recipegen.errors import InputError, Problem, near_match
from recipegen.srtslurm.sweep import Room, form_problem, read_sweep, size
from recipegen.srtslurm.tree import Tree

OVERRIDE, ZIPPED = "override_", "zip_override_"


@dataclass(frozen=True)
class Job:
    """One job's document, what makes it (`override_x`, `zip_override_y[2]`, `tp=4, ep=true`), and what is to be known of its sweep."""

    tree: Tree
    variant: str = ""
    notes: tuple[Problem, ...] = ()


def expand(tree: Tree) -> list[Job]:
    """Return every job of a file, in srtctl's order; InputError where the file's form cannot be followed.

    As srtctl without a selector: every override and zipped override by name, but not `base` itself, unless there is nothing else.
    """
    entries = tree.entries or {}
    jobs = _overridden(tree) if "base" in entries else [Job(tree)]
    room = Room()
    return [swept for job in jobs for swept in _swept(job, room)]


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
    room, each = Room(), size(start)
    jobs = []
    for key in sorted(k for k in entries if k.startswith(OVERRIDE)):
        room.take_jobs(1, each + size(entries[key]), entries[key])
        jobs.append(_named(start, key, merge(start, _unrooted(entries[key]))))
    for key in sorted(k for k in entries if k.startswith(ZIPPED)):
        over = _unrooted(entries[key])
        count = _zipped_count(key, over)
        room.take_jobs(count, each + size(_slice(over, 0)), entries[key])
        jobs += _zipped(start, key, over, count)
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


def _zipped_count(key: str, over: Tree) -> int:
    lengths = set(_list_lengths(over))
    longer = lengths - {1}
    if not lengths or 0 in lengths or len(longer) > 1:
        found = ", ".join(map(str, sorted(lengths))) or "none"
        raise InputError([_problem(over, f"'{key}' has lists of these lengths: {found}; expected one length, and 1 for what is the same in all")])
    return longer.pop() if longer else 1


def _zipped(base: Tree, key: str, over: Tree, count: int) -> list[Job]:
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


def _swept(job: Job, room: Room) -> Iterator[Job]:
    entries = dict(job.tree.entries or {})
    sweep = entries.pop("sweep", None)
    rest = replace(job.tree, entries=entries) if sweep else job.tree
    if sweep is None or sweep.is_null:
        room.take_jobs(1, size(rest), rest)
        yield Job(rest, job.variant)
        return
    found = read_sweep(sweep, rest)
    room.take_jobs(found.jobs, size(rest), sweep)
    for label, tree in found.fill(rest, room):
        yield Job(tree, ", ".join(filter(None, (job.variant, label))), found.notes)


def _problem(tree: Tree, message: str, hint: str = "") -> Problem:
    return form_problem(tree.key, message, hint)
