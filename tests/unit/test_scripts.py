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
from tests.support import MINIMAL, agg_point, matrix_of, plan_one, published_plans

ENGINE = f"""#!{sys.executable}
import json, os, resource, sys
with open(os.environ["SEEN"], "w") as file:
    json.dump({{"argv": sys.argv[1:], "env": dict(os.environ), "files": resource.getrlimit(resource.RLIMIT_NOFILE)}}, file)
"""
OFFSET = 512
SHAPES = ("4xTP1", "3xTP2", "1xTP2DP2", "1xTP1PP6", "1xTP8DP2", "1xDP16")
UNPINNED = MINIMAL.replace("model: qwen3.8-2.4t-nvfp4", "model: {repo: Org/Name}").replace(", max_model_len: 10240", "")
OWN_NODE = plan_one(matrix_of(agg_point("3xTP1"), head=UNPINNED) + "infra: {dedicated_node: true}\n")
TOGETHER = plan_one(matrix_of('{prefill: 3xTP2, decode: 4xTP1, colocate: true, concurrency: [64], time_limit: "1:00:00"}'))
EVENTS = [plan_one(matrix_of(agg_point(shape)) + "kv_events: true\n") for shape in ("1xTP2DP4", "2xTP2")]
PLANS = [*published_plans(), *(plan_one(matrix_of(agg_point(shape))) for shape in SHAPES), OWN_NODE, TOGETHER, *EVENTS]


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
        """What the stand-in saw when the process's script started it."""
        self.run(process, model=model).check_returncode()
        seen = json.loads((self.folder / "seen.json").read_text())
        return seen["argv"], seen["env"]

    def run(self, process: Process, *, model: str = "", limits: str = ":") -> subprocess.CompletedProcess[str]:
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
        command = ["bash", "-c", f'{limits}; exec bash "$@"', "bash", script, str(process.worker), str(first)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=20)


def resolved(process: Process, words: tuple[Word, ...], *, model: str) -> list[str]:
    known = {port.name: str(port.base + OFFSET) for port in process.ports}
    known |= {
        "MODEL": model,
        "NODE_ADDRESS": f"10.0.0.{process.node_index + 1}",
        "LEADER_ADDRESS": f"10.0.0.{process.node_index - process.node_rank + 1}",
        "READY_TIMEOUT_S": "1800",
    }
    return [word.filled(known[word.name]) if isinstance(word, Placeholder) else word for word in words]


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


@pytest.mark.parametrize("soft", [300, 5000])
def test_a_process_may_open_as_many_files_as_its_node_lets_it(tmp_path: Path, soft: int) -> None:
    plan = published_plans()[0]
    done = Node(plan, tmp_path).run(plan.processes[0], limits=f"ulimit -Sn {soft}; ulimit -Hn 5000")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "seen.json").read_text())["files"] == [5000, 5000]


@pytest.mark.parametrize(
    ("hard", "soft", "raised"),
    [("unlimited", "1024", "131072"), ("1000000", "1024", "131072"), ("1000000", "200000", ""), ("unlimited", "unlimited", ""), ("4096", "4096", "")],
)
def test_a_limit_of_open_files_is_raised_to_131072_at_most_and_never_lowered(tmp_path: Path, hard: str, soft: str, raised: str) -> None:
    """Limits that this machine may not have: bash's own word is replaced."""
    plan = published_plans()[0]
    said = f"case $# in 2) echo $2 >&2 ;; *) [[ $1 == -Hn ]] && echo {hard} || echo {soft} ;; esac"
    done = Node(plan, tmp_path).run(plan.processes[0], limits=f"ulimit() {{ {said}; }}; export -f ulimit")
    assert (done.returncode, done.stderr.strip()) == (0, raised)


def test_a_process_on_the_wrong_node_stops(tmp_path: Path) -> None:
    plan = published_plans()[0]
    node = Node(plan, tmp_path)
    (tmp_path / "nodes.txt").write_text("0 node1 10.0.0.1 eth0\n1 node0 10.0.0.2 eth0\n2 a 10.0.0.3 eth0\n3 b 10.0.0.4 eth0\n")
    with pytest.raises(subprocess.CalledProcessError):
        node.start(plan.processes[0], model="")


def test_the_front_end_gets_its_arguments(tmp_path: Path) -> None:
    args = "{router-mode: kv, router-reset-states: true, router-temperature: 0.5, model-name: \"a 'b' $c\"}"
    node = Node(plan_one(matrix_of(agg_point("1xTP4")) + f"frontend: {{args: {args}}}\n"), tmp_path)
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SEEN": str(tmp_path / "seen.json"),
        "RUN_DIR": str(tmp_path),
        "SLURM_PROCID": "0",
        "SLURMD_NODENAME": "node0",
        "PORT_OFFSET": str(OFFSET),
    }
    subprocess.run(["bash", tmp_path / node.plan.recipe.point / "frontend.sh"], env=env, check=True, timeout=20)
    argv = json.loads((tmp_path / "seen.json").read_text())["argv"]
    assert argv[:2] == ["-m", "dynamo.frontend"]
    assert argv[6:] == ["--router-mode", "kv", "--router-reset-states", "--router-temperature", "0.5", "--model-name", "a 'b' $c"]


@pytest.mark.parametrize(
    ("words", "host", "expected"),
    [
        (("2", "20004"), "", ("10.0.0.3", 20004)),
        (("2", "20004"), "0.0.0.0", ("10.0.0.3", 20004)),
        (("0", "20000"), "", ("0.0.0.0", 20000)),  # one for all, in a simulation without nginx
        (("0", "20000"), "node", ("10.0.0.1", 20000)),
    ],
)
def test_a_front_end_behind_nginx_listens_on_its_own_node(tmp_path: Path, words: tuple[str, str], host: str, expected: tuple[str, int]) -> None:
    own = """frontend: {replicas: 3, env: {A: "b 'c' $x", DYN_SDK_DISABLE_ANSI_LOGGING: "0"}}\n"""
    node = Node(plan_one(matrix_of(agg_point("1xDP16")) + own), tmp_path)
    env = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SEEN": str(tmp_path / "seen.json"),
        "RUN_DIR": str(tmp_path),
        "SLURM_PROCID": "0",
        "SLURMD_NODENAME": f"node{words[0]}",
        "PORT_OFFSET": str(OFFSET),
        "FRONTEND_HOST": host,
    }
    subprocess.run(["bash", tmp_path / node.plan.recipe.point / "frontend.sh", *words], env=env, check=True, timeout=20)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["argv"][2:] == ["--http-host", expected[0], "--http-port", str(expected[1] + OFFSET)]
    assert (seen["env"]["A"], seen["env"]["DYN_SDK_DISABLE_ANSI_LOGGING"]) == ("b 'c' $x", "0")  # the recipe's word before the launcher's
