"""Budgets: measured, between measured rows, far from them, and without any."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.errors import InputError
from recipegen.model import Topology
from recipegen.sizing.budget import make_budget, weights_estimate, with_given_kv
from recipegen.sizing.calibration import Calibration, MeasuredRow, load_calibration, parse_calibration
from recipegen.sizing.estimates import Situation, workspace_gib
from recipegen.sizing.sizes import Budget, Estimate
from tests.unit.sizing.models import PLAIN, QWEN

FOUND = load_calibration("qwen3.8-2.4t-nvfp4", "gb300-nvl72")
assert FOUND is not None
CALIBRATION: Calibration = FOUND
ROWS = CALIBRATION.rows


def situation(row: MeasuredRow) -> Situation:
    return Situation(
        model=QWEN,
        topology=row.topology,
        draft=row.mtp,
        max_num_seqs=row.max_num_seqs,
        max_num_batched_tokens=row.max_num_batched_tokens,
        capture=row.capture_size,
        graphs=row.graphs,
        mode="FULL_DECODE_ONLY",
        all2all="flashinfer_nvlink_one_sided",
        sequence_parallel=row.topology.dp > 1,
    )


def budget(asked: Situation, calibration: Calibration | None = CALIBRATION, *, weights: float = 100.0, utilization: float = 0.92) -> Budget:
    estimate = weights_estimate(calibration, asked, weights, weights)
    return make_budget(total_gib=276.62, utilization=utilization, weights=estimate, calibration=calibration, situation=asked)


def holds(estimate: Estimate, size: float) -> bool:
    return estimate.low <= size <= estimate.high and estimate.low <= estimate.best <= estimate.high


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_measured_row_is_taken_as_it_is(row: MeasuredRow) -> None:
    found = budget(situation(row))
    assert (found.kv.low, found.kv.best, found.kv.high) == (row.kv,) * 3
    assert (found.weights.best, found.non_torch.best, found.activation.best, found.graphs.best) == (
        row.weights,
        row.non_torch,
        row.activation,
        row.graphs_estimate,
    )
    assert str(row) in found.calibration


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_row_lies_in_the_interval_that_the_others_give(row: MeasuredRow) -> None:
    others = replace(CALIBRATION, rows=tuple(r for r in ROWS if r != row))
    found = budget(situation(row), others, weights=row.weights)
    assert holds(found.non_torch, row.non_torch)
    assert holds(found.activation, row.activation)
    assert holds(found.graphs, row.graphs_estimate)
    assert holds(found.kv, row.kv)
    assert found.kv.high - found.kv.low < 25


def test_another_share_of_the_gpu_keeps_the_measured_parts() -> None:
    row = ROWS[0]
    found = budget(situation(row), utilization=0.9)
    assert found.kv.best == pytest.approx(row.kv - 0.02 * 276.62, abs=0.02)
    assert found.activation.origin.startswith("measured")


@pytest.mark.parametrize(
    "changed",
    [{"mode": "PIECEWISE"}, {"all2all": "deepep_low_latency"}, {"sequence_parallel": False}, {"max_num_seqs": 79}, {"capture": 316}, {"draft": 2}],
    ids=str,
)
def test_another_configuration_is_not_the_measured_one(changed: dict[str, object]) -> None:
    found = budget(replace(situation(ROWS[4]), **changed))
    assert found.kv.low < found.kv.best < found.kv.high
    assert "other configurations" in found.calibration


def test_where_experts_stay_on_one_rank_the_backend_tells_nothing() -> None:
    assert budget(replace(situation(ROWS[0]), all2all="allgather_reducescatter")).kv.low == ROWS[0].kv


def test_between_two_rows_is_interpolated() -> None:
    found = budget(replace(situation(ROWS[2]), max_num_seqs=176, max_num_batched_tokens=720, capture=704, graphs=61))
    assert found.activation.best == pytest.approx((0.56 + 1.91) / 2)
    assert found.graphs.best == pytest.approx((1.87 + 7.93) / 2)
    assert "interpolated" in found.non_torch.origin


def test_the_one_sided_workspace_explains_the_step_between_two_rows() -> None:
    """Measured 2.22 - 1.98 = 0.24 GiB for 768 more tokens on EP16; 21,072 bytes a token and rank."""
    small, large = (workspace_gib(QWEN, Topology(tp=4, dp=4, ep=True), tokens=n, all2all="flashinfer_nvlink_one_sided") for n in (336, 1104))
    assert large - small == pytest.approx(0.241, abs=0.001)
    assert workspace_gib(QWEN, Topology(tp=8, ep=True), tokens=336, all2all="flashinfer_nvlink_one_sided") == 0
    assert workspace_gib(QWEN, Topology(tp=4, dp=4, ep=True), tokens=336, all2all="deepep_low_latency") == 0
    assert workspace_gib(PLAIN, Topology(tp=4, dp=4), tokens=336, all2all="flashinfer_nvlink_one_sided") == 0


def test_without_any_row_only_an_upper_bound_is_known() -> None:
    """Weights are known to 5 %: the bound is what the lightest of them leave, and it is called one."""
    found, most = budget(situation(ROWS[0]), None), 276.62 * 0.92 - 95
    assert (found.kv.low, found.kv.best, found.kv.high, found.kv.bound) == pytest.approx((0, most, most, True))
    assert "upper bound" in found.kv.origin
    assert found.calibration == ""
    assert (found.activation.low, found.activation.high, found.activation.bound) == pytest.approx((0, most, True))
    assert not budget(situation(ROWS[0])).kv.bound


def test_weights_just_over_the_share_still_leave_something_without_rows() -> None:
    found = budget(situation(ROWS[0]), None, weights=260)
    assert found.kv.high == pytest.approx(276.62 * 0.92 - 247)


@pytest.mark.parametrize(
    ("topology", "weights", "other", "low", "high"),
    [
        (Topology(tp=8, ep=True), 169.28, 169.28, 169.27, 169.29),
        (Topology(tp=8, pp=4, ep=True), 46.0, 46.0, 44.0, 48.0),  # a layer of 23
        (Topology(tp=4, dp=4, ep=True), 108.0, 101.5, 101.49, 108.01),  # sequence-parallel or not
    ],
)
def test_margins_of_derived_weights(topology: Topology, weights: float, other: float, low: float, high: float) -> None:
    found = weights_estimate(CALIBRATION, replace(situation(ROWS[0]), topology=topology), weights, other)
    assert (found.low, found.best, found.high) == pytest.approx((low, weights, high))
    assert ("sequence-parallel" in found.origin) is (weights != other)
    unmeasured = weights_estimate(None, replace(situation(ROWS[0]), topology=topology), weights, other)
    assert unmeasured.low < found.low
    assert unmeasured.high > found.high


def test_a_given_cache_replaces_what_the_parts_leave() -> None:
    found = with_given_kv(budget(situation(ROWS[0]), None), 40.0, "kv-cache-memory-bytes")
    assert (found.kv.low, found.kv.high, found.kv.exact, found.kv.bound, found.given) == (40, 40, True, False, "kv-cache-memory-bytes")


def test_weights_that_do_not_fit_leave_nothing() -> None:
    for calibration in (CALIBRATION, None):
        found = budget(replace(situation(ROWS[0]), draft=1), calibration, weights=320)
        assert (found.kv.low, found.kv.best, found.kv.high) == (0, 0, 0)


@given(
    tokens=st.integers(16, 70_000),
    seqs=st.integers(1, 2048),
    graphs=st.integers(0, 120),
    tp=st.sampled_from([1, 2, 4, 8, 16]),
    dp=st.sampled_from([1, 2, 4, 16]),
    draft=st.integers(0, 4),
)
def test_intervals_are_in_order_and_the_parts_add_up(tokens: int, seqs: int, graphs: int, tp: int, dp: int, draft: int) -> None:
    asked = replace(
        situation(ROWS[0]),
        topology=Topology(tp=tp, dp=dp, ep=True),
        draft=draft,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        graphs=graphs,
        capture=graphs,
    )
    found = budget(asked)
    for part in (found.weights, found.non_torch, found.activation, found.graphs, found.kv):
        assert 0 <= part.low <= part.best <= part.high
        assert part.origin
    taken = found.weights.best + found.non_torch.best + found.activation.best + found.graphs.best
    assert found.kv.best == pytest.approx(max(0, 276.62 * 0.92 - taken))


@given(tokens=st.integers(2000, 60_000), more=st.integers(0, 60_000))
def test_more_batched_tokens_never_leave_more_cache(tokens: int, more: int) -> None:
    """Far from the rows; between them the measured scatter wins."""
    asked = replace(situation(ROWS[4]), max_num_batched_tokens=tokens, mode="PIECEWISE")
    small, large = budget(asked), budget(replace(asked, max_num_batched_tokens=tokens + more))
    assert large.kv.best <= small.kv.best + 1e-9
    assert large.kv.low <= small.kv.low + 1e-9


def test_no_rows_for_other_models() -> None:
    assert load_calibration("another", "gb300-nvl72") is None
    assert load_calibration("../models/qwen3.8-2.4t-nvfp4", "x") is None


ROW = (
    "{run: 1, topology: %s, mtp: 3, max_num_seqs: 20, max_num_batched_tokens: 96, capture_size: 80, graphs: 11, cuda_context: 2.54, non_torch: 0.72, "
    "weights: 169.28, activation: 0.57, graphs_estimate: 0.91, graphs_used: 0.59, kv: %s}"
)
HEAD = """\
model: a
hardware: b
source: a measurement
vllm: 0.28.0
gpu_memory_utilization: 0.92
max_model_len: 10240
kv_cache_dtype: fp8
mamba_ssm_cache_dtype: bfloat16
all2all_backend: allgather_reducescatter
cudagraph_mode: FULL_DECODE_ONLY
rows:
"""


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (ROW % ("TP8XP2", "83.0"), "not a topology"),
        (ROW % ("TP8", "much"), "kv"),
        (ROW % ("TP8", "-1.0"), "kv"),
        (ROW % ("TP8", "83.0, extra: 1"), "extra"),
    ],
)
def test_faulty_files_are_refused_with_the_place(row: str, complaint: str) -> None:
    assert parse_calibration(f"{HEAD}  - {ROW % ('TP8', '83.0')}\n".encode(), "c.yaml").rows[0].kv == 83
    with pytest.raises(InputError, match=r"c\.yaml") as error:
        parse_calibration(f"{HEAD}  - {row}\n".encode(), "c.yaml")
    assert complaint in str(error.value)


def test_the_shipped_file_is_of_the_model_and_hardware_of_its_name() -> None:
    assert (CALIBRATION.model, CALIBRATION.hardware) == ("qwen3.8-2.4t-nvfp4", "gb300-nvl72")
    assert [row.run for row in ROWS] == list(range(1, 9))
