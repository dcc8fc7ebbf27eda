"""Several front ends behind nginx, on a real Slurm: where they stand, that all of them serve, and that the job ends with any of them."""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.cluster.expect import assert_cancels, assert_marker, assert_serves
from tests.cluster.jobs import Run, Site, until
from tests.cluster.node_processes import Process, tasks_on
from tests.nginx import nginx
from tests.support import agg_point, matrix_of

pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

POINT = "4xtp4-agg-cc64"
FRONT_ENDS = {"frontend-0": 1, "frontend-1": 2, "frontend-2": 3}
IMAGE = "nginx:1.27.4"


@pytest.fixture
def leaf(site: Site) -> Path:
    folder = site.folder / "leaf"
    folder.mkdir()
    more = 'frontend: {replicas: 3, session_header: X-Session, env: {OF_THE_FRONT_END: "it\'s"}}\n'
    allow = "allow: [{rule: capacity-weights, reason: mockers have none}]\n"
    (folder / "matrix.yaml").write_text(matrix_of(agg_point("4xTP4")) + more + allow)
    return folder


def ready(site: Site, leaf: Path) -> Run:
    run = site.submit(leaf, POINT, profile=site.profile(nginx=str(nginx())))
    run.ready()
    return run


def test_all_front_ends_serve_behind_nginx(site: Site, leaf: Path) -> None:
    run = ready(site, leaf)
    nodes = [line.split()[1:3] for line in (run.folder / "nodes.txt").read_text().splitlines()]
    places = {step: [name for name, _ in nodes].index(task_of(site, step).node) for step in ("nginx", "etcd", *FRONT_ENDS)}
    assert places == {"nginx": 0, "etcd": 0, **FRONT_ENDS}
    assert "frontend" not in run.steps()
    assert [event["answered"] for event in run.events("front_ends")] == [3]
    served = [requests_of(site, nodes[node][1], run) for node in FRONT_ENDS.values()]
    assert all(served), served
    status = run.status()
    assert status["url"].startswith(f"http://{nodes[0][1]}:")
    assert_serves(status)
    assert task_of(site, "frontend-0").environ["SLURM_JOB_ID"] == run.job
    assert f"--http-host {nodes[1][1]}" in task_of(site, "frontend-0").argv
    assert_cancels(run)


def task_of(site: Site, step: str) -> Process:
    """The task of a step; nginx writes its title over its environment, which else names the step."""
    tasks = tasks_on(site.cluster)
    (task,) = [one for one in tasks if (one.name == "nginx" if step == "nginx" else one.environ.get("SLURM_JOB_NAME") == step)]
    return task


def requests_of(site: Site, address: str, run: Run) -> float:
    """Completions that a front end has counted itself."""
    port = re.search(r"server \S+:(\d+) ", (run.folder / "nginx/nginx.conf").read_text())
    assert port
    with urllib.request.urlopen(f"http://{address}:{port[1]}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("dynamo_frontend_requests_total{"))


@pytest.mark.parametrize(("step", "number"), [("frontend-1", signal.SIGKILL), ("nginx", signal.SIGTERM)])
def test_the_job_ends_with_a_front_end_or_nginx(site: Site, leaf: Path, step: str, number: int) -> None:
    """nginx, which ends in order, takes its own workers with it: without cgroups nobody else would."""
    run = ready(site, leaf)
    os.kill(task_of(site, step).pid, number)
    assert_marker(run, reason="step_ended", code=1, step=step, ready=True)
    status = run.status()
    assert status["phase"] == "FAILED"
    assert step in status["diagnosis"]
    run.gone()


def test_with_pyxis_nginx_has_a_container_of_its_own(site: Site, leaf: Path, tmp_path: Path) -> None:
    """The stand-in for pyxis runs what the image would hold from the PATH: here a script that notes where it is."""
    image, engines = site.folder / "nginx.sqsh", site.folder / "vllm.sqsh"
    image.touch()
    engines.touch()
    container = {"runtime": "pyxis", "images": {IMAGE: str(image), "vllm/vllm-openai:v0.28.0": str(engines)}}
    words = site.submission(leaf, POINT, profile=site.profile(container=container))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nginx").write_text(f'#!/bin/sh\nenv >"$RUN_DIR/nginx.env"\nexec {nginx()} "$@"\n')
    (tmp_path / "bin/nginx").chmod(0o755)
    run = site.run_of(site.recipegen(*words, env={"PATH": f"{tmp_path}/bin:{site.env['PATH']}"}).stderr)
    run.ready()
    found = dict(line.split("=", 1) for line in (run.folder / "nginx.env").read_text().splitlines() if line.startswith("FAKEPYXIS_"))
    own = {name.removeprefix("FAKEPYXIS_CONTAINER_"): value for name, value in found.items()}
    assert (own["IMAGE"], own["MOUNTS"], own["REMAP_ROOT"], own.get("NAME")) == (str(image), f"{run.folder}:{run.folder}", "1", None)
    assert_cancels(run)


def test_without_nginx_submit_refuses_and_so_does_the_job(site: Site, leaf: Path) -> None:
    refused = site.recipegen("check", leaf, "--point", POINT, "--cluster", site.profile(), code=1)
    assert "[cluster-nginx]" in refused.stdout + refused.stderr
    run = site.submit(leaf, POINT, profile=site.profile())
    assert_marker(run, reason="site", code=1, ready=False)
    assert run.ended()["detail"] == ("site.env names no NGINX_BIN, nor an NGINX_IMAGE that pyxis could run, and the recipe has several front ends")
    until(lambda: not site.jobs(), what="end of the job")
