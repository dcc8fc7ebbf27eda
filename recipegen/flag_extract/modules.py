"""Names of Python modules, followed through imports and assignments to where they are defined."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from recipegen.errors import InputError

_DEPTH = 20


UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What `ast.parse` raises for a text that is no Python, or is nested too deep for it."""


@dataclass(frozen=True)
class Imported:
    """A name that another module defines."""

    module: str
    name: str


Definition = ast.ClassDef | ast.FunctionDef | ast.expr | Imported


@dataclass(frozen=True)
class Found:
    """What a name stands for, and the module in whose names its own parts are to be read."""

    module: str
    node: ast.ClassDef | ast.FunctionDef | ast.expr

    @property
    def body(self) -> list[ast.stmt]:
        """The statements of a class or a function; none of a value."""
        return self.node.body if isinstance(self.node, ast.ClassDef | ast.FunctionDef) else []


@dataclass
class Modules:
    """Modules read on demand; `read` returns the text of a file by its path (`vllm/config/__init__.py`)."""

    read: Callable[[str], str | None]
    _names: dict[str, dict[str, Definition] | None] = field(default_factory=dict)

    def has(self, module: str) -> bool:
        return self._load(module) is not None

    def resolve(self, module: str, name: str) -> Found | None:
        """Follow a name to its class, function or value; None where it leads out of what can be read."""
        for _ in range(_DEPTH):
            found = (self._load(module) or {}).get(name)
            if isinstance(found, Imported):
                module, name = found.module, found.name
            else:
                return Found(module, found) if found is not None else None
        return None

    def bases(self, found: Found) -> Iterable[Found]:
        """The classes that a class inherits from, the most basic first, itself last: the order in which fields are laid out."""
        for base in reversed(found.node.bases if isinstance(found.node, ast.ClassDef) else ()):
            above = self.resolve(found.module, base.id) if isinstance(base, ast.Name) else None
            if above and isinstance(above.node, ast.ClassDef):
                yield from self.bases(above)
        yield found

    def _load(self, module: str) -> dict[str, Definition] | None:
        if module not in self._names:
            self._names[module] = self._parse(module)
        return self._names[module]

    def _parse(self, module: str) -> dict[str, Definition] | None:
        stem = module.replace(".", "/")
        for path, package in ((f"{stem}.py", module.rpartition(".")[0]), (f"{stem}/__init__.py", module)):
            text = self.read(path)
            if text is not None:
                try:
                    return dict(_definitions(ast.parse(text).body, package))
                except UNREADABLE as error:
                    raise InputError(f"{path}: is no Python that can be read: {error}") from error
        return None


def _definitions(body: Iterable[ast.stmt], package: str) -> Iterable[tuple[str, Definition]]:
    """Names in the order of their definitions. Both branches of an `if` count, the second above the first: it is what runs without a type checker."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ImportFrom):
            yield from _imports(node, package)
        elif isinstance(node, ast.Assign):
            yield from ((target.id, node.value) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            yield node.target.id, node.value
        elif isinstance(node, ast.If):
            yield from _definitions(node.body, package)
            yield from _definitions(node.orelse, package)
        elif isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _definitions(handler.body, package)
            yield from _definitions(node.body, package)


def _imports(node: ast.ImportFrom, package: str) -> Iterable[tuple[str, Imported]]:
    base = package
    for _ in range(node.level - 1):
        base = base.rpartition(".")[0]
    source = ".".join(filter(None, (base, node.module))) if node.level else node.module or ""
    yield from ((alias.asname or alias.name, Imported(source, alias.name)) for alias in node.names)
