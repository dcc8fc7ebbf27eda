"""vLLM's attention block size, logical and of the kernel; a hybrid model's block holds one linear-attention state.

Source: vLLM 0.26 to 0.29, `platforms/interface.py` `_align_hybrid_block_size` (the same results in all four versions),
`v1/attention/backends/flashinfer.py` and `mla/flashinfer_mla.py` get_supported_kernel_block_sizes.
"""

from __future__ import annotations

from functools import lru_cache
from math import lcm

from recipegen.architecture import Architecture
from recipegen.sizing.state import CacheDtypes, attention_bytes_per_token, linear_state_bytes

__all__ = ["CacheDtypes", "block_misfit", "kernel_block_size", "natural_block_size"]

DEFAULT_BLOCK = 16
"""Tokens: vLLM's block when nothing is set, and the smallest kernel block of its attention backends."""

DEFAULT_MLA_BLOCK = 32
"""Tokens: what FlashInfer's MLA backend, the first choice on SM100, takes at the least."""

MLA_HYBRID_ALIGN = 128
"""Tokens: MLA decode kernels want the number of kernel blocks aligned, so a hybrid with MLA aligns to this (0.28)."""

MAMBA_CHUNK = 256
"""Tokens: the usual chunk of mamba2 kernels, which cache mode `all` aligns to; models do not say theirs here."""

KERNEL_BLOCKS = (1024, 512, 256, 128, 64, 32, 16)
LARGE_PAGE = 128
"""Tokens: kernel blocks from here on run on the trtllm-gen kernel only, that is on SM100/103 with GQA."""

MLA_KERNEL_BLOCKS = (64, 32)

FLASHINFER, FLASHINFER_MLA, FLASH_ATTN = "FLASHINFER", "FLASHINFER_MLA", "FLASH_ATTN"
ANY_MULTIPLE = frozenset({FLASH_ATTN, "TRITON_ATTN"})
"""Attention backends that take any multiple of 16, so that the kernel's block is the logical one."""


@lru_cache(maxsize=4096)
def natural_block_size(
    model: Architecture, *, tp: int, mtp: int, dtypes: CacheDtypes, asked: int | None = None, cache_mode: str = "none", chunk: int = MAMBA_CHUNK
) -> int:
    """Return the block size in tokens that vLLM settles on, given `--block-size` (asked) or nothing.

    For a hybrid model: the smallest multiple of the larger of `asked` and 16 (128 with MLA) whose attention page holds the state
    of one request; in cache mode `all` a multiple of the mamba chunk too. For any other model: what was asked, or 16 (32 with
    MLA). KeyError for a type of unknown size.
    """
    mla = model.attention.mla is not None
    if model.linear is None:
        return asked or (DEFAULT_MLA_BLOCK if mla else DEFAULT_BLOCK)
    current = asked or DEFAULT_BLOCK
    align = max(DEFAULT_BLOCK, current, MLA_HYBRID_ALIGN if mla else 0)
    if cache_mode == "all":
        align = lcm(chunk, align)
    state = linear_state_bytes(model, model.linear, tp=tp, mtp=mtp, dtypes=dtypes)
    page = align * attention_bytes_per_token(model, tp=tp, dtype=dtypes.kv)
    return max(current, align * -(-state // page))


def kernel_block_size(model: Architecture, *, tp: int, block: int, backend: str, large_pages: bool) -> int:
    """Return the kernel's block in tokens: the largest that the attention backend offers and that divides `block`; 0 where none does.

    0 too for a backend whose sizes are not known. `large_pages` tells SM100/103, where FlashInfer offers 128 to 1024 too as long as
    several query heads share a KV head on a GPU. Source: `v1/worker/utils.py` select_common_block_size.
    """
    if backend in ANY_MULTIPLE:
        return 0 if block % DEFAULT_BLOCK else block
    return next((size for size in _offered(model, tp=tp, backend=backend, large_pages=large_pages) if block % size == 0), 0)


def block_misfit(model: Architecture, *, tp: int, block: int, backend: str, large_pages: bool) -> str:
    """Return why no kernel of the attention backend can use blocks of this size; empty where one can, or where that is not known.

    Every backend wants a multiple of 16. vLLM raises "No common block size" (`v1/worker/utils.py` select_common_block_size).
    """
    if block % DEFAULT_BLOCK:
        return f"attention kernels take multiples of {DEFAULT_BLOCK}"
    offered = _offered(model, tp=tp, backend=backend, large_pages=large_pages)
    if offered and not any(block % size == 0 for size in offered):
        return f"{backend} takes kernel blocks of {', '.join(map(str, sorted(offered)))}, none of which divides it"
    return ""


def _offered(model: Architecture, *, tp: int, backend: str, large_pages: bool) -> tuple[int, ...]:
    """Kernel blocks of a backend that lists them, the largest first; none for another."""
    if backend == FLASHINFER_MLA:
        return MLA_KERNEL_BLOCKS
    if backend != FLASHINFER:
        return ()
    if large_pages and has_shared_kv_heads(model, tp=tp):
        return KERNEL_BLOCKS
    return tuple(size for size in KERNEL_BLOCKS if size < LARGE_PAGE)


def has_shared_kv_heads(model: Architecture, *, tp: int) -> bool:
    """Whether, on one GPU, several query heads share a KV head (GQA)."""
    return model.attention.heads // tp // max(1, model.attention.kv_heads // tp) > 1
