"""The keys of one object of a config, read by kind; everything wrong is gathered and told at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from recipegen.document import Document
from recipegen.errors import InputError, Problem, near_match
from recipegen.yamlscalars import quote

MOST = 10_000_000
"""The largest count that a data file takes."""

_COMPARED = 100
_CANDIDATES = 1000


@dataclass
class Findings:
    """What is wrong with a config, and what is worth knowing of one that can be read; `missing` keys get their hint at the end."""

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    missing: list[tuple[Fields, tuple[str, ...]]] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    def refuse(self) -> None:
        """Raise InputError if anything is wrong; a missing key is compared with keys that nobody asked for."""
        found = [*self.problems, *(fields.missing_problem(keys, self.asked) for fields, keys in self.missing)]
        if found:
            raise InputError(found)


class Fields:
    """One object of the config; a null counts as not there, as in transformers."""

    def __init__(self, document: Document, findings: Findings, path: tuple[str, ...] = ()) -> None:
        self.document, self.findings, self.path = document, findings, path
        value: object = document.data
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        self.values: dict[str, object] = value if isinstance(value, dict) else {}

    def below(self, key: str) -> Fields:
        """Return the object at `key`, empty where there is none; anything but an object is a problem."""
        value = self._value((key,))
        if value is not None and not isinstance(value, dict):
            self.wrong(key, f"expected an object, found {_shown(value)}")
        return Fields(self.document, self.findings, (*self.path, key))

    def has(self, *keys: str) -> bool:
        return self._value(keys) is not None

    def wrong(self, key: str, message: str, hint: str = "") -> None:
        """Note a problem with the value at `key`."""
        name = ".".join((*self.path, key))
        self.findings.problems.append(Problem(self.document.source(*self.path, key), f"{name}: {message}", hint))

    def count(self, *keys: str, default: int | None = None, least: int = 1) -> int:
        """Return the integer at the first of `keys` that is there; without a default its absence is a problem. 1 stands for a problem."""
        value = self._value(keys)
        if value is None:
            return self._absent(keys, default)
        if not isinstance(value, int) or isinstance(value, bool):
            self.wrong(self._key(keys), f"expected an integer, found {_shown(value)}")
            return 1
        if not least <= value <= MOST:
            self.wrong(self._key(keys), f"expected {least} to {MOST}, found {value}")
            return 1
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self._value((key,))
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.wrong(key, f"expected true or false, found {_shown(value)}")
        return default

    def word(self, *keys: str, default: str = "") -> str:
        value = self._value(keys)
        if value is None or isinstance(value, str):
            return default if value is None else value
        self.wrong(self._key(keys), f"expected a string, found {_shown(value)}")
        return default

    def words(self, *keys: str) -> tuple[str, ...] | None:
        """Return a list of strings, or None where it is not there."""
        return self._list(keys, str, "a list of strings")

    def numbers(self, *keys: str) -> tuple[int, ...] | None:
        """Return a list of integers, or None where it is not there."""
        return self._list(keys, int, "a list of integers")

    def missing_problem(self, keys: tuple[str, ...], asked: set[str]) -> Problem:
        name = ".".join((*self.path, keys[0]))
        unread = [key[:_COMPARED] for key in list(self.values)[:_CANDIDATES] if key not in asked]
        return Problem(self.document.source(*self.path), f"missing key {quote(name)}", near_match(keys[0], unread))

    def _list(self, keys: tuple[str, ...], kind: type, wanted: str) -> tuple | None:  # type: ignore[type-arg]  # of `kind`
        value = self._value(keys)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(entry, kind) and not isinstance(entry, bool) for entry in value):
            return tuple(value)
        self.wrong(self._key(keys), f"expected {wanted}, found {'another one' if isinstance(value, list) else _shown(value)}")
        return ()

    def _absent(self, keys: tuple[str, ...], default: int | None) -> int:
        if default is None:
            self.findings.missing.append((self, keys))
        return 1 if default is None else default

    def _key(self, keys: Sequence[str]) -> str:
        return next((key for key in keys if self.values.get(key) is not None), keys[0])

    def _value(self, keys: Sequence[str]) -> object:
        self.findings.asked.update(keys)
        return self.values.get(self._key(keys))


def _shown(value: object) -> str:
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, bool):
        return str(value).lower()
    return f"the string {quote(value)}" if isinstance(value, str) else f"the number {value}"
