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
    use = f"{budget.total_gib:g} x {budget.utilization:g}"
    yield Step("memory that the engine may use", use, f"{budget.engine_gib:.2f} GiB", "gpu-memory-utilization")
    parts = (budget.weights, budget.non_torch, budget.activation, budget.graphs)
    for name, part in zip(("weights", "non-torch memory", "peak activation", "CUDA graph estimate"), parts, strict=True):
        yield Step(name, part.formula or f"{part.best:.4f}", _interval(part), part.origin)
    kv = budget.kv
    source = kv.origin if kv.exact else f"{_BUDGET}; {kv.origin}"
    yield Step("KV cache", kv.formula or f"{kv.best:.4f}", _interval(kv), source)


def _interval(part: Estimate) -> str:
    """`207.92 GiB (207.91 to 207.93)`, `254.49 GiB at most`."""
    if part.exact:
        return f"{part.best:.2f} GiB"
    if part.bound:
        return f"{part.best:.2f} GiB at {'most' if part.best == part.high else f'least, at most {part.high:.2f}'}"
    return f"{part.best:.2f} GiB ({part.low:.2f} to {part.high:.2f})"
