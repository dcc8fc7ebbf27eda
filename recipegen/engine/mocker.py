"""Dynamo's mocker in the place of vLLM: no GPU, with the recipe's batch limits, block size, data-parallel shape and KV capacity."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.engine.vllm import VllmEngine
from recipegen.launch import Arg, Command, LaunchMode, WorkerLayout
from recipegen.model import TEMPLATE_TOKENS, Dynamo, EnvVar, Placeholder, Recipe, RoleRecipe, Runtime, Workload
from recipegen.role_flags import size
from recipegen.sizing.role_sizes import block_size, known_dtypes, size_role
from recipegen.sizing.state import attention_bytes_per_token

MOCKER_DYNAMO = "1.2.1"
"""The release whose mocker is simulated with; the extra [sim] pins the same."""

MAX_BLOCK = 1024
"""Tokens of a block. The mocker of 1.2.1 panics at `block_size must be between 1 and 1024` or `a power of 2`, and stays registered."""

MOST_BLOCKS = 1 << 24
"""Blocks of a mocker, which keeps a list of them: more than any recipe of ours has, and some hundred MB."""


class MockerEngine(VllmEngine):
    """Plans exactly as vLLM, so that everything but the worker scripts is the real thing's, and starts mockers."""

    name = "mocker"

    def dynamo(self, runtime: Runtime) -> Dynamo:  # noqa: ARG002 - the simulation does not run the recipe's Dynamo
        return Dynamo(version=MOCKER_DYNAMO)

    def command(self, recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Command:
        return Command(
            program=("python3", "../simulation/mocker.py"),
            args=tuple(_args(recipe, role, layout)),
            env=(
                EnvVar(name="DYN_SYSTEM_PORT", value=Placeholder("SYSTEM_PORT"), note="health and metrics of this process", launcher=True),
                EnvVar(name="DYN_LOG", value="info", launcher=True),
                EnvVar(name="DYN_SDK_DISABLE_ANSI_LOGGING", value="1", launcher=True),
            ),
        )


def context_length(workload: Workload) -> int:
    """The longest sequence of a simulation: the workload's, or what its requests need where the model's own would count."""
    return workload.max_model_len if workload.stated else workload.isl + workload.osl + TEMPLATE_TOKENS


def _args(recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Iterator[Arg]:
    yield Arg(words=("--model-path", Placeholder("TINY_MODEL")), group="model")
    yield Arg(words=("--model-name", recipe.model.served_name), group="model")
    yield Arg(words=("--disaggregation-mode", role.role.value), group="model")
    yield from _cache_args(recipe, role)
    seqs = size(role, "max-num-seqs") or 256
    yield Arg(words=("--max-num-seqs", str(seqs)))
    yield Arg(words=("--max-num-batched-tokens", str(size(role, "max-num-batched-tokens") or 8192)))
    ranks = layout.local_dp if layout.mode is LaunchMode.NODE_LOCAL_DP else role.topology.dp
    if ranks > 1:
        yield Arg(words=("--data-parallel-size", str(ranks)), note="the ranks of this process")


def _cache_args(recipe: Recipe, role: RoleRecipe) -> Iterator[Arg]:
    """Block size and blocks: room for the requests that the real engine holds, in blocks as it settles on them, cut to what a mocker takes."""
    block = block_size(recipe, role)
    parts = block // min(block & -block, MAX_BLOCK)
    requests, length = _requests(recipe, role), context_length(recipe.workload)
    per_request = -(-length // block)
    blocks = min(requests * per_request * parts, MOST_BLOCKS)
    cut, count = f"{block}", f"{requests} requests of {length} tokens, {per_request} blocks each"
    if parts > 1:
        cut, count = f"{block}/{parts}: a mocker takes powers of 2 up to {MAX_BLOCK}", f"{count}, {parts} parts a block"
    if model := recipe.model.architecture:
        token = model.attention.layers * attention_bytes_per_token(model, tp=1, dtype=known_dtypes(role).kv)
        yield Arg(words=("--kv-bytes-per-token", str(token)), note="K and V of all layers")
    yield Arg(words=("--block-size", str(block // parts)), note=cut)
    yield Arg(words=("--num-gpu-blocks-override", str(blocks)), note=count)


def _requests(recipe: Recipe, role: RoleRecipe) -> int:
    """Whole requests that fit by the memory budget; max-num-seqs where that is not known."""
    sizes = size_role(recipe, role)
    fitting = sizes.room.requests if sizes and sizes.room else 0
    return fitting or size(role, "max-num-seqs") or 256
