"""Prefill and decode on one node, in and out: by nodes, by switches, in both layouts; and workers that use fewer GPUs than they are given."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import yaml

from recipegen.errors import InputError
from recipegen.launch import LaunchPlan
from recipegen.pipeline import plan_matrix
from recipegen.srtslurm.export import export_point
from tests.support import MINIMAL, matrix_of, plan_one
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, reasons

ALLOW, ACROSS = "allow_prefill_decode_colocation", "allow_prefill_decode_colocation_across_nodes"
SIZE = "tensor-parallel-size: 4"
WIDE = MINIMAL.replace("hardware: gb300-nvl72", "hardware: {type: gb300-nvl72, gpus_per_node: 8}")


def recipe(nodes: tuple[int, int], workers: tuple[int, int], gpus: tuple[int, int], *switches: str) -> str:
    """A v1 recipe on nodes of 4 GPUs."""
    (p_nodes, d_nodes), (p_workers, d_workers), (p_gpus, d_gpus) = nodes, workers, gpus
    text = changed(V1, ("name: tiny-1xtp4-1xtp4-cc4-16", "name: tiny"), ("prefill_nodes: 1", f"prefill_nodes: {p_nodes}"))
    text = changed(text, ("decode_nodes: 1", f"decode_nodes: {d_nodes}"), ("prefill_workers: 1", f"prefill_workers: {p_workers}"))
    text = changed(text, ("decode_workers: 1", f"decode_workers: {d_workers}"), ("gpus_per_prefill: 4", f"gpus_per_prefill: {p_gpus}"))
    text = changed(
        text, ("gpus_per_decode: 4", f"gpus_per_decode: {d_gpus}"), ("  type: vllm\n", "  type: vllm\n" + "".join(f"  {s}: true\n" for s in switches))
    )
    head, prefill, decode = text.split(SIZE)
    return f"{head}tensor-parallel-size: {p_gpus}{prefill}tensor-parallel-size: {d_gpus}{decode}"


def point_of(text: str) -> str:
    (plan,) = plan_matrix(text.encode(), "matrix.yaml")
    return plan.recipe.point


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "switches", "point", "note"),
    [
        ((1, 0), (1, 1), (2, 2), (), "1xtp2-1xtp2-colocated-cc4-16", ""),
        ((2, 0), (3, 2), (2, 1), (), "3xtp2-2xtp1-colocated-cc4-16", ""),
        ((2, 0), (1, 1), (2, 2), (), "1xtp2-1xtp2-cc4-16", ""),
        ((3, 0), (1, 1), (2, 2), (), "1xtp2-1xtp2-cc4-16", "prefill and decode have 3 nodes, but 1 x 2 and 1 x 2 GPUs take 2 of 4; the others are left out"),
        ((2, 0), (2, 1), (2, 2), (), "2xtp2-1xtp2-cc4-16", ""),
        ((2, 0), (1, 1), (2, 2), (ALLOW,), "1xtp2-1xtp2-colocated-cc4-16", "prefill and decode have 2 nodes, but 1 x 2 and 1 x 2 GPUs take 1 of 4"),
        ((1, 1), (1, 1), (1, 2), (ALLOW,), "1xtp1-1xtp2-colocated-cc4-16", "prefill and decode have 2 nodes, but 1 x 1 and 1 x 2 GPUs take 1 of 4"),
        ((1, 1), (1, 2), (2, 2), (ALLOW,), "1xtp2-2xtp2-cc4-16", f"'backend.{ALLOW}' changes nothing: the workers do not fit into one node, and `{ACROSS}`"),
        ((1, 1), (1, 2), (2, 2), (ALLOW, ACROSS), "1xtp2-2xtp2-colocated-cc4-16", ""),
        ((1, 2), (1, 5), (1, 1), (ALLOW, ACROSS), "1xtp1-5xtp1-colocated-cc4-16", "prefill and decode have 3 nodes, but 1 x 1 and 5 x 1 GPUs take 2 of 4"),
        ((1, 1), (1, 1), (2, 2), (ACROSS,), "1xtp2-1xtp2-cc4-16", f"'backend.{ACROSS}' changes nothing: srtctl heeds it beside `{ALLOW}` only"),
        ((1, 2), (1, 1), (4, 8), (ALLOW, ACROSS), "1xtp4-1xtp8-cc4-16", "changes nothing: workers that fill nodes share none"),
        ((3, 0), (1, 1), (4, 8), (), "1xtp4-1xtp8-cc4-16", ""),
    ],
)  # fmt: skip
def test_roles_share_a_node_where_srtctl_lets_them(
    nodes: tuple[int, int], workers: tuple[int, int], gpus: tuple[int, int], switches: tuple[str, ...], point: str, note: str
) -> None:
    report, text = import_one(recipe(nodes, workers, gpus, *switches))
    assert point_of(text) == point, reasons(report)
    own = [str(one) for one in report.notes if "colocation" in str(one) or " take " in str(one)]
    assert len(own) == bool(note)
    assert note in "".join(own)


def test_decode_without_nodes_has_workers_as_large_as_prefill() -> None:
    report, text = import_one(recipe((1, 0), (1, 1), (2, 2)).replace("  gpus_per_decode: 2\n", ""))
    assert point_of(text) == "1xtp2-1xtp2-colocated-cc4-16", reasons(report)
    report, _ = import_one(recipe((2, 0), (1, 1), (2, 4)).replace("  gpus_per_decode: 4\n", ""))
    (reason,) = reasons(report)
    assert "a worker of decode has 2 GPUs, as one of prefill has, but TP4 x PP1 x DP1 = 4 takes more [srt-gpus]" in reason


@pytest.mark.parametrize("nodes", [(1, 0), (3, 0), (2, 1)])
def test_nodes_that_are_left_out_hold_no_front_ends(nodes: tuple[int, int]) -> None:
    """srtctl puts a front end on every node but the first; the matrix has one node."""
    report, text = import_one(recipe(nodes, (1, 1), (2, 2), ALLOW).replace(", enable_multiple_frontends: false", ""))
    assert "replicas" not in text, reasons(report)
    assert point_of(text) == "1xtp2-1xtp2-colocated-cc4-16"


@pytest.mark.parametrize(("value", "said"), [("maybe", "expected true or false"), ("1", "expected true or false")])
def test_a_switch_is_true_or_false(value: str, said: str) -> None:
    report, _ = import_one(changed(V1, ("  type: vllm\n", f"  type: vllm\n  {ALLOW}: {value}\n")))
    assert said in reasons(report)[0]
    assert "[srt-type]" in reasons(report)[0]


def test_the_second_layout_says_colocate() -> None:
    text = V2.replace(SIZE, "tensor-parallel-size: 2").replace("gpus: 4", "gpus: 2")
    head, _, tail = text.rpartition("    nodes: 1\n")
    report, matrix = import_one(f"{head}    nodes: colocate\n{tail}")
    assert point_of(matrix) == "1xtp2-1xtp2-colocated-cc4-16", reasons(report)
    report, matrix = import_one(changed(text, ("engine: {type: vllm, ", f"engine: {{type: vllm, {ALLOW}: true, ")))
    assert point_of(matrix) == "1xtp2-1xtp2-colocated-cc4-16", reasons(report)


def test_workers_that_stand_on_other_nodes_than_srtctls_are_noted() -> None:
    """1 x 2 and 2 x 3 GPUs on nodes of 8: srtctl leaves no gap, and here a worker begins at a multiple of its size."""
    wide = changed(recipe((2, 0), (1, 2), (2, 3), ALLOW, ACROSS), ("gpus_per_node: 4", "gpus_per_node: 8"))
    report, text = import_one(wide)
    assert "colocate: true" in text, reasons(report)
    told = "decode worker 1 stands on node 1, but srtctl, which packs workers of both roles without gaps, would put it on node 0"
    assert told in [note.message for note in report.notes]
    even = changed(recipe((1, 0), (1, 2), (2, 1), ALLOW), ("gpus_per_node: 4", "gpus_per_node: 8"))
    assert not any("stands on node" in note.message for note in import_one(even)[0].notes)


Place = tuple[str, int, int]


def srtctls(resources: dict[str, Any], backend: dict[str, Any]) -> list[Place] | None:
    """Role, node and first GPU of each worker as srtctl allocates them for a v1 recipe of workers that fit into a node; None: it fails."""
    width, roles = resources["gpus_per_node"], ("prefill", "decode")
    total = sum(resources[f"{role}_workers"] * resources[f"gpus_per_{role}"] for role in roles)
    packs = backend.get(ALLOW, False) and (total <= width or backend.get(ACROSS, False))
    nodes = -(-total // width) if packs else resources["prefill_nodes"] + resources["decode_nodes"]
    free, found = [width] * nodes, []
    node = 0
    for role in roles:
        size = resources[f"gpus_per_{role}"]
        if role == "decode" and not packs and node + 1 < nodes and free[node] < width:
            node += 1
        for _ in range(resources[f"{role}_workers"]):
            if size < width and node < nodes and free[node] < size:
                node += 1
            if node >= nodes or (size == width and free[node] < width):
                return None  # no such node, or two workers on one GPU
            found.append((role, node, width - free[node]))
            free[node] -= size
            node += free[node] == 0
    return found


def places(plan: LaunchPlan) -> list[Place]:
    return [
        (one.role.value, one.first_node + slot // one.workers_per_node, slot % one.workers_per_node * one.gpus_per_process)
        for one in (role.layout for role in plan.roles)
        for slot in range(one.first_slot, one.first_slot + one.workers)
    ]


def nodes_of(found: list[Place]) -> list[tuple[str, int]]:
    return [(role, node) for role, node, _ in found]


@pytest.mark.parametrize("switches", [(), (ALLOW,), (ALLOW, ACROSS), (ACROSS,)])
def test_workers_stand_where_srtctl_puts_them(switches: tuple[str, ...]) -> None:
    """Workers whose sizes divide each other, on the same nodes, apart or together; where a role's own nodes do not hold it, it is refused."""
    seen = 0
    for nodes, workers, gpus in itertools.product(
        itertools.product((1, 2, 3), (0, 1, 2)), itertools.product((1, 2, 3), (1, 2, 5)), itertools.product((1, 2, 4), (1, 2, 4))
    ):
        text = recipe(nodes, workers, gpus, *switches)
        said = yaml.safe_load(text)
        wanted = srtctls(said["resources"], said["backend"])
        if wanted is None:
            continue
        report, matrix = import_one(text)
        if not matrix:
            assert [reason.rpartition(" ")[2] for reason in reasons(report)] in (["[srt-nodes]"], ["[srt-nodes]"] * 2)
            assert any(workers[at] * gpus[at] > nodes[at] * 4 for at in (0, 1))
            continue
        (plan,) = plan_matrix(matrix.encode(), "matrix.yaml")
        assert nodes_of(places(plan)) == nodes_of(gapless(wanted)), (nodes, workers, gpus)
        seen += 1
    assert seen > 100


def gapless(found: list[Place]) -> list[Place]:
    """Nodes that no worker stands on are left out."""
    numbers = {node: number for number, node in enumerate(sorted({node for _, node, _ in found}))}
    return [(role, numbers[node], gpu) for role, node, gpu in found]


SIZES = ("1xTP1", "3xTP1", "1xTP2", "3xTP2", "1xTP3", "2xTP3", "1xTP5", "1xTP8", "2xTP8")


@pytest.mark.parametrize("prefill", SIZES)
@pytest.mark.parametrize("decode", SIZES)
def test_an_export_runs_on_the_nodes_of_the_plan_or_is_refused(prefill: str, decode: str) -> None:
    plan = planned(prefill, decode)
    ours = places(plan)
    own, both = (len({node for role, node, _ in ours if role in roles}) for roles in (("prefill",), ("prefill", "decode")))
    resources = {"gpus_per_node": 8, "prefill_nodes": both, "decode_nodes": 0}
    for role, shape in (("prefill", prefill), ("decode", decode)):
        resources |= {f"{role}_workers": int(shape[0]), f"gpus_per_{role}": int(shape[-1])}
    backend = {ALLOW: own < both, ACROSS: own < both}
    theirs = srtctls(resources, backend)
    for form in ("srt-slurm-v1", "srt-slurm-v2"):
        if theirs is None or nodes_of(theirs) != nodes_of(ours):
            with pytest.raises(InputError, match="stands on node") as error:
                export_point(plan, form)
            (problem,) = error.value.problems
            assert (problem.rule, problem.source) == ("export-placement", plan.recipe.source)
            continue
        text = export_point(plan, form)
        assert ("# srtctl packs workers without gaps" in text) == (theirs != ours)
        if form == "srt-slurm-v1":
            said = yaml.safe_load(text)
            assert {name: said["resources"][name] for name in resources} == resources
            assert srtctls(said["resources"], said["backend"]) == theirs


@pytest.mark.parametrize(
    ("prefill", "decode", "said"),
    [
        ("1xTP2", "2xTP3", "decode worker 1 stands on node 1, but srtctl, which packs workers of both roles without gaps, would put it on node 0"),
        ("3xTP3", "2xTP3", "decode worker 1 stands on node 2, but srtctl, which packs workers of both roles without gaps, would put it on a further one than the 2"),
        ("1xTP2", "1xTP8", "decode worker 0 stands on node 1, but srtctl, which packs workers of both roles without gaps, would put it on node 0, on GPUs that another worker has"),
    ],
)  # fmt: skip
def test_why_an_export_is_refused(prefill: str, decode: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        export_point(planned(prefill, decode))
    assert [problem.message.startswith(said) for problem in error.value.problems] == [True]


def planned(prefill: str, decode: str) -> LaunchPlan:
    return plan_one(matrix_of(f'{{prefill: {prefill}, decode: {decode}, colocate: true, concurrency: [4], time_limit: "1:00:00"}}', head=WIDE))


@pytest.mark.parametrize(
    ("prefill", "decode", "nodes", "switches"),
    [("2xTP2", "1xTP2", 1, False), ("6xTP2", "2xTP2", 2, False), ("6xTP2", "3xTP2", 3, True), ("1xTP8", "1xTP4", 2, True)],
)
def test_nodes_of_both_are_prefills_and_switches_take_srtctl_beyond_them(prefill: str, decode: str, nodes: int, switches: bool) -> None:
    plan = planned(prefill, decode)
    first, second = (yaml.safe_load(export_point(plan, form)) for form in ("srt-slurm-v1", "srt-slurm-v2"))
    assert (first["resources"]["prefill_nodes"], first["resources"]["decode_nodes"]) == (nodes, 0)
    assert (second["roles"]["prefill"]["nodes"], second["roles"]["decode"]["nodes"]) == (nodes, "colocate")
    for section in (first["backend"], second["engine"]):
        assert {name: section.get(name, False) for name in (ALLOW, ACROSS)} == {ALLOW: switches, ACROSS: switches}


@pytest.mark.parametrize("form", ["srt-slurm-v1", "srt-slurm-v2"])
@pytest.mark.parametrize(("prefill", "decode"), [("2xTP2", "1xTP2"), ("6xTP2", "3xTP2"), ("1xTP2", "1xTP3"), ("1xTP8", "1xTP4"), ("1xTP1", "9xTP1")])
def test_a_shared_node_comes_back(prefill: str, decode: str, form: str) -> None:
    plan = planned(prefill, decode)
    report, text = import_one(export_point(plan, form))
    (again,) = plan_matrix(text.encode(), "matrix.yaml")
    assert [role.layout for role in again.roles] == [role.layout for role in plan.roles], reasons(report)
    assert not [note for note in report.notes if "left out" in str(note)]


# -- workers that use fewer GPUs than they are given --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "shapes", "said"),
    [
        ([], "prefill: 1xTP4, decode: 1xTP2", ["1 job leaves GPUs idle (TP2 of 4)"]),
        ([("decode_nodes: 1", "decode_nodes: 2"), ("decode_workers: 1", "decode_workers: 2")], "prefill: 1xTP4, decode: 2xTP2",
         ["1 job leaves GPUs idle (TP2 of 4)", "'resources.decode_nodes' is 2, but 2 x 2 GPUs take 1 nodes of 4; the others are left out"]),
    ],
)  # fmt: skip
def test_workers_that_leave_gpus_idle_are_imported_as_large_as_they_are(changes: list[tuple[str, str]], shapes: str, said: list[str]) -> None:
    head, _, tail = V1.rpartition(SIZE)
    report, text = import_one(changed(f"{head}tensor-parallel-size: 2{tail}", *changes))
    assert shapes in text, reasons(report)
    assert all(any(words in str(note) for note in report.notes) for words in said)
    (plan,) = plan_matrix(text.encode(), "matrix.yaml")
    assert yaml.safe_load(export_point(plan))["resources"]["gpus_per_decode"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (recipe((1, 3), (1, 2), (4, 6)), "'resources.decode_nodes' is 3, but 2 x 6 GPUs take 4 nodes of 4 [srt-nodes]"),
        (changed(recipe((1, 3), (1, 2), (4, 6)), ("size: 6", "size: 4")), "'resources.decode_nodes' is 3, but 2 x 6 GPUs take 4 nodes of 4 [srt-nodes]"),
        (changed(recipe((1, 2), (1, 1), (4, 8)), ("size: 8", "size: 1\n      data-parallel-size: 6")), "a worker of decode: DP6 does not divide into nodes of 4 GPUs"),
    ],
)  # fmt: skip
def test_what_no_nodes_hold_stays_refused(text: str, said: str) -> None:
    report, matrix = import_one(text)
    assert matrix == ""
    assert any(said in one for one in reasons(report)), reasons(report)
