"""Whether a model can be shared out over a topology: reasons why vLLM refuses, in words.

Source: vLLM 0.26 to 0.29, `config/model.py` verify_with_parallel_config, `model_executor/layers/mamba/mamba_utils.py`,
`model_executor/layers/fused_moe`, `distributed/utils.py` get_pp_indices.
"""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.architecture import Architecture, LinearAttention
from recipegen.model import Topology


def not_divided(model: Architecture, topology: Topology) -> tuple[str, ...]:
    """Return every reason why the model cannot be shared out over a topology; none where it can."""
    return (
        *attention_faults(model, topology.tp),
        *linear_faults(model, topology.tp),
        *expert_faults(model, topology),
        *layer_faults(model, topology.pp),
    )


def attention_faults(model: Architecture, tp: int) -> Iterator[str]:
    """TP must divide the attention heads; of TP and KV heads one must divide the other, except with latent attention."""
    attention = model.attention
    if attention.heads % tp:
        yield f"TP{tp} does not divide {attention.heads} attention heads"
    elif not attention.mla and attention.kv_heads % tp and tp % attention.kv_heads:
        yield f"of TP{tp} and {attention.kv_heads} KV heads neither divides the other"


def linear_faults(model: Architecture, tp: int) -> Iterator[str]:
    """TP must divide key and value heads of linear-attention layers; a single mamba2 group is replicated."""
    if model.linear:
        for name, count in linear_heads(model.linear):
            if count % tp:
                yield f"TP{tp} does not divide the {count} {name} heads of the linear-attention layers"


def linear_heads(linear: LinearAttention) -> Iterator[tuple[str, int]]:
    """Heads of a linear-attention layer that are cut by TP, by name."""
    if linear.kind != "mamba2" or linear.key_heads > 1:
        yield "key", linear.key_heads
    yield "value", linear.value_heads


def expert_faults(model: Architecture, topology: Topology) -> Iterator[str]:
    """EP needs experts, and a whole one for each rank; without it TP x DP must divide an expert's width."""
    moe = model.moe
    if moe is None:
        if topology.ep:
            yield "EP needs experts, and the model is dense"
    elif topology.ep_size > moe.experts:
        yield f"EP{topology.ep_size} exceeds {moe.experts} experts"
    elif not topology.ep and moe.intermediate_size % (topology.tp * topology.dp):
        yield f"without EP, TP{topology.tp} x DP{topology.dp} does not divide the width {moe.intermediate_size} of an expert"


def layer_faults(model: Architecture, pp: int) -> Iterator[str]:
    """A pipeline stage holds at least one layer."""
    if pp > (layers := model_layers(model)):
        yield f"PP{pp} exceeds {layers} layers"


def model_layers(model: Architecture) -> int:
    """Layers that pipeline stages are cut from; mamba2 models count their feed-forward blocks as layers of their own."""
    linear = model.linear
    mixers = model.attention.layers + (linear.layers if linear else 0)
    if not linear or linear.kind != "mamba2":
        return mixers
    return mixers + model.mlp_layers + (model.moe.layers if model.moe else 0)
