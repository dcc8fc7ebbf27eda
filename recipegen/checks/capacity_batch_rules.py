"""Rules over lengths, batches and the graphs captured for them."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import RoleView
from recipegen.model import TEMPLATE_TOKENS, Role
from recipegen.role_flags import draft_tokens, json_keys, size, switch
from recipegen.sizing.engine_settings import Captures, asked_captures, batch_limits, graph_settings
from recipegen.sizing.graphs import NONE, PIECEWISE, GraphSettings, largest_listed
from recipegen.sizing.role_sizes import asked_requests


@rule("capacity-model-len", Severity.ERROR)
def model_len(view: RoleView) -> Iterator[Fault]:
    """`max_model_len` is too short for prompt, answer and chat template.

    Below ISL + OSL the engine refuses each request of the workload, at the first one, after the load; where the benchmark varies the
    lengths downwards (`random_range_ratio` below 1), only the longest, which is a warning. Above it the chat template
    needs room too: `/v1/chat/completions` adds role marks, and many templates a system prompt, and random prompts grow by some
    tokens when their text is tokenized again. Below 64 more it is a warning: that is the least that public P/D recipes of this kind
    reserve, and more than the templates of current model families take without tools.

    Mend: ISL + OSL + 64 or more; the published study reserves 1,024.
    Source: vLLM 0.26 to 0.29, the entry points' length check; public recipes.
    """
    workload = view.recipe.workload
    needed = workload.isl + workload.osl
    room, lengths = workload.max_model_len - needed, f"ISL {workload.isl} + OSL {workload.osl}"
    mend = f"set it to {needed + TEMPLATE_TOKENS} or more"
    if room < 0:
        ratio = view.recipe.benchmark.random_range_ratio
        some = ratio is not None and workload.max_model_len >= ratio * needed
        which = "requests of full length are" if some else "every request is"
        message = f"max_model_len {workload.max_model_len} is less than {lengths} = {needed}; {which} refused"
        yield Fault(workload.source, message, mend, Severity.WARNING if some else None)
    elif room < TEMPLATE_TOKENS:
        message = f"max_model_len {workload.max_model_len} leaves {room} tokens beside {lengths}; a chat template may not fit, and requests"
        yield Fault(workload.source, f"{message} would be refused or cut", mend, Severity.WARNING)


@rule("capacity-model-len-position", Severity.ERROR)
def position(view: RoleView) -> Iterator[Fault]:
    """`max_model_len` exceeds the positions of the model.

    vLLM refuses to start: "User-specified max_model_len is greater than the derived max_model_len". Not said where
    `VLLM_ALLOW_LONG_MAX_MODEL_LEN` or `hf-overrides` shows that it is meant.

    Mend: at most the model's own length.
    Source: vLLM 0.26 to 0.29, `config/model.py` `_get_and_verify_max_len`.
    """
    architecture, workload = view.recipe.model.architecture, view.recipe.workload
    meant = view.env("VLLM_ALLOW_LONG_MAX_MODEL_LEN") == "1" or view.role.flag("hf-overrides") is not None or json_keys(view.role, "hf-overrides")
    if architecture and 0 < architecture.max_position < workload.max_model_len and not meant:
        message = f"max_model_len {workload.max_model_len} exceeds the {architecture.max_position} positions of {view.recipe.model.key}"
        yield Fault(workload.source, f"{message}; vLLM refuses to start", f"set it to {architecture.max_position} at most")


@rule("capacity-batched-tokens", Severity.ERROR)
def batched_tokens(view: RoleView) -> Iterator[Fault]:
    """`max-num-batched-tokens` is too small for what it must hold.

    A step holds at least one token of each sequence, so it must not be below `max-num-seqs`; without chunked prefill it must hold a
    whole sequence. vLLM refuses at start: "max_num_batched_tokens must be greater than or equal to max_num_seqs".

    Mend: raise it, or lower `max-num-seqs`.
    Source: vLLM 0.26 to 0.29, `config/scheduler.py`.
    """
    role = view.role
    tokens, seqs = size(role, "max-num-batched-tokens"), size(role, "max-num-seqs")
    if tokens is None:
        return
    source, who, length = view.at("max-num-batched-tokens"), role.role.value, view.recipe.workload.max_model_len
    if seqs is not None and tokens < seqs:
        message = f"{who}: max-num-batched-tokens {tokens} is less than max-num-seqs {seqs}; vLLM refuses to start"
        yield Fault(source, message, f"set it to {seqs * (1 + draft_tokens(view.recipe, role))} or more")
    elif switch(role, "enable-chunked-prefill") is False and tokens < length:
        message = f"{who}: max-num-batched-tokens {tokens} is less than max_model_len {length}, and chunked prefill is off; vLLM refuses to start"
        yield Fault(source, message, f"set it to {length} or more, or leave chunked prefill on")


@rule("capacity-step-tokens", Severity.WARNING)
def step_tokens(view: RoleView) -> Iterator[Fault]:
    """A step cannot hold the tokens of all requests that are asked for, with speculation.

    Each sequence verifies 1 + MTP tokens in a step. Where `max-num-batched-tokens` is below what the requests of a rank need, at most
    `max-num-seqs` of them, x (1 + MTP), some sit out each step at full load.

    Mend: `max-num-batched-tokens` of at least `max-num-seqs` x (1 + MTP).
    Source: vLLM 0.26 to 0.29, `v1/core/sched/scheduler.py`; the published study adds 16.
    """
    tokens, needed = size(view.role, "max-num-batched-tokens"), _full_batch(view)
    seqs, draft = batch_limits(view.recipe, view.role)[0], 1 + draft_tokens(view.recipe, view.role)
    if _decodes(view) and tokens is not None and seqs <= tokens < needed:
        message = f"{_who(view)}: a step takes {tokens} tokens, and {needed // draft} requests x {draft} are {needed}"
        mend = f"set it to {seqs * draft} or more"
        yield Fault(view.at("max-num-batched-tokens"), f"{message}; sequences sit out steps at full load", mend)


@rule("capacity-batch", Severity.WARNING)
def batch(view: RoleView) -> Iterator[Fault]:
    """`max-num-seqs` is below the concurrency of a rank.

    Requests beyond it queue in the engine: latency rises, and the concurrency that is measured is not the one that is reported.

    Mend: `max-num-seqs` of the concurrency by rank, and a few more for uneven routing (the published study adds 16).
    Source: vLLM 0.26 to 0.29, `v1/core/sched/scheduler.py`; the published study.
    """
    seqs = size(view.role, "max-num-seqs")
    if _decodes(view) and view.sizes and seqs is not None and seqs < view.sizes.asked:
        asked = view.sizes.asked
        message = f"point {view.recipe.point}, {_who(view)}: max-num-seqs {seqs} is less than the {asked} requests asked of each rank"
        yield Fault(view.at("max-num-seqs"), f"{message}; {asked - seqs} of them queue", f"set it to {asked} and a few more")


@rule("capacity-graphs", Severity.WARNING)
def graphs(view: RoleView) -> Iterator[Fault]:
    """The decode batch that is asked for is larger than the largest captured graph.

    A decode step of the requests of a rank, at most `max-num-seqs` of them, has 1 + MTP tokens for each; what exceeds the largest
    captured size runs without a graph, and launch overhead then rules the time of a token. It shows as a step in latency at high
    concurrency.

    Mend: `max-cudagraph-capture-size` of `max-num-seqs` x (1 + MTP).
    Source: vLLM 0.26 to 0.29, `config/vllm.py` `_set_cudagraph_sizes`; the published study's rule.
    """
    limit, (seqs, tokens) = _captured(view), batch_limits(view.recipe, view.role)
    asked = _full_batch(view)
    needed = min(asked, tokens)
    if _decodes(view) and limit is not None and limit < needed and not _refused(view):
        has = f"has {asked}" + (f", of which a step takes {tokens}" if tokens < asked else "")
        message = f"{_who(view)}: graphs are captured up to {limit} tokens, and the batch that is asked for {has}"
        source = view.at("max-cudagraph-capture-size", "cudagraph-capture-sizes", "max-num-seqs")
        mend = f"set max-cudagraph-capture-size to {min(tokens, seqs * (1 + draft_tokens(view.recipe, view.role)))}"
        yield Fault(source, f"{message}; batches above {limit} run without a graph", mend)


@rule("capacity-capture-list", Severity.ERROR)
def capture_list(view: RoleView) -> Iterator[Fault]:
    """Nothing can be captured of what is asked, or the list of capture sizes and their maximum contradict each other.

    A maximum below 1 and an empty list are refused when the configuration is made. List and maximum are taken together only when
    they agree: "customized max_cudagraph_capture_size should be consistent with the max value of cudagraph_capture_sizes"; sizes
    above `max-num-batched-tokens` are dropped first. With speculation, sizes of full decode graphs are rounded up to multiples of
    1 + MTP, and where none is left within the largest, "No valid cudagraph sizes after rounding" comes after the load.

    Mend: one of the two, and room for one request; `enforce-eager` or `cudagraph_mode: NONE` for no graphs at all.
    Source: vLLM 0.26 to 0.29, `config/vllm.py` `_set_cudagraph_sizes`, `config/compilation.py` `adjust_cudagraph_sizes_for_spec_decode`.
    """
    if found := _refused(view):
        why, mend = found
        source = view.at("max-cudagraph-capture-size", "cudagraph-capture-sizes", "compilation-config")
        yield Fault(source, f"{_who(view)}: {why}", mend)


@rule("capacity-capture-cut", Severity.WARNING)
def capture_cut(view: RoleView) -> Iterator[Fault]:
    """`max-cudagraph-capture-size` exceeds `max-num-batched-tokens`.

    No step is that large, so vLLM cuts the size down, with a warning in the log. Harmless, but one of the two is not what was meant.

    Mend: the smaller of the two, or more batched tokens.
    Source: vLLM 0.26 to 0.29, `config/vllm.py` `_set_cudagraph_sizes`.
    """
    most = graph_settings(view.recipe, view.role, draft=0).capture
    tokens = size(view.role, "max-num-batched-tokens")
    if most is not None and tokens is not None and most > tokens:
        message = f"{_who(view)}: max-cudagraph-capture-size {most} exceeds max-num-batched-tokens {tokens}; vLLM cuts it to that"
        yield Fault(view.at("max-cudagraph-capture-size", "compilation-config"), message, f"set it to {tokens}, or allow larger steps")


def _refused(view: RoleView) -> tuple[str, str] | None:
    """Why vLLM refuses the captures that a role asks for, and the mend; None where it takes them, or captures nothing."""
    settings, asked = graph_settings(view.recipe, view.role, draft=draft_tokens(view.recipe, view.role)), asked_captures(view.role)
    return None if settings.mode == NONE else _at_fault(settings, asked)


def _at_fault(settings: GraphSettings, asked: Captures) -> tuple[str, str] | None:
    most, listed, tokens = asked.most, asked.sizes, settings.max_num_batched_tokens
    no_graphs = "or write cudagraph_mode: NONE for no graphs"
    if most is not None and most < 1:
        return f"max-cudagraph-capture-size {most} captures nothing; vLLM refuses to start", f"set it to 1 or more, {no_graphs}"
    if listed == ():
        return "the list of cudagraph-capture-sizes is empty; vLLM refuses to start", f"name sizes, or leave the list out, {no_graphs}"
    kept = [own for own in listed or () if own <= tokens]
    if most is not None and listed is not None and max(kept, default=0) != most:
        lists = f"the largest of cudagraph-capture-sizes is {max(kept)}" if kept else f"of cudagraph-capture-sizes none is within {tokens}"
        return f"max-cudagraph-capture-size is {most}, but {lists}; vLLM refuses to start", "leave one of the two out"
    query, top = 1 + settings.draft, largest_listed(settings)
    if (most is not None or listed is not None) and settings.mode != PIECEWISE and 0 < top < query:
        why = f"the largest graph has {top} tokens, and a request with speculation {query}: no size is left to capture"
        return f"{why}; vLLM refuses after the load", f"capture {query} tokens or more, {no_graphs}"
    return None


def _who(view: RoleView) -> str:
    return view.role.role.value


def _decodes(view: RoleView) -> bool:
    return view.role.role is not Role.PREFILL


def _full_batch(view: RoleView) -> int:
    """Tokens of a decode step of all requests that are asked of a rank and that it takes at once."""
    asked, seqs = asked_requests(view.recipe, view.role), batch_limits(view.recipe, view.role)[0]
    return min(asked, seqs) * (1 + draft_tokens(view.recipe, view.role))


def _captured(view: RoleView) -> int | None:
    """The largest size that is captured, as set or as vLLM chooses; None where nothing is captured, or it is not known."""
    asked = graph_settings(view.recipe, view.role, draft=draft_tokens(view.recipe, view.role))
    if asked.mode == NONE:
        return None
    if asked.capture is not None:
        return asked.capture
    if asked.sizes:
        return largest_listed(asked) or None
    return view.sizes.graphs.largest or None if view.sizes else None


ROLE_RULES: tuple[Rule[RoleView], ...] = (
    model_len,
    position,
    batched_tokens,
    step_tokens,
    batch,
    graphs,
    capture_list,
    capture_cut,
)
