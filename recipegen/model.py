"""The nouns every room shares, as frozen dataclasses and enums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from recipegen.errors import NOWHERE, Source

Value = str | int | float | bool | tuple[str | int | float, ...]
"""What an engine flag can hold: a JSON argument is its text, `True` a bare flag, a tuple several values of one flag."""


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
    """Request lengths in tokens: input, output, and the longest sequence an engine accepts."""

    isl: int
    osl: int
    max_model_len: int
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Mla:
    """Multi-head latent attention: a token keeps one latent and one rotary key a layer, whole on every GPU."""

    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    q_lora_rank: int = 0


@dataclass(frozen=True, kw_only=True)
class Attention:
    """A model's attention layers; `output_gate` doubles the query projection.

    `sliding_layers` of them look back over the last `window` tokens only; a window of 0 is not known.
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    sliding_layers: int = 0
    window: int = 0
    output_gate: bool = False
    mla: Mla | None = None


@dataclass(frozen=True, kw_only=True)
class LinearAttention:
    """Layers whose state does not grow with the sequence: gated delta net (`gdn`) or `mamba2`.

    For mamba2, key heads are its groups, a key head's dimension the SSM state size, value heads its heads.
    """

    kind: str = "gdn"
    layers: int
    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    conv_kernel: int
    ssm_dtype: str = "float32"


@dataclass(frozen=True, kw_only=True)
class Moe:
    """Mixture-of-experts blocks; `expert_dtype` is what routed experts are stored in (`nvfp4`, `fp8`, `mxfp4`, `bfloat16`)."""

    layers: int
    experts: int
    top_k: int
    intermediate_size: int
    shared_intermediate_size: int = 0
    expert_dtype: str


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The numbers of a model's `config.json` that sizing needs; sizes of 0 are not known, and what needs them is not said.

    `mtp_layers` of 0 says that there are none.
    """

    dtype: str = "bfloat16"
    hidden_size: int = 0
    vocab_size: int = 0
    tied_embeddings: bool = False
    max_position: int = 0
    mlp_layers: int = 0
    mlp_intermediate_size: int = 0
    mtp_layers: int = 0
    attention: Attention
    linear: LinearAttention | None = None
    moe: Moe | None = None


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """A model as data: where it is pinned, how much its checkpoint weighs, and its architecture where that is known."""

    key: str
    repo: str
    revision: str
    served_name: str
    checkpoint_bytes: int = 0
    architecture: Architecture | None = None


@dataclass(frozen=True, kw_only=True)
class HardwareSpec:
    """A machine type as data: its nodes, its NVLink domain, and the environment that workers across nodes need there.

    `gpu_memory_gib` is what an engine sees of one GPU (0: not known), `machine` the nodes' architecture as `uname -m` prints it,
    `compute_capability` the GPUs' as CUDA counts it, such as `10.3` (empty: not known).
    """

    key: str
    gpus_per_node: int
    nodes_per_domain: int
    gpu_memory_gib: float = 0
    machine: str = ""
    compute_capability: str = ""
    multi_node_env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Dynamo:
    """Which Dynamo, and how it gets into the container.

    `present` is only checked; `pip` installs the pinned version, `wheel` and `git` install `source`.
    """

    version: str
    install: str = "present"
    source: str = ""

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
    """The pinned software: image (tag or digest, taken as written), vLLM build, Dynamo; and where the first two were written."""

    image: str
    vllm: str
    dynamo: Dynamo
    image_source: Source = NOWHERE
    vllm_source: Source = NOWHERE


@dataclass(frozen=True)
class KeyPlace:
    """Where a key of a JSON argument, written as a mapping, and its value stand; `path` are the keys that lead to it."""

    path: tuple[str | int, ...]
    key: Source
    value: Source


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One `args`, `env` or `derive` entry as the author wrote it; `None` removes an inherited one.

    `source` is the place of the value, `key_source` that of the name; `places` those within a value that is a mapping.
    """

    name: str
    value: Value | None
    source: Source
    key_source: Source = NOWHERE
    places: tuple[KeyPlace, ...] = ()

    @property
    def name_place(self) -> Source:
        """Where the name stands, or the value where that is not known."""
        return self.key_source if self.key_source.file else self.source

    def place_of(self, path: tuple[str | int, ...], *, key: bool = False) -> Source:
        """Where the value at `path` within a mapping stands, or its key; the nearest that is known above it else."""
        for length in range(len(path), 0, -1):
            for place in self.places:
                if place.path == path[:length]:
                    return place.key if key else place.value
        return self.source


@dataclass(frozen=True, kw_only=True)
class RoleSettings:
    """What the author set for a role: engine flags, environment, and flags given by a formula; and where that begins."""

    args: tuple[Setting, ...] = ()
    env: tuple[Setting, ...] = ()
    derive: tuple[Setting, ...] = ()
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Point:
    """One operating point: shapes of its roles, speculation depth, the concurrencies it is for."""

    name: str
    shapes: tuple[RoleShape, ...]
    mtp: int
    concurrency: tuple[int, ...]
    sized_for: int
    time_limit_s: int
    overrides: Mapping[Role, RoleSettings]
    source: Source
    time_limit_source: Source = NOWHERE


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
class Allowance:
    """A rule that the author lets be broken, and why; by the named points only, or by all where none is named."""

    rule: str
    reason: str
    points: tuple[str, ...] = ()
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The source file of one leaf folder, parsed: what holds for all points, and the points."""

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


@dataclass(frozen=True, kw_only=True)
class Flag:
    """An engine flag, resolved; `derivation` tells how a derived value came about, in numbers, `source` where it was written."""

    name: str
    value: Value
    derivation: str = ""
    source: Source = NOWHERE


@dataclass(frozen=True)
class Placeholder:
    """A value that is known only in the job: an address, a port, a rank; a shell variable of that name."""

    name: str

    def __str__(self) -> str:
        return f"${{{self.name}}}"


Word = str | Placeholder
"""One word of a command line, or the value of a variable."""


@dataclass(frozen=True, kw_only=True)
class EnvVar:
    """An environment variable of a worker process, of the recipe or added by the launcher; `note` says why."""

    name: str
    value: Word
    note: str = ""
    launcher: bool = False
    source: Source = NOWHERE


@dataclass(frozen=True, kw_only=True)
class RoleRecipe:
    """One role with every flag and variable that the recipe decides; what placement adds comes with the plan.

    `unset_env` names variables that the author took back with null: the launcher does not set them either. `source` is where
    the role's shape was written.
    """

    role: Role
    workers: int
    topology: Topology
    flags: tuple[Flag, ...]
    env: tuple[EnvVar, ...]
    unset_env: tuple[str, ...] = ()
    source: Source = NOWHERE

    def flag(self, name: str) -> Value | None:
        return next((f.value for f in self.flags if f.name == name), None)


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
