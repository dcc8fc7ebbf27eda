"""Typed reads of a role's engine flags: whole numbers, sizes, words, switches, JSON arguments and their keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from recipegen.model import Recipe, RoleRecipe

_WHOLE = re.compile(r"\s*[-+]?\d+(?:_\d+)*\s*", re.ASCII)
_HUMAN = re.compile(r"\s*(?:(?P<decimal>\d+(?:\.\d+)?)(?P<small>[kmgt])|(?P<binary>\d+)(?P<large>[KMGT]))\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", re.ASCII)
_POWERS = "kmgt"
_DIGITS = 64
"""A text that is longer is no number that an engine could use, and none that this reads."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"?|\b\d+(?:\.\d+)?[kKmMgGtT]\b', re.DOTALL)
"""A string, which may lack its end (else every quote in it would be tried as a beginning), or a number with a suffix."""

_JSON_NESTING = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[\]{}]', re.DOTALL)
MAX_JSON_DEPTH = 64
"""Objects and lists inside each other, as many as a matrix may nest: whoever walks through what was read needs an end."""

MAX_SIZE = 2**53
"""The largest size that counts: no engine has more tokens, requests or bytes, and every number up to it is exact as a float."""


def whole_number(role: RoleRecipe, flag: str) -> int | None:
    """The flag's whole number, also one written as a text or as `16k`; None where it is not set, or holds anything else.

    A lower-case suffix counts in thousands, an upper-case one in 1024s: vLLM `utils/argparse_utils.py` human_readable_int.
    """
    return as_whole_number(role.flag(flag))


def as_whole_number(value: object) -> int | None:
    """A whole number, or a text of one as a flag takes it; None for anything else."""
    if isinstance(value, str):
        return _whole(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def size(role: RoleRecipe, flag: str) -> int | None:
    """The flag's whole number as a size, 1 to MAX_SIZE; None where it is not set, or is none: vLLM refuses a size below 1."""
    return legal_size(whole_number(role, flag))


def legal_size(value: object) -> int | None:
    """A whole number from 1 to MAX_SIZE; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_SIZE else None


def number(role: RoleRecipe, flag: str) -> float | None:
    """The flag's number, whole or not, also as a text; None where it is not set, or holds anything else, or is not finite."""
    value = role.flag(flag)
    if isinstance(value, str):
        return _finite(value) if _NUMBER.fullmatch(value) else None
    return _finite(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def word(role: RoleRecipe, flag: str) -> str:
    """The flag's text; empty where it is not set, or holds anything else."""
    value = role.flag(flag)
    return value if isinstance(value, str) else ""


def switch(role: RoleRecipe, flag: str) -> bool | None:
    """Whether the flag is on or off, its `no-` form included; None where neither is set."""
    for name, means in ((flag, True), (f"no-{flag}", False)):
        value = role.flag(name)
        if isinstance(value, bool):
            return value is means
    return None


def json_keys(role: RoleRecipe, flag: str) -> Mapping[str, Any]:
    """What a JSON argument says at its top level: dotted keys of the flag, or else the flag's own JSON.

    vLLM appends all dotted keys of a flag as one JSON value, which replaces the flag given as plain JSON. A text that is no JSON
    object says nothing.
    """
    return role.keys(flag) or _json_object(word(role, flag))


def read_json(text: str, *, suffixes: bool = True) -> object:
    """JSON as vLLM's flags take it: with `suffixes`, a bare number may have one (`80m`), as for a flag of its own.

    ValueError for what is no JSON, or nests more than MAX_JSON_DEPTH deep. Source: vLLM 0.28 `engine/arg_utils.py`
    `_expand_json_human_readable_numbers`; what stands after a dotted key is read without.
    """
    if _depth(text) > MAX_JSON_DEPTH:
        raise ValueError(f"nested more than {MAX_JSON_DEPTH} deep")
    found: object = json.loads(_JSON_TOKEN.sub(lambda token: _expanded(token[0]), text) if suffixes else text)
    return found


def draft_tokens(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of speculation a step: the point's `mtp`, or what the role's own flags say."""
    return own_draft_tokens(role, mtp=recipe.mtp)


def own_draft_tokens(role: RoleRecipe, *, mtp: int) -> int:
    """Tokens of speculation a step, `mtp` being the point's: `speculative-config` of the role's own before `spec-tokens` before that.

    A number that vLLM refuses counts as not set.
    """
    keys = json_keys(role, "speculative-config")
    for found in (keys.get("num_speculative_tokens"), whole_number(role, "spec-tokens")):
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_SIZE:
            return found
    return mtp


def draft_method(role: RoleRecipe) -> str:
    """How a role speculates, as its flags say; empty where they leave it to the model."""
    return str(json_keys(role, "speculative-config").get("method") or word(role, "spec-method"))


@lru_cache(maxsize=1024)
def _json_object(text: str) -> Mapping[str, Any]:
    """An object as JSON has it, empty for anything else; rules ask for the same texts over and over."""
    try:
        found = read_json(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _depth(text: str) -> int:
    """How deep brackets nest, those in strings left out; of a text with few brackets just how many open."""
    depth = deepest = text.count("[") + text.count("{")
    if deepest > MAX_JSON_DEPTH:
        depth = deepest = 0
        for token in _JSON_NESTING.finditer(text):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
            deepest = max(deepest, depth)
    return deepest


def _expanded(token: str) -> str:
    """A number in the place of one with a suffix; strings, and what vLLM cannot expand (`1.5M`), stay."""
    found = None if token.startswith('"') else _whole(token)
    return token if found is None else str(found)


def _finite(value: str | float) -> float | None:
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def _whole(text: str) -> int | None:
    if len(text) > _DIGITS:
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    found = _HUMAN.fullmatch(text)
    if not found:
        return None
    if found["small"]:
        return int(float(found["decimal"]) * 1000 ** (1 + _POWERS.index(found["small"])))
    return int(found["binary"]) << 10 * (1 + _POWERS.index(found["large"].lower()))
