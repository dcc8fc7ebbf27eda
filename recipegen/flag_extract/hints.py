"""Type annotations as vLLM's argument code sees them: the alternatives of a union, Literal values, what a list holds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

from recipegen.flag_extract.modules import UNREADABLE, Found, Modules

_BUILTINS = ("bool", "int", "float", "str", "list", "tuple", "set", "dict")
_UNIONS = ("Union", "Optional")
_WRAPPERS = ("Annotated", "InitVar", "SkipValidation", "Final")


class HintKind(str, Enum):
    """What one alternative of an annotation is; the built-in types by their names."""

    NONE = "None"
    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    STR = "str"
    LIST = "list"
    TUPLE = "tuple"
    SET = "set"
    DICT = "dict"
    LITERAL = "literal"
    CONFIG = "config"
    ENUM = "enum"
    OTHER = "other"


@dataclass(frozen=True)
class Hint:
    """One alternative: Literal values, the hints of a collection's members, or the class it names. `raw` values are checked as they come."""

    kind: HintKind
    values: tuple[Any, ...] = ()
    items: tuple[Hint, ...] = ()
    cls: Found | None = None
    raw: bool = False


Hints = tuple[Hint, ...]


def read_hints(modules: Modules, module: str, node: ast.expr) -> Hints:
    """Return the alternatives of an annotation that stands in a module."""
    return tuple(_hints(modules, module, node))


def members(found: Found) -> Iterator[tuple[str, Any]]:
    """Names and values of an enumeration; None for a value that is no constant."""
    for statement in found.body:
        if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Name) and not target.id.startswith("_"):
            yield target.id, statement.value.value if isinstance(statement.value, ast.Constant) else None


def is_config(found: Found) -> bool:
    """Whether a class is one of vLLM's own configuration classes, which refuse keys that they do not have."""
    return isinstance(found.node, ast.ClassDef) and any(_is_strict(decorator) for decorator in found.node.decorator_list)


def _is_strict(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        return _called(decorator) == "config" or 'extra="forbid"' in ast.unparse(decorator).replace("'", '"')
    return isinstance(decorator, ast.Name) and decorator.id == "config"


def _hints(modules: Modules, module: str, node: ast.expr) -> Iterator[Hint]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _hints(modules, module, node.left)
        yield from _hints(modules, module, node.right)
    elif isinstance(node, ast.Constant):
        yield from _constant(modules, module, node)
    elif isinstance(node, ast.Subscript):
        yield from _subscript(modules, module, node)
    elif isinstance(node, ast.Name):
        yield from _name(modules, module, node.id)
    else:
        yield Hint(HintKind.OTHER)


def _constant(modules: Modules, module: str, node: ast.Constant) -> Iterator[Hint]:
    if node.value is None:
        yield Hint(HintKind.NONE)
    elif isinstance(node.value, str):
        try:
            quoted = ast.parse(node.value, mode="eval").body
        except UNREADABLE:
            yield Hint(HintKind.OTHER)
            return
        yield from _hints(modules, module, quoted)
    else:
        yield Hint(HintKind.OTHER)


def _subscript(modules: Modules, module: str, node: ast.Subscript) -> Iterator[Hint]:
    name = _called(node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        yield Hint(HintKind.LITERAL, values=tuple(_literals(modules, module, parts)))
    elif name in _UNIONS:
        for part in parts:
            yield from _hints(modules, module, part)
        if name == "Optional":
            yield Hint(HintKind.NONE)
    elif name in _WRAPPERS:
        raw = name == "SkipValidation" or any("Validator" in ast.unparse(extra) for extra in parts[1:])
        for hint in _hints(modules, module, parts[0]):
            yield Hint(hint.kind, hint.values, hint.items, hint.cls, raw=raw or hint.raw)
    elif name.lower() in _BUILTINS:
        first = () if name.lower() == "dict" else read_hints(modules, module, parts[0])
        yield Hint(HintKind(name.lower()), items=first)
    else:
        yield Hint(HintKind.OTHER)


def _literals(modules: Modules, module: str, parts: Iterable[ast.expr]) -> Iterator[Any]:
    """Values of a Literal; one that holds another takes over its values."""
    for part in parts:
        if isinstance(part, ast.Constant):
            yield part.value
        else:
            for hint in _hints(modules, module, part):
                yield from hint.values


def _name(modules: Modules, module: str, name: str) -> Iterator[Hint]:
    found = modules.resolve(module, name)
    if found is None:
        yield Hint(HintKind(name.lower()) if name.lower() in _BUILTINS else HintKind.OTHER)
    elif isinstance(found.node, ast.ClassDef):
        yield _class(found, found.node)
    elif isinstance(found.node, ast.expr):
        yield from _hints(modules, found.module, found.node)
    else:
        yield Hint(HintKind.OTHER)


def _class(found: Found, node: ast.ClassDef) -> Hint:
    if any(ast.unparse(base).endswith("Enum") for base in node.bases):
        return Hint(HintKind.ENUM, cls=found)
    return Hint(HintKind.CONFIG if is_config(found) else HintKind.OTHER, cls=found)


def _called(node: ast.expr) -> str:
    """The last part of a dotted name or of what is called: `Literal` of `typing.Literal[...]`."""
    if isinstance(node, ast.Call):
        return _called(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
