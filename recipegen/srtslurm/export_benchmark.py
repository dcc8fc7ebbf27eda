"""A point's benchmark in srt-slurm's words."""

from __future__ import annotations

from typing import Any

from recipegen.benchmarks import LOAD_TYPES, benchmark_settings
from recipegen.model import Recipe
from recipegen.srtslurm import keys
from recipegen.srtslurm.v1_benchmark import DEFAULT_LENGTH

SRTCTL_SENDS = {"backend": "dynamo", "endpoint": "/v1/completions"}
"""What srtctl 1.0's sa-bench always does; it knows the two keys only since they were needed for something else."""
_THEIRS = {ours: theirs for theirs, ours in keys.BENCHMARK_NAMES.items()} | {"tokenizer": "custom_tokenizer"}
CARRIED_TYPE = "benchmark.type"
"""What an import keeps of a benchmark that there is none of here; it takes the place of the type again, and measures by lengths."""
_FRACTIONS = frozenset({"random_range_ratio", "temperature", "top_p"})


def benchmark_fields(recipe: Recipe) -> dict[str, Any]:
    """Return the section: type, lengths and concurrencies, and every setting that has a value."""
    settings = benchmark_settings(recipe.benchmark)
    kind = settings.pop("type")
    if all(settings.get(name) == value for name, value in SRTCTL_SENDS.items()):
        settings = {name: value for name, value in settings.items() if name not in SRTCTL_SENDS}
    named = {_THEIRS[name]: _number(name, value) for name, value in settings.items()}
    return {"type": kind, **_load(recipe, kind), **named}


def _load(recipe: Recipe, kind: str) -> dict[str, Any]:
    """Lengths and concurrencies; where a benchmark brings its own requests, only what an import would not assume by itself."""
    workload, counts = recipe.workload, "x".join(map(str, recipe.concurrency))
    if kind in LOAD_TYPES or CARRIED_TYPE in recipe.job.carried:
        return {"isl": workload.isl, "osl": workload.osl, "concurrencies": counts}
    lengths = {"isl": workload.isl, "osl": workload.osl}
    found: dict[str, Any] = {name: length for name, length in lengths.items() if length != DEFAULT_LENGTH}
    return found | ({"concurrencies": counts} if recipe.concurrency != (1,) else {})


def _number(name: str, value: object) -> object:
    """Whole numbers without a point, as srtctl's schema has counts as integers."""
    if isinstance(value, float) and value.is_integer() and name not in _FRACTIONS:
        return int(value)
    return list(value) if isinstance(value, tuple) else value
