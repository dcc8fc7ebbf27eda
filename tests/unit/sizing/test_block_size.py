from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.architecture import Architecture, Attention
from recipegen.sizing.block_size import FLASHINFER, FLASHINFER_MLA, block_misfit, kernel_block_size, natural_block_size
from recipegen.sizing.state import CacheDtypes, linear_state_bytes
from tests.unit.sizing.models import DEEPSEEK, MAMBA2, NEMOTRON, QWEN, STUDY


@pytest.mark.parametrize(
    ("tp", "mtp", "block"),
    [(1, 0, 2112), (2, 0, 2112), (4, 0, 2112), (8, 0, 1056), (1, 3, 2176), (2, 3, 2176), (4, 3, 2176), (8, 3, 1088)],
)
def test_blocks_of_the_studied_model(tp: int, mtp: int, block: int) -> None:
    assert natural_block_size(QWEN, tp=tp, mtp=mtp, dtypes=STUDY) == block


def test_an_asked_block_makes_the_result_a_multiple_of_it() -> None:
    assert natural_block_size(QWEN, tp=4, mtp=3, dtypes=STUDY, asked=1088) == 2176
    assert natural_block_size(QWEN, tp=8, mtp=3, dtypes=STUDY, asked=2176) == 2176


def test_float32_state_by_omission_doubles_the_block() -> None:
    assert natural_block_size(QWEN, tp=4, mtp=3, dtypes=CacheDtypes(kv="fp8")) == 4224


def test_a_model_without_linear_attention_keeps_what_was_asked() -> None:
    plain = Architecture(attention=Attention(layers=2, heads=8, kv_heads=2, head_dim=64))
    assert natural_block_size(plain, tp=1, mtp=0, dtypes=CacheDtypes()) == 16
    assert natural_block_size(plain, tp=1, mtp=0, dtypes=CacheDtypes(), asked=64) == 64


@given(tp=st.sampled_from([1, 2, 4, 8, 16]), mtp=st.integers(0, 8), asked=st.one_of(st.none(), st.integers(1, 300).map(lambda n: 16 * n)))
def test_a_page_holds_the_state_of_one_request(tp: int, mtp: int, asked: int | None) -> None:
    """Written out anew: bytes of attention per token, bytes of state per request, from the model's numbers."""
    block = natural_block_size(QWEN, tp=tp, mtp=mtp, dtypes=STUDY, asked=asked)
    token = max(1, 4 // tp) * 256 * 2
    state = ((2 * 16 * 128 + 128 * 128) * (3 + mtp) * 2 + 128 * 128 * 128 * 2) // tp
    step = asked or 16
    assert block % step == 0
    assert block * token >= state
    assert block == step or (block - step) * token < state


@pytest.mark.parametrize(
    ("tp", "block", "large", "kernel"),
    [
        (4, 2176, True, 128),
        (4, 2112, True, 64),
        (8, 1088, True, 64),
        (8, 1056, True, 32),
        (8, 2176, False, 64),
        (8, 4096, True, 1024),
        (8, 24, True, 0),
        (64, 2176, True, 64),  # one query head a GPU: no heads that share, no large pages
    ],
)
def test_kernel_block_is_the_largest_that_divides(tp: int, block: int, large: bool, kernel: int) -> None:
    assert kernel_block_size(QWEN, tp=tp, block=block, backend=FLASHINFER, large_pages=large) == kernel
    assert bool(block_misfit(QWEN, tp=tp, block=block, backend=FLASHINFER, large_pages=large)) is (kernel == 0)


@pytest.mark.parametrize(
    ("backend", "block", "kernel", "misfit"),
    [
        ("FLASH_ATTN", 2176, 2176, ""),
        ("TRITON_ATTN", 48, 48, ""),
        ("FLASH_ATTN", 100, 0, "multiples of 16"),
        ("FLASHINFER", 2200, 0, "multiples of 16"),
        ("FLASHINFER_MLA", 48, 0, "FLASHINFER_MLA takes kernel blocks of 32, 64, none of which divides it"),
        ("FLEX_ATTENTION", 48, 0, ""),  # not known
        ("", 24, 0, "multiples of 16"),  # whatever the backend
    ],
)
def test_blocks_by_attention_backend(backend: str, block: int, kernel: int, misfit: str) -> None:
    model = DEEPSEEK if backend.endswith("MLA") else QWEN
    assert kernel_block_size(model, tp=4, block=block, backend=backend, large_pages=True) == kernel
    found = block_misfit(model, tp=4, block=block, backend=backend, large_pages=True)
    assert misfit in found
    assert bool(found) is bool(misfit)


def test_mla_kernels_take_32_or_64() -> None:
    assert kernel_block_size(DEEPSEEK, tp=8, block=128, backend=FLASHINFER_MLA, large_pages=True) == 64
    assert kernel_block_size(DEEPSEEK, tp=8, block=32, backend=FLASHINFER_MLA, large_pages=True) == 32
    assert natural_block_size(DEEPSEEK, tp=8, mtp=0, dtypes=CacheDtypes()) == 32


@given(tp=st.sampled_from([1, 2, 4, 8]), mtp=st.integers(0, 4), asked=st.one_of(st.none(), st.integers(1, 40).map(lambda n: 16 * n)))
def test_a_hybrid_with_mla_aligns_to_128(tp: int, mtp: int, asked: int | None) -> None:
    hybrid = replace(DEEPSEEK, linear=MAMBA2)
    block = natural_block_size(hybrid, tp=tp, mtp=mtp, dtypes=CacheDtypes(), asked=asked)
    step = max(asked or 16, 128)
    assert block % step == 0
    assert (block - step) * 1152 < linear_state_bytes(hybrid, MAMBA2, tp=tp, mtp=mtp, dtypes=CacheDtypes()) <= block * 1152


def test_cache_mode_all_aligns_to_the_mamba_chunk_too() -> None:
    none = natural_block_size(NEMOTRON, tp=8, mtp=0, dtypes=CacheDtypes())
    assert natural_block_size(NEMOTRON, tp=8, mtp=0, dtypes=CacheDtypes(), cache_mode="all") == -(-none // 256) * 256
    assert natural_block_size(NEMOTRON, tp=8, mtp=0, dtypes=CacheDtypes(), asked=48, cache_mode="all") % 768 == 0
