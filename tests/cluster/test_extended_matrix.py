"""What a matrix asks of the job around the engines, on a real Slurm: a node of its own for services, a setup script, Slurm's options, NATS."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cluster.expect import assert_cancels, assert_marker, assert_serves
from tests.cluster.jobs import PAIR, Run, Site
from tests.cluster.node_processes import Process, tasks_on
from tests.support import MINIMAL, matrix_of

pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

POINT = '{prefill: 1xTP4, decode: 1xTP4, concurrency: [4], time_limit: "0:30:00"}'
EXTRA = """one "two" # it's three"""
SLURM = f"""slurm:
  sbatch: {{nice: 7, extra: '{EXTRA.replace("'", "''")}'}}
  srun: [--cpus-per-task=2, --distribution=cyclic]
"""
UNPINNED = (
    MINIMAL.replace("model: qwen3.8-2.4t-nvfp4", "model: {repo: Org/Name}").replace("  vllm: 0.28.0\n", "").replace(", max_model_len: 10240", "")
)


def leaf_of(site: Site, more: str, *, head: str = UNPINNED) -> Path:
    leaf = site.folder / "leaf"
    leaf.mkdir()
    (leaf / "matrix.yaml").write_text(matrix_of(POINT, head=head) + more)
    return leaf


def setup_script(site: Site, text: str) -> str:
    """The matrix's line for a script of this text, which all nodes see."""
    script = site.folder / "setup.sh"
    script.write_text(text)
    return f"setup_script: {script}\n"


def container(site: Site) -> dict[str, object]:
    """An image, which the stand-in for pyxis takes: a simulation runs a setup script in a container only."""
    image = site.folder / "vllm.sqsh"
    image.touch()
    return {"runtime": "pyxis", "images": {"vllm/vllm-openai:v0.28.0": str(image)}}


def steps_of(run: Run) -> dict[str, Process]:
    """The task of each step of a job."""
    tasks = [task for task in tasks_on(run.site.cluster) if task.environ.get("SLURM_JOB_ID") == run.job]
    return {task.environ["SLURM_JOB_NAME"]: task for task in tasks if task.environ.get("SLURM_STEP_ID")}


def test_a_recipe_s_own_node_setup_and_options_reach_the_job(site: Site) -> None:
    script = setup_script(site, 'echo "$SLURM_JOB_NAME $SLURM_CPUS_PER_TASK $FAKEPYXIS_CONTAINER_REMAP_ROOT" >>"$RUN_DIR/setup.$SLURM_PROCID"\n')
    leaf = leaf_of(
        site, f"{script}{SLURM}infra: {{dedicated_node: true}}\ndeadlines: {{ready: 77}}\nfrontend: {{args: {{router-mode: round-robin}}}}\n"
    )
    run = site.submit(leaf, PAIR, profile=site.profile(sbatch={"nice": 3}, srun=["--distribution=block"], container=container(site)))
    run.ready()
    nodes = [line.split()[1] for line in (run.folder / "nodes.txt").read_text().splitlines()]
    steps = steps_of(run)
    assert {name: nodes.index(task.node) for name, task in steps.items() if name in {"etcd", "frontend", "prefill-0", "decode-0"}} == {
        "etcd": 0,
        "frontend": 0,
        "prefill-0": 1,
        "decode-0": 2,
    }
    assert [(run.folder / f"setup.{node}").read_text() for node in range(3)] == ["check 2 1\n"] * 3
    job = site.cluster.run(["scontrol", "show", "job", run.job]).stdout
    assert f"Extra={EXTRA} \n" in job
    assert "Nice=3 " in job  # of both the profile's
    given = {name: (task.environ.get("SLURM_CPUS_PER_TASK"), task.environ["SLURM_DISTRIBUTION"]) for name, task in steps.items()}
    assert [given[name] for name in ("prefill-0", "decode-0", "frontend")] == [("2", "block"), ("2", "block"), (None, "block")]
    rooted = {name for name, task in steps.items() if task.environ.get("FAKEPYXIS_CONTAINER_REMAP_ROOT") == "1"}
    assert rooted == {"prefill-0", "decode-0", "frontend", "probe"} & steps.keys()
    record = run.read("run.json")
    assert record
    assert record["ready_timeout_s"] == 77
    assert steps["prefill-0"].environ["READY_TIMEOUT_S"] == "77"
    assert "--router-mode round-robin" in steps["frontend"].argv
    assert_serves(run.status())
    assert_cancels(run)


def test_a_setup_script_that_fails_ends_the_job_and_is_named(site: Site) -> None:
    script = setup_script(site, "echo no network >&2; exit 9\n")
    run = site.submit(leaf_of(site, script), PAIR, profile=site.profile(container=container(site)))
    assert_marker(run, reason="node_check", code=1, ready=False)
    logs = list((run.folder / "logs").glob("setup.*.log"))
    assert [log.read_text() for log in logs] == ["no network\n"] * 2
    problem = f"the recipe's setup script {site.folder}/setup.sh ended with code 9; see logs/setup.*.log (2 nodes)"
    assert run.ended()["detail"].split("|") == [problem]
    assert not list((run.folder / "logs").glob("prefill-*"))
    run.gone()


def test_requests_go_over_nats(site: Site) -> None:
    server = shutil.which("nats-server")
    if not server:
        pytest.skip("not installed: nats-server")
    leaf = leaf_of(site, "", head=UNPINNED.replace("version: 1.2.1", "version: 1.2.1, request_plane: nats"))
    run = site.submit(leaf, PAIR, profile=site.profile(nats=server))
    run.ready()
    steps = steps_of(run)
    assert "nats" in steps
    assert {steps[name].environ["DYN_REQUEST_PLANE"] for name in ("frontend", "prefill-0", "decode-0")} == {"nats"}
    assert_serves(run.status())
    assert_cancels(run)


def test_without_a_nats_server_the_job_ends_before_anything_starts(site: Site) -> None:
    run = site.submit(leaf_of(site, "", head=UNPINNED.replace("version: 1.2.1", "version: 1.2.1, request_plane: nats")), PAIR)
    assert_marker(run, reason="site", code=1, ready=False)
    assert run.ended()["detail"] == "site.env names no NATS_SERVER_BIN, and the recipe's requests go over NATS"
    assert run.steps() == []
