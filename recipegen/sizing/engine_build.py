"""Rules of vLLM that differ by build or GPU generation."""

from __future__ import annotations

from recipegen.builds import Build
from recipegen.model import HardwareSpec, Topology
from recipegen.sizing.graphs import BLACKWELL_CAP, DEFAULT_CAP

SEQUENCE_PARALLEL_BACKENDS = frozenset(
    {"allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency", "mori_high_throughput", "mori_low_latency", "nixl_ep"}
)
"""All2all backends with sequence-parallel MoE: vLLM 0.26 to 0.28 `config/parallel.py` use_sequence_parallel_moe."""

ONE_SIDED = "flashinfer_nvlink_one_sided"
DEFAULT_ALL2ALL = "allgather_reducescatter"
REPLACED_BACKENDS = frozenset({"naive", "pplx"})
"""Names that vLLM still takes and replaces by the default."""

BLACKWELL = frozenset({"10.0", "10.3"})
"""Compute capabilities of data-centre Blackwell: b200, gb200; b300, gb300."""


def is_blackwell(hardware: HardwareSpec) -> bool:
    """Whether the GPUs are data-centre Blackwell (SM100/103)."""
    return hardware.compute_capability in BLACKWELL


def capture_cap(build: Build, *, blackwell: bool) -> int:
    """Tokens: bound of the default CUDA graph capture size."""
    return BLACKWELL_CAP if blackwell and build.has("capture-cap-1024") else DEFAULT_CAP


def shards_sequences(build: Build, backend: str, topology: Topology) -> bool:
    """Whether MoE is sequence-parallel, and so the shared expert whole on every GPU: EP, TP and DP above 1, and a backend that can."""
    able = backend in SEQUENCE_PARALLEL_BACKENDS or (backend == ONE_SIDED and build.has("one-sided-sequence-parallel"))
    return able and _is_spread(topology)


def is_sharding_sure(build: Build, backend: str, topology: Topology) -> bool:
    """Whether `shards_sequences` is certain: a build that is known, or a backend that every release answers alike."""
    return build.sure or not _is_spread(topology) or backend != ONE_SIDED


def _is_spread(topology: Topology) -> bool:
    return topology.ep and topology.tp > 1 and topology.dp > 1
