"""The rendered worker scripts, run for real with a stand-in engine, start exactly the processes of the plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from recipegen.launch import LaunchPlan, Process
from recipegen.leaf import leaf_files, write
from recipegen.model import Placeholder, Word
from recipegen.pipeline import render_plans
from tests.support import agg_point, matrix_of, plan_one, published_plans

ENGINE = f"""#!{sys.executable}
import json, os, sys
with open(os.environ["SEEN"], "w") as file:
    json.dump({{"argv": sys.argv[1:], "env": dict(os.environ)}}, file)
"""
OFFSET = 512
SHAPES = ("4xTP1", "3xTP2", "1xTP2DP2", "1xTP1PP6", "1xTP8DP2", "1xDP16")
PLANS = [*published_plans(), *(plan_one(matrix_of(agg_point(shape))) for shape in SHAPES)]


class Node:
    """A run folder with nodes.txt, and a PATH whose python3 is the stand-in."""

    def __init__(self, plan: LaunchPlan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        write(folder, leaf_files(render_plans([plan])))
        lines = [f"{i} node{i} 10.0.0.{i + 1} eth0\n" for i in range(plan.directives.nodes)]
        (folder / "nodes.txt").write_text("".join(lines))
        (folder / "bin").mkdir()
        (folder / "bin/python3").write_text(ENGINE)
        (folder / "bin/python3").chmod(0o755)

    def start(self, process: Process, *, model: str) -> tuple[list[str], Mapping[str, str]]:
        first = process.node_index - process.node_rank
        env = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SEEN": str(self.folder / "seen.json"),
            "RUN_DIR": str(self.folder),
            "SLURM_PROCID": str(process.node_rank),
            "SLURMD_NODENAME": f"node{process.node_index}",
            "SLURM_JOB_ID": "7",
            "RESTART": "0",
            "PORT_OFFSET": str(OFFSET),
            "READY_TIMEOUT_S": "1800",
            "MODEL": model,
        }
        script = self.folder / self.plan.recipe.point / f"{process.role.value}.sh"
        subprocess.run(["bash", script, str(process.worker), str(first)], env=env, check=True, timeout=20)
        seen = json.loads((self.folder / "seen.json").read_text())
        return seen["argv"], seen["env"]


def resolved(process: Process, words: tuple[Word, ...], *, model: str) -> list[str]:
    known = {port.name: str(port.base + OFFSET) for port in process.ports}
    known |= {
        "MODEL": model,
        "NODE_ADDRESS": f"10.0.0.{process.node_index + 1}",
        "LEADER_ADDRESS": f"10.0.0.{process.node_index - process.node_rank + 1}",
        "READY_TIMEOUT_S": "1800",
    }
    return [known[word.name] if isinstance(word, Placeholder) else word for word in words]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.recipe.point)
def test_scripts_start_the_processes_of_the_plan(plan: LaunchPlan, tmp_path: Path) -> None:
    node = Node(plan, tmp_path)
    hub_id = plan.recipe.model.repo
    for process in plan.processes:
        argv, env = node.start(process, model="")
        assert ["python3", *argv] == in_any_order_of_guards(resolved(process, process.argv, model=hub_id), ["python3", *argv])
        values = resolved(process, tuple(var.value for var in process.env), model=hub_id)
        assert {var.name: env[var.name] for var in process.env} == dict(zip((var.name for var in process.env), values, strict=True))


def in_any_order_of_guards(planned: list[str], seen: list[str]) -> list[str]:
    """The script puts what depends on the site or the rank last; vLLM reads flags in any order."""
    assert sorted(planned) == sorted(seen)
    moved = [i for i, word in enumerate(planned) if word in {"--revision", "--headless"}]
    pinned = {j for i in moved for j in ((i, i + 1) if planned[i] == "--revision" else (i,))}
    return [w for i, w in enumerate(planned) if i not in pinned] + [w for i, w in enumerate(planned) if i in pinned]


def test_a_local_snapshot_is_not_asked_for_a_revision(tmp_path: Path) -> None:
    plan = published_plans()[0]
    argv, _ = Node(plan, tmp_path).start(plan.processes[0], model="/models/qwen")
    assert argv[argv.index("--model") + 1] == "/models/qwen"
    assert "--revision" not in argv


def test_a_process_marks_its_start(tmp_path: Path) -> None:
    plan = published_plans()[0]
    Node(plan, tmp_path).start(plan.processes[1], model="")
    (line,) = (tmp_path / "events.prefill-0-1.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert event.pop("time") > 1e9
    assert event == {"job": "7", "restart": 0, "event": "process_started", "role": "prefill", "worker": 0, "rank": 1, "node": "node1"}


def test_a_process_on_the_wrong_node_stops(tmp_path: Path) -> None:
    plan = published_plans()[0]
    node = Node(plan, tmp_path)
    (tmp_path / "nodes.txt").write_text("0 node1 10.0.0.1 eth0\n1 node0 10.0.0.2 eth0\n2 a 10.0.0.3 eth0\n3 b 10.0.0.4 eth0\n")
    with pytest.raises(subprocess.CalledProcessError):
        node.start(plan.processes[0], model="")
