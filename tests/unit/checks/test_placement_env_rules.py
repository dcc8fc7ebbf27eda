"""What the rules say of recipes that set a process's GPUs or ports themselves."""

from __future__ import annotations

import pytest

from recipegen.checks.placement_env_rules import POINT_RULES
from tests.support import agg_point
from tests.unit.checks.views_for_tests import head_with, points_of

SHARED, ALONE = agg_point("2xTP2"), agg_point("2xTP4")


def say(env: str, point: str) -> list[str]:
    (view,) = points_of(f"{head_with(('points:', f'agg: {{env: {{{env}}}}}' + chr(10) + 'points:'))}  - {point}\n")
    return [f"{f.severity.value} {f.message.partition(';')[0]}" for rule in POINT_RULES for f in rule.findings(view)]


@pytest.mark.parametrize(
    "name", ["CUDA_VISIBLE_DEVICES", "DYN_SYSTEM_PORT", "VLLM_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "DYN_FORWARDPASS_METRIC_PORT"]
)
@pytest.mark.parametrize(("point", "severity"), [(SHARED, "error"), (ALONE, "warning")])
def test_what_the_launcher_gives_each_process(name: str, point: str, severity: str) -> None:
    assert say(f'{name}: "1"', point) == [f"{severity} agg: `{name}` belongs to the launcher"]


@pytest.mark.parametrize(
    ("env", "point", "expected"),
    [
        ("VLLM_PORT: null", SHARED, ["error agg: `VLLM_PORT` belongs to the launcher"]),
        ("VLLM_PORT: null", ALONE, []),
        ("CUDA_VISIBLE_DEVICES: null", ALONE, ["warning agg: `CUDA_VISIBLE_DEVICES` belongs to the launcher"]),
        ("NCCL_DEBUG: INFO", SHARED, []),
    ],
)
def test_what_is_taken_back(env: str, point: str, expected: list[str]) -> None:
    assert say(env, point) == expected


@pytest.mark.parametrize(
    ("shapes", "severity"),
    [("prefill: 2xTP4, decode: 1xTP4", "warning"), ("prefill: 1xTP2, decode: 1xTP2", "error"), ("prefill: 1xTP2, decode: 1xTP4", "warning")],
)
def test_roles_that_share_a_node_collide_where_they_meet(shapes: str, severity: str) -> None:
    point = f'{{{shapes}, colocate: true, concurrency: [4], time_limit: "1:00:00"}}'
    (view,) = points_of(f"{head_with(('env: {', 'env: {DYN_SYSTEM_PORT: x, '))}  - {point}\n")
    assert {f.severity.value for rule in POINT_RULES for f in rule.findings(view)} == {severity}
