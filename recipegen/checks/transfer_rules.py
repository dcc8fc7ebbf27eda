"""Rules over what a transfer from prefill to decode needs: block sizes, TP, caching, layout of states."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.builds import build_of
from recipegen.checks.agreement import Found, by_place, carrier, linear_of, place, prefix_caching
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.kv_transfer import kv_transfer, uses_nixl
from recipegen.sizing.role_sizes import block_size, shared_block_size, unknown_dtype
from recipegen.sizing.sizes import BlockSizes

_LAYOUT = "VLLM_SSM_CONV_STATE_LAYOUT"
_CACHE_LAYOUT = "VLLM_KV_CACHE_LAYOUT"
_CACHING = ("enable-prefix-caching", "no-enable-prefix-caching")
_UNEQUAL_HYBRID_BLOCKS = (0, 27)
"""vLLM from which a hybrid model's kernel blocks may differ, one way round."""


@rule("pd-block-size", Severity.ERROR, covers=(20,))
def blocks(point: PointView) -> Iterator[Fault]:
    """The KV blocks of the two sides do not go into one another.

    NIXL compares the attention kernel's blocks, the largest kernel size that divides the logical block. Decode's must be a multiple
    of prefill's ("Local block size 64 is not divisible by remote block size 128"); vLLM 0.26 wants them equal for a hybrid model,
    and so does every version when prefill's TP is the larger. Engines register as healthy, and each request fails.

    The logical block of a hybrid model follows from TP and speculation, so sides of different TP often differ when nothing is set.
    Where a kernel's block is not known, unequal blocks are a warning.

    Mend: the same `block-size` on both sides: the larger of the two natural ones. The tool sets it when neither side does.
    Source: vLLM 0.26 to 0.29, `v1/worker/utils.py` `select_common_block_size`, `kv_connector/v1/nixl/base_worker.py`.
    """
    if not point.pair or not all(uses_nixl(view.role) for view in point.pair):
        return
    prefill, decode = (_blocks(view) for view in point.pair)
    known = bool(point.recipe.model.architecture) or all(view.role.flag("block-size") is not None for view in point.pair)
    if not known or prefill.chosen == decode.chosen:
        return
    told, mend = f"{_told('prefill', prefill)}, {_told('decode', decode)}", f"set block-size {_common_block(point)} on both sides"
    if not (prefill.kernel and decode.kernel):
        message = f"{told}, and what the kernels make of them is not known: the handshake may fail for every request"
        yield Fault(place(point, "block-size"), message, mend, Severity.WARNING)
    elif why := _refused(point, prefill.kernel, decode.kernel):
        yield Fault(place(point, "block-size"), f"{told}: {why}; the handshake fails for every request, with healthy engines", mend)


@rule("pd-tp-ratio", Severity.ERROR)
def tp_ratio(point: PointView) -> Iterator[Fault]:
    """The TP of neither side divides that of the other.

    A decode GPU reads its heads from whole prefill GPUs, or shares one with its neighbours. vLLM asserts the ratio at the handshake:
    "Local tensor parallel size 4 is not divisible by remote tensor parallel size 6". A plain model has one more limit: where
    prefill's TP exceeds decode's, prefill must not replicate KV heads.

    Mend: sizes of which one divides the other; for a plain model, a prefill TP no larger than decode's or than the KV heads.
    Source: vLLM 0.26 to 0.29, `kv_connector/utils.py` `TransferTopology.tp_ratio`, `kv_connector/v1/nixl/base_worker.py`.
    """
    if not point.pair:
        return
    prefill, decode = (view.role.topology.tp for view in point.pair)
    found = carrier(point)
    if prefill % decode and decode % prefill:
        shows = "and the handshake fails for every request" if found.nixl else f"which {found.name} may not take"
        message = f"point {point.recipe.point}: prefill has TP{prefill}, decode TP{decode}: neither divides the other, {shows}"
        mend = "choose sizes of which one divides the other"
        yield Fault(point.recipe.source, message, mend, None if found.nixl else Severity.WARNING)
    elif found.nixl and prefill > decode and (heads := _replicated_heads(point, prefill)):
        message = f"point {point.recipe.point}: prefill's TP{prefill} replicates {heads} KV heads and is larger than decode's TP{decode}"
        yield Fault(point.recipe.source, f"{message}: NIXL refuses the handshake of a plain model", f"take a prefill TP of {heads} at most")


@rule("pd-conv-layout", Severity.ERROR)
def conv_layout(point: PointView) -> Iterator[Fault]:
    """A NIXL worker of a hybrid model does not keep its convolution state in the layout DS.

    NIXL moves the convolution state in three reads, which exist for this layout only; vLLM asserts it at start on every worker,
    "3-read Mamba conv transfer requires DS conv state layout", also when both sides have the same TP.

    Mend: `VLLM_SSM_CONV_STATE_LAYOUT: DS` under `common: env:`.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl`.
    """
    if not linear_of(point.recipe.model.architecture):
        return
    mend = f"set {_LAYOUT}: DS in the environment of both roles"
    for source, text, roles in by_place(_wrong_layout(point)):
        message = f"{roles}: {_LAYOUT} {text}, and NIXL moves the convolution state in the layout DS only; vLLM's assertion fails at start"
        yield Fault(source, message, mend)


@rule("pd-prefix-caching", Severity.ERROR)
def caching(point: PointView) -> Iterator[Fault]:
    """Prefix caching does not go with this pair of a hybrid model.

    With it the linear-attention states are kept at block boundaries, without it once per request: the two sides must hold them
    alike. Where the sides have different numbers of kernel blocks in a logical block, it must be off; NIXL raises "Prefix caching
    with heterogeneous physical_blocks_per_logical is not supported" at the handshake. It is on unless it is switched off. A side that
    has both forms of the flag is left to the rules over flags.

    Mend: `no-enable-prefix-caching: true` under `common`.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/base_worker.py`, `config/model.py` `is_prefix_caching_supported`.
    """
    if not point.pair or not linear_of(point.recipe.model.architecture) or any(_both_forms(view) for view in point.pair):
        return
    prefill, decode = (prefix_caching(view) for view in point.pair)
    ratios = [blocks.chosen // blocks.kernel for blocks in map(_blocks, point.pair) if blocks.kernel]
    found, mend = carrier(point), "set no-enable-prefix-caching: true under common"
    if prefill != decode:
        states = " and ".join(f"{'on' if on else 'off'} for {role}" for role, on in (("prefill", prefill), ("decode", decode)))
        shows = "transfers fail at the first request" if found.nixl else f"{found.name} may not compare it"
        message = f"prefix caching is {states}: the states of a hybrid model are kept differently, and {shows}"
        yield Fault(place(point, *_CACHING), message, mend, None if found.nixl else Severity.WARNING)
    elif found.nixl and decode and len(set(ratios)) > 1:
        message = f"prefix caching is on, and a block holds {ratios[0]} kernel blocks for prefill, {ratios[1]} for decode"
        yield Fault(place(point, *_CACHING), f"{message}; NIXL refuses that at the handshake", mend)


@rule("pd-cache-layout", Severity.ERROR)
def cache_layout(point: PointView) -> Iterator[Fault]:
    """`VLLM_KV_CACHE_LAYOUT` makes the KV cache of one side another than that of the other.

    NIXL and Mooncake ask for HND, which the variable overrides. NIXL refuses a side of another layout at the handshake, "Heterogeneous
    TP expects same kv_cache_layout", and each request fails; only a decode in NHD may read a prefill in HND, with
    `enable_permute_local_kv` of its `kv-transfer-config`. Latent attention has one layout. Other connectors may not compare it.

    Mend: leave the variable out.
    Source: vLLM 0.26 to 0.29, `v1/attention/backends/utils.py` `get_kv_cache_layout`, `kv_connector/v1/nixl/base_worker.py`.
    """
    architecture = point.recipe.model.architecture
    if not point.pair or (architecture and architecture.attention.mla):
        return
    found, moves = carrier(point), kv_transfer(point.pair[1].role)
    default = "HND" if found.nixl or "Mooncake" in found.name else "not set"
    prefill, decode = ((view.env(_CACHE_LAYOUT) or default).upper() for view in point.pair)
    if prefill == decode or (found.nixl and moves and moves.permutes and (prefill, decode) == ("HND", "NHD")):
        return
    source = max(view.at_env(_CACHE_LAYOUT) for view in point.pair if view.env(_CACHE_LAYOUT))
    message = f"{_CACHE_LAYOUT}: the KV cache is {prefill.lower() if prefill == 'NOT SET' else prefill} for prefill"
    shows = "NIXL refuses the handshake, and every request fails" if found.nixl else f"{found.name} may not compare it"
    sure = found.nixl and architecture
    message = f"{message} and {decode.lower() if decode == 'NOT SET' else decode} for decode; {shows}"
    yield Fault(source, message, "leave the variable out", None if sure else Severity.WARNING)


def _wrong_layout(point: PointView) -> Iterator[Found]:
    for view in point.roles:
        value = view.env(_LAYOUT)
        if uses_nixl(view.role) and value != "DS":
            yield (None, "is not set", view) if value is None else (view.at_env(_LAYOUT), f"is '{value}'", view)


def _both_forms(view: RoleView) -> bool:
    return all(view.role.flag(flag) is not None for flag in _CACHING)


def _blocks(view: RoleView) -> BlockSizes:
    """The role's blocks; where they are not known, those that are asked for, or vLLM's own size."""
    if view.sizes and view.sizes.blocks.chosen:
        return view.sizes.blocks
    chosen = block_size(view.recipe, view.role)
    return BlockSizes(natural=chosen, chosen=chosen, kernel=0)


def _common_block(point: PointView) -> int:
    """A block that both sides settle on when it is asked of both: of a hybrid model the smallest, as its own size says; else the larger asked."""
    architecture, roles = point.recipe.model.architecture, [view.role for view in point.roles]
    if architecture and architecture.linear and not any(unknown_dtype(role) for role in roles):
        return shared_block_size(architecture, roles, mtp=point.recipe.mtp)
    return max(_blocks(view).chosen for view in point.roles)


def _refused(point: PointView, prefill: int, decode: int) -> str:
    """Why the handshake fails, or an empty string."""
    hybrid = bool(linear_of(point.recipe.model.architecture))
    build = point.recipe.runtime.vllm
    if prefill == decode:
        return ""
    if hybrid and build_of(build).version < _UNEQUAL_HYBRID_BLOCKS:
        return f"vLLM {build} wants equal kernel blocks for a hybrid model"
    if decode % prefill:
        return f"decode's {decode} is no multiple of prefill's {prefill}"
    if point.pair and point.pair[0].role.topology.tp > point.pair[1].role.topology.tp:
        return "kernel blocks must be equal where prefill's TP is the larger"
    return ""


def _told(role: str, found: BlockSizes) -> str:
    return f"{role} has blocks of {found.chosen} tokens" + (f" (kernel {found.kernel})" if found.kernel else "")


def _replicated_heads(point: PointView, tp: int) -> int:
    """KV heads of a plain model that a TP replicates under NIXL; 0 for any other case."""
    architecture = point.recipe.model.architecture
    if not architecture or architecture.linear or architecture.attention.mla:
        return 0
    return architecture.attention.kv_heads if tp > architecture.attention.kv_heads else 0


POINT_RULES: tuple[Rule[PointView], ...] = (blocks, tp_ratio, conv_layout, caching, cache_layout)
