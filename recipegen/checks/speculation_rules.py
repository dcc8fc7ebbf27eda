"""Rules over speculation: that the model has what drafts, and that prefill and decode draft alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recipegen.builds import build_of
from recipegen.checks.agreement import HASH, carrier, linear_of, place
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.role_flags import draft_method, draft_tokens, json_keys, word

_FLAGS = ("speculative-config", "spec-method", "spec-tokens", "spec-model")
_UNCACHED = frozenset({"medusa", "mlp_speculator", "ngram", "ngram_gpu", "suffix"})
"""Methods without attention layers of their own: vLLM 0.28 `config/speculative.py`."""

_UNHASHED = _UNCACHED | {"", "custom_class", "draft_model", "extract_hidden_states"}
"""Methods that NIXL's hash leaves out: it holds those for which `use_eagle()` is true (vLLM 0.28 `kv_connector/v1/nixl/metadata.py`)."""

_HASHED_SINCE = (0, 28)


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """How a side drafts. `zero` tells that no tokens at all are asked for.

    `rest` is what else NIXL's hash holds of it: revisions, parallel drafting, the draft's cache type.
    """

    method: str
    model: str
    tokens: int
    zero: bool
    rest: tuple[str, ...]

    @property
    def cached(self) -> bool:
        """Whether the draft's layers have a KV cache."""
        return bool(self.method or self.model) and self.method not in _UNCACHED

    @property
    def hashed(self) -> tuple[str, ...]:
        return () if self.method in _UNHASHED else (self.method, self.model, *self.rest)

    def __str__(self) -> str:
        if not (self.method or self.model or self.tokens):
            return "does not speculate"
        tokens = f"({self.tokens} tokens)" if self.tokens else ""
        named = f"with {self.model}" if self.model else ""
        rest = " ".join(filter(None, self.rest))
        return " ".join(filter(None, ("speculates by", self.method or "its draft model", named, tokens, rest)))


@rule("pd-speculation", Severity.ERROR)
def speculation(point: PointView) -> Iterator[Fault]:
    """The two sides speculate differently.

    The layers of a draft model, and those of MTP, have a KV cache of their own, so a side without them has fewer regions to transfer.
    The number of tokens sets the rows of the convolution state, and so the size of a hybrid model's page; a plain model's blocks stay
    the same. Since 0.28 NIXL's hash holds the method of MTP and EAGLE and its draft model, revision, parallel drafting and cache type,
    and not the number of tokens. Before, and for any other connector, nothing compares them. It shows at the first request.

    Mend: `mtp` of the point sets both sides alike; an own `speculative-config` belongs under `common`.
    Source: vLLM 0.28 `kv_connector/v1/nixl/metadata.py`; 0.26 to 0.29 `model_executor/layers/mamba/mamba_utils.py`.
    """
    if not point.pair:
        return
    prefill, decode = (_draft(view) for view in point.pair)
    if prefill == decode or prefill.zero or decode.zero:  # zero tokens are no speculation, and the rules over flags refuse them
        return
    if verdict := _verdict(point, prefill, decode):
        why, severity = verdict
        yield Fault(place(point, *_FLAGS), f"prefill {prefill}, decode {decode}: {why}", "speculate alike on both sides", severity)


@rule("speculation-layers", Severity.ERROR)
def layers(view: RoleView) -> Iterator[Fault]:
    """MTP is asked of a model that has no MTP layer.

    The method `mtp` drafts with layers that come with the model's own checkpoint. Where there are none, every worker fails while it
    loads the model, after the job waited for its nodes. A `model` in the speculative configuration brings its own.

    Mend: no `mtp`, or a method with a draft model.
    Source: the model's data (`mtp_layers`); vLLM 0.26 to 0.29, `config/speculative.py`.
    """
    architecture, draft = view.recipe.model.architecture, _draft(view)
    if architecture and not architecture.mtp_layers and draft.method == "mtp" and not draft.model:
        tokens = f" of {draft.tokens} tokens" if draft.tokens else ""
        message = f"speculation by MTP{tokens}, but {view.recipe.model.key} has no MTP layer to load (mtp_layers of its data is 0)"
        yield Fault(view.at(*_FLAGS), f"{message}; every worker fails while it loads the model", "leave mtp out, or name a draft model")


def _verdict(point: PointView, prefill: _Draft, decode: _Draft) -> tuple[str, Severity | None] | None:
    """What comes of a difference, and its severity where it is not the rule's own; None where nothing does."""
    found, architecture = carrier(point), point.recipe.model.architecture
    if not prefill.cached and not decode.cached and architecture and not architecture.linear:
        return None
    if not found.nixl:
        return f"{found.name} may not compare it, and cache regions or states may not fit", Severity.WARNING
    if why := _refused(point, prefill, decode):
        return why, None
    if prefill.hashed == decode.hashed and architecture and not architecture.linear:
        return "the blocks of a plain model fit all the same, but what was drafted on one side is lost", Severity.WARNING
    return "nothing compares it, and decode may read what another draft, or another number of tokens, left", Severity.WARNING


def _refused(point: PointView, prefill: _Draft, decode: _Draft) -> str:
    """Why a transfer by NIXL fails, or an empty string."""
    if prefill.cached != decode.cached:
        return "only one side caches layers of a draft: cache regions differ, and transfers fail at the first request"
    if linear_of(point.recipe.model.architecture) and prefill.tokens != decode.tokens:
        return "the states of a hybrid model differ in size, and transfers fail at the first request"
    compared = carrier(point).compares and build_of(point.recipe.runtime.vllm).version >= _HASHED_SINCE
    return HASH if compared and prefill.hashed != decode.hashed else ""


def _draft(view: RoleView) -> _Draft:
    """Read a side; `qwen3_5_mtp` and its like are `mtp` (vLLM renames them). An unset cache type of the draft is that of the model."""
    keys = json_keys(view.role, "speculative-config")
    method = draft_method(view.role)
    kinds = (("revision", "revision"), ("code_revision", "code revision"), ("kv_cache_dtype", "cache type"))
    own = word(view.role, "kv-cache-dtype") or "auto"
    rest = [f"{name} {value}" if (value := keys.get(key)) and value != own else "" for key, name in kinds]
    parallel = str(keys.get("parallel_drafting")).lower() == "true"
    return _Draft(
        method="mtp" if method.endswith("_mtp") else method,
        model=str(keys.get("model") or word(view.role, "spec-model")),
        tokens=draft_tokens(view.recipe, view.role),
        zero=keys.get("num_speculative_tokens") == 0,
        rest=(*rest, "in parallel" if parallel else ""),
    )


ROLE_RULES: tuple[Rule[RoleView], ...] = (layers,)
POINT_RULES: tuple[Rule[PointView], ...] = (speculation,)
