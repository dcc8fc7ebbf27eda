"""The nouns of an import: one srt-slurm job, resolved, with the places of what it says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from recipegen.errors import NOWHERE, Problem, Source
from recipegen.model import Role, Topology
from recipegen.settings import Value


@dataclass(frozen=True)
class Comment:
    """Comment lines above a key, and the comment behind it; without '#'."""

    above: tuple[str, ...] = ()
    behind: str = ""


NO_COMMENT = Comment()


@dataclass(frozen=True)
class Remark:
    """Comment lines of a file, without '#', and the path of the key at which they stand (empty: none); or what stands `behind` its value."""

    path: str
    lines: tuple[str, ...]
    behind: bool = False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A flag, a variable or a setting: its name as recipegen writes it, its value, its place and its comment."""

    name: str
    value: Value
    source: Source = field(default=NOWHERE, compare=False)
    comment: Comment = field(default=NO_COMMENT, compare=False)


@dataclass(frozen=True, kw_only=True)
class SrtRole:
    """One role of a job: the nodes that its workers take (beside those of a role before it, where they share one), its workers, the GPUs
    that the recipe gives each (0: not known), and what it gives the engine.

    `flags` are without those that follow from the topology, the model or the workload. With `kv_events`, workers publish what their
    caches hold.
    """

    role: Role
    nodes: int
    workers: int
    topology: Topology
    flags: tuple[Entry, ...]
    env: tuple[Entry, ...]
    kv_events: bool = False
    gpus: int = field(default=0, compare=False)
    source: Source = field(default=NOWHERE, compare=False)

    def flag(self, name: str) -> Value | None:
        """The flag's value; None where it is not set."""
        return next((entry.value for entry in self.flags if entry.name == name), None)


@dataclass(frozen=True, kw_only=True)
class SrtModel:
    """What is served: a hub id, an alias or a path; an empty revision is not pinned."""

    repo: str
    revision: str
    served_name: str


@dataclass(frozen=True, kw_only=True)
class SrtRuntime:
    """The software: image, vLLM build (empty: not known), Dynamo and how it is installed."""

    image: str
    vllm: str
    dynamo: str
    install: str
    install_source: str = ""
    request_plane: str = ""


@dataclass(frozen=True, kw_only=True)
class SrtFrontend:
    """The front ends: arguments and variables of each, how many are wanted, and what is said of nginx before several (empty: nothing).

    `stated` tells whether the recipe itself says how many there are, or leaves that to srtctl. `places` are by the names of these fields.
    """

    args: tuple[Entry, ...] = ()
    env: tuple[Entry, ...] = ()
    replicas: int = 1
    nginx_image: str = ""
    session_header: str = ""
    stated: bool = field(default=True, compare=False)
    places: Mapping[str, Source] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, kw_only=True)
class SrtRecipe:
    """One job of a recipe file. `variant` names the override or the sweep's values that make it; empty for a plain file.

    `max_model_len` of None leaves it to the model, `ready_s` of None to the cluster. With `colocate`, decode workers begin on the GPUs
    that prefill workers leave free. `remarks` are all comments of the file. `places` are by the names of these fields.
    """

    file: str
    variant: str
    name: str
    head: tuple[str, ...] = field(default=(), compare=False)
    remarks: tuple[Remark, ...] = field(default=(), compare=False)
    model: SrtModel
    hardware: str
    gpus_per_node: int
    runtime: SrtRuntime
    isl: int
    osl: int
    max_model_len: int | None
    roles: tuple[SrtRole, ...]
    mtp: int
    concurrency: tuple[int, ...]
    time_limit_s: int
    benchmark: tuple[Entry, ...]
    setup_script: str = ""
    sbatch: tuple[Entry, ...] = ()
    srun: tuple[Entry, ...] = ()
    dedicated_node: bool = False
    ready_s: int | None = None
    frontend: SrtFrontend = SrtFrontend()
    colocate: bool = False
    carried: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[Problem, ...] = field(default=(), compare=False)
    source: Source = field(default=NOWHERE, compare=False)
    places: Mapping[str, Source] = field(default_factory=dict, compare=False)

    @property
    def nodes(self) -> int:
        """Nodes of the job, one for services alone included."""
        return sum(role.nodes for role in self.roles) + self.dedicated_node

    def place(self, name: str) -> Source:
        """Where the recipe says this; the recipe as a whole where it has no place of its own."""
        return self.places.get(name, self.source)
