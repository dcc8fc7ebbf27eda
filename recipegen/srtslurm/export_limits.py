"""What a matrix says and srtctl cannot be told: it would run something else, so it is not exported."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.benchmarks import SETTINGS
from recipegen.errors import Problem
from recipegen.model import Recipe
from recipegen.srtslurm.v1_flags import PER_NODE

NOT_OF_SRTCTL = frozenset({"aiperf"})
"""Types of benchmark that srt-slurm does not have."""


def limits(recipe: Recipe) -> list[Problem]:
    """Return everything of a recipe that has no form in srt-slurm, with its place in the matrix."""
    return [*_benchmark(recipe), *_roles(recipe)]


def _benchmark(recipe: Recipe) -> Iterator[Problem]:
    benchmark = recipe.benchmark
    if benchmark.type in NOT_OF_SRTCTL:
        known = ", ".join(sorted(SETTINGS.keys() - NOT_OF_SRTCTL))
        message = f"srtctl has no benchmark '{benchmark.type}' and would only say so when the endpoint is up"
        yield Problem(benchmark.source, message, f"it has {known}", "export-benchmark")
    if benchmark.tokenizer and benchmark.tokenizer_class:
        place = benchmark.places.get("tokenizer", benchmark.source)
        yield Problem(
            place, "srt-slurm has one key, `custom_tokenizer`, for `tokenizer` and `tokenizer_class`", "set one of both", "export-benchmark"
        )


def _roles(recipe: Recipe) -> Iterator[Problem]:
    for role in recipe.roles:
        for var in role.env:
            if filled := next((word for word in PER_NODE if word in str(var.value)), ""):
                message = f"'{var.name}' of {role.role.value} holds {filled}, which srtctl would replace on each node"
                yield Problem(var.source, message, "write another text", "export-variable")
        for flag in role.flags:
            if flag.name == "connector":
                message = "'connector' in a role's flags chooses the KV connector for srtctl, and is no flag of the engine"
                yield Problem(flag.source, message, "set `kv-transfer-config`", "export-flag")
