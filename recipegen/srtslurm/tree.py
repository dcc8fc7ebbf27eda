"""A recipe's YAML as a tree in which every value knows its place, its path and its comments, also after merges and sweeps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from recipegen.document import Document, Node
from recipegen.errors import NOWHERE, Source
from recipegen.srtslurm.comments import comment_behind, comment_lines, comment_of, read_remarks
from recipegen.srtslurm.recipe import Remark
from recipegen.yamlsource import MERGE

Scalar = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A value: `entries` of a mapping, `items` of a list, or the scalar itself.

    `path` is how messages call it (`resources.prefill_nodes`), `above` and `behind` are the comments at its key, without '#'. `filled` is
    the text of a sweep's value that took the place of a text. `remarks` are all comments of the file: a document has them, and the
    `base` of its variants.
    """

    entries: dict[str, Tree] | None = None
    items: tuple[Tree, ...] | None = None
    scalar: Scalar = None
    source: Source = NOWHERE
    key: Source = NOWHERE
    path: str = ""
    above: tuple[str, ...] = field(default=(), compare=False)
    behind: str = field(default="", compare=False)
    filled: str | None = field(default=None, compare=False)
    remarks: tuple[Remark, ...] = field(default=(), compare=False)

    @property
    def is_null(self) -> bool:
        return self.entries is None and self.items is None and self.scalar is None

    @property
    def text(self) -> str | None:
        """The value where a text belongs: a text, or what a sweep filled in; None for anything else."""
        return self.scalar if isinstance(self.scalar, str) else self.filled

    @property
    def kind(self) -> str:
        """What stands there, in words."""
        if self.entries is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        if self.scalar is None:
            return "nothing"
        if isinstance(self.scalar, bool):
            return f"{json.dumps(self.scalar)}"
        return f"the text {self.scalar[:60]!r}" if isinstance(self.scalar, str) else f"the number {self.scalar}"


def plant(document: Document) -> Tree:
    """Return the tree of a parsed file."""
    lines = comment_lines(document)
    tree = _plant(document.root, document, lines, Tree(source=document.source(), key=document.source()))
    remarks, entries = read_remarks(document), dict(tree.entries or {})
    if "base" in entries:
        entries["base"] = replace(entries["base"], remarks=remarks)
    return replace(tree, entries=entries, remarks=remarks)


def plain(tree: Tree) -> object:
    """Return the value as dicts, lists and scalars."""
    if tree.entries is not None:
        return {name: plain(entry) for name, entry in tree.entries.items()}
    if tree.items is not None:
        return [plain(item) for item in tree.items]
    return tree.scalar


def head_comment(document: Document) -> tuple[str, ...]:
    """Return the comment lines before the first key, without '#'."""
    lines = comment_lines(document)[: max(document.source().line - 1, 0)]
    return tuple(text for line in lines if (text := comment_of(line)) is not None)


def _plant(node: Node, document: Document, lines: list[str], here: Tree) -> Tree:
    given = {"source": here.source, "key": here.key, "path": here.path, "above": here.above, "behind": here.behind}
    if isinstance(node.data, dict):
        return Tree(entries=dict(_entries(node, document, lines, here.path)), **given)  # type: ignore[arg-type]
    if isinstance(node.data, list):
        return Tree(items=tuple(tree for _, tree in _entries(node, document, lines, here.path)), **given)  # type: ignore[arg-type]
    return Tree(scalar=node.data, **given)  # type: ignore[arg-type]


def _entries(node: Node, document: Document, lines: list[str], path: str) -> Iterator[tuple[str, Tree]]:
    first = document.source().line
    for step, (key_start, value_start, inner) in _steps(node).items():
        key, value = document.text.at(key_start), document.text.at(value_start)
        above, behind = _comments(lines, key) if isinstance(step, str) and key.line > first else ((), "")
        name = f"{path}[{step}]" if isinstance(step, int) else f"{path}.{step}" if path else step
        yield str(step), _plant(inner, document, lines, Tree(source=value, key=key, path=name, above=above, behind=behind))


def _steps(node: Node) -> Mapping[str | int, tuple[int, int, Node]]:
    """The steps from a node. What a merge key brings stands first and gives way to the mapping's own keys; of several, to the first."""
    merge = node.steps.get(MERGE)
    if merge is None:
        return node.steps
    value = merge[2]
    sources = [inner for _, _, inner in value.steps.values()] if isinstance(value.data, list) else [value]
    if not all(isinstance(one.data, dict) for one in sources):
        return {"<<" if step == MERGE else step: place for step, place in node.steps.items()}  # told as a key that there is not
    brought: dict[str | int, tuple[int, int, Node]] = {}
    for one in reversed(sources):
        brought |= _steps(one)
    return {**brought, **{step: place for step, place in node.steps.items() if step != MERGE}}


def _comments(lines: list[str], key: Source) -> tuple[tuple[str, ...], str]:
    """The comment lines right above a key that begins its line, and the comment behind it."""
    line = lines[key.line - 1]
    if line[: key.column - 1].strip():
        return (), ""
    above: list[str] = []
    for before in reversed(lines[: key.line - 1]):
        if (text := comment_of(before)) is None:
            break
        above.insert(0, text)
    return tuple(above), comment_behind(line)
