"""vLLM's attention block size of a hybrid model: the block whose page holds one linear-attention state.

Source: vLLM 0.26 to 0.29, `platforms/interface.py` `_align_hybrid_block_size` and
`mamba_utils.py` `gated_delta_net_state_shape`; the same results in all four versions.
"""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.model import HybridState, ModelSpec

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


def attention_bytes_per_token(model: ModelSpec, *, tp: int, dtype: str) -> int:
    """Bytes of K and V of one token in one layer on one GPU; KV heads are replicated when TP exceeds them."""
    return max(1, model.kv_heads // tp) * 2 * model.head_dim * _bytes(dtype, model.dtype)


def hybrid_state_bytes(model: ModelSpec, hybrid: HybridState, *, tp: int, mtp: int, dtypes: CacheDtypes) -> int:
    """Bytes of one request's convolution and SSM state in one layer on one GPU; each MTP token adds a convolution row."""
    channels = 2 * hybrid.key_heads * hybrid.key_head_dim + hybrid.value_heads * hybrid.value_head_dim
    conv = channels * (hybrid.conv_kernel - 1 + mtp) * _bytes(dtypes.conv, model.dtype)
    ssm = hybrid.value_heads * hybrid.value_head_dim * hybrid.key_head_dim * _bytes(dtypes.ssm, hybrid.ssm_dtype)
    return (conv + ssm) // tp


def natural_block_size(model: ModelSpec, *, tp: int, mtp: int, dtypes: CacheDtypes, asked: int | None = None) -> int:
    """Return the block size in tokens that vLLM settles on, given `--block-size` (asked) or nothing.

    For a hybrid model: the smallest multiple of the larger of `asked` and 16 whose attention page holds the state of one
    request. For any other model: what was asked, or 16.
    """
    current = asked or DEFAULT_BLOCK
    if model.hybrid is None:
        return current
    align = max(DEFAULT_BLOCK, current)
    state = hybrid_state_bytes(model, model.hybrid, tp=tp, mtp=mtp, dtypes=dtypes)
    page = align * attention_bytes_per_token(model, tp=tp, dtype=dtypes.kv)
    return max(current, align * -(-state // page))


def _bytes(dtype: str, own: str) -> int:
    return DTYPE_BYTES[own if dtype == "auto" else dtype]
