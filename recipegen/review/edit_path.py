"""How an assignment names a value: `points[3].sized_for=2048`, `common.args["speculative-config.method"]=mtp`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from recipegen.errors import InputError, near_match

Path = tuple[str | int, ...]

_BARE = re.compile(r"[^\s.\[\]='\"]+")
_BRACKET = re.compile(r"""\[(?:(?P<index>-?[0-9]+)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|(?P<name>[^\]'"\s]+))\]""")
_MOST_DIGITS = 18
_FORM = 'expected keys and [indices] such as points[3].sized_for=2048; a key with dots stands in brackets and quotes: args["a.b"]=1'


@dataclass(frozen=True)
class PointName:
    """A step that names a point instead of counting it."""

    name: str


@dataclass(frozen=True)
class Assignment:
    """A value to set: the steps to it, the path as the author wrote it, and the value as YAML."""

    steps: tuple[str | int | PointName, ...]
    written: str
    value: str

    @property
    def named(self) -> bool:
        """Whether it takes the names of points to find the value."""
        return any(isinstance(step, PointName) for step in self.steps)

    def path(self, points: Sequence[str] = ()) -> Path:
        """Return the path with points counted; InputError for the name of a point that there is not."""
        return tuple(self._counted(step, points) for step in self.steps)

    def _counted(self, step: str | int | PointName, points: Sequence[str]) -> str | int:
        if not isinstance(step, PointName):
            return step
        if step.name not in points:
            hint = near_match(step.name, points) or f"points: {', '.join(points)}"
            raise InputError(f"{self.written}: no point is called '{step.name}'", hint=hint)
        return points.index(step.name)


def parse_assignment(text: str) -> Assignment:
    """Return what `PATH=VALUE` says. InputError when it cannot be read; the value is not looked at yet."""
    steps: list[str | int | PointName] = []
    at = 0
    while at < len(text) and (at == 0 or text[at] != "="):
        found = _BRACKET.match(text, at) if text[at] == "[" and steps else None
        bare = None if found else _BARE.match(text, at + (text[at] == "." and bool(steps)))
        if found is not None:
            steps.append(_bracketed(found, text, steps))
        elif bare is not None and (at == 0 or text[at] == "."):
            steps.append(bare.group())
        else:
            raise InputError(f"'{text}' is no assignment from character {at + 1} on", hint=_FORM)
        at = (found or bare).end()  # type: ignore[union-attr]
    if not steps or at >= len(text):
        raise InputError(f"'{text}' sets nothing: no '=' follows a path", hint=_FORM)
    return Assignment(tuple(steps), text[:at], text[at + 1 :])


def _bracketed(found: re.Match[str], text: str, before: Sequence[object]) -> str | int | PointName:
    if found["index"] is not None:
        return _index(found, text)
    if found["name"] is not None:
        if before != ["points"]:
            raise InputError(f"'{text}': [{found['name']}] is no index, and only points have names", hint=_FORM)
        return PointName(found["name"])
    name = _unquoted(found["quoted"], text)
    return PointName(name) if before == ["points"] else name


def _index(found: re.Match[str], text: str) -> int:
    digits: str = found["index"]
    if len(digits) > _MOST_DIGITS:
        raise InputError(f"{text[: found.start()]}: there is no [{digits[:_MOST_DIGITS]}...]", hint="entries are counted from 0")
    return int(digits)


def _unquoted(quoted: str, text: str) -> str:
    if quoted[0] == "'":
        return quoted[1:-1].replace("''", "'")
    try:
        return str(json.loads(quoted))
    except ValueError:
        raise InputError(f"'{text}': {quoted} holds a broken escape", hint=_FORM) from None


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as an assignment writes it."""
    parts = [f"[{step}]" if isinstance(step, int) else f".{step}" if _BARE.fullmatch(step) else f"[{json.dumps(step)}]" for step in path]
    return "".join(parts).removeprefix(".")
