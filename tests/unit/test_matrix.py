"""What a matrix may say, and what is said when it may not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from recipegen.errors import InputError, Source
from recipegen.matrix import parse_matrix
from recipegen.model import Allowance, Benchmark, Matrix, Role
from recipegen.plan_json import plan_document, recipe_digest
from tests.support import MINIMAL, agg_point, matrix_of, plan_one

LINE = MINIMAL.count("\n") + 1
"""Of the first point."""


def problems_of(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        plan_one(text)
    return [str(problem) for problem in caught.value.problems]


def test_points_get_their_names() -> None:
    matrix = parse_matrix(
        matrix_of(
            '{prefill: 2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [512], time_limit: "1:30:00"}',
            '{prefill: TEP8, decode: tp8, mtp: 1, concurrency: [1, 2, 4], time_limit: "0:30:00"}',
            '{agg: DEP16, concurrency: [8], time_limit: "1-00:00:00"}',
        ),
        "matrix.yaml",
    )
    assert [p.name for p in matrix.points] == ["2xtp2dep4-1xtp4dep4-mtp-cc512", "1xtp8-1xtp8-mtp1-cc1-4", "1xdep16-agg-cc8"]
    assert [p.time_limit_s for p in matrix.points] == [5400, 1800, 86400]
    assert matrix.points[0].sized_for == 512


def test_a_setting_knows_where_its_name_its_value_and_its_keys_stand() -> None:
    head = MINIMAL.replace("points:", "agg:\n  args:\n    eplb_config:\n      window_size: 10\n      a: {b: [1, {c: 2}]}\npoints:")
    line = head[: head.index("eplb_config")].count("\n") + 1
    (setting,) = parse_matrix(matrix_of(agg_point("TP8"), head=head), "m").roles[Role.AGG].args
    assert (setting.name, setting.key_source, setting.source) == ("eplb-config", Source("m", line, 5), Source("m", line + 1, 7))
    assert {place.path: (place.key.line, place.key.column, place.value.column) for place in setting.places} == {
        ("window_size",): (line + 1, 7, 20),
        ("a",): (line + 2, 7, 10),
        ("a", "b"): (line + 2, 11, 14),
        ("a", "b", 0): (line + 2, 15, 15),
        ("a", "b", 1): (line + 2, 18, 18),
        ("a", "b", 1, "c"): (line + 2, 19, 22),
    }
    assert setting.place_of(("a", "b", "c"), key=True) == Source("m", line + 2, 11)
    assert setting.place_of(("other",)) == setting.source
    assert len({setting, setting}) == 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("qwen3.8-2.4t-nvfp4", "qwen3.8-2.4t-nvfp", "no model is called 'qwen3.8-2.4t-nvfp'; did you mean 'qwen3.8-2.4t-nvfp4'?"),
        ("qwen3.8-2.4t-nvfp4", "zzz", "no model is called 'zzz'; known: "),
        ("gb300-nvl72", "gb300-nvl", "no hardware is called 'gb300-nvl'; did you mean 'gb300-nvl72'?"),
    ],
)
def test_a_model_or_hardware_that_there_is_not(old: str, new: str, words: str) -> None:
    (problem,) = problems_of(matrix_of(agg_point("TP8")).replace(old, new))
    assert words in problem


def test_tp_with_and_without_ep_in_one_matrix_are_told_apart() -> None:
    head = MINIMAL.replace("expert_parallel: true", "expert_parallel: false")
    names = [p.name for p in parse_matrix(matrix_of(agg_point("TP8"), agg_point("TEP8"), head=head), "m").points]
    assert names == ["1xtp8-agg-cc64", "1xtep8-agg-cc64"]


def test_a_point_s_word_wins_over_the_role_s_and_common_s() -> None:
    head = MINIMAL.replace(
        "points:",
        "agg:\n  args: {max-num-seqs: 8, stream-interval: 10}\n  derive: {max-num-batched-tokens: max_num_seqs * 2}\n  env: {A: x, B: z}\npoints:",
    )
    point = '{agg: {shape: TP8, args: {max_num_seqs: 50, stream-interval: null}, env: {A: null}}, concurrency: [1], time_limit: "1:00:00"}'
    role = plan_one(matrix_of(point, head=head)).roles[0].recipe
    assert (role.flag("max-num-seqs"), role.flag("max-num-batched-tokens"), role.flag("stream-interval")) == (50, 100, None)
    assert {v.name: v.value for v in role.env if len(v.name) == 1} == {"B": "z"}
    assert "A" in role.unset_env


def test_a_launcher_s_default_gives_way_to_the_recipe() -> None:
    head = MINIMAL.replace("points:", "agg:\n  env: {NCCL_MNNVL_ENABLE: '0', NCCL_CUMEM_ENABLE: null}\npoints:")
    env = {v.name: v.value for v in plan_one(matrix_of(agg_point("TP8"), head=head)).processes[0].env}
    assert env["NCCL_MNNVL_ENABLE"] == "0"
    assert "NCCL_CUMEM_ENABLE" not in env
    assert env["UCX_CUDA_IPC_ENABLE_MNNVL"] == "y"


def test_a_false_flag_is_its_negative() -> None:
    head = MINIMAL.replace("points:", "agg:\n  args: {enable-chunked-prefill: false}\npoints:")
    assert "--no-enable-chunked-prefill" in plan_one(matrix_of(agg_point("TP8"), head=head)).processes[0].argv


@pytest.mark.parametrize(
    ("point", "where", "words"),
    [
        ('{agg: TP4XP2, concurrency: [1], time_limit: "1:00:00"}', (LINE, 11), "did you mean 'TP4DP2'?"),
        ('{agg: {shape: TP4DP2, gpus: 16}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 33), "TP4 x PP1 x DP2 = 8 does not fill them"),
        ('{prefill: TP8, concurrency: [1], time_limit: "1:00:00"}', (LINE, 5), "`prefill` and `decode`, or `agg` alone"),
        ('{prefill: TP8, decode: TP8, agg: TP8, concurrency: [1], time_limit: "1:00:00"}', (LINE, 5), "`agg` alone"),
        ('{agg: TP8, concurrency: [4, 2], time_limit: "1:00:00"}', (LINE, 29), "must rise"),
        ('{agg: TP8, concurrency: [1], time_limit: "1-24:00:00"}', (LINE, 46), "expected H:MM:SS or D-HH:MM:SS"),
        ('{agg: TP8, concurrency: [1], time_limit: "0:00:00"}', (LINE, 46), "zero is no limit for Slurm"),
        ("{agg: TP8, concurrency: [1], time_limit: 1:00:00}", (LINE, 46), "quote"),
        ('{agg: TP8, concurrency: [1], sized_fr: 2, time_limit: "1:00:00"}', (LINE, 34), "did you mean 'sized_for'?"),
        ('{agg: TP8, concurrency: [one], time_limit: "1:00:00"}', (LINE, 30), "integer"),
        ('{agg: {shape: TP8, args: {tensor-parallel-size: 4}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 31), "comes from the topology"),
        ('{agg: {shape: TP8, args: {port: 8000}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 31), "belongs to the launcher"),
        ('{agg: {shape: TP8, args: {no_headless: true}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 31), "belongs to the launcher"),
        ('{agg: {shape: TP8, args: {a_b: 1, a-b: 2}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 39), "the same flag 'a-b'"),
        ('{agg: {shape: TP8, derive: {max-num-seqs: sized / dp}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 47), "unknown name 'sized'"),
        ('{agg: {shape: TP8, derive: {max-num-seqs: 1 / (dp - 1)}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 47), "division by zero"),
        (
            '{agg: {shape: TP8, args: {speculative_config.method: eagle}}, mtp: 3, concurrency: [1], time_limit: "1:00:00"}',
            (LINE, 58),
            "both decide on speculation",
        ),
    ],
)
def test_a_wrong_point_is_named_with_its_place(point: str, where: tuple[int, int], words: str) -> None:
    (problem,) = problems_of(matrix_of(point))
    assert problem.startswith(f"matrix.yaml:{where[0]}:{where[1]}: ")
    assert words in problem


def test_two_points_of_one_name_name_each_other() -> None:
    (problem,) = problems_of(matrix_of(agg_point("TP8"), agg_point("1xTP8")))
    assert f"stands twice, first at matrix.yaml:{LINE}:5" in problem


def test_all_problems_come_at_once() -> None:
    text = matrix_of(agg_point("TP4XP2"), agg_point("TPP8"), head=MINIMAL.replace("model: qwen3.8", "model: qwen3.9"))
    found = problems_of(text)
    assert len(found) == 3
    assert "did you mean 'qwen3.8-2.4t-nvfp4'?" in found[0]


def test_unknown_keys_duplicates_and_old_yaml_come_at_once() -> None:
    text = matrix_of(agg_point("TP8")).replace("isl: 8192", "isl: 010").replace("name: tiny", "name: tiny\nname: other\nfontend: on")
    found = problems_of(text)
    assert len(found) == 3


def test_a_cache_type_of_unknown_size_asks_for_the_block_size() -> None:
    head = MINIMAL.replace("kv-cache-dtype: fp8", "kv-cache-dtype: nvfp4")
    pd = '{prefill: TP4, decode: TP8, concurrency: [1], time_limit: "1:00:00"}'
    (problem,) = problems_of(matrix_of(pd, head=head))
    assert "set block-size on both sides" in problem
    fixed = head.replace("kv-cache-dtype: nvfp4", "kv-cache-dtype: nvfp4, block-size: 2176")
    assert plan_one(matrix_of(pd, head=fixed)).roles[1].recipe.flag("block-size") == 2176


def test_expert_parallelism_by_role() -> None:
    head = MINIMAL.replace("expert_parallel: true", "expert_parallel: {decode: true}")
    plan = plan_one(matrix_of('{prefill: TP8, decode: TP8, concurrency: [1], time_limit: "1:00:00"}', head=head))
    assert {r.layout.role: r.recipe.topology.ep for r in plan.roles} == {Role.PREFILL: False, Role.DECODE: True}
    assert plan.recipe.point == "1xtp8-1xtep8-cc1"


PAIR = '{prefill: 1xTP4, decode: 1xTP4, concurrency: [1], time_limit: "1:00:00"}'


@pytest.mark.parametrize(
    ("point", "switch", "expected"),
    [
        (PAIR, "true", {"prefill"}),
        (PAIR, "{prefill: true}", {"prefill"}),
        (PAIR, "{agg: true, decode: false}", set()),
        (PAIR, "false", set()),
        (agg_point("TP4"), "true", {"agg"}),
        (agg_point("TP4"), "{prefill: true}", set()),
    ],
)
def test_kv_events_are_published_by_prefill_and_aggregated_workers(point: str, switch: str, expected: set[str]) -> None:
    plan = plan_one(matrix_of(point) + f"kv_events: {switch}\n")
    assert {role.layout.role.value for role in plan.roles if role.recipe.kv_events} == expected
    assert plan_document(plan).get("kv_events", []) == sorted(expected)
    assert (recipe_digest(plan) != recipe_digest(plan_one(matrix_of(point)))) is bool(expected)


@pytest.mark.parametrize(
    ("more", "message", "line"),
    [
        ("kv_events: {decode: true}\n", "decode workers publish no KV events", 1),
        (
            "kv_events: true\nprefill: {args: {kv-events-config.publisher: zmq}}\n",
            "'kv-events-config.publisher' of prefill and `kv_events` both decide",
            2,
        ),
        ("kv_events: true\nprefill: {args: {kv_events_config: {publisher: zmq}}}\n", "both decide on KV events", 2),
    ],
)
def test_kv_events_are_decided_once_and_not_for_decode(more: str, message: str, line: int) -> None:
    with pytest.raises(InputError) as refused:
        plan_one(matrix_of(PAIR) + more)
    (problem,) = refused.value.problems
    assert (message in problem.message, problem.rule, problem.source.line) == (True, "kv-events", matrix_of(PAIR).count("\n") + line)


@pytest.mark.parametrize("more", ["prefill: {args: {kv-events-config: null}}", "decode: {args: {kv-events-config.publisher: zmq}}"])
def test_a_flag_for_kv_events_may_stand_where_the_key_decides_nothing(more: str) -> None:
    assert plan_one(matrix_of(PAIR) + f"kv_events: true\n{more}\n").roles[0].recipe.kv_events


# -- benchmark, variants, allow ----------------------------------------------------------------------------------------


def matrix_with(text: str) -> Matrix:
    return parse_matrix(matrix_of(agg_point("TP8")) + text, "m")


def said(benchmark: Benchmark) -> dict[str, Any]:
    """Settings that are not None, without places."""
    return {name: value for name, value in vars(benchmark).items() if value is not None and name not in {"places", "source"}}


STUDY = {
    "type": "sa-bench",
    "endpoint": "/v1/chat/completions",
    "backend": "dynamo",
    "chat_template": True,
    "prompts_per_concurrency": 8,
    "warmup_per_concurrency": 1,
    "request_rate": math.inf,
    "random_range_ratio": 1.0,
}


def test_the_benchmark_left_out_is_the_study_s() -> None:
    benchmark = matrix_with("").benchmark
    assert said(benchmark) == STUDY
    assert (benchmark.places, benchmark.source.file) == ({}, "")


def test_what_a_benchmark_says_wins_over_its_type_s_defaults() -> None:
    matrix = matrix_with("benchmark: {type: sa-bench, request_rate: 2, chat_template: false, tokenizer: null}\n")
    assert said(matrix.benchmark) == STUDY | {"request_rate": 2.0, "chat_template": False}
    line = LINE + 1
    assert matrix.benchmark.places == {"request_rate": Source("m", line, 29), "chat_template": Source("m", line, 46)}
    assert matrix.benchmark.source == Source("m", line, 19)


def test_a_rate_without_limit_is_a_word() -> None:
    assert matrix_with("benchmark: {type: aiperf, request_rate: inf}\n").benchmark.request_rate == math.inf
    with pytest.raises(InputError, match="expected 'inf'"):
        matrix_with("benchmark: {type: aiperf, request_rate: fast}\n")


def test_a_variant_has_the_defaults_of_its_own_type() -> None:
    (variant,) = matrix_with("variants: {accuracy: {benchmark: {type: gsm8k, repeat: 5}}}\n").variants
    assert (variant.name, said(variant.benchmark)) == ("accuracy", {"type": "gsm8k", "repeat": 5})


def test_the_plan_tells_the_benchmark_but_its_digest_does_not_follow_it() -> None:
    text = matrix_of(agg_point("TP8"))
    plain = plan_document(plan_one(text))
    other = plan_document(plan_one(text + "benchmark: {type: gsm8k, num_threads: 64}\nvariants: {load: {benchmark: {type: aiperf}}}\n"))
    assert plain["benchmark"] == STUDY | {"request_rate": "inf"}
    assert other["benchmark"] == {"type": "gsm8k", "num_threads": 64}
    assert other["variants"] == {"load": "aiperf"}
    assert other["recipe_digest"] == plain["recipe_digest"]


def test_allowances_are_kept_with_their_place() -> None:
    matrix = matrix_with("allow:\n  - {rule: pd-tp-ratio, reason: measured so}\n  - {rule: x, reason: why, points: [1xtp8-agg-cc64]}\n")
    assert matrix.allow == (
        Allowance(rule="pd-tp-ratio", reason="measured so", source=Source("m", LINE + 2, 5)),
        Allowance(rule="x", reason="why", points=("1xtp8-agg-cc64",), source=Source("m", LINE + 3, 5)),
    )


def test_an_allowance_for_a_point_that_cannot_be_read_is_not_a_second_problem() -> None:
    (problem,) = problems_of(matrix_of(agg_point("TPX8")) + "allow: [{rule: x, reason: why, points: [1xtp8-agg-cc64]}]\n")
    assert "is not a topology" in problem


@pytest.mark.parametrize(
    "entry", ["{rule: x}", "{rule: x, reason: ''}", "{rule: x, reason: '  '}", "{reason: y}", "{rule: x, reason: y, points: []}"]
)
def test_an_allowance_needs_a_rule_and_a_reason(entry: str) -> None:
    assert problems_of(matrix_of(agg_point("TP8")) + f"allow: [{entry}]\n")
