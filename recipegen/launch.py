"""The nouns of a launch: how workers lie on nodes, what their processes run, the plan of a job, its rendered bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from recipegen.model import Dynamo, EnvVar, Recipe, Role, RoleRecipe, Word


class LaunchMode(Enum):
    """How a worker lies on nodes."""

    ONE_NODE = "one node"
    """One process on (part of) one node."""
    NODE_LOCAL_DP = "data parallel by node"
    """A process with its own data-parallel ranks, and its own endpoint, on every node."""
    SPANNING = "replica across nodes"
    """One rendezvous over all nodes; every node but the first is headless."""


@dataclass(frozen=True, kw_only=True)
class WorkerLayout:
    """The placement of one role's workers: nodes and GPUs of each, ranks and ports of its processes.

    `first_node` is the index of the role's first node in the job; worker w stands on nodes
    first_node + w * nodes_per_worker ... when it fills nodes, else on node first_node + (w + first_slot) // workers_per_node,
    in slot (w + first_slot) % workers_per_node: another role may have the slots before `first_slot` of the first node.
    `ports` are bases for slot 0; slot s adds s * slot_ports.
    """

    role: Role
    mode: LaunchMode
    workers: int
    nodes_per_worker: int
    workers_per_node: int
    gpus_per_process: int
    local_dp: int
    first_node: int
    ports: tuple[Port, ...]
    slot_ports: int
    first_slot: int = 0

    @property
    def instances(self) -> int:
        """`generate` endpoints that these workers register: headless processes have none."""
        return self.workers * (self.nodes_per_worker if self.mode is LaunchMode.NODE_LOCAL_DP else 1)

    @property
    def nodes(self) -> int:
        """Nodes on which workers stand, one that is shared with another role included."""
        return -(-(self.workers + self.first_slot) // self.workers_per_node) * self.nodes_per_worker

    def node(self, worker: int) -> int:
        """The node of the job on which a worker stands, the first of several, counted from 0."""
        return self.first_node + (worker + self.first_slot) // self.workers_per_node * self.nodes_per_worker

    def slot(self, worker: int) -> int:
        """The worker's slot on its node; 0 for one that fills nodes."""
        return (worker + self.first_slot) % self.workers_per_node


@dataclass(frozen=True)
class Port:
    """A named block of `count` ports from `base` on; the job adds its offset to the base."""

    name: str
    base: int
    count: int = 1


class When(Enum):
    """In which processes an argument stands."""

    ALWAYS = "always"
    FOLLOWER = "rank > 0"
    HUB_ID = "the model is a hub id, not a local snapshot"


@dataclass(frozen=True, kw_only=True)
class Arg:
    """One argument of an engine's command: its words, the comment beside it, where it stands, and its group in the script."""

    words: tuple[Word, ...]
    note: str = ""
    when: When = When.ALWAYS
    group: str = "engine"


@dataclass(frozen=True, kw_only=True)
class Command:
    """How a worker process of one role starts: program, arguments, environment; ranks are placeholders."""

    program: tuple[str, ...]
    args: tuple[Arg, ...]
    env: tuple[EnvVar, ...]


@dataclass(frozen=True, kw_only=True)
class RolePlan:
    """A role's recipe, where its workers stand, and the command that each of their processes runs."""

    recipe: RoleRecipe
    layout: WorkerLayout
    command: Command


@dataclass(frozen=True, kw_only=True)
class Process:
    """A worker's part on one node: ports are bases, argv and env keep addresses and ports as `${NAME}`."""

    role: Role
    worker: int
    node_index: int
    node_rank: int
    device_ids: tuple[int, ...]
    headless: bool
    ports: tuple[Port, ...]
    env: tuple[EnvVar, ...]
    argv: tuple[Word, ...]


@dataclass(frozen=True, kw_only=True)
class Directives:
    """What the topology asks of Slurm. The GPU request and the segment differ in form between sites.

    `segment` is the nodes that must lie in one NVLink domain; 0 for a point that is larger than one.
    """

    nodes: int
    tasks_per_node: int
    time_limit_s: int
    gpus_per_node: int
    segment: int


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """Everything that a job will run, before any address or port offset is known.

    `dynamo` is what the job checks for: the recipe's, or the one that the mocker needs in a simulation. `front_ends` are the nodes of
    the front ends, counted from 0: the first alone, or several behind it, with nginx on the first. `services` are ports of the first
    node; of FRONTEND_REPLICA_PORT, which is there with several front ends only, each front end has one on its own node.
    """

    recipe: Recipe
    engine: str
    dynamo: Dynamo
    roles: tuple[RolePlan, ...]
    processes: tuple[Process, ...]
    services: tuple[Port, ...]
    port_step: int
    port_slots: int
    directives: Directives
    front_ends: tuple[int, ...] = (0,)

    @property
    def expected(self) -> dict[Role, int]:
        """Instances that must register, per role."""
        return {r.layout.role: r.layout.instances for r in self.roles}

    @property
    def several_front_ends(self) -> bool:
        """Whether front ends stand behind nginx."""
        return len(self.front_ends) > 1


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The rendered files of one point, by name, and what its leaf folder shares (`lib/...`), by path."""

    point: str
    files: Mapping[str, bytes]
    shared: Mapping[str, bytes]
