"""What the rules over a point on a cluster say."""

from __future__ import annotations

import pytest

from recipegen.checks.cluster_rules import CLUSTER_RULES, POINT_RULES
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
FIRST = PROFILE.count("\n") + 1
"""The line of what a case adds to the profile."""


def at(profile: str, marker: str) -> str:
    """The place in the profile of what the case adds."""
    before = profile[: profile.index(marker)]
    return f"oslo.yaml:{FIRST + before.count(chr(10))}:{len(before) - before.rfind(chr(10))}"


def say(profile: str, *, text: str = f"{HEAD}  - {POINT}\n") -> list[str]:
    (view,) = points_of(text)
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    findings = [f for rule in CLUSTER_RULES for f in rule.findings(cluster)]
    return [f"{f.source} {f.severity.value} {f.rule}" for f in findings]


@pytest.mark.parametrize(
    ("profile", "expected"),  # of a finding: where in the profile, or a place in the matrix; severity; rule
    [
        (MODELS, []),
        (MODELS + "nodes: {machine: aarch64}\n", []),
        (MODELS + "nodes: {machine: x86_64}\n", [("x86_64", "error cluster-machine")]),
        (MODELS + PYXIS % "vllm.sqsh", []),
        (MODELS + PYXIS % "vllm-arm64.sqsh", []),
        (MODELS + PYXIS % "vllm_aarch64.sqsh", []),
        (MODELS + PYXIS % "alarm64x.sqsh", []),
        (MODELS + PYXIS % "vllm-amd64.sqsh", [("/images", "error cluster-machine")]),
        (MODELS + PYXIS % "vllm_x86_64.sqsh", [("/images", "error cluster-machine")]),
        (MODELS + PYXIS % "VLLM-X86-64.sqsh", [("/images", "error cluster-machine")]),
        (MODELS + "container: {runtime: none, images: {x: y-amd64}}\n", []),
        (MODELS + "container: {runtime: pyxis, images: {other: /images/o.sqsh}}\n", [(IMAGE_AT, "warning cluster-container")]),
        (MODELS + "container: {runtime: pyxis}\n", []),
        ("", [("oslo.yaml", "warning cluster-model-path")]),
        ("environment: {HF_HOME: /cache}\n", []),
        ("environment: {HF_HOME: /cache}\nmodels: {a/b: /c}\n", [("models", "warning cluster-model-path")]),
        ("environment: {HF_HUB_OFFLINE: 1}\n", [("oslo.yaml", "warning cluster-model-path"), ("1}", "error cluster-hf-offline")]),
        ("environment: {HF_HUB_OFFLINE: 1, HF_HOME: /cache}\n", []),
        (MODELS + "environment: {HF_HUB_OFFLINE: 1}\n", []),
        (MODELS + "slurm: {require: [cpus-per-task]}\n", [("cpus-per-task", "error cluster-cpus")]),
        (MODELS + "slurm:\n  require: [cpus-per-task, mem]\n", [("cpus-per-task", "error cluster-cpus"), ("mem]", "error cluster-cpus")]),
        (MODELS + "slurm: {require: [cpus-per-task]}\nsbatch: {cpus-per-task: 72}\n", []),
        (MODELS + "slurm: {require: [account]}\n", [("account", "error cluster-cpus")]),
        (MODELS + "slurm: {require: [account]}\naccount: team\n", []),
        (MODELS + "slurm: {segment: false}\n", [("false", "warning cluster-segment")]),
    ],
)
def test_a_profile_and_what_is_said_of_it(profile: str, expected: list[tuple[str, str]]) -> None:
    wanted = [f"{place if place == 'oslo.yaml' or place.startswith('matrix') else at(profile, place)} {what}" for place, what in expected]
    assert say(profile) == wanted


def judged(image: str, vllm: str = "0.28.0") -> list[str]:
    """What is said of an image without a profile."""
    text = head_with((IMAGE, f"'{image}'"), ("vllm: 0.28.0", f"vllm: {vllm}")) + f"  - {POINT}\n"
    (view,) = points_of(text)
    return [f"{f.source} {f.severity.value} {f.rule}" for rule in POINT_RULES for f in rule.findings(view)]


@pytest.mark.parametrize(
    ("image", "vllm", "rules"),
    [
        (IMAGE, "0.28.0", []),
        (IMAGE + "-aarch64", "0.28.0", []),
        (IMAGE + "-x86_64", "0.28.0", ["error image-machine"]),
        (IMAGE + "-x86_64", "0.28.1", ["error image-machine", "warning image-version"]),
        ("vllm/vllm-openai:v0.27.0", "0.28.0", ["warning image-version"]),
        ("docker.io/vllm/vllm-openai:0.28.0-cu130", "0.28.0+cu130", []),
        ("vllm/vllm-openai:v0.28.0rc1", "0.28.0", ["warning image-version"]),
        ("vllm/vllm-openai-rocm:v0.27.0", "0.28.0", ["warning image-version"]),
        ("vllm/vllm-openai:v0.28.0@sha256:0123", "0.28.0", []),
        ("vllm/vllm-openai:nightly-0123456789abcdef", "0.28.0", []),
        ("vllm/vllm-openai:latest", "0.28.0", []),
        ("vllm/vllm-openai@sha256:0123", "0.28.0", []),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.2.1", "0.28.0", []),
        ("nvcr.io/nvidia/vllm:25.09-py3", "0.28.0", []),
        ("/images/vllm-0.27.0.sqsh", "0.28.0", []),
    ],
)
def test_an_image_s_name_against_hardware_and_build(image: str, vllm: str, rules: list[str]) -> None:
    assert judged(image, vllm) == [f"{IMAGE_AT} {rule}" for rule in rules]


def test_the_recipe_s_own_image_is_held_against_nodes_of_another_kind() -> None:
    pyxis = MODELS + "container: {runtime: pyxis}\n"
    x86, arm = (head_with((IMAGE, IMAGE + suffix)) + f"  - {POINT}\n" for suffix in ("-x86_64", "-aarch64"))
    assert say(pyxis, text=x86) == []  # image-machine says it without the profile
    other = pyxis + "nodes: {machine: x86_64}\n"
    assert say(other, text=x86) == [f"{at(other, 'x86_64')} error cluster-machine"]
    assert say(other, text=arm) == [f"{at(other, 'x86_64')} error cluster-machine", f"{IMAGE_AT} error cluster-machine"]


def test_a_cache_or_a_switch_of_the_recipe_counts() -> None:
    env = "env: {VLLM_SSM_CONV_STATE_LAYOUT: DS, HF_HOME: /cache, HF_HUB_OFFLINE: '1'}"
    text = head_with(("env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}", env)) + f"  - {POINT}\n"
    assert say("", text=text) == []
    switched = text.replace("HF_HOME: /cache, ", "")
    line = next(number for number, content in enumerate(switched.splitlines(), 1) if "HF_HUB_OFFLINE" in content)
    column = switched.splitlines()[line - 1].index("'1'") + 1
    assert say("", text=switched) == ["oslo.yaml warning cluster-model-path", f"matrix.yaml:{line}:{column} error cluster-hf-offline"]


def test_one_node_needs_no_segment() -> None:
    text = f"{HEAD}  - {agg('TP4')}\n"
    assert say(MODELS + "slurm: {segment: false}\n", text=text) == []


def test_the_built_in_profile_asks_for_nothing() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n")
    local = local_profile(run_root="/state", path_prefix="/bin")
    cluster = ClusterView(point=view, profile=local, profile_source=Source("local"))
    assert {f.rule for rule in CLUSTER_RULES for f in rule.findings(cluster)} == {"cluster-model-path"}
