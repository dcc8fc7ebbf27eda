"""Numbers that nobody would write, in every place of a matrix: each is judged, in little time and memory, and none stops the checks."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipegen.checks.finding import Severity
from recipegen.pipeline import Checked, check_matrix
from recipegen.sizes_json import sizes_document
from recipegen.sizing.choices import explain_choices
from recipegen.sizing.explain import explain_sizes
from recipegen.sizing.graphs import MAX_NAMED

TEXT = (Path(__file__).parents[3] / "recipes/multi-node/Qwen3.8/GB300/8k1k/vllm/disagg/matrix.yaml").read_text()
HEAD, POINTS = TEXT.partition("points:\n")[:2]
MANY = 900_000_000_000

NUMBERS = st.sampled_from(
    [
        *("0", "-1", "-5", "-64", "1", "2", "7", "16", "17", "64", "1000", "8192", "10000000", str(MANY), str(2**53), str(2**53 + 1), str(2**63 - 1)),
        *("0.5", "1.0", "1.5", "-0.5", "1.0e+307", "'1e999'", "'16k'", "'1.5M'", "'9T'", "'99999999999999999999999k'", f"'{'9' * 5000}'"),
        *("null", "true", "[0]", "[-1]", "[1000000000]", "[1, 2, 4]", "[8, 80]", "''", "x"),
    ]
)
FLAGS = st.sampled_from(
    [
        *("max-num-seqs", "max-num-batched-tokens", "max-cudagraph-capture-size", "cudagraph-capture-sizes", "gpu-memory-utilization", "block-size"),
        *("mamba-block-size", "num-gpu-blocks-override", "kv-cache-memory-bytes", "cpu-offload-gb", "decode-context-parallel-size", "spec-tokens"),
        *("compilation-config.max_cudagraph_capture_size", "compilation-config.cudagraph_capture_sizes", "kv-transfer-config.kv_buffer_size"),
        *("speculative-config.num_speculative_tokens", "eplb-config.num_redundant_experts"),
    ]
)
DEEP = ["'" + opens * 3000 + closes * 3000 + "'" for opens, closes in (("[", "]"), ('{"a":', "}"))]
ARGUMENTS = ["speculative-config", "kv-transfer-config", "compilation-config", "attention-config", "eplb-config"]
SHAPES = st.sampled_from(["1xTP8", "1xTP4DP4", "2xTP2DP4", "1xTP1", "1xTP3", "1xTP64", "1xTP512", "1xPP92", "1xPP93", "1xTP2PP2", "1xDP64"])
SIZES = st.sampled_from([0, 1, 2, 64, 8192, 262_144, 10_000_000])


def matrix(*flags: tuple[str, str, str], point: str = "{prefill: 1xTP8, decode: 1xTP8, mtp: 3, concurrency: [4]}", workload: str = "") -> str:
    """The published matrix with one point, and with flags set in a role in the place of its own."""
    text = HEAD
    for role, name, value in flags:
        begin, section, rest = text.partition(f"\n{role}:\n  args:\n")
        own, blank, after = rest.partition("\n\n")
        kept = [line for line in own.splitlines() if not re.match(rf"    {re.escape(name)}: ", line)]
        text = f"{begin}{section}    {name}: {value}\n" + "\n".join(kept) + blank + after
    if workload:
        text = re.sub(r"workload: .*", f"workload: {workload}", text)
    return f'{text}{POINTS}  - {point[:-1]}, time_limit: "1:00:00"}}\n'


def judged(text: str) -> Checked:
    """The findings, and every view of the sizes, in less than a second."""
    began = time.process_time()
    checked = check_matrix(text.encode(), "matrix.yaml")
    for point in checked.points:
        for view in point.roles:
            assert view.sizes is not None
            assert explain_sizes(point.recipe, view.sizes)
            assert json.dumps(sizes_document(view.sizes))
            assert len(view.sizes.graphs.sizes) <= MAX_NAMED
            for room in filter(None, (view.sizes.room_low, view.sizes.room, view.sizes.room_high)):
                assert 0 <= room.requests <= 10**7
        explain_choices(point.recipe)
    check_matrix(text.encode(), "matrix.yaml", simulate=True)
    assert time.process_time() - began < 1
    return checked


@given(
    flags=st.lists(st.tuples(st.sampled_from(["common", "prefill", "decode"]), FLAGS, NUMBERS), min_size=1, max_size=3),
    shapes=st.tuples(SHAPES, SHAPES),
    mtp=st.sampled_from([0, 1, 3, 64]),
    concurrency=st.sampled_from([1, 7, 256, 10_000_000]),
    workload=st.one_of(st.just(""), st.tuples(SIZES, SIZES, SIZES).map(lambda sizes: "{{isl: {}, osl: {}, max_model_len: {}}}".format(*sizes))),
)
@settings(max_examples=200, deadline=None)
def test_absurd_numbers_stop_nothing(flags: list[tuple[str, str, str]], shapes: tuple[str, str], mtp: int, concurrency: int, workload: str) -> None:
    prefill, decode = shapes
    judged(matrix(*flags, point=f"{{prefill: {prefill}, decode: {decode}, mtp: {mtp}, concurrency: [{concurrency}]}}", workload=workload))


@pytest.mark.parametrize("value", DEEP, ids=["lists", "objects"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_deep_json_is_refused_as_such(name: str, value: str) -> None:
    checked = judged(matrix(("common", name, value), ("decode", name, value), point="{prefill: 1xTP8, decode: 1xTP8, concurrency: [4]}"))
    assert [f.rule for f in checked.errors if f.message.startswith(f"'{name}' ")] == ["flag-json", "flag-json"]


def test_deep_overrides_of_the_model_are_judged_too() -> None:
    """Without braces around it, vLLM takes the text for the name of a function."""
    lists, objects = (judged(matrix(("common", "hf-overrides", value))) for value in DEEP)
    assert ({f.rule for f in lists.errors}, {f.rule for f in objects.errors}) == (set(), {"flag-json"})


def test_suffixed_numbers_in_json_hide_nothing_else() -> None:
    config = """'{"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "fail", "kv_buffer_size": 80m}'"""
    plain, suffixed = (judged(matrix(("common", "kv-transfer-config", text))) for text in (config.replace("80m", "80000000"), config))
    assert plain.usable
    assert [f for f in (*plain.findings, *suffixed.findings) if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize(
    "text",
    [
        matrix(point="{prefill: 1xTP8, decode: 1xTP8, mtp: 64, concurrency: [10000000]}"),
        matrix(("decode", "max-num-seqs", "80"), point="{prefill: 1xTP8, decode: 1xTP8, mtp: 3, concurrency: [4], sized_for: 10000000}"),
        matrix(("prefill", "max-num-seqs", str(MANY)), ("prefill", "max-cudagraph-capture-size", str(MANY))),
    ],
)
def test_graphs_of_absurd_batches_are_counted(text: str) -> None:
    assert judged(text).usable


@pytest.mark.parametrize(
    ("flag", "value", "rules"),
    [
        ("gpu-memory-utilization", "1.0e+307", {"flag-range"}),
        ("gpu-memory-utilization", "-1", {"flag-range"}),
        ("kv-cache-memory-bytes", str(MANY * 1000), {"capacity-weights"}),
        ("num-gpu-blocks-override", str(MANY), {"capacity-weights"}),
    ],
)
def test_one_rule_speaks_of_an_absurd_size(flag: str, value: str, rules: set[str]) -> None:
    assert {f.rule for f in judged(matrix(("decode", flag, value))).errors} == rules
