from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.architecture import Architecture
from recipegen.model import Role, Topology
from recipegen.sizing.what_if import Assumptions, size_topology, sweep, topologies, why_not
from tests.unit.sizing.models import DEEPSEEK, GB300, NEMOTRON, PLAIN, QWEN, SPEC


def test_the_studys_settings_are_assumed() -> None:
    """TP4DP4 asked for 1,024 requests is the study's run 6: batch limits follow, so its measured row is found."""
    recipe, sizes = size_topology(SPEC, GB300, Topology(tp=4, dp=4, ep=True), mtp=3, isl=8192, osl=1024, assume=Assumptions(concurrency=1024))
    assert recipe.workload.max_model_len == 10240
    assert sizes is not None
    assert sizes.room is not None
    assert (sizes.asked, sizes.room.requests, f"{sizes.room.concurrency:.2f}") == (256, 315, "315.94")
    assert (sizes.role.flag("max-num-seqs"), sizes.role.flag("max-num-batched-tokens")) == (272, 1104)


def test_what_is_said_is_not_assumed() -> None:
    assume = Assumptions(role=Role.PREFILL, max_model_len=4096, max_num_seqs=8, max_num_batched_tokens=8192, block_size=4352, prefix_caching=True)
    recipe, sizes = size_topology(SPEC, GB300, Topology(tp=8, ep=True), mtp=0, isl=2048, osl=128, assume=assume)
    assert sizes is not None
    assert (sizes.role.role, sizes.blocks.chosen, sizes.asked) == (Role.PREFILL, 4352, 8)
    assert (recipe.workload.max_model_len, sizes.cache and sizes.cache.blocks_per_request) == (4096, 1 + 3 * 2)


def test_a_model_without_numbers_has_no_sizes() -> None:
    bare = replace(SPEC, architecture=None)
    assert size_topology(bare, GB300, Topology(tp=8), mtp=0, isl=1, osl=1)[1] is None
    assert sweep(bare, GB300, max_gpus=72, mtp=0, isl=1, osl=1) == ()


def test_topologies_divide_the_model() -> None:
    found = set(topologies(QWEN, max_gpus=72))
    assert Topology(tp=4, dp=4, ep=True) in found
    assert Topology(tp=16, dp=4, ep=True) in found
    assert Topology(tp=32, ep=True) not in found  # 16 key heads
    assert Topology(tp=1, ep=True) not in found
    assert all(t.gpus <= 72 and t.pp == 1 for t in found)
    assert {t.ep for t in topologies(PLAIN, max_gpus=8)} == {False}
    assert Topology(tp=64, dp=4, ep=True) in set(topologies(DEEPSEEK, max_gpus=512))
    assert Topology(tp=64, dp=8, ep=True) not in set(topologies(DEEPSEEK, max_gpus=512))  # 256 experts


@pytest.mark.parametrize("mtp", [0, 3])
def test_a_sweep_ranks_what_fits(mtp: int) -> None:
    found = sweep(SPEC, GB300, max_gpus=32, mtp=mtp, isl=8192, osl=1024)
    ranks = [candidate.requests_per_gpu for candidate in found]
    assert ranks == sorted(ranks, reverse=True)
    assert len(found) > 10
    assert all(c.sizes.weights_gib < 276.62 * 0.92 and c.topology.gpus >= 8 for c in found)
    best = {str(c.topology): c for c in found}
    assert best["TP4DP4+EP"].requests == best["TP4DP4+EP"].sizes.room.workload_requests * 4
    assert "TP4+EP" not in best  # 1,242 GiB of experts do not fit on four GPUs


def test_mtp_costs_more_than_half_of_what_fits() -> None:
    without, with_mtp = ({str(c.topology): c.requests for c in sweep(SPEC, GB300, max_gpus=16, mtp=mtp, isl=8192, osl=1024)} for mtp in (0, 3))
    assert with_mtp["TP4DP4+EP"] < without["TP4DP4+EP"] / 2


@pytest.mark.parametrize(
    ("model", "topology", "reasons"),
    [
        (QWEN, Topology(tp=4, dp=4, ep=True), []),
        (QWEN, Topology(tp=3, dp=4, ep=True), ["TP3 does not divide 64 attention heads", "16 key heads", "128 value heads"]),
        (QWEN, Topology(tp=32, dp=1, ep=True), ["TP32 does not divide the 16 key heads"]),
        (QWEN, Topology(tp=16, dp=64, ep=True), ["EP1024 exceeds 512 experts"]),
        (QWEN, Topology(tp=4, ep=True), ["of weights on each GPU exceed the 254.5 GiB that the engine may use (276.62 x 0.92 of gb300-nvl72)"]),
        (PLAIN, Topology(tp=8, ep=True), ["EP needs experts, and the model is dense"]),
        (PLAIN, Topology(tp=1, pp=81), ["PP81 exceeds 80 layers"]),
        (DEEPSEEK, Topology(tp=3), ["TP3 does not divide 128 attention heads", "does not divide the width 2048 of an expert"]),
        (
            replace(PLAIN, attention=replace(PLAIN.attention, heads=60, kv_heads=10)),
            Topology(tp=4),
            ["of TP4 and 10 KV heads neither divides the other"],
        ),
        (NEMOTRON, Topology(tp=16), ["TP16 does not divide the 8 key heads"]),
        (replace(NEMOTRON, linear=replace(NEMOTRON.linear, key_heads=1)), Topology(tp=16), []),  # one group is replicated
    ],
)
def test_why_a_topology_cannot_run(model: Architecture, topology: Topology, reasons: list[str]) -> None:
    spec = SPEC if model is QWEN else replace(SPEC, key="another", architecture=model)
    _, sizes = size_topology(spec, GB300, topology, mtp=0, isl=8192, osl=1024)
    found = why_not(spec, GB300, topology, sizes)
    assert len(found) == len(reasons), found
    assert all(words in reason for words, reason in zip(reasons, found, strict=True))


def test_why_a_request_does_not_fit() -> None:
    _, sizes = size_topology(SPEC, GB300, Topology(tp=2, dp=4, ep=True), mtp=3, isl=8192, osl=1024, assume=Assumptions(max_model_len=100_000_000))
    (reason,) = why_not(SPEC, GB300, Topology(tp=2, dp=4, ep=True), sizes)
    assert reason.startswith("the longest request takes")


def test_a_ranked_topology_has_no_reason_against_it() -> None:
    for candidate in sweep(SPEC, GB300, max_gpus=16, mtp=3, isl=8192, osl=1024):
        assert why_not(SPEC, GB300, candidate.topology, candidate.sizes) == ()
