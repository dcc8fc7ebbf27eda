from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.catalogue import load_model
from recipegen.model import Architecture, Attention
from recipegen.sizing.block_size import CacheDtypes, natural_block_size

QWEN = load_model("qwen3.8-2.4t-nvfp4").architecture
assert QWEN is not None
STUDY = CacheDtypes(kv="fp8", ssm="bfloat16")


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
