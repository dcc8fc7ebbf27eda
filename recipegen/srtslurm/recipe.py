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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A flag, a variable or a setting: its name as recipegen writes it, its value, its place and its comment."""

    name: str
    value: Value
    source: Source = field(default=NOWHERE, compare=False)
    comment: Comment = field(default=NO_COMMENT, compare=False)


@dataclass(frozen=True, kw_only=True)
class SrtRole:
    """One role of a job: nodes, workers, GPUs of a worker, and what the recipe gives its engine.

    `flags` are without those that follow from the topology, the model or the workload.
    """

    role: Role
    nodes: int
    workers: int
    topology: Topology
    flags: tuple[Entry, ...]
    env: tuple[Entry, ...]
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
class SrtRecipe:
    """One job of a recipe file. `variant` names the override or the sweep's values that make it; empty for a plain file.

    `max_model_len` of None leaves it to the model, `ready_s` of None to the cluster. `places` are by the names of these fields.
    """

    file: str
    variant: str
    name: str
    head: tuple[str, ...] = field(default=(), compare=False)
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
    frontend_args: tuple[Entry, ...] = ()
    carried: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[Problem, ...] = field(default=(), compare=False)
    source: Source = field(default=NOWHERE, compare=False)
    places: Mapping[str, Source] = field(default_factory=dict, compare=False)

    def place(self, name: str) -> Source:
        """Where the recipe says this; the recipe as a whole where it has no place of its own."""
        return self.places.get(name, self.source)
