from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.architecture import Architecture
from recipegen.builds import build_of
from recipegen.catalogue import hardware_keys, load_hardware
from recipegen.model import Topology
from recipegen.sizing.engine_build import is_blackwell, is_sharding_sure, shards_sequences
from recipegen.sizing.weights import stage_margin_gib, weight_parts
from tests.unit.sizing.models import DEEPSEEK, NEMOTRON, PLAIN, QWEN

NIGHTLY = "0.26.1rc1.dev1177+ga9a17e709"
ONE_SIDED = "flashinfer_nvlink_one_sided"


def total(model: Architecture, topology: Topology, *, mtp_layers: int = 0, sequence_parallel: bool = False) -> float:
    return sum(part.gpu_gib for part in weight_parts(model, topology, mtp_layers=mtp_layers, sequence_parallel=sequence_parallel))


@pytest.mark.parametrize(
    ("tp", "dp", "mtp", "gib"),
    [
        (8, 1, 1, 169.28),  # measured
        (4, 4, 1, 108.71),  # measured
        (4, 4, 0, 107.51),  # measured
        (2, 4, 1, 207.92),
        (2, 4, 0, 205.61),
        (4, 2, 1, 187.19),
        (8, 1, 0, 167.45),
    ],
)
def test_weights_of_the_studied_model(tp: int, dp: int, mtp: int, gib: float) -> None:
    topology = Topology(tp=tp, dp=dp, ep=True)
    sequence_parallel = shards_sequences(build_of(NIGHTLY), ONE_SIDED, topology)
    assert total(QWEN, topology, mtp_layers=mtp, sequence_parallel=sequence_parallel) == pytest.approx(gib, abs=0.01)


def test_without_replication_the_weights_would_be_far_off_the_measured() -> None:
    assert 108.71 - total(QWEN, Topology(tp=4, dp=4, ep=True), mtp_layers=1) > 6


def test_parts_of_the_studied_model() -> None:
    whole = {part.name: part.whole_gib for part in weight_parts(QWEN, Topology(tp=8, ep=True), mtp_layers=1, sequence_parallel=False)}
    assert whole["routed experts"] == pytest.approx(1242, abs=0.05)
    assert whole["linear attention (gdn)"] == pytest.approx(56.34, abs=0.01)
    assert whole["attention"] == pytest.approx(17.97, abs=0.01)
    assert whole["embedding and output matrix"] == pytest.approx(7.58, abs=0.01)
    assert whole["shared expert"] == pytest.approx(8.63, abs=0.01)
    assert whole["MTP experts"] == pytest.approx(13.5, abs=0.01)


def test_a_plain_model_is_what_its_name_says() -> None:
    """70.6 billion parameters in bf16; what no part counts is the fitted rest."""
    assert total(PLAIN, Topology()) * 2**30 / 2 == pytest.approx(70.55e9, rel=0.002)
    assert total(PLAIN, Topology(tp=8)) == pytest.approx(total(PLAIN, Topology()) / 8, rel=0.01)


def test_a_model_with_latent_attention_is_what_its_name_says() -> None:
    """671 billion parameters, experts in fp8 (1 byte) and the rest, 17 billion, in bf16."""
    assert total(DEEPSEEK, Topology()) * 2**30 == pytest.approx(671e9 + 17e9, rel=0.01)


def test_stages_and_shares() -> None:
    one, stage = total(QWEN, Topology(tp=1, ep=True)), total(QWEN, Topology(tp=1, pp=4, ep=True))
    assert one / 4 < stage < one / 4 * 1.1
    assert total(QWEN, Topology(tp=8)) == pytest.approx(total(QWEN, Topology(tp=8, ep=True)))  # experts cut or counted out: the same bytes


@pytest.mark.parametrize(
    "model",
    [
        replace(QWEN, hidden_size=0),
        replace(QWEN, vocab_size=0),
        replace(PLAIN, mlp_layers=0),
        replace(PLAIN, mlp_intermediate_size=0),
        replace(DEEPSEEK, mlp_intermediate_size=0),
        replace(DEEPSEEK, moe=replace(DEEPSEEK.moe, expert_dtype="fp3")),
    ],
)
def test_models_of_unknown_size_have_no_weights(model: Architecture) -> None:
    assert weight_parts(model, Topology(), mtp_layers=0, sequence_parallel=False) == ()


@given(
    model=st.sampled_from([QWEN, PLAIN, DEEPSEEK, NEMOTRON]),
    tp=st.sampled_from([1, 2, 4, 8]),
    dp=st.sampled_from([1, 2, 4, 8]),
    ep=st.booleans(),
    mtp=st.integers(0, 1),
    sequence_parallel=st.booleans(),
)
def test_more_gpus_never_mean_more_weights_on_each(model: Architecture, tp: int, dp: int, ep: bool, mtp: int, sequence_parallel: bool) -> None:
    here = total(model, Topology(tp=tp, dp=dp, ep=ep), mtp_layers=mtp, sequence_parallel=sequence_parallel)
    for wider in (Topology(tp=2 * tp, dp=dp, ep=ep), Topology(tp=tp, dp=2 * dp, ep=ep), Topology(tp=tp, pp=2, dp=dp, ep=ep)):
        assert total(model, wider, mtp_layers=mtp, sequence_parallel=sequence_parallel) <= here + 1e-9
    for part in weight_parts(model, Topology(tp=tp, dp=dp, ep=ep), mtp_layers=mtp, sequence_parallel=sequence_parallel):
        assert 0 <= part.gpu_gib <= part.whole_gib + 1e-9


@pytest.mark.parametrize(
    ("build", "backend", "tp", "dp", "ep", "expected"),
    [
        (NIGHTLY, ONE_SIDED, 4, 4, True, True),
        ("0.28.0", ONE_SIDED, 4, 4, True, False),
        ("0.29.0", ONE_SIDED, 4, 4, True, True),
        ("0.28.0", "allgather_reducescatter", 4, 4, True, True),
        ("0.28.0", "flashinfer_nvlink_two_sided", 4, 4, True, False),
        (NIGHTLY, ONE_SIDED, 8, 1, True, False),
        (NIGHTLY, ONE_SIDED, 1, 8, True, False),
        (NIGHTLY, ONE_SIDED, 4, 4, False, False),
    ],
)
def test_sequence_parallel_moe(build: str, backend: str, tp: int, dp: int, ep: bool, expected: bool) -> None:
    assert shards_sequences(build_of(build), backend, Topology(tp=tp, dp=dp, ep=ep)) is expected


@pytest.mark.parametrize(
    ("build", "backend", "topology", "sure"),
    [
        (NIGHTLY, ONE_SIDED, Topology(tp=4, dp=4, ep=True), True),
        ("nightly", ONE_SIDED, Topology(tp=4, dp=4, ep=True), False),
        ("0.26.1rc1.dev1300+gabc", ONE_SIDED, Topology(tp=4, dp=4, ep=True), False),
        ("nightly", "allgather_reducescatter", Topology(tp=4, dp=4, ep=True), True),
        ("nightly", ONE_SIDED, Topology(tp=8, ep=True), True),
    ],
)
def test_when_sequence_parallel_moe_is_only_inferred(build: str, backend: str, topology: Topology, sure: bool) -> None:
    assert is_sharding_sure(build_of(build), backend, topology) is sure


@pytest.mark.parametrize("key", hardware_keys())
def test_blackwell_by_compute_capability(key: str) -> None:
    assert is_blackwell(load_hardware(key)) is ("b200" in key or "b300" in key)


@pytest.mark.parametrize(("pp", "mtp", "layers", "matrices"), [(2, 0, 46, 1), (3, 0, 31, 1), (6, 0, 16, 0), (4, 1, 23, 2)])
def test_the_fullest_stage_of_an_even_model(pp: int, mtp: int, layers: int, matrices: int) -> None:
    """92 layers over PP: left-over layers go to stages before the last; reckoned anew from the parts of one GPU without stages."""
    whole = {part.name: part.gpu_gib for part in weight_parts(QWEN, Topology(tp=8, ep=True), mtp_layers=mtp, sequence_parallel=False)}
    ends = sum(gib for name, gib in whole.items() if name.startswith("MTP")) if mtp else 0
    vocabulary = whole["embedding and output matrix"] / 2
    rest = whole["rest (fitted)"]
    one = sum(gib for name, gib in whole.items() if name[:3] not in {"MTP", "emb", "res"}) / 92
    assert total(QWEN, Topology(tp=8, pp=pp, ep=True), mtp_layers=mtp) == pytest.approx(one * layers + vocabulary * matrices + ends + rest)


def test_stages_of_unlike_layers_have_a_margin_of_one() -> None:
    assert stage_margin_gib(QWEN, Topology(tp=8, ep=True), 100) == 0
    assert stage_margin_gib(PLAIN, Topology(pp=4), 100) == 0
    assert stage_margin_gib(QWEN, Topology(tp=8, pp=4, ep=True), 46) == pytest.approx(2)
    assert stage_margin_gib(DEEPSEEK, Topology(tp=8, pp=8, ep=True), 80) == pytest.approx(10)
