"""What the rules over time say: load time against deadlines, the engine's own timeout."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.checks.deadline_rules import CLUSTER_RULES, POINT_RULES, STUDY_BYTES
from recipegen.checks.views import ClusterView
from recipegen.clusters import parse_profile
from recipegen.errors import Source
from tests.unit.checks.views_for_tests import HEAD, POINT, head_with, points_of

PROFILE = "schema: recipegen-cluster/v1\nname: oslo\nscheduler: slurm\nrun_root: /runs\n"
LINE = HEAD.count("\n") + 1
LIMIT = f"m:{LINE}:{POINT.index('time_limit') + 17}"
"""Where the time limit of the point stands."""
ENV = "env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}"
ENV_LINE = HEAD[: HEAD.index(ENV)].count("\n") + 1


def say(profile: str = "", *, limit: str = "1:00:00", env: str = "", model: str = "qwen3.8-2.4t-nvfp4") -> list[str]:
    head = head_with((ENV, ENV.replace("}", f", {env}}}"))) if env else HEAD
    (view,) = points_of(head.replace("qwen3.8-2.4t-nvfp4", model) + f"  - {POINT.replace('1:00:00', limit)}\n")
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    findings = [f for rule in CLUSTER_RULES for f in rule.findings(cluster)] + [f for rule in POINT_RULES for f in rule.findings(view)]
    return [f"{str(f.source).replace('matrix.yaml', 'm')} {f.severity.value} {f.rule}" for f in dict.fromkeys(findings)]


READY = 'deadlines: {ready: "0:50:00", reserve: 60}\n'
DUE = f"oslo.yaml:{PROFILE.count(chr(10)) + 1}:20"
"""Where the readiness deadline of the profile stands."""


@pytest.mark.parametrize(
    ("profile", "limit", "expected"),
    [
        (READY, "1:00:00", []),  # unmeasured: at most 545 s of 3000
        (READY + "storage: {read_gib_s: 3}\n", "1:00:00", []),  # 449 s
        (READY + "storage: {read_gib_s: 0.46}\n", "1:00:00", [f"{DUE} warning deadline-load-margin"]),  # 2930 s of 3000
        (READY + "storage: {read_gib_s: 0.44}\n", "1:00:00", [f"{DUE} error deadline-load"]),  # 3063 s
        (READY + "storage: {read_gib_s: 2}\n", "0:15:00", [f"{LIMIT} warning deadline-load-margin", f"{DUE} note deadline-limit"]),
        (READY + "storage: {read_gib_s: 2}\n", "0:12:00", [f"{LIMIT} error deadline-load", f"{DUE} note deadline-limit"]),
        (READY, "0:18:00", [f"{LIMIT} warning deadline-load-margin", f"{DUE} note deadline-limit"]),  # 545 s of 1020
        (READY, "0:20:00", [f"{DUE} note deadline-limit"]),
        (READY, "0:51:00", [f"{DUE} note deadline-limit"]),
        (READY, "0:51:01", []),
        ("deadlines: {ready: 60, reserve: 600}\n", "0:10:00", [f"{LIMIT} error deadline-reserve"]),
        ("", "1:00:00", []),  # the default deadline of two hours is nobody's word
    ],
)
def test_the_checkpoint_against_the_deadlines(profile: str, limit: str, expected: list[str]) -> None:
    assert say(profile, limit=limit) == expected


def test_the_message_shows_the_arithmetic() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n")
    profile = parse_profile(PROFILE + "storage: {read_gib_s: 0.25}\n", "oslo.yaml")
    (finding,) = CLUSTER_RULES[0].findings(ClusterView(point=view, profile=profile, profile_source=Source("oslo.yaml")))
    assert finding.message == "reading 1348 GiB at 0.25 GiB/s takes 5391 s, but the endpoint must be READY within 3540 s"


@pytest.mark.parametrize(
    ("profile", "limit", "mend"),
    [
        (
            "deadlines: {ready: 3600}\nstorage: {read_gib_s: 0.25}\n",
            "1:30:00",
            "raise deadlines.ready of the profile and time_limit of the point",
        ),  # 5391 s
        ("deadlines: {ready: 3600}\nstorage: {read_gib_s: 0.25}\n", "2:00:00", "raise deadlines.ready of the profile"),
        ("deadlines: {ready: 7200}\nstorage: {read_gib_s: 0.25}\n", "1:30:00", "raise time_limit of the point"),
        (
            "deadlines: {ready: 3600}\nstorage: {read_gib_s: 0.4}\n",
            "2:00:00",
            "raise deadlines.ready of the profile: 2 times the load is a fair margin",
        ),
        ("deadlines: {ready: 9000}\nstorage: {read_gib_s: 0.4}\n", "1:30:00", "raise time_limit of the point: 2 times the load is a fair margin"),
    ],
)
def test_only_what_helps_is_to_be_raised(profile: str, limit: str, mend: str) -> None:
    (view,) = points_of(f"{HEAD}  - {POINT.replace('1:00:00', limit)}\n")
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    assert [f.mend for rule in CLUSTER_RULES for f in rule.findings(cluster) if f.rule.startswith("deadline-load")] == [mend]


@pytest.mark.parametrize(("limit", "expected"), [("0:05:00", True), ("0:09:04", True), ("0:09:06", False), ("2:00:00", False)])
def test_a_limit_shorter_than_the_study_s_loads_is_said_without_a_profile(limit: str, expected: bool) -> None:
    (view,) = points_of(f"{HEAD}  - {POINT.replace('1:00:00', limit)}\n")
    findings = [f for rule in POINT_RULES for f in rule.findings(view)]
    assert [f"{str(f.source).replace('matrix.yaml', 'm')} {f.severity.value} {f.rule}" for f in findings] == [
        f"{LIMIT} warning deadline-study"
    ] * expected


def test_a_smaller_checkpoint_loads_in_less_time() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT.replace('1:00:00', '0:05:00')}\n")
    small = replace(view, recipe=replace(view.recipe, model=replace(view.recipe.model, checkpoint_bytes=STUDY_BYTES // 2)))
    unknown = replace(view, recipe=replace(view.recipe, model=replace(view.recipe.model, checkpoint_bytes=0)))
    assert [f for rule in POINT_RULES for one in (small, unknown) for f in rule.findings(one)] == []


def test_the_deadline_s_note_is_one_for_all_points() -> None:
    limits = ("1:00:00", "0:40:00", "0:30:00")
    profile = parse_profile(PROFILE + "deadlines: {ready: 7200}\n", "oslo.yaml")
    views = [view for limit in limits for view in points_of(f"{HEAD}  - {POINT.replace('1:00:00', limit)}\n")]
    clusters = [ClusterView(point=view, profile=profile, profile_source=Source("oslo.yaml")) for view in views]
    assert len({f for rule in CLUSTER_RULES for cluster in clusters for f in rule.findings(cluster)}) == 1


SET = "note deadline-engine-owned"
EARLY = "warning deadline-engine-timeout"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [("'3600'", [SET]), ("'3000'", [SET]), ("'2999'", [EARLY, SET]), ("'500'", [EARLY, SET]), ("1h", [EARLY, SET])],
)
def test_the_engine_s_own_timeout(seconds: str, expected: list[str]) -> None:
    column = HEAD.splitlines()[ENV_LINE - 1].index("}") + len(", VLLM_ENGINE_READY_TIMEOUT_S: ") + 1
    assert say(READY, env=f"VLLM_ENGINE_READY_TIMEOUT_S: {seconds}") == [f"m:{ENV_LINE}:{column} {what}" for what in expected]


def test_the_engine_s_timeout_taken_back_is_vllm_s_own() -> None:
    roles = [f"m:{LINE}:{POINT.index(shape) + 5}" for shape in ("1xTP2DP4", "1xTP4DP4")]
    assert say(READY, env="VLLM_ENGINE_READY_TIMEOUT_S: null") == [f"{role} {EARLY}" for role in roles]


def test_a_checkpoint_of_unknown_size_is_not_judged() -> None:
    (view,) = points_of(f"{HEAD}  - {POINT}\n")
    recipe = replace(view.recipe, model=replace(view.recipe.model, checkpoint_bytes=0))
    view = replace(view, recipe=recipe)
    profile = parse_profile(PROFILE + READY + "storage: {read_gib_s: 0.001}\n", "oslo.yaml")
    cluster = ClusterView(point=view, profile=profile, profile_source=Source("oslo.yaml"))
    assert [f for rule in CLUSTER_RULES for f in rule.findings(cluster)] == []


# -- the matrix's own deadline ------------------------------------------------------------------------------------------

OWN_LINE = HEAD.count("\n")


def say_own(ready: str, profile: str = READY, *, limit: str = "1:00:00") -> list[str]:
    head = head_with(("points:", f"deadlines: {{ready: {ready}}}\npoints:"))
    (view,) = points_of(head + f"  - {POINT.replace('1:00:00', limit)}\n")
    cluster = ClusterView(point=view, profile=parse_profile(PROFILE + profile, "oslo.yaml"), profile_source=Source("oslo.yaml"))
    return [f"{str(f.source).replace('matrix.yaml', 'm')} {f.rule}: {f.mend}" for rule in CLUSTER_RULES for f in rule.findings(cluster)]


OWN = f"m:{OWN_LINE}:20"
SLOW = "storage: {read_gib_s: 0.44}\n"  # 3063 s, too long for the profile's 3000


@pytest.mark.parametrize(
    ("ready", "profile", "limit", "expected"),
    [
        ("600", READY, "1:00:00", []),  # the profile's is later
        ("7000", READY + SLOW, "2:00:00", []),
        ("4000", READY + SLOW, "2:00:00", [f"{OWN} deadline-load-margin: raise deadlines.ready of the matrix: 2 times the load is a fair margin"]),
        (
            "2900",
            READY + SLOW,
            "2:00:00",
            [f"{DUE} deadline-load: raise deadlines.ready of the profile"],
        ),
        ("'2:00:00'", "", "1:30:00", [f"{OWN} deadline-limit: shorten deadlines.ready, or raise time_limit of the points"]),  # the profile's default
        ("'1:59:59'", "", "1:30:00", []),
        ("'3:00:00'", "", "1:30:00", [f"{OWN} deadline-limit: shorten deadlines.ready, or raise time_limit of the points"]),
    ],
)
def test_the_later_of_two_deadlines_counts(ready: str, profile: str, limit: str, expected: list[str]) -> None:
    assert say_own(ready, profile, limit=limit) == expected
