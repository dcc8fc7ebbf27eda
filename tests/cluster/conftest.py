"""Session fixtures of the test cluster: one present-day Slurm, one of an old site; skipped, with the reason, where none can be had."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

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
