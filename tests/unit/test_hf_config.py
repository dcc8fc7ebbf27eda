from __future__ import annotations

import json
from typing import Any

import pytest

from recipegen.architecture import Architecture, Attention, LinearAttention, Mla, Moe
from recipegen.catalogue import load_model
from recipegen.errors import InputError
from recipegen.hf_config import format_model, make_key, read, read_config, read_total_size
from recipegen.model import ModelSpec

REVISION = "0123456789abcdef0123456789abcdef01234567"
NVFP4_WEIGHTS = {"num_bits": 4, "type": "float", "group_size": 16, "dynamic": False}
KEPT = ["lm_head", "re:.*self_attn.*", "re:.*linear_attn.*", "re:.*shared_expert\\..*", "re:.*mlp.gate$", "mtp.fc"]
EXPERTS_NVFP4 = {
    "quant_method": "compressed-tensors",
    "format": "nvfp4-pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": NVFP4_WEIGHTS}},
    "ignore": KEPT,
}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}

QWEN38 = {
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "dtype": "bfloat16",
    "rms_norm_eps": 1e-06,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 8192,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 23,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 128,
    "linear_value_head_dim": 128,
    "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 2048,
    "mtp_num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 92,
    "num_key_value_heads": 4,
    "rope_parameters": {"rope_theta": 10000000, "partial_rotary_factor": 0.25},
    "shared_expert_intermediate_size": 2048,
    "tie_word_embeddings": False,
    "vocab_size": 248320,
    "quantization_config": EXPERTS_NVFP4,
}
LLAMA = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "vocab_size": 128256,
}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "torch_dtype": "bfloat16",
    "decoder_sparse_step": 1,
    "head_dim": 128,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "max_window_layers": 94,
    "mlp_only_layers": [],
    "moe_intermediate_size": 1536,
    "num_attention_heads": 64,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 94,
    "num_key_value_heads": 4,
    "sliding_window": None,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "kv_lora_rank": 512,
    "max_position_embeddings": 163840,
    "moe_intermediate_size": 2048,
    "moe_layer_freq": 1,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "quantization_config": FP8,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 18,
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "num_local_experts": 128,
    "sliding_window": 128,
    "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"]},
    "vocab_size": 201088,
}
PATTERN = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
NEMOTRON = {
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "conv_kernel": 4,
    "head_dim": 128,
    "hidden_size": 4096,
    "hybrid_override_pattern": PATTERN,
    "intermediate_size": 2688,
    "mamba_head_dim": 64,
    "mamba_num_heads": 128,
    "mamba_ssm_cache_dtype": "float32",
    "max_position_embeddings": 262144,
    "moe_intermediate_size": 2688,
    "moe_latent_size": 1024,
    "moe_shared_expert_intermediate_size": 5376,
    "mlp_hidden_act": "relu2",
    "n_groups": 8,
    "n_routed_experts": 512,
    "n_shared_experts": 1,
    "num_attention_heads": 32,
    "num_experts_per_tok": 22,
    "num_hidden_layers": 88,
    "num_key_value_heads": 2,
    "num_nextn_predict_layers": 1,
    "ssm_state_size": 128,
    "time_step_limit": [0.0, float("inf")],
    "vocab_size": 131072,
}
MIXTRAL = {
    "model_type": "mixtral",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "sliding_window": None,
    "vocab_size": 32000,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "torch_dtype": "bfloat16",
    "decoder_sparse_step": 1,
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_value_head_dim": 128,
    "max_position_embeddings": 262144,
    "mlp_only_layers": [],
    "moe_intermediate_size": 512,
    "num_attention_heads": 16,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 151936,
}
MINIMAX = {
    "model_type": "minimax_m2",
    "attn_type_list": [1] * 62,
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "max_position_embeddings": 196608,
    "num_attention_heads": 48,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 62,
    "num_key_value_heads": 8,
    "num_local_experts": 256,
    "num_mtp_modules": 3,
    "quantization_config": FP8,
    "shared_intermediate_size": 0,
    "vocab_size": 200064,
}
KIMI = DEEPSEEK | {
    "model_type": "kimi_k2",
    "first_k_dense_replace": 1,
    "n_routed_experts": 384,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "num_nextn_predict_layers": 0,
    "max_position_embeddings": 131072,
    "vocab_size": 163840,
}
MLA = Mla(kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128, q_lora_rank=1536)

KNOWN: dict[str, tuple[dict[str, Any], Architecture]] = {
    "Llama-3.3-70B": (
        LLAMA,
        Architecture(
            hidden_size=8192,
            vocab_size=128256,
            max_position=131072,
            mlp_layers=80,
            mlp_intermediate_size=28672,
            attention=Attention(layers=80, heads=64, kv_heads=8, head_dim=128),
        ),
    ),
    "Qwen3-235B-A22B": (
        QWEN3_MOE,
        Architecture(
            hidden_size=4096,
            vocab_size=151936,
            max_position=40960,
            attention=Attention(layers=94, heads=64, kv_heads=4, head_dim=128),
            moe=Moe(layers=94, experts=128, top_k=8, intermediate_size=1536, expert_dtype="bfloat16"),
        ),
    ),
    "DeepSeek-R1": (
        DEEPSEEK,
        Architecture(
            vocab_size=129280,
            max_position=163840,
            mlp_layers=3,
            mlp_intermediate_size=18432,
            mtp_layers=1,
            attention=Attention(layers=61, heads=128, kv_heads=128, head_dim=192, mla=MLA),
            moe=Moe(layers=58, experts=256, top_k=8, intermediate_size=2048, shared_intermediate_size=2048, expert_dtype="fp8"),
        ),
    ),
    "Kimi-K2": (
        KIMI,
        Architecture(
            vocab_size=163840,
            max_position=131072,
            mlp_layers=1,
            mlp_intermediate_size=18432,
            attention=Attention(layers=61, heads=64, kv_heads=64, head_dim=192, mla=MLA),
            moe=Moe(layers=60, experts=384, top_k=8, intermediate_size=2048, shared_intermediate_size=2048, expert_dtype="fp8"),
        ),
    ),
    "gpt-oss-120b": (
        GPT_OSS,
        Architecture(
            hidden_size=2880,
            vocab_size=201088,
            max_position=131072,
            attention=Attention(layers=36, heads=64, kv_heads=8, head_dim=64, sliding_layers=18, window=128),
            moe=Moe(layers=36, experts=128, top_k=4, intermediate_size=2880, expert_dtype="mxfp4"),
        ),
    ),
    "Nemotron-3-Super": (
        NEMOTRON,
        Architecture(
            vocab_size=131072,
            max_position=262144,
            mtp_layers=1,
            attention=Attention(layers=8, heads=32, kv_heads=2, head_dim=128),
            linear=LinearAttention(kind="mamba2", layers=40, key_heads=8, value_heads=128, key_head_dim=128, value_head_dim=64, conv_kernel=4),
            moe=Moe(layers=40, experts=512, top_k=22, intermediate_size=2688, shared_intermediate_size=5376, expert_dtype="bfloat16"),
        ),
    ),
    "Mixtral-8x7B": (
        MIXTRAL,
        Architecture(
            hidden_size=4096,
            vocab_size=32000,
            max_position=32768,
            attention=Attention(layers=32, heads=32, kv_heads=8, head_dim=128),
            moe=Moe(layers=32, experts=8, top_k=2, intermediate_size=14336, expert_dtype="bfloat16"),
        ),
    ),
    "Qwen3-Next-80B-A3B": (
        QWEN3_NEXT,
        Architecture(
            hidden_size=2048,
            vocab_size=151936,
            max_position=262144,
            mtp_layers=1,
            attention=Attention(layers=12, heads=16, kv_heads=2, head_dim=256, output_gate=True),
            linear=LinearAttention(
                layers=36, key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, conv_kernel=4, ssm_dtype="bfloat16"
            ),
            moe=Moe(layers=48, experts=512, top_k=10, intermediate_size=512, shared_intermediate_size=512, expert_dtype="bfloat16"),
        ),
    ),
    "MiniMax-M2": (
        MINIMAX,
        Architecture(
            vocab_size=200064,
            max_position=196608,
            attention=Attention(layers=62, heads=48, kv_heads=8, head_dim=128),
            moe=Moe(layers=62, experts=256, top_k=8, intermediate_size=1536, expert_dtype="fp8"),
        ),
    ),
}


def text(config: object) -> bytes:
    return json.dumps(config, indent=2).encode()


def changed(config: dict[str, Any], *gone: str, **more: object) -> bytes:
    return text({k: v for k, v in config.items() if k not in gone} | more)


def refused(raw: bytes) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_config(raw, "config.json")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", KNOWN)
def test_the_public_numbers_of_a_known_model(name: str) -> None:
    config, expected = KNOWN[name]
    assert read_config(text(config), "config.json") == expected


@pytest.mark.parametrize(
    "config",
    [
        QWEN38,
        {k: v for k, v in QWEN38.items() if k != "layer_types"},
        {"model_type": "qwen3_5_moe", "quantization_config": EXPERTS_NVFP4, "text_config": {k: v for k, v in QWEN38.items() if k[:5] != "quant"}},
    ],
    ids=["layer_types", "full_attention_interval", "text_config"],
)
def test_qwen38_comes_out_as_shipped(config: dict[str, Any]) -> None:
    reading = read(text(config), "config.json")
    assert reading.architecture == load_model("qwen3.8-2.4t-nvfp4").architecture
    assert reading.notes == ()


def moe_dtype(quantization: dict[str, Any], config: dict[str, Any] = QWEN38) -> str:
    moe = read_config(changed(config, quantization_config=quantization), "config.json").moe
    assert moe is not None
    return moe.expert_dtype


MIXED = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt_fp4", "quant_algo": "NVFP4"}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO"}, "fp8"),
        ({"quant_method": "modelopt", "quantization": {"quant_algo": "NVFP4"}}, "nvfp4"),
        (MIXED | {"quantized_layers": {"model.layers.0.mlp.experts": {"quant_algo": "NVFP4"}, "a.self_attn.q_proj": {"quant_algo": "FP8"}}}, "nvfp4"),
        (EXPERTS_NVFP4, "nvfp4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": NVFP4_WEIGHTS | {"group_size": 32}}}}, "mxfp4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        (FP8, "fp8"),
        (FP8 | {"modules_to_not_convert": ["re:.*mlp.experts.*"]}, "bfloat16"),
        (FP8 | {"modules_to_not_convert": ["mtp.layers.0.mlp.experts"]}, "fp8"),
    ],
)
def test_what_experts_are_stored_in(quantization: dict[str, Any], expected: str) -> None:
    assert moe_dtype(quantization) == expected


INT4 = {"num_bits": 4, "type": "int", "group_size": 32}
MXFP8 = {"num_bits": 8, "type": "float", "group_size": 32}


@pytest.mark.parametrize(
    ("quantization", "key"),
    [
        ({"quant_method": "awq", "bits": 4}, "quantization_config.quant_method: the bytes of experts by method 'awq' are not known"),
        ({"quant_method": "fp4"}, "did you mean"),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, "quantization_config.quant_algo"),
        (MIXED | {"quantized_layers": {"a.experts": {"quant_algo": "FP8"}, "b.experts": {"quant_algo": "NVFP4"}}}, "quantization_config.quant_algo"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": INT4}}}, "quantization_config.config_groups"),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": MXFP8}}}, "quantization_config.config_groups"),
        ({"quant_method": "compressed-tensors"}, "quantization_config.config_groups"),
        (FP8 | {"ignore": ["model.layers.3.mlp.experts"]}, "quantization_config.ignore: the experts of some layers"),
        ({"bits": 4}, "missing key 'quantization_config.quant_method'"),
        ("fp8", "quantization_config: expected an object, found the string 'fp8'"),
    ],
)
def test_experts_of_unknown_bytes_are_refused(quantization: Any, key: str) -> None:
    (problem, *_) = refused(changed(QWEN38, quantization_config=quantization))
    assert key in problem


@pytest.mark.parametrize(
    ("kept", "known"),
    [
        (KEPT, True),
        (["*self_attn*", "*linear_attn*", "*shared_expert*"], True),
        ([f"model.layers.{i}.{part}" for i in range(92) for part in ("self_attn*", "linear_attn*", "mlp.shared_expert*")], True),
        ([f"model.layers.{i}.{part}" for i in range(9) for part in ("self_attn*", "linear_attn*", "mlp.shared_expert*")], False),
        (["*self_attn*", "*linear_attn*", "*shared_expert_gate"], False),
        (["*self_attn*", "*shared_expert*"], False),
        ([], False),
    ],
)
def test_weights_are_sized_only_where_experts_alone_are_quantized(kept: list[str], known: bool) -> None:
    reading = read(changed(QWEN38, quantization_config=EXPERTS_NVFP4 | {"ignore": kept}), "config.json")
    assert bool(reading.architecture.hidden_size) == known
    assert [note.startswith("weights are not sized: ") for note in reading.notes] == ([] if known else [True])


def test_a_quantized_dense_model_is_sized_without_its_weights() -> None:
    reading = read(changed(LLAMA, quantization_config={"quant_method": "awq"}), "config.json")
    assert (reading.architecture.hidden_size, reading.architecture.attention) == (0, KNOWN["Llama-3.3-70B"][1].attention)


@pytest.mark.parametrize(
    ("config", "note"),
    [
        (GPT_OSS, "18 of 36 attention layers have a sliding window of 128 tokens"),
        ({k: v for k, v in GPT_OSS.items() if k != "sliding_window"}, "18 of 36 attention layers have a sliding window of unknown size"),
        ({k: v for k, v in GPT_OSS.items() if k != "layer_types"}, "18 of 36 attention layers have a sliding window"),
        (MIXTRAL | {"sliding_window": 4096}, "32 of 32 attention layers have a sliding window of 4096 tokens"),
        (GPT_OSS, "the config names no dtype"),
        (NEMOTRON, "two matrices; its experts work in a latent space"),
        ({"model_type": "kimi_k25", "vision_config": {}, "text_config": KIMI}, "encoders"),
    ],
)
def test_what_the_numbers_leave_out_is_noted(config: dict[str, Any], note: str) -> None:
    assert [n for n in read(text(config), "config.json").notes if note in n]


@pytest.mark.parametrize(
    ("config", "attention", "mlp", "moe"),
    [
        (QWEN3_MOE | {"mlp_only_layers": [0, 1]}, 94, 2, 92),
        (QWEN3_MOE | {"decoder_sparse_step": 2}, 94, 47, 47),
        (DEEPSEEK | {"moe_layer_freq": 2}, 61, 32, 29),
        (NEMOTRON | {"hybrid_override_pattern": "M-M-*-M-"}, 1, 4, 0),
        ({k: v for k, v in NEMOTRON.items() if k[:6] != "hybrid"} | {"layers_block_type": ["mamba", "moe", "attention", "mlp"]}, 1, 1, 1),
        (LLAMA | {"num_experts": 0}, 80, 80, 0),
    ],
)
def test_layers_are_counted_by_kind(config: dict[str, Any], attention: int, mlp: int, moe: int) -> None:
    found = read_config(text(config), "config.json")
    assert (found.attention.layers, found.mlp_layers, found.moe.layers if found.moe else 0) == (attention, mlp, moe)


def line_of(raw: bytes, words: str) -> int:
    return next(n for n, line in enumerate(raw.decode().split("\n"), 1) if words in line)


@pytest.mark.parametrize(
    ("raw", "key", "message"),
    [
        (changed(LLAMA, num_attention_heads=0), "num_attention_heads", "expected 1 to 10000000, found 0"),
        (changed(LLAMA, num_hidden_layers=-1), "num_hidden_layers", "expected 1 to 10000000, found -1"),
        (changed(LLAMA, num_hidden_layers=9_999_999), "num_hidden_layers", "expected at most 10000, found 9999999"),
        (changed(LLAMA, vocab_size=10**12), "vocab_size", "expected 1 to 10000000, found 1000000000000"),
        (changed(LLAMA, hidden_size="8192"), "hidden_size", "expected an integer, found the string '8192'"),
        (changed(LLAMA, hidden_size=8192.0), "hidden_size", "expected an integer, found the number 8192.0"),
        (changed(LLAMA, hidden_size=True), "hidden_size", "expected an integer, found true"),
        (changed(LLAMA, hidden_size=8200, num_attention_heads=63), "num_attention_heads", "63 heads do not divide hidden_size 8200"),
        (changed(LLAMA, num_key_value_heads=7), "num_key_value_heads", "7 KV heads do not divide 64 heads"),
        (changed(LLAMA, tie_word_embeddings="no"), "tie_word_embeddings", "expected true or false, found the string 'no'"),
        (changed(LLAMA, torch_dtype="bloat16"), "torch_dtype", "expected bfloat16, float16, float32, found 'bloat16'; did you mean 'bfloat16'?"),
        (changed(LLAMA, num_local_experts=8), "num_local_experts", "models of type 'llama' are known as dense"),
        (changed(LLAMA, model_type="lama"), "model_type", "models of type 'lama' are not known, and are not sized by guess; did you mean 'llama'?"),
        (changed(LLAMA, model_type="jamba"), "model_type", "models of type 'jamba' are not known, and are not sized by guess; "),
        (changed(LLAMA, model_type=["llama"]), "model_type", "expected a string, found a list"),
        (changed(DEEPSEEK, model_type="deepseek_v4"), "model_type", "models of type 'deepseek_v4' are not sized: its layers keep compressed caches"),
        (changed(DEEPSEEK, index_topk=2048), "index_topk", "sparse attention keeps more than the KV cache"),
        (changed(MINIMAX, attn_type_list=[1, 0]), "attn_type_list", "layers with lightning attention are not sized"),
        (changed(MIXTRAL, num_experts_per_tok=9), "num_experts_per_tok", "9 experts a token are more than the 8 that there are"),
        (changed(QWEN38, layer_types=["full_attention"]), "layer_types", "expected 92 entries, as num_hidden_layers has it, found 1"),
        (changed(QWEN38, layer_types=["chunked_attention"] * 92), "layer_types", "layer 0 is of kind 'chunked_attention', which is not sized"),
        (changed(LLAMA, layer_types=["linear_attention"] * 80), "layer_types", "layer 0 is of kind 'linear_attention', which is not sized"),
        (changed(QWEN38, layer_types=["linear_attention"] * 92), "layer_types", "no layer has attention"),
        (changed(QWEN38, layer_types=[1]), "layer_types", "expected a list of strings, found another one"),
        (changed(QWEN38, mamba_ssm_dtype="fp32"), "mamba_ssm_dtype", "expected bfloat16, float16, float32, found 'fp32'"),
        (changed(NEMOTRON, hybrid_override_pattern="M*X"), "hybrid_override_pattern", "letter 'X' of layer 2 is not known"),
        (changed(NEMOTRON, hybrid_override_pattern=""), "hybrid_override_pattern", "no layer is named"),
        (changed(NEMOTRON, hybrid_override_pattern="MMM"), "hybrid_override_pattern", "no layer has attention"),
        (changed(QWEN3_MOE, mlp_only_layers="0"), "mlp_only_layers", "expected a list of integers, found the string '0'"),
    ],
)
def test_a_wrong_value_is_refused_at_its_place(raw: bytes, key: str, message: str) -> None:
    found = refused(raw)
    line = line_of(raw, f'"{key}"')
    assert [p for p in found if p.startswith(f"config.json:{line}:{len(key) + 7}: {key}: {message}")], found


@pytest.mark.parametrize(
    ("config", "gone", "more", "hint"),
    [
        (LLAMA, "num_attention_heads", {}, ""),
        (LLAMA, "num_attention_heads", {"num_atention_heads": 64}, "; did you mean 'num_atention_heads'?"),
        (LLAMA, "num_hidden_layers", {}, ""),
        (LLAMA, "model_type", {}, ""),
        (LLAMA, "vocab_size", {"vocab_sizes": 1}, "; did you mean 'vocab_sizes'?"),
        (LLAMA, "hidden_size", {"hidden_size": None}, ""),
        (LLAMA, "intermediate_size", {}, ""),
        (QWEN38, "linear_num_value_heads", {}, ""),
        (QWEN38, "num_experts", {}, ""),
        (QWEN38, "moe_intermediate_size", {}, ""),
        (DEEPSEEK, "kv_lora_rank", {}, ""),
        (NEMOTRON, "ssm_state_size", {}, ""),
        (NEMOTRON, "hybrid_override_pattern", {}, ""),
    ],
)
def test_a_missing_key_is_named_with_a_near_match(config: dict[str, Any], gone: str, more: dict[str, Any], hint: str) -> None:
    assert f"config.json:1:1: missing key '{gone}'{hint}" in refused(changed(config, gone, **more))


def test_every_problem_is_told_at_once_and_inner_keys_with_their_path() -> None:
    inner = {k: v for k, v in QWEN38.items() if k != "head_dim"} | {"num_key_value_heads": 0, "linear_num_key_heads": "16"}
    del inner["vocab_size"]
    found = refused(text({"model_type": "qwen3_5_moe", "text_config": inner}))
    assert {problem.split(": ", 1)[1] for problem in found} == {
        "missing key 'text_config.vocab_size'",
        "text_config.linear_num_key_heads: expected an integer, found the string '16'",
        "text_config.num_key_value_heads: expected 1 to 10000000, found 0",
    }


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "config.json:1:1: the file is not JSON: expecting value"),
        (b"model_type: llama\n", "config.json:1:1: the file is not JSON: expecting value"),
        (b'{\n  "a": 1,\n  b}', "config.json:3:3: the file is not JSON: expecting property name"),  # not `,}`, which 3.13 has other words for
        (b'{"a": 1} {}', "config.json:1:10: the file is not JSON: extra data"),
        (b"[1, 2]", "config.json:1:1: the file holds a list; expected an object"),
        (b'"llama"', "config.json:1:1: the file holds a single value; expected an object"),
        (b'{"a": "\xff"}', "config.json: byte 0xff is not UTF-8"),
        (b"{}", "config.json:1:1: missing key 'model_type'"),
        (b'{"a": 1,\n "a": 2}', "config.json:2:2: duplicate key 'a'; expected once"),
        (b'{"vocab_size": ' + b"9" * 5000 + b"}", "config.json:1:16: '99999"),
        (b'{"a": ' * 70 + b"1" + b"}" * 70, "values nest more than 64 deep"),
        (b"[" * 100_000, "values nest more than 64 deep"),
        (b" " * (5 << 20), "config.json: the file is larger than 4194304 bytes"),
    ],
    ids=range(13),
)
def test_what_is_no_config_is_refused_with_a_place(raw: bytes, message: str) -> None:
    (problem, *_) = refused(raw)
    assert message in problem


def test_places_count_characters_as_editors_do() -> None:
    raw = '\ufeff{"note": "ü \\" {", "model_type": "llama",\r\n "num_hidden_layers": 0, "hidden_size": 1e-06}'.encode()
    found = refused(raw)
    assert "config.json:2:23: num_hidden_layers: expected 1 to 10000000, found 0" in found
    assert "config.json:2:41: hidden_size: expected an integer, found the number 1e-06" in found


# -- data files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_a_data_file_says_what_was_read(name: str) -> None:
    from recipegen.catalogue import make_architecture
    from recipegen.matrix_schema import ModelSchema
    from recipegen.yamlsource import parse_yaml, validate

    model = ModelSpec(key=make_key(f"x/{name}"), repo=f"x/{name}", revision=REVISION, served_name=name, architecture=KNOWN[name][1])
    data = validate(parse_yaml(format_model(model, ["a note"]), "data.yaml"), ModelSchema)
    assert data.architecture is not None
    assert make_architecture(data.architecture) == model.architecture
    assert (data.repo, data.revision, data.served_name, data.checkpoint_bytes) == (model.repo, REVISION, name, 0)


def test_a_data_file_leaves_defaults_out() -> None:
    spec = ModelSpec(key="k", repo="meta/Llama", revision=REVISION, served_name="Llama", checkpoint_bytes=5, architecture=KNOWN["Llama-3.3-70B"][1])
    assert format_model(spec, ["a note"]).decode() == (
        "# Llama. Numbers: the config.json of this revision.\n"
        "# a note\n"
        "repo: meta/Llama\n"
        f"revision: {REVISION}\n"
        "served_name: Llama\n"
        "checkpoint_bytes: 5\n"
        "architecture:\n"
        "  hidden_size: 8192\n"
        "  vocab_size: 128256\n"
        "  max_position: 131072\n"
        "  mlp_layers: 80\n"
        "  mlp_intermediate_size: 28672\n"
        "  attention: {layers: 80, heads: 64, kv_heads: 8, head_dim: 128}\n"
    )


@pytest.mark.parametrize("word", ["1" * 40, "true", "12e4", "0x12", "1.5", "on"])
def test_words_that_look_like_something_else_are_quoted(word: str) -> None:
    from recipegen.yamlsource import parse_yaml

    spec = ModelSpec(key="k", repo="x/y", revision=word, served_name=word)
    data = parse_yaml(format_model(spec), "data.yaml").data
    assert isinstance(data, dict)
    assert (data["revision"], data["served_name"]) == (word, word)


@pytest.mark.parametrize("size", ["1447265951488", "1447265951488.0", '"1447265951488"'])
def test_the_index_says_the_bytes_of_the_checkpoint(size: str) -> None:
    raw = f'{{"metadata": {{"total_size": {size}}}, "weight_map": {{"a": "b"}}}}'
    assert read_total_size(raw.encode(), "index.json") == 1447265951488


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("{}", "metadata.total_size is no number of bytes"),
        ('{"metadata": {"total_size": true}}', "metadata.total_size is no number of bytes"),
        ('{"metadata": {"total_size": 0}}', "metadata.total_size: expected bytes from 1"),
        ('{"metadata": {"total_size": -5}}', "metadata.total_size is no number of bytes"),
        ('{"metadata": {"total_size": Infinity}}', "metadata.total_size is no number of bytes"),
        ('{"metadata": {"total_size": ' + "9" * 5000 + "}}", "metadata.total_size: expected bytes from 1"),
        ("[1", "the file is not JSON"),
    ],
)
def test_an_index_without_bytes_is_refused(raw: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_total_size(raw.encode(), "index.json")
