"""What the rules over a point on a cluster say."""

from __future__ import annotations

import pytest

from recipegen.checks.cluster_rules import CLUSTER_RULES
from recipegen.checks.views import ClusterView
from recipegen.clusters import local_profile, parse_profile
from recipegen.errors import Source
from tests.unit.checks.views_for_tests import HEAD, POINT, agg, head_with, points_of

REPO = "Inferact/Qwen3.8-2.4T-A95B-NVFP4"
IMAGE = "vllm/vllm-openai:v0.28.0"
PROFILE = "schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /runs\n"
MODELS = f"models: {{{REPO}: /models/q}}\n"
PYXIS = f"container: {{runtime: pyxis, images: {{'{IMAGE}': /images/%s}}}}\n"
IMAGE_AT = "matrix.yaml:7:10"


def say(profile: str, *, text: str = f"{HEAD}  - {POINT}\n") -> list[str]:
    (view,) = points_of(text)
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    findings = [f for rule in CLUSTER_RULES for f in rule.findings(cluster)]
    return [f"{f.source} {f.severity.value} {f.rule}" for f in findings]


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        (MODELS, []),
        (MODELS + "nodes: {machine: aarch64}\n", []),
        (MODELS + "nodes: {machine: x86_64}\n", ["oslo.yaml error cluster-machine"]),
        (MODELS + PYXIS % "vllm.sqsh", []),
        (MODELS + PYXIS % "vllm-arm64.sqsh", []),
        (MODELS + PYXIS % "vllm_aarch64.sqsh", []),
        (MODELS + PYXIS % "alarm64x.sqsh", []),
        (MODELS + PYXIS % "vllm-amd64.sqsh", ["oslo.yaml error cluster-machine"]),
        (MODELS + PYXIS % "vllm_x86_64.sqsh", ["oslo.yaml error cluster-machine"]),
        (MODELS + PYXIS % "VLLM-X86-64.sqsh", ["oslo.yaml error cluster-machine"]),
        (MODELS + "container: {runtime: none, images: {x: y-amd64}}\n", []),
        (MODELS + "container: {runtime: pyxis, images: {other: /images/o.sqsh}}\n", [f"{IMAGE_AT} warning cluster-container"]),
        (MODELS + "container: {runtime: pyxis}\n", []),
        ("", ["oslo.yaml warning cluster-model-path"]),
        ("environment: {HF_HOME: /cache}\n", []),
        ("environment: {HF_HOME: /cache}\nmodels: {a/b: /c}\n", ["oslo.yaml warning cluster-model-path"]),
        ("environment: {HF_HUB_OFFLINE: 1}\n", ["oslo.yaml warning cluster-model-path", "oslo.yaml error cluster-hf-offline"]),
        ("environment: {HF_HUB_OFFLINE: 1, HF_HOME: /cache}\n", []),
        (MODELS + "environment: {HF_HUB_OFFLINE: 1}\n", []),
        (MODELS + "slurm: {require: [cpus-per-task]}\n", ["oslo.yaml error cluster-cpus"]),
        (MODELS + "slurm: {require: [cpus-per-task, mem]}\n", ["oslo.yaml error cluster-cpus"] * 2),
        (MODELS + "slurm: {require: [cpus-per-task]}\nsbatch: {cpus-per-task: 72}\n", []),
        (MODELS + "slurm: {require: [account]}\n", ["oslo.yaml error cluster-cpus"]),
        (MODELS + "slurm: {require: [account]}\naccount: team\n", []),
        (MODELS + "slurm: {segment: false}\n", ["oslo.yaml warning cluster-segment"]),
    ],
)
def test_a_profile_and_what_is_said_of_it(profile: str, expected: list[str]) -> None:
    assert say(profile) == expected


def test_the_recipe_s_own_image_names_an_architecture() -> None:
    text = head_with((IMAGE, IMAGE + "-x86_64")) + f"  - {POINT}\n"
    assert say(MODELS + "container: {runtime: pyxis}\n", text=text) == [f"{IMAGE_AT} error cluster-machine"]


def test_a_cache_or_a_switch_of_the_recipe_counts() -> None:
    env = "env: {VLLM_SSM_CONV_STATE_LAYOUT: DS, HF_HOME: /cache, HF_HUB_OFFLINE: '1'}"
    text = head_with(("env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}", env)) + f"  - {POINT}\n"
    assert say("", text=text) == []
    assert say("", text=text.replace("HF_HOME: /cache, ", "")) == ["oslo.yaml warning cluster-model-path", "oslo.yaml error cluster-hf-offline"]


def test_one_node_needs_no_segment() -> None:
    text = f"{HEAD}  - {agg('TP4')}\n"
    assert say(MODELS + "slurm: {segment: false}\n", text=text) == []


def test_the_built_in_profile_asks_for_nothing() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n")
    local = local_profile(run_root="/state", path_prefix="/bin")
    cluster = ClusterView(point=view, profile=local, profile_source=Source("local"))
    assert {f.rule for rule in CLUSTER_RULES for f in rule.findings(cluster)} == {"cluster-model-path"}
