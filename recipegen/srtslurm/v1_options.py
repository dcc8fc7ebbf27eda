"""Options of another program by their names, as srt-slurm has them: of Slurm, of the front end."""

from __future__ import annotations

from dataclasses import replace

from recipegen.srtslurm.reading import WRONG_TYPE, Findings
from recipegen.srtslurm.recipe import Comment, Entry
from recipegen.srtslurm.tree import Tree


def read_arguments(findings: Findings, tree: Tree | None) -> tuple[Entry, ...]:
    """Arguments of the front end by name: `true` is the bare one, and one that is false or null is none, as srtctl passes them."""
    found = []
    for entry in read_options(findings, tree):
        one = (tree.entries or {})[entry.name] if tree is not None else None
        if one is not None and one.is_null:
            findings.note(one.key, f"'{entry.name}' is left out: srtctl passes no argument that is false or null")
        elif one is not None and one.scalar == "":
            findings.problem(WRONG_TYPE, one.source, f"'{one.path}' is the text ''; expected a value, or true")
        else:
            found.append(replace(entry, name=entry.name.replace("_", "-")))
    return tuple(found)


def read_options(findings: Findings, tree: Tree | None) -> tuple[Entry, ...]:
    """Options of Slurm by name: `true`, or nothing, is the bare option; false takes it away."""
    if tree is None:
        return ()
    if tree.entries is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a mapping")
        return ()
    found = []
    for name, one in tree.entries.items():
        if one.entries is not None or one.items is not None:
            findings.problem(WRONG_TYPE, one.source, f"'{one.path}' is {one.kind}; expected text, a number or true")
        elif one.scalar is not False:
            value = True if one.scalar is None or one.scalar == "" else one.scalar
            found.append(Entry(name=name, value=value, source=one.key, comment=Comment(one.above, one.behind)))
    return tuple(found)
