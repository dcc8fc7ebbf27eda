"""CUDA graphs that vLLM captures: batch sizes, their number, the rule that estimates their memory.

Sources: vLLM 0.28 `config/vllm.py` _set_cudagraph_sizes, `config/compilation.py` adjust_cudagraph_sizes_for_spec_decode,
`v1/cudagraph_dispatcher.py` initialize_cudagraph_keys, `v1/worker/gpu_model_runner.py` profile_cudagraph_memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice

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

LARGE, STRIDE = 256, 16
"""Tokens: from the first on, sizes are the second apart."""

MAX_NAMED = 1024
"""Sizes that are named one by one; more than twice what a capture of 8,192 tokens has."""

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


@dataclass(frozen=True)
class _Ladder:
    """Sizes in ascending order, each once: some one by one, then a stride, however long, and one more at the end.

    Every one is rounded up to a multiple of `query`; of the stride that is done when it is looked at, as it may be long.
    """

    low: tuple[int, ...]
    stride: range = range(0)
    end: tuple[int, ...] = ()
    query: int = 1

    @property
    def count(self) -> int:
        return len(self.low) + len(self.stride) + len(self.end)

    @property
    def largest(self) -> int:
        """0 where there is none."""
        return self.end[-1] if self.end else _up(self.stride[-1], self.query) if self.stride else self.low[-1] if self.low else 0

    def rounded(self, query: int) -> _Ladder:
        """Sizes rounded up to multiples of `query`, none above the largest; where none is left, `query` itself if it fits."""
        top = self.largest
        last = top // query * query
        low = sorted({up for size in self.low if (up := _up(size, query)) <= top})
        # a stride that is finer than the multiples meets every one of them; one that is not stays as many sizes
        stride = _upto(self.stride, last) if query <= STRIDE else range(_up(LARGE, query), last + 1, query) if self.stride else range(0)
        kept = tuple(size for size in low if not stride or size < _up(stride[0], query))
        found = _Ladder(kept, stride, query=query)
        if self.end and last == top > found.largest:
            found = _Ladder(kept, stride, (top,), query)
        return found if found.count or query > top else _Ladder((query,), query=query)

    def within(self, most: int) -> _Ladder:
        """The sizes up to `most`."""
        low, end = (tuple(size for size in sizes if size <= most) for sizes in (self.low, self.end))
        return _Ladder(low, _upto(self.stride, most // self.query * self.query), end, self.query)

    def first(self, count: int) -> tuple[int, ...]:
        return tuple(islice(chain(self.low, (_up(size, self.query) for size in self.stride), self.end), count))


@lru_cache(maxsize=1024)
def graph_sizes(settings: GraphSettings) -> GraphSizes:
    """Return the graphs of a role; sizes in tokens of a batch, ascending, each once.

    Modes with full decode graphs round every size up to a multiple of the 1 + draft tokens of a request and keep those within
    the maximum. Separate decode graphs are those that max-num-seqs requests can fill; FULL_AND_PIECEWISE captures both lists.
    """
    mode, query = settings.mode, 1 + settings.draft
    sizes = _ladder(settings)
    if mode != PIECEWISE and query > 1:
        sizes = sizes.rounded(query)
    decode = sizes.within(query * settings.max_num_seqs)
    if mode == FULL_DECODE_ONLY:
        sizes = decode
    count = sizes.count + (decode.count if mode == FULL_AND_PIECEWISE else 0)
    return GraphSizes(mode=mode, sizes=sizes.first(MAX_NAMED), number=sizes.count, largest=sizes.largest, count=count)


def largest_listed(settings: GraphSettings) -> int:
    """Tokens of the largest size before sizes are rounded for speculation; 0 where nothing is captured."""
    return _ladder(settings).largest


def graph_memory_gib(largest_gib: float, second_gib: float, count: int) -> float:
    """Estimate of vLLM: the largest graph, and for every other one what the second largest took, at least 1 MiB."""
    return largest_gib + (count - 1) * max(second_gib, MIN_GRAPH_BYTES / 2**30) if count else 0.0


def _ladder(settings: GraphSettings) -> _Ladder:
    if settings.mode == NONE:
        return _Ladder(())
    tokens = settings.max_num_batched_tokens
    if settings.sizes:
        return _Ladder(tuple(sorted({size for size in settings.sizes if size <= tokens})))
    wanted = settings.capture if settings.capture is not None else min(settings.max_num_seqs * (1 + settings.draft) * 2, settings.cap)
    top = min(tokens, wanted)
    small = range(1, min(top, 32) + 1) if settings.fine else (1, 2, 4)
    low = tuple(sorted(size for size in {*small, *range(8, min(top + 1, LARGE), 8)} if size <= top))
    found = _Ladder(low, range(LARGE, top + 1, STRIDE))
    return replace(found, end=(tokens,)) if found.largest < tokens <= top else found


def _up(size: int, query: int) -> int:
    return -(-size // query) * query


def _upto(stride: range, most: int) -> range:
    return range(stride.start, min(stride.stop, most + 1), stride.step)
