"""The steps of an explanation that tell which CUDA graphs are captured."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.sizing.explain_step import Step, amount
from recipegen.sizing.graphs import FULL_AND_PIECEWISE, NONE, PIECEWISE, GraphSettings
from recipegen.sizing.sizes import GraphSizes

_SOURCE = "vLLM config/vllm.py _set_cudagraph_sizes"
_DISPATCHER = "vLLM v1/cudagraph_dispatcher.py"
_SHOWN = 8
"""Runs of sizes, and single sizes, that a title names."""


def graph_steps(settings: GraphSettings, graphs: GraphSizes) -> Iterator[Step]:
    """Steps from the batch limits to the number of graphs."""
    if graphs.mode == NONE or not graphs.sizes:
        yield Step(f"CUDA graphs, mode {graphs.mode}", "0", amount(0, "graphs"), _SOURCE)
        return
    query = 1 + settings.draft
    if settings.capture is None and not settings.sizes:
        wanted = f"min({settings.max_num_seqs} x {query} x 2, {settings.cap}, {settings.max_num_batched_tokens})"
        value = min(settings.max_num_seqs * query * 2, settings.cap, settings.max_num_batched_tokens)
        yield Step("largest batch to capture, by default", wanted, amount(value, "tokens"), _SOURCE)
    title, mode = f"CUDA graphs, mode {graphs.mode}", graphs.mode
    if query > 1 and mode != PIECEWISE:
        title += f", rounded up to multiples of {query}"
    runs = _runs(graphs.sizes)
    if len(runs) > _SHOWN or graphs.number > len(graphs.sizes):
        named, formula = f"{', '.join(map(str, graphs.sizes[:_SHOWN]))} ... {graphs.largest}", f"{graphs.number}"
    else:
        named, formula = ", ".join(map(_name, runs)), " + ".join(map(_count, runs))
    yield Step(f"{title}: batches of {named} tokens", formula, amount(graphs.number, "graphs"), _SOURCE)
    if mode == FULL_AND_PIECEWISE:
        yield from _decode_steps(settings, graphs)


def _decode_steps(settings: GraphSettings, graphs: GraphSizes) -> Iterator[Step]:
    """The second list, of full graphs of decode batches: the sizes that max-num-seqs requests can fill."""
    query = 1 + settings.draft
    most, every = query * settings.max_num_seqs, graphs.number
    filled = graphs.count - every
    limits = f"from {query} to {settings.max_num_seqs} x {query} = {most} tokens"
    title = f"of these, full graphs of decode batches {limits}: {every - filled} are larger"
    yield Step(title, f"{every} - {every - filled}", amount(filled, "graphs"), _DISPATCHER)
    yield Step("CUDA graphs of both lists", f"{every} + {filled}", amount(graphs.count, "graphs"), _DISPATCHER)


def _runs(sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Sizes as runs of at least three equal steps: first, last, step; a size between runs alone, with step 0."""
    runs, start = [], 0
    while start < len(sizes):
        end = start + 1
        while end + 1 < len(sizes) and sizes[end + 1] - sizes[end] == sizes[start + 1] - sizes[start]:
            end += 1
        long = end - start >= 2 and end < len(sizes)
        runs.append((sizes[start], sizes[end], sizes[start + 1] - sizes[start]) if long else (sizes[start], sizes[start], 0))
        start = end + 1 if long else start + 1
    return runs


def _name(run: tuple[int, int, int]) -> str:
    first, last, step = run
    return f"{first} to {last} by {step}" if step else str(first)


def _count(run: tuple[int, int, int]) -> str:
    first, last, step = run
    return f"(({last} - {first}) / {step} + 1)" if step else "1"
