"""The published study's memory table, its operating points, and the second published anchor: to the printed digit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.catalogue import load_hardware, load_model
from recipegen.model import Recipe, Role, Topology
from recipegen.sizing.calibration import MeasuredRow
from recipegen.sizing.measured import measured_rows, size_measured
from recipegen.sizing.role_sizes import room_for, size_role
from recipegen.sizing.sizes import RoleSizes
from recipegen.sizing.what_if import Assumptions, size_topology
from tests.support import published_plans

SPEC, GB300 = load_model("qwen3.8-2.4t-nvfp4"), load_hardware("gb300-nvl72")
ROWS = measured_rows(SPEC, GB300)

# block size, graphs, the study's concurrency, vLLM's, and vLLM's with --block-size 2176
TABLE = [
    (1088, 11, "112.0", "303.00", "196.06", 302),
    (1088, 17, "111.5", "301.64", "195.18", 301),
    (1088, 37, "110.1", "297.86", "192.71", 297),
    (1088, 85, "98.4", "266.36", "172.35", 266),
    (2176, 37, "180.4", "315.88", None, 315),
    (2176, 85, "180.5", "315.94", None, 315),
    (2112, 52, "180.7", "722.88", None, 722),
    (2112, 60, "179.2", "716.88", None, 716),
]


@pytest.mark.parametrize(
    ("row", "expected"), list(zip(ROWS, TABLE, strict=True)), ids=lambda value: f"run {value.run}" if isinstance(value, MeasuredRow) else ""
)
def test_the_studys_memory_table(row: MeasuredRow, expected: tuple[int, int, str, str, str | None, int]) -> None:
    found = size_measured(SPEC, GB300, row)
    paired = found.paired_room and f"{found.paired_room.concurrency:.2f}"
    room = found.room
    assert (
        found.sizes.blocks.natural,
        found.sizes.graphs.count,
        f"{room.study_requests:.1f}",
        f"{room.concurrency:.2f}",
        paired,
        room.requests,
    ) == expected
    assert found.sizes.graphs.count == row.graphs
    assert found.paired_block == (2176 if row.topology.tp == 8 else None)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_weights_and_kv_cache_within_a_hundredth_of_a_gib(row: MeasuredRow) -> None:
    """Weights as derived, the KV cache by the budget's rule from the measured parts; both as printed, two digits."""
    found = size_measured(SPEC, GB300, row)
    assert round(abs(found.sizes.weights_gib - row.weights), 2) <= 0.01
    assert round(abs(round(found.kv_gib, 2) - row.kv), 2) <= 0.01


def sized(recipe: Recipe, role: Role) -> RoleSizes:
    (found,) = (size_role(recipe, r) for r in recipe.roles if r.role is role)
    assert found is not None
    return found


POINTS = ["303.00", "195.18", "192.71", "315.88", "315.88", "315.94", "315.94", "716.88"]


def test_decode_concurrency_by_point() -> None:
    decodes = [sized(plan.recipe, Role.DECODE) for plan in published_plans()]
    assert [f"{sizes.room.concurrency:.2f}" for sizes in decodes if sizes.room] == POINTS
    assert [sizes.blocks.chosen for sizes in decodes] == [1088, 2176, 2176, 2176, 2176, 2176, 2176, 2112]
    assert [sizes.asked for sizes in decodes] == [4, 16, 64, 32, 64, 128, 256, 640]
    assert all(sizes.budget and "run" in sizes.budget.calibration and sizes.room == sizes.room_low for sizes in decodes)


def test_decode_head_room_by_point() -> None:
    heads = [sized(plan.recipe, Role.DECODE).head_room for plan in published_plans()]
    assert heads[-1] == pytest.approx(716 / 640 - 1)
    assert all(head is not None and head > 0 for head in heads)


def test_prefill_by_point() -> None:
    """Never measured: the interval holds all requests that prefill at once at its best, and says that it is an estimate."""
    prefills = [sized(plan.recipe, Role.PREFILL) for plan in published_plans()]
    assert [sizes.asked for sizes in prefills] == [4, 8, 16, 32, 32, 32, 32, 32]
    assert [sizes.graphs.count for sizes in prefills] == [35] * 7 + [11]
    assert [round(sizes.weights_gib, 1) for sizes in prefills] == [169.3, 187.2, *[207.9] * 5, 205.6]
    for sizes in prefills:
        assert sizes.room is not None
        assert sizes.room_low is not None
        assert sizes.budget is not None
        assert sizes.room_low.requests < sizes.room.requests
        assert sizes.room.requests >= sizes.asked
        assert "not derivable" in sizes.budget.activation.origin


@pytest.mark.parametrize(("tokens", "requests"), [(262_144, 25), (9_240, 506)])
def test_second_anchor(tokens: int, requests: int) -> None:
    """Published for this model on GB300 with TP8, no MTP and 70 GiB of KV cache a GPU: so many full requests of so many tokens.

    Compared is vLLM's maximum concurrency at max-model-len = tokens with block 1056: fp8 attention, bf16 state, no prefix caching.
    """
    assume = Assumptions(max_model_len=tokens)
    recipe, sizes = size_topology(SPEC, GB300, Topology(tp=8, ep=True), mtp=0, isl=8192, osl=1024, assume=assume)
    room = room_for(recipe, recipe.roles[0], 70.0)
    assert sizes is not None
    assert room is not None
    assert sizes.blocks.chosen == 1056
    assert room.concurrency == pytest.approx(requests, rel=0.05)


def test_prefix_caching_and_float32_state_by_omission() -> None:
    """What two flags left out cost at TP4DP4 with MTP 3: 315.9 requests become 268.5 and 184.4."""
    (recipe,) = (plan.recipe for plan in published_plans() if plan.recipe.point.endswith("cc256"))
    decode = recipe.roles[1]
    roles = [
        replace(decode, flags=tuple(flag for flag in decode.flags if flag.name != name))
        for name in ("no-enable-prefix-caching", "mamba-ssm-cache-dtype")
    ]
    caching, wide = (room_for(recipe, role, 133.74) for role in roles)
    assert caching is not None
    assert wide is not None
    assert f"{caching.concurrency:.1f}" == "268.5"
    assert f"{wide.concurrency:.1f}" == "184.4"
