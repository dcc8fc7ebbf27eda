"""Typed reads of a role's engine flags: whole numbers, words, switches, keys of a JSON argument."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recipegen.model import Recipe, RoleRecipe


def whole_number(role: RoleRecipe, flag: str) -> int | None:
    """The flag's whole number; None where it is not set, or holds anything else."""
    value = role.flag(flag)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(role: RoleRecipe, flag: str) -> float | None:
    """The flag's number, whole or not; None where it is not set, or holds anything else."""
    value = role.flag(flag)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


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
    dotted = {f.name.removeprefix(f"{flag}."): f.value for f in role.flags if f.name.startswith(f"{flag}.")}
    if dotted:
        return dotted
    try:
        found = json.loads(word(role, flag) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def draft_tokens(recipe: Recipe, role: RoleRecipe) -> int:
    """Tokens of speculation a step: the point's `mtp`, or what the role's own speculative-config says."""
    found = json_keys(role, "speculative-config").get("num_speculative_tokens", recipe.mtp)
    return found if isinstance(found, int) and not isinstance(found, bool) else recipe.mtp
