"""Rules over what a transfer from prefill to decode needs: block sizes, TP, caching, layout of states."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.agreement import TRANSFER, by_place, linear_of, place, prefix_caching, uses_nixl
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.errors import Source
from recipegen.sizing.engine_build import engine_build
from recipegen.sizing.role_sizes import block_size
from recipegen.sizing.sizes import BlockSizes

_LAYOUT = "VLLM_SSM_CONV_STATE_LAYOUT"
_UNEQUAL_HYBRID_BLOCKS = (0, 27)
"""vLLM from which a hybrid model's kernel blocks may differ, one way round."""


@rule("pd-block-size", Severity.ERROR, covers=(20,))
def blocks(point: PointView) -> Iterator[Fault]:
    """The KV blocks of the two sides do not go into one another.

    NIXL compares the attention kernel's blocks, the largest kernel size that divides the logical block. Decode's must be a multiple
    of prefill's ("Local block size 64 is not divisible by remote block size 128"); vLLM 0.26 wants them equal for a hybrid model,
    and so does every version when prefill's TP is the larger. Engines register as healthy, and each request fails.

    The logical block of a hybrid model follows from TP and speculation, so sides of different TP often differ when nothing is set.

    Mend: the same `block-size` on both sides: the larger of the two natural ones. The tool sets it when neither side does.
    Source: vLLM 0.26 to 0.29, `v1/worker/utils.py` `select_common_block_size`, `kv_connector/v1/nixl/base_worker.py`.
    """
    if not point.pair or not all(uses_nixl(view.role) for view in point.pair):
        return
    prefill, decode = (_blocks(view) for view in point.pair)
    known = bool(point.recipe.model.architecture) or all(view.role.flag("block-size") is not None for view in point.pair)
    if not known or prefill.chosen == decode.chosen:
        return
    if why := _refused(point, *_compared(prefill, decode)):
        message = f"{_told('prefill', prefill)}, {_told('decode', decode)}: {why}; the handshake fails for every request, with healthy engines"
        mend = f"set block-size {max(prefill.chosen, decode.chosen)} on both sides"
        yield Fault(place(point, "block-size"), message, mend)


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
    if prefill % decode and decode % prefill:
        message = f"point {point.recipe.point}: prefill has TP{prefill}, decode TP{decode}: neither divides the other, and the handshake fails"
        yield Fault(point.recipe.source, f"{message} for every request", "choose sizes of which one divides the other")
    elif prefill > decode and (heads := _replicated_heads(point, prefill)):
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
    with heterogeneous physical_blocks_per_logical is not supported" at the handshake. It is on unless it is switched off.

    Mend: `no-enable-prefix-caching: true` under `common`.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/base_worker.py`, `config/model.py` `is_prefix_caching_supported`.
    """
    if not point.pair or not linear_of(point.recipe.model.architecture):
        return
    flags = ("enable-prefix-caching", "no-enable-prefix-caching")
    prefill, decode = (prefix_caching(view.role) for view in point.pair)
    ratios = [found.chosen // found.kernel for found in map(_blocks, point.pair) if found.kernel]
    mend = "set no-enable-prefix-caching: true under common"
    if prefill != decode:
        states = " and ".join(f"{'on' if on else 'off'} for {role}" for role, on in (("prefill", prefill), ("decode", decode)))
        message = f"prefix caching is {states}: the states of a hybrid model are kept differently, and transfers fail at the first request"
        yield Fault(place(point, *flags), message, mend)
    elif decode and len(set(ratios)) > 1:
        message = f"prefix caching is on, and a block holds {ratios[0]} kernel blocks for prefill, {ratios[1]} for decode"
        yield Fault(place(point, *flags), f"{message}; NIXL refuses that at the handshake", mend)


def _wrong_layout(point: PointView) -> Iterator[tuple[Source, str, RoleView]]:
    for view in point.roles:
        value = view.env(_LAYOUT)
        if uses_nixl(view.role) and value != "DS":
            yield (view.at(TRANSFER), "is not set", view) if value is None else (view.at_env(_LAYOUT), f"is '{value}'", view)


def _blocks(view: RoleView) -> BlockSizes:
    """The role's blocks; where they are not known, those that are asked for, or vLLM's own size."""
    if view.sizes and view.sizes.blocks.chosen:
        return view.sizes.blocks
    chosen = block_size(view.recipe, view.role)
    return BlockSizes(natural=chosen, chosen=chosen, kernel=0)


def _compared(prefill: BlockSizes, decode: BlockSizes) -> tuple[int, int]:
    """What the handshake compares: kernel blocks, or where one is not known the blocks that they divide."""
    return (prefill.kernel, decode.kernel) if prefill.kernel and decode.kernel else (prefill.chosen, decode.chosen)


def _refused(point: PointView, prefill: int, decode: int) -> str:
    """Why the handshake fails, or an empty string."""
    hybrid = bool(linear_of(point.recipe.model.architecture))
    build = point.recipe.runtime.vllm
    if prefill == decode:
        return ""
    if hybrid and engine_build(build).version < _UNEQUAL_HYBRID_BLOCKS:
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
    if not architecture or architecture.linear or architecture.attention.mla or not uses_nixl(point.roles[0].role):
        return 0
    return architecture.attention.kv_heads if tp > architecture.attention.kv_heads else 0


POINT_RULES: tuple[Rule[PointView], ...] = (blocks, tp_ratio, conv_layout, caching)
