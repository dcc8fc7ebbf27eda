"""Decode workers on the GPUs that prefill workers leave free: nodes, GPUs, ports, the plan, the scripts, the names."""

from __future__ import annotations

import itertools
import subprocess
from collections import defaultdict

import pytest

from recipegen.errors import InputError
from recipegen.launch import LaunchPlan, Process
from recipegen.layout import PORT_LIMIT, WORKER_PORTS, idle_gpus, span
from recipegen.model import Role
from recipegen.pipeline import check_matrix, render_plans
from recipegen.plan_json import plan_document
from tests.support import MINIMAL, ROOT, agg_point, matrix_of, plan_one

WIDE = MINIMAL.replace("hardware: gb300-nvl72", "hardware: {type: gb300-nvl72, gpus_per_node: 8}")
SLOTS = """source templates/lib/job.sh
start_step() { echo "$1 $2 $3"; }
BUNDLE=/b
"""


def both(prefill: str, decode: str, *, head: str = WIDE, more: str = "", colocate: bool = True, simulate: bool = False) -> LaunchPlan:
    point = f'{{prefill: {prefill}, decode: {decode}, {"colocate: true, " if colocate else ""}concurrency: [64], time_limit: "1:00:00"}}'
    return plan_one(matrix_of(point, head=head) + more, simulate=simulate)


def places(plan: LaunchPlan, role: Role) -> list[tuple[int, str]]:
    return [(p.node_index, ",".join(map(str, p.device_ids))) for p in plan.processes if p.role is role]


def ports_of(process: Process) -> set[int]:
    return {port.base + i for port in process.ports for i in range(port.count)}


@pytest.mark.parametrize(
    ("prefill", "decode", "nodes", "where", "idle"),
    [
        ("2xTP2", "1xTP2", 1, [(0, "4,5")], 2),
        ("1xTP2", "1xTP4", 1, [(0, "4,5,6,7")], 2),
        ("6xTP2", "2xTP2", 2, [(1, "4,5"), (1, "6,7")], 0),
        ("6xTP2", "3xTP2", 3, [(1, "4,5"), (1, "6,7"), (2, "0,1")], 6),
        ("1xTP1", "9xTP1", 2, [*((0, str(gpu)) for gpu in range(1, 8)), (1, "0"), (1, "1")], 6),
        ("1xTP6", "2xTP1", 1, [(0, "6"), (0, "7")], 0),
        ("1xTP2", "2xTP3", 2, [(0, "3,4,5"), (1, "0,1,2")], 8),
        ("1xTP1", "1xTP5", 2, [(1, "0,1,2,3,4")], 10),
        ("1xTP8", "1xTP4", 2, [(1, "0,1,2,3")], 4),
        ("4xTP2", "1xTP2", 2, [(1, "0,1")], 6),
        ("1xTP2DP2", "1xTP2DP2", 1, [(0, "4,5,6,7")], 0),
    ],
)
def test_decode_begins_where_prefill_ends(prefill: str, decode: str, nodes: int, where: list[tuple[int, str]], idle: int) -> None:
    plan = both(prefill, decode)
    layouts = [role.layout for role in plan.roles]
    assert places(plan, Role.DECODE) == where
    assert (plan.directives.nodes, plan.directives.segment, span(layouts), idle_gpus(layouts, plan.recipe.hardware)) == (nodes, nodes, nodes, idle)
    assert {p.node_index for p in plan.processes} == set(range(nodes))
    assert places(plan, Role.PREFILL) == places(both(prefill, decode, colocate=False), Role.PREFILL)


PAIRS = list(itertools.product(("1xTP1", "3xTP1", "7xTP1", "3xTP2", "2xTP3", "1xTP2DP2"), ("1xTP1", "9xTP1", "2xTP2", "3xTP3")))


@pytest.mark.parametrize("sizes", PAIRS, ids="-".join)
def test_no_gpu_and_no_port_of_a_node_has_two_owners(sizes: tuple[str, str]) -> None:
    plan = both(*sizes, more="infra: {dedicated_node: true}\n")
    gpus, ports = defaultdict(list), defaultdict(list)
    for process in plan.processes:
        gpus[process.node_index] += process.device_ids
        ports[process.node_index] += ports_of(process)
    assert min(gpus) == 1
    assert plan.directives.nodes == max(gpus) + 1
    for owned in (*gpus.values(), *ports.values()):
        assert len(owned) == len(set(owned))
    assert all(set(owned) <= set(range(8)) for owned in gpus.values())
    highest = max(port for owned in ports.values() for port in owned)
    assert min(port for owned in ports.values() for port in owned) == WORKER_PORTS
    assert highest - WORKER_PORTS < plan.port_step
    assert highest + plan.port_step * (plan.port_slots - 1) < PORT_LIMIT


def test_workers_of_both_roles_take_no_more_ports_than_as_many_of_one() -> None:
    assert both("7xTP1", "1xTP1").port_step == plan_one(matrix_of(agg_point("8xTP1"), head=WIDE)).port_step


@pytest.mark.parametrize(("prefill", "decode", "who"), [("1xTP4DP4", "1xTP2", "prefill"), ("1xTP2", "1xTP16", "decode")])
def test_only_workers_of_one_node_share_it(prefill: str, decode: str, who: str) -> None:
    with pytest.raises(InputError) as caught:
        both(prefill, decode)
    (problem,) = caught.value.problems
    assert f"a {who} worker takes 2 nodes, and only workers that fit into one can share it with another role: leave `colocate` out" in problem.message
    assert (problem.rule, problem.source.line) == ("placement", WIDE.count("\n") + 1)


def test_one_role_has_nothing_to_share() -> None:
    text = matrix_of(agg_point("1xTP4").replace("{agg", "{colocate: true, agg"))
    checked = check_matrix(text.encode(), "matrix.yaml")
    (finding,) = checked.errors
    assert (finding.rule, finding.message) == ("colocate", "`colocate` is for prefill and decode workers, and this point has one role")


def test_the_name_tells_and_the_digest_differs() -> None:
    point = '{prefill: 6xTP2, decode: 2xTP2, mtp: 3, colocate: true, concurrency: [64], time_limit: "1:00:00"}'
    apart = point.replace("colocate: true, ", "")
    checked = check_matrix(matrix_of(point, apart, head=WIDE).encode(), "matrix.yaml")
    assert [plan.recipe.point for plan in checked.plans] == ["6xtp2-2xtp2-colocated-mtp-cc64", "6xtp2-2xtp2-mtp-cc64"]
    one, other = map(plan_document, checked.plans)
    assert (one["colocate"], "colocate" in other) == (True, False)
    assert one["recipe_digest"] != other["recipe_digest"]


@pytest.mark.parametrize(("prefill", "decode"), [("2xTP2", "1xTP2"), ("6xTP2", "3xTP2"), ("1xTP1", "9xTP1"), ("4xTP2", "1xTP2")])
def test_the_job_starts_workers_on_the_nodes_of_the_plan(prefill: str, decode: str) -> None:
    """The lines of job.sbatch, run by lib/job.sh with a step that only says where it would stand."""
    plan = both(prefill, decode)
    (bundle,) = render_plans([plan])
    lines = [line for line in bundle.files["job.sbatch"].decode().splitlines() if line.startswith("start_workers ")]
    done = subprocess.run(["bash", "-c", SLOTS + "\n".join(lines)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == [f"{p.role.value}-{p.worker} {p.node_index} 1" for p in plan.processes]
