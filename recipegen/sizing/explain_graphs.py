"""The steps of an explanation that tell which CUDA graphs are captured."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.sizing.explain_step import Step, amount
from recipegen.sizing.graphs import FULL_AND_PIECEWISE, NONE, PIECEWISE, GraphSettings
from recipegen.sizing.sizes import GraphSizes

_SOURCE = "vLLM config/vllm.py _set_cudagraph_sizes"
_SHOWN = 4


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
    shown = graphs.sizes if len(graphs.sizes) <= 2 * _SHOWN else (*graphs.sizes[:_SHOWN], "...", *graphs.sizes[-_SHOWN:])
    title = f"CUDA graphs, mode {graphs.mode}: batches of {', '.join(map(str, shown))} tokens"
    if query > 1 and graphs.mode != PIECEWISE:
        title += f", rounded up to multiples of {query}"
    formula = f"{len(graphs.sizes)}"
    if graphs.mode == FULL_AND_PIECEWISE:
        formula += f" + {graphs.count - len(graphs.sizes)}"
    yield Step(title, formula, amount(graphs.count, "graphs"), f"{_SOURCE}, v1/cudagraph_dispatcher.py")
