"""CUDA graphs that vLLM captures: batch sizes, their number, the rule that estimates their memory.

Sources: vLLM 0.28 `config/vllm.py` _set_cudagraph_sizes, `config/compilation.py` adjust_cudagraph_sizes_for_spec_decode,
`v1/cudagraph_dispatcher.py` initialize_cudagraph_keys, `v1/worker/gpu_model_runner.py` profile_cudagraph_memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from recipegen.sizing.sizes import GraphSizes

NONE = "NONE"
PIECEWISE = "PIECEWISE"
FULL = "FULL"
FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"
MODES = (NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE)
DEFAULT_MODE = FULL_AND_PIECEWISE

DEFAULT_CAP = 512
BLACKWELL_CAP = 1024
"""Tokens: bound of the default capture size, the second on SM10x from 0.28 on."""

MIN_GRAPH_BYTES = 1 << 20
"""The least that vLLM counts for each further graph."""


@dataclass(frozen=True, kw_only=True)
class GraphSettings:
    """What decides on the graphs; `capture` is max-cudagraph-capture-size, `sizes` an explicit list, `cap` the default's bound."""

    mode: str
    max_num_seqs: int
    max_num_batched_tokens: int
    draft: int = 0
    capture: int | None = None
    sizes: tuple[int, ...] = ()
    cap: int = DEFAULT_CAP
    fine: bool = False


@lru_cache(maxsize=4096)
def graph_sizes(settings: GraphSettings) -> GraphSizes:
    """Return the graphs of a role; sizes in tokens of a batch, ascending, each once.

    Modes with full decode graphs round every size up to a multiple of the 1 + draft tokens of a request and keep those within
    the maximum. Separate decode graphs are those that max-num-seqs requests can fill; FULL_AND_PIECEWISE captures both lists.
    """
    mode, query = settings.mode, 1 + settings.draft
    if mode == NONE:
        return GraphSizes(mode=mode, sizes=(), count=0)
    sizes = _listed(settings) if settings.sizes else _default(settings)
    if mode != PIECEWISE and query > 1:
        sizes = _rounded(sizes, query)
    if mode in {PIECEWISE, FULL}:
        return GraphSizes(mode=mode, sizes=sizes, count=len(sizes))
    decode = tuple(size for size in sizes if query <= size <= query * settings.max_num_seqs)
    if mode == FULL_DECODE_ONLY:
        return GraphSizes(mode=mode, sizes=decode, count=len(decode))
    return GraphSizes(mode=mode, sizes=sizes, count=len(sizes) + len(decode))


def graph_memory_gib(largest_gib: float, second_gib: float, count: int) -> float:
    """Estimate of vLLM: the largest graph, and for every other one what the second largest took, at least 1 MiB."""
    return largest_gib + (count - 1) * max(second_gib, MIN_GRAPH_BYTES / 2**30) if count else 0.0


def _listed(settings: GraphSettings) -> tuple[int, ...]:
    return tuple(sorted({size for size in settings.sizes if size <= settings.max_num_batched_tokens}))


def _default(settings: GraphSettings) -> tuple[int, ...]:
    tokens = settings.max_num_batched_tokens
    wanted = settings.capture if settings.capture is not None else min(settings.max_num_seqs * (1 + settings.draft) * 2, settings.cap)
    top = min(tokens, wanted)
    small = range(1, min(top, 32) + 1) if settings.fine else (1, 2, 4)
    sizes = {*small, *range(8, min(top + 1, 256), 8), *range(256, top + 1, 16)}
    if tokens <= top:
        sizes.add(tokens)
    return tuple(sorted(size for size in sizes if size <= top))


def _rounded(sizes: tuple[int, ...], query: int) -> tuple[int, ...]:
    """Sizes rounded up to multiples of `query`, none above the largest; where none is left, `query` itself if it fits."""
    top = max(sizes, default=0)
    multiples = (-(-size // query) * query for size in sizes)
    kept = tuple(sorted({size for size in multiples if size <= top}))
    return kept or ((query,) if query <= top else ())
