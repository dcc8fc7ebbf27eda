"""Dynamo's mocker in the place of vLLM: no GPU, with the recipe's batch limits, block size, data-parallel shape and KV capacity."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.engine.vllm import VllmEngine
from recipegen.model import Arg, Command, Dynamo, EnvVar, LaunchMode, Placeholder, Recipe, RoleRecipe, Runtime, WorkerLayout
from recipegen.sizing.role_sizes import block_size

MOCKER_DYNAMO = "1.2.1"
"""The release whose mocker is simulated with; the extra [sim] pins the same."""


class MockerEngine(VllmEngine):
    """Plans exactly as vLLM, so that everything but the worker scripts is the real thing's, and starts mockers."""

    name = "mocker"

    def dynamo(self, runtime: Runtime) -> Dynamo:  # noqa: ARG002 - the simulation does not run the recipe's Dynamo
        return Dynamo(version=MOCKER_DYNAMO)

    def command(self, recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Command:
        return Command(
            program=("python3", "-m", "dynamo.mocker"),
            args=tuple(_args(recipe, role, layout)),
            env=(
                EnvVar(name="DYN_SYSTEM_PORT", value=Placeholder("SYSTEM_PORT"), note="health and metrics of this process", launcher=True),
                EnvVar(name="DYN_LOG", value="info", launcher=True),
                EnvVar(name="DYN_SDK_DISABLE_ANSI_LOGGING", value="1", launcher=True),
            ),
        )


def _args(recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Iterator[Arg]:
    yield Arg(words=("--model-path", Placeholder("SIM_MODEL")), group="model")
    yield Arg(words=("--model-name", recipe.model.served_name), group="model")
    yield Arg(words=("--disaggregation-mode", role.role.value), group="model")
    block = block_size(recipe, role)
    seqs = _limit(role, "max-num-seqs", 256)
    per_request = -(-recipe.workload.max_model_len // block)
    yield Arg(words=("--block-size", str(block)), note="as vLLM settles on it")
    yield Arg(
        words=("--num-gpu-blocks-override", str(seqs * per_request)),
        note=f"{seqs} requests of {recipe.workload.max_model_len} tokens, {per_request} blocks each",
    )
    yield Arg(words=("--max-num-seqs", str(seqs)))
    yield Arg(words=("--max-num-batched-tokens", str(_limit(role, "max-num-batched-tokens", 8192))))
    ranks = layout.local_dp if layout.mode is LaunchMode.NODE_LOCAL_DP else role.topology.dp
    if ranks > 1:
        yield Arg(words=("--data-parallel-size", str(ranks)), note="the ranks of this process")


def _limit(role: RoleRecipe, flag: str, default: int) -> int:
    """A batch limit of the recipe, or vLLM's own default where the recipe leaves it open."""
    value = role.flag(flag)
    return value if isinstance(value, int) and not isinstance(value, bool) else default
