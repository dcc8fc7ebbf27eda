"""Exported documents as YAML text that YAML 1.1 (srtctl's PyYAML) and strict readers read alike: a value a line, comments behind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recipegen.srtslurm.yaml_text import one_line, scalar

Path = tuple[str, ...]
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Text that some YAML reader takes for a switch, or for nothing."""


@dataclass(frozen=True, kw_only=True)
class SrtDocument:
    """A recipe of another tool: JSON values by key, comments by the path of what they stand behind, and lines for its head."""

    fields: Mapping[str, Any]
    notes: Mapping[Path, str] = field(default_factory=dict)
    head: tuple[str, ...] = ()


def document_text(document: SrtDocument, head: Iterable[str]) -> str:
    """Return the text: comment lines, then the keys in their order, an empty line before each mapping at the top."""
    lines = [f"# {one_line(line)}" for line in (*head, *document.head)]
    for name, value in document.fields.items():
        if isinstance(value, dict):
            lines.append("")
        lines += _lines(name, value, (), document.notes)
    return "".join(f"{line}\n" for line in lines)


def text_scalar(text: str) -> str:
    """Return text as YAML: plain where nobody reads it as something else, in single quotes where it holds quotes, else in double ones."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    if text.isprintable() and ('"' in text or "\\" in text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _lines(name: str, value: object, above: Path, notes: Mapping[Path, str]) -> Iterator[str]:
    path = (*above, name)
    lead = "  " * len(above) + text_scalar(name) + ":"
    behind = f" # {notes[path]}" if path in notes else ""
    if isinstance(value, dict) and value:
        yield lead + behind
        for key, one in value.items():
            yield from _lines(str(key), one, path, notes)
    elif isinstance(value, list) and value and all(isinstance(one, dict) and one for one in value):
        yield lead + behind
        for one in value:
            yield from _item(one, "  " * len(path))
    else:
        yield f"{lead} {_flow(value)}{behind}"


def _item(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    """A mapping in a list: a dash before its first key."""
    lines = [line for name, one in value.items() for line in _lines(str(name), one, (), {})]
    for number, line in enumerate(lines):
        yield f"{indent}{'  ' if number else '- '}{line}"


def _flow(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text_scalar(str(name))}: {_flow(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return text_scalar(value) if isinstance(value, str) else scalar(value)


def _escaped(character: str) -> str:
    if character in {'"', "\\"}:
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
