"""A rendered bundle brings up the same endpoint with `sbatch` alone: no recipegen where it is submitted, nor where it runs."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cluster.expect import assert_cancels, assert_streams
from tests.cluster.jobs import BIN, PAIR, Run, Site, small_leaf
from tests.support import LEAF

pytestmark = [pytest.mark.slurm, pytest.mark.sim, pytest.mark.timeout(900)]

POINT = "1xtp2dep4-1xtp8-mtp-cc32-64"


def test_a_published_bundle_runs_by_hand(site: Site) -> None:
    rendered = render(site, LEAF)
    for name in (f"{POINT}/job.sbatch", f"{POINT}/frontend.sh", *(f"lib/{path.name}" for path in (LEAF / "lib").iterdir())):
        assert (rendered / name).read_bytes() == (LEAF / name).read_bytes(), name
    before = tree(rendered)
    start = site.folder / "here"
    run = sbatch(site, rendered, POINT, start_in=start, SITE_ENV=write_site_env(site, site.folder / "sites"))
    assert_streams(run.ready())
    status = run.status()
    assert (status["phase"], status["job"], status["simulate"], status["run_dir"]) == ("READY", run.job, True, str(run.folder))
    assert site.recipegen("wait", run.folder, "--for", "ready").stdout == f"{run.ready()['url']}\n"
    assert_cancels(run)
    assert tree(rendered) == before
    assert [path.name for path in start.iterdir()] == [f"slurm-{run.job}.out"]


@pytest.mark.parametrize("place", ["beside lib", "where sbatch was called"])
def test_site_env_is_found(site: Site, place: str) -> None:
    rendered, start = render(site, small_leaf(site.folder / "leaf")), site.folder / "here"
    file = write_site_env(site, rendered if place == "beside lib" else start)
    before = tree(rendered)
    run = sbatch(site, rendered, PAIR, start_in=start)
    assert_streams(run.ready())
    assert f"site: {file}\n" in (start / f"slurm-{run.job}.out").read_text()
    assert tree(rendered) == before


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "no site.env: looked for $SITE_ENV, {leaf}/site.env and $SLURM_SUBMIT_DIR/site.env"), ("DISCOVERY=etcd\n", "site.env names no RUN_ROOT")],
)
def test_without_a_site_the_job_says_what_it_looked_for(site: Site, content: str | None, message: str) -> None:
    rendered, start = render(site, small_leaf(site.folder / "leaf")), site.folder / "here"
    if content:
        (rendered / "site.env").write_text(content)
    run = sbatch(site, rendered, PAIR, start_in=start)
    assert site.cluster.end_of(run.job) == "FAILED"
    assert message.format(leaf=rendered) in (start / f"slurm-{run.job}.out").read_text()
    assert list(site.run_root.iterdir()) == []


def test_a_changed_bundle_is_refused_by_hand(site: Site) -> None:
    rendered, start = render(site, small_leaf(site.folder / "leaf")), site.folder / "here"
    write_site_env(site, rendered)
    with (rendered / PAIR / "decode.sh").open("a") as script:
        script.write("# one more line\n")
    run = sbatch(site, rendered, PAIR, start_in=start)
    assert site.cluster.end_of(run.job) == "FAILED"
    said = (start / f"slurm-{run.job}.out").read_text()
    assert "is not what was reviewed; nothing was started" in said
    assert "decode.sh: FAILED" in said
    assert list(site.run_root.iterdir()) == []


def render(site: Site, leaf: Path) -> Path:
    rendered = site.folder / "her bundles"
    site.recipegen("render", leaf, "--simulate", "--out", rendered)
    return rendered


def write_site_env(site: Site, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    values = {"RUN_ROOT": site.run_root, "PATH_PREFIX": BIN, "ETCD": shutil.which("etcd"), "READY_TIMEOUT_S": 60, "RESERVE_S": 5}
    path = folder / "site.env"
    path.write_text("".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items()))
    return path


def sbatch(site: Site, rendered: Path, point: str, *, start_in: Path, **variables: str | Path) -> Run:
    """Submit as a person without recipegen does: its PATH has Slurm and the system, nothing else."""
    start_in.mkdir(exist_ok=True)
    env = {name: site.env[name] for name in ("SLURM_CONF", "TMPDIR")} | {"PATH": f"{site.cluster.bin}:/usr/bin:/bin", "HOME": str(site.folder)}
    assert shutil.which("recipegen", path=env["PATH"]) is None
    env |= {name: str(value) for name, value in variables.items()}
    argv = ["sbatch", "--parsable", str(rendered / point / "job.sbatch")]
    done = subprocess.run(argv, env=env, cwd=start_in, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=True)
    job = done.stdout.strip()
    return Run(site, site.run_root / f"{point}-{job}", job)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}
