"""Prefill and decode on shared nodes, on a real Slurm: each worker on its node, with GPUs and ports of its own, and an endpoint that answers."""

from __future__ import annotations

import pytest

from tests.cluster.expect import assert_cancels, assert_serves
from tests.cluster.jobs import Site
from tests.cluster.node_processes import tasks_on
from tests.support import MINIMAL, matrix_of

pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

POINT = '{prefill: 3xTP2, decode: 3xTP2, colocate: true, concurrency: [4], time_limit: "0:30:00"}'
HEAD = MINIMAL.replace("model: qwen3.8-2.4t-nvfp4", "model: {repo: Org/Name}")
WHERE = {"prefill-0": 0, "prefill-1": 0, "prefill-2": 1, "decode-0": 1, "decode-1": 2, "decode-2": 2}
"""The node of each worker, where one has 4 GPUs."""


def test_decode_begins_on_the_last_node_of_prefill_and_goes_on(site: Site) -> None:
    leaf = site.folder / "leaf"
    leaf.mkdir()
    (leaf / "matrix.yaml").write_text(matrix_of(POINT, head=HEAD))
    run = site.submit(leaf, "3xtp2-3xtp2-colocated-cc4")
    run.ready()
    nodes = [line.split()[1] for line in (run.folder / "nodes.txt").read_text().splitlines()]
    tasks = [task for task in tasks_on(site.cluster) if task.environ.get("SLURM_JOB_ID") == run.job and task.environ.get("SLURM_STEP_ID")]
    steps = {task.environ["SLURM_JOB_NAME"]: task for task in tasks}
    assert len(nodes) == 3
    assert {name: nodes.index(steps[name].node) for name in WHERE} == WHERE
    ports = {(steps[name].node, steps[name].environ["DYN_SYSTEM_PORT"]) for name in WHERE}
    assert len(ports) == len(WHERE)
    assert_serves(run.status())
    assert_cancels(run)
