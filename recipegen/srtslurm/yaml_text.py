"""Matrix text: values as strict YAML on one line, keys with their comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from recipegen.errors import NOWHERE, Source
from recipegen.srtslurm.recipe import NO_COMMENT, Comment
from recipegen.yamlscalars import UnreadableScalarError, read_scalar

MAX_WIDTH = 150
_PLAIN = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./+@=-]|:(?=[A-Za-z0-9_/]))*(?: [A-Za-z0-9_./+*()@=-]+)*")
"""Text that needs no quotes in any YAML, in block and flow: a ':' only between letters or digits, no ',', no indicator in front."""

_SINGLE = re.compile(r"(?=.*\")[ -&(-~]+")
"""Text with double quotes, as JSON has them, that stands in single ones as it is."""

_KEY = re.compile(r"\b([a-z_]+):")
_ELSEWHERE = re.compile(
    r"""y|n|yes|no|on|off|true|false|null
    |\d{4}-\d\d?-\d\d?(?:(?:t|[ ]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ ]*(?:z|[-+]\d\d?(?::?\d\d)?))?)?
    |[\d_]+(?::[\d_]+)+(?:\.[\d_]*)?
    |0b[01_]+|0o?[0-7_]+|0x[\da-f_]+
    |[\d_]*\.?[\d_]*(?:e[-+]?\d+)?|\.inf|\.nan""",
    re.VERBOSE | re.IGNORECASE,
)
"""Text that some reader of YAML 1.1 takes for a switch, nothing, a date, a time or a number: the types of yaml.org, and more."""


@dataclass(frozen=True)
class Flow:
    """A value to be written on one line: scalars, lists and mappings."""

    value: object


@dataclass(frozen=True, kw_only=True)
class Key:
    """A key of a block: its value on the line, or keys below it, or items of a list below it."""

    name: str
    value: Flow | tuple[Key, ...] | tuple[Item, ...]
    comment: Comment = NO_COMMENT
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Item:
    """An entry of a list: one line, or keys when that would be too long. `places` are those of its keys, where they have their own."""

    value: dict[str, object]
    behind: str = ""
    source: Source = NOWHERE
    places: Mapping[str, Source] = field(default_factory=dict)


class Line(NamedTuple):
    """A line, where it comes from (NOWHERE: from no single place), and where the keys on it do, as far as they differ."""

    text: str
    source: Source
    places: Mapping[str, Source] = {}


@dataclass(frozen=True)
class MatrixText:
    """The text, and for each line of it the place in a recipe where it comes from."""

    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)

    def origin(self, line: int, column: int = 0) -> Source:
        """The place behind a line and a column, counted from 1; that of the nearest line above which has one."""
        above = self.lines[: max(line, 0)]
        if above and above[-1].places:
            keys = [key for key in _KEY.finditer(above[-1].text) if key.start() < column and key[1] in above[-1].places]
            if keys:
                return above[-1].places[keys[-1][1]]
        return next((one.source for one in reversed(above) if one.source.file), NOWHERE)


def block(keys: Iterable[Key], *, head: Iterable[str] = ()) -> MatrixText:
    """Return the text of a file: comment lines, then keys; an empty line around those with keys of their own."""
    lines = [Line(_comment_line(text), NOWHERE) for text in head]
    wide = False
    for number, key in enumerate(keys):
        nested = not isinstance(key.value, Flow)
        if lines and number and (nested or wide):
            lines.append(Line("", NOWHERE))
        lines += _key_lines(key, 0)
        wide = nested
    return MatrixText(tuple(lines))


def flow(value: object) -> str:
    """Return a value on one line: JSON values and tuples, as strict YAML reads them back."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(str(name))}: {flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def scalar(value: object) -> str:
    """Return a scalar so that strict YAML reads the same value back: text is quoted where it could be mistaken."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    return _text(str(value))


def _text(text: str) -> str:
    if _PLAIN.fullmatch(text) and not _ELSEWHERE.fullmatch(text):
        try:
            if read_scalar(text, plain=True, tag=None) == text:
                return text
        except UnreadableScalarError:
            pass
    return f"'{text}'" if _SINGLE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _float(value: float) -> str:
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    sign = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{sign}"


def _key_lines(key: Key, depth: int) -> Iterator[Line]:
    indent = "  " * depth
    for text in key.comment.above:
        yield Line(f"{indent}{_comment_line(text)}", NOWHERE)
    behind = f" # {one_line(key.comment.behind)}" if key.comment.behind else ""
    if isinstance(key.value, Flow):
        yield Line(f"{indent}{scalar(key.name)}: {flow(key.value.value)}{behind}", key.source)
        return
    yield Line(f"{indent}{scalar(key.name)}:{behind}", key.source)
    for one in key.value:
        yield from _item_lines(one, depth + 1) if isinstance(one, Item) else _key_lines(one, depth + 1)


def _item_lines(item: Item, depth: int) -> Iterator[Line]:
    indent = "  " * depth
    behind = f" # {one_line(item.behind)}" if item.behind else ""
    line = f"{indent}- {flow(item.value)}"
    if len(line) <= MAX_WIDTH:
        yield Line(f"{line}{behind}", item.source, item.places)
        return
    for number, (name, value) in enumerate(item.value.items()):
        lead = f"{indent}{'  ' if number else '- '}"
        comment = behind if number == 0 else ""
        source = item.places.get(name, item.source)
        if isinstance(value, dict) and len(f"{lead}{name}: {flow(value)}") > MAX_WIDTH:
            yield Line(f"{lead}{scalar(name)}:{comment}", source)
            for inner, one in value.items():
                yield from _long_lines(inner, one, depth + 2, source)
        else:
            yield Line(f"{lead}{scalar(name)}: {flow(value)}{comment}", source)


def _long_lines(name: str, value: object, depth: int, source: Source) -> Iterator[Line]:
    indent = "  " * depth
    if isinstance(value, dict) and len(f"{indent}{name}: {flow(value)}") > MAX_WIDTH:
        yield Line(f"{indent}{scalar(name)}:", source)
        for inner, one in value.items():
            yield from _long_lines(inner, one, depth + 1, source)
    else:
        yield Line(f"{indent}{scalar(name)}: {flow(value)}", source)


def _comment_line(text: str) -> str:
    return f"# {one_line(text)}" if text else "#"


def one_line(text: str) -> str:
    """Return a comment's text, such as a file's name, with what would end the comment or cannot be written escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
