"""Rules over states of hybrid models and over speculation: what an omission costs, what an engine refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from recipegen.architecture import Architecture
from recipegen.builds import build_of
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import RoleView
from recipegen.errors import Source
from recipegen.role_flags import draft_method, draft_tokens, size, switch, word
from recipegen.sizing.block_size import natural_block_size
from recipegen.sizing.engine_settings import cache_dtypes, mamba_cache_mode
from recipegen.sizing.state import CacheDtypes, unknown_cache_dtype

_NOT_ASYNC = {"ngram", "suffix", "medusa", "mlp_speculator"}
"""Methods that propose on the host: vLLM refuses them together with asynchronous scheduling."""


@rule("capacity-state-dtype", Severity.WARNING)
def state_dtype(view: RoleView) -> Iterator[Fault]:
    """The state of the linear-attention layers is float32 by omission.

    Without `mamba-ssm-cache-dtype` vLLM takes what the model's configuration says, which is float32 for this family: the state of a
    request is twice as large, and with it the block of the whole cache. On GB300 at TP4 with MTP 3 that is a block of 4224 tokens
    instead of 2176, and room for 184 requests instead of 315. Nothing fails; the point holds fewer requests.

    Mend: `mamba-ssm-cache-dtype: bfloat16`, or float32 in so many words.
    Source: vLLM 0.26 to 0.29, `platforms/interface.py` `_align_hybrid_block_size`, `model_executor/layers/mamba/mamba_utils.py`.
    """
    architecture = view.recipe.model.architecture
    omitted = word(view.role, "mamba-ssm-cache-dtype") in {"", "auto"}
    if (
        not architecture
        or not architecture.linear
        or architecture.linear.ssm_dtype != "float32"
        or not omitted
        or unknown_cache_dtype(cache_dtypes(view.role), architecture)
    ):
        return
    dtypes = cache_dtypes(view.role)
    now, then = (_natural(view, architecture, d) for d in (dtypes, replace(dtypes, ssm="bfloat16")))
    message = (
        f"{_who(view)}: mamba-ssm-cache-dtype is not set, and the model's own is float32: a state twice as large, and at TP{view.role.topology.tp}"
    )
    mend = "set mamba-ssm-cache-dtype: bfloat16, or float32 if that is meant"
    yield Fault(_beside(view, "mamba-ssm-cache-dtype"), f"{message} blocks of {now} tokens instead of {then}; fewer requests fit", mend)


def _natural(view: RoleView, architecture: Architecture, dtypes: CacheDtypes) -> int:
    return natural_block_size(architecture, tp=view.role.topology.tp, mtp=draft_tokens(view.recipe, view.role), dtypes=dtypes)


@rule("capacity-prefix-caching", Severity.WARNING)
def prefix_caching(view: RoleView) -> Iterator[Fault]:
    """Prefix caching is left on for a hybrid model.

    vLLM 0.26 to 0.28 switches it on by default. It keeps the state of each group of linear-attention layers at one more block a request: at TP4
    with MTP 3 room for 268 requests instead of 315 on GB300. It pays where prompts share a beginning, and a benchmark of random
    prompts has none. Not said where the recipe switches it on itself.

    Mend: `no-enable-prefix-caching: true`, or `enable-prefix-caching: true` if it is meant.
    Source: vLLM 0.26 to 0.28, `config/model.py` `is_prefix_caching_supported`, `models/config.py`, `MambaManager`.
    """
    architecture = view.recipe.model.architecture
    default_on = build_of(view.recipe.runtime.vllm).has("hybrid-prefix-caching")
    if not architecture or not architecture.linear or not default_on or switch(view.role, "enable-prefix-caching") is not None:
        return
    cost = "a block more in each group of linear-attention layers"
    if view.sizes and (cache := view.sizes.cache) and mamba_cache_mode(view.role, architecture) == "align":
        lean = cache.blocks_per_request - cache.linear_groups
        mib = cache.linear_groups * cache.block_bytes / 2**20
        cost = f"{cache.blocks_per_request} instead of {lean} blocks, {mib:.1f} MiB of each GPU,"
    message = f"{_who(view)}: prefix caching is left on, vLLM's default; it costs a request of this hybrid model {cost} and fewer fit"
    yield Fault(_beside(view, "enable-prefix-caching"), message, "set no-enable-prefix-caching: true, or enable-prefix-caching: true if it is meant")


@rule("capacity-speculation", Severity.ERROR)
def speculation(view: RoleView) -> Iterator[Fault]:
    """The engine refuses this kind or depth of speculation.

    A model with several MTP layers drafts that many tokens a pass: a larger number must be a multiple of it. Asynchronous scheduling
    needs a method that proposes on the GPU; asked for together with another one, vLLM refuses. Both show at start.

    Mend: a multiple of the model's MTP layers; `no-async-scheduling`, or leave it to vLLM.
    Source: vLLM 0.26 to 0.29, `config/speculative.py`, `config/vllm.py`.
    """
    method = draft_method(view.role)
    tokens, architecture = draft_tokens(view.recipe, view.role), view.recipe.model.architecture
    mtp_layers = architecture.mtp_layers if architecture else 0
    source = view.at("speculative-config", "spec-method")
    if method.endswith("mtp") and 0 < mtp_layers < tokens and tokens % mtp_layers:
        message = f"{_who(view)}: {tokens} speculative tokens are no multiple of the model's {mtp_layers} MTP layers; vLLM refuses to start"
        yield Fault(source, message, f"take {tokens - tokens % mtp_layers} or {tokens + -tokens % mtp_layers}")
    if method in _NOT_ASYNC and switch(view.role, "async-scheduling"):
        message = f"{_who(view)}: async-scheduling does not go with speculation by {method}, which proposes on the host; vLLM refuses to start"
        yield Fault(view.at("async-scheduling"), message, "leave async-scheduling out")


@rule("capacity-block-size", Severity.ERROR)
def block_size(view: RoleView) -> Iterator[Fault]:
    """No attention kernel can use the block.

    A block is cut into kernel blocks of a size that the attention backend offers: multiples of 16, or a list. A `block-size` that
    none of them divides, or that makes such a block of a hybrid model, is refused after the load: "No common block size".

    Mend: a multiple of 64, or leave `block-size` to vLLM.
    Source: vLLM 0.26 to 0.29, `v1/worker/utils.py` `select_common_block_size`.
    """
    written, legal = view.role.flag("block-size"), size(view.role, "block-size")
    if view.sizes and (blocks := view.sizes.blocks).misfit and (legal or written is None):
        asked = "block-size, which is not set," if legal is None else f"block-size {written}"
        made = "" if blocks.chosen == legal else f" makes blocks of {blocks.chosen} tokens"
        message = f"{_who(view)}: {asked}{made}: {blocks.misfit}; vLLM refuses after the load"
        yield Fault(view.at("block-size"), message, "set a multiple of 64, or leave block-size out")


def _who(view: RoleView) -> str:
    return view.role.role.value


def _beside(view: RoleView, flag: str) -> Source:
    """Where a flag that is missing would stand: beside the other settings of the cache, which are the same for all points."""
    return view.at(flag, "kv-cache-dtype", "kv-transfer-config")


ROLE_RULES: tuple[Rule[RoleView], ...] = (state_dtype, prefix_caching, block_size, speculation)
