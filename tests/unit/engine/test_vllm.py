"""What the launcher adds to a vLLM worker: environment, by the way in which its transfer is written, and KV events with their ports."""

from __future__ import annotations

import json

import pytest

from recipegen.engine.vllm import VllmEngine
from recipegen.launch import LaunchPlan, WorkerLayout
from recipegen.model import Placeholder, RoleRecipe
from tests.support import MINIMAL, agg_point, matrix_of, plan_one
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


def ports(plan: LaunchPlan, name: str) -> list[tuple[int, int]]:
    return [(port.base, port.count) for process in plan.processes for port in process.ports if port.name == name]


@pytest.mark.parametrize(
    ("shape", "without", "with_events"),
    [("1xTP4", 1, 1), ("2xTP1", 1, 1), ("1xTP2DP2", 2, 2), ("1xTP2DP4", 2, 4), ("1xTP4DP4", 1, 4), ("1xTP8DP2", 1, 2)],
)
def test_every_rank_of_a_worker_has_a_port_for_its_events(shape: str, without: int, with_events: int) -> None:
    """Rank r publishes at the base + r on its own node, whichever ranks are there."""
    off, on = (plan_one(matrix_of(agg_point(shape)) + more) for more in ("", "kv_events: true\n"))
    assert {count for _, count in ports(off, "KV_EVENT_PORT")} == {without}
    assert {count for _, count in ports(on, "KV_EVENT_PORT")} == {with_events}
    for process in on.processes:
        taken = [port.base + n for port in process.ports for n in range(port.count)]
        assert len(set(taken)) == len(taken)


def test_events_are_told_to_workers_of_the_role_alone() -> None:
    plan = plan_one(matrix_of('{prefill: 1xTP2DP4, decode: 1xTP4, concurrency: [1], time_limit: "1:00:00"}') + "kv_events: true\n")
    told = {process.role.value: process.argv[-2:] for process in plan.processes if "--kv-events-config" in process.argv}
    assert told == {"prefill": ("--kv-events-config", told["prefill"][1])}
    assert json.loads(str(told["prefill"][1])) == {
        "publisher": "zmq", "topic": "kv-events", "enable_kv_cache_events": True, "endpoint": "tcp://*:${KV_EVENT_PORT}",
    }  # fmt: skip
    assert {count for _, count in ports(plan, "KV_EVENT_PORT")} == {1, 4}


def test_a_simulation_has_the_same_ports_and_no_argument() -> None:
    """The mocker publishes through Dynamo's runtime."""
    text = matrix_of(agg_point("1xTP2DP4")) + "kv_events: true\n"
    real, simulated = plan_one(text), plan_one(text, simulate=True)
    assert [process.ports for process in simulated.processes] == [process.ports for process in real.processes]
    assert not any("kv-events" in str(word) for process in simulated.processes for word in process.argv)


@pytest.mark.parametrize(
    ("dynamo", "prefill", "decode"),
    [
        ("version: 1.2.1", ["--disaggregation-mode", "prefill"], ["--disaggregation-mode", "decode"]),
        ("version: 1.0.0.dev20260301", ["--disaggregation-mode", "prefill"], ["--disaggregation-mode", "decode"]),
        ("install: present", ["--disaggregation-mode", "prefill"], ["--disaggregation-mode", "decode"]),
        ("version: 0.8.0", ["--is-prefill-worker", "--connector", "none"], ["--is-decode-worker", "--connector", "none"]),
    ],
)
def test_a_worker_s_role_is_told_as_its_dynamo_takes_it(dynamo: str, prefill: list[str], decode: list[str]) -> None:
    """Before 1.0 `--disaggregation-mode` ended the worker, and so did `--kv-transfer-config` beside the connector that is nixl by default."""
    plan = plan_one(matrix_of(POINT, head=MINIMAL.replace("version: 1.2.1", dynamo)))
    told = {"--disaggregation-mode", "prefill", "decode", "--is-prefill-worker", "--is-decode-worker", "--connector", "none"}
    assert [[word for word in process.argv if word in told] for process in plan.processes[:: len(plan.processes) - 1]] == [prefill, decode]


def test_an_aggregated_worker_of_an_old_dynamo_has_no_role() -> None:
    plan = plan_one(matrix_of(agg_point("1xTP4"), head=MINIMAL.replace("version: 1.2.1", "version: 0.9.1")))
    assert not {"--disaggregation-mode", "--is-prefill-worker", "--is-decode-worker"} & set(plan.processes[0].argv)
