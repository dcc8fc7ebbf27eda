"""Rules of vLLM that differ by build or GPU generation: which of them hold for a declared build."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from recipegen.model import Topology
from recipegen.sizing.graphs import BLACKWELL_CAP, DEFAULT_CAP

_RELEASE = re.compile(r"(?P<major>\d+)\.(?P<minor>\d+)(?:\.\d+)?(?P<rest>.*)")
_COMMITS = re.compile(r"\.dev(?P<count>\d+)")
_BLACKWELL = re.compile(r"(?:^|[^a-z0-9])g?b[123]00(?![0-9])")

SEQUENCE_PARALLEL_BACKENDS = frozenset(
    {"allgather_reducescatter", "deepep_high_throughput", "deepep_low_latency", "mori_high_throughput", "mori_low_latency", "nixl_ep"}
)
"""All2all backends with sequence-parallel MoE: vLLM 0.26 to 0.28 `config/parallel.py` use_sequence_parallel_moe."""

ONE_SIDED = "flashinfer_nvlink_one_sided"
DEFAULT_ALL2ALL = "allgather_reducescatter"
REPLACED_BACKENDS = frozenset({"naive", "pplx"})
"""Names that vLLM still takes and replaces by the default."""

MAIN_AHEAD = 1000
"""Commits. main counts on from the last tag that lies on it: 0.26.1rc1.dev1177 is 0.28, with what 0.29 released first."""


@dataclass(frozen=True)
class EngineBuild:
    """`version` is the release whose rules hold; `one_sided_shards_sequences`, that FlashInfer's one-sided all2all has sequence-parallel MoE."""

    version: tuple[int, int]
    one_sided_shards_sequences: bool


@cache
def engine_build(declared: str) -> EngineBuild:
    """Return the rules of a declared build; one that cannot be read counts as 0.28."""
    found = _RELEASE.match(declared)
    if not found:
        return EngineBuild((0, 28), one_sided_shards_sequences=False)
    version = (int(found["major"]), int(found["minor"]))
    commits = _COMMITS.search(found["rest"])
    if commits and int(commits["count"]) >= MAIN_AHEAD:
        return EngineBuild(max(version, (0, 28)), one_sided_shards_sequences=True)
    return EngineBuild(version, one_sided_shards_sequences=version >= (0, 29))


@cache
def is_blackwell(hardware: str) -> bool:
    """Whether a hardware key names a data-centre Blackwell (SM100/103): b200, gb200, b300, gb300."""
    return _BLACKWELL.search(hardware) is not None


def capture_cap(build: EngineBuild, *, blackwell: bool) -> int:
    """Tokens: bound of the default CUDA graph capture size."""
    return BLACKWELL_CAP if blackwell and build.version >= (0, 28) else DEFAULT_CAP


def shards_sequences(build: EngineBuild, backend: str, topology: Topology) -> bool:
    """Whether MoE is sequence-parallel, and so the shared expert whole on every GPU: EP, TP and DP above 1, and a backend that can."""
    able = backend in SEQUENCE_PARALLEL_BACKENDS or (backend == ONE_SIDED and build.one_sided_shards_sequences)
    return able and topology.ep and topology.tp > 1 and topology.dp > 1
