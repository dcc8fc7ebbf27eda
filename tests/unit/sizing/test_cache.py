"""Layout of the cache, in tables and against an allocator that hands out block ids request by request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipegen.sizing.cache import CacheSettings, cache_groups, cache_room, cache_sizes, linear_blocks, study_request_mib
from recipegen.sizing.sizes import CacheSizes
from recipegen.sizing.state import CacheDtypes
from tests.unit.sizing.models import DEEPSEEK, PLAIN, QWEN, STUDY

MIB = 2**20
STUDIED = CacheSettings(tp=4, pp=1, block=2176, max_model_len=10240, draft=3, extra_layers=1, cache_mode="none", dtypes=STUDY)


@pytest.mark.parametrize(
    ("attention", "linear", "groups"),
    [
        (23, 69, (1, 3, 23, 0)),
        (24, 69, (1, 3, 24, 3)),  # vLLM's log: "Add 3 padding layers"
        (13, 12, (1, 1, 13, 1)),  # less than 1.5 times as many: the larger number
        (20, 30, (1, 2, 20, 10)),
        (24, 8, (3, 1, 8, 0)),
        (80, 0, (1, 0, 80, 0)),
        (0, 48, (0, 1, 48, 0)),
    ],
)
def test_cache_groups(attention: int, linear: int, groups: tuple[int, ...]) -> None:
    found = cache_groups(attention, linear)
    assert (found.attention, found.linear, found.layers, found.padding) == groups


def test_a_pipeline_stage_has_its_share_of_every_group_rounded_up() -> None:
    assert cache_groups(23, 69, pp=6).layers == 4
    assert cache_groups(80, 0, pp=3).layers == 27


@pytest.mark.parametrize(("mode", "blocks"), [("none", 4), ("align", 5), ("all", 8)])
def test_linear_blocks_by_cache_mode(mode: str, blocks: int) -> None:
    assert linear_blocks(10240, block=2176, draft=3, cache_mode=mode) == blocks


@pytest.mark.parametrize(
    ("tp", "draft", "block", "page_mib", "layers", "blocks", "mib"),
    [
        (4, 0, 2112, 1.03125, 23, 8, 189.75),
        (4, 3, 2176, 1.0625, 24, 17, 433.5),
        (2, 3, 2176, 2.125, 24, 17, 867),
        (8, 3, 1088, 0.53125, 24, 22, 280.5),
        (8, 3, 2176, 1.0625, 24, 17, 433.5),
    ],
)
def test_a_request_of_the_studied_model(tp: int, draft: int, block: int, page_mib: float, layers: int, blocks: int, mib: float) -> None:
    settings = replace(STUDIED, tp=tp, draft=draft, block=block, extra_layers=1 if draft else 0)
    cache = cache_sizes(QWEN, settings)
    assert (cache.page_bytes / MIB, cache.layers, cache.blocks_per_request, cache.request_mib) == (page_mib, layers, blocks, mib)


def test_the_studys_own_request_is_759_mib() -> None:
    assert study_request_mib(QWEN, max_model_len=10240, dtypes=STUDY) == 759


def test_plain_models_have_one_group_with_the_mtp_layer_in_it() -> None:
    plain = cache_sizes(
        PLAIN, CacheSettings(tp=8, pp=1, block=16, max_model_len=10240, draft=0, extra_layers=0, cache_mode="align", dtypes=CacheDtypes())
    )
    assert (plain.attention_groups, plain.linear_groups, plain.layers, plain.blocks_per_request) == (1, 0, 80, 640)
    latent = CacheSettings(tp=8, pp=1, block=32, max_model_len=4096, draft=1, extra_layers=1, cache_mode="none", dtypes=CacheDtypes(kv="fp8"))
    found = cache_sizes(DEEPSEEK, latent)
    assert (found.layers, found.page_bytes, found.blocks_per_request) == (62, 32 * 576, 128)


def test_the_null_block_counts_for_concurrency_and_not_for_requests() -> None:
    cache = CacheSizes(
        attention_groups=1,
        linear_groups=0,
        layers=1,
        padding_layers=0,
        page_bytes=2**20,
        blocks_per_request=8,
        workload_tokens=100,
        workload_blocks=4,
    )
    room = cache_room(cache, kv_gib=1.0, study_mib=759)
    assert (room.blocks, room.concurrency, room.requests, room.workload_requests) == (1024, 128.0, 127, 255)
    assert cache_room(cache, kv_gib=0.0, study_mib=759).requests == 0


class Pool:
    """A pool of block ids as an engine has it, worked token by token.

    Id 0 is the null block. `full` groups take an id when a token begins a block; `states` groups hold a number of ids from the
    first token on, and one for each block in cache mode `all`. Groups are said by the test, not by the code under test.
    """

    def __init__(self, size: int, *, block: int, full: int, states: int, held: int, per_block: bool) -> None:
        self.free = list(range(1, size))
        self.block, self.full, self.states, self.held, self.per_block = block, full, states, held, per_block

    def admit(self, tokens: int) -> bool:
        """Take the ids of one more request, decoded to its last token; refused as soon as one is missing."""
        for _ in range(self.states * self.held):
            if not self._take():
                return False
        for _ in range(0, tokens, self.block):
            for _ in range(self.full + (self.states if self.per_block else 0)):
                if not self._take():
                    return False
        return True

    def _take(self) -> bool:
        if not self.free:
            return False
        assert self.free.pop() != 0
        return True

    def fill(self, tokens: int) -> int:
        admitted = 0
        while self.admit(tokens):
            admitted += 1
        return admitted


LAYOUTS = st.builds(
    CacheSettings,
    tp=st.sampled_from([1, 2, 4, 8]),
    pp=st.just(1),
    block=st.integers(1, 300).map(lambda n: 16 * n),
    max_model_len=st.integers(1, 60_000),
    draft=st.integers(0, 5),
    extra_layers=st.integers(0, 1),
    cache_mode=st.sampled_from(["none", "align", "all"]),
    dtypes=st.just(STUDY),
)
GROUPS = {"qwen": (1, 3, {0: 23, 1: 24}, 4), "plain": (1, 0, {0: 80, 1: 81}, 8)}
"""Groups of full attention and of states, layers of a block id by MTP layers, KV heads: vLLM's log for the studied model, one group else."""


@given(settings=LAYOUTS, kv_mib=st.integers(0, 20_000), name=st.sampled_from(["qwen", "plain"]))
def test_requests_that_fit_are_those_an_allocator_admits(settings: CacheSettings, kv_mib: int, name: str) -> None:
    model, (full, states, layers, heads) = {"qwen": QWEN, "plain": PLAIN}[name], GROUPS[name]
    room = cache_room(cache_sizes(model, settings), kv_gib=kv_mib / 1024, study_mib=759)
    block_id = settings.block * max(1, heads // settings.tp) * 2 * model.attention.head_dim * layers[settings.extra_layers]  # fp8: a byte each
    size = kv_mib * MIB // block_id
    held = settings.draft + {"none": 1, "align": 2, "all": 0}[settings.cache_mode]
    pool = Pool(size, block=settings.block, full=full, states=states, held=held, per_block=settings.cache_mode == "all")
    assert room.blocks == size
    assert room.requests == pool.fill(settings.max_model_len)
    blocks = -(-settings.max_model_len // settings.block) * full + states * (
        held + (-(-settings.max_model_len // settings.block) if pool.per_block else 0)
    )
    assert room.concurrency == pytest.approx(size / blocks)


SLIDING = replace(PLAIN, attention=replace(PLAIN.attention, layers=36, sliding_layers=18, window=128, head_dim=64))
SLIDES = CacheSettings(
    tp=8,
    pp=1,
    block=16,
    max_model_len=4096,
    workload_tokens=1088,
    batched_tokens=1024,
    draft=0,
    extra_layers=0,
    cache_mode="none",
    dtypes=CacheDtypes(),
)


def test_sliding_windows_as_vllms_hybrid_cache_manager_has_them() -> None:
    """Half of 36 layers keep 128 tokens: two groups of 18, of which one reserves ceil((127 + 1024) / 16) + 1 = 73 blocks."""
    found = cache_sizes(SLIDING, SLIDES)
    assert (found.attention_groups, found.sliding_groups, found.layers, found.blocks_per_request) == (1, 1, 18, 256 + 73)
    assert found.workload_blocks == 68 + 9
    assert not found.lower_bound
    off = cache_sizes(SLIDING, replace(SLIDES, windows=False))
    assert (off.attention_groups, off.sliding_groups, off.layers, off.blocks_per_request) == (1, 0, 36, 256)
    unknown = cache_sizes(replace(SLIDING, attention=replace(SLIDING.attention, window=0)), SLIDES)
    assert (unknown.layers, unknown.lower_bound) == (36, True)
    assert cache_sizes(SLIDING, replace(SLIDES, sure=False)).lower_bound


@given(tokens=st.integers(1, 700), block=st.sampled_from([16, 32, 64]), window=st.integers(1, 300))
def test_a_decoding_request_holds_its_window(tokens: int, block: int, window: int) -> None:
    """Token by token: a block is taken when a token begins it, and given back when no token of the window lies in it any more."""
    held: set[int] = set()
    peak = 0
    for position in range(tokens):
        held.add(position // block)
        held -= {index for index in held if (index + 1) * block <= position - window + 1}
        peak = max(peak, len(held))
    model = replace(SLIDING, attention=replace(SLIDING.attention, window=window))
    found = cache_sizes(model, replace(SLIDES, block=block, workload_tokens=tokens))
    assert peak <= found.workload_blocks - -(-tokens // block) <= peak + 1


@given(settings=LAYOUTS, kv=st.floats(0, 300), more=st.floats(0, 50))
def test_more_cache_never_holds_fewer_requests(settings: CacheSettings, kv: float, more: float) -> None:
    cache = cache_sizes(QWEN, settings)
    assert cache_room(cache, kv_gib=kv + more, study_mib=759).requests >= cache_room(cache, kv_gib=kv, study_mib=759).requests


@given(settings=LAYOUTS, longer=st.integers(0, 30_000), deeper=st.integers(0, 3), kv=st.floats(0, 300))
def test_longer_or_deeper_requests_are_never_more(settings: CacheSettings, longer: int, deeper: int, kv: float) -> None:
    more = replace(settings, max_model_len=settings.max_model_len + longer, draft=settings.draft + deeper)
    rooms = [cache_room(cache_sizes(QWEN, s), kv_gib=kv, study_mib=759) for s in (settings, more)]
    assert rooms[1].requests <= rooms[0].requests
    assert rooms[1].blocks == rooms[0].blocks


@given(attention=st.integers(0, 100), linear=st.integers(0, 100))
def test_groups_hold_every_layer_once(attention: int, linear: int) -> None:
    found = cache_groups(attention, linear)
    assert (found.attention + found.linear) * found.layers == attention + linear + found.padding
    assert found.attention * found.layers >= attention
    assert found.linear * found.layers >= linear
    assert (found.attention > 0, found.linear > 0) == (attention > 0, linear > 0)
