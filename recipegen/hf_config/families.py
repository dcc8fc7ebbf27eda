"""The model families that are known, by `model_type`, and what their configs leave unsaid.

Keys and defaults: transformers' configuration classes (named at each family) and vLLM 0.28 `transformers_utils/model_arch_config_convertor.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Family:
    """How configs of some model types are read.

    `linear`: the kind of linear attention, if any. `experts`: the keys that count routed experts, none for a dense model.
    `expert_size`: the key of a routed expert's width. `sparse`: which layers are mixtures of experts: `all`, `after` the first dense
    ones, or every so-and-so-many-th (`step`). `gated`: an expert or MLP has three matrices; otherwise two. `mtp`: MTP layers where
    no key says so. `alternating`: every other layer has a sliding window where the config does not list the layers.
    """

    linear: str = ""
    mla: bool = False
    experts: tuple[str, ...] = ()
    expert_size: str = "moe_intermediate_size"
    sparse: str = "all"
    gated: bool = True
    output_gate: bool = False
    mtp: int = 0
    has_mtp: bool = True
    alternating: bool = False


_DENSE = Family(has_mtp=False)
"""LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config."""
_QWEN_MOE = Family(experts=("num_experts", "num_local_experts"), sparse="step", has_mtp=False)
"""Qwen2MoeConfig, Qwen3MoeConfig."""
_QWEN_NEXT = Family(linear="gdn", experts=("num_experts", "num_local_experts"), sparse="step", output_gate=True, mtp=1)
"""Qwen3NextConfig; vLLM's Qwen3NextMTP takes one MTP layer where `num_nextn_predict_layers` is not set."""
_QWEN_35 = Family(linear="gdn", output_gate=True)
"""Qwen3_5TextConfig."""
_QWEN_35_MOE = Family(linear="gdn", experts=("num_experts", "num_local_experts"), output_gate=True)
"""Qwen3_5MoeTextConfig."""
_DEEPSEEK = Family(mla=True, experts=("n_routed_experts", "num_local_experts"), sparse="after")
"""DeepseekV2Config, DeepseekV3Config; Kimi K2 has the same keys."""
_GLM_MOE = Family(experts=("n_routed_experts", "num_local_experts"), sparse="after")
"""Glm4MoeConfig."""
_MIXTRAL = Family(experts=("num_local_experts",), expert_size="intermediate_size", has_mtp=False)
"""MixtralConfig; MiniMaxM2Config, whose MTP modules vLLM does not load."""
_GPT_OSS = Family(experts=("num_local_experts",), expert_size="intermediate_size", has_mtp=False, alternating=True)
"""GptOssConfig."""
_NEMOTRON_H = Family(linear="mamba2", experts=("n_routed_experts", "num_local_experts"), gated=False)
"""NemotronHConfig."""

FAMILIES = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "qwen3_vl_text", "qwen2_5_vl_text"), _DENSE),
    **dict.fromkeys(("qwen2_moe", "qwen3_moe", "qwen3_vl_moe_text"), _QWEN_MOE),
    "qwen3_next": _QWEN_NEXT,
    **dict.fromkeys(("qwen3_5", "qwen3_5_text"), _QWEN_35),
    **dict.fromkeys(("qwen3_5_moe", "qwen3_5_moe_text"), _QWEN_35_MOE),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), _DEEPSEEK),
    "glm4_moe": _GLM_MOE,
    **dict.fromkeys(("mixtral", "minimax_m2"), _MIXTRAL),
    "gpt_oss": _GPT_OSS,
    "nemotron_h": _NEMOTRON_H,
}

UNSIZED = {
    "deepseek_v32": "its sparse attention keeps an index cache beside the latent one",
    "glm_moe_dsa": "its sparse attention keeps an index cache beside the latent one",
    "deepseek_v4": "its layers keep compressed caches of several rates",
    "kimi_linear": "it mixes Kimi delta attention with MLA layers",
    "nemotron_h_puzzle": "its layers differ in size",
    "llama4": "it mixes chunked attention with full attention",
}
"""Families whose cache the data cannot express, and why."""

TEXT_CONFIGS = ("text_config", "llm_config", "language_config")
"""Where multimodal configs keep the language model's."""
