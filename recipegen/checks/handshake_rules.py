"""Rules over flags that prefill and decode must hold in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from recipegen.checks import connector_rules, speculation_rules, transfer_env_rules, transfer_rules
from recipegen.checks.agreement import carrier, hashed, linear_of, place, shown
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.role_flags import json_keys, switch, word

_DTYPES = {"half": "float16", "float": "float32"}
_COMMON = "set it under common"


@rule("pd-dtype", Severity.ERROR)
def dtype(point: PointView) -> Iterator[Fault]:
    """The model runs in different dtypes on the two sides.

    The dtype is part of NIXL's compatibility hash, and states that follow it have different sizes. It shows as a failed handshake
    for each request, after both sides have reported that they are healthy.

    Mend: the same `dtype` on both sides, or on neither.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    yield from _compared(point, "dtype", _dtype)


@rule("pd-kv-dtype", Severity.ERROR)
def kv_dtype(point: PointView) -> Iterator[Fault]:
    """`kv-cache-dtype` differs between the two sides.

    NIXL's hash holds the flag as it is written: `fp8` and `fp8_e4m3` mean the same to the kernels and still do not match. It shows
    as a failed handshake for each request. Types that differ in size fail there even where the hash is not compared.

    Mend: the same word on both sides; under `common` it cannot differ.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    found = carrier(point)
    if point.pair and found.nixl and not found.compares and len({_is_half(view) for view in point.pair}) > 1:
        yield from _unequal(point, "kv-cache-dtype", _cache_word, "their blocks differ in size, and NIXL refuses the handshake")
    else:
        yield from _compared(point, "kv-cache-dtype", _cache_word)


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
            yield Fault(place(point, flag), message, _COMMON)


@rule("pd-attention-backend", Severity.ERROR)
def attention_backend(point: PointView) -> Iterator[Fault]:
    """The attention backend differs between the two sides.

    Its name is part of NIXL's hash, and with it comes the kernel's block size and the layout of a block. One side that is set and
    one that is left to choose may agree today and not in the next build.

    Mend: the same backend on both sides, or on neither.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/metadata.py`.
    """
    yield from _compared(point, "attention-backend", _backend, "attention-config")


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

    yield from _compared(point, "disable-hybrid-kv-cache-manager", state, "no-disable-hybrid-kv-cache-manager")


@rule("pd-model-flags", Severity.WARNING)
def model_flags(point: PointView) -> Iterator[Fault]:
    """The two sides load the model differently.

    Another quantization, other overrides of the configuration, another load format: the two sides may compute different models,
    and decode continues states that it would not have made. Nothing fails; the accuracy may.

    Mend: the same on both sides.
    Source: vLLM 0.26 to 0.29, `config/model.py`, `config/load.py`.
    """
    yield from _unequal(point, "trust-remote-code", _trusts, "the two sides may load different code")
    for flag in ("quantization", "hf-overrides", "load-format"):
        yield from _unequal(point, flag, partial(_own, flag=flag), "the two sides may run different models")


def _compared(point: PointView, flag: str, read: Callable[[RoleView], str], *spellings: str) -> Iterator[Fault]:
    """A fault where the two sides read differently in what NIXL's hash holds."""
    if difference := _difference(point, flag, read):
        yield hashed(point, place(point, flag, *spellings), difference, _COMMON)


def _unequal(point: PointView, flag: str, read: Callable[[RoleView], str], because: str) -> Iterator[Fault]:
    """A fault where the two sides read differently, whoever moves the blocks."""
    if difference := _difference(point, flag, read):
        yield Fault(place(point, flag), f"{difference}; {because}", _COMMON)


def _difference(point: PointView, flag: str, read: Callable[[RoleView], str]) -> str:
    if not point.pair:
        return ""
    prefill, decode = (read(view) for view in point.pair)
    return f"{flag} is {prefill} for prefill and {decode} for decode" if prefill != decode else ""


def _cache_word(view: RoleView) -> str:
    return word(view.role, "kv-cache-dtype") or "auto"


def _is_half(view: RoleView) -> bool:
    """Whether an element of the cache has two bytes; `auto` is the model's own dtype."""
    chosen = _cache_word(view)
    return (_dtype(view) if chosen == "auto" else chosen) in {"auto", "bfloat16", "float16"}


def _dtype(view: RoleView) -> str:
    chosen = word(view.role, "dtype")
    architecture = view.recipe.model.architecture
    if architecture and chosen in {"", "auto"}:
        return architecture.dtype
    return _DTYPES.get(chosen, chosen) or "auto"


def _backend(view: RoleView) -> str:
    chosen = word(view.role, "attention-backend") or str(json_keys(view.role, "attention-config").get("backend") or "")
    return chosen.upper() or "not set"


def _trusts(view: RoleView) -> str:
    return "on" if switch(view.role, "trust-remote-code") else "off"


def _own(view: RoleView, flag: str) -> str:
    return shown(view.role.flag(flag))


ROLE_RULES: tuple[Rule[RoleView], ...] = speculation_rules.ROLE_RULES
POINT_RULES: tuple[Rule[PointView], ...] = (
    *connector_rules.POINT_RULES,
    dtype,
    kv_dtype,
    state_dtype,
    attention_backend,
    hybrid_cache,
    *speculation_rules.POINT_RULES,
    model_flags,
    *transfer_rules.POINT_RULES,
    *transfer_env_rules.POINT_RULES,
)
