"""Session fixtures of the test cluster: one present-day Slurm, one of an old site; skipped, with the reason, where none can be had."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cluster.jobs import Site
from tests.cluster.slurm_cluster import ClusterError, SlurmCluster, Version, install, last_line, unavailable_reason


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Slurm 24.11: 14 nodes of one rack (topology/block), each with an address of its own, no accounting."""
    require("24.11")
    with SlurmCluster.up(14, base=tmp_path_factory.mktemp("slurm24"), version="24.11", per_rack=18) as up:
        yield up


@pytest.fixture(scope="session")
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Slurm 22.05: 3 nodes (topology/tree), without --segment, as on a site that has not upgraded; no accounting."""
    require("22.05")
    with SlurmCluster.up(3, base=tmp_path_factory.mktemp("slurm22"), version="22.05") as up:
        yield up


@pytest.fixture
def site(cluster: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    """A user of the present-day cluster, which is quiet again when the test has ended."""
    require_services()
    here = Site(cluster, tmp_path, {"segment": True, "gpus": "gpus-per-node"})
    yield here
    here.leave()


@pytest.fixture
def old_site(old_cluster: SlurmCluster, tmp_path: Path) -> Iterator[Site]:
    """A user of the old site."""
    require_services()
    here = Site(old_cluster, tmp_path, {"segment": False, "gpus": "gres"})
    yield here
    here.leave()


def require_services() -> None:
    """Skips, as `require` does, where jobs would lack what they run."""
    missing = [*([] if shutil.which("etcd") else ["etcd"]), *([] if find_spec("dynamo") else ["Dynamo (the extra recipegen[sim])"])]
    if missing:
        (pytest.fail if os.environ.get("RECIPEGEN_REQUIRE_SLURM") else pytest.skip)(f"not installed: {', '.join(missing)}")


def require(version: Version) -> None:
    """Skips where the cluster cannot be had; fails instead where RECIPEGEN_REQUIRE_SLURM says that it must."""
    reason = unavailable_reason(version)
    if reason is None:
        try:
            install(version)
        except ClusterError as error:
            reason = last_line(str(error))
    if reason is not None:
        (pytest.fail if os.environ.get("RECIPEGEN_REQUIRE_SLURM") else pytest.skip)(reason)
