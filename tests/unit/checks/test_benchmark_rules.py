"""What the rules over benchmarks say, and where."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import get_args

import pytest

from recipegen import benchmarks
from recipegen.benchmarks import SETTINGS, benchmark_settings, make_benchmark
from recipegen.checks.benchmark_rules import CLUSTER_RULES, POINT_RULES
from recipegen.checks.views import ClusterView
from recipegen.clusters import ClusterProfile, parse_profile
from recipegen.errors import Source
from recipegen.matrix_schema import BenchmarkSchema
from tests.unit.checks.views_for_tests import HEAD, POINT, pair, points_of

PROFILE = "schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /runs\n"
OFFLINE = "environment: {HF_HUB_OFFLINE: 1, HF_HOME: /hf}\n"


def say(benchmark: str, *, point: str = POINT, variants: str = "") -> list[str]:
    """Severity and rule of everything that is found of `benchmark: {...}` below the points, and the word to which it points."""
    text = f"{HEAD}  - {point}\n" + (f"benchmark: {benchmark}\n" if benchmark else "") + (f"variants: {variants}\n" if variants else "")
    (view,) = points_of(text)
    findings = [finding for rule in POINT_RULES for finding in rule.findings(view)]
    return [f"{f.severity.value} {f.rule} {word_at(text, f.source)}" for f in findings]


def word_at(text: str, source: Source) -> str:
    return re.split(r"[:,} ]", text.splitlines()[source.line - 1][source.column - 1 :])[0]


@pytest.mark.parametrize(
    ("benchmark", "expected"),
    [
        ("", []),
        ("{type: sa-bench}", []),
        ("{type: sa-bench, endpoint: /v1/chat/completions, chat_template: true, prompts_per_concurrency: 8, request_rate: inf}", []),
        ("{type: sa-bench, tokenizer_class: a.b.C, tokenizer: org/name, backend: dynamo, dataset: random, reuse_connections: true}", []),
        ("{type: aiperf, prompts_per_concurrency: 4}", []),
        ("{type: mooncake-router, mooncake_workload: conversation, ttft_threshold_ms: 2000, itl_threshold_ms: 25}", []),
        ("{type: trace-replay, trace_file: /traces/a.jsonl}", []),
        ("{type: gsm8k, num_examples: 1319, num_threads: 128, num_shots: 5, max_tokens: 16384, repeat: 5, temperature: 0, top_k: -1}", []),
        ("{type: longbenchv2, max_context_length: 8000, categories: [qa]}", []),
        ("{type: aiperf, chat_template: true}", ["error benchmark-field chat_template"]),
        ("{type: gsm8k, request_rate: inf}", ["error benchmark-field request_rate"]),
        ("{type: manual, repeat: 5}", ["error benchmark-field repeat"]),
        ("{type: trace-replay}", ["error benchmark-type trace-replay"]),
        ("{type: sa-bench, endpoint: /v1/completions}", ["warning benchmark-endpoint endpoint"]),
        ("{type: aiperf, endpoint: /v1/completions}", ["warning benchmark-endpoint endpoint"]),
        ("{type: sa-bench, chat_template: false}", ["warning benchmark-endpoint chat_template"]),
        ("{type: sa-bench, prompts_per_concurrency: 0.5}", ["error benchmark-prompts prompts_per_concurrency"]),
        ("{type: sa-bench, prompts_per_concurrency: 1}", ["warning benchmark-few-prompts prompts_per_concurrency"]),
        ("{type: sa-bench, prompts_per_concurrency: 3}", ["warning benchmark-few-prompts prompts_per_concurrency"]),
        ("{type: gsm8k, num_threads: 129}", ["warning benchmark-concurrency num_threads"]),
        ("{type: sa-bench, request_rate: 2.5}", ["note benchmark-rate request_rate"]),
        ("{type: sa-bench, random_range_ratio: 0.8}", ["note benchmark-range-ratio random_range_ratio"]),
    ],
)
def test_a_benchmark_and_what_is_said_of_it(benchmark: str, expected: list[str]) -> None:
    assert say(benchmark) == expected


def test_without_speculation_any_endpoint_will_do() -> None:
    assert say("{type: sa-bench, endpoint: /v1/completions, chat_template: false}", point=pair(mtp=0)) == []


def test_variants_are_looked_at_too() -> None:
    assert say("", variants="{accuracy: {benchmark: {type: mmlu, num_shots: 5}}}") == ["error benchmark-field num_shots"]


def test_a_session_for_each_request_is_worth_a_note_at_a_high_concurrency() -> None:
    point = pair(concurrency=1024)
    assert say("{type: sa-bench}", point=point) == ["note benchmark-session sa-bench"]
    assert say("", point=point) == ["note benchmark-session {prefill"]
    assert say("{type: sa-bench, reuse_connections: true}", point=point) == []


def test_an_unread_setting_comes_with_a_near_match_or_the_list() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\nbenchmark: {{type: gsm8k, trace_file: x, num_shots: 1}}\n")
    (finding,) = (f for rule in POINT_RULES for f in rule.findings(view))
    assert finding.message == "a benchmark of type gsm8k does not read 'trace_file'"
    assert finding.mend.startswith("it takes max_tokens, num_examples")


def test_an_unknown_type_that_an_importer_may_bring_is_named() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n")
    view = replace(view, recipe=replace(view.recipe, benchmark=make_benchmark("sa_bench", {"repeat": 2})))
    (finding,) = (f for rule in POINT_RULES for f in rule.findings(view))
    assert (finding.rule, finding.mend) == ("benchmark-type", "did you mean 'sa-bench'?")


# -- on a cluster ------------------------------------------------------------------------------------------------------


def on_cluster(benchmark: str, profile: ClusterProfile) -> list[str]:
    text = f"{HEAD}  - {POINT}\nbenchmark: {benchmark}\n"
    (view,) = points_of(text)
    cluster = ClusterView(point=view, profile=profile, profile_source=Source("oslo.yaml"))
    return [f"{f.severity.value} {f.rule} {word_at(text, f.source)}" for rule in CLUSTER_RULES for f in rule.findings(cluster)]


@pytest.mark.parametrize(
    ("benchmark", "profile", "expected"),
    [
        ("{type: sa-bench, tokenizer: org/name}", "", []),
        ("{type: sa-bench}", OFFLINE, []),
        ("{type: sa-bench, tokenizer: /models/name}", OFFLINE, []),
        ("{type: sa-bench, tokenizer: org/name}", OFFLINE, ["warning benchmark-tokenizer tokenizer"]),
        ("{type: sa-bench, tokenizer: org/name}", OFFLINE + "models: {org/name: /models/name}\n", []),
        ("{type: aiperf}", OFFLINE, ["warning benchmark-offline aiperf"]),
        ("{type: gsm8k}", OFFLINE, ["warning benchmark-offline gsm8k"]),
        ("{type: gsm8k}", "environment: {HF_HUB_OFFLINE: 0}\n", []),
    ],
)
def test_tokenizers_and_questions_must_be_at_hand(benchmark: str, profile: str, expected: list[str]) -> None:
    assert on_cluster(benchmark, parse_profile(PROFILE + profile, "oslo.yaml")) == expected


# -- the data behind ---------------------------------------------------------------------------------------------------


def test_the_schema_and_the_table_have_the_same_types_and_settings() -> None:
    fields = BenchmarkSchema.model_fields
    assert set(get_args(fields["type"].annotation)) == set(SETTINGS)
    assert {name for settings in SETTINGS.values() for name in settings} == set(fields) - {"type"}


def test_every_setting_of_the_table_makes_a_benchmark() -> None:
    for kind, settings in SETTINGS.items():
        assert make_benchmark(kind, {}).type == kind
        assert set(benchmark_settings(make_benchmark(kind, {}))) == {"type", *(name for name, value in settings.items() if value is not None)}
    with pytest.raises(TypeError):
        make_benchmark("sa-bench", {"isl": 8192})


def test_a_rate_without_limit_is_a_text_in_json() -> None:
    assert make_benchmark("sa-bench", {}).request_rate == math.inf
    assert benchmark_settings(make_benchmark("sa-bench", {}))["request_rate"] == "inf"
    assert set(benchmarks.LOAD_TYPES + benchmarks.ACCURACY_TYPES) < set(SETTINGS)
