"""Rules over memory: what the GPUs hold against what is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recipegen.checks import capacity_batch_rules, capacity_state_rules
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import RoleView
from recipegen.model import Role
from recipegen.role_flags import number, whole_number
from recipegen.sizing.sizes import Budget, CacheSizes

GIB = 2**30
CONTEXT_GIB = 3.13
"""The largest CUDA context that the published study measured (TP4DP4 on GB300); it stands outside the engine's share."""
GRAPH_OVERSHOOT_GIB = 2.34
"""By how much captured graphs exceeded vLLM's estimate at most in the same study: 9.90 GiB against 7.56."""
HIGH_UTILIZATION = 0.95
"""Where the GPU's memory is not known: the highest value that public recipes run with."""


@dataclass(frozen=True, kw_only=True)
class _Memory:
    """The budget and the cache of a role whose sizes are known."""

    budget: Budget
    cache: CacheSizes
    engine_gib: float

    @property
    def weights_fit(self) -> bool:
        return self.budget.weights.low <= self.engine_gib

    def blocks(self, gib: float) -> int:
        return max(0, int(gib * GIB // self.cache.block_bytes))

    def requests(self, gib: float) -> int:
        return self.blocks(gib) // self.cache.blocks_per_request

    @property
    def request_gib(self) -> float:
        return self.cache.request_mib / 1024


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
    share = budget.total_gib * budget.utilization
    if budget.weights.low > share:
        message = f"{_who(view)}: {budget.weights.best:.1f} GiB of weights on each GPU exceed {share:.1f} GiB ({budget.total_gib:.1f} x"
        yield Fault(view.role.source, f"{message} {budget.utilization:g}); the load fails", "take a larger TP or, with EP, a larger DP")


@rule("capacity-one-request", Severity.ERROR)
def one_request(view: RoleView) -> Iterator[Fault]:
    """The KV cache does not hold one request of `max_model_len` tokens.

    vLLM refuses to start once the weights are loaded: "To serve at least one request with the model's max seq len ...". An error
    where the upper end of the estimate does not hold one; a warning where only the best estimate says so, as parts of the budget
    are not derivable for every configuration.

    Mend: more GPUs a worker, a shorter `max_model_len`, or smaller batches; measured rows make the estimate narrow.
    Source: vLLM 0.26 to 0.29, `v1/core/kv_cache_utils.py`.
    """
    memory = _memory(view)
    if not memory or not memory.weights_fit:
        return
    kv, tokens = memory.budget.kv, view.recipe.workload.max_model_len
    message = f"{_who(view)}: a request of {tokens} tokens takes {memory.request_gib:.2f} GiB of each GPU, and the KV cache has"
    if not memory.requests(kv.high):
        yield Fault(view.role.source, f"{message} {max(0.0, kv.high):.2f} at most; vLLM refuses to start after the load", _MORE_ROOM)
    elif not memory.requests(kv.best):
        text = f"{message} {max(0.0, kv.best):.2f} by the best estimate; vLLM would refuse to start after the load"
        yield Fault(view.role.source, text, _MORE_ROOM, Severity.WARNING)


@rule("capacity-requests", Severity.ERROR)
def requests(view: RoleView) -> Iterator[Fault]:
    """The KV cache does not hold the concurrency that is asked for.

    Requests beyond the room wait or are preempted: the point runs, and reports figures of another concurrency than the one it is
    named for. An error where the upper end of the estimate is too small; a warning where the best estimate or the lower end is. For
    roles that decode; prefill queues by design.

    Mend: more decode ranks, a lower concurrency, or less state a request (no MTP, a smaller cache dtype).
    Source: vLLM 0.26 to 0.29, `v1/core/kv_cache_utils.py` `get_max_concurrency_for_kv_cache_config`; the published study.
    """
    memory = None if view.role.role is Role.PREFILL else _memory(view)
    if not memory or not view.sizes or not (most := memory.requests(memory.budget.kv.high)):
        return
    asked, room, low = view.sizes.asked, view.sizes.room, view.sizes.room_low
    if most < asked:
        yield Fault(view.role.source, f"{_asked(view, most)} at most; the others wait or are preempted", _MORE_REQUESTS)
    elif room and room.requests < asked:
        text = f"{_asked(view, room.requests)} by the best estimate; the others would wait or be preempted"
        yield Fault(view.role.source, text, _MORE_REQUESTS, Severity.WARNING)
    elif room and low and low.requests < asked:
        text = f"{_asked(view, room.requests)} by the best estimate, but only {low.requests} surely; the others would wait or be preempted"
        yield Fault(view.role.source, text, _MORE_REQUESTS, Severity.WARNING)


@rule("capacity-state-blocks", Severity.ERROR)
def state_blocks(view: RoleView) -> Iterator[Fault]:
    """Full CUDA graphs of a hybrid model need a cache block for each sequence.

    They are captured with every sequence of the largest batch holding a state. vLLM refuses: "max_num_seqs exceeds available Mamba
    cache blocks", at the end of start-up. Judged by the upper end of the estimate.

    Mend: a smaller `max-num-seqs`, or more room.
    Source: vLLM 0.26 to 0.29, `v1/worker/gpu_model_runner.py`.
    """
    memory, seqs = _memory(view), whole_number(view.role, "max-num-seqs")
    if not memory or not seqs or not memory.cache.linear_groups or not view.sizes or "FULL" not in view.sizes.graphs.mode.upper():
        return
    blocks = memory.blocks(memory.budget.kv.high)
    if memory.requests(memory.budget.kv.high) and blocks < seqs:
        message = f"{_who(view)}: max-num-seqs {seqs} exceeds the {blocks} blocks of the cache, and full graphs need one for each sequence"
        yield Fault(view.at("max-num-seqs"), f"{message}; vLLM refuses at the end of start-up", f"set max-num-seqs to {blocks} at most")


@rule("capacity-utilization", Severity.WARNING)
def utilization(view: RoleView) -> Iterator[Fault]:
    """`gpu-memory-utilization` leaves no room for what stands outside of the engine's share.

    vLLM does not subtract the CUDA context (2.5 to 3.1 GiB measured on GB300) nor what graphs take above their estimate (up to 2.3):
    both live in the rest. Start-up refuses when less is free than GPU memory x utilization, and captures run out of memory.

    Mend: vLLM's default of 0.92, or what leaves about 5.5 GiB.
    Source: vLLM 0.26 to 0.29, `v1/worker/utils.py` `request_memory`; context and graphs: the published study.
    """
    share, total = number(view.role, "gpu-memory-utilization"), view.recipe.hardware.gpu_memory_gib
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


def _memory(view: RoleView) -> _Memory | None:
    sizes = view.sizes
    if not sizes or not sizes.budget or not sizes.cache:
        return None
    return _Memory(budget=sizes.budget, cache=sizes.cache, engine_gib=sizes.budget.total_gib * sizes.budget.utilization)


def _who(view: RoleView) -> str:
    return f"point {view.recipe.point}, {view.role.role.value}"


def _asked(view: RoleView, fit: int) -> str:
    asked = view.sizes.asked if view.sizes else 0
    return f"{_who(view)}: {asked} requests are asked of each rank, and {fit} fit ({fit / asked - 1:+.0%} head room)"


ROLE_RULES: tuple[Rule[RoleView], ...] = (
    weights,
    one_request,
    requests,
    state_blocks,
    utilization,
    *capacity_batch_rules.ROLE_RULES,
    *capacity_state_rules.ROLE_RULES,
)
