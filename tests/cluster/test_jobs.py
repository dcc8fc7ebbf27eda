"""The whole line on a real Slurm, with mockers for engines: submit, READY, completions, cancel; on today's and on an old site."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster.expect import assert_cancels, assert_marker, assert_refuses_what_is_too_long, assert_serves
from tests.cluster.jobs import PAIR, Run, Site, small_leaf, until
from tests.cluster.node_processes import Process, processes_on, tasks_on
from tests.support import LEAF

# the first test of a run may have to install Slurm
pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

PUBLISHED = {  # point -> prefill and decode instances that register: one for each data-parallel rank
    "1xtp8-1xtp8-mtp-cc1-4": (1, 1),
    "1xtp4dep2-1xtp8-mtp-cc8-16": (2, 1),
    "1xtp2dep4-1xtp8-mtp-cc32-64": (2, 1),
    "1xtp2dep4-1xtp4dep4-mtp-cc128": (2, 4),
    "2xtp2dep4-1xtp4dep4-mtp-cc256": (4, 4),
    "2xtp2dep4-1xtp4dep4-mtp-cc512": (4, 4),
    "3xtp2dep4-1xtp4dep4-mtp-cc1024": (6, 4),
    "4xtp2dep4-1xtp4dep4-cc2560": (8, 4),
}
IMAGE = "vllm/vllm-openai:v0.28.0"  # of the small leaf
IN_CONTAINER = {"prefill-0", "decode-0", "frontend", "probe"}


def test_all_published_points_are_here() -> None:
    assert {path.parent.name for path in LEAF.glob("*/MANIFEST")} == set(PUBLISHED)


@pytest.mark.parametrize(("point", "instances"), PUBLISHED.items(), ids=list(PUBLISHED))
def test_a_published_point_becomes_ready_answers_and_ends(site: Site, point: str, instances: tuple[int, int]) -> None:
    watched = site.recipegen(*site.submission(LEAF, point, "--watch"))
    assert watched.stdout.splitlines()[-1].split()[1] == "READY"
    run = site.run_of(watched.stderr)
    status = run.status()
    assert status["phase"] == "READY"
    assert status["instances"] == {
        role: {"registered": count, "expected": count} for role, count in zip(("prefill", "decode"), instances, strict=True)
    }
    assert site.etcd_folders
    assert_serves(status)
    assert_refuses_what_is_too_long(status)
    assert_serves(status)
    assert run.status()["phase"] == "READY"
    assert_cancels(run)


@pytest.mark.parametrize("backend", ["etcd", "file"])
def test_the_old_site_runs_a_small_leaf(old_site: Site, backend: str) -> None:
    discovery = {"discovery": {"backend": "file"}} if backend == "file" else {}
    submission = old_site.submission(small_leaf(old_site.folder / "leaf"), PAIR, profile=old_site.profile(**discovery))
    run = old_site.run_of(old_site.recipegen(*submission, "--watch").stderr)
    status = run.status()
    assert (status["phase"], status["workers"]) == (
        "READY",
        [{"name": f"{role}-0", "phase": "READY", "detail": ""} for role in ("prefill", "decode")],
    )
    assert bool(old_site.etcd_folders) == (backend == "etcd")
    assert_serves(status)
    assert_cancels(run)


def test_with_pyxis_the_first_step_makes_the_container_and_the_others_enter_it(site: Site) -> None:
    image, models = site.folder / "vllm.sqsh", site.folder / "models"
    image.touch()
    models.mkdir()
    run = site.submit(small_leaf(site.folder / "leaf"), profile=pyxis_profile(site, image, mounts=[f"{models}:/models:ro"]))
    tasks = tasks_until_ready(run)
    assert {task.environ["FAKEPYXIS_CONTAINER_NAME"] for task in contained(tasks)} == {f"recipegen-{run.job}"}
    assert {step_of(task) for task in contained(tasks)} >= {"check", *IN_CONTAINER}
    with_image = [task for task in tasks if "FAKEPYXIS_CONTAINER_IMAGE" in task.environ]
    assert {(step_of(task), task.environ["FAKEPYXIS_CONTAINER_IMAGE"]) for task in with_image} == {("check", str(image))}
    assert {step_of(task) for task in tasks if task not in contained(tasks)} <= {"etcd", batch_name(run)}
    mounts = {task.environ["FAKEPYXIS_CONTAINER_MOUNTS"] for task in contained(tasks)}
    assert mounts == {f"{run.folder}:{run.folder},{run.folder}/bundle:{run.folder}/bundle:ro,{models}:/models:ro"}
    assert_cancels(run)


def test_a_missing_image_ends_the_job_and_is_named(site: Site) -> None:
    image = site.folder / "missing.sqsh"
    run = site.submit(small_leaf(site.folder / "leaf"), profile=pyxis_profile(site, image, mounts=[]))
    assert_marker(run, reason="node_check", code=1, step="check", ready=False)
    assert f"failed to open image: {image}: No such file or directory" in run.ended()["detail"]
    assert "failed to open image" in run.status()["diagnosis"]
    run.gone()


def pyxis_profile(site: Site, image: Path, *, mounts: list[str]) -> Path:
    return site.profile(container={"runtime": "pyxis", "images": {IMAGE: str(image)}, "mounts": mounts})


def tasks_until_ready(run: Run) -> list[Process]:
    """Every task that was seen on the way to READY; the first step lasts half a second, and is looked for ten times in it."""
    seen: dict[tuple[int, str], Process] = {}

    def look() -> bool:
        found = tasks_on(run.site.cluster)
        seen.update({(task.pid, step_of(task)): task for task in found if task.environ.get("SLURM_JOB_ID") == run.job})
        return (run.folder / "endpoint.json").exists()

    until(look, what="endpoint.json", pause=0.05)
    return list(seen.values())


def step_of(task: Process) -> str:
    return task.environ["SLURM_JOB_NAME"]


def contained(tasks: list[Process]) -> list[Process]:
    return [task for task in tasks if "FAKEPYXIS_CONTAINER_NAME" in task.environ]


def batch_name(run: Run) -> str:
    record = run.read("run.json")
    assert record
    return str(record["name"])


def test_two_submissions_at_once_are_two_runs(site: Site) -> None:
    submission = site.submission(small_leaf(site.folder / "leaf"), PAIR, "--watch")
    with site.begin(*submission) as first, site.begin(*submission) as second:
        told = [process.communicate(timeout=60) for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], told
    runs = [site.run_of(stderr) for _, stderr in told]
    assert len({run.folder for run in runs}) == len({run.job for run in runs}) == len({run.ready()["url"] for run in runs}) == 2
    listed = json.loads(site.recipegen("status", "--format", "json").stdout)
    assert {(each["job"], each["phase"]) for each in listed} == {(run.job, "READY") for run in runs}
    assert {process.environ.get("SLURM_JOB_ID") for process in processes_on(site.cluster)} >= {run.job for run in runs}
