"""The eight points against the study's table, written out as data."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import pytest

from recipegen.launch import LaunchPlan, Process
from recipegen.model import Role
from recipegen.plan_json import plan_document
from tests.support import ROOT, published_plans

TABLE = json.loads((ROOT / "tests/data/published_points.json").read_text())
POINTS = {point["name"]: point for point in TABLE["points"]}

LAUNCHER_FLAGS = {
    "model", "served-model-name", "revision", "disaggregation-mode",
    "data-parallel-size-local", "data-parallel-start-rank", "data-parallel-address", "data-parallel-rpc-port", "data-parallel-hybrid-lb",
    "nnodes", "node-rank", "master-addr", "master-port", "headless",
}  # fmt: skip


def expected_flags(point: dict[str, Any], role: str) -> dict[str, Any]:
    flags = dict(TABLE["shared_flags"]) | TABLE["shapes"][point[role][1]] | TABLE[f"{role}_flags"]
    if point["mtp"]:
        flags |= TABLE["mtp_flags"]
    if point["block_size"]:
        flags["block-size"] = point["block_size"]
    if role == "decode":
        flags |= dict(zip(("max-num-seqs", "max-cudagraph-capture-size", "max-num-batched-tokens"), point["decode_sizes"], strict=True))
    return flags


def flags_of(argv: list[str]) -> dict[str, Any]:
    """Read `--flag [value]` back, independently of how the command was built."""
    assert argv[:3] == ["python3", "-m", "dynamo.vllm"]
    found: dict[str, Any] = {}
    for word in argv[3:]:
        if re.match(r"--[a-z]", word):
            name = word[2:]
            assert name not in found
            found[name] = True
        else:
            assert found[name] is True
            found[name] = int(word) if word.isdigit() else word
    return found


def test_the_points_are_these_eight_in_this_order() -> None:
    assert [plan.recipe.point for plan in published_plans()] == list(POINTS)


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_every_process_has_exactly_the_published_flags(plan: LaunchPlan) -> None:
    point = POINTS[plan.recipe.point]
    for process in plan_document(plan)["processes"]:
        flags = flags_of(process["argv"])
        engine = {name: value for name, value in flags.items() if name not in LAUNCHER_FLAGS}
        assert engine == expected_flags(point, process["role"])
        assert list(engine) == sorted(engine)
        assert flags["model"] == "${MODEL}"
        assert flags["revision"] == "a6abb8bfb82b6965166d4129275f012d8809bc40"
        assert flags["disaggregation-mode"] == process["role"]


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_every_process_has_exactly_the_published_environment(plan: LaunchPlan) -> None:
    for process in plan_document(plan)["processes"]:
        assert process["env"] == TABLE["recipe_env"] | TABLE["launcher_env"]


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_nodes_instances_and_limits(plan: LaunchPlan) -> None:
    point = POINTS[plan.recipe.point]
    document = plan_document(plan)
    prefill, decode = point["nodes"]
    assert document["directives"] == {
        "nodes": prefill + decode,
        "ntasks_per_node": 1,
        "time_limit_s": point["time_limit_s"],
        "exclusive": True,
        "gpus_per_node": 4,
        "segment": prefill + decode,
    }
    assert document["expected_instances"] == dict(zip(("prefill", "decode"), point["instances"], strict=True))
    assert document["workload"]["concurrency"] == point["concurrency"]
    roles_of_nodes = [process["role"] for process in document["processes"]]
    assert roles_of_nodes == ["prefill"] * prefill + ["decode"] * decode
    assert [process["node_index"] for process in document["processes"]] == list(range(prefill + decode))
    assert all(process["device_ids"] == [0, 1, 2, 3] for process in document["processes"])


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_ranks_and_headless_nodes(plan: LaunchPlan) -> None:
    for process in plan_document(plan)["processes"]:
        flags = flags_of(process["argv"])
        rank = process["node_rank"]
        if flags.get("data-parallel-size"):
            local = 4 // flags["tensor-parallel-size"]
            assert flags["data-parallel-size-local"] == local
            assert flags["data-parallel-start-rank"] == rank * local
            assert flags["data-parallel-address"] == "${LEADER_ADDRESS}"
            assert flags["data-parallel-hybrid-lb"] is True
            assert not process["headless"]
            assert "nnodes" not in flags
        else:
            assert (flags["nnodes"], flags["node-rank"]) == (2, rank)
            assert flags["master-addr"] == "${LEADER_ADDRESS}"
            assert ("headless" in flags) == process["headless"] == (rank > 0)


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_registering_processes_are_the_expected_instances(plan: LaunchPlan) -> None:
    registering = Counter(process.role for process in plan.processes if not process.headless)
    assert dict(registering) == plan.expected


def ports_of(process: Process) -> list[int]:
    return [port.base + i for port in process.ports for i in range(port.count)]


@pytest.mark.parametrize("plan", published_plans(), ids=lambda plan: plan.recipe.point)
def test_ports_of_a_node_never_collide(plan: LaunchPlan) -> None:
    by_node: dict[int, list[int]] = {0: [service.base for service in plan.services]}
    for process in plan.processes:
        by_node.setdefault(process.node_index, []).extend(ports_of(process))
    for ports in by_node.values():
        assert len(ports) == len(set(ports))
        assert max(ports) - min(ports) < plan.port_step
        assert max(ports) + (plan.port_slots - 1) * plan.port_step < 32768


def test_roles_are_prefill_then_decode() -> None:
    assert {tuple(plan.expected) for plan in published_plans()} == {(Role.PREFILL, Role.DECODE)}
