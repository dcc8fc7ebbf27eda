"""The arithmetic of derived flags: `sized_for / dp + 16`, evaluated exactly and rounded up once, at the end."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from recipegen.errors import near_match

MAX_LENGTH = 200
MAX_DEPTH = 20
MAX_VALUE = 2**53
_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*)|(?P<op>[-+*/()]))", re.ASCII)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


class FormulaError(ValueError):
    """A formula that cannot be read or evaluated; `offset` counts characters from 0."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True)
class _Number:
    value: int


@dataclass(frozen=True)
class _Name:
    name: str
    offset: int


@dataclass(frozen=True)
class _Operation:
    op: str
    left: _Node
    right: _Node


_Node = _Number | _Name | _Operation


@dataclass(frozen=True)
class Formula:
    """A parsed formula over names."""

    text: str
    _root: _Node

    @cached_property
    def names(self) -> Mapping[str, int]:
        """Every name used, with the offset of its first use."""
        found: dict[str, int] = {}
        _collect(self._root, found)
        return found

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the value, rounded up. Raises FormulaError for an unknown name, a division by zero, a value out of range."""
        result = math.ceil(_evaluate(self._root, values))
        if abs(result) > MAX_VALUE:
            raise FormulaError(f"'{self.text}' gives a number too large")
        return result

    def show(self, values: Mapping[str, int]) -> str:
        """Return the formula with its names replaced by their values: `1024/4 + 16`."""
        return _show(self._root, values)


@lru_cache(maxsize=1024)
def parse_formula(text: str) -> Formula:
    """Parse + - * / ( ) over whole numbers and names; raise FormulaError with the offset of what is wrong.

    Points mostly share the formulas of their matrix.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(f"longer than {MAX_LENGTH} characters")
    parser = _Parser(text)
    root = parser.sum(0)
    if parser.kind:
        raise FormulaError(f"expected an operator, found '{parser.word}'", parser.offset)
    return Formula(text.strip(), root)


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.kind = self.word = ""
        self.offset = 0
        self.advance()

    def advance(self) -> None:
        rest = self.text[self.end :]
        self.offset = self.end + len(rest) - len(rest.lstrip())
        if not rest.strip():
            self.kind = self.word = ""
            return
        match = _TOKEN.match(self.text, self.end)
        if not match or not match.lastgroup:
            raise FormulaError(f"'{self.text[self.offset]}' is not + - * / ( ), a whole number or a name", self.offset)
        self.kind, self.word, self.end = match.lastgroup, match[match.lastgroup], match.end()

    def sum(self, depth: int) -> _Node:
        node = self.product(depth)
        while self.word in {"+", "-"}:
            op = self.word
            self.advance()
            node = _Operation(op, node, self.product(depth))
        return node

    def product(self, depth: int) -> _Node:
        node = self.atom(depth)
        while self.word in {"*", "/"}:
            op = self.word
            self.advance()
            node = _Operation(op, node, self.atom(depth))
        return node

    def atom(self, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise FormulaError(f"more than {MAX_DEPTH} parentheses inside each other", self.offset)
        kind, word, offset = self.kind, self.word, self.offset
        if kind == "number" and len(word) <= 16:
            self.advance()
            return _Number(int(word))
        if kind == "name":
            self.advance()
            return _Name(word, offset)
        if word != "(":
            raise FormulaError(f"expected a number, a name or '(', found {repr(word) if word else 'the end'}", offset)
        self.advance()
        node = self.sum(depth + 1)
        if self.word != ")":
            raise FormulaError("the parenthesis is not closed", offset)
        self.advance()
        return node


def _collect(node: _Node, found: dict[str, int]) -> None:
    if isinstance(node, _Name):
        found.setdefault(node.name, node.offset)
    elif isinstance(node, _Operation):
        _collect(node.left, found)
        _collect(node.right, found)


def _evaluate(node: _Node, values: Mapping[str, int]) -> int | Fraction:
    """The exact value: a whole number as long as divisions leave one."""
    if isinstance(node, _Number):
        return node.value
    if isinstance(node, _Name):
        if node.name not in values:
            near = near_match(node.name, values)
            raise FormulaError(f"unknown name '{node.name}'" + (f"; {near}" if near else ""), node.offset)
        return values[node.name]
    left, right = _evaluate(node.left, values), _evaluate(node.right, values)
    match node.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return _divided(left, right)


def _divided(left: int | Fraction, right: int | Fraction) -> int | Fraction:
    if not right:
        raise FormulaError("division by zero")
    if isinstance(left, int) and isinstance(right, int) and not left % right:
        return left // right
    return Fraction(left) / right


def _show(node: _Node, values: Mapping[str, int]) -> str:
    if isinstance(node, _Number):
        return str(node.value)
    if isinstance(node, _Name):
        return str(values[node.name])
    left = _inside(node.left, values, tight=_PRECEDENCE[node.op])
    right = _inside(node.right, values, tight=_PRECEDENCE[node.op] + (node.op in "-/"))
    gap = "" if node.op == "/" else " "
    return f"{left}{gap}{node.op}{gap}{right}"


def _inside(node: _Node, values: Mapping[str, int], *, tight: int) -> str:
    text = _show(node, values)
    loose = isinstance(node, _Operation) and _PRECEDENCE[node.op] < tight
    return f"({text})" if loose else text
