"""What a matrix says and srtctl cannot be told: it would run something else, so it is not exported."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.benchmarks import SETTINGS
from recipegen.errors import Problem
from recipegen.launch import LaunchPlan
from recipegen.layout import span
from recipegen.model import Recipe
from recipegen.srtslurm.packing import Place, elsewhere, packed, places
from recipegen.srtslurm.v1_flags import PER_NODE

NOT_OF_SRTCTL = frozenset({"aiperf"})
"""Types of benchmark that srt-slurm does not have."""


def limits(plan: LaunchPlan) -> list[Problem]:
    """Return everything of a point that has no form in srt-slurm, with its place in the matrix."""
    return [*_benchmark(plan.recipe), *_wheel(plan.recipe), *_roles(plan.recipe), *_placement(plan)]


def other_gpus(plan: LaunchPlan) -> str:
    """Return what to say of workers that srtctl puts on other GPUs of their nodes than the plan; empty where there are none."""
    if not plan.recipe.colocate or places([role.layout for role in plan.roles]) == _packed(plan):
        return ""
    return "srtctl packs workers without gaps: on a node of both roles, decode has other GPUs of it than in the plan"


def is_switched(plan: LaunchPlan) -> bool:
    """Whether decode goes on beyond prefill's own nodes, for which srtctl needs its switches of colocation."""
    layouts = [role.layout for role in plan.roles]
    return plan.recipe.colocate and layouts[0].nodes < span(layouts)


def _placement(plan: LaunchPlan) -> Iterator[Problem]:
    """A worker that srtctl would put on another node than the plan, or on none."""
    if plan.recipe.colocate and (message := elsewhere([role.layout for role in plan.roles], _packed(plan), _nodes(plan))):
        yield Problem(plan.recipe.source, message, "leave `colocate` out, or take workers whose sizes divide each other", "export-placement")


def _packed(plan: LaunchPlan) -> list[Place]:
    sizes = [role.layout.gpus_per_process for role in plan.roles for _ in range(role.layout.workers)]
    return packed(sizes, plan.recipe.hardware.gpus_per_node)


def _nodes(plan: LaunchPlan) -> int:
    """The nodes that srtctl asks for: with its switches, as many as hold all GPUs together (`core/schema.py`, `total_nodes`)."""
    layouts = [role.layout for role in plan.roles]
    if not is_switched(plan):
        return span(layouts)
    return -(-sum(one.workers * one.gpus_per_process for one in layouts) // plan.recipe.hardware.gpus_per_node)


def _benchmark(recipe: Recipe) -> Iterator[Problem]:
    benchmark = recipe.benchmark
    if benchmark.type in NOT_OF_SRTCTL:
        known = ", ".join(sorted(SETTINGS.keys() - NOT_OF_SRTCTL))
        message = f"srtctl has no benchmark '{benchmark.type}' and would only say so when the endpoint is up"
        yield Problem(benchmark.source, message, f"it has {known}", "export-benchmark")
    if benchmark.tokenizer and benchmark.tokenizer_class:
        place = benchmark.places.get("tokenizer", benchmark.source)
        yield Problem(
            place, "srt-slurm has one key, `custom_tokenizer`, for `tokenizer` and `tokenizer_class`", "set one of both", "export-benchmark"
        )


def _wheel(recipe: Recipe) -> Iterator[Problem]:
    """srtctl takes a version as `dynamo.wheel`, whose file it stages itself, and refuses the name of a file (`DynamoConfig`)."""
    runtime = recipe.runtime
    if runtime.dynamo.install == "wheel":
        message = f"Dynamo comes from the wheel {runtime.dynamo.source}, but srtctl knows a wheel by its version only, and refuses a file"
        hint = "export a point with `install: pip`, or install the wheel by `setup_script` with `install: present`"
        yield Problem(runtime.image_source, message, hint, "export-dynamo")


def _roles(recipe: Recipe) -> Iterator[Problem]:
    for role in recipe.roles:
        for var in role.env:
            if filled := next((word for word in PER_NODE if word in str(var.value)), ""):
                message = f"'{var.name}' of {role.role.value} holds {filled}, which srtctl would replace on each node"
                yield Problem(var.source, message, "write another text", "export-variable")
        for flag in role.flags:
            if flag.name == "connector":
                message = "'connector' in a role's flags chooses the KV connector for srtctl, and is no flag of the engine"
                yield Problem(flag.source, message, "set `kv-transfer-config`", "export-flag")
