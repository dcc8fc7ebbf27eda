"""The test clusters, for contracts that hold on a real Slurm, too."""

from __future__ import annotations

from tests.cluster.conftest import cluster, old_cluster

__all__ = ["cluster", "old_cluster"]
