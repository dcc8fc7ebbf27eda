"""vLLM's attention block size of a hybrid model: the block whose page holds one linear-attention state.

Source: vLLM 0.26 to 0.29, `platforms/interface.py` `_align_hybrid_block_size` and
`mamba_utils.py` `gated_delta_net_state_shape`; the same results in all four versions.
"""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.model import Architecture, LinearAttention

DEFAULT_BLOCK = 16
"""Tokens: vLLM's block when nothing is set, and the smallest kernel block of its attention backends."""

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


@dataclass(frozen=True)
class CacheDtypes:
    """Names as vLLM's flags take them: attention cache, convolution state, SSM state; None is the model's own."""

    kv: str = "auto"
    conv: str = "auto"
    ssm: str = "auto"


def attention_bytes_per_token(model: Architecture, *, tp: int, dtype: str) -> int:
    """Bytes of K and V of one token in one layer on one GPU; KV heads are replicated when TP exceeds them."""
    return max(1, model.attention.kv_heads // tp) * 2 * model.attention.head_dim * _bytes(dtype, model.dtype)


def linear_state_bytes(model: Architecture, linear: LinearAttention, *, tp: int, mtp: int, dtypes: CacheDtypes) -> int:
    """Bytes of one request's convolution and SSM state in one layer on one GPU; each MTP token adds a convolution row."""
    channels = 2 * linear.key_heads * linear.key_head_dim + linear.value_heads * linear.value_head_dim
    conv = channels * (linear.conv_kernel - 1 + mtp) * _bytes(dtypes.conv, model.dtype)
    ssm = linear.value_heads * linear.value_head_dim * linear.key_head_dim * _bytes(dtypes.ssm, linear.ssm_dtype)
    return (conv + ssm) // tp


def natural_block_size(model: Architecture, *, tp: int, mtp: int, dtypes: CacheDtypes, asked: int | None = None) -> int:
    """Return the block size in tokens that vLLM settles on, given `--block-size` (asked) or nothing.

    For a hybrid model: the smallest multiple of the larger of `asked` and 16 whose attention page holds the state of one
    request. For any other model: what was asked, or 16.
    """
    current = asked or DEFAULT_BLOCK
    if model.linear is None:
        return current
    align = max(DEFAULT_BLOCK, current)
    state = linear_state_bytes(model, model.linear, tp=tp, mtp=mtp, dtypes=dtypes)
    page = align * attention_bytes_per_token(model, tp=tp, dtype=dtypes.kv)
    return max(current, align * -(-state // page))


def _bytes(dtype: str, own: str) -> int:
    return DTYPE_BYTES[own if dtype == "auto" else dtype]
