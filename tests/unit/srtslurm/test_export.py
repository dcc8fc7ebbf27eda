"""A point out and in again: nothing is lost, the published leaf and generated matrices; and what cannot be said is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recipegen.benchmarks import benchmark_settings
from recipegen.errors import InputError
from recipegen.launch import LaunchPlan
from recipegen.model import Recipe
from recipegen.pipeline import plan_matrix
from recipegen.srtslurm.export import FORMS, export_files, export_point, is_export
from recipegen.srtslurm.export_text import SrtDocument, document_text
from recipegen.srtslurm.run import RecipeFile, import_files
from recipegen.yamlsource import parse_yaml
from tests.support import agg_point, matrix_of, plan_one, published_plans


def back(texts: Sequence[str]) -> list[LaunchPlan]:
    """The plans of recipes that are imported together."""
    made = import_files([RecipeFile(file=f"{n}.yaml", folder="", data=text.encode()) for n, text in enumerate(texts)])
    assert not [str(problem) for report in made.reports for one in report.refused for problem in one.problems]
    return [plan for name, text in made.matrices.items() for plan in plan_matrix(text, name)]


def content(recipe: Recipe) -> dict[str, Any]:
    """All that decides what runs and what is measured; flags as the engine's words."""
    hardware, workload, runtime, job = recipe.hardware, recipe.workload, recipe.runtime, recipe.job
    return {
        "name": recipe.name,
        "model": (recipe.model.repo, recipe.model.revision, recipe.model.served_name),
        "hardware": (hardware.key, hardware.gpus_per_node),
        "workload": (workload.isl, workload.osl, workload.max_model_len if workload.stated else None),
        "runtime": (runtime.image, runtime.vllm, runtime.dynamo),
        "load": (recipe.mtp, recipe.concurrency, recipe.time_limit_s, recipe.colocate),
        "roles": {
            role.role: (role.workers, role.topology, role.kv_events, sorted(f.words for f in role.flags), sorted((e.name, e.value) for e in role.env))
            for role in recipe.roles
        },
        "benchmark": benchmark_settings(recipe.benchmark),
        "job": (job.setup_script, dict(job.sbatch), job.srun, job.dedicated_node, job.ready_s, sorted(f.words for f in job.frontend_args)),
        "front ends": (job.front_ends, job.nginx_image, job.session_header, sorted((e.name, e.value) for e in job.frontend_env)),
    }


@pytest.mark.parametrize("form", ["srt-slurm", "srt-slurm-v1"])
def test_the_published_leaf_comes_back(form: str) -> None:
    plans = published_plans()
    found = {plan.recipe.point: content(plan.recipe) for plan in back([export_point(plan, form) for plan in plans])}
    assert found == {plan.recipe.point: content(plan.recipe) for plan in plans}


# -- generated matrices ------------------------------------------------------------------------------------------------

WORDS = st.text("abcXYZ019 ._:/@{}[]#&*!|>%'\"\\$~é\u00a0\U0001f600-", min_size=1, max_size=12).filter(lambda text: "{node" not in text)
CONFUSED = st.sampled_from(
    [
        "yes",
        "No",
        "on",
        "null",
        "~",
        "1:30:00",
        "010",
        "1_000",
        "1e3",
        "true",
        "-",
        "? x",
        "a: b",
        "a #b",
        "2026-01-01",
        "inf",
        ".inf",
        "{}",
        "[",
        "--",
    ]
)
TEXTS = WORDS | CONFUSED
FLAG_VALUES: st.SearchStrategy[Any] = st.one_of(
    TEXTS.filter(lambda text: text.strip() == text),
    st.integers(-5, 10**6),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.booleans(),
    st.lists(st.integers(1, 9) | st.sampled_from(["a", "yes", "1"]), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["mode", "on", "1"]), TEXTS | st.integers(0, 9) | st.booleans() | st.none(), max_size=2),
)
FLAGS = st.dictionaries(
    st.sampled_from(["max-num-seqs", "kv-cache-dtype", "compilation-config", "attention-config.backend_name", "x-y", "generation-config", "stream-interval"]),
    FLAG_VALUES, max_size=4,
)  # fmt: skip
ENV = st.dictionaries(st.sampled_from(["DYN_LOG", "A", "NCCL_MNNVL_ENABLE", "no"]), TEXTS, max_size=3)
TOPOLOGIES = st.sampled_from(["1xTP4", "2xTP2", "1xTP2DP4", "1xDEP8", "1xTP8", "1xTP1PP6", "3xTP1", "1xTEP4", "1xTP16", "1xTP8DP2"])
ONE_NODE = st.sampled_from(["1xTP1", "3xTP1", "2xTP2", "1xTP3", "1xTP4", "5xTP2", "1xTP2DP2"])
BENCHMARKS = st.sampled_from(
    [
        {},
        {"type": "sa-bench", "endpoint": "/v1/completions", "prompts_per_concurrency": 10, "chat_template": False, "request_rate": 2.5},
        {"type": "sa-bench", "tokenizer_class": "a.b.C", "dataset": "random", "dataset_path": "/data/x", "reuse_connections": True},
        {"type": "sa-bench", "tokenizer": "org/tok", "backend": "vllm", "random_range_ratio": 0, "warmup_per_concurrency": 0},
        {"type": "gsm8k", "num_examples": 10, "temperature": 0.0, "top_p": 0.5, "top_k": -1, "num_shots": 0},
        {"type": "mooncake-router", "ttft_threshold_ms": 200, "itl_threshold_ms": 2.5},
        {"type": "trace-replay", "trace_file": "/t.jsonl"},
        {"type": "longbenchv2", "categories": ["a", "yes"], "max_context_length": 1000},
        {"type": "manual"},
    ]
)
DYNAMOS = st.sampled_from(
    [
        {"version": "1.2.1"},
        {"version": "1.2.1", "install": "pip", "request_plane": "nats"},
        {"version": "1.3.0", "install": "git", "source": "https://github.com/ai-dynamo/dynamo.git@" + "a" * 40},
        {"version": "1.3.0", "install": "git", "source": "https://github.com/ai-dynamo/dynamo.git"},
    ]
)
MODELS = st.sampled_from(
    [
        "qwen3.8-2.4t-nvfp4",
        {"repo": "org/Model", "revision": "0" * 40, "served_name": "org/Model"},
        {"repo": "org/Model", "served_name": "Model", "architecture": "qwen3.8-2.4t-nvfp4"},
        {"repo": "an-alias", "served_name": "name:of@it"},
        {"repo": "/models/on"},
    ]
)


FRONT_ENDS: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"env": {"DYN_LOG": "debug", "A": "yes"}},
        {"replicas": 10},
        {"replicas": 2, "nginx_image": "/images/nginx.sqsh", "session_header": "X-Dynamo-Session-ID"},
        {"replicas": 64, "session_header": "X-Mine", "env": {"A": "$x"}},
    ]
)


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, Any]:
    role = st.fixed_dictionaries({"args": FLAGS, "env": ENV})
    length = draw(st.sampled_from([{}, {"max_model_len": 10240}]))
    agg = draw(st.booleans())
    shapes = {"agg": draw(TOPOLOGIES)} if agg else {"prefill": draw(TOPOLOGIES), "decode": draw(TOPOLOGIES)}
    if not agg and draw(st.booleans()):
        shapes = {"prefill": draw(ONE_NODE), "decode": draw(ONE_NODE), "colocate": True}
    limit = f"{draw(st.integers(1, 400))}:{draw(st.integers(0, 59)):02d}:{draw(st.integers(0, 59)):02d}"
    loads = draw(
        st.lists(
            st.lists(st.integers(1, 4096), min_size=1, max_size=3, unique=True).map(sorted),
            min_size=1,
            max_size=2,
            unique_by=lambda one: (one[0], one[-1]),
        )
    )
    head = {
        "schema": "recipegen/v1", "name": draw(st.sampled_from(["on", "tiny", "a-1.5b_x"])), "model": draw(MODELS),
        "hardware": draw(st.sampled_from(["gb300-nvl72", "h100", {"type": "gb200-nvl72", "gpus_per_node": 8}])),
        "workload": {"isl": draw(st.sampled_from([1024, 8192])), "osl": 1024, **length},
        "runtime": {"image": draw(st.sampled_from(["vllm/vllm-openai:v0.28.0", "./x.sqsh", "on"])), **draw(st.sampled_from([{}, {"vllm": "0.28.0"}])), "dynamo": draw(DYNAMOS)},
        "expert_parallel": draw(st.booleans()), "common": draw(role),
        "points": [{**shapes, "mtp": draw(st.sampled_from([0, 0, 3])), "concurrency": load, "time_limit": limit} for load in loads],
    }  # fmt: skip
    head |= {("agg" if agg else "decode"): draw(role)}
    head |= draw(st.sampled_from([{}, {}, {"kv_events": True}, {"kv_events": {"prefill": True}}, {"kv_events": {"agg": True, "decode": False}}]))
    head |= draw(st.sampled_from([{}, {"infra": {"dedicated_node": True}, "deadlines": {"ready": 3601}}, {"deadlines": {"ready": 3600}}]))
    head |= draw(
        st.sampled_from(
            [{}, {"setup_script": "install-deps.sh", "frontend": {"args": {"router-mode": "kv", "a": True, "b": 1.5}, **draw(FRONT_ENDS)}}]
        )
    )
    head |= draw(
        st.sampled_from(
            [{}, {"slurm": {"sbatch": {"mem": "0", "cpus-per-task": 72, "spread-job": True}, "srun": ["--mem-bind=local", "--quit-on-interrupt"]}}]
        )
    )
    return head | ({"benchmark": benchmark} if (benchmark := draw(BENCHMARKS)) else {})


def planned(matrix: dict[str, Any]) -> list[LaunchPlan]:
    return plan_matrix(json.dumps(matrix, ensure_ascii=False).encode(), "matrix.yaml")


NEGATIVE_DTYPE = {
    "schema": "recipegen/v1", "name": "tiny", "model": "qwen3.8-2.4t-nvfp4", "hardware": "gb300-nvl72", "workload": {"isl": 1024, "osl": 1024},
    "runtime": {"image": "on", "dynamo": {"version": "1.2.1"}}, "decode": {"args": {"kv-cache-dtype": False}},
    "points": [{"prefill": "1xTP4", "decode": "1xTP8", "concurrency": [1], "time_limit": "1:00:00"}],
}  # fmt: skip
"""A flag that the engine does not have decided on block sizes, but not any more when it came back as `no-kv-cache-dtype: true`."""
GENERATED = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def exported(matrix: dict[str, Any], form: str) -> tuple[list[LaunchPlan], list[str]]:
    """The points of a matrix that srtctl can be told of, and their exports; none of what is no matrix of ours."""
    try:
        plans = planned(matrix)
    except InputError:
        return [], []
    found = export_files(plans, form)
    assert {problem.rule for problems in found.unsaid.values() for problem in problems} <= {"export-placement"}
    kept = [plan for plan in plans if plan.recipe.point not in found.unsaid]
    return kept, [data.decode() for data in found.files.values()]


@GENERATED
@given(matrices())
@example(NEGATIVE_DTYPE)
def test_what_is_exported_and_imported_is_the_same(matrix: dict[str, Any]) -> None:
    plans, texts = exported(matrix, "srt-slurm")
    assert [content(plan.recipe) for plan in back(texts)] == [content(plan.recipe) for plan in plans]
    assert [yaml.safe_load(text) for text in texts] == [parse_yaml(text, "").root.data for text in texts]


@GENERATED
@given(matrices())
@example(NEGATIVE_DTYPE)
def test_the_second_layout_says_the_same(matrix: dict[str, Any]) -> None:
    """But where a benchmark sends its requests, and lengths and load of one that brings its own: that has no key there."""
    plans, texts = exported(matrix, "srt-slurm-v2")
    found, wished = ([without_what_v2_lacks(content(plan.recipe)) for plan in ones] for ones in (back(texts), plans))
    key = json.dumps
    assert sorted(found, key=lambda one: key(one, default=str)) == sorted(wished, key=lambda one: key(one, default=str))


def without_what_v2_lacks(found: dict[str, Any]) -> dict[str, Any]:
    benchmark = {name: value for name, value in found["benchmark"].items() if name not in {"backend", "endpoint"}}
    changed = {**found, "benchmark": benchmark, "roles": {role.value: shape for role, shape in found["roles"].items()}}
    if benchmark["type"] == "sa-bench":
        return changed
    return {**changed, "name": "", "workload": found["workload"][2:], "load": found["load"][::2]}


# -- what stands in a file ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_the_same_plan_gives_the_same_text_and_it_is_known_as_ours(form: str) -> None:
    plan = published_plans()[0]
    text = export_point(plan, form)
    assert text == export_point(plan, form)
    assert is_export(text.encode())
    assert "/" not in text.splitlines()[0].removeprefix("#!/usr/bin/env bash")
    folder = FORMS[form].folder
    assert list(export_files([plan], form).files) == [f"{folder}/{plan.recipe.point}{FORMS[form].ending}"]


def test_a_file_of_somebody_else_is_not_ours() -> None:
    assert not is_export(b"name: x\n# generated by\n")
    assert not is_export(b"a: 1\nb: 2\nc: 3\n# generated by recipegen export\n")


@given(st.recursive(st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9, width=16) | st.text() | CONFUSED, lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(min_size=1), one, max_size=3), max_leaves=6))  # fmt: skip
def test_any_value_is_read_back(value: Any) -> None:
    assert yaml.safe_load(document_text(SrtDocument(fields={"a": value, "b": {"c": value}}), ())) == {"a": value, "b": {"c": value}}


def loaded(plan: LaunchPlan, form: str = "srt-slurm") -> Any:
    return yaml.safe_load(export_point(plan, form))


TINY = matrix_of('{prefill: 1xTP4, decode: 1xTP4, concurrency: [4], time_limit: "1:00:00"}')


@pytest.mark.parametrize(
    ("lines", "path", "value"),
    [
        ("deadlines: {ready: 3600}", "health_check", {"max_attempts": 360, "interval_seconds": 10}),
        ("deadlines: {ready: 3601}", "health_check", {"max_attempts": 3601, "interval_seconds": 1}),
        ("infra: {dedicated_node: true}", "infra", {"etcd_nats_dedicated_node": True}),
        ('slurm: {sbatch: {mem: "0", spread-job: true}}', "sbatch_directives", {"mem": "0", "spread-job": ""}),
        ("slurm: {srun: [--mem-bind=a=b, --quit-on-interrupt]}", "srun_options", {"mem-bind": "a=b", "quit-on-interrupt": ""}),
        ("setup_script: x/y.sh", "setup_script", "x/y.sh"),
        ("frontend: {args: {a: true}}", "frontend", {"type": "dynamo", "enable_multiple_frontends": False, "args": {"a": True}}),
        ("frontend: {env: {A: b}}", "frontend.env", {"A": "b"}),
        ("kv_events: true", "backend.kv_events_config", {"prefill": True}),
        ("kv_events: {agg: true}", "backend.kv_events_config", None),
        ("frontend: {replicas: 9}", "frontend", {"type": "dynamo", "enable_multiple_frontends": True, "num_additional_frontends": 8}),
        ("frontend: {replicas: 9, nginx_image: 'x:1'}", "frontend.nginx_container", "x:1"),
        ("frontend: {replicas: 9, session_header: X-A}", "frontend.nginx_session_affinity", True),
        ("frontend: {replicas: 9, session_header: X-A}", "frontend.nginx_session_affinity_header", "X-A"),
        ('carried: {model.precision: "fp4, mixed", "slurm.account": a}', "model.precision", "fp4, mixed"),
        ("carried: {telemetry: {enabled: true}}", "telemetry", {"enabled": True}),
        ("carried: {benchmark.type: custom, benchmark.command: run it}", "benchmark.command", "run it"),
        ("carried: {engine.vllm_serve_binary: vllm}", "backend.vllm_serve_binary", "vllm"),
        ("decode: {args: {async-scheduling: false}}", "backend.vllm_config.decode.no-async-scheduling", True),
        ("benchmark: {type: sa-bench, endpoint: /v1/completions}", "benchmark.endpoint", None),
        ("benchmark: {type: sa-bench, endpoint: /v1/completions, backend: vllm}", "benchmark.endpoint", "/v1/completions"),
    ],
)
def test_settings_stand_where_srtctl_reads_them(lines: str, path: str, value: object) -> None:
    found = loaded(plan_one(TINY + lines + "\n"))
    for key in path.split("."):
        found = found.get(key)
    assert found == value


@pytest.mark.parametrize(
    ("source", "install", "first", "second"),
    [
        ("git+https://github.com/ai-dynamo/dynamo@main", "git", {"hash": "main"}, {"git": "https://github.com/ai-dynamo/dynamo", "rev": "main"}),
        ("https://github.com/ai-dynamo/dynamo.git", "git", {"top_of_tree": True}, {"git": "https://github.com/ai-dynamo/dynamo.git"}),
    ],
)  # fmt: skip
def test_dynamo_comes_from_where_the_matrix_says(source: str, install: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    plan = plan_one(TINY.replace("dynamo: {version: 1.2.1}", f'dynamo: {{version: 1.2.1, install: {install}, source: "{source}"}}'))
    assert loaded(plan)["dynamo"] == {**first, "install": True}
    assert loaded(plan, "srt-slurm-v2")["dynamo"] == {"source": second, "install": True}
    assert loaded(plan)["identity"]["frameworks"]["dynamo"] == "1.2.1"


WHEEL = "1.2.0.dev20260426"
DERIVED = {"DYNAMO_WHEEL_NAME": f"ai_dynamo-{WHEEL}-py3-none-any.whl", "DYNAMO_VERSION": WHEEL}
CAME = (
    TINY.replace("env: {", "env: {A: x, " + ", ".join(f"{name}: {value}" for name, value in DERIVED.items()) + ", ").replace(
        "dynamo: {version: 1.2.1}", f"dynamo: {{version: {WHEEL}, install: pip}}"
    )
    + f"""\
frontend: {{env: {{DYNAMO_VERSION: 1.2.1, DYNAMO_WHEEL_NAME: {DERIVED["DYNAMO_WHEEL_NAME"]}}}}}
carried: {{dynamo.wheel: {WHEEL}}}
"""
)


@pytest.mark.parametrize("install", [True, False])
def test_a_wheel_that_was_imported_is_a_wheel_again(install: bool) -> None:
    plan = plan_one(CAME if install else CAME.replace("install: pip", "install: present"))
    first, second = loaded(plan), loaded(plan, "srt-slurm-v2")
    assert first["dynamo"] == {"wheel": WHEEL, "install": install}
    assert second["dynamo"] == {"source": {"wheel": WHEEL}, "install": install}
    assert [first["backend"][f"{mode}_environment"] for mode in ("prefill", "decode")] == [{"A": "x", "VLLM_SSM_CONV_STATE_LAYOUT": "DS"}] * 2
    assert first["frontend"]["env"] == second["frontend"]["env"] == {"DYNAMO_VERSION": "1.2.1"}


def test_a_wheel_gives_way_to_another_dynamo_in_the_matrix() -> None:
    plan = plan_one(CAME.replace(f"{{version: {WHEEL}", "{version: 1.2.1"))
    first, second = loaded(plan), loaded(plan, "srt-slurm-v2")
    assert (first["dynamo"], second["dynamo"]) == ({"version": "1.2.1", "install": True}, {"source": {"pypi": "1.2.1"}, "install": True})
    assert first["backend"]["decode_environment"] == {"A": "x", **DERIVED, "VLLM_SSM_CONV_STATE_LAYOUT": "DS"}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("", None),
        ("identity.frameworks.vllm: main", {"model": {"repo": "org/m"}, "frameworks": {"dynamo": "1.2.1", "vllm": "main"}}),
        ("identity.model.revision: main", {"model": {"repo": "org/m", "revision": "main"}, "frameworks": {"dynamo": "1.2.1"}}),
        ("identity.frameworks.nixl: 0.7", {"model": {"repo": "org/m"}, "frameworks": {"dynamo": "1.2.1", "nixl": 0.7}}),
    ],
)
def test_an_identity_is_whole_or_not_there(kept: str, expected: dict[str, Any] | None) -> None:
    text = re.sub(r"(?m)^model: .*$", "model: {repo: org/m}", re.sub(r"(?m)^  vllm: .*\n", "", TINY))
    found = loaded(plan_one(text + f"carried: {{{kept}}}\n")).get("identity")
    image = {"container": {"image": "vllm/vllm-openai:v0.28.0"}}
    assert found == (None if expected is None else {**expected, **image})


def test_aggregated_points_have_their_own_keys() -> None:
    plan = plan_one(matrix_of(agg_point("1xTP4")))
    found = loaded(plan)
    assert {name for name in found["resources"] if "agg" in name} == {"agg_nodes", "agg_workers", "gpus_per_agg"}
    assert list(found["backend"]["vllm_config"]) == ["aggregated"]
    assert list(loaded(plan, "srt-slurm-v2")["roles"]) == ["agg"]


@pytest.mark.parametrize(
    ("point", "publisher"), [('{prefill: 1xTP4, decode: 1xTP4, concurrency: [4], time_limit: "1:00:00"}', "prefill"), (agg_point("1xTP4"), "agg")]
)
def test_kv_events_are_switched_on_for_the_role_that_publishes(point: str, publisher: str) -> None:
    plan = plan_one(matrix_of(point) + "kv_events: true\n")
    assert loaded(plan)["backend"]["kv_events_config"] == {"aggregated" if publisher == "agg" else publisher: True}
    second = loaded(plan, "srt-slurm-v2")
    assert {name: role.get("kv_events") for name, role in second["roles"].items()} == {
        name: True if name == publisher else None for name in second["roles"]
    }
    assert "kv_events_config" not in second["engine"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("benchmark: {type: aiperf}", "srtctl has no benchmark 'aiperf'"),
        ("benchmark: {type: sa-bench, tokenizer: a/b, tokenizer_class: a.B}", "one key, `custom_tokenizer`"),
        ('decode: {env: {A: "x-{node}"}}', "'A' of decode holds {node}"),
        ("decode: {args: {connector: nixl}}", "chooses the KV connector for srtctl"),
    ],
)
def test_what_srtctl_cannot_be_told_is_refused_at_its_place(lines: str, message: str) -> None:
    plan = plan_one(TINY + lines + "\n")
    for form in ("srt-slurm", "srt-slurm-v2"):
        found = export_files([plan, plan], form)
        (problem,) = found.unsaid[plan.recipe.point]
        assert not found.files
        assert message in problem.message
        assert problem.source.line == TINY.count("\n") + 1
        assert problem.rule.startswith("export-")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("frontend: {replicas: 1}", None),
        ("frontend: {replicas: 2}",
         "on 2 nodes, counted from 0, srtctl has one front end on node 1, behind nginx on node 0; in the plan there is one front end on node 0"),
        ("infra: {dedicated_node: true}", "beside a node for etcd alone, srtctl has the front end on the first worker's node; in the plan that node has both"),
    ],
)  # fmt: skip
def test_front_ends_that_srtctl_places_otherwise_are_told_in_the_head(lines: str, told: str | None) -> None:
    text = export_point(plan_one(TINY + lines + "\n"))
    assert [line.removeprefix("# ") for line in text.splitlines() if "front end" in line] == ([told] if told else [])


@pytest.mark.parametrize("form", ["srt-slurm", "srt-slurm-v2", "inferencex"])
def test_a_wheel_by_its_file_is_refused_as_srtctl_refuses_it(form: str) -> None:
    text = TINY.replace("dynamo: {version: 1.2.1}", "dynamo: {version: 1.2.1, install: wheel, source: /w/ai_dynamo-1.2.1-py3-none-any.whl}")
    with pytest.raises(InputError) as error:
        export_point(plan_one(text), form)
    (problem,) = error.value.problems
    assert (problem.rule, problem.source.line) == ("export-dynamo", TINY.split("image:")[0].count("\n") + 1)
    assert "knows a wheel by its version only, and refuses a file" in problem.message


def test_another_git_of_dynamo_has_a_key_in_the_second_layout_alone() -> None:
    plan = plan_one(TINY.replace("dynamo: {version: 1.2.1}", "dynamo: {version: 1.2.1, install: git, source: https://x.y/z@abc}"))
    assert loaded(plan, "srt-slurm-v2")["dynamo"]["source"] == {"git": "https://x.y/z", "rev": "abc"}
    with pytest.raises(InputError, match=r"only knows Dynamo's own repository"):
        export_point(plan)
