"""A simulation on this machine of a recipe that asks for what this machine does not have: it goes on without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.local.conftest import Terminal
from tests.support import MINIMAL, agg_point, matrix_of

pytestmark = [pytest.mark.sim, pytest.mark.timeout(180)]

ASKED = """\
setup_script: deps.sh
slurm: {sbatch: {nice: 7, spread-job: true}, srun: [--mem=0, --no-kill]}
infra: {dedicated_node: true}
frontend: {args: {router-mode: round-robin}}
"""


def test_a_recipe_for_another_site_is_simulated_here(recipegen: Terminal, tmp_path: Path) -> None:
    head = MINIMAL.replace("1.2.1}", "1.2.1, request_plane: nats}").replace("  vllm: 0.28.0\n", "")
    allow = "allow: [{rule: capacity-weights, reason: mockers have none}]\n"
    (tmp_path / "matrix.yaml").write_text(matrix_of(agg_point("2xTP1"), head=head) + ASKED + allow)
    run = recipegen("submit", tmp_path, "--point", "2xtp1-agg-cc64", "--simulate").stdout.strip()
    recipegen("wait", run, "--for", "ready", "--timeout", "60")
    logs = Path(recipegen.status(run)["run_dir"]) / "logs"
    said = "left out: /configs/deps.sh; a simulation runs a setup script in a container only\n"
    assert [(logs / f"check.{node}.log").read_text().count(said) for node in (0, 1)] == [1, 1]


def test_workers_of_both_roles_share_a_node(recipegen: Terminal, tmp_path: Path) -> None:
    """Two prefill workers and one decode worker on one node of eight GPUs, with ports of their own; requests go through both.

    The router looks for cached prefixes, of which the prefill workers tell it.
    """
    head = MINIMAL.replace("hardware: gb300-nvl72", "hardware: {type: gb300-nvl72, gpus_per_node: 8}")
    point = '{prefill: 2xTP2, decode: 1xTP2, colocate: true, concurrency: [4], time_limit: "0:10:00"}'
    more = "kv_events: true\nfrontend: {args: {router-mode: kv}}\nallow: [{rule: capacity-weights, reason: mockers have none}]\n"
    (tmp_path / "matrix.yaml").write_text(matrix_of(point, head=head.replace("no-enable-", "enable-")) + more)
    run = recipegen("submit", tmp_path, "--point", "2xtp2-1xtp2-colocated-cc4", "--simulate").stdout.strip()
    recipegen("wait", run, "--for", "ready", "--timeout", "90")
    status = recipegen.status(run)
    assert status["phase"] == "READY"
    folder = Path(status["run_dir"])
    assert len((folder / "nodes.txt").read_text().splitlines()) == 1
    workers = [json.loads(line) for file in sorted(folder.glob("events.*-*-0.jsonl")) for line in file.read_text().splitlines()]
    assert [f"{one['role']}-{one['worker']}" for one in workers if one["event"] == "process_started"] == ["decode-0", "prefill-0", "prefill-1"]
    plan = json.loads((folder / "bundle/2xtp2-1xtp2-colocated-cc4/plan.json").read_text())
    assert [process["device_ids"] for process in plan["processes"]] == [[0, 1], [2, 3], [4, 5]]
