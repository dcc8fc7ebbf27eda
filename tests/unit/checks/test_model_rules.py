"""What the rules say of models that a matrix pins itself, of setup scripts, and of NATS."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.checks.cluster_rules import CLUSTER_RULES as OF_CLUSTERS
from recipegen.checks.model_rules import CLUSTER_RULES, POINT_RULES
from recipegen.checks.views import ClusterView
from recipegen.clusters import parse_profile
from recipegen.errors import Source
from tests.unit.checks.views_for_tests import POINT, head_with, points_of

PROFILE = "schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /runs\n"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MODEL = "model: qwen3.8-2.4t-nvfp4"
MODEL_AT = "matrix.yaml:3:8"
PYXIS = "container: {runtime: pyxis, mounts: [%s]}\n"


def text_with(*changes: tuple[str, str]) -> str:
    return f"{head_with(*changes)}  - {POINT}\n"


def say(profile: str, *changes: tuple[str, str]) -> list[str]:
    (view,) = points_of(text_with(*changes))
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    findings = [f for rule in (*CLUSTER_RULES, *OF_CLUSTERS) for f in rule.findings(cluster)]
    return [f"{f.source} {f.severity.value} {f.rule}" for f in findings]


@pytest.mark.parametrize(
    ("pin", "warned"),
    [
        ("qwen3.8-2.4t-nvfp4", False),
        ("{repo: Org/Name}", True),
        (f"{{repo: Org/Name, revision: {COMMIT}}}", False),
        ("{repo: alias}", False),
        ("{repo: /models/name}", False),
    ],
)
def test_a_hub_id_without_a_revision(pin: str, warned: bool) -> None:
    (view,) = points_of(text_with((MODEL, f"model: {pin}")))
    findings = [f for rule in POINT_RULES for f in rule.findings(view)]
    assert [f"{f.source} {f.severity.value} {f.rule}" for f in findings] == [f"{MODEL_AT} warning model-unpinned"] * warned


@pytest.mark.parametrize(
    ("dynamo", "expected"),
    [
        ("version: 1.2.1", []),
        ("install: present", ["note dynamo-unpinned"]),
        (f"install: git, source: https://example.org/dynamo.git@{COMMIT}, version: 1.2.1", []),
        ("install: git, source: https://example.org/dynamo.git@main, version: 1.2.1", ["warning dynamo-unpinned"]),
        ("install: git, source: https://example.org/dynamo.git", ["warning dynamo-unpinned"]),
    ],
)
def test_a_dynamo_that_may_be_any(dynamo: str, expected: list[str]) -> None:
    (view,) = points_of(text_with(("version: 1.2.1", dynamo)))
    findings = [f for rule in POINT_RULES for f in rule.findings(view)]
    assert [f"{f.severity.value} {f.rule}" for f in findings] == expected
    assert all(f.source.line for f in findings)


@pytest.mark.parametrize(
    ("pin", "profile", "expected"),
    [
        ("{repo: qwen-fp8}", "", [f"{MODEL_AT} error cluster-model-alias"]),
        ("{repo: qwen-fp8}", "environment: {HF_HUB_OFFLINE: 1}\n", [f"{MODEL_AT} error cluster-model-alias"]),
        ("{repo: qwen-fp8}", "models: {qwen-fp8: /models/q}\n", []),
        ("{repo: /models/q}", "environment: {HF_HUB_OFFLINE: 1}\n", []),
        ("{repo: Org/Name}", "models: {Org/Name: /models/q}\n", []),
        ("{repo: Org/Name}", "", ["oslo.yaml warning cluster-model-path"]),
    ],
)
def test_where_a_model_comes_from(pin: str, profile: str, expected: list[str]) -> None:
    assert say(profile, (MODEL, f"model: {pin}")) == expected


@pytest.mark.parametrize(
    ("script", "profile", "warned"),
    [
        ("deps.sh", PYXIS % "/shared/configs:/configs", False),
        ("deps.sh", PYXIS % "/shared/configs:/configs/:ro", False),
        ("deps.sh", PYXIS % "/shared/deps.sh:/configs/deps.sh", False),
        ("deps.sh", PYXIS % "/shared/configs:/conf", True),
        ("deps.sh", PYXIS % "/shared:/configs2", True),
        ("deps.sh", PYXIS % "", True),
        ("/opt/deps.sh", PYXIS % "/shared:/opt", False),
        ("/opt/deps.sh", PYXIS % "/shared:/configs", True),
        ("deps.sh", "", False),  # no container: the node's own files
    ],
)
def test_a_setup_script_lies_in_a_mount(script: str, profile: str, warned: bool) -> None:
    found = say(profile + "models: {Inferact/Qwen3.8-2.4T-A95B-NVFP4: /m}\n", ("points:", f"setup_script: {script}\npoints:"))
    assert [text.split(" ", 1)[1] for text in found] == ["warning cluster-setup-script"] * warned


@pytest.mark.parametrize(
    ("dynamo", "profile", "place"),
    [
        ("version: 1.2.0.dev20260426, install: pip", "", "oslo.yaml"),
        ("version: 1.2.0.dev20260426, install: pip", "environment: {HF_HUB_OFFLINE: 1}\n", "oslo.yaml:6:1"),
        ("version: 1.2.0.dev20260426, install: pip", "environment: {PIP_EXTRA_INDEX_URL: x}\n", ""),
        ("version: 1.2.0.dev20260426, install: pip", "environment: {PIP_INDEX_URL: x}\n", ""),
        ("version: 1.2.0.dev20260426, install: pip", "environment: {PIP_FIND_LINKS: x}\n", ""),
        ("version: 1.2.0.dev20260426, install: pip", "environment: {PIP_CONFIG_FILE: x}\n", ""),
        ("version: 1.2.0.dev20260426", "", ""),
        ("version: 1.2.0.dev20260426, install: wheel, source: /x.whl", "", ""),
        ("version: 1.2.1, install: pip", "", ""),
    ],
)
def test_a_development_version_needs_an_index(dynamo: str, profile: str, place: str) -> None:
    found = say("models: {Inferact/Qwen3.8-2.4T-A95B-NVFP4: /m}\n" + profile, ("version: 1.2.1", dynamo))
    assert found == [f"{place} warning cluster-dynamo-index"] * bool(place)


@pytest.mark.parametrize(("profile", "missing"), [("", True), ("nats: /opt/nats-server\n", False)])
def test_requests_over_nats_need_one(profile: str, missing: bool) -> None:
    models = "models: {Inferact/Qwen3.8-2.4T-A95B-NVFP4: /m}\n"
    nats = ("version: 1.2.1", "version: 1.2.1, request_plane: nats")
    assert say(models + profile, nats) == ["oslo.yaml error cluster-nats"] * missing
    assert say(models + profile) == []


@pytest.mark.parametrize(
    ("profile", "front_ends", "expected"),
    [
        ("", 3, ["oslo.yaml error cluster-nginx"]),
        ("", 1, []),
        ("nginx: /usr/sbin/nginx\n", 3, []),
        ("container: {runtime: pyxis}\n", 3, []),
        ("container: {runtime: pyxis, images: {x: /x.sqsh, 'nginx:1': /nginx.sqsh}}\n", 3, []),
        ("container: {runtime: pyxis, images: {x: /x.sqsh}}\n", 3, ["matrix.yaml:7:10 warning cluster-container"]),
        ("container: {runtime: pyxis, images: {x: /x.sqsh}}\nnginx: /usr/sbin/nginx\n", 3, []),
        ("container: {runtime: pyxis, images: {x: /x.sqsh}}\n", 1, []),
    ],
)
def test_several_front_ends_need_nginx(profile: str, front_ends: int, expected: list[str]) -> None:
    """A point that gets them, as its plan says, on this profile; the engines' image is mapped wherever one is."""
    (view,) = points_of(
        text_with(("image: vllm/vllm-openai:v0.28.0", "image: x"), ("points:", "frontend: {replicas: 3, nginx_image: 'nginx:1'}\npoints:"))
    )
    models = "models: {Inferact/Qwen3.8-2.4T-A95B-NVFP4: /m}\n"
    oslo = parse_profile(PROFILE + models + profile, "oslo.yaml")
    cluster = ClusterView(point=replace(view, front_ends=front_ends), profile=oslo, profile_source=Source("oslo.yaml"))
    findings = [f for rule in (*CLUSTER_RULES, *OF_CLUSTERS) for f in rule.findings(cluster)]
    assert [f"{f.source} {f.severity.value} {f.rule}" for f in findings] == expected
