"""What an import kept without effect, in exports: at its place again, behind what the matrix says, and never at the cost of what runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recipegen.pipeline import plan_matrix
from recipegen.srtslurm import keys
from recipegen.srtslurm.export import export_point
from tests.support import agg_point, matrix_of, plan_one
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, reasons
from tests.unit.srtslurm.test_export import TINY, back, content, loaded, without_what_v2_lacks

FORMS = ("srt-slurm-v1", "srt-slurm-v2")
LEFT_OUT = "# left out of what an import kept, as the matrix says otherwise or this layout has no such key: "


def left_out(text: str) -> list[str]:
    return [name for line in text.splitlines() if line.startswith(LEFT_OUT) for name in line.removeprefix(LEFT_OUT).split(", ")]


SECTIONS = (
    "backend",
    "benchmark",
    "dynamo",
    "engine",
    "frontend",
    "health_check",
    "identity",
    "infra",
    "model",
    "name",
    "resources",
    "roles",
    "slurm",
)
PATHS = st.sampled_from(
    [
        *SECTIONS, *keys.TOP, "schema", "base", "sweep", "services[0]", "services", "job_scoped_ports", "environment", "", ".", "a\nb: evil", "no such",
        *(f"{section}.{key}" for section, names in (
            ("frontend", (*keys.FRONTEND, "args", "env", "dedicated_node", "placement.node", "type", "enable_multiple_frontends")),
            ("backend", (*keys.BACKEND, "type", "connector", "vllm_config", "vllm_config.aggregated", "vllm_config.prefill.max-num-seqs", "decode_environment.A")),
            ("engine", ("vllm_serve_binary", "set_visible_devices", "failover")), ("model", (*keys.MODEL, "path", "container")),
            ("slurm", (*keys.SLURM, "time_limit")), ("dynamo", (*keys.DYNAMO, "version", "hash", "wheel", "install", "source", "source.patches", "git")),
            ("infra", (*keys.INFRA, "etcd_nats_dedicated_node")), ("health_check", (*keys.HEALTH, "max_attempts")), ("resources", ("agg_workers", "gpu_type")),
            ("benchmark", ("type", "isl", "osl", "concurrencies", *keys.BENCHMARK, *keys.BENCHMARK_NAMES, "made_up")),
            ("roles", ("prefill.critical", "decode.restart", "agg.nodes", "prefill")),
            ("identity", ("model.repo", "model.revision", "container.image", "frameworks.dynamo", "frameworks.vllm", "frameworks.nixl", "model", "frameworks")),
        ) for key in names),
    ]
)  # fmt: skip
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 10**6) | st.sampled_from([0.5, "x", "", "0" * 40, "1.2.1", "9.9", "gsm8k", "foobench", "true", "# x"])
)
VALUES = st.recursive(SCALARS, lambda one: st.lists(one, max_size=2) | st.dictionaries(st.sampled_from(["a", "type", "prefill", "y"]), one, max_size=2), max_leaves=4)  # fmt: skip
MATRICES = {
    "disagg": TINY,
    "several front ends": TINY + "frontend: {replicas: 3}\n",
    "manual": TINY + "benchmark: {type: manual}\n",
    "agg": matrix_of(agg_point("1xTP4")),
    "not pinned": TINY.replace("  vllm: 0.28.0\n", "").replace("model: qwen3.8-2.4t-nvfp4", "model: {repo: org/m, architecture: qwen3.8-2.4t-nvfp4}"),
}


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(list(MATRICES)), st.dictionaries(PATHS, VALUES, max_size=4), st.sampled_from(FORMS))
@example("disagg", {"resources.agg_workers": 7, "name": "x", "model": 5}, "srt-slurm-v1")
@example("disagg", dict.fromkeys(("backend", "dynamo", "benchmark", "frontend", "infra", "resources")), "srt-slurm-v2")
@example("disagg", {name: [1] for name in ("backend", "dynamo", "benchmark", "frontend", "infra", "resources")}, "srt-slurm-v2")
@example("several front ends", {"frontend.nginx_container": "old", "frontend.num_additional_frontends": 9}, "srt-slurm-v1")
@example("not pinned", {"identity.model.revision": "0" * 40, "identity.frameworks.vllm": "0.27.0"}, "srt-slurm-v1")
@example("manual", {"benchmark.type": "gsm8k", "benchmark.concurrencies": "4"}, "srt-slurm-v2")
@example("manual", {"benchmark.type": "foobench", "benchmark.num_shots": 3}, "srt-slurm-v2")
def test_whatever_is_carried_an_export_runs_the_same(name: str, carried: dict[str, Any], form: str) -> None:
    plan = plan_one(MATRICES[name] + f"carried: {json.dumps(carried)}\n")
    text = export_point(plan, form)
    (again,) = back([text])
    made, wished = content(again.recipe), content(plan.recipe)
    if form == "srt-slurm-v2":
        made, wished = without_what_v2_lacks(made), without_what_v2_lacks(wished)
    assert made == wished
    lost = carried.keys() - again.recipe.job.carried.keys() - set(keys.CARRIED_IN_V1.values()) - keys.CARRIED_IN_V1.keys()
    said = yaml.safe_load(text)
    told = "\n".join(left_out(text))
    for path in lost:
        shown = path.encode("unicode_escape").decode()
        assert shown in told or at(said, path) == carried[path] or keys.CARRIED_IN_V2.get(path), (path, told)


def at(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


OLD = ("enable_multiple_frontends: false", "enable_multiple_frontends: false, num_additional_frontends: 9, nginx_container: old")


@pytest.mark.parametrize("form", FORMS)
def test_what_is_set_since_the_import_wins(form: str) -> None:
    _, text = import_one(changed(V1, OLD))
    assert loaded(plan_one(text), form)["frontend"] == {
        "type": "dynamo", "enable_multiple_frontends": False, "num_additional_frontends": 9, "nginx_container": "old",
    }  # fmt: skip
    plan = plan_one(text + "frontend: {replicas: 2, nginx_image: mine}\n")
    expected = {"type": "dynamo", "enable_multiple_frontends": True, "num_additional_frontends": 1, "nginx_container": "mine"}
    assert loaded(plan, form)["frontend"] == expected
    assert left_out(export_point(plan, form)) == ["frontend.num_additional_frontends", "frontend.nginx_container"]
    default = plan_one(text + "frontend: {replicas: 2}\n")
    assert "nginx_container" not in loaded(default, form)["frontend"]


@pytest.mark.parametrize("form", FORMS)
def test_a_benchmark_of_ours_takes_the_place_of_one_that_was_kept(form: str) -> None:
    _, text = import_one(changed(V1, ("type: sa-bench", "type: foobench")))
    found = loaded(plan_one(text), form)["benchmark"]
    assert (found["type"], found["isl"], found["concurrencies"]) == ("foobench", 8192, "4x16")
    ours = plan_one(text.replace("type: manual", "type: gsm8k"))
    assert loaded(ours, form)["benchmark"]["type"] == "gsm8k"
    assert "benchmark.type" in left_out(export_point(ours, form))


@pytest.mark.parametrize(
    ("carried", "form", "told"),
    [
        ({"infra.nats_max_payload_mb": 8}, "srt-slurm-v1", []),
        ({"infra.nats_max_payload_mb": 8}, "srt-slurm-v2", ["infra.nats_max_payload_mb"]),
        ({"services[0]": {"name": "x"}, "job_scoped_ports": True}, "srt-slurm-v1", ["services[0]", "job_scoped_ports"]),
        ({"services[0]": {"name": "x"}, "job_scoped_ports": True}, "srt-slurm-v2", ["services[0]"]),
        ({"benchmark.num_shots": 5}, "srt-slurm-v1", []),
        ({"benchmark.num_shots": 5}, "srt-slurm-v2", ["benchmark.num_shots"]),
        ({"model.precision": "fp8", "telemetry": {"enabled": True}}, "srt-slurm-v2", []),
        ({"model.precision": ["fp8"]}, "srt-slurm-v1", ["model.precision"]),
        ({"a\nb: evil": 1}, "srt-slurm-v1", ["a\\nb: evil"]),
    ],
)
def test_what_a_layout_has_no_key_for_is_named_in_the_head(carried: dict[str, Any], form: str, told: list[str]) -> None:
    assert left_out(export_point(plan_one(TINY + f"carried: {json.dumps(carried)}\n"), form)) == told


@pytest.mark.parametrize(
    ("carried", "form", "path", "value"),
    [
        ({"frontend.placement.node": "first_decode"}, "srt-slurm-v1", "frontend.orchestrator_placement", "first_decode"),
        ({"frontend.orchestrator_placement": "first_decode"}, "srt-slurm-v2", "frontend.placement.node", "first_decode"),
        ({"engine.set_visible_devices": True}, "srt-slurm-v1", "backend.set_cuda_visible_devices", True),
        ({"backend.vllm_serve_binary": "vllm-rs"}, "srt-slurm-v2", "engine.vllm_serve_binary", "vllm-rs"),
        ({"dynamo.cargo_patches": ["x"]}, "srt-slurm-v2", "dynamo.source.patches", ["x"]),
        ({"roles.prefill.critical": False}, "srt-slurm-v2", "roles.prefill.critical", False),
    ],
)
def test_a_key_stands_where_the_layout_has_it(carried: dict[str, Any], form: str, path: str, value: object) -> None:
    text = export_point(plan_one(TINY + f"carried: {json.dumps(carried)}\n"), form)
    assert (at(yaml.safe_load(text), path), left_out(text)) == (value, [])


PATH = ("hf:org/model", "/models/x")


@pytest.mark.parametrize("layout", [V1, V2])
@pytest.mark.parametrize("path", ["/models/x", "an-alias"])
def test_the_pin_of_a_path_or_an_alias_stays(layout: str, path: str) -> None:
    report, text = import_one(changed(layout, ("hf:org/model", path)))
    (plan,) = plan_matrix(text, "matrix.yaml")
    pin = "0123456789abcdef0123456789abcdef01234567"
    assert plan.recipe.model.revision == pin, reasons(report)
    for form in FORMS:
        assert loaded(plan, form)["identity"]["model"] == {"repo": "org/model", "revision": pin}
        (again,) = back([export_point(plan, form)])
        assert again.recipe.model == plan.recipe.model
        assert again.recipe.job.carried["identity.model.repo"] == "org/model"


def test_the_pin_of_another_hub_id_is_none_of_the_models() -> None:
    report, text = import_one(changed(V1, ("hf:org/model", "hf:org/other")))
    (plan,) = plan_matrix(text, "matrix.yaml")
    assert plan.recipe.model.revision == ""
    assert "'identity.model.revision' is carried without effect: it is of another model than 'org/other'" in [one.message for one in report.notes]
    assert loaded(plan)["identity"]["model"] == {"repo": "org/model", "revision": "0123456789abcdef0123456789abcdef01234567"}


def test_an_image_or_a_dynamo_that_is_pinned_otherwise_comes_back() -> None:
    text = changed(V1, ("frameworks: {dynamo: 1.2.1", "container: {image: other}\n  frameworks: {dynamo: 9.9.9"))
    _, matrix = import_one(text)
    found = loaded(plan_one(matrix))
    assert found["identity"] == yaml.safe_load(text)["identity"]
    assert (found["model"]["container"], found["dynamo"]) == ("vllm/vllm-openai:v0.28.0", {"version": "1.2.1", "install": False})
