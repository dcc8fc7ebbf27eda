"""What a role's flags and the engine's defaults decide for sizing."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.model import Architecture, Recipe, RoleRecipe
from recipegen.role_flags import draft_tokens, json_keys, number, switch, whole_number, word
from recipegen.sizing.block_size import MAMBA_CHUNK
from recipegen.sizing.budget import DEFAULT_UTILIZATION
from recipegen.sizing.engine_build import DEFAULT_ALL2ALL, REPLACED_BACKENDS, capture_cap, engine_build, is_blackwell, shards_sequences
from recipegen.sizing.graphs import DEFAULT_MODE, MODES, NONE, GraphSettings
from recipegen.sizing.state import CacheDtypes

LARGE_GPU_GIB = 70
LARGE_GPU_BATCH = (1024, 8192)
SMALL_GPU_BATCH = (256, 2048)
"""max-num-seqs and max-num-batched-tokens of a server by default: vLLM 0.28 `engine/arg_utils.py` get_batch_defaults."""


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of one role as its engine has them, defaults filled in. `chunk` is the mamba block of cache mode `all`."""

    dtypes: CacheDtypes
    block_size: int | None
    max_model_len: int
    draft: int
    mtp_layers: int
    cache_mode: str
    chunk: int
    graphs: GraphSettings
    all2all: str
    sequence_parallel: bool
    utilization: float


def cache_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose."""

    def chosen(flag: str) -> str:
        value = role.flag(flag)
        return "auto" if value is None else str(value)

    return CacheDtypes(kv=chosen("kv-cache-dtype"), conv=chosen("mamba-cache-dtype"), ssm=chosen("mamba-ssm-cache-dtype"))


def engine_settings(recipe: Recipe, role: RoleRecipe, model: Architecture) -> EngineSettings:
    """Return the settings that a role's engine starts with."""
    draft = draft_tokens(recipe, role)
    backend = word(role, "all2all-backend") or DEFAULT_ALL2ALL
    all2all = DEFAULT_ALL2ALL if backend in REPLACED_BACKENDS else backend
    return EngineSettings(
        dtypes=cache_dtypes(role),
        block_size=whole_number(role, "block-size") or None,
        max_model_len=whole_number(role, "max-model-len") or recipe.workload.max_model_len,
        draft=draft,
        mtp_layers=model.mtp_layers if draft and _is_mtp(role) else 0,
        cache_mode=mamba_cache_mode(role, model),
        chunk=mamba_chunk(role),
        graphs=graph_settings(recipe, role, draft=draft),
        all2all=all2all,
        sequence_parallel=shards_sequences(engine_build(recipe.runtime.vllm), all2all, role.topology),
        utilization=number(role, "gpu-memory-utilization") or DEFAULT_UTILIZATION,
    )


def mamba_cache_mode(role: RoleRecipe, model: Architecture) -> str:
    """`none` iff prefix caching is off; else `all` where it is asked for and the layers can (mamba2), or `align`.

    Prefix caching is on unless it is switched off, for hybrid models too. Source: vLLM 0.28 `model_executor/models/config.py`
    MambaModelConfig.
    """
    if switch(role, "enable-prefix-caching") is False:
        return "none"
    able = model.linear is not None and model.linear.kind == "mamba2"
    return "all" if able and word(role, "mamba-cache-mode") == "all" else "align"


def mamba_chunk(role: RoleRecipe) -> int:
    """Tokens that cache mode `all` aligns a block to: what the role says, or the usual chunk."""
    return whole_number(role, "mamba-block-size") or MAMBA_CHUNK


def graph_settings(recipe: Recipe, role: RoleRecipe, *, draft: int) -> GraphSettings:
    """Return what decides on a role's CUDA graphs; flags of the compilation config count as its keys do."""
    seqs, tokens = batch_limits(recipe, role)
    keys = json_keys(role, "compilation-config")
    mode = str(keys.get("cudagraph_mode", DEFAULT_MODE)).upper()
    capture = keys.get("max_cudagraph_capture_size", whole_number(role, "max-cudagraph-capture-size"))
    hardware = recipe.hardware.key
    return GraphSettings(
        mode=NONE if switch(role, "enforce-eager") else mode if mode in MODES else DEFAULT_MODE,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        draft=draft,
        capture=capture if isinstance(capture, int) and not isinstance(capture, bool) else None,
        sizes=_whole_numbers(keys.get("cudagraph_capture_sizes", role.flag("cudagraph-capture-sizes"))),
        cap=capture_cap(engine_build(recipe.runtime.vllm), blackwell=is_blackwell(hardware)),
        fine=word(role, "performance-mode") == "interactivity",
    )


def batch_limits(recipe: Recipe, role: RoleRecipe) -> tuple[int, int]:
    """Return max-num-seqs and max-num-batched-tokens, by default as a server on this GPU has them."""
    memory = recipe.hardware.gpu_memory_gib
    seqs, tokens = SMALL_GPU_BATCH if 0 < memory < LARGE_GPU_GIB else LARGE_GPU_BATCH
    batched = whole_number(role, "max-num-batched-tokens") or tokens
    return whole_number(role, "max-num-seqs") or min(seqs, batched), batched


def _is_mtp(role: RoleRecipe) -> bool:
    """Whether speculation uses the model's MTP layers: the method is not said, `mtp`, or an older name such as `qwen3_5_mtp`."""
    method = str(json_keys(role, "speculative-config").get("method", "mtp"))
    return method == "mtp" or method.endswith("_mtp")


def _whole_numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,)
    if not isinstance(value, list | tuple):
        return ()
    return tuple(size for size in value if isinstance(size, int) and not isinstance(size, bool) and size > 0)
