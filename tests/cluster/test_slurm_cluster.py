"""The test cluster is what it claims to be: distinct nodes, the options of its version, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.slurm_cluster import SCRIPTS, ClusterError, SlurmCluster, unavailable_reason

# the first test of a run may have to install Slurm
pytestmark = [pytest.mark.slurm, pytest.mark.timeout(900)]

WHO_AM_I = "echo $(hostname) $(hostname -I)"


def submit(cluster: SlurmCluster, folder: Path, *options: str, script: str) -> str:
    """Submits a script, its output going to `folder`/out, and returns the job's id."""
    argv = ["sbatch", "--parsable", f"--output={folder}/out", *options]
    return cluster.run(argv, stdin=f"#!/bin/bash\nset -e\n{script}\n", cwd=folder).stdout.strip()


def hosts_seen(cluster: SlurmCluster, folder: Path, count: int) -> dict[str, str]:
    """Address by hostname, as one step over `count` nodes reports them."""
    job_id = submit(cluster, folder, f"--nodes={count}", script=f"srun --ntasks-per-node=1 sh -c '{WHO_AM_I}'")
    assert cluster.end_of(job_id) == "COMPLETED", (folder / "out").read_text()
    return dict(line.split() for line in (folder / "out").read_text().splitlines())


def test_every_node_has_its_own_name_and_address(cluster: SlurmCluster, tmp_path: Path) -> None:
    seen = hosts_seen(cluster, tmp_path, 14)
    assert seen == cluster.nodes
    assert len(set(seen.values())) == 14


def test_two_clusters_side_by_side_do_not_meet(cluster: SlurmCluster, old_cluster: SlurmCluster, tmp_path: Path) -> None:
    assert hosts_seen(old_cluster, tmp_path, 3) == old_cluster.nodes
    assert cluster.bridge != old_cluster.bridge
    assert not set(cluster.nodes.values()) & set(old_cluster.nodes.values())
    versions = [each.run(["sinfo", "--version"]).stdout.split()[1] for each in (cluster, old_cluster)]
    assert [version.rpartition(".")[0] for version in versions] == ["24.11", "22.05"]


def test_the_login_node_resolves_the_nodes_and_starts_steps(cluster: SlurmCluster) -> None:
    name, address = list(cluster.nodes.items())[4]
    assert cluster.login(["hostname"]).stdout == "login\n"
    assert cluster.login(["getent", "hosts", name]).stdout.split() == [address, name]
    assert cluster.login(["srun", "-w", name, "hostname"]).stdout == f"{name}\n"


def test_nodes_have_no_ipv6(cluster: SlurmCluster) -> None:
    assert cluster.login(["srun", "cat", "/proc/net/if_inet6"]).stdout == ""


def test_nodes_have_gpus_and_racks(cluster: SlurmCluster) -> None:
    step = ["srun", "--nodes=1", "--gres=gpu:4", "--constraint=rack01", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    assert cluster.login(step).stdout == "0,1,2,3\n"


def test_segment_is_accepted_today(cluster: SlurmCluster, tmp_path: Path) -> None:
    job_id = submit(cluster, tmp_path, "--nodes=4", "--segment=2", script="srun hostname")
    assert cluster.end_of(job_id) == "COMPLETED"


def test_segment_larger_than_a_rack_is_refused_today(cluster: SlurmCluster) -> None:
    done = cluster.run(["sbatch", "--nodes=14", "--segment=28"], stdin="#!/bin/sh\n", check=False)
    assert done.returncode != 0
    assert "sbatch: error:" in done.stderr


def test_segment_is_refused_by_the_old_site(old_cluster: SlurmCluster) -> None:
    done = old_cluster.run(["sbatch", "--nodes=2", "--segment=2"], stdin="#!/bin/sh\n", check=False)
    assert done.returncode == 255
    assert "unrecognized option '--segment=2'" in done.stderr


@pytest.fixture(params=["cluster", "old_cluster"])
def either(request: pytest.FixtureRequest) -> SlurmCluster:
    """Both clusters, one after the other."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, SlurmCluster)
    return found


def test_pyxis_options_are_accepted_and_reach_the_task(either: SlurmCluster, tmp_path: Path) -> None:
    step = ["srun", "--container-image=docker://vllm/vllm-openai:v1", "--container-name=engine", f"--container-mounts={tmp_path}:/model:ro", "env"]
    environment = either.login(step).stdout.splitlines()
    assert {line for line in environment if line.startswith("FAKEPYXIS_")} == {
        "FAKEPYXIS_CONTAINER_IMAGE=docker://vllm/vllm-openai:v1",
        "FAKEPYXIS_CONTAINER_NAME=engine",
        f"FAKEPYXIS_CONTAINER_MOUNTS={tmp_path}:/model:ro",
    }


def test_pyxis_options_of_a_batch_job_reach_its_steps(either: SlurmCluster, tmp_path: Path) -> None:
    job_id = submit(either, tmp_path, "--container-image=vllm:v1", script="srun sh -c 'echo $FAKEPYXIS_CONTAINER_IMAGE'")
    assert either.end_of(job_id) == "COMPLETED"
    assert (tmp_path / "out").read_text() == "vllm:v1\n"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--container-mounts={tmp}/missing:/model", "pyxis: failed to mount: {tmp}/missing at /model: No such file or directory"),
        ("--container-mounts={tmp}:model", "pyxis: --container-mounts: invalid format: {tmp}"),
        ("--container-image={tmp}/missing.sqsh", "pyxis: failed to open image: {tmp}/missing.sqsh: No such file or directory"),
    ],
)
def test_what_pyxis_refuses_is_refused(either: SlurmCluster, tmp_path: Path, option: str, message: str) -> None:
    done = either.login(["srun", option.format(tmp=tmp_path), "true"], check=False)
    assert done.returncode == 1
    assert message.format(tmp=tmp_path) in done.stderr
    assert "pyxis: couldn't start container" in done.stderr


TWO_SERVERS = """
mapfile -t nodes < <(scontrol show hostnames)
for node in "${nodes[@]:0:2}"; do
  mkdir "$node" && echo "this is $node" > "$node/who"
  srun --overlap --nodes=1 --ntasks=1 -w "$node" "$PYTHON" -m http.server --directory "$node" 8000 2> "$node/log" &
done
# from the third node, to which the other two are only names
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[2]}" \\
  curl --silent --show-error --retry 30 --retry-delay 1 --retry-connrefused "http://${nodes[0]}:8000/who" "http://${nodes[1]}:8000/who"
kill %1 %2
wait || true
"""


def test_two_nodes_serve_on_the_same_port(cluster: SlurmCluster, tmp_path: Path) -> None:
    job_id = submit(cluster, tmp_path, "--nodes=3", f"--export=ALL,PYTHON={sys.executable}", script=TWO_SERVERS)
    assert cluster.end_of(job_id) == "COMPLETED", (tmp_path / "out").read_text()
    served = [line for line in (tmp_path / "out").read_text().splitlines() if line.startswith("this is")]
    assert len(set(served)) == 2


def test_a_failing_job_is_seen_to_fail(either: SlurmCluster, tmp_path: Path) -> None:
    assert either.end_of(submit(either, tmp_path, script="exit 42")) == "FAILED"


def is_running(pid: int) -> bool:
    """Whether a process is there; a zombie, which an init may reap late, is not."""
    try:
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except (FileNotFoundError, ProcessLookupError):
        return False


def processes_of(cluster: SlurmCluster) -> set[int]:
    """The daemons by their pid files, and all that lives in the namespaces of the nodes."""
    namespaces = {file.stat().st_ino for file in (cluster.base / "ns").iterdir()}
    found = {int(file.read_text()) for file in (cluster.base / "pid").glob("*.pid")}
    return found | {int(link.parts[2]) for link in Path("/proc").glob("[0-9]*/ns/uts") if inode(link) in namespaces}


def inode(path: Path) -> int | None:
    """The inode behind a link of a process; None if the process has ended meanwhile."""
    try:
        return path.stat().st_ino
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_down_leaves_nothing(cluster: SlurmCluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("down")
    with SlurmCluster.up(2, base=base) as short:
        # one step that goes on, and one process that has left its step behind, as a careless job script's would
        submit(short, tmp_path, "--nodes=2", script=f"srun sh -c 'setsid sleep 300 & touch {tmp_path}/$(hostname); sleep 300'")
        wait_until_running(short, tmp_path)
        before = {pid for pid in processes_of(short) if is_running(pid)}
        namespaces = list(Path("/run/netns").glob(f"{short.bridge}-*"))
        assert len(before) > 2 * 3
        assert len(namespaces) == 2
    assert not {pid for pid in before if is_running(pid)}
    assert not [path for path in namespaces if path.exists()]
    assert not list(Path("/sys/class/net").glob(f"{short.bridge}*"))
    assert str(base) not in Path("/proc/self/mounts").read_text()
    assert not base.exists()
    short.down()
    assert len(cluster.run(["sinfo", "-h", "-N", "-p", "batch", "-t", "idle,mix,alloc"]).stdout.splitlines()) == 14


def wait_until_running(cluster: SlurmCluster, folder: Path) -> None:
    """Waits until each node has left its mark in `folder`."""
    marks = " && ".join(f"test -e {folder}/{name}" for name in cluster.names)
    cluster.run(["timeout", "30", "sh", "-c", f"until {marks}; do sleep 0.1; done"])


def test_up_that_fails_half_way_leaves_nothing(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("broken")
    with pytest.raises(ClusterError, match="NoSuchKey"):
        SlurmCluster.up(2, base=base, conf_lines=["NoSuchKey=1"])
    assert not base.exists()
    # a bridge bears the name of its cluster's directory as its alias
    aliases = [path.read_text().strip() for path in Path("/sys/class/net").glob("*/ifalias")]
    assert str(cluster.base) in aliases
    assert str(base) not in aliases


def test_up_that_never_begins_leaves_nothing(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.mktemp("a-name-too-long-for-the-sockets-of-a-step")
    with pytest.raises(ClusterError, match="at most 56 characters"):
        SlurmCluster.up(2, base=base, version=cluster.version)
    assert not base.exists()


def test_down_refuses_a_directory_that_is_no_cluster(cluster: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    done = cluster.run([SCRIPTS / "down.sh", "-b", tmp_path, "-w"], check=False)
    assert done.returncode == 1
    assert (tmp_path / "precious").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_reason_is_one_line_when_not_root() -> None:
    # by standard input: the somebody may not be allowed to read this checkout
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-s", "--", "-n"]
    done = subprocess.run(argv, input=(SCRIPTS / "install.sh").read_text(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["install.sh: the test cluster needs root (namespaces, device nodes): this is nobody"]


def test_no_reason_where_the_cluster_is_up(cluster: SlurmCluster) -> None:
    assert unavailable_reason(cluster.version) is None
