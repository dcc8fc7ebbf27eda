"""The nouns every room shares, as frozen dataclasses and enums; `pins` and `words` hold those of what is pinned, and of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any

from recipegen.errors import NOWHERE, Source
from recipegen.pins import Dynamo, HardwareSpec, ModelSpec, Runtime
from recipegen.settings import RoleSettings, Value
from recipegen.words import EnvVar, Flag, Placeholder, Word

__all__ = [
    "NGINX_IMAGE",
    "TEMPLATE_TOKENS",
    "Allowance",
    "Benchmark",
    "Dynamo",
    "EnvVar",
    "Flag",
    "HardwareSpec",
    "JobSettings",
    "Matrix",
    "ModelSpec",
    "Placeholder",
    "Point",
    "Recipe",
    "Role",
    "RoleRecipe",
    "RoleShape",
    "Runtime",
    "Topology",
    "Variant",
    "Word",
    "Workload",
]

NGINX_IMAGE = "nginx:1.27.4"
"""What spreads requests over several front ends where a matrix does not say."""
TEMPLATE_TOKENS = 64
"""What a chat template adds to a prompt at most, as a rule: role marks and a short system prompt."""


class Role(str, Enum):
    """What a worker does: `agg` prefills and decodes, the others do one of the two."""

    PREFILL = "prefill"
    DECODE = "decode"
    AGG = "agg"


@dataclass(frozen=True)
class Topology:
    """Parallel sizes of one worker: TP x PP GPUs form a replica, DP replicas the worker, EP spans TP x DP."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: bool = False

    @property
    def replica_gpus(self) -> int:
        return self.tp * self.pp

    @property
    def gpus(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def ep_size(self) -> int:
        return self.tp * self.dp if self.ep else 1

    def __str__(self) -> str:
        sizes = [(n, s) for n, s in (("TP", self.tp), ("PP", self.pp), ("DP", self.dp)) if s > 1]
        return "".join(f"{name}{size}" for name, size in sizes or [("TP", 1)]) + ("+EP" if self.ep else "")


@dataclass(frozen=True)
class RoleShape:
    """How many workers of one role, each of which topology."""

    role: Role
    workers: int
    topology: Topology
    source: Source

    def __str__(self) -> str:
        return f"{self.workers} x {self.topology}"


@dataclass(frozen=True)
class Workload:
    """Request lengths in tokens: input, output, and the longest sequence an engine accepts.

    Where the matrix does not state the last, `stated` is false and the engine takes the model's own: `max_model_len` is that where
    it is known, else what the requests need.
    """

    isl: int
    osl: int
    max_model_len: int
    source: Source = NOWHERE
    stated: bool = True


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: shapes of its roles, speculation depth, the concurrencies it is for.

    With `colocate`, decode workers begin on the GPUs that prefill workers leave free.
    """

    name: str
    shapes: tuple[RoleShape, ...]
    mtp: int
    concurrency: tuple[int, ...]
    sized_for: int
    time_limit_s: int
    overrides: Mapping[Role, RoleSettings]
    source: Source
    time_limit_source: Source = NOWHERE
    colocate: bool = False


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """What is measured, with which settings; None: the type does not take it, or its own default holds.

    Prompts and warm-up count a concurrency's multiple, `request_rate` requests a second (`inf`: as fast as the concurrency lets),
    thresholds milliseconds. `tokenizer` is a hub id or a path (None: the model's), `tokenizer_class` a Python class instead of it.
    `places` tells where the settings that were written stand, `source` where the benchmark does.
    """

    type: str
    endpoint: str | None = None
    backend: str | None = None
    chat_template: bool | None = None
    prompts_per_concurrency: float | None = None
    warmup_per_concurrency: float | None = None
    request_rate: float | None = None
    random_range_ratio: float | None = None
    tokenizer: str | None = None
    tokenizer_class: str | None = None
    dataset: str | None = None
    dataset_path: str | None = None
    reuse_connections: bool | None = None
    trace_file: str | None = None
    mooncake_workload: str | None = None
    ttft_threshold_ms: float | None = None
    itl_threshold_ms: float | None = None
    num_examples: int | None = None
    num_shots: int | None = None
    num_threads: int | None = None
    max_tokens: int | None = None
    max_context_length: int | None = None
    repeat: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    categories: tuple[str, ...] | None = None
    places: Mapping[str, Source] = field(default_factory=dict)
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A benchmark chosen at submission; the deployment, and so the bundle, stays the same."""

    name: str
    benchmark: Benchmark


@dataclass(frozen=True, kw_only=True)
class JobSettings:
    """What a matrix asks of the job around the engines; all of it may be left out, and then nothing of it shows in a bundle.

    `setup_script` is as written, `setup_path` where the container has it. `sbatch` are options of the job by their long names (True:
    the bare option), `srun` options of the workers' steps, `--key=value`. `ready_s` is how long READY may take at least (0: as the
    cluster says). With `dedicated_node` the job's first node holds discovery and the front end, and no worker. `frontend_args` are
    further arguments of each front end, `frontend_env` its own variables. `front_ends` is how many are wanted: as many as nodes behind
    the first can take stand behind nginx, which `nginx_image` has (empty: one front end is wanted), and which keeps requests of one
    `session_header` together (empty: every request goes to the next). `carried` is kept and shown only: JSON values without effect here.
    """

    setup_script: str = ""
    sbatch: Mapping[str, str | int | bool] = field(default_factory=dict)
    srun: tuple[str, ...] = ()
    dedicated_node: bool = False
    ready_s: int = 0
    frontend_args: tuple[Flag, ...] = ()
    frontend_env: tuple[EnvVar, ...] = ()
    front_ends: int = 1
    nginx_image: str = ""
    session_header: str = ""
    carried: Mapping[str, Any] = field(default_factory=dict)
    setup_source: Source = NOWHERE
    ready_source: Source = NOWHERE

    @property
    def setup_path(self) -> str:
        """Where the container has the setup script; relative ones lie below `/configs`."""
        return self.setup_script if self.setup_script.startswith("/") else f"/configs/{self.setup_script}" if self.setup_script else ""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """A rule that the author lets be broken, and why; by the named points only, or by all where none is named."""

    rule: str
    reason: str
    points: tuple[str, ...] = ()
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The source file of one leaf folder, parsed: what holds for all points, and the points.

    `kv_events` are the roles whose workers publish what their caches hold.
    """

    file: str
    name: str
    model: ModelSpec
    hardware: HardwareSpec
    workload: Workload
    runtime: Runtime
    common: RoleSettings
    roles: Mapping[Role, RoleSettings]
    points: tuple[Point, ...]
    benchmark: Benchmark
    variants: tuple[Variant, ...] = ()
    allow: tuple[Allowance, ...] = ()
    job: JobSettings = JobSettings()
    kv_events: frozenset[Role] = frozenset()
    model_source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class RoleRecipe:
    """One role with every flag and variable that the recipe decides; what placement adds comes with the plan.

    `unset_env` names variables that the author took back with null: the launcher does not set them either. With `kv_events`, workers
    publish what their caches hold. `source` is where the role's shape was written.
    """

    role: Role
    workers: int
    topology: Topology
    flags: tuple[Flag, ...]
    env: tuple[EnvVar, ...]
    unset_env: tuple[str, ...] = ()
    kv_events: bool = False
    source: Source = NOWHERE

    @cached_property
    def _values(self) -> Mapping[str, Value]:
        return {flag.name: flag.value for flag in self.flags}

    @cached_property
    def _keys(self) -> Mapping[str, Mapping[str, Value]]:
        found: dict[str, dict[str, Value]] = {}
        for flag in self.flags:
            head, dot, key = flag.name.partition(".")
            if dot:
                found.setdefault(head, {})[key] = flag.value
        return found

    def flag(self, name: str) -> Value | None:
        return self._values.get(name)

    def keys(self, name: str) -> Mapping[str, Value]:
        """The keys of a JSON argument that are given as flags of their own, `name.key`."""
        return self._keys.get(name, {})


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A point with every value resolved."""

    name: str
    point: str
    model: ModelSpec
    hardware: HardwareSpec
    workload: Workload
    runtime: Runtime
    mtp: int
    concurrency: tuple[int, ...]
    time_limit_s: int
    roles: tuple[RoleRecipe, ...]
    benchmark: Benchmark
    variants: tuple[Variant, ...]
    source: Source
    time_limit_source: Source = NOWHERE
    job: JobSettings = JobSettings()
    model_source: Source = NOWHERE
    colocate: bool = False
