"""Bytes that a model keeps in one layer on one GPU: of attention per token, of linear attention per request.

Sources: vLLM 0.28 `v1/kv_cache_interface.py` (FullAttentionSpec, MLAAttentionSpec, MambaSpec) and
`model_executor/layers/mamba/mamba_utils.py` (gated_delta_net_state_shape, mamba2_state_shape).
"""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.architecture import Architecture, LinearAttention, Mla

DTYPE_BYTES = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "auto": 2,
    "fp8": 1,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "fp8_inc": 1,
}
"""Bytes of an element. Cache types that pack values or store scales beside them (nvfp4, turboquant, per token and head) are not here."""

PACKED_MLA = "fp8_ds_mla"
PACKED_MLA_BYTES = 656
"""A token of a 512 + 64 latent: 512 B of fp8, 16 B of scales, 128 B of bf16 rotary key (vLLM `mla/flashmla_sparse.py`)."""


@dataclass(frozen=True)
class CacheDtypes:
    """Names as vLLM's flags take them: attention cache, convolution state, SSM state; `auto` is the model's own."""

    kv: str = "auto"
    conv: str = "auto"
    ssm: str = "auto"


def unknown_cache_dtype(dtypes: CacheDtypes, model: Architecture | None = None) -> str:
    """The first of the types whose size is not known, or an empty string; the packed latent is known for its one shape only."""
    packed = model is not None and model.attention.mla is not None and _is_packed_shape(model.attention.mla)
    if dtypes.kv not in DTYPE_BYTES and not (packed and dtypes.kv == PACKED_MLA):
        return dtypes.kv
    return next((d for d in (dtypes.conv, dtypes.ssm) if d not in DTYPE_BYTES), "")


def attention_bytes_per_token(model: Architecture, *, tp: int, dtype: str) -> int:
    """Bytes that one token keeps in one attention layer on one GPU.

    K and V of this GPU's KV heads, which are replicated when TP exceeds them; with MLA the latent and the rotary key, once and
    whole on every GPU. KeyError for a type of unknown size.
    """
    mla = model.attention.mla
    if mla is not None:
        if dtype == PACKED_MLA and _is_packed_shape(mla):
            return PACKED_MLA_BYTES
        return (mla.kv_lora_rank + mla.qk_rope_head_dim) * dtype_bytes(dtype, model.dtype)
    return max(1, model.attention.kv_heads // tp) * 2 * model.attention.head_dim * dtype_bytes(dtype, model.dtype)


def conv_channels(linear: LinearAttention, *, tp: int) -> int:
    """Channels of the convolution on all GPUs together; mamba2 groups that TP does not divide are replicated to TP of them.

    Source: `mamba_utils.py` extra_groups_for_head_shards.
    """
    keys = linear.key_heads
    if linear.kind == "mamba2" and keys % tp:
        keys = tp
    return 2 * keys * linear.key_head_dim + linear.value_heads * linear.value_head_dim


def linear_state_bytes(model: Architecture, linear: LinearAttention, *, tp: int, mtp: int, dtypes: CacheDtypes) -> int:
    """Bytes of one request's convolution and SSM state in one layer on one GPU; each drafted token adds a convolution row."""
    conv = conv_channels(linear, tp=tp) // tp * (linear.conv_kernel - 1 + mtp) * dtype_bytes(dtypes.conv, model.dtype)
    heads = linear.value_heads // tp
    ssm = heads * linear.value_head_dim * linear.key_head_dim * dtype_bytes(dtypes.ssm, linear.ssm_dtype)
    return conv + ssm


def dtype_bytes(dtype: str, own: str) -> int:
    """Bytes of an element of a type, `auto` being `own`."""
    return DTYPE_BYTES[own if dtype == "auto" else dtype]


def _is_packed_shape(mla: Mla) -> bool:
    return (mla.kv_lora_rank, mla.qk_rope_head_dim) == (512, 64)
