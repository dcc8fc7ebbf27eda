"""Every shape of the study, and the shapes that do not fit nodes."""

from __future__ import annotations

import pytest

from recipegen.errors import InputError
from recipegen.launch import LaunchMode, LaunchPlan
from tests.support import MINIMAL, agg_point, matrix_of, plan_one

SPANNING, BY_NODE, ONE_NODE = LaunchMode.SPANNING, LaunchMode.NODE_LOCAL_DP, LaunchMode.ONE_NODE


def argv_of(plan: LaunchPlan, process: int) -> str:
    return " ".join(map(str, plan.processes[process].argv))


@pytest.mark.parametrize(
    ("topology", "mode", "nodes", "gpus", "local_dp", "instances", "flags"),
    [
        ("TP4DP2", BY_NODE, 2, 4, 1, 2, "--data-parallel-size-local 1 --data-parallel-start-rank 1"),
        ("TP2DP4", BY_NODE, 2, 4, 2, 2, "--data-parallel-size-local 2 --data-parallel-start-rank 2"),
        ("TP4DP4", BY_NODE, 4, 4, 1, 4, "--data-parallel-size-local 1 --data-parallel-start-rank 1"),
        ("TP2DP8", BY_NODE, 4, 4, 2, 4, "--data-parallel-size-local 2 --data-parallel-start-rank 2"),
        ("DP16", BY_NODE, 4, 4, 4, 4, "--data-parallel-size-local 4 --data-parallel-start-rank 4"),
        ("TP4DP8", BY_NODE, 8, 4, 1, 8, "--data-parallel-size-local 1 --data-parallel-start-rank 1"),
        ("TP1PP6", SPANNING, 2, 3, 1, 1, "--nnodes 2 --node-rank 1"),
        ("TP1PP8", SPANNING, 2, 4, 1, 1, "--nnodes 2 --node-rank 1"),
        ("TEP8", SPANNING, 2, 4, 1, 1, "--nnodes 2 --node-rank 1"),
        ("TEP16", SPANNING, 4, 4, 1, 1, "--nnodes 4 --node-rank 1"),
        ("TP8DP2", SPANNING, 4, 4, 1, 1, "--nnodes 4 --node-rank 1"),
    ],
)
def test_shapes_across_nodes(topology: str, mode: LaunchMode, nodes: int, gpus: int, local_dp: int, instances: int, flags: str) -> None:
    plan = plan_one(matrix_of(agg_point(f"1x{topology}")))
    layout = plan.roles[0].layout
    assert (layout.mode, layout.nodes, layout.gpus_per_process, layout.local_dp) == (mode, nodes, gpus, local_dp)
    assert layout.instances == instances == sum(not process.headless for process in plan.processes)
    assert flags in argv_of(plan, 1)
    assert ("--headless" in argv_of(plan, 1)) == (mode is SPANNING)
    assert "--headless" not in argv_of(plan, 0)


@pytest.mark.parametrize(("topology", "per_node", "gpus"), [("TP4", 1, 4), ("TP2", 2, 2), ("TP1", 4, 1), ("TP2DP2", 1, 4), ("TP3", 1, 3)])
def test_shapes_inside_a_node(topology: str, per_node: int, gpus: int) -> None:
    plan = plan_one(matrix_of(agg_point(f"5x{topology}")))
    layout = plan.roles[0].layout
    assert (layout.mode, layout.workers_per_node, layout.gpus_per_process) == (ONE_NODE, per_node, gpus)
    assert layout.nodes == -(-5 // per_node)
    assert layout.instances == 5
    on_first = [process for process in plan.processes if process.node_index == 0]
    assert [d for process in on_first for d in process.device_ids] == list(range(per_node * gpus))
    assert "--nnodes" not in argv_of(plan, 0)
    assert ("--data-parallel-size 2" in argv_of(plan, 0)) == ("DP" in topology)
    assert "--data-parallel-size-local" not in argv_of(plan, 0)


def test_workers_of_one_node_have_ports_of_their_own() -> None:
    plan = plan_one(matrix_of(agg_point("4xTP1")))
    ports = [port.base + i for process in plan.processes for port in process.ports for i in range(port.count)]
    assert len(ports) == len(set(ports))
    assert all("VLLM_PORT" in {var.name for var in process.env} for process in plan.processes)


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ("TP2DP3", "DP3 is not a multiple of 2"),
        ("DP6", "DP6 is not a multiple of 4"),
        ("TP1PP5", "= 5 GPUs, which 2 nodes cannot share evenly"),
        ("4096xTP16", "takes 65536 GPUs; expected 32768 at most"),
        ("TP7", "= 7 GPUs, which 2 nodes cannot share evenly"),
    ],
)
def test_what_does_not_fit_is_an_error_with_a_place(topology: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_one(matrix_of(agg_point(topology)))
    (problem,) = caught.value.problems
    assert words in problem.message
    assert (problem.source.line, problem.source.file) == (MINIMAL.count("\n") + 1, "matrix.yaml")


def test_a_point_larger_than_a_domain_asks_for_no_segment() -> None:
    assert plan_one(matrix_of(agg_point("18xTP4"))).directives.segment == 18
    assert plan_one(matrix_of(agg_point("19xTP4"))).directives.segment == 0
