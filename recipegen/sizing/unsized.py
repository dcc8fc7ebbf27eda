"""Engine flags that change memory in ways that no formula here follows, and those that say the size of the KV cache outright."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recipegen.architecture import Architecture
from recipegen.model import RoleRecipe
from recipegen.role_flags import json_keys, number, size, switch, word

BLOCKS_OVERRIDE, MEMORY_BYTES = "num-gpu-blocks-override", "kv-cache-memory-bytes"

_OFFLOADS = ("cpu-offload-gb", "offload-group-size")
"""Weights leave the GPU: vLLM `config/offload.py`."""

_CONTEXT_PARALLEL = ("decode-context-parallel-size", "prefill-context-parallel-size")
"""The tokens of a request are shared out over GPUs: vLLM `v1/kv_cache_interface.py` divides its blocks."""

_POSITIONS = frozenset({"rope_scaling", "rope_parameters", "rope_theta", "max_position_embeddings", "original_max_position_embeddings"})
"""Keys of `hf-overrides` that stretch positions, and change neither weights nor the cache."""

_PLAIN_TYPES = frozenset({"bfloat16", "float16"})


@dataclass(frozen=True)
class Unsized:
    """Flags by what they touch: weights (and with them the budget), or the layout of the cache (and with it what fits)."""

    weights: tuple[str, ...]
    cache: tuple[str, ...]

    @property
    def flags(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.weights, *self.cache)))


def unsized_flags(role: RoleRecipe, model: Architecture) -> Unsized:
    """Return the flags of a role whose effect on memory is not followed."""
    context = tuple(flag for flag in _CONTEXT_PARALLEL if (size(role, flag) or 1) > 1)
    overrides = ("hf-overrides",) if _changes_model(role) else ()
    return Unsized(weights=(*_weight_flags(role, model), *context, *overrides), cache=(*context, *overrides))


def given_kv_flag(role: RoleRecipe) -> str:
    """The flag that says how large the KV cache is; the number of blocks has the last word (`v1/core/kv_cache_utils.py` get_num_blocks)."""
    return next((flag for flag in (BLOCKS_OVERRIDE, MEMORY_BYTES) if size(role, flag)), "")


def _weight_flags(role: RoleRecipe, model: Architecture) -> Iterator[str]:
    for flag in _OFFLOADS:
        if (number(role, flag) or 0) > 0:
            yield flag
    if model.moe is not None and switch(role, "enable-eplb"):
        yield "enable-eplb"
    stored = model.moe.expert_dtype if model.moe else model.dtype
    if word(role, "quantization") not in {"", "auto", "none"} and stored in _PLAIN_TYPES:
        yield "quantization"


def _changes_model(role: RoleRecipe) -> bool:
    return any(not _POSITIONS & set(path) for path in _paths(json_keys(role, "hf-overrides")))


def _paths(values: Mapping[str, object], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The way to every value of a JSON argument; dotted keys count as several."""
    for key, value in values.items():
        path = (*above, *key.split("."))
        if isinstance(value, dict) and value:
            yield from _paths(value, path)
        else:
            yield path
