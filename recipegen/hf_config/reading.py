"""From the text of a `config.json` to the numbers that sizing needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recipegen.architecture import Architecture, Attention, LinearAttention, Mla, Moe
from recipegen.errors import near_match
from recipegen.hf_config.families import FAMILIES, TEXT_CONFIGS, UNSIZED, Family
from recipegen.hf_config.fields import Fields, Findings
from recipegen.hf_config.json_source import parse_json
from recipegen.hf_config.layers import Layers, read_layers
from recipegen.hf_config.quantization import Quantization, read_quantization
from recipegen.yamlscalars import quote

_DTYPES = ("bfloat16", "float16", "float32")


@dataclass(frozen=True)
class Reading:
    """A model's numbers, and what they leave out or take for something else."""

    architecture: Architecture
    notes: tuple[str, ...] = ()


def read_config(text: bytes, file: str) -> Architecture:
    """Return the architecture that a `config.json` describes, or raise InputError with every problem at its place in `file`."""
    return read(text, file).architecture


def read(text: bytes, file: str) -> Reading:
    """Return the architecture with its notes, or raise InputError.

    Refused are families and layer kinds whose cache the data cannot express. A model whose weights it cannot express comes without
    `hidden_size`: its cache is sized, its weights are not.
    """
    findings = Findings()
    outer = Fields(parse_json(text, file), findings)
    fields = next((outer.below(key) for key in TEXT_CONFIGS if outer.has(key)), outer)
    family = _family(outer, fields)
    findings.refuse()
    layers = read_layers(fields, family)
    architecture = _architecture(outer, fields, family, layers)
    findings.refuse()
    if outer.has("vision_config", "audio_config"):
        findings.notes.append("weights of the encoders beside the language model are not sized")
    if layers.sliding:
        which, window = f"{layers.sliding} of {layers.attention} attention layers have", architecture.attention.window
        size = f"a sliding window of {window} tokens" if window else "a sliding window of unknown size, and count as full attention"
        findings.notes.append(f"{which} {size}")
    return Reading(architecture, tuple(findings.notes))


def _family(outer: Fields, fields: Fields) -> Family:
    owner = fields if fields.has("model_type") else outer
    name = owner.word("model_type")
    family = FAMILIES.get(name, Family())
    if not owner.has("model_type"):
        owner.count("model_type")
    elif name in UNSIZED:
        owner.wrong("model_type", f"models of type {quote(name)} are not sized: {UNSIZED[name]}")
    elif name not in FAMILIES:
        hint = near_match(name[:100], FAMILIES) or f"known are {', '.join(FAMILIES)}"
        owner.wrong("model_type", f"models of type {quote(name)} are not known, and are not sized by guess", hint)
    for key in ("index_topk", "index_head_dim", "compress_ratios"):
        if name in FAMILIES and fields.has(key):
            fields.wrong(key, "sparse attention keeps more than the KV cache, which is not sized; expected a config without it")
    for key in ("num_experts", "num_local_experts", "n_routed_experts"):
        if name in FAMILIES and not family.experts and fields.count(key, default=0, least=0):
            fields.wrong(key, f"models of type {quote(name)} are known as dense; expected no experts")
    if any(kind != 1 for kind in fields.numbers("attn_type_list") or ()):
        fields.wrong("attn_type_list", "layers with lightning attention are not sized; expected 1 for every layer")
    return family


def _architecture(outer: Fields, fields: Fields, family: Family, layers: Layers) -> Architecture:
    dtype = _dtype(outer, fields)
    moe = _moe(fields, family, layers)
    parts = {"attention": layers.attention, "linear attention": layers.linear, "dense MLP": layers.mlp}
    parts["shared experts"] = layers.moe if moe and moe.shared_intermediate_size else 0
    quantization = read_quantization((outer, fields), dtype, parts, moe=moe is not None)
    moe = replace(moe, expert_dtype=quantization.experts) if moe else None
    hidden = fields.count("hidden_size")
    tied = fields if fields.has("tie_word_embeddings") else outer
    return Architecture(
        dtype=dtype,
        hidden_size=0 if _weights_unknown(fields, family, layers, quantization) else hidden,
        vocab_size=fields.count("vocab_size"),
        tied_embeddings=tied.flag("tie_word_embeddings", default=False),
        max_position=fields.count("max_position_embeddings", "model_max_length", default=0),
        mlp_layers=layers.mlp,
        mlp_intermediate_size=fields.count("intermediate_size") if layers.mlp else 0,
        mtp_layers=fields.count("num_nextn_predict_layers", "mtp_num_hidden_layers", default=family.mtp, least=0) if family.has_mtp else 0,
        attention=_attention(fields, family, layers, hidden),
        linear=_linear(fields, family, layers, dtype) if layers.linear else None,
        moe=moe,
    )


def _dtype(outer: Fields, fields: Fields) -> str:
    owner = next((o for o in (fields, outer) if o.has("dtype", "torch_dtype")), None)
    if owner is None:
        fields.findings.notes.append("the config names no dtype: bfloat16 is assumed, vLLM takes that of the tensors")
        return "bfloat16"
    dtype = owner.word("dtype", "torch_dtype").removeprefix("torch.")
    if dtype not in _DTYPES:
        key = "dtype" if owner.has("dtype") else "torch_dtype"
        owner.wrong(key, f"expected {', '.join(_DTYPES)}, found {quote(dtype)}", near_match(dtype[:100], _DTYPES))
    return dtype


def _attention(fields: Fields, family: Family, layers: Layers, hidden: int) -> Attention:
    heads = fields.count("num_attention_heads")
    kv_heads = fields.count("num_key_value_heads", default=heads)
    mla = None
    if family.mla:
        mla = Mla(
            kv_lora_rank=fields.count("kv_lora_rank"),
            qk_rope_head_dim=fields.count("qk_rope_head_dim"),
            qk_nope_head_dim=fields.count("qk_nope_head_dim"),
            v_head_dim=fields.count("v_head_dim"),
            q_lora_rank=fields.count("q_lora_rank", default=0),
        )
        head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim
    else:
        head_dim = fields.count("head_dim", "attention_head_dim", default=max(1, hidden // heads))
        if not fields.has("head_dim", "attention_head_dim") and hidden % heads:
            fields.wrong("num_attention_heads", f"{heads} heads do not divide hidden_size {hidden}; expected head_dim where they do not")
    if heads % kv_heads:
        fields.wrong("num_key_value_heads", f"{kv_heads} KV heads do not divide {heads} heads; expected a divisor")
    gate = fields.flag("attn_output_gate", default=family.output_gate)
    return Attention(
        layers=layers.attention,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        sliding_layers=layers.sliding,
        window=fields.count("sliding_window", default=0, least=0) if layers.sliding else 0,
        output_gate=gate,
        mla=mla,
    )


def _linear(fields: Fields, family: Family, layers: Layers, dtype: str) -> LinearAttention:
    """Without a dtype of its own the state has the model's, or float32 for Nemotron-H: vLLM `models/config.py` `NemotronHForCausalLMConfig`."""
    mamba = family.linear == "mamba2"
    state = fields.word("mamba_ssm_dtype", "mamba_ssm_cache_dtype", default="float32" if mamba else dtype).removeprefix("torch.")
    if state not in _DTYPES:
        key = "mamba_ssm_dtype" if fields.has("mamba_ssm_dtype") else "mamba_ssm_cache_dtype"
        fields.wrong(key, f"expected {', '.join(_DTYPES)}, found {quote(state)}", near_match(state[:100], _DTYPES))
    return LinearAttention(
        kind=family.linear,
        layers=layers.linear,
        key_heads=fields.count("n_groups", "mamba_n_groups") if mamba else fields.count("linear_num_key_heads"),
        value_heads=fields.count("mamba_num_heads") if mamba else fields.count("linear_num_value_heads"),
        key_head_dim=fields.count("ssm_state_size") if mamba else fields.count("linear_key_head_dim"),
        value_head_dim=fields.count("mamba_head_dim") if mamba else fields.count("linear_value_head_dim"),
        conv_kernel=fields.count("conv_kernel", "mamba_d_conv") if mamba else fields.count("linear_conv_kernel_dim"),
        ssm_dtype=state,
    )


def _moe(fields: Fields, family: Family, layers: Layers) -> Moe | None:
    if not layers.moe:
        return None
    experts = fields.count(*family.experts)
    top_k = fields.count("num_experts_per_tok", "experts_per_token", "num_experts_per_token")
    if top_k > experts:
        fields.wrong("num_experts_per_tok", f"{top_k} experts a token are more than the {experts} that there are")
    size = fields.count(family.expert_size)
    return Moe(
        layers=layers.moe,
        experts=experts,
        top_k=top_k,
        intermediate_size=size,
        shared_intermediate_size=_shared_size(fields, size),
        expert_dtype="",
    )


def _shared_size(fields: Fields, size: int) -> int:
    """Width of all shared experts together: stated (Qwen), or their number times a width (DeepSeek, Nemotron-H)."""
    if fields.has("shared_expert_intermediate_size", "shared_intermediate_size"):
        return fields.count("shared_expert_intermediate_size", "shared_intermediate_size", least=0)
    shared = fields.count("n_shared_experts", default=0, least=0)
    return shared * fields.count("moe_shared_expert_intermediate_size", default=size)


def _weights_unknown(fields: Fields, family: Family, layers: Layers, quantization: Quantization) -> bool:
    """Tell whether the data cannot express the weights, and note why."""
    reasons = []
    if not family.gated and layers.mlp + layers.moe:
        reasons.append("its MLPs have two matrices")
    if fields.has("moe_latent_size"):
        reasons.append("its experts work in a latent space")
    if quantization.others:
        reasons.append(f"{', '.join(quantization.others)} may be quantized{' too' if layers.moe else ''}")
    if reasons:
        fields.findings.notes.append(f"weights are not sized: {'; '.join(reasons)}")
    return bool(reasons)
