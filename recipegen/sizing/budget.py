"""vLLM's memory budget of one GPU at start-up: what is left for the KV cache.

Source: vLLM 0.28 `v1/worker/gpu_worker.py` determine_available_memory and `v1/worker/utils.py` request_memory. The CUDA context
is not subtracted: non-torch memory counts from a snapshot taken after it, and the context lies in the unused share of the GPU.
"""

from __future__ import annotations

from dataclasses import replace

from recipegen.sizing.calibration import Calibration, MeasuredRow
from recipegen.sizing.estimates import Situation, estimate_parts, exact_row
from recipegen.sizing.sizes import Budget, Estimate
from recipegen.sizing.weights import stage_margin_gib

DEFAULT_UTILIZATION = 0.92
"""`gpu-memory-utilization` where it is not set, vLLM 0.26 to 0.29."""

DERIVED_WEIGHTS = 0.01
"""GiB: derived weights of a model with measured rows differ from them by no more, on one pipeline stage."""

STAGE_WEIGHTS = 0.01
"""Share: our margin on the fullest of several pipeline stages, which was never measured."""

UNMEASURED_WEIGHTS = 0.05
"""Share: our margin on the derived weights of a model that was never measured."""


def weights_estimate(calibration: Calibration | None, situation: Situation, weights_gib: float, other_gib: float) -> Estimate:
    """Return the derived weights with what is not certain of them.

    `other_gib` are the weights if MoE is sequence-parallel where `weights_gib` takes it not to be, or the other way round; equal
    where that is certain.
    """
    margin, origin = DERIVED_WEIGHTS, "derived"
    if calibration is None:
        margin, origin = weights_gib * UNMEASURED_WEIGHTS, "derived; this model was not measured on this hardware"
    elif situation.topology.pp > 1:
        margin, origin = weights_gib * STAGE_WEIGHTS, "derived for the fullest pipeline stage, which was not measured"
    margin = max(margin, stage_margin_gib(situation.model, situation.topology, weights_gib))
    low, high = min(weights_gib, other_gib), max(weights_gib, other_gib)
    if low < high:
        origin += "; whether MoE is sequence-parallel in this build is not known"
    return Estimate(max(0.0, low - margin), weights_gib, high + margin, origin, f"{weights_gib:.4f}")


def make_budget(*, total_gib: float, utilization: float, weights: Estimate, calibration: Calibration | None, situation: Situation) -> Budget:
    """Return the budget of a GPU: measured where a row is of just this configuration, an interval otherwise.

    Without any row of the model on this hardware only weights are known, and the KV cache has an upper bound alone.
    """
    if calibration is None:
        return _unmeasured(total_gib, utilization, weights)
    row = exact_row(calibration, situation)
    if row is not None:
        return _measured(total_gib, utilization, calibration, row)
    parts = (weights, *estimate_parts(calibration, situation))
    source = f"{calibration.source}, other configurations of {calibration.model} on {calibration.hardware}"
    return _budget(total_gib, utilization, parts, _rest(total_gib, utilization, parts), source)


def with_given_kv(budget: Budget, kv_gib: float, flag: str) -> Budget:
    """The budget where a flag says the size of the KV cache."""
    return replace(budget, kv=_point(kv_gib, f"{flag} says it"), given=flag)


def _measured(total_gib: float, utilization: float, calibration: Calibration, row: MeasuredRow) -> Budget:
    """Parts as measured; the KV cache too, unless another share of the GPU is asked for."""
    name = str(row)
    parts = tuple(_point(size, f"measured, {name}") for size in (row.weights, row.non_torch, row.activation, row.graphs_estimate))
    as_measured = utilization == calibration.gpu_memory_utilization
    kv = _point(row.kv, f"measured, {name}") if as_measured else _rest(total_gib, utilization, parts)
    return _budget(total_gib, utilization, parts, kv, f"{calibration.source}, {name}")


def _unmeasured(total_gib: float, utilization: float, weights: Estimate) -> Budget:
    """Nothing but weights is known: the KV cache is at most what the lightest weights leave, and each other part between nothing and that."""
    most = max(0.0, total_gib * utilization - weights.low)
    unknown = Estimate(0.0, 0.0, most, "not measured on this hardware", "0", bound=True)
    formula = f"max(0, {total_gib:g} x {utilization:g} - {weights.low:.4f})"
    kv = Estimate(0.0, most, most, "upper bound: only the weights are known, and their lower end is taken", formula, bound=True)
    return _budget(total_gib, utilization, (weights, unknown, unknown, unknown), kv, "")


def _budget(total_gib: float, utilization: float, parts: tuple[Estimate, ...], kv: Estimate, calibration: str) -> Budget:
    weights, non_torch, activation, graphs = parts
    return Budget(
        total_gib=total_gib,
        utilization=utilization,
        weights=weights,
        non_torch=non_torch,
        activation=activation,
        graphs=graphs,
        kv=kv,
        calibration=calibration,
    )


def _rest(total_gib: float, utilization: float, parts: tuple[Estimate, ...]) -> Estimate:
    sizes = ([p.high for p in parts], [p.best for p in parts], [p.low for p in parts])
    low, best, high = (max(0.0, total_gib * utilization - sum(taken)) for taken in sizes)
    taken = " - ".join(f"{part.best:.4f}" for part in parts)
    return Estimate(low, best, high, "what the other parts leave", f"max(0, {total_gib:g} x {utilization:g} - {taken})")


def _point(size: float, origin: str) -> Estimate:
    return Estimate(size, size, size, origin, f"{size:.4f}")
