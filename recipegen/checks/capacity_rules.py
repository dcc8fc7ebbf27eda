"""Rules over memory: what the GPUs hold against what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks import capacity_batch_rules, capacity_state_rules
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import RoleView
from recipegen.errors import Source
from recipegen.model import Role
from recipegen.role_flags import size
from recipegen.sizing.engine_settings import batch_limits, memory_share
from recipegen.sizing.sizes import RoleSizes

CONTEXT_GIB = 3.13
"""The largest CUDA context that the published study measured (TP4DP4 on GB300); it stands outside the engine's share."""
GRAPH_OVERSHOOT_GIB = 2.34
"""By how much captured graphs exceeded vLLM's estimate at most in the same study: 9.90 GiB against 7.56."""
HIGH_UTILIZATION = 0.95
"""Where the GPU's memory is not known: the highest value that public recipes run with."""


@rule("capacity-weights", Severity.ERROR)
def weights(view: RoleView) -> Iterator[Fault]:
    """The weights do not fit on the GPUs of a worker.

    Weights on one GPU exceed the engine's share of its memory, GPU memory x `gpu-memory-utilization`. It shows after the load, an
    hour later for a large model: out of memory, or "No available memory for the cache blocks".

    Mend: more GPUs a worker: experts are shared over TP x DP, the rest over TP.
    Source: vLLM 0.26 to 0.29, `v1/worker/gpu_worker.py` `determine_available_memory`.
    """
    if not view.sizes or not (budget := view.sizes.budget):
        return
    share, low, mend = budget.engine_gib, budget.weights.low, "take a larger TP or, with EP, a larger DP"
    if budget.given and low + budget.kv.low > budget.total_gib >= low:
        message = f"{_who(view)}: {budget.weights.best:.1f} GiB of weights and the {budget.kv.best:.1f} GiB of KV cache that {budget.given} asks"
        yield Fault(view.at(budget.given), f"{message} exceed {budget.total_gib:.1f} GiB of a GPU; start-up runs out of memory", "ask for less")
    elif low > (budget.total_gib if budget.given else share):
        message = f"{_who(view)}: {budget.weights.best:.1f} GiB of weights on each GPU exceed {share:.1f} GiB ({budget.total_gib:.1f} x"
        yield Fault(view.role.source, f"{message} {budget.utilization:g}); the load fails", mend)


@rule("capacity-one-request", Severity.ERROR)
def one_request(view: RoleView) -> Iterator[Fault]:
    """The KV cache does not hold one request of `max_model_len` tokens.

    vLLM refuses to start once the weights are loaded: "To serve at least one request with the model's max seq len ...". An error
    where the upper end of the estimate does not hold one; a warning where only the best estimate says so, as parts of the budget
    are not derivable for every configuration.

    Mend: more GPUs a worker, a shorter `max_model_len`, or smaller batches; measured rows make the estimate narrow.
    Source: vLLM 0.26 to 0.29, `v1/core/kv_cache_utils.py`.
    """
    sizes = _judged(view)
    if not sizes or not sizes.cache or not sizes.room or not sizes.room_high:
        return
    need, tokens = sizes.cache.request_mib / 1024, view.recipe.workload.max_model_len
    message = f"{_who(view)}: a request of {tokens} tokens takes {need:.2f} GiB of each GPU, and the KV cache has"
    if sizes.room_high.concurrency < 1:
        most = f"{max(0.0, sizes.room_high.kv_gib):.2f}{'' if _is_exact(sizes) else ' at most'}"
        yield Fault(view.role.source, f"{message} {most}; vLLM refuses to start after the load", _MORE_ROOM)
    elif sizes.room.concurrency < 1:
        text = f"{message} {max(0.0, sizes.room.kv_gib):.2f} by the best estimate; vLLM would refuse to start after the load"
        yield Fault(view.role.source, text, _MORE_ROOM, Severity.WARNING)


@rule("capacity-requests", Severity.WARNING)
def requests(view: RoleView) -> Iterator[Fault]:
    """The KV cache does not hold the concurrency that is asked for.

    Counted are requests of the workload's own length, ISL + OSL and 64 tokens for a chat template; a larger `max_model_len` costs
    them nothing. Requests beyond the room wait or are preempted: the point runs, and reports figures of another concurrency than
    the one it is named for, which a measurement of saturation may want. Judged by the upper end of the estimate, the best, and the
    lower end, and said so; without measured rows there is an upper end only. For roles that decode; prefill queues by design.

    Mend: more decode ranks, a lower concurrency, or less state a request (no MTP, a smaller cache dtype).
    Source: vLLM 0.26 to 0.29, `v1/core/kv_cache_utils.py` `get_num_blocks`, `v1/core/block_pool.py`; the published study.
    """
    sizes = None if view.role.role is Role.PREFILL else _judged(view)
    if not sizes or not sizes.room or not sizes.room_low or not sizes.room_high or sizes.room_high.concurrency < 1:
        return
    low, best, most = (room.workload_requests for room in (sizes.room_low, sizes.room, sizes.room_high))
    if most < sizes.asked:
        how = "" if _is_exact(sizes) else " at most"
        yield Fault(view.role.source, f"{_asked(view, sizes, most)}{how}; the others wait or are preempted", _MORE_REQUESTS)
    elif sizes.budget and sizes.budget.kv.bound:
        return
    elif best < sizes.asked:
        text = f"{_asked(view, sizes, best)} by the best estimate; the others would wait or be preempted"
        yield Fault(view.role.source, text, _MORE_REQUESTS)
    elif low < sizes.asked:
        text = f"{_asked(view, sizes, best)} by the best estimate, but only {low} surely; the others would wait or be preempted"
        yield Fault(view.role.source, text, _MORE_REQUESTS)


@rule("capacity-state-blocks", Severity.ERROR)
def state_blocks(view: RoleView) -> Iterator[Fault]:
    """Full CUDA graphs of a hybrid model need a cache block for each sequence.

    They are captured with every sequence of the largest batch holding a state. vLLM refuses: "max_num_seqs exceeds available Mamba
    cache blocks", at the end of start-up. Judged by the upper end of the estimate, and by vLLM's default where `max-num-seqs` is
    not set.

    Mend: a smaller `max-num-seqs`, or more room.
    Source: vLLM 0.26 to 0.29, `v1/worker/gpu_model_runner.py`.
    """
    sizes = _judged(view)
    if not sizes or not sizes.room_high or not sizes.cache or not sizes.cache.linear_groups or "FULL" not in sizes.graphs.mode.upper():
        return
    seqs, blocks = batch_limits(view.recipe, view.role)[0], sizes.room_high.blocks
    if sizes.room_high.concurrency >= 1 and blocks < seqs:
        own = "" if size(view.role, "max-num-seqs") else ", vLLM's default,"
        message = f"{_who(view)}: max-num-seqs {seqs}{own} exceeds the {blocks} blocks of the cache, and full graphs need one for each sequence"
        yield Fault(view.at("max-num-seqs"), f"{message}; vLLM refuses at the end of start-up", f"set max-num-seqs to {blocks} at most")


@rule("capacity-unmeasured", Severity.NOTE)
def unmeasured(view: RoleView) -> Iterator[Fault]:
    """Nothing of this model was measured on this hardware.

    Non-torch memory, peak activation and the CUDA graphs' estimate follow from no formula. Without measured rows only the weights are
    known: the KV cache has an upper bound, and what fits is "at most" so much. Only what cannot fit by that bound is an error.

    Mend: none needed; measured rows (`data/calibration/`) make an estimate of the bound.
    Source: vLLM 0.26 to 0.29, `v1/worker/gpu_worker.py` `determine_available_memory`.
    """
    if view.sizes and (budget := view.sizes.budget) and not budget.calibration and not budget.given:
        model, hardware = view.recipe.model.key, view.recipe.hardware.key
        message = f"{model} was not measured on {hardware}: of a GPU's memory only the weights are known, and what fits is an upper bound"
        yield Fault(Source(view.recipe.source.file), message, "measured rows would make an estimate of it")


@rule("capacity-not-sized", Severity.NOTE)
def not_sized(view: RoleView) -> Iterator[Fault]:
    """A flag changes memory in a way that is not sized.

    Offloaded weights, redundant experts, a quantization that is made at load, context parallelism and overrides of the model's
    configuration follow rules that are not reckoned here. No budget and no fit is shown for such a role, and no rule judges them.

    Mend: none needed; the engine's log tells what is left for the KV cache.
    Source: vLLM 0.26 to 0.29, `config/offload.py`, `distributed/eplb`, `v1/kv_cache_interface.py`.
    """
    for flag in view.sizes.unsized if view.sizes else ():
        message = f"{view.role.role.value}: {flag} changes memory in a way that is not sized; no budget and no fit is reckoned"
        yield Fault(view.at(flag), message, "look at the engine's log for what fits")


@rule("capacity-utilization", Severity.WARNING)
def utilization(view: RoleView) -> Iterator[Fault]:
    """`gpu-memory-utilization` leaves no room for what stands outside of the engine's share.

    vLLM does not subtract the CUDA context (2.5 to 3.1 GiB measured on GB300) nor what graphs take above their estimate (up to 2.3):
    both live in the rest. Start-up refuses when less is free than GPU memory x utilization, and captures run out of memory.

    Mend: vLLM's default of 0.92, or what leaves about 5.5 GiB.
    Source: vLLM 0.26 to 0.29, `v1/worker/utils.py` `request_memory`; context and graphs: the published study.
    """
    share, total = memory_share(view.role), view.recipe.hardware.gpu_memory_gib
    if share is None:
        return
    needed = CONTEXT_GIB + GRAPH_OVERSHOOT_GIB
    limit = 1 - needed / total if total else HIGH_UTILIZATION
    if share > limit:
        left = f"{total * (1 - share):.1f} of {total:g} GiB" if total else f"{1 - share:.0%} of a GPU's memory"
        message = f"gpu-memory-utilization {share:g} leaves {left} for the CUDA context and for graphs above their estimate, about {needed:.1f} GiB"
        yield Fault(view.at("gpu-memory-utilization"), f"{message}; start-up is refused or capture runs out of memory", f"stay below {limit:.2f}")


_MORE_ROOM = "take a larger TP or, with EP, a larger DP, or a shorter max_model_len"
_MORE_REQUESTS = "take more decode ranks, a lower concurrency, or less state a request"


def _judged(view: RoleView) -> RoleSizes | None:
    """Sizes by which the room of a role can be judged: weights that fit, and a layout that is no lower bound."""
    sizes = view.sizes
    if not sizes or not sizes.cache or sizes.cache.lower_bound:
        return None
    fits = not sizes.budget or sizes.budget.given or sizes.budget.weights.low <= sizes.budget.engine_gib
    return sizes if fits else None


def _is_exact(sizes: RoleSizes) -> bool:
    return sizes.room_low == sizes.room_high


def _who(view: RoleView) -> str:
    return f"point {view.recipe.point}, {view.role.role.value}"


def _asked(view: RoleView, sizes: RoleSizes, fit: int) -> str:
    tokens = f" of {sizes.cache.workload_tokens} tokens" if sizes.cache else ""
    return f"{_who(view)}: {sizes.asked} requests{tokens} are asked of each rank, and {fit} fit ({fit / sizes.asked - 1:+.0%} head room)"


ROLE_RULES: tuple[Rule[RoleView], ...] = (
    weights,
    one_request,
    requests,
    state_blocks,
    unmeasured,
    not_sized,
    utilization,
    *capacity_batch_rules.ROLE_RULES,
    *capacity_state_rules.ROLE_RULES,
)
