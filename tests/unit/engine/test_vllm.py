"""What the launcher adds to a vLLM worker's environment, by the way in which its transfer is written."""

from __future__ import annotations

import pytest

from recipegen.engine.vllm import VllmEngine
from recipegen.launch import WorkerLayout
from recipegen.model import Placeholder, RoleRecipe
from tests.unit.checks.views_for_tests import POINT, PointView, pair, point_of

COMMON = "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}"
SIDE_CHANNEL = {"VLLM_NIXL_SIDE_CHANNEL_HOST", "VLLM_NIXL_SIDE_CHANNEL_PORT"}
WRAPPED = "kv_connector_extra_config: {connectors: [{kv_connector: OffloadingConnector}, {kv_connector: NixlConnector}]}"


def environment(view: PointView) -> list[dict[str, object]]:
    """What the launcher sets for each role."""
    return [_of(view, role.role, role.layout) for role in view.roles]


def _of(view: PointView, role: RoleRecipe, layout: WorkerLayout | None) -> dict[str, object]:
    assert layout
    return {var.name: var.value for var in VllmEngine().command(view.recipe, role, layout).env if var.launcher}


@pytest.mark.parametrize(
    ("config", "nixl"),
    [
        (COMMON, True),
        ("kv-transfer-config.kv_connector: NixlConnector, kv-transfer-config.kv_role: kv_both", True),
        ("kv-transfer-config.kv_connector: MultiConnector, kv-transfer-config." + WRAPPED, True),
        (f"kv-transfer-config: {{kv_connector: MultiConnector, kv_role: kv_both, {WRAPPED}}}", True),
        (COMMON.replace("Nixl", "NixlPush"), True),
        (COMMON.replace("Nixl", "Mooncake"), False),
        ("kv-transfer-config.kv_connector: MooncakeConnector, kv-transfer-config.engine_id: Nixl", False),
        ("all2all-backend: nixl_ep", False),
    ],
)
def test_the_side_channel_is_given_to_nixl_however_it_is_written(config: str, nixl: bool) -> None:
    shapes = (f"{{shape: {shape}, args: {{{config}}}}}" for shape in ("1xTP2DP4", "1xTP4DP4"))
    view = point_of(pair(*shapes), (f"    {COMMON}\n", ""))
    for found in environment(view):
        assert SIDE_CHANNEL & set(found) == (SIDE_CHANNEL if nixl else set())
        assert not nixl or found["VLLM_NIXL_SIDE_CHANNEL_HOST"] == Placeholder("NODE_ADDRESS")


@pytest.mark.parametrize("written", ["10.0.0.7", "null"])
def test_a_variable_of_the_recipe_is_left_to_it(written: str) -> None:
    view = point_of(POINT, ("env: {", f"env: {{VLLM_NIXL_SIDE_CHANNEL_HOST: {written}, "))
    assert all("VLLM_NIXL_SIDE_CHANNEL_HOST" not in found and "VLLM_NIXL_SIDE_CHANNEL_PORT" in found for found in environment(view))
