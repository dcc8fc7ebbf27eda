"""The steps of an explanation that tell how the memory of one GPU is divided."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.sizing.explain_step import Step
from recipegen.sizing.sizes import Budget, Estimate, RoleSizes

_WEIGHTS = "vLLM's model classes, checked against the published study"
_BUDGET = "vLLM v1/worker/gpu_worker.py determine_available_memory"


def weight_steps(sizes: RoleSizes) -> Iterator[Step]:
    """One step for each part of the weights, and their sum."""
    for part in sizes.weight_parts:
        yield Step(f"weights: {part.name}", f"{part.whole_gib:.3f} GiB whole, {part.sharding}", f"{part.gpu_gib:.3f} GiB", _WEIGHTS)
    if sizes.weight_parts:
        formula = " + ".join(f"{part.gpu_gib:.4f}" for part in sizes.weight_parts)
        yield Step("weights of one GPU", formula, f"{sizes.weights_gib:.2f} GiB", _WEIGHTS)


def budget_steps(budget: Budget) -> Iterator[Step]:
    """What the engine may use, what it takes, what is left for the KV cache."""
    share = budget.total_gib * budget.utilization
    yield Step("memory that the engine may use", f"{budget.total_gib:g} x {budget.utilization:g}", f"{share:.2f} GiB", "gpu-memory-utilization")
    parts = (budget.weights, budget.non_torch, budget.activation, budget.graphs)
    for name, part in zip(("weights", "non-torch memory", "peak activation", "CUDA graph estimate"), parts, strict=True):
        yield Step(name, _interval(part), f"{part.best:.2f} GiB", part.origin)
    if budget.kv.origin.startswith("measured"):
        yield Step("KV cache", f"{budget.kv.best:.2f}", f"{budget.kv.best:.2f} GiB", budget.kv.origin)
        return
    taken = " - ".join(f"{part.best:.4f}" for part in parts)
    formula = f"max(0, {budget.total_gib:g} x {budget.utilization:g} - {taken})"
    yield Step(
        f"KV cache, surely {budget.kv.low:.2f} to {budget.kv.high:.2f}", formula, f"{budget.kv.best:.2f} GiB", f"{_BUDGET}; {budget.kv.origin}"
    )


def _interval(part: Estimate) -> str:
    return f"{part.best:.2f}" if part.low == part.high else f"between {part.low:.2f} and {part.high:.2f}"
