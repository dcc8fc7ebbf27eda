"""A simulation on this machine of a recipe that asks for what this machine does not have: it goes on without it."""

from __future__ import annotations

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
    said = "/configs/deps.sh is not on this machine; the simulation goes on without it\n"
    assert [(logs / f"agg-{worker}.0.log").read_text().count(said) for worker in (0, 1)] == [1, 1]
