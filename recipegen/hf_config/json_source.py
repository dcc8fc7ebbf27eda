"""JSON, read with a place in the file for every value.

The YAML reader does not take it: `1e-06`, which nearly every `config.json` holds, is text to some YAML readers.
"""

from __future__ import annotations

import json
import re
from itertools import accumulate

from recipegen.document import Document, Node, Text
from recipegen.errors import InputError, Problem, Source
from recipegen.yamlscalars import quote

MAX_BYTES = 4 << 20
MAX_CHECKPOINT_BYTES = 1 << 50
_MAX_DEPTH = 64
_MAX_DIGITS = 18

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def parse_json(raw: bytes, file: str) -> Document:
    """Return a JSON object with the places of its values, or raise InputError with every problem.

    `Infinity` and `NaN` are numbers, as Python's and transformers' writers have them; an integer beyond 18 digits is a problem.
    """
    text = _decode(raw, file)
    _load(text, file)
    starts = tuple(accumulate((len(line) + 1 for line in text.split("\n")[:-1]), initial=0))
    builder = _Builder(Text(file, text, starts))
    for found in _TOKEN.finditer(text):
        builder.feed(found.group(), found.start())
    if builder.problems:
        raise InputError(builder.problems)
    root = builder.root
    if not isinstance(root.data, dict):
        what = "a list" if isinstance(root.data, list) else "a single value"
        raise InputError([Problem(builder.text.at(root.start), f"the file holds {what}; expected an object with the keys of a config.json")])
    return Document(file, root.data, builder.text, root)


def read_total_size(raw: bytes, file: str) -> int:
    """Return `metadata.total_size` of a `model.safetensors.index.json`, bytes of all tensors, or raise InputError."""
    index = _load(raw.decode("utf-8", "replace"), file)
    metadata = index.get("metadata") if isinstance(index, dict) else None
    found = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    if isinstance(found, str) and found.isdecimal() and found.isascii():
        found = int(found) if len(found) <= _MAX_DIGITS else MAX_CHECKPOINT_BYTES + 1
    if not isinstance(found, int) or isinstance(found, bool):
        raise InputError([Problem(Source(file), "metadata.total_size is no number of bytes; expected an index as safetensors writes it")])
    if not 0 < found <= MAX_CHECKPOINT_BYTES:
        raise InputError([Problem(Source(file), f"metadata.total_size: expected bytes from 1 to {MAX_CHECKPOINT_BYTES}")])
    return found


def _decode(raw: bytes, file: str) -> str:
    if len(raw) > MAX_BYTES:
        raise InputError([Problem(Source(file), f"the file is larger than {MAX_BYTES} bytes; a config.json is smaller")])
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError([Problem(Source(file), f"byte 0x{raw[error.start]:02x} is not UTF-8; expected UTF-8 text")]) from None


def _load(text: str, file: str) -> object:
    """Integers stay text here: `int` refuses very long ones with an error that has no place."""
    try:
        return json.loads(text, parse_int=str)
    except json.JSONDecodeError as error:
        place = Source(file, error.lineno, error.colno)
        raise InputError([Problem(place, f"the file is not JSON: {error.msg[:1].lower()}{error.msg[1:]}")]) from None
    except RecursionError:
        raise InputError([Problem(Source(file), f"values nest more than {_MAX_DEPTH} deep; expected less")]) from None


class _Builder:
    """Puts the tokens of JSON that is known to be valid together to a tree of nodes."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.root = Node(0)
        self.problems: list[Problem] = []
        self._stack: list[Node] = []
        self._keys: list[tuple[int, str] | None] = []

    def feed(self, piece: str, start: int) -> None:
        if piece in ",:":
            return
        if piece in "]}":
            node = self._stack.pop()
            self._keys.pop()
            self._attach(node)
        elif piece in "[{":
            if len(self._stack) >= _MAX_DEPTH:
                raise InputError([Problem(self.text.at(start), f"values nest more than {_MAX_DEPTH} deep; expected less")])
            self._stack.append(Node(start, [] if piece == "[" else {}))
            self._keys.append(None)
        elif self._stack and isinstance(self._stack[-1].data, dict) and self._keys[-1] is None:
            self._keys[-1] = (start, json.loads(piece))
        else:
            self._attach(Node(start, self._scalar(piece, start)))

    def _scalar(self, piece: str, start: int) -> object:
        if piece.lstrip("-").isdecimal() and len(piece.lstrip("-")) > _MAX_DIGITS:
            self.problems.append(Problem(self.text.at(start), f"{quote(piece)} has more than {_MAX_DIGITS} digits; expected a smaller number"))
            return 0
        value: object = json.loads(piece)
        return value

    def _attach(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        parent = self._stack[-1]
        if isinstance(parent.data, list):
            parent.steps[len(parent.data)] = (node.start, node.start, node)
            parent.data.append(node.data)
        elif isinstance(parent.data, dict) and (entry := self._keys[-1]) is not None:
            key_start, key = entry
            self._keys[-1] = None
            if key in parent.steps:
                self.problems.append(Problem(self.text.at(key_start), f"duplicate key {quote(key)}; expected once"))
            parent.steps[key] = (key_start, node.start, node)
            parent.data[key] = node.data
