"""A point's benchmark in srt-slurm's words."""

from __future__ import annotations

from typing import Any

from recipegen.benchmarks import LOAD_TYPES, SETTINGS, benchmark_settings
from recipegen.model import Recipe
from recipegen.srtslurm import keys
from recipegen.srtslurm.v1_benchmark import DEFAULT_LENGTH

SRTCTL_SENDS = {"backend": "dynamo", "endpoint": "/v1/completions"}
"""What srtctl 1.0's sa-bench always does; it knows the two keys only since they were needed for something else."""
_THEIRS = {ours: theirs for theirs, ours in keys.BENCHMARK_NAMES.items()} | {"tokenizer": "custom_tokenizer"}
_CARRIED_TYPE = "benchmark.type"
_FRACTIONS = frozenset({"random_range_ratio", "temperature", "top_p"})


def benchmark_fields(recipe: Recipe) -> dict[str, Any]:
    """Return the section: type, lengths and concurrencies, and every setting that has a value."""
    settings = benchmark_settings(recipe.benchmark)
    kind = settings.pop("type")
    if all(settings.get(name) == value for name, value in SRTCTL_SENDS.items()):
        settings = {name: value for name, value in settings.items() if name not in SRTCTL_SENDS}
    named = {_THEIRS[name]: _number(name, value) for name, value in settings.items()}
    return {"type": foreign_type(recipe) or kind, **_load(recipe, kind), **named}


def foreign_type(recipe: Recipe) -> str:
    """Return the benchmark that an import kept, as there is none of it here; empty where the matrix has come to measure something itself."""
    kept = recipe.job.carried.get(_CARRIED_TYPE)
    return kept if recipe.benchmark.type == "manual" and isinstance(kept, str) and kept not in SETTINGS else ""


def _load(recipe: Recipe, kind: str) -> dict[str, Any]:
    """Lengths and concurrencies; where a benchmark brings its own requests, only what an import would not assume by itself."""
    workload, counts = recipe.workload, "x".join(map(str, recipe.concurrency))
    if kind in LOAD_TYPES or foreign_type(recipe):
        return {"isl": workload.isl, "osl": workload.osl, "concurrencies": counts}
    lengths = {"isl": workload.isl, "osl": workload.osl}
    found: dict[str, Any] = {name: length for name, length in lengths.items() if length != DEFAULT_LENGTH}
    return found | ({"concurrencies": counts} if recipe.concurrency != (1,) else {})


def _number(name: str, value: object) -> object:
    """Whole numbers without a point, as srtctl's schema has counts as integers."""
    if isinstance(value, float) and value.is_integer() and name not in _FRACTIONS:
        return int(value)
    return list(value) if isinstance(value, tuple) else value
