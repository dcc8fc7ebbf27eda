"""Models that the sizing tests share: the studied one, and small ones of the other kinds."""

from __future__ import annotations

from recipegen.architecture import Architecture, Attention, LinearAttention, Mla, Moe
from recipegen.catalogue import load_hardware, load_model
from recipegen.sizing.state import CacheDtypes

SPEC = load_model("qwen3.8-2.4t-nvfp4")
GB300 = load_hardware("gb300-nvl72")
assert SPEC.architecture is not None
QWEN: Architecture = SPEC.architecture
STUDY = CacheDtypes(kv="fp8", ssm="bfloat16")

PLAIN = Architecture(
    hidden_size=8192,
    vocab_size=128256,
    mlp_layers=80,
    mlp_intermediate_size=28672,
    attention=Attention(layers=80, heads=64, kv_heads=8, head_dim=128),
)
DEEPSEEK = Architecture(
    hidden_size=7168,
    vocab_size=129280,
    mlp_layers=3,
    mlp_intermediate_size=18432,
    mtp_layers=1,
    attention=Attention(
        layers=61,
        heads=128,
        kv_heads=128,
        head_dim=192,
        mla=Mla(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, q_lora_rank=1536),
    ),
    moe=Moe(layers=58, experts=256, top_k=8, intermediate_size=2048, shared_intermediate_size=2048, expert_dtype="fp8"),
)
MAMBA2 = LinearAttention(
    kind="mamba2", layers=24, key_heads=8, value_heads=128, key_head_dim=128, value_head_dim=64, conv_kernel=4, ssm_dtype="float32"
)
NEMOTRON = Architecture(
    hidden_size=4096,
    vocab_size=131072,
    mlp_layers=24,
    mlp_intermediate_size=21504,
    attention=Attention(layers=4, heads=32, kv_heads=8, head_dim=128),
    linear=MAMBA2,
)
