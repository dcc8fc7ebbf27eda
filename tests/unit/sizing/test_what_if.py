from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.model import Role, Topology
from recipegen.sizing.what_if import Assumptions, size_topology, sweep, topologies
from tests.unit.sizing.models import DEEPSEEK, GB300, PLAIN, QWEN, SPEC


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
    assert best["TP4DP4+EP"].requests == best["TP4DP4+EP"].sizes.room.requests * 4
    assert "TP4+EP" not in best  # 1,242 GiB of experts do not fit on four GPUs


def test_mtp_costs_more_than_half_of_what_fits() -> None:
    without, with_mtp = ({str(c.topology): c.requests for c in sweep(SPEC, GB300, max_gpus=16, mtp=mtp, isl=8192, osl=1024)} for mtp in (0, 3))
    assert with_mtp["TP4DP4+EP"] < without["TP4DP4+EP"] / 2
