"""Rules over flags that prefill and decode must hold in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from recipegen.checks import transfer_env_rules, transfer_rules
from recipegen.checks.agreement import TRANSFER, linear_of, names, place, shown, transfer_config
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.role_flags import draft_tokens, json_keys, switch, whole_number, word

_HASH = "NIXL compares it at the handshake: the engines start and register, and then every request fails"
_PRODUCERS = {"kv_producer", "kv_both"}
_CONSUMERS = {"kv_consumer", "kv_both"}
_DTYPES = {"half": "float16", "float": "float32"}


@rule("pd-connector", Severity.ERROR)
def connector(point: PointView) -> Iterator[Fault]:
    """Prefill and decode have no KV connector in common.

    Without `kv-transfer-config` nothing moves the blocks: Dynamo's prefill worker raises a ValueError at start, and a decode
    worker computes every prompt again. Two different connectors do not speak to each other, and a side that only produces cannot
    receive. vLLM refuses a connector without a role.

    Mend: one `kv-transfer-config` under `common`, with `kv_both`, or `kv_producer` for prefill and `kv_consumer` for decode.
    Source: vLLM 0.26 to 0.29, `config/kv_transfer.py`; Dynamo's vLLM worker.
    """
    if not point.pair:
        return
    configs = [(view, transfer_config(view.role)) for view in point.pair]
    if without := [view for view, config in configs if config is None]:
        message = f"{names(without)}: no {TRANSFER}, so that no KV blocks move from prefill to decode; Dynamo's prefill worker refuses to start"
        yield Fault(place(point, TRANSFER), message, f"set {TRANSFER} under common")
        return
    read = [(view, config) for view, config in configs if config]
    yield from _connector_roles(read)
    kinds = [str(config.get("kv_connector")) for _, config in read]
    if len(set(kinds)) > 1:
        message = f"prefill moves KV blocks by {kinds[0]}, decode by {kinds[1]}: every transfer fails at the first request"
        yield Fault(place(point, TRANSFER), message, "use one connector on both sides")


def _connector_roles(configs: list[tuple[RoleView, Mapping[str, Any]]]) -> Iterator[Fault]:
    for view, config in configs:
        role = view.role.role.value
        fitting = _PRODUCERS if role == "prefill" else _CONSUMERS
        if "kv_connector" not in config:
            yield Fault(view.at(TRANSFER), f"{role}: {TRANSFER} names no kv_connector, so that no KV blocks move", "name one")
        elif config.get("kv_role") not in fitting:
            given = f"kv_role '{config['kv_role']}' does not fit the role" if "kv_role" in config else "no kv_role is set; vLLM refuses to start"
            yield Fault(view.at(TRANSFER), f"{role}: {given}", f"set kv_role to {' or '.join(sorted(fitting))}")


@rule("pd-dtype", Severity.ERROR)
def dtype(point: PointView) -> Iterator[Fault]:
    """The model runs in different dtypes on the two sides.

    The dtype is part of NIXL's compatibility hash, and states that follow it have different sizes. It shows as a failed handshake
    for each request, after both sides have reported that they are healthy.

    Mend: the same `dtype` on both sides, or on neither.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    yield from _unequal(point, "dtype", _dtype)


@rule("pd-kv-dtype", Severity.ERROR)
def kv_dtype(point: PointView) -> Iterator[Fault]:
    """`kv-cache-dtype` differs between the two sides.

    NIXL's hash holds the flag as it is written: `fp8` and `fp8_e4m3` mean the same to the kernels and still do not match. It shows
    as a failed handshake for each request.

    Mend: the same word on both sides; under `common` it cannot differ.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    yield from _unequal(point, "kv-cache-dtype", lambda view: word(view.role, "kv-cache-dtype") or "auto")


@rule("pd-state-dtype", Severity.ERROR)
def state_dtype(point: PointView) -> Iterator[Fault]:
    """The states of the linear-attention layers have different dtypes on the two sides.

    Decode reads the state as raw bytes into pages of its own size. The hash does not cover these flags: block sizes differ, or the
    state is garbage and the answers with it.

    Mend: the same `mamba-cache-dtype` and `mamba-ssm-cache-dtype` on both sides.
    Source: vLLM 0.26 to 0.29, `model_executor/layers/mamba/mamba_utils.py`, `kv_connector/v1/nixl/metadata.py`.
    """
    if not point.pair:
        return
    architecture = point.recipe.model.architecture
    linear = linear_of(architecture)
    if architecture and not linear:
        return
    own = {"mamba-cache-dtype": architecture.dtype if architecture else "auto", "mamba-ssm-cache-dtype": linear.ssm_dtype if linear else "auto"}
    for flag, default in own.items():
        prefill, decode = (chosen if (chosen := word(view.role, flag)) not in {"", "auto"} else default for view in point.pair)
        if prefill != decode:
            message = (
                f"{flag} is {prefill} for prefill and {decode} for decode: the state moves as raw bytes, and would be garbage at the first request"
            )
            yield Fault(place(point, flag), message, "set it under common")


@rule("pd-attention-backend", Severity.ERROR)
def attention_backend(point: PointView) -> Iterator[Fault]:
    """The attention backend differs between the two sides.

    Its name is part of NIXL's hash, and with it comes the kernel's block size and the layout of a block. One side that is set and
    one that is left to choose may agree today and not in the next build.

    Mend: the same backend on both sides, or on neither.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    yield from _unequal(point, "attention-backend", _backend, "attention-config")


@rule("pd-hybrid-cache", Severity.ERROR)
def hybrid_cache(point: PointView) -> Iterator[Fault]:
    """The hybrid KV cache manager is off on one side only.

    Whether it is on is part of NIXL's hash; it decides how layers are grouped, and so what a block holds. It shows as a failed
    handshake for each request.

    Mend: the same on both sides; NIXL supports it, so it need not be set at all.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """

    def state(view: RoleView) -> str:
        return "on" if switch(view.role, "disable-hybrid-kv-cache-manager") else "off"

    yield from _unequal(point, "disable-hybrid-kv-cache-manager", state, "no-disable-hybrid-kv-cache-manager")


@rule("pd-speculation", Severity.ERROR)
def speculation(point: PointView) -> Iterator[Fault]:
    """The two sides speculate differently.

    The draft model's layers have a KV cache of their own, so a side without it has fewer regions to transfer; since 0.28 the method
    and the draft model are part of NIXL's hash. The number of tokens is not, but it sets the rows of the convolution state, and so
    the size of a page of a hybrid model. It shows at the first request.

    Mend: `mtp` of the point sets both sides alike; an own `speculative-config` belongs under `common`.
    Source: vLLM 0.28 `kv_connector/v1/nixl/metadata.py`; 0.26 to 0.29 `model_executor/layers/mamba/mamba_utils.py`.
    """
    if not point.pair:
        return
    prefill, decode = (_speculation(view) for view in point.pair)
    if prefill != decode:
        message = f"prefill {_speculates(*prefill)}, decode {_speculates(*decode)}: cache regions and states differ, and transfers fail"
        source = place(point, "speculative-config", "spec-method", "spec-tokens", "spec-model")
        yield Fault(source, f"{message} at the first request", "speculate alike on both sides")


@rule("pd-model-flags", Severity.WARNING)
def model_flags(point: PointView) -> Iterator[Fault]:
    """The two sides load the model differently.

    Another quantization, other overrides of the configuration, another load format: the two sides may compute different models,
    and decode continues states that it would not have made. Nothing fails; the accuracy may.

    Mend: the same on both sides.
    Source: vLLM 0.26 to 0.29, `config/model.py`, `config/load.py`.
    """
    yield from _unequal(point, "trust-remote-code", _trusts, because="the two sides may load different code")
    for flag in ("quantization", "hf-overrides", "load-format"):
        yield from _unequal(point, flag, partial(_own, flag=flag), because="the two sides may run different models")


def _unequal(point: PointView, flag: str, read: Callable[[RoleView], str], *spellings: str, because: str = _HASH) -> Iterator[Fault]:
    """A fault where the two sides read differently."""
    if not point.pair:
        return
    prefill, decode = (read(view) for view in point.pair)
    if prefill != decode:
        message = f"{flag} is {prefill} for prefill and {decode} for decode; {because}"
        yield Fault(place(point, flag, *spellings), message, "set it under common")


def _dtype(view: RoleView) -> str:
    chosen = word(view.role, "dtype")
    architecture = view.recipe.model.architecture
    if architecture and chosen in {"", "auto"}:
        return architecture.dtype
    return _DTYPES.get(chosen, chosen) or "auto"


def _backend(view: RoleView) -> str:
    chosen = word(view.role, "attention-backend") or str(json_keys(view.role, "attention-config").get("backend") or "")
    return chosen.upper() or "not set"


def _speculation(view: RoleView) -> tuple[str, str, int]:
    """Method, draft model, tokens; `qwen3_5_mtp` and its like are `mtp` (vLLM renames them)."""
    keys = json_keys(view.role, "speculative-config")
    method = str(keys.get("method") or word(view.role, "spec-method"))
    tokens = draft_tokens(view.recipe, view.role) or whole_number(view.role, "spec-tokens") or 0
    return "mtp" if method.endswith("_mtp") else method, str(keys.get("model") or word(view.role, "spec-model")), tokens


def _speculates(method: str, model: str, tokens: int) -> str:
    if not (method or model or tokens):
        return "does not speculate"
    return " ".join(filter(None, ("speculates by", method or "its draft model", f"with {model}" if model else "", f"({tokens} tokens)")))


def _trusts(view: RoleView) -> str:
    return "on" if switch(view.role, "trust-remote-code") else "off"


def _own(view: RoleView, flag: str) -> str:
    return shown(view.role.flag(flag))


ROLE_RULES: tuple[Rule[RoleView], ...] = ()
POINT_RULES: tuple[Rule[PointView], ...] = (
    connector,
    dtype,
    kv_dtype,
    state_dtype,
    attention_backend,
    hybrid_cache,
    speculation,
    model_flags,
    *transfer_rules.POINT_RULES,
    *transfer_env_rules.POINT_RULES,
)
