"""CUDA graphs: the published counts, defaults, and a literal simulation of the lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipegen.sizing.graphs import MAX_NAMED, MODES, GraphSettings, graph_memory_gib, graph_sizes


@pytest.mark.parametrize(
    ("seqs", "draft", "capture", "count"),
    [
        (20, 3, 80, 11),
        (32, 3, 128, 17),
        (80, 3, 320, 37),
        (272, 3, 1088, 85),
        (528, 0, 528, 52),
        (656, 0, 656, 60),
    ],
)
def test_published_decode_counts(seqs: int, draft: int, capture: int, count: int) -> None:
    asked = GraphSettings(mode="FULL_DECODE_ONLY", max_num_seqs=seqs, max_num_batched_tokens=capture + 16, draft=draft, capture=capture)
    found = graph_sizes(asked)
    assert found.count == count == len(found.sizes)
    assert found.sizes[-1] == capture


def test_published_prefill_graphs() -> None:
    found = graph_sizes(GraphSettings(mode="PIECEWISE", max_num_seqs=32, max_num_batched_tokens=16384, draft=3, cap=1024))
    assert (found.count, found.sizes[-1]) == (35, 256)
    assert found.sizes[:5] == (1, 2, 4, 8, 16)  # piecewise graphs are of any number of tokens


@pytest.mark.parametrize(("seqs", "cap", "top"), [(1024, 512, 512), (1024, 1024, 1024), (32, 1024, 64), (3, 512, 4)])
def test_defaults_are_twice_the_batch_within_the_cap(seqs: int, cap: int, top: int) -> None:
    assert graph_sizes(GraphSettings(mode="PIECEWISE", max_num_seqs=seqs, max_num_batched_tokens=8192, cap=cap)).sizes[-1] == top


def test_both_lists_count() -> None:
    found = graph_sizes(GraphSettings(mode="FULL_AND_PIECEWISE", max_num_seqs=20, max_num_batched_tokens=8192, draft=3, capture=160))
    assert found.sizes[-1] == 160
    assert found.count == len(found.sizes) + len([size for size in found.sizes if size <= 80])


def test_no_graphs_and_explicit_ones() -> None:
    assert graph_sizes(GraphSettings(mode="NONE", max_num_seqs=8, max_num_batched_tokens=64)).count == 0
    explicit = GraphSettings(mode="FULL", max_num_seqs=64, max_num_batched_tokens=64, sizes=(64, 8, 8, 1, 128))
    assert graph_sizes(explicit).sizes == (1, 8, 64)


def test_the_largest_batch_is_captured_even_off_the_stride() -> None:
    assert graph_sizes(GraphSettings(mode="FULL", max_num_seqs=99, max_num_batched_tokens=99, capture=200)).sizes[-2:] == (96, 99)


def test_graph_memory_rule() -> None:
    assert graph_memory_gib(1.0, 0.05, 11) == pytest.approx(1.5)
    assert graph_memory_gib(1.0, 0.0, 1025) == pytest.approx(2.0)  # each further graph counts 1 MiB at the least
    assert graph_memory_gib(1.0, 0.05, 0) == 0


def simulated(asked: GraphSettings) -> tuple[list[int], int]:
    """The lists written out: every number of tokens from 1 on is looked at and asked whether vLLM's strides name it."""
    limit = asked.capture if asked.capture is not None else asked.max_num_seqs * (1 + asked.draft) * 2
    if asked.capture is None and limit > asked.cap:
        limit = asked.cap
    sizes = []
    for size in range(1, asked.max_num_batched_tokens + 1):
        on_stride = size in {1, 2, 4} or (asked.fine and size <= 32) or (size < 256 and size % 8 == 0) or (size >= 256 and size % 16 == 0)
        if asked.sizes:
            on_stride, limit = size in asked.sizes, size
        if size <= limit and (on_stride or (size == asked.max_num_batched_tokens and not asked.sizes)):
            sizes.append(size)
    query = 1 + asked.draft
    if asked.mode not in {"NONE", "PIECEWISE"} and query > 1 and sizes:
        top, rounded = max(sizes), []
        for size in sizes:
            up = next(larger for larger in range(size, size + query) if larger % query == 0)
            if up <= top and up not in rounded:
                rounded.append(up)
        sizes = sorted(rounded) or [query for _ in range(1) if query <= top]
    decode = [size for size in sizes if size >= query and size / query <= asked.max_num_seqs]
    return {
        "NONE": ([], 0),
        "PIECEWISE": (sizes, len(sizes)),
        "FULL": (sizes, len(sizes)),
        "FULL_DECODE_ONLY": (decode, len(decode)),
        "FULL_AND_PIECEWISE": (sizes, len(sizes) + len(decode)),
    }[asked.mode]


@given(
    asked=st.builds(
        GraphSettings,
        mode=st.sampled_from(MODES),
        max_num_seqs=st.integers(1, 700),
        max_num_batched_tokens=st.integers(1, 1500),
        draft=st.one_of(st.integers(0, 4), st.integers(0, 70), st.just(1000)),
        capture=st.one_of(st.none(), st.integers(1, 1200)),
        sizes=st.one_of(st.just(()), st.lists(st.integers(1, 900), min_size=1, max_size=8).map(tuple)),
        cap=st.sampled_from([512, 1024]),
        fine=st.booleans(),
    )
)
def test_graphs_are_those_of_a_literal_simulation(asked: GraphSettings) -> None:
    found = graph_sizes(asked)
    assert (list(found.sizes), found.count) == simulated(asked)
    assert (found.number, found.largest) == (len(found.sizes), found.sizes[-1] if found.sizes else 0)


@given(
    mode=st.sampled_from(["FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"]),
    tokens=st.integers(17_000, 30_000),
    draft=st.one_of(st.integers(0, 4), st.integers(0, 70)),
    seqs=st.integers(1, 30_000),
)
@settings(max_examples=30)
def test_more_sizes_than_are_named_are_counted_all_the_same(mode: str, tokens: int, draft: int, seqs: int) -> None:
    asked = GraphSettings(mode=mode, max_num_seqs=seqs, max_num_batched_tokens=tokens, draft=draft, capture=tokens)
    found, (sizes, count) = graph_sizes(asked), simulated(asked)
    assert (list(found.sizes), found.number, found.count) == (sizes[:MAX_NAMED], len(sizes), count)
    assert found.largest == (sizes[-1] if sizes else 0)


def test_a_capture_of_any_size_takes_no_time_and_no_memory() -> None:
    """(10^12 - 256) / 16 strides, 31 eighths and 1, 2, 4."""
    found = graph_sizes(GraphSettings(mode="FULL", max_num_seqs=10**9, max_num_batched_tokens=10**12, capture=10**12))
    assert (found.number, found.count, found.largest, len(found.sizes)) == ((10**12 - 256) // 16 + 1 + 34, found.number, 10**12, MAX_NAMED)
    deep = graph_sizes(GraphSettings(mode="FULL_AND_PIECEWISE", max_num_seqs=10**7, max_num_batched_tokens=2**53, draft=64, capture=2**53))
    assert deep.number == 2**53 // 65
    assert deep.count == deep.number + 10**7
