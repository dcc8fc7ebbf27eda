"""Sizes as columns of a table, for `plan` and `size`."""

from __future__ import annotations

from recipegen.sizing.sizes import BlockSizes, Budget, RoleSizes

SIZE_HEADS = ("WEIGHTS", "KV", "BLOCK", "MiB/REQ", "FITS vLLM", "FITS study", "ASKED", "ROOM", "GRAPHS")
"""Columns of `size_cells`; docs/reference/sizes.md tells of each."""

LEGEND = """\
WEIGHTS, KV: GiB of one GPU. FITS, ASKED, ROOM: requests of one engine (DP rank). FITS vLLM: the maximum concurrency that the engine will log,
at max-model-len; FITS study: KV / MiB of a request on one GPU without TP and MTP, as the published study counts. ROOM: by how much the requests
of ISL + OSL that fit exceed those asked for. BLOCK: own>set/kernel tokens. ~ estimate, <= bound: --explain tells the interval."""
_UNKNOWN = "-"


def size_cells(sizes: RoleSizes | None) -> tuple[str, ...]:
    """The cells of one role; dashes for what cannot be derived from the data at hand."""
    if sizes is None:
        return (_UNKNOWN,) * len(SIZE_HEADS)
    room, sure = sizes.room, sureness(sizes.budget)
    return (
        f"{sizes.weights_gib:.2f}" if sizes.weight_parts else _UNKNOWN,
        f"{sure}{sizes.budget.kv.best:.2f}" if sizes.budget else _UNKNOWN,
        block_cell(sizes.blocks),
        f"{sizes.cache.request_mib:g}" if sizes.cache else _UNKNOWN,
        f"{sure}{room.concurrency:.2f}" if room else _UNKNOWN,
        f"{sure}{room.study_requests:.1f}/{room.kv_gib * 1024 / room.study_requests:.0f}" if room and room.study_requests else _UNKNOWN,
        str(sizes.asked),
        _UNKNOWN if sizes.head_room is None else f"{sure}{sizes.head_room:+.0%}",
        str(sizes.graphs.count),
    )


def sureness(budget: Budget | None) -> str:
    """What stands before a figure that rests on this budget's KV cache: nothing where it was measured."""
    if budget is None or budget.kv.exact:
        return ""
    return "<=" if budget.kv.bound else "~"


def block_cell(blocks: BlockSizes) -> str:
    """`1088>2176/128`: the role's own block size, what is set where that differs, the kernel's where it is known."""
    if not blocks.natural:
        return _UNKNOWN
    kernel = f"/{blocks.kernel}" if blocks.kernel else ""
    chosen = "" if blocks.chosen == blocks.natural else f">{blocks.chosen}"
    return f"{blocks.natural}{chosen}{kernel}"
