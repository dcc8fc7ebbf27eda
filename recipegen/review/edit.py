"""Sets values in a YAML file by replacing their bytes: comments, order, quotes and alignment of all else stay as they are.

Nothing is dumped anew. The place of a value is cut out and the new text put in; the result is parsed again and has to be the old
document but for that value, else the next way of writing it is tried, and at last the edit is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from recipegen.errors import InputError, Problem, Source, near_match
from recipegen.review.edit_path import Assignment, Path, dotted, parse_assignment
from recipegen.yamlsource import Document, parse_yaml

_PROPERTIES = re.compile(r"(?:[&!][^\s,\[\]{}]*\s+)*")
"""Anchor and tag in front of a value: they stay."""
_ALIAS = re.compile(r"\*[^\s,\[\]{}]+")
_ADD = "--add adds a key that is not there"


@dataclass(frozen=True, kw_only=True)
class Change:
    """A value that was set: its path, its place in the new file, its text before (None: it was not there) and after."""

    path: str
    source: Source
    before: str | None
    after: str


@dataclass(frozen=True)
class Edited:
    """A file's new bytes, and what changed in them."""

    text: bytes
    changes: tuple[Change, ...]


def set_values(text: bytes, file: str, assignments: Sequence[str], *, add: bool = False) -> Edited:
    """Set each `PATH=VALUE` in a YAML file, all or none. Of a matrix, a point may be named: `points[1xtp8-1xtp8-cc4]`.

    A value is typed as YAML; text that YAML readers do not agree on (`1:30:00`) is text where text stood. With `add` a key that is
    not there is added at the end of its mapping. InputError tells what cannot be set, with near matches of unknown keys; whether
    the result has a meaning is not looked at.
    """
    wanted = [parse_assignment(assignment) for assignment in assignments]
    names = _point_names(text, file) if any(one.named for one in wanted) else ()
    paths = [one.path(names) for one in wanted]
    if again := next((one for one, path in zip(wanted, paths, strict=True) if paths.count(path) > 1), None):
        raise InputError(f"{again.written} is set twice")
    parse_yaml(text, file)
    mark = "\ufeff" if text.startswith(b"\xef\xbb\xbf") else ""
    source, changes = text.decode().removeprefix(mark), []
    for one, path in zip(wanted, paths, strict=True):
        source, before, after = _Sheet(source, file).set(one, path, add=add)
        changes.append((path, before, after))
    places = parse_yaml(source, file)  # once all are set: a later one may move an earlier
    found = tuple(Change(path=dotted(path), source=places.source(*path), before=before, after=after) for path, before, after in changes)
    return Edited((mark + source).encode(), found)


def _point_names(text: bytes, file: str) -> tuple[str, ...]:
    from recipegen.matrix import parse_matrix

    return tuple(point.name for point in parse_matrix(text, file).points)


class _Sheet:
    """A file's text, and where in it the values stand."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.document: Document = parse_yaml(text, file)
        self.root = _compose(text)
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def set(self, wanted: Assignment, path: Path, *, add: bool) -> tuple[str, str | None, str]:
        """Return the text with one value set, and what stood and now stands there. InputError when it cannot be."""
        old, present = self._look_up(path)
        if not present and not add:
            raise self._missing(path, old)
        value = _Value(wanted, old if present else None)
        expected = _with(self.document.data, path, value.data)
        edits = self._replacements(path, value) if present else self._insertions(path, value)
        for start, end, new, shown in edits:
            text = self.text[:start] + new + self.text[end:]
            if _reads_as(text, self.file, expected):
                return text, self.text[start:end] if present else None, shown
        raise self._problem(path, f"{dotted(path)} cannot be set alone", "an alias repeats it, or it is written in a way that is not understood here")

    # -- where things stand --------------------------------------------------------------------------------------------

    def _look_up(self, path: Path) -> tuple[Any, bool]:
        """Return the value at a path and true, or the mapping that the last key is to be added to and false."""
        data: Any = self.document.data
        for depth, step in enumerate(path):
            known = isinstance(data, dict) and step in data if isinstance(step, str) else isinstance(data, list) and 0 <= step < len(data)
            if known:
                data = data[step]
            elif isinstance(step, str) and isinstance(data, dict) and depth == len(path) - 1:
                return data, False
            else:
                raise self._missing(path[: depth + 1], data, path[depth + 1 :])
        return data, True

    def _missing(self, path: Path, data: Any, below: Path = ()) -> InputError:  # noqa: ANN401 - whatever YAML holds
        *parent, step = path
        where = dotted(parent) or "the file"
        if isinstance(step, int):
            what = f"{where} has {len(data)} entries, counted from 0" if isinstance(data, list) else f"{where} is no list"
            return self._problem(parent, f"{what}: there is no [{step}]")
        if not isinstance(data, dict):
            what = "a list" if isinstance(data, list) else "nothing" if data is None else "a single value"
            hint = f"{where}={{{step}: ...}} makes it a mapping" if data is None else ""
            return self._problem(parent, f"{where} is {what}: it has no key '{step}'", hint)
        if beside := self._beside(tuple(parent), step):
            return self._problem(parent, f"{where} has no key '{step}'", f"{beside} decides it: set that, or remove it first")
        longer = [key for key in data if key.startswith(f"{step}.")]
        hint = f"a key with dots is written {dotted((*parent, longer[0]))}" if longer else near_match(step, data)
        held = "[...]" if below and isinstance(below[0], int) else f"{{{below[0]}: ...}}" if below else ""
        added = f"--add adds the last key of a path only: {dotted((*parent, step))}={held} --add" if below else _ADD
        return self._problem(parent, f"{where} has no key '{step}'", f"{hint} {added}".strip())

    def _beside(self, parent: Path, step: str) -> str:
        """The same key under a mapping beside its own, as a flag is in `derive` that is looked for in `args`."""
        data: Any = self.document.data
        for one in parent[:-1]:
            data = data[one]
        if len(parent) < 2 or not isinstance(data, dict):
            return ""
        return next((dotted((*parent[:-1], name, step)) for name, value in data.items() if isinstance(value, dict) and step in value), "")

    def _problem(self, path: Sequence[str | int], message: str, hint: str = "") -> InputError:
        return InputError([Problem(self.document.source(*path), message, hint)])

    def _node(self, path: Path) -> yaml.Node:
        node = self.root
        for step in path:
            inner = {key.value: value for key, value in node.value} if isinstance(node, yaml.MappingNode) else node.value
            node = inner[step]
        return node

    def _span(self, path: Path) -> tuple[int, int]:
        """Where the text of a value begins and ends, without anchor and tag; of an alias, where the alias does."""
        node = self._node(path)
        start, end = node.start_mark.index, node.end_mark.index
        if start == end:
            return start, end
        place = self.document.source(*path)
        own = self.starts[place.line - 1] + place.column - 1
        if own != start:
            found = _ALIAS.match(self.text, own)
            return (own, found.end()) if found else (own, own)
        start = max(start, min(end, _matched_end(_PROPERTIES, self.text, start)))
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            end = start + len(self.text[start:end].rstrip())
        return start, end

    def _is_alias(self, path: Path) -> bool:
        start, end = self._span(path)
        return start < end and self.text[start] == "*"

    # -- what may be put where -----------------------------------------------------------------------------------------

    def _replacements(self, path: Path, value: _Value) -> Iterator[tuple[int, int, str, str]]:
        node = self._node(path)
        if isinstance(node, yaml.CollectionNode) and not node.flow_style and not self._is_alias(path):
            what = "list" if isinstance(node, yaml.SequenceNode) else "mapping"
            raise self._problem(path, f"{dotted(path)} is a {what} over several lines", "set what is in it, one by one")
        start, end = self._span(path)
        quotes = self.text[start : start + 1] if isinstance(node, yaml.ScalarNode) else ""
        for shown in value.spellings(quotes):
            yield start, end, shown, shown
            if start == end:  # nothing stands there: behind the ':', or in a flow mapping where there is none
                yield start, end, f" {shown}", shown
                yield start, end, f": {shown}", shown

    def _insertions(self, path: Path, value: _Value) -> Iterator[tuple[int, int, str, str]]:
        *parent, key = path
        node = self._node(tuple(parent))
        if self._is_alias(tuple(parent)) or not isinstance(node, yaml.CollectionNode):
            return
        names = (str(key), json.dumps(key, ensure_ascii=False))
        for shown in value.spellings(""):
            for name in names:
                at, before = self._room(node, tuple(parent))
                yield at, at, f"{before}{name}: {shown}", shown

    def _room(self, node: yaml.CollectionNode, path: Path) -> tuple[int, str]:
        """Where a further key of a mapping goes, and what has to stand before it."""
        if node.flow_style:
            if not node.value:
                return self._span(path)[0] + 1, ""
            return self._span((*path, node.value[-1][0].value))[1], ", "
        at = node.end_mark.index
        while (last := self.text[:at].rstrip().rpartition("\n"))[2].lstrip().startswith("#"):
            at = len(last[0])
        at = _matched_end(re.compile(r"[^\r\n]*"), self.text, len(self.text[:at].rstrip()))
        indent = " " * int(node.value[0][0].start_mark.column)
        return at, ("\r\n" if "\r\n" in self.text else "\n") + indent


class _Value:
    """The value of an assignment, and the ways in which it may be written."""

    def __init__(self, wanted: Assignment, old: object) -> None:
        self.text = wanted.value.strip()
        if not self.text or "\n" in self.text:
            what = "more than one line" if self.text else "no value"
            raise InputError(f"{wanted.written}: {what} to set", hint='null is nothing, "" an empty text')
        try:
            self.data = _read(self.text)
        except InputError as error:
            if not isinstance(old, str) or [problem.rule for problem in error.problems] != ["yaml-scalar"]:
                raise InputError(f"{wanted.written}: {'; '.join(p.message for p in error.problems)}") from None
            self.data = self.text

    def spellings(self, quotes: str) -> Iterator[str]:
        """Yield the value's text as it may stand in the file; a text first in the quotes that stood there."""
        if not isinstance(self.data, str):
            yield self.text
            return
        written = {"'": "'" + self.data.replace("'", "''") + "'", '"': json.dumps(self.data, ensure_ascii=False)}
        if quotes in written:
            yield written[quotes]
        yield self.data
        yield from (written['"'], json.dumps(self.data))


def _read(text: str) -> Any:  # noqa: ANN401 - whatever YAML holds
    """The one value that a text is, in YAML; comments and further keys are no part of a value."""
    line = f"v: {text}"
    document = parse_yaml(line, "value")
    node = _compose(line).value[0][1]
    if node.end_mark.index != len(line) or not isinstance(document.data, dict):
        raise InputError([Problem(Source("value"), f"expected a value and nothing else, found '{text}'")])
    return document.data["v"]


def _compose(text: str) -> yaml.Node:
    """The nodes of a text that `parse_yaml` takes, with the places where they end."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if node is None:
        raise TypeError("parse_yaml takes no text without a document")
    return node


def _matched_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _with(data: object, path: Path, value: object) -> str:
    """A document with a value set, as JSON; what aliases share is told apart."""
    copy = json.loads(json.dumps({"": data}))
    holder, step = copy, ""
    for below in path:
        holder, step = holder[step], below  # type: ignore[assignment]
    holder[step] = value
    return json.dumps(copy[""])


def _reads_as(text: str, file: str, expected: str) -> bool:
    try:
        return json.dumps(parse_yaml(text, file).data) == expected
    except InputError:
        return False
