"""vLLM's memory budget of one GPU at start-up: what is left for the KV cache.

Source: vLLM 0.28 `v1/worker/gpu_worker.py` determine_available_memory and `v1/worker/utils.py` request_memory. The CUDA context
is not subtracted: non-torch memory counts from a snapshot taken after it, and the context lies in the unused share of the GPU.
"""

from __future__ import annotations

from recipegen.sizing.calibration import Calibration, MeasuredRow
from recipegen.sizing.estimates import Situation, estimate_parts, exact_row
from recipegen.sizing.sizes import Budget, Estimate

DEFAULT_UTILIZATION = 0.92
"""`gpu-memory-utilization` where it is not set, vLLM 0.26 to 0.29."""

DERIVED_WEIGHTS = 0.01
"""GiB: derived weights of a model with measured rows differ from them by no more."""

UNMEASURED_WEIGHTS = 0.05
"""Share: our margin on the derived weights of a model that was never measured."""


def make_budget(*, total_gib: float, utilization: float, weights_gib: float, calibration: Calibration | None, situation: Situation) -> Budget:
    """Return the budget of a GPU: measured where a row is of just this configuration, an interval otherwise.

    Without any row of the model on this hardware only weights are known, and the KV cache has an upper bound alone.
    """
    if calibration is None:
        return _unmeasured(total_gib, utilization, weights_gib)
    row = exact_row(calibration, situation)
    if row is not None:
        return _measured(total_gib, utilization, calibration, row)
    weights = Estimate(max(0.0, weights_gib - DERIVED_WEIGHTS), weights_gib, weights_gib + DERIVED_WEIGHTS, "derived")
    non_torch, activation, graphs = estimate_parts(calibration, situation)
    return Budget(
        total_gib=total_gib,
        utilization=utilization,
        weights=weights,
        non_torch=non_torch,
        activation=activation,
        graphs=graphs,
        kv=_rest(total_gib * utilization, (weights, non_torch, activation, graphs)),
        calibration=f"{calibration.source}, other configurations of {calibration.model} on {calibration.hardware}",
    )


def _measured(total_gib: float, utilization: float, calibration: Calibration, row: MeasuredRow) -> Budget:
    """Parts as measured; the KV cache too, unless another share of the GPU is asked for."""
    parts = tuple(_point(size, f"measured, {row}") for size in (row.weights, row.non_torch, row.activation, row.graphs_estimate))
    weights, non_torch, activation, graphs = parts
    as_measured = utilization == calibration.gpu_memory_utilization
    kv = _point(row.kv, f"measured, {row}") if as_measured else _rest(total_gib * utilization, parts)
    return Budget(
        total_gib=total_gib,
        utilization=utilization,
        weights=weights,
        non_torch=non_torch,
        activation=activation,
        graphs=graphs,
        kv=kv,
        calibration=f"{calibration.source}, {row}",
    )


def _unmeasured(total_gib: float, utilization: float, weights_gib: float) -> Budget:
    margin = weights_gib * UNMEASURED_WEIGHTS
    weights = Estimate(weights_gib - margin, weights_gib, weights_gib + margin, "derived; this model was not measured")
    bound = max(0.0, total_gib * utilization - weights.best)
    unknown = Estimate(0.0, 0.0, bound, "not measured on this hardware")
    return Budget(
        total_gib=total_gib,
        utilization=utilization,
        weights=weights,
        non_torch=unknown,
        activation=unknown,
        graphs=unknown,
        kv=Estimate(0.0, bound, bound, "upper bound: only the weights are known"),
        calibration="",
    )


def _rest(requested_gib: float, parts: tuple[Estimate, ...]) -> Estimate:
    low, best, high = (max(0.0, requested_gib - sum(sizes)) for sizes in ([p.high for p in parts], [p.best for p in parts], [p.low for p in parts]))
    return Estimate(low, best, high, "what the other parts leave")


def _point(size: float, origin: str) -> Estimate:
    return Estimate(size, size, size, origin)
