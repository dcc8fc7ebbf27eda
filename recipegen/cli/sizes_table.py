"""Sizes as columns of a table, for `plan` and `size`."""

from __future__ import annotations

from recipegen.sizing.sizes import BlockSizes, Budget, RoleSizes

SIZE_HEADS = (
    "WEIGHTS/GPU",
    "BUDGET",
    "KV/GPU",
    "BLOCK own>set/kernel",
    "MIB/REQUEST",
    "FITS vLLM",
    "FITS study",
    "ASKED",
    "HEAD ROOM",
    "GRAPHS",
)
"""Columns of `size_cells`. Sizes are GiB of one GPU; fits, asked and head room count requests of one engine (data-parallel rank)."""

LEGEND = (
    "GiB of one GPU; requests of one engine (DP rank) at max-model-len. FITS vLLM is what the engine will log as maximum concurrency, FITS study the "
    "published study's figure (KV over a request on one GPU, without TP and MTP). ~ is an estimate: --explain tells its interval."
)
_UNKNOWN = "-"


def size_cells(sizes: RoleSizes | None) -> tuple[str, ...]:
    """The cells of one role; dashes for what cannot be derived from the data at hand."""
    if sizes is None:
        return (_UNKNOWN,) * len(SIZE_HEADS)
    room = sizes.room
    sure = "" if sizes.budget and sizes.budget.kv.low == sizes.budget.kv.high else "~"
    return (
        f"{sizes.weights_gib:.2f}" if sizes.weight_parts else _UNKNOWN,
        f"{sizes.budget.total_gib * sizes.budget.utilization:.2f}" if sizes.budget else _UNKNOWN,
        kv_cell(sizes.budget),
        block_cell(sizes.blocks),
        f"{sizes.cache.request_mib:g}" if sizes.cache else _UNKNOWN,
        f"{sure}{room.concurrency:.2f}" if room else _UNKNOWN,
        f"{sure}{room.study_requests:.1f}" if room and room.study_requests else _UNKNOWN,
        str(sizes.asked),
        _UNKNOWN if sizes.head_room is None else f"{sure}{sizes.head_room:+.0%}",
        str(sizes.graphs.count),
    )


def kv_cell(budget: Budget | None) -> str:
    """GiB of KV cache; `~` before what is not measured."""
    if budget is None:
        return _UNKNOWN
    return ("" if budget.kv.low == budget.kv.high else "~") + f"{budget.kv.best:.2f}"


def block_cell(blocks: BlockSizes) -> str:
    """`1088>2176/128`: the role's own block size, what is set where that differs, the kernel's where it is known."""
    if not blocks.natural:
        return _UNKNOWN
    kernel = f"/{blocks.kernel}" if blocks.kernel else ""
    chosen = "" if blocks.chosen == blocks.natural else f">{blocks.chosen}"
    return f"{blocks.natural}{chosen}{kernel}"
