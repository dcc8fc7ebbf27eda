"""Strict YAML, read with a place in the file for every value.

What else YAML offers and a recipe does not need is an error: tags, merge keys, directives, further documents, keys that are not
text. Anchors stay, within bounds. `yamlsyntax` gives the events of PyYAML's parser, and they are put together here without recursion,
so that neither depth nor aliases can exhaust anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import NoReturn

import yaml

from recipegen.document import MAX_PROBLEMS, Document, Node, Text, more_problems
from recipegen.errors import InputError, Problem, Source, near_match
from recipegen.schema_errors import validate
from recipegen.yamlscalars import CORE, FORBIDDEN, UnreadableScalarError, forbidden_message, quote, read_scalar, tag_message
from recipegen.yamlsyntax import StopError, events, python_events

__all__ = ["Document", "parse_yaml", "validate"]

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
MERGE = "\0<<"
"""The key of what a plain `<<` brings, where that is to be followed; no text of a file is equal to it, a quoted '<<' least of all."""
MAX_ALIASED = 10_000
"""Values that aliases may add in all, each counted with everything below it."""

_PYTHON_ONLY = re.compile(r"[\t!?]|[|>][-+0-9]*#|\\[uU]|^%", re.MULTILINE)
"""Where libyaml and PyYAML itself may disagree (tabs, tags, `?`, `|#`, escapes, directives): such text is left to the latter."""


def parse_yaml(text: str | bytes, file: str, *, libyaml: bool = True, merges: bool = False) -> Document:
    """Return the one document in `text`, whose top level is a mapping, or raise InputError with every problem.

    A syntax error ends the search; it comes with what was found before it. `libyaml=False` does without the fast parser, as
    where libyaml is missing; the outcome is the same. With `merges`, merge keys are kept as MERGE, for the caller to follow.
    """
    clean = _clean(_decode(text, file), file)
    fast = getattr(yaml, "CSafeLoader", None) if libyaml and not _PYTHON_ONLY.search(clean.text) else None
    if fast is not None:
        with suppress(yaml.YAMLError):  # the parser in Python has the last word on syntax: its marks are the better ones
            return _compose(clean, lambda readable: events(fast(readable)), merges=merges)
    return _compose(clean, python_events, merges=merges)


def _compose(clean: Text, parse: Callable[[str], Iterator[yaml.Event]], *, merges: bool) -> Document:
    report = _Report(clean)
    composer = _Composer(report, merges=merges)
    try:
        for event in parse(report.text.text):
            composer.feed(event)
        composer.finish()
    except StopError as stop:
        report.add(stop.index, stop.message, stop.hint, rule=stop.rule)
    if report.found or composer.root is None:
        report.refuse()
    return Document(clean.file, composer.root.data, report.text, composer.root)


class _Report:
    """What is wrong with a text: index into it, message, hint, rule."""

    def __init__(self, raw: Text) -> None:
        self.found = [(m.start(), forbidden_message(m.group()), "", "text-control") for m in FORBIDDEN.finditer(raw.text)]
        self.text = Text(raw.file, FORBIDDEN.sub("\ufffd", raw.text), raw.starts)

    def add(self, index: int, message: str, hint: str = "", *, rule: str) -> None:
        self.found.append((index, message, hint, rule))

    def refuse(self) -> NoReturn:
        found = sorted(self.found)
        problems = [Problem(self.text.at(index), message, hint, rule) for index, message, hint, rule in found[:MAX_PROBLEMS]]
        if rest := found[MAX_PROBLEMS:]:
            problems.append(more_problems(len(rest), self.text.at(rest[0][0])))
        raise InputError(problems)


# -- from bytes to characters ------------------------------------------------------------------------------------------


def _decode(raw: str | bytes, file: str) -> str:
    if len(raw) > MAX_BYTES or (isinstance(raw, str) and len(raw.encode("utf-8", "surrogatepass")) > MAX_BYTES):
        raise InputError([Problem(Source(file), f"the file is larger than {MAX_BYTES} bytes; expected less", rule="text-size")])
    if isinstance(raw, str):
        return raw
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8").removeprefix("\ufeff")
        place = Source(file, before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8; expected UTF-8 text"
        raise InputError([Problem(place, message, rule="text-encoding")]) from None


def _clean(text: str, file: str) -> Text:
    """Leave the byte order mark, and the CR of CR LF, behind."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    return Text(file, text, tuple(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0)))


# -- composition -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Frame:
    """An open list or mapping; in a mapping `key` waits for its value."""

    node: Node
    anchor: str | None
    key: tuple[int, Node] | None = None


class _Composer:
    """Puts events together to one tree of nodes and notes what is wrong with it."""

    def __init__(self, report: _Report, *, merges: bool) -> None:
        self.root: Node | None = None
        self._report, self._merges = report, merges
        self._stack: list[_Frame] = []
        self._anchors: dict[str, Node | None] = {}
        self._aliased = 0
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        start = event.start_mark.index if event.start_mark else 0
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, start)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event, start)
        elif isinstance(event, yaml.CollectionEndEvent):
            frame = self._stack.pop()
            if frame.anchor is not None:
                self._anchors[frame.anchor] = frame.node
            self._attach(frame.node, frame.node.start)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), start)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise StopError(start, "a second document begins here; expected one document in the file", rule="yaml-document")
            if event.version or event.tags:
                self._report.add(start, "a directive; expected none, the file is read as YAML 1.2", rule="yaml-document")

    def finish(self) -> None:
        """Judge the top level, once all events are in."""
        if self.root is None or (self.root.data is None and self.root.size == 1):
            self._report.add(self.root.start if self.root else 0, "nothing is here; expected a mapping, 'key: value'", rule="yaml-mapping")
        elif not isinstance(self.root.data, dict):
            found = "a list" if isinstance(self.root.data, list) else "a single value"
            self._report.add(self.root.start, f"the file holds {found}; expected a mapping, 'key: value', at its top level", rule="yaml-mapping")

    def _scalar(self, event: yaml.ScalarEvent, start: int) -> None:
        if not event.value and not event.style and self._stack and self._stack[-1].key:
            start = self._stack[-1].key[0]  # where nothing stands, its key is the place
        node = Node(start, event.value)
        try:
            node.data = read_scalar(event.value, plain=not event.style, tag=event.tag)
        except UnreadableScalarError as error:
            self._report.add(start, str(error), rule=error.rule)
        if event.value == "<<" and not event.style and self._expects_key():
            self._merge_key(node, start)
        self._anchor(event.anchor, node, start)
        self._attach(node, start)

    def _merge_key(self, node: Node, start: int) -> None:
        if self._merges:
            node.data = MERGE
        else:
            self._report.add(start, "merge key '<<' is not allowed; expected the merged keys written out", rule="yaml-merge")

    def _open(self, event: yaml.CollectionStartEvent, start: int) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise StopError(start, f"nested more than {MAX_DEPTH} deep; expected less", rule="yaml-depth")
        is_list = isinstance(event, yaml.SequenceStartEvent)
        if event.tag not in (None, CORE + ("seq" if is_list else "map")):
            self._report.add(start, tag_message(str(event.tag), "a list" if is_list else "a mapping"), rule="yaml-tag")
        self._anchor(event.anchor, None, start)
        self._stack.append(_Frame(Node(start, [] if is_list else {}, height=1), event.anchor))

    def _anchor(self, name: str | None, node: Node | None, start: int) -> None:
        if name is None:
            return
        if name in self._anchors:
            self._report.add(start, f"anchor {quote('&' + name)} is already taken; expected a name of its own", rule="yaml-alias")
        self._anchors[name] = node

    def _alias(self, name: str, start: int) -> None:
        node = self._anchors.get(name)
        if node is None:
            inside = name in self._anchors
            what = "stands within the value that it repeats" if inside else "has no anchor; expected one before it"
            self._report.add(start, f"alias {quote('*' + name)} {what}", "" if inside else self._near_anchor(name), rule="yaml-alias")
            node = Node(start, "")
        self._aliased += node.size
        if self._aliased > MAX_ALIASED:
            raise StopError(start, f"aliases repeat more than {MAX_ALIASED} values; expected fewer", rule="yaml-alias")
        if len(self._stack) + node.height > MAX_DEPTH:
            raise StopError(start, f"alias {quote('*' + name)} nests more than {MAX_DEPTH} deep; expected less", rule="yaml-depth")
        self._attach(node, start)

    def _near_anchor(self, name: str) -> str:
        """Look for a near match, where the search is short."""
        if max(len(name), len(self._anchors), len(self._report.found)) > MAX_PROBLEMS:
            return ""
        return near_match(name, (anchor for anchor in self._anchors if len(anchor) <= MAX_PROBLEMS))

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].node.data, dict) and self._stack[-1].key is None

    def _attach(self, node: Node, start: int) -> None:
        if not self._stack:
            self.root = node
            return
        frame = self._stack[-1]
        parent = frame.node
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if isinstance(parent.data, list):
            parent.steps[len(parent.data)] = (start, start, node)
            parent.data.append(node.data)
        elif frame.key is None:
            self._check_key(node, start, parent)
            frame.key = (start, node)
        elif isinstance(parent.data, dict):
            key_start, key = frame.key
            frame.key = None
            if isinstance(key.data, str) and key.data not in parent.steps:
                parent.steps[key.data] = (key_start, start, node)
                parent.data[key.data] = node.data

    def _check_key(self, node: Node, start: int, mapping: Node) -> None:
        if isinstance(node.data, (dict, list)):
            self._report.add(start, f"a key is a {'list' if isinstance(node.data, list) else 'mapping'}; expected text", rule="yaml-key")
        elif node.data is None:
            self._report.add(start, "a key is nothing or null; expected text, in quotes if it looks like null", rule="yaml-key")
        elif not isinstance(node.data, str):
            kind = "true or false" if isinstance(node.data, bool) else "a number"
            self._report.add(start, f"a key is {kind}; expected text, in quotes if it looks like {kind}", rule="yaml-key")
        elif node.data in mapping.steps:
            first = self._report.text.at(mapping.steps[node.data][0])
            name = quote(node.data.lstrip(MERGE[0]))
            self._report.add(start, f"duplicate key {name}; first on line {first.line}, expected once", rule="yaml-duplicate")
