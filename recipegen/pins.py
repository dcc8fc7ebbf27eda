"""What a matrix pins: the model, the machine, and the software."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recipegen.architecture import Architecture
from recipegen.errors import NOWHERE, Source


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model as data: where it is pinned, how much its checkpoint weighs, and its architecture where that is known.

    `repo` is a hub id ORG/NAME, or, in a matrix, an alias that a cluster's profile maps, or an absolute path. An empty `revision`
    pins nothing. `key` is that of the data file, or `repo`.
    """

    key: str
    repo: str
    revision: str
    served_name: str
    checkpoint_bytes: int = 0
    architecture: Architecture | None = None

    @property
    def is_hub_id(self) -> bool:
        return "/" in self.repo.lstrip("/") and not self.repo.startswith("/")

    @property
    def is_alias(self) -> bool:
        return "/" not in self.repo


@dataclass(frozen=True, kw_only=True)
class HardwareSpec:
    """A machine type as data: its nodes, its NVLink domain, and the environment that workers across nodes need there.

    `gpu_memory_gib` is what an engine sees of one GPU (0: not known), `machine` the nodes' architecture as `uname -m` prints it,
    `compute_capability` the GPUs' as CUDA counts it, such as `10.3` (empty: not known). `split` tells that `gpus_per_node` is the
    matrix's, not the type's.
    """

    key: str
    gpus_per_node: int
    nodes_per_domain: int
    gpu_memory_gib: float = 0
    machine: str = ""
    compute_capability: str = ""
    multi_node_env: Mapping[str, str] = field(default_factory=dict)
    split: bool = False


@dataclass(frozen=True, kw_only=True)
class Dynamo:
    """Which Dynamo, how it gets into the container, and over what its requests go: `tcp` or `nats`.

    `present` is only checked; `pip` installs the pinned version, `wheel` and `git` install `source`. An empty version is not known,
    and so not compared; `pip` has one.
    """

    version: str
    install: str = "present"
    source: str = ""
    request_plane: str = "tcp"

    @property
    def requirement(self) -> str:
        """What pip is asked to install; empty when Dynamo is already there."""
        match self.install:
            case "pip":
                return f"ai-dynamo=={self.version}"
            case "wheel":
                return self.source
            case "git":
                return f"git+{self.source.removeprefix('git+')}"
            case _:
                return ""


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """The pinned software: image (tag or digest, taken as written), vLLM build, Dynamo; and where the first two were written.

    An empty `vllm` says that the build is not known.
    """

    image: str
    vllm: str
    dynamo: Dynamo
    image_source: Source = NOWHERE
    vllm_source: Source = NOWHERE
