"""One step of an explanation, and the names of sources that several steps share."""

from __future__ import annotations

from dataclasses import dataclass

STUDY = "the published study"
KV_UTILS = "vLLM v1/core/kv_cache_utils.py"


@dataclass(frozen=True)
class Step:
    """What is reckoned, the formula in numbers, what comes out with its unit, and where the rule is from."""

    title: str
    formula: str
    result: str
    source: str


def amount(value: int, unit: str) -> str:
    """A whole number with its unit."""
    return f"{value} {unit}"
