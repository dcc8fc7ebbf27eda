"""How many layers of each kind a model has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from recipegen.errors import near_match
from recipegen.hf_config.families import Family
from recipegen.hf_config.fields import Fields
from recipegen.yamlscalars import quote

_NAMES = {"attention": "full_attention", "mamba": "linear_attention"}
"""Older names of layer kinds; transformers `configuration_utils.py` `remap_legacy_layer_types`."""
_ATTENTION = ("full_attention", "sliding_attention")
_PATTERN = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
"""Letters of NemotronHConfig's `hybrid_override_pattern`."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Layers by kind; `sliding` ones are among `attention`. Where mixers and MLPs share a layer, both are counted."""

    attention: int
    sliding: int
    linear: int
    mlp: int
    moe: int


def read_layers(fields: Fields, family: Family) -> Layers:
    """Count the layers of a config; a kind that its family does not have is a problem."""
    if family.linear == "mamba2":
        key, kinds = _blocks(fields)
    else:
        key, kinds = _mixers(fields, family)
    count = Counter(kinds)
    attention = count["full_attention"] + count["sliding_attention"]
    if not attention and not fields.findings.problems and not fields.findings.missing:
        fields.wrong(key, "no layer has attention; expected at least one, for what keeps no KV cache is not sized")
    if family.linear == "mamba2":
        mlp, moe = count["mlp"], count["moe"]
    else:
        moe = _sparse_layers(fields, family, len(kinds)) if family.experts else 0
        mlp = len(kinds) - moe
    return Layers(attention=attention, sliding=count["sliding_attention"], linear=count["linear_attention"], mlp=mlp, moe=moe)


def _blocks(fields: Fields) -> tuple[str, tuple[str, ...]]:
    """Blocks of a Nemotron-H, each of which is one mixer or one MLP; the list makes the length, as in NemotronHConfig."""
    for key in ("layers_block_type", "layer_types"):
        if (listed := fields.words(key)) is not None:
            return key, _known(fields, key, listed, ("full_attention", "linear_attention", "mlp", "moe"))
    key = "hybrid_override_pattern"
    pattern = fields.word(key)
    if not pattern:
        if not fields.has(key):
            fields.count(key)
        else:
            fields.wrong(key, "no layer is named; expected letters M, *, - and E")
        return key, ()
    for place, letter in enumerate(pattern):
        if letter not in _PATTERN:
            fields.wrong(key, f"letter {quote(letter)} of layer {place} is not known; expected M, *, - or E")
            return key, ()
    return key, tuple(_PATTERN[letter] for letter in pattern)


def _mixers(fields: Fields, family: Family) -> tuple[str, tuple[str, ...]]:
    count = fields.count("num_hidden_layers")
    if count > _MOST_LAYERS:
        fields.wrong("num_hidden_layers", f"expected at most {_MOST_LAYERS}, found {count}")
        return "num_hidden_layers", ()
    interval = fields.count("full_attention_interval", default=4)
    listed = fields.words("layer_types")
    if listed is not None:
        if len(listed) != count and not fields.findings.missing:
            fields.wrong("layer_types", f"expected {count} entries, as num_hidden_layers has it, found {len(listed)}")
        return "layer_types", _known(fields, "layer_types", listed, (*_ATTENTION, "linear_attention") if family.linear else _ATTENTION)
    if family.linear:
        return "num_hidden_layers", tuple("linear_attention" if (i + 1) % interval else "full_attention" for i in range(count))
    if family.alternating:
        return "num_hidden_layers", tuple("full_attention" if i % 2 else "sliding_attention" for i in range(count))
    sliding = fields.has("sliding_window") and fields.flag("use_sliding_window", default=True)
    return "num_hidden_layers", ("sliding_attention" if sliding else "full_attention",) * count


_MOST_LAYERS = 10_000


def _known(fields: Fields, key: str, listed: Sequence[str], kinds: Sequence[str]) -> tuple[str, ...]:
    named = tuple(_NAMES.get(kind, kind) for kind in listed)
    for place, kind in enumerate(named):
        if kind not in kinds:
            hint = near_match(kind[:100], kinds)
            fields.wrong(key, f"layer {place} is of kind {quote(kind)}, which is not sized; expected {', '.join(kinds)}", hint)
            return ()
    return named


def _sparse_layers(fields: Fields, family: Family, layers: int) -> int:
    """Mixture-of-experts layers: all, all after the first dense ones, or every so-and-so-many-th."""
    if family.sparse == "after":
        first = fields.count("first_k_dense_replace", default=0, least=0)
        step = fields.count("moe_layer_freq", default=1)
        return sum(i >= first and i % step == 0 for i in range(layers))
    if family.sparse == "step":
        step = fields.count("decoder_sparse_step", default=1)
        dense = set(fields.numbers("mlp_only_layers") or ())
        return sum(i not in dense and (i + 1) % step == 0 for i in range(layers))
    return layers
