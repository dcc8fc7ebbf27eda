"""What several tests start from: the published leaf, its plans, small matrices."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from recipegen.launch import LaunchPlan
from recipegen.pipeline import plan_matrix

ROOT = Path(__file__).parent.parent
LEAF = ROOT / "recipes/multi-node/Qwen3.8/GB300/8k1k/vllm/disagg"

PINS = """\
schema: recipegen/v1
name: tiny
model: qwen3.8-2.4t-nvfp4
hardware: gb300-nvl72
workload: {isl: 8192, osl: 1024, max_model_len: 10240}
runtime:
  image: vllm/vllm-openai:v0.28.0
  vllm: 0.28.0
  dynamo: {version: 1.2.1}
expert_parallel: true
"""
"""How small matrices begin."""
MINIMAL = (
    PINS
    + """\
common:
  args: {kv-cache-dtype: fp8, mamba-ssm-cache-dtype: bfloat16, no-enable-prefix-caching: true, kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}}
  env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}
points:
"""
)


def matrix_of(*points: str, head: str = MINIMAL) -> str:
    """A small valid matrix with these points, each a flow mapping."""
    return head + "".join(f"  - {point}\n" for point in points)


def agg_point(topology: str) -> str:
    return f'{{agg: {topology}, concurrency: [64], time_limit: "1:00:00"}}'


def plan_one(text: str, *, simulate: bool = False) -> LaunchPlan:
    (plan,) = plan_matrix(text.encode(), "matrix.yaml", simulate=simulate)
    return plan


@cache
def published_plans(*, simulate: bool = False) -> tuple[LaunchPlan, ...]:
    """Plans of the eight published points, in the matrix's order."""
    return tuple(plan_matrix((LEAF / "matrix.yaml").read_bytes(), "matrix.yaml", simulate=simulate))


def soon(true: Callable[[], object], what: str, *, within_s: float = 20) -> None:
    """Wait until something holds; fail, naming it, when it does not in time."""
    until = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < until, f"not within {within_s} s: {what}"
        time.sleep(0.1)


def as_on_a_terminal() -> None:
    """Run between fork and exec: signals end a process as on a terminal. What nohup, or a shell's `&`, ignores is inherited."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
