"""Typed reads of a tree that collect every problem and note what is not given a meaning."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from recipegen.errors import Problem, Source, near_match
from recipegen.srtslurm.tree import Scalar, Tree, plain

UNKNOWN_KEY, WRONG_TYPE, MISSING, UNSUPPORTED = "srt-key", "srt-type", "srt-missing", "srt-unsupported"


@dataclass
class Findings:
    """What is found on the way through a recipe: problems refuse it, notes do not; `carried` is kept without effect."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    carried: dict[str, object] = field(default_factory=dict)

    def problem(self, rule: str, source: Source, message: str, hint: str = "") -> None:
        self.problems.append(Problem(source, message, hint, rule))

    def note(self, source: Source, message: str) -> None:
        self.notes.append(Problem(source, message))

    def carry(self, tree: Tree, why: str) -> None:
        """Keep a key as it stands, and say so; an empty reason says nothing."""
        self.carried[tree.path] = plain(tree)
        if why:
            self.note(tree.key, f"'{tree.path}' is carried without effect: {why}")

    def unsupported(self, tree: Tree, why: str) -> None:
        self.problem(UNSUPPORTED, tree.key, f"'{tree.path}' is not supported: {why}")


class Section:
    """A mapping whose keys are taken one by one; what is left at the end is carried or unknown."""

    def __init__(self, findings: Findings, tree: Tree | None, path: str, where: Source) -> None:
        self.findings, self.path = findings, path
        self.where = tree.key if tree is not None else where
        self.rest: dict[str, Tree] = {}
        self.given = tree is not None and not tree.is_null
        self._taken: set[str] = set()
        if tree is None or tree.is_null:
            return
        if tree.entries is None:
            findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a mapping")
            return
        self.rest = dict(tree.entries)

    def take(self, key: str) -> Tree | None:
        """Return the value of a key; None where it is not given, or null."""
        self._taken.add(key)
        tree = self.rest.pop(key, None)
        return None if tree is None or tree.is_null else tree

    def says(self, key: str) -> bool:
        """Whether a key stands there, be it null, and was not taken."""
        return key in self.rest

    def section(self, key: str) -> Section:
        return Section(self.findings, self.take(key), f"{self.path}.{key}" if self.path else key, self.where)

    def text(self, key: str, *, required: bool = False) -> str:
        """Return a text; empty where it is not given, or is none."""
        tree = self.take(key)
        if tree is None:
            if required:
                self.missing(key)
            return ""
        return read_text(self.findings, tree)

    def whole(self, key: str, *, least: int = 1, required: bool = False) -> int | None:
        tree = self.take(key)
        if tree is None:
            if required:
                self.missing(key)
            return None
        return read_whole(self.findings, tree, least=least)

    def switch(self, key: str) -> bool | None:
        tree = self.take(key)
        if tree is None:
            return None
        if isinstance(tree.scalar, bool):
            return tree.scalar
        self.findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected true or false")
        return None

    def missing(self, key: str) -> None:
        name = f"{self.path}.{key}" if self.path else key
        self.findings.problem(MISSING, self.where, f"'{name}' is missing")

    def finish(self, carried: Mapping[str, str] | None = None, known: Iterable[str] = ()) -> None:
        """Carry the keys left over that are known, with the reason why; complain of the others."""
        carried = carried or {}
        for key, tree in self.rest.items():
            if key in carried:
                if not tree.is_null:
                    self.findings.carry(tree, carried[key])
            else:
                near = near_match(key, {*self._taken, *carried, *known} - {key})
                self.findings.problem(UNKNOWN_KEY, tree.key, f"'{tree.path}' is no key of an srt-slurm recipe", near)
        self.rest = {}


def read_text(findings: Findings, tree: Tree) -> str:
    """Return a text, or complain and return an empty one."""
    if tree.text is not None:
        return tree.text
    findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected text" + (", in quotes" if _is_scalar(tree) else ""))
    return ""


def read_whole(findings: Findings, tree: Tree, *, least: int) -> int | None:
    """Return a whole number, also one written as a text; complain of anything else."""
    value: Scalar = tree.scalar
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) < 19:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a whole number")
        return None
    if value < least:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {value}; expected {least} or more")
        return None
    return value


def read_number(findings: Findings, tree: Tree) -> float | None:
    """Return a number, whole or not, also one written as a text; complain of anything else."""
    value: Scalar = tree.scalar
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a number")
        return None
    return value


def _is_scalar(tree: Tree) -> bool:
    return tree.entries is None and tree.items is None and tree.scalar is not None
