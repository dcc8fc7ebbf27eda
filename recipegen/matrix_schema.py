"""The shape of `matrix.yaml`, for validation and the JSON schema; meaning is checked in `matrix`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue

from recipegen.job_schema import FrontendSchema, HardwareSplitSchema, InfraSchema, ModelPinSchema, ReadySchema, SlurmOptionsSchema
from recipegen.schema_types import (
    Count,
    Duration,
    EnvName,
    FlagName,
    Matching,
    Multiple,
    Name,
    PathText,
    PythonClass,
    Size,
    Strict,
    WheelOrGit,
)

__all__ = ["BenchmarkSchema", "BuildsSchema", "Count", "HardwareSchema", "Matching", "MatrixSchema", "ModelSchema", "Size", "Strict"]


class WorkloadSchema(Strict):
    """Token counts."""

    isl: Count
    osl: Count
    max_model_len: Count | None = None


class DynamoSchema(Strict):
    """Which Dynamo and how it gets into the container; `source` is the wheel or the git URL."""

    version: Annotated[str, Matching(r"^[0-9][0-9A-Za-z.+!-]*$", "a version such as 1.2.1, without the v", most=60)] | None = None
    install: Literal["present", "pip", "wheel", "git"] = "present"
    source: WheelOrGit | None = None
    request_plane: Literal["tcp", "nats"] = "tcp"


class RuntimeSchema(Strict):
    """Pins of the software."""

    image: Annotated[str, Matching(r"^[A-Za-z0-9./][A-Za-z0-9._/:@#+-]*$", "an image: letters, digits and . _ / : @ # + -", most=300)]
    vllm: Annotated[str, Matching(r"^[0-9][0-9A-Za-z.+!-]*$", "a version such as 0.28.0, without the v", most=80)] | None = None
    dynamo: DynamoSchema


class SettingsSchema(Strict):
    """Engine flags, environment, and flags by formula."""

    args: dict[FlagName, Any] = {}
    env: dict[EnvName, str | None] = {}
    derive: dict[FlagName, str] = {}


class ShapeSchema(SettingsSchema):
    """The long form of a role in a point; `gpus` states a worker's GPUs and is checked against the topology."""

    shape: str
    gpus: Count | None = None


class RoleSwitchSchema(Strict):
    """A switch by role."""

    prefill: bool = False
    decode: bool = False
    agg: bool = False


class PointSchema(Strict):
    """One operating point; with `colocate`, decode workers begin on the GPUs that prefill workers leave free."""

    prefill: str | ShapeSchema | None = None
    decode: str | ShapeSchema | None = None
    agg: str | ShapeSchema | None = None
    common: SettingsSchema = Field(default_factory=SettingsSchema)
    mtp: Annotated[int, Field(ge=0, le=64)] = 0
    concurrency: Annotated[list[Count], Field(min_length=1, max_length=100)]
    sized_for: Count | None = None
    time_limit: Duration
    colocate: bool = False


class BenchmarkSchema(Strict):
    """What is measured. Which of the settings a type takes, and their defaults, `benchmarks` has as data."""

    type: Literal["sa-bench", "aiperf", "mooncake-router", "trace-replay", "gsm8k", "mmlu", "gpqa", "longbenchv2", "lm-eval", "manual"]
    endpoint: Literal["/v1/completions", "/v1/chat/completions"] | None = None
    backend: Name | None = None
    chat_template: bool | None = None
    prompts_per_concurrency: Multiple | None = None
    warmup_per_concurrency: Annotated[float, Field(ge=0, le=1000)] | None = None
    request_rate: Literal["inf"] | Multiple | None = None
    random_range_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    tokenizer: PathText | None = None
    tokenizer_class: PythonClass | None = None
    dataset: Annotated[str, Matching(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "the name of a dataset: letters, digits and . _ / -", most=200)] | None = None
    dataset_path: PathText | None = None
    reuse_connections: bool | None = None
    trace_file: PathText | None = None
    mooncake_workload: Name | None = None
    ttft_threshold_ms: Multiple | None = None
    itl_threshold_ms: Multiple | None = None
    num_examples: Count | None = None
    num_shots: Size | None = None
    num_threads: Count | None = None
    max_tokens: Count | None = None
    max_context_length: Count | None = None
    repeat: Annotated[int, Field(ge=1, le=1000)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1, le=1_000_000)] | None = None
    categories: Annotated[list[Name], Field(min_length=1, max_length=100)] | None = None


class VariantSchema(Strict):
    """A choice at submission."""

    benchmark: BenchmarkSchema


class AllowanceSchema(Strict):
    """A rule that may be broken, and why; by all points unless some are named."""

    rule: Name
    reason: Annotated[str, Matching(r"\S", "a reason", most=500)]
    points: Annotated[list[str], Field(min_length=1, max_length=20_000)] | None = None


class MatrixSchema(Strict):
    """The whole file."""

    schema_: Literal["recipegen/v1"] = Field(alias="schema")
    name: Name
    model: str | ModelPinSchema
    hardware: str | HardwareSplitSchema
    workload: WorkloadSchema
    runtime: RuntimeSchema
    expert_parallel: bool | RoleSwitchSchema = False
    kv_events: bool | RoleSwitchSchema = False
    common: SettingsSchema = Field(default_factory=SettingsSchema)
    prefill: SettingsSchema = Field(default_factory=SettingsSchema)
    decode: SettingsSchema = Field(default_factory=SettingsSchema)
    agg: SettingsSchema = Field(default_factory=SettingsSchema)
    points: Annotated[list[PointSchema], Field(min_length=1, max_length=20_000)]
    benchmark: BenchmarkSchema = Field(default_factory=lambda: BenchmarkSchema(type="sa-bench"))
    variants: dict[Name, VariantSchema] = {}
    allow: Annotated[list[AllowanceSchema], Field(max_length=1000)] = []
    setup_script: PathText | None = None
    slurm: SlurmOptionsSchema = Field(default_factory=SlurmOptionsSchema)
    infra: InfraSchema = Field(default_factory=InfraSchema)
    deadlines: ReadySchema = Field(default_factory=ReadySchema)
    frontend: FrontendSchema = Field(default_factory=FrontendSchema)
    carried: dict[str, JsonValue] = {}


class MlaSchema(Strict):
    """Multi-head latent attention, of a model's data file."""

    kv_lora_rank: Count
    qk_rope_head_dim: Count
    qk_nope_head_dim: Count
    v_head_dim: Count
    q_lora_rank: Size = 0


class AttentionSchema(Strict):
    """Attention layers; `sliding_layers` of them look back over `window` tokens only (0: not known)."""

    layers: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    sliding_layers: Size = 0
    window: Size = 0
    output_gate: bool = False
    mla: MlaSchema | None = None


class LinearSchema(Strict):
    """Linear-attention layers."""

    kind: Literal["gdn", "mamba2"] = "gdn"
    layers: Count
    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    conv_kernel: Count
    ssm_dtype: Literal["float32", "bfloat16", "float16"] = "float32"


class MoeSchema(Strict):
    """Mixture-of-experts blocks."""

    layers: Count
    experts: Count
    top_k: Count
    intermediate_size: Count
    shared_intermediate_size: Size = 0
    expert_dtype: Literal["nvfp4", "mxfp4", "fp8", "bfloat16", "float16"]


class ArchitectureSchema(Strict):
    """The numbers of `config.json` that sizing needs; what is left out is not known."""

    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    hidden_size: Size = 0
    vocab_size: Size = 0
    tied_embeddings: bool = False
    max_position: Size = 0
    mlp_layers: Size = 0
    mlp_intermediate_size: Size = 0
    mtp_layers: Size = 0
    attention: AttentionSchema
    linear: LinearSchema | None = None
    moe: MoeSchema | None = None


class ModelSchema(Strict):
    """A file of data/models/."""

    repo: Annotated[str, Matching(r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$", "a repository of the hub, ORG/NAME")]
    revision: Annotated[str, Matching(r"^[0-9a-f]{40}$", "40 hex digits: the commit")]
    served_name: Annotated[str, Matching(r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", "a name that clients ask for: letters, digits and . _ / -")]
    checkpoint_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 0
    architecture: ArchitectureSchema | None = None


class HardwareSchema(Strict):
    """A file of data/hardware/."""

    gpus_per_node: Count
    nodes_per_domain: Count
    gpu_memory_gib: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    machine: Literal["aarch64", "x86_64", ""] = ""
    compute_capability: Annotated[str, Matching(r"^([0-9]{1,2}\.[0-9])?$", "a compute capability such as 10.3")] = ""
    multi_node_env: dict[EnvName, str] = {}


Release = Annotated[str, Matching(r"^[0-9]+\.[0-9]+(\.[0-9]+)?$", "a release such as 0.28.0, without the v", most=40)]


class RuleSpanSchema(Strict):
    """The releases that have a rule: from one on, up to and with another."""

    since: Release
    until: Release = ""


class NamedBuildSchema(Strict):
    """A build that is no release: whose rules it has, and which later ones."""

    release: Release
    ahead: list[Name] = []


class DevelopmentSchema(NamedBuildSchema):
    """Builds of main by the commits since a tag."""

    tag: Annotated[str, Matching(r"^[0-9][0-9A-Za-z.]*$", "a tag such as 0.28.0, without the v", most=60)]
    commits: Count


class BuildsSchema(Strict):
    """The file data/builds.yaml."""

    newest: Release
    rules: dict[Name, RuleSpanSchema]
    builds: dict[str, NamedBuildSchema]
    development: list[DevelopmentSchema] = []
