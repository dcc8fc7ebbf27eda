from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.architecture import Architecture
from recipegen.sizing.state import DTYPE_BYTES, CacheDtypes, attention_bytes_per_token, conv_channels, linear_state_bytes, unknown_cache_dtype
from tests.unit.sizing.models import DEEPSEEK, MAMBA2, NEMOTRON, PLAIN, QWEN, STUDY

UNKNOWN = ["nvfp4", "fp8_per_token_head", "int8_per_token_head", "int4_per_token_head", "turboquant_k8v4", "turboquant_4bit_nc", "fp8_ds_mla"]


@pytest.mark.parametrize(
    ("model", "tp", "dtype", "size"),
    [
        (QWEN, 1, "fp8", 2048),  # the published study: 2 KiB per token and layer
        (QWEN, 4, "fp8", 512),
        (QWEN, 8, "fp8", 512),  # a KV head on each GPU, replicated
        (QWEN, 4, "auto", 1024),
        (PLAIN, 1, "auto", 4096),
        (PLAIN, 16, "float32", 1024),
        (DEEPSEEK, 1, "auto", 1152),
        (DEEPSEEK, 8, "auto", 1152),  # the latent is whole on every GPU
        (DEEPSEEK, 8, "fp8", 576),
        (DEEPSEEK, 8, "fp8_ds_mla", 656),
    ],
)
def test_attention_state_of_a_token(model: Architecture, tp: int, dtype: str, size: int) -> None:
    assert attention_bytes_per_token(model, tp=tp, dtype=dtype) == size


def test_linear_state_of_the_studied_model() -> None:
    """The study: 120 KiB of convolution and 4 MiB of SSM state, 4,216 KiB; each MTP token adds a convolution row of 40 KiB."""
    assert QWEN.linear is not None
    assert linear_state_bytes(QWEN, QWEN.linear, tp=1, mtp=0, dtypes=STUDY) == 4216 * 1024
    assert linear_state_bytes(QWEN, QWEN.linear, tp=1, mtp=3, dtypes=STUDY) == (4216 + 3 * 40) * 1024
    assert linear_state_bytes(QWEN, QWEN.linear, tp=8, mtp=0, dtypes=STUDY) == 527 * 1024
    assert linear_state_bytes(QWEN, QWEN.linear, tp=1, mtp=0, dtypes=CacheDtypes(kv="fp8")) == (120 + 8192) * 1024


@pytest.mark.parametrize(
    ("groups", "tp", "channels"), [(8, 1, 8192 + 2048), (8, 8, 8192 + 2048), (8, 16, 8192 + 4096), (1, 8, 8192 + 2048), (2, 8, 8192 + 2048)]
)
def test_mamba2_groups_are_replicated_until_every_gpu_has_one(groups: int, tp: int, channels: int) -> None:
    assert conv_channels(replace(MAMBA2, key_heads=groups), tp=tp) == channels


def test_mamba2_state_keeps_its_own_dtype() -> None:
    conv, ssm = (8192 + 2048) // 8 * 3 * 2, 128 // 8 * 64 * 128 * 4
    assert linear_state_bytes(NEMOTRON, MAMBA2, tp=8, mtp=0, dtypes=CacheDtypes()) == conv + ssm


@pytest.mark.parametrize("dtype", UNKNOWN)
def test_packed_types_are_not_known(dtype: str) -> None:
    assert unknown_cache_dtype(CacheDtypes(kv=dtype)) == dtype
    assert unknown_cache_dtype(CacheDtypes(kv=dtype), QWEN) == dtype
    with pytest.raises(KeyError):
        attention_bytes_per_token(QWEN, tp=1, dtype=dtype)


def test_the_packed_latent_is_known_for_its_one_shape() -> None:
    assert DEEPSEEK.attention.mla is not None
    assert unknown_cache_dtype(CacheDtypes(kv="fp8_ds_mla"), DEEPSEEK) == ""
    other = replace(DEEPSEEK, attention=replace(DEEPSEEK.attention, mla=replace(DEEPSEEK.attention.mla, kv_lora_rank=256)))
    assert unknown_cache_dtype(CacheDtypes(kv="fp8_ds_mla"), other) == "fp8_ds_mla"


def test_an_unknown_state_type_is_named() -> None:
    assert unknown_cache_dtype(CacheDtypes(ssm="fp4")) == "fp4"
    assert all(unknown_cache_dtype(CacheDtypes(kv=name)) == "" for name in DTYPE_BYTES)
