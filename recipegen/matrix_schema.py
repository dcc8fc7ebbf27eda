"""The shape of `matrix.yaml`, for validation and the JSON schema; meaning is checked in `matrix`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=10_000_000)]
Size = Annotated[int, Field(ge=0, le=10_000_000)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=100)]
FlagName = Annotated[str, Field(pattern=r"^[a-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\+?$", max_length=100)]
Duration = Annotated[str, Field(pattern=r"^([0-9]{1,3}-)?[0-9]{1,3}:[0-5][0-9]:[0-5][0-9]$")]


class Strict(BaseModel):
    """No unknown keys, no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WorkloadSchema(Strict):
    """Token counts."""

    isl: Count
    osl: Count
    max_model_len: Count


class DynamoSchema(Strict):
    """Which Dynamo and how it gets into the container; `source` is the wheel or the git URL."""

    version: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+!-]*$", max_length=60)]
    install: Literal["present", "pip", "wheel", "git"] = "present"
    source: Annotated[str, Field(pattern=r"^[^\s'\"$`\\;-][^\s'\"$`\\;]*$", max_length=300)] | None = None


class RuntimeSchema(Strict):
    """Pins of the software."""

    image: Annotated[str, Field(pattern=r"^[A-Za-z0-9./][A-Za-z0-9._/:@#+-]*$", max_length=300)]
    vllm: Annotated[str, Field(pattern=r"^[0-9][0-9A-Za-z.+!-]*$", max_length=80)]
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
    """One operating point."""

    prefill: str | ShapeSchema | None = None
    decode: str | ShapeSchema | None = None
    agg: str | ShapeSchema | None = None
    common: SettingsSchema = SettingsSchema()
    mtp: Annotated[int, Field(ge=0, le=64)] = 0
    concurrency: Annotated[list[Count], Field(min_length=1, max_length=100)]
    sized_for: Count | None = None
    time_limit: Duration


class BenchmarkSchema(Strict):
    """What a variant measures."""

    type: Literal["sa-bench", "aiperf", "gsm8k"]


class VariantSchema(Strict):
    """A choice at submission."""

    benchmark: BenchmarkSchema


class MatrixSchema(Strict):
    """The whole file."""

    schema_: Literal["recipegen/v1"] = Field(alias="schema")
    name: Name
    model: str
    hardware: str
    workload: WorkloadSchema
    runtime: RuntimeSchema
    expert_parallel: bool | RoleSwitchSchema = False
    common: SettingsSchema = SettingsSchema()
    prefill: SettingsSchema = SettingsSchema()
    decode: SettingsSchema = SettingsSchema()
    agg: SettingsSchema = SettingsSchema()
    points: Annotated[list[PointSchema], Field(min_length=1, max_length=20_000)]
    variants: dict[Name, VariantSchema] = {}


class MlaSchema(Strict):
    """Multi-head latent attention, of a model's data file."""

    kv_lora_rank: Count
    qk_rope_head_dim: Count
    qk_nope_head_dim: Count
    v_head_dim: Count
    q_lora_rank: Size = 0


class AttentionSchema(Strict):
    """Full-attention layers."""

    layers: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
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

    repo: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]
    served_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$")]
    checkpoint_bytes: Annotated[int, Field(ge=0, le=1 << 50)] = 0
    architecture: ArchitectureSchema | None = None


class HardwareSchema(Strict):
    """A file of data/hardware/."""

    gpus_per_node: Count
    nodes_per_domain: Count
    gpu_memory_gib: Annotated[float, Field(ge=0, le=10_000)] = 0.0
    machine: Literal["aarch64", "x86_64", ""] = ""
    multi_node_env: dict[EnvName, str] = {}
