"""Weights on one GPU by part of the model, GiB.

Structure: vLLM 0.28 model classes (qwen3_next.py, qwen3_5.py, deepseek_v2.py, mamba_mixer2.py); checked against the published
study's measured weights to 0.01 GiB with one fitted constant. Whatever is not a routed expert counts in the model's own dtype.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from recipegen.architecture import Architecture, Attention, LinearAttention, Moe
from recipegen.model import Topology
from recipegen.sizing.divides import model_layers
from recipegen.sizing.sizes import WeightPart
from recipegen.sizing.state import DTYPE_BYTES, conv_channels

EXPERT_BYTES = {"nvfp4": 0.5 + 1 / 16, "mxfp4": 0.5 + 1 / 32, "fp8": 1.0, "bfloat16": 2.0, "float16": 2.0}
"""Bytes of a parameter with its block scales: nvfp4 one byte per 16 values, mxfp4 per 32; fp8's scales are too few to count."""

REST_GIB = 0.07
"""Fitted to the published study's three measured weights: rotary table, global scales, buffers."""


@dataclass(frozen=True)
class _Sizes:
    """Bytes of one layer: sharded over TP, and whole on every GPU."""

    sharded: float
    whole: float = 0

    def on_gpu(self, tp: int) -> float:
        return self.sharded / tp + self.whole


@dataclass(frozen=True)
class _Stage:
    """What a pipeline stage holds: its share of the layers, copies of the vocabulary's matrices, whether the MTP layers."""

    share: float
    matrices: int
    mtp: bool


@lru_cache(maxsize=2048)
def weight_parts(model: Architecture, topology: Topology, *, mtp_layers: int, sequence_parallel: bool) -> tuple[WeightPart, ...]:
    """Return the weights of the fullest pipeline stage, by part; empty where a size of the model is not known.

    `mtp_layers` are the MTP layers that are loaded (0 without MTP), `sequence_parallel` tells that the shared expert is whole on
    every GPU. Experts are split over TP x DP, with EP by whole experts. A stage has its share of each kind of layer.
    """
    if not is_sizable(model):
        return ()
    made = (
        (
            *_expert_parts(model, topology, stage, sequence_parallel=sequence_parallel),
            *_layer_parts(model, topology, stage),
            _vocabulary(model, topology, stage),
            *_mtp_parts(model, topology, stage, layers=mtp_layers, sequence_parallel=sequence_parallel),
            WeightPart(name="rest (fitted)", whole_gib=REST_GIB, gpu_gib=REST_GIB, sharding="replicated"),
        )
        for stage in _stages(model, topology.pp, mtp=mtp_layers > 0)
    )
    return tuple(part for part in max(made, key=lambda parts: sum(part.gpu_gib for part in parts)) if part.whole_gib)


def stage_margin_gib(model: Architecture, topology: Topology, gib: float) -> float:
    """GiB by which the fullest of several stages may differ from `gib`: a layer, where layers differ; 0 without stages.

    How the kinds of layers lie in the sequence, and so where a stage ends among them, is not known here.
    """
    mixed = model.linear is not None or (model.moe is not None and model.mlp_layers > 0)
    return gib / -(-model_layers(model) // topology.pp) if topology.pp > 1 and mixed else 0.0


def _stages(model: Architecture, pp: int, *, mtp: bool) -> tuple[_Stage, ...]:
    """The stages that can be the fullest: first, last, and one between.

    Layers that are left over go to the stages before the last, from the end on: vLLM 0.28 `distributed/utils.py` get_pp_indices.
    The first stage has the input matrix, the last the output matrix and MTP, which needs the input matrix too.
    """
    if pp == 1:
        return (_Stage(1.0, 1 if model.tied_embeddings else 2, mtp=True),)
    layers = model_layers(model)
    least, over = divmod(layers, pp)
    first, last = (least + (over == pp - 1)) / layers, least / layers
    ends = (_Stage(first, 1, mtp=False), _Stage(last, 2 if mtp and not model.tied_embeddings else 1, mtp=True))
    between = (_Stage((least + (over > 0)) / layers, 0, mtp=False),) if pp > 2 else ()
    return (*ends, *between)


def is_sizable(model: Architecture) -> bool:
    """Whether every number that the weights need is known."""
    mlp = model.mlp_intermediate_size if model.mlp_layers else model.moe is not None
    experts = model.moe is None or model.moe.expert_dtype in EXPERT_BYTES
    return bool(model.hidden_size and model.vocab_size and mlp and experts and model.dtype in DTYPE_BYTES)


def _part(name: str, whole: float, gpu: float, sharding: str) -> WeightPart:
    return WeightPart(name=name, whole_gib=whole / 2**30, gpu_gib=gpu / 2**30, sharding=sharding)


def _expert_parts(model: Architecture, topology: Topology, stage: _Stage, *, sequence_parallel: bool) -> Iterator[WeightPart]:
    moe = model.moe
    if moe is None:
        return
    layers = moe.layers * stage.share
    experts = _experts(model, moe)
    yield _part("routed experts", experts * moe.layers, _experts_on_gpu(model, moe, topology) * layers, _expert_sharding(topology))
    shared = 3.0 * model.hidden_size * moe.shared_intermediate_size * DTYPE_BYTES[model.dtype]
    on_gpu, sharding = _shared_expert(shared, topology, sequence_parallel=sequence_parallel)
    yield _part("shared expert", shared * moe.layers, on_gpu * layers, sharding)
    router = _router(model, moe)
    yield _part("router and gates", router * moe.layers, router * layers, "replicated")


def _layer_parts(model: Architecture, topology: Topology, stage: _Stage) -> Iterator[WeightPart]:
    tp, share, width = topology.tp, stage.share, DTYPE_BYTES[model.dtype]
    if linear := model.linear:
        one = _linear(model, linear, tp) * linear.layers
        yield _part(f"linear attention ({linear.kind})", one, one / tp * share, "/ TP")
    whole, one_gpu = _attention(model, 1), _attention(model, tp)
    layers = model.attention.layers
    note = "/ TP; latent projections replicated" if model.attention.mla else "/ TP; K and V by KV heads, at least one"
    yield _part("attention", whole.on_gpu(1) * layers, one_gpu.on_gpu(tp) * layers * share, note)
    dense = 3.0 * model.hidden_size * model.mlp_intermediate_size * width * model.mlp_layers
    yield _part("dense MLP", dense, dense / tp * share, "/ TP")
    norms = 2.0 * model.hidden_size * width * (layers + (model.linear.layers if model.linear else 0))
    yield _part("norms", norms, norms * share, "replicated")


def _vocabulary(model: Architecture, topology: Topology, stage: _Stage) -> WeightPart:
    one = float(model.vocab_size * model.hidden_size * DTYPE_BYTES[model.dtype])
    return _part("embedding and output matrix", one * (1 if model.tied_embeddings else 2), one * stage.matrices / topology.tp, "/ TP")


def _mtp_parts(model: Architecture, topology: Topology, stage: _Stage, *, layers: int, sequence_parallel: bool) -> Iterator[WeightPart]:
    """An MTP layer is an attention layer with its experts (or MLP), and a projection of two hidden states to one."""
    if not layers or not stage.mtp:
        return
    tp, width, hidden = topology.tp, DTYPE_BYTES[model.dtype], model.hidden_size
    whole = _attention(model, 1).on_gpu(1) + 2.0 * hidden * hidden * width
    gpu = _attention(model, tp).on_gpu(tp) + 2.0 * hidden * hidden * width / tp
    moe = model.moe
    if moe is None:
        dense = 3.0 * hidden * model.mlp_intermediate_size * width
        yield _part("MTP", (whole + dense) * layers, (gpu + dense / tp) * layers, "/ TP")
        return
    yield _part("MTP experts", _experts(model, moe) * layers, _experts_on_gpu(model, moe, topology) * layers, _expert_sharding(topology))
    shared = 3.0 * hidden * moe.shared_intermediate_size * width
    on_gpu, sharding = _shared_expert(shared, topology, sequence_parallel=sequence_parallel)
    rest = _router(model, moe) + 2.0 * hidden * width
    name, note = "MTP attention, shared expert, projection", f"/ TP; shared expert {sharding}"
    yield _part(name, (whole + shared + rest) * layers, (gpu + on_gpu + rest) * layers, note)


def _experts(model: Architecture, moe: Moe) -> float:
    return moe.experts * _one_expert(model, moe)


def _one_expert(model: Architecture, moe: Moe) -> float:
    return 3.0 * model.hidden_size * moe.intermediate_size * EXPERT_BYTES[moe.expert_dtype]


def _experts_on_gpu(model: Architecture, moe: Moe, topology: Topology) -> float:
    """Whole experts with EP, the fullest rank's; without, every expert's width is cut by TP x DP."""
    if topology.ep:
        return -(-moe.experts // topology.ep_size) * _one_expert(model, moe)
    return _experts(model, moe) / (topology.tp * topology.dp)


def _expert_sharding(topology: Topology) -> str:
    return f"/ EP {topology.ep_size}" if topology.ep else f"/ (TP x DP) {topology.tp * topology.dp}"


def _shared_expert(size: float, topology: Topology, *, sequence_parallel: bool) -> tuple[float, str]:
    return (size, "replicated: sequence-parallel MoE") if sequence_parallel else (size / topology.tp, "/ TP")


def _router(model: Architecture, moe: Moe) -> float:
    gates = moe.experts + (1 if moe.shared_intermediate_size else 0)
    return float(model.hidden_size * gates * DTYPE_BYTES[model.dtype])


def _attention(model: Architecture, tp: int) -> _Sizes:
    """One layer's projections; K and V are whole bytes of this GPU's KV heads, which TP above their number replicates."""
    attention, hidden, width = model.attention, model.hidden_size, DTYPE_BYTES[model.dtype]
    if attention.mla is not None:
        return _latent_attention(model, attention)
    query = attention.heads * attention.head_dim * (3 if attention.output_gate else 2)
    kv_heads = max(1, attention.kv_heads // tp)
    return _Sizes(sharded=float(hidden * query * width), whole=2.0 * kv_heads * attention.head_dim * hidden * width)


def _latent_attention(model: Architecture, attention: Attention) -> _Sizes:
    mla, hidden, width = attention.mla, model.hidden_size, DTYPE_BYTES[model.dtype]
    assert mla is not None, "only for MLA"  # noqa: S101 - the caller looked
    query_dim = attention.heads * (mla.qk_nope_head_dim + mla.qk_rope_head_dim)
    up = attention.heads * mla.kv_lora_rank * (mla.qk_nope_head_dim + mla.v_head_dim)
    out = attention.heads * mla.v_head_dim * hidden
    latent = hidden * (mla.kv_lora_rank + mla.qk_rope_head_dim + mla.q_lora_rank)
    return _Sizes(sharded=float(((mla.q_lora_rank or hidden) * query_dim + up + out) * width), whole=float(latent * width))


def _linear(model: Architecture, linear: LinearAttention, tp: int) -> float:
    """One layer's projections in, out and convolution, of all GPUs together."""
    channels = conv_channels(linear, tp=tp)
    values = linear.value_heads * linear.value_head_dim
    small = 2 if linear.kind == "gdn" else 1
    into = channels + values + small * linear.value_heads
    return float((model.hidden_size * (into + values) + channels * linear.conv_kernel) * DTYPE_BYTES[model.dtype])
