"""What a flag does not take of a value, and the limits that hold for single words and numbers."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.errors import near_match

SUFFIXED = re.compile(r"\s*(?:\d+(?:\.\d+)?[kmgt]|\d+[KMGT])\s*", re.ASCII)
"""A number such as 16k (16,000) or 16K (16,384); decimals only with a lower-case suffix: vLLM `utils/argparse_utils.py` `human_readable_int`."""

WHOLE = re.compile(r"\s*[-+]?\d+(?:_\d+)*\s*", re.ASCII)
NUMBER = re.compile(r"\s*[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|inf(?:inity)?|nan)\s*", re.ASCII | re.IGNORECASE)
WANTED = {
    FlagKind.BOOL: "true or false",
    FlagKind.SWITCH: "true",
    FlagKind.INT: "a whole number",
    FlagKind.HUMAN_INT: "a whole number, or one such as 16k",
    FlagKind.INT_OR_AUTO: "a whole number, one such as 16k, or auto",
    FlagKind.FLOAT: "a number",
    FlagKind.STR: "a text",
    FlagKind.ENUM: "one of its choices",
    FlagKind.LIST: "a list",
    FlagKind.JSON: "a mapping",
    FlagKind.JSON_OR_STR: "a mapping or a text",
}
_INSIDE = {"ge": operator.ge, "gt": operator.gt, "le": operator.le, "lt": operator.lt}
_SIGNS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}
_SHOWN_CHOICES = 8
_SHOWN_CHARACTERS = 60


class Wrong(str, Enum):
    """What is wrong with a value: its type, a choice, its size, JSON that does not parse, or a key of it."""

    TYPE = "type"
    CHOICE = "choice"
    RANGE = "range"
    JSON = "json"
    KEY = "key"


@dataclass(frozen=True)
class Misfit:
    """A value, or a part of it, that a flag does not take.

    `message` follows the name, `path` are the keys that lead to the part, `on_key` tells that the last of them is what is wrong.
    """

    wrong: Wrong
    message: str
    mend: str = ""
    path: tuple[str, ...] = ()
    on_key: bool = False


def limits(spec: FlagSpec, value: object) -> Iterator[Misfit]:
    """Yield what choices and bounds refuse of a value whose type is right."""
    text = str(value)
    if spec.choices and _folded(spec, text) not in {_folded(spec, choice) for choice in spec.choices}:
        more = len(spec.choices) - _SHOWN_CHOICES
        some = ", ".join(spec.choices[:_SHOWN_CHOICES]) + (f" and {more} more" if more > 0 else "")
        yield Misfit(Wrong.CHOICE, f"does not take {shown(value)}, which stops the engine as it starts; there are {some}", _near(spec, text))
    for bound, limit in spec.bounds.items() if NUMBER.fullmatch(text) else ():
        if not _INSIDE[bound](float(text), limit):
            yield Misfit(Wrong.RANGE, f"must be {_SIGNS[bound]} {limit:g}, not {shown(value)}; vLLM refuses it when its configuration is made")


def shown(value: object) -> str:
    """A value as a message shows it, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text[:_SHOWN_CHARACTERS]}...'" if len(text) > _SHOWN_CHARACTERS else f"'{text}'"


def _near(spec: FlagSpec, text: str) -> str:
    return next(filter(None, (near_match(word, spec.choices) for word in (text, text.lower().replace("-", "_"), text.upper().replace("-", "_")))), "")


def _folded(spec: FlagSpec, text: str) -> str:
    folded = text.lower() if spec.loose else text
    return folded.replace("-", "_") if spec.hyphens else folded
