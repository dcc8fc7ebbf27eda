"""What the planner makes of a role, as facts: the consequences that a diff tells."""

from __future__ import annotations

from recipegen.review.diff_model import FactKey, FactValue
from recipegen.sizing.sizes import BlockSizes, RoleSizes

KV_CACHE = "KV cache"
HEAD_ROOM = "KV head room"
COLUMNS = (HEAD_ROOM, KV_CACHE, "requests that fit", "requests asked", "block size", "MiB per request", "weights", "graphs", "not followed by sizing")
"""The names of all facts of sizes, those first that decide."""


def size_facts(role: str, sizes: RoleSizes | None) -> dict[FactKey, FactValue]:
    """Sizes of one role: GiB and MiB of one GPU, requests of one engine (DP rank). Figures are as exact as they are shown.

    What cannot be derived is left out, so that it shows as a fact that comes or goes.
    """
    if sizes is None:
        return {}
    found: dict[FactKey, FactValue] = {}
    if sizes.weight_parts:
        weights = sizes.weights_gib
        found[role, "weights"] = (round(weights, 2), f"{weights:.2f} GiB", "")
    budget, room = sizes.budget, sizes.room
    sure = "" if budget is None or budget.kv.exact else "<=" if budget.kv.bound else "~"
    if budget is not None:
        found[role, KV_CACHE] = (round(budget.kv.best, 2), f"{sure}{budget.kv.best:.2f} GiB", budget.calibration)
    if sizes.blocks.natural:
        found[role, "block size"] = (sizes.blocks.chosen, block_text(sizes.blocks), sizes.blocks.misfit)
    if sizes.cache is not None:
        found[role, "MiB per request"] = (sizes.cache.request_mib, f"{sizes.cache.request_mib:g} MiB", "")
    if room is not None:
        found[role, "requests that fit"] = (round(room.concurrency, 2), f"{sure}{room.concurrency:.2f}", "")
    found[role, "requests asked"] = (sizes.asked, str(sizes.asked), "")
    if (head_room := sizes.head_room) is not None:
        found[role, HEAD_ROOM] = (round(head_room, 2), f"{sure}{head_room:+.0%}", "")
    found[role, "graphs"] = (sizes.graphs.count, f"{sizes.graphs.count} {sizes.graphs.mode}", "")
    if sizes.unsized:
        found[role, "not followed by sizing"] = (", ".join(sizes.unsized), ", ".join(sizes.unsized), "")
    return found


def block_text(blocks: BlockSizes) -> str:
    """The block that the engine settles on, the role's own where that is another, and the attention kernel's where it is known."""
    own = "" if blocks.chosen == blocks.natural else f", {blocks.natural} of its own"
    kernel = f", kernel {blocks.kernel}" if blocks.kernel else ""
    return f"{blocks.chosen} tokens{own}{kernel}"
