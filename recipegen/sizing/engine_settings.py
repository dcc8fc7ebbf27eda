"""What a role's flags and the engine's defaults decide for sizing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recipegen.architecture import Architecture
from recipegen.builds import build_of
from recipegen.model import TEMPLATE_TOKENS, Recipe, RoleRecipe
from recipegen.role_flags import (
    as_whole_number,
    draft_method,
    draft_tokens,
    json_keys,
    legal_size,
    number,
    size,
    switch,
    whole_number,
    word,
)
from recipegen.sizing.block_size import FLASH_ATTN, FLASHINFER, FLASHINFER_MLA, MAMBA_CHUNK
from recipegen.sizing.budget import DEFAULT_UTILIZATION
from recipegen.sizing.engine_build import (
    DEFAULT_ALL2ALL,
    REPLACED_BACKENDS,
    capture_cap,
    is_blackwell,
    is_sharding_sure,
    shards_sequences,
)
from recipegen.sizing.graphs import DEFAULT_MODE, MODES, NONE, GraphSettings
from recipegen.sizing.state import CacheDtypes

LARGE_GPU_GIB = 70
LARGE_GPU_BATCH = (1024, 8192)
SMALL_GPU_BATCH = (256, 2048)
"""max-num-seqs and max-num-batched-tokens of a server by default: vLLM 0.28 `engine/arg_utils.py` get_batch_defaults."""

HOPPER = "9.0"


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """Settings of one role as its engine has them, defaults filled in. `chunk` is the mamba block of cache mode `all`.

    `workload_tokens` are those of a request of the workload. `backend` is the attention backend, empty where it is not known which
    one vLLM chooses. `windows` tells whether sliding-window layers keep their window only. What is not known of the build or of
    defaults stands in `windows_sure`, `mode_sure` and `sharding_sure`.
    """

    dtypes: CacheDtypes
    block_size: int | None
    max_model_len: int
    workload_tokens: int
    draft: int
    mtp_layers: int
    cache_mode: str
    mode_sure: bool
    chunk: int
    backend: str
    windows: bool
    windows_sure: bool
    graphs: GraphSettings
    all2all: str
    sequence_parallel: bool
    sharding_sure: bool
    utilization: float


@dataclass(frozen=True)
class Captures:
    """The largest capture size and the list of them as a role's flags have them, legal or not; None for what is not set, or no number."""

    most: int | None
    sizes: tuple[int, ...] | None


def cache_dtypes(role: RoleRecipe) -> CacheDtypes:
    """The cache dtypes that a role's flags choose; a flag's negative, which the engine does not have, chooses none."""

    def chosen(flag: str) -> str:
        value = role.flag(flag)
        return "auto" if value is None or value is False else str(value)

    return CacheDtypes(kv=chosen("kv-cache-dtype"), conv=chosen("mamba-cache-dtype"), ssm=chosen("mamba-ssm-cache-dtype"))


def engine_settings(recipe: Recipe, role: RoleRecipe, model: Architecture) -> EngineSettings:
    """Return the settings that a role's engine starts with."""
    draft, build = draft_tokens(recipe, role), build_of(recipe.runtime.vllm)
    backend = word(role, "all2all-backend") or DEFAULT_ALL2ALL
    all2all = DEFAULT_ALL2ALL if backend in REPLACED_BACKENDS else backend
    length = size(role, "max-model-len") or recipe.workload.max_model_len
    hybrid_cache = switch(role, "disable-hybrid-kv-cache-manager")
    managed = hybrid_cache is not None or not _transfers(role)
    return EngineSettings(
        dtypes=cache_dtypes(role),
        block_size=size(role, "block-size"),
        max_model_len=length,
        workload_tokens=_workload_tokens(recipe, length),
        draft=draft,
        mtp_layers=model.mtp_layers if draft and _is_mtp(role) else 0,
        cache_mode=mamba_cache_mode(role, model),
        mode_sure=model.linear is None or build.has("hybrid-prefix-caching") or switch(role, "enable-prefix-caching") is not None,
        chunk=mamba_chunk(role),
        backend=attention_backend(recipe, role, model),
        windows=managed and not hybrid_cache,
        windows_sure=managed,
        graphs=graph_settings(recipe, role, draft=draft),
        all2all=all2all,
        sequence_parallel=shards_sequences(build, all2all, role.topology),
        sharding_sure=is_sharding_sure(build, all2all, role.topology),
        utilization=memory_share(role) or DEFAULT_UTILIZATION,
    )


def attention_backend(recipe: Recipe, role: RoleRecipe, model: Architecture) -> str:
    """The attention backend that a role asks for, or that vLLM chooses first on this GPU; empty where that is not known.

    Source of the choice: vLLM 0.28 `platforms/cuda.py` _get_backend_priorities.
    """
    asked = word(role, "attention-backend") or str(json_keys(role, "attention-config").get("backend") or "")
    if asked and asked.lower() != "auto":
        return asked.upper()
    mla = model.attention.mla is not None
    if is_blackwell(recipe.hardware):
        return FLASHINFER_MLA if mla else FLASHINFER
    return FLASH_ATTN if recipe.hardware.compute_capability == HOPPER and not mla else ""


def mamba_cache_mode(role: RoleRecipe, model: Architecture) -> str:
    """`none` iff prefix caching is off; else `all` where it is asked for and the layers can (mamba2), or `align`.

    Prefix caching counts as on unless it is switched off, for hybrid models too. Source: vLLM 0.28 `model_executor/models/config.py`
    MambaModelConfig.
    """
    if switch(role, "enable-prefix-caching") is False:
        return "none"
    able = model.linear is not None and model.linear.kind == "mamba2"
    return "all" if able and word(role, "mamba-cache-mode") == "all" else "align"


def mamba_chunk(role: RoleRecipe) -> int:
    """Tokens that cache mode `all` aligns a block to: what the role says, or the usual chunk."""
    return size(role, "mamba-block-size") or MAMBA_CHUNK


def asked_captures(role: RoleRecipe) -> Captures:
    """Return what a role's flags ask of capture sizes, as written; keys of the compilation config before flags of their own."""
    return _captures(role, json_keys(role, "compilation-config"))


def _captures(role: RoleRecipe, keys: Mapping[str, object]) -> Captures:
    flag = role.flag("cudagraph-capture-sizes")
    most, listed = keys.get("max_cudagraph_capture_size"), keys.get("cudagraph_capture_sizes")
    one = isinstance(flag, int | str)  # the command line takes one size too, JSON lists only
    return Captures(
        most=whole_number(role, "max-cudagraph-capture-size") if most is None else as_whole_number(most),
        sizes=_all_whole((flag,) if one else flag) if listed is None else _all_whole(listed),
    )


def graph_settings(recipe: Recipe, role: RoleRecipe, *, draft: int) -> GraphSettings:
    """Return what decides on a role's CUDA graphs; flags of the compilation config count as its keys do."""
    seqs, tokens = batch_limits(recipe, role)
    keys = json_keys(role, "compilation-config")
    mode = str(keys.get("cudagraph_mode", DEFAULT_MODE)).upper()
    captures = _captures(role, keys)
    return GraphSettings(
        mode=NONE if switch(role, "enforce-eager") else mode if mode in MODES else DEFAULT_MODE,
        max_num_seqs=seqs,
        max_num_batched_tokens=tokens,
        draft=draft,
        capture=legal_size(captures.most),
        sizes=tuple(own for own in captures.sizes or () if legal_size(own)),
        cap=capture_cap(build_of(recipe.runtime.vllm), blackwell=is_blackwell(recipe.hardware)),
        fine=word(role, "performance-mode") == "interactivity",
    )


def batch_limits(recipe: Recipe, role: RoleRecipe) -> tuple[int, int]:
    """Return max-num-seqs and max-num-batched-tokens, by default as a server on this GPU has them."""
    memory = recipe.hardware.gpu_memory_gib
    seqs, tokens = SMALL_GPU_BATCH if 0 < memory < LARGE_GPU_GIB else LARGE_GPU_BATCH
    batched = size(role, "max-num-batched-tokens") or tokens
    return size(role, "max-num-seqs") or min(seqs, batched), batched


def memory_share(role: RoleRecipe) -> float | None:
    """The share of a GPU's memory that the role asks for; None where it asks for none, or vLLM refuses it: more than 0, at most 1."""
    share = number(role, "gpu-memory-utilization")
    return share if share is not None and 0 < share <= 1 else None


def _workload_tokens(recipe: Recipe, length: int) -> int:
    """Tokens of a request of the workload, chat template included; one without lengths takes the longest that there can be."""
    own = recipe.workload.isl + recipe.workload.osl
    return min(own + TEMPLATE_TOKENS, length) if own else length


def _transfers(role: RoleRecipe) -> bool:
    """Whether a KV connector is set: vLLM then may turn its hybrid cache manager off by itself (`config/vllm.py`)."""
    return any(flag.name.partition(".")[0] == "kv-transfer-config" for flag in role.flags)


def _is_mtp(role: RoleRecipe) -> bool:
    """Whether speculation uses the model's MTP layers: the method is not said, `mtp`, or an older name such as `qwen3_5_mtp`."""
    method = draft_method(role) or "mtp"
    return method == "mtp" or method.endswith("_mtp")


def _all_whole(values: object) -> tuple[int, ...] | None:
    """The members of a list, if each is a whole number."""
    found = [as_whole_number(value) for value in values] if isinstance(values, list | tuple) else [None]
    return None if None in found else tuple(size for size in found if size is not None)
