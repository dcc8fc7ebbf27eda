"""What a checkpoint's weights are stored in, by its `quantization_config`.

Keys: vLLM 0.28 `model_executor/layers/quantization/` (`modelopt.py`, `compressed_tensors/`, `fp8.py`, `mxfp4.py`) and
`transformers_utils/model_arch_config_convertor.py` `_normalize_quantization_config`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recipegen.errors import near_match
from recipegen.hf_config.fields import Fields
from recipegen.yamlscalars import quote

_PLAIN = {"fp8": "fp8", "fbgemm_fp8": "fp8", "mxfp4": "mxfp4"}
"""Methods that say all."""
_METHODS = (*_PLAIN, "modelopt", "modelopt_fp4", "modelopt_mixed", "compressed-tensors")
_KEPT = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
_EXPERTS = re.compile(r"(?<!shared_)(?<!shared)experts")
_PARTS = {
    "attention": re.compile(r"(?<!linear_)attn|attention"),
    "linear attention": re.compile(r"(?<!self_)attn"),
    "shared experts": re.compile(r"shared_experts?(?!_gate)"),
    "dense MLP": re.compile(r"mlp(\*|$|\.\*|\.(gate|up|down|gate_up)_proj)"),
}
"""Parts beside routed experts, and how lists of modules that stay unquantized name them."""


@dataclass(frozen=True)
class Quantization:
    """`experts`: what routed experts are stored in; `others`: the parts beside them that are quantized too."""

    experts: str
    others: tuple[str, ...] = ()


def read_quantization(owners: Iterable[Fields], dtype: str, parts: Mapping[str, int], *, moe: bool) -> Quantization:
    """Read the quantization of the first owner that has one; `parts` says how many layers have each part beside the experts.

    Of a dense model only what is quantized matters; of a mixture of experts, a method whose bytes are not known is a problem.
    """
    owner, key = next(((o, k) for o in owners for k in ("quantization_config", "compression_config") if o.has(k)), (None, ""))
    present = {part: layers for part, layers in parts.items() if layers}
    if owner is None:
        return Quantization(dtype)
    fields = owner.below(key)
    if not fields.values:
        return Quantization(dtype, tuple(present))
    kept = tuple(entry for name in _KEPT for entry in fields.words(name) or ())
    experts = _experts(fields, kept, dtype) if moe else dtype
    if fields.word("quant_method") == "mxfp4":  # vLLM quantizes experts only
        return Quantization(experts)
    layers = fields.below("quantized_layers").values
    if layers and all(_EXPERTS.search(name) for name in layers):
        return Quantization(experts)
    return Quantization(experts, tuple(part for part, count in present.items() if not _is_kept(kept, part, count)))


def _experts(fields: Fields, kept: Iterable[str], dtype: str) -> str:
    left = [entry for entry in kept if _EXPERTS.search(entry) and not entry.startswith("mtp")]
    if any(re.search(r"layers\.\d", entry) for entry in left):
        fields.wrong(next(key for key in _KEPT if fields.has(key)), "the experts of some layers are not quantized; expected all or none")
    if left:
        return dtype
    method = fields.word("quant_method").lower().replace("_tensors", "-tensors")
    if method in _PLAIN:
        return _PLAIN[method]
    if method.startswith("modelopt"):
        return _modelopt(fields)
    if method == "compressed-tensors":
        return _compressed(fields)
    if not fields.has("quant_method"):
        fields.count("quant_method")
        return dtype
    hint = near_match(method[:100], _METHODS)
    fields.wrong("quant_method", f"the bytes of experts by method {quote(method)} are not known; expected one of {', '.join(_METHODS)}", hint)
    return dtype


def _modelopt(fields: Fields) -> str:
    inner = fields.below("quantization") if fields.has("quantization") else fields
    algorithm = inner.word("quant_algo").upper()
    if algorithm == "MIXED_PRECISION":
        layers = inner.below("quantized_layers")
        found = {layers.below(name).word("quant_algo").upper() for name in layers.values if _EXPERTS.search(name) and not name.startswith("mtp")}
        algorithm = found.pop() if len(found) == 1 else ""
    if "NVFP4" in algorithm:
        return "nvfp4"
    if algorithm.startswith("FP8"):
        return "fp8"
    inner.wrong("quant_algo", "the bytes of experts are not known; expected NVFP4 or FP8, or one of them for all experts in quantized_layers")
    return "bfloat16"


def _compressed(fields: Fields) -> str:
    groups = fields.below("config_groups")
    found = [groups.below(name) for name in groups.values]
    mine = [group for group in found if any(_EXPERTS.search(target) for target in group.words("targets") or ())]
    chosen = mine or found
    weights = chosen[0].below("weights") if len(chosen) == 1 else None
    if weights is not None:
        bits, kind, size = weights.count("num_bits", default=0, least=0), weights.word("type"), weights.count("group_size", default=0, least=-1)
        stored = {(4, "float", 16): "nvfp4", (4, "float", 32): "mxfp4"}.get((bits, kind, size))
        if stored or ((bits, kind) == (8, "float") and size != _MX_GROUP):
            return stored or "fp8"
    fields.wrong(
        "config_groups", "the bytes of experts are not known; expected one group for them, of 4 bits (NVFP4, MXFP4) or 8 bits (FP8), floating"
    )
    return "bfloat16"


_MX_GROUP = 32
"""Weights that share a scale in the MX formats."""


def _is_kept(kept: Iterable[str], part: str, layers: int) -> bool:
    """Tell whether a part is unquantized in all its layers: by a name for all, or by names for each."""
    named = [entry.replace("\\", "") for entry in kept if not entry.startswith("mtp")]
    named = [entry for entry in named if _PARTS[part].search(entry)]
    numbers = [re.search(r"layers\.(\d+)\b", entry) for entry in named]
    return any(number is None for number in numbers) or 0 < layers <= len({number[1] for number in numbers if number})
