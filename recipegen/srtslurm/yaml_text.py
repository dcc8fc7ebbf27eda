"""Matrix text: values as strict YAML on one line, keys with their comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recipegen.errors import NOWHERE, Source
from recipegen.srtslurm.recipe import NO_COMMENT, Comment
from recipegen.yamlscalars import UnreadableScalarError, read_scalar

MAX_WIDTH = 150
_PLAIN = re.compile(r"[A-Za-z0-9_./](?:[A-Za-z0-9_./+@=-]|:(?=[A-Za-z0-9_/]))*(?: [A-Za-z0-9_./+*()@=-]+)*")
"""Text that needs no quotes in any YAML, in block and flow: a ':' only between letters or digits, no ',', no indicator in front."""


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
    """An entry of a list: one line, or keys when that would be too long."""

    value: dict[str, object]
    behind: str = ""
    source: Source = NOWHERE


@dataclass(frozen=True)
class MatrixText:
    """The text, and for each line of it the place in a recipe where it comes from (NOWHERE: from no single one)."""

    lines: tuple[tuple[str, Source], ...]

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line, _ in self.lines)

    def origin(self, line: int) -> Source:
        """The place behind a line, counted from 1; that of the nearest line above which has one."""
        for _, source in reversed(self.lines[: max(line, 0)]):
            if source.file:
                return source
        return NOWHERE


def block(keys: Iterable[Key], *, head: Iterable[str] = ()) -> MatrixText:
    """Return the text of a file: comment lines, then keys; an empty line around those with keys of their own."""
    lines: list[tuple[str, Source]] = [(_comment_line(text), NOWHERE) for text in head]
    wide = False
    for number, key in enumerate(keys):
        nested = not isinstance(key.value, Flow)
        if lines and number and (nested or wide):
            lines.append(("", NOWHERE))
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
    if _PLAIN.fullmatch(text):
        try:
            if read_scalar(text, plain=True, tag=None) == text:
                return text
        except UnreadableScalarError:
            pass
    return json.dumps(text, ensure_ascii=False)


def _float(value: float) -> str:
    text = repr(value)
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    sign = exponent if exponent[0] in "+-" else f"+{exponent}"
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{sign}"


def _key_lines(key: Key, depth: int) -> Iterator[tuple[str, Source]]:
    indent = "  " * depth
    for text in key.comment.above:
        yield f"{indent}{_comment_line(text)}", NOWHERE
    behind = f" # {key.comment.behind}" if key.comment.behind else ""
    if isinstance(key.value, Flow):
        yield f"{indent}{scalar(key.name)}: {flow(key.value.value)}{behind}", key.source
        return
    yield f"{indent}{scalar(key.name)}:{behind}", key.source
    for one in key.value:
        yield from _item_lines(one, depth + 1) if isinstance(one, Item) else _key_lines(one, depth + 1)


def _item_lines(item: Item, depth: int) -> Iterator[tuple[str, Source]]:
    indent = "  " * depth
    behind = f" # {item.behind}" if item.behind else ""
    line = f"{indent}- {flow(item.value)}"
    if len(line) <= MAX_WIDTH:
        yield f"{line}{behind}", item.source
        return
    for number, (name, value) in enumerate(item.value.items()):
        lead = f"{indent}{'  ' if number else '- '}"
        comment = behind if number == 0 else ""
        if isinstance(value, dict) and len(f"{lead}{name}: {flow(value)}") > MAX_WIDTH:
            yield f"{lead}{scalar(name)}:{comment}", item.source
            for inner, one in value.items():
                yield from _long_lines(inner, one, depth + 2, item.source)
        else:
            yield f"{lead}{scalar(name)}: {flow(value)}{comment}", item.source


def _long_lines(name: str, value: object, depth: int, source: Source) -> Iterator[tuple[str, Source]]:
    indent = "  " * depth
    if isinstance(value, dict) and len(f"{indent}{name}: {flow(value)}") > MAX_WIDTH:
        yield f"{indent}{scalar(name)}:", source
        for inner, one in value.items():
            yield from _long_lines(inner, one, depth + 1, source)
    else:
        yield f"{indent}{scalar(name)}: {flow(value)}", source


def _comment_line(text: str) -> str:
    return f"# {text}" if text else "#"
