"""What goes wrong is said, ends the run as documented, and leaves nothing behind: on a real Slurm, with mockers for engines."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.expect import assert_marker, assert_serves
from tests.cluster.jobs import BIN, PAIR, RECIPEGEN, Run, Site, small_leaf, until
from tests.support import as_on_a_terminal

pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

SLOW_S = 30
PORT_OFFSET = 640
FRONTEND_PORT = 20_000 + PORT_OFFSET
LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))):
    print("listening", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def leaf(site: Site) -> Path:
    return small_leaf(site.folder / "leaf")


# -- nothing is submitted ----------------------------------------------------------------------------------------------


def test_an_unknown_point_is_an_input_error_with_a_near_match(site: Site, leaf: Path) -> None:
    done = site.recipegen(*site.submission(leaf, "1xtp4-1xtp4-cc5"), code=2)
    assert f"did you mean '{PAIR}'?" in done.stderr
    assert_nothing_left(site)


def test_an_unknown_cluster_is_an_input_error_with_a_near_match(site: Site, leaf: Path) -> None:
    site.profile()
    (site.folder / "clusters").mkdir()
    (site.folder / "test.yaml").rename(site.folder / "clusters/test.yaml")
    done = site.recipegen("submit", leaf, "--point", PAIR, "--cluster", "tset", "--simulate", code=2)
    assert "did you mean 'test'?" in done.stderr
    assert_nothing_left(site)


def test_a_run_root_that_cannot_be_made_is_refused(site: Site, leaf: Path) -> None:
    (site.folder / "file").touch()
    done = site.recipegen(*site.submission(leaf, profile=site.profile(run_root=str(site.folder / "file/runs"))), code=3)
    assert str(site.folder / "file") in done.stderr
    assert_nothing_left(site)


def test_what_sbatch_refuses_is_refused_in_its_words(site: Site, leaf: Path) -> None:
    done = site.recipegen(*site.submission(leaf, profile=site.profile(partition="nope")), code=3)
    assert "invalid partition specified: nope" in done.stderr
    assert_nothing_left(site)


def assert_nothing_left(site: Site) -> None:
    assert not site.jobs()
    assert not list(site.run_root.glob("*"))
    assert not list(site.folder.glob("state/recipegen/runs/*"))


# -- somebody ends it --------------------------------------------------------------------------------------------------


def test_a_pending_job_is_cancelled(site: Site, leaf: Path) -> None:
    run = held(site, leaf)
    status = run.status()
    assert (status["phase"], status["reason"]) == ("PENDING", "")
    assert "JobHeldUser" in status["detail"]
    assert site.recipegen("cancel", run.folder).stdout.endswith(": CANCELLED\n")
    assert site.recipegen("wait", run.folder, code=4).stdout == ""
    assert run.events() == []


def test_a_job_is_cancelled_at_once_while_its_nodes_are_checked(site: Site, leaf: Path) -> None:
    run = site.submit(leaf, profile=site.profile(path_prefix=str(slow_checks(site.folder / "bin"))))
    until(lambda: run.events("job_started"), what="start of the job")
    began = time.monotonic()
    site.recipegen("cancel", run.folder)
    assert time.monotonic() - began < SLOW_S / 2
    assert_marker(run, reason="cancelled", code=130, ready=False)
    assert run.steps() == []
    run.gone()


def slow_checks(folder: Path) -> Path:
    """A PATH_PREFIX where checking a node takes long, as creating a container does."""
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\ncase "$*" in *"node_check.py check"*) sleep {SLOW_S} ;; esac\nexec {BIN}/python3 "$@"\n')
    (folder / "python3").chmod(0o755)
    return folder


@pytest.mark.parametrize("options", [[], ["--full", "--signal=TERM"]], ids=["plain", "full"])
def test_scancel_from_outside_cancels(site: Site, leaf: Path, options: list[str]) -> None:
    run = ready(site, leaf)
    site.cluster.run(["scancel", *options, run.job])
    assert_marker(run, reason="cancelled", code=130, ready=True)
    assert run.status()["phase"] == "CANCELLED"
    run.gone()


def test_a_requeued_job_begins_anew(site: Site, leaf: Path) -> None:
    run = ready(site, leaf)
    site.cluster.run(["scontrol", "update", f"job={run.job}", "requeue=1"])
    site.cluster.run(["scontrol", "requeue", run.job])
    until(lambda: site.cluster.job_state(run.job) == "PENDING", what="requeued job")
    status = run.status()
    assert (status["phase"], status["url"], run.ready()["restart"]) == ("PENDING", None, 0)
    site.cluster.run(["scontrol", "update", f"job={run.job}", "starttime=now"])
    until(lambda: run.ready()["restart"] == 1, what="endpoint of the second start")
    status = run.status()
    assert status["phase"] == "READY"
    assert_serves(status)
    assert len(site.etcd_folders) == 1


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_job_whose_submission_was_killed_is_found_and_cancelled(site: Site, leaf: Path, number: int) -> None:
    """An sbatch that queues the job, and does not come back."""
    folder = site.folder / "slow sbatch"
    folder.mkdir()
    (folder / "sbatch").write_text(f'#!/bin/sh\n"{shutil.which("sbatch", path=site.env["PATH"])}" "$@" >/dev/null; exec sleep 60\n')
    (folder / "sbatch").chmod(0o755)
    words = [str(RECIPEGEN), *map(str, site.submission(leaf, profile=site.profile(sbatch={"hold": True})))]
    env = {**site.env, "PATH": f"{folder}:{site.env['PATH']}"}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=as_on_a_terminal) as submitting:  # noqa: PLW1509
        (job,) = until(site.jobs, what="job")
        submitting.send_signal(number)
        _, said = submitting.communicate(timeout=20)
    if number != signal.SIGKILL:
        assert submitting.returncode == 130
        assert "whether the job was queued is not known" in said
        assert not list(site.run_root.glob("*"))
        return
    (run_dir,) = site.run_root.glob("*")
    assert json.loads((run_dir / "run.json").read_text())["job"] is None
    assert site.recipegen("cancel", run_dir.name).stdout.endswith(": CANCELLED\n")
    assert json.loads((run_dir / "run.json").read_text())["job"] == job
    assert not site.jobs()


def test_a_job_whose_folder_is_gone_is_cancelled(site: Site, leaf: Path) -> None:
    run = ready(site, leaf)
    shutil.rmtree(run.folder, ignore_errors=True)
    until(lambda: (shutil.rmtree(run.folder, ignore_errors=True), not run.folder.exists())[1], what="end of the folder")
    shown = site.recipegen("status", run.folder)
    assert "ALLOCATED" in shown.stdout
    assert "is no run folder" in shown.stdout
    site.recipegen("cancel", run.job, timeout=150)  # no marker tells why its script ended: CANCELLED or FAILED, as Slurm sees it
    assert site.jobs() == []
    run.gone()


# -- a step ends -------------------------------------------------------------------------------------------------------


def test_a_worker_killed_while_it_loads_fails_the_run(site: Site, leaf: Path) -> None:
    with site.begin(*site.submission(leaf, PAIR, "--watch")) as watching:
        run = until(lambda: next(iter(site.runs()), None), what="run with a job")
        run.kill("decode-0", signal.SIGKILL)
        said, _ = watching.communicate(timeout=60)
    assert watching.returncode == 4, said
    assert_step_ended(run, "decode-0", 137, ready=False)


@pytest.mark.parametrize(
    ("step", "number", "code"),
    [("prefill-0", signal.SIGKILL, 137), ("decode-0", signal.SIGTERM, 0), ("frontend", signal.SIGKILL, 137)],
    ids=["prefill killed", "decode exits with 0", "frontend killed"],
)
def test_a_step_that_ends_when_ready_fails_the_run(site: Site, leaf: Path, step: str, number: int, code: int) -> None:
    run = ready(site, leaf)
    run.kill(step, number)
    assert_step_ended(run, step, code, ready=True)


def assert_step_ended(run: Run, step: str, code: int, *, ready: bool) -> None:
    assert_marker(run, reason="step_ended", code=1, step=step, ready=ready)
    last = run.events("step_ended")[-1]
    assert (last["step"], last["code"]) == (step, code)
    waited = run.site.recipegen("wait", run.folder, "--for", "done", code=4)
    assert f"{step} ended with code {code}" in waited.stderr
    status = run.status()
    assert (status["phase"], status["reason"]) == ("FAILED", "step_ended")
    assert step in status["diagnosis"]
    run.gone()


# -- the job refuses to start ------------------------------------------------------------------------------------------


def test_a_port_in_use_is_named_within_seconds(site: Site, leaf: Path) -> None:
    node, address = list(site.cluster.nodes.items())[4]
    profile = site.profile(port_offset=PORT_OFFSET, sbatch={"nodelist": ",".join(site.cluster.names[4:6])})
    with listener(site, node, address, FRONTEND_PORT):
        run = site.submit(leaf, profile=profile)
        assert_marker(run, reason="node_check", code=1, step="check", ready=False)
    detail = run.ended()["detail"]
    assert detail.startswith(f"ports in use on {address}: {FRONTEND_PORT} (FRONTEND_PORT)")
    assert detail.endswith(f"({node})")
    status = run.status()
    assert status["phase"] == "FAILED"
    assert str(FRONTEND_PORT) in status["diagnosis"]
    assert run.steps() == []
    run.gone()


@contextmanager
def listener(site: Site, node: str, address: str, port: int) -> Iterator[None]:
    """Somebody else's server on a node; it ends with the block."""
    argv = ["nsenter", f"--net=/run/netns/{site.cluster.bridge}-{node}", sys.executable, "-c", LISTEN, address, str(port)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdout.readline() == "listening\n"
        yield
        server.communicate(timeout=10)  # closes its input


@pytest.mark.parametrize("name", [f"{PAIR}/decode.sh", f"{PAIR}/job.sbatch", f"{PAIR}/plan.json", f"{PAIR}/MANIFEST", "lib/job.sh"])
def test_a_changed_byte_stops_the_job_before_anything_starts(site: Site, leaf: Path, name: str) -> None:
    run = held(site, leaf)
    path = run.folder / "bundle" / name
    path.write_bytes(path.read_bytes().replace(b"e", b"E", 1))
    site.cluster.run(["scontrol", "release", run.job])
    assert_marker(run, reason="manifest", code=1, step=None, ready=False)
    assert name.removeprefix(f"{PAIR}/") in (run.folder / f"slurm-{run.job}.out").read_text()
    site.recipegen("wait", run.folder, code=4)
    status = run.status()
    assert (status["phase"], status["reason"], status["diagnosis"][:38]) == ("FAILED", "manifest", "the bundle is not the reviewed one: no")
    assert run.events() == []
    assert not (run.folder / "logs").exists()


def test_a_missing_site_env_is_said(site: Site, leaf: Path) -> None:
    run = held(site, leaf)
    (run.folder / "site.env").unlink()
    site.cluster.run(["scontrol", "release", run.job])
    assert_marker(run, reason="site", code=1, ready=False)
    assert (run.status()["phase"], run.steps()) == ("FAILED", [])


# -- time --------------------------------------------------------------------------------------------------------------


def test_not_ready_by_the_deadline_is_exit_code_5(site: Site, leaf: Path) -> None:
    profile = site.profile(deadlines={"ready": 1, "reserve": 5})  # a front end alone needs longer
    watched = site.recipegen(*site.submission(leaf, PAIR, "--watch", profile=profile), code=5)
    run = site.run_of(watched.stderr)
    assert_marker(run, reason="deadline", code=5, step="probe", ready=False)
    status = run.status()
    assert (status["phase"], status["reason"]) == ("FAILED", "deadline")
    run.gone()


def test_a_ready_job_serves_to_its_time_limit(site: Site, leaf: Path) -> None:
    profile = site.profile(deadlines={"ready": 60, "reserve": 48})  # Slurm counts in minutes: 12 s of one are left
    run = site.submit(leaf, PAIR, "--time", "0:01:00", profile=profile)
    assert_serves(run.status() | run.ready())
    assert_marker(run, reason="served", code=0, step=None, ready=True)
    site.recipegen("wait", run.folder, "--for", "done")
    status = run.status()
    assert (status["phase"], status["reason"]) == ("DONE", "served")
    assert site.cluster.end_of(run.job) == "COMPLETED"
    run.gone()


# -- who follows it ----------------------------------------------------------------------------------------------------


def test_tracking_is_taken_up_where_a_killed_watch_left_it(site: Site, leaf: Path) -> None:
    run = site.submit(leaf)
    with site.begin("watch", run.folder, "--format", "json") as watching:
        assert watching.stdout
        assert json.loads(watching.stdout.readline())["job"] == run.job
        watching.kill()
        watching.communicate(timeout=10)
    elsewhere = {"XDG_STATE_HOME": str(site.folder / "other state")}
    assert site.recipegen("wait", run.folder, env=elsewhere).stdout == f"{run.ready()['url']}\n"
    status = json.loads(site.recipegen("status", run.folder, "--format", "json", env=elsewhere).stdout)
    assert status["phase"] == "READY"
    assert_serves(status)
    assert "no runs in" in site.recipegen("status", env=elsewhere).stderr


def held(site: Site, leaf: Path) -> Run:
    """A job that waits until it is released."""
    return site.submit(leaf, profile=site.profile(sbatch={"hold": True}))


def ready(site: Site, leaf: Path) -> Run:
    run = site.submit(leaf)
    run.ready()
    return run
