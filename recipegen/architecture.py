"""A model's architecture: the numbers of its `config.json` that sizing needs, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import dataclass


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
