"""A parsed file: plain data with a place for every value of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from recipegen.errors import Problem, Source

MAX_PROBLEMS = 100
"""Problems of a document that are told in one go; the rest is counted."""


def more_problems(count: int, source: Source) -> Problem:
    """Stand for the problems that are only counted; `source` is the place of the first."""
    return Problem(source, f"{count} more problems from here on", rule="more-problems")


@dataclass(frozen=True)
class Text:
    """A file's text as the parser sees it, and where its lines begin."""

    file: str
    text: str
    starts: tuple[int, ...]

    def at(self, index: int) -> Source:
        line = bisect_right(self.starts, index)
        return Source(self.file, line, index - self.starts[line - 1] + 1)


@dataclass(slots=True)
class Node:
    """A value: where it begins, how much it holds, and by step the places of key and value and the node below."""

    start: int
    data: object = None
    size: int = 1
    height: int = 0
    steps: dict[str | int, tuple[int, int, Node]] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A parsed file: `data` is dicts, lists and scalars, to be read only, for aliases share what they repeat."""

    file: str
    data: object
    text: Text = field(repr=False, compare=False)
    root: Node = field(repr=False, compare=False)

    def source(self, *path: str | int) -> Source:
        """Return the place of the value at `path`, or of its nearest ancestor that is there; an alias has its own place."""
        return self.text.at(self._find(path)[1])

    def key_source(self, *path: str | int) -> Source:
        """Return the place of the key that `path` ends with; as `source` where there is no such key."""
        return self.text.at(self._find(path)[0])

    def places(self, *path: str | int) -> Iterator[tuple[tuple[str | int, ...], Source, Source]]:
        """Yield what stands below `path`, by the steps from there: the place of its key (of a list's entry: its own) and of its value."""
        node = self.root
        for step in path:
            if step not in node.steps:
                return
            node = node.steps[step][2]
        yield from self._below(node, ())

    def _below(self, node: Node, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Source, Source]]:
        for step, (key, value, inner) in node.steps.items():
            yield (*path, step), self.text.at(key), self.text.at(value)
            yield from self._below(inner, (*path, step))

    def _find(self, path: tuple[str | int, ...]) -> tuple[int, int]:
        key, value, node = self.root.start, self.root.start, self.root
        for step in path:
            if step not in node.steps:
                return value, value
            key, value, node = node.steps[step]
        return key, value
