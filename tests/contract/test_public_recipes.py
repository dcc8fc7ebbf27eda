"""Our points against the public srt-slurm recipes of the same study, read where RECIPEGEN_CORPUS points."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipegen.matrix import canonical_flag
from recipegen.model import Role
from recipegen.render import format_duration
from tests.support import published_plans

CORPUS = os.environ.get("RECIPEGEN_CORPUS", "")
PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")


def recipes() -> list[Path]:
    return sorted(Path(CORPUS, "qwen38").glob("*.yaml")) if CORPUS else []


@pytest.mark.skipif(not recipes(), reason="RECIPEGEN_CORPUS does not point to a folder with qwen38/")
def test_every_public_recipe_is_one_of_our_points() -> None:
    ours = {plan.recipe.name: plan for plan in published_plans()}
    for path in recipes():
        public = yaml.safe_load(path.read_text())
        plan = ours[public["name"]]
        assert {role.recipe.role: flags_of(role.recipe.flags) for role in plan.roles} == {
            role: normalised(public["backend"]["vllm_config"][role.value]) for role in (Role.PREFILL, Role.DECODE)
        }
        for role in plan.roles:
            resources, name = public["resources"], role.recipe.role.value
            assert {var.name: var.value for var in role.recipe.env} == public["backend"][f"{name}_environment"]
            assert role.layout.nodes == resources[f"{name}_nodes"]
            assert role.layout.workers == resources[f"{name}_workers"]
            assert role.recipe.topology.gpus == resources[f"gpus_per_{name}"]
        assert format_duration(plan.recipe.time_limit_s) == public["slurm"]["time_limit"]
        assert public["identity"]["model"] == {"repo": plan.recipe.model.repo, "revision": plan.recipe.model.revision}
        assert public["identity"]["frameworks"] == {"dynamo": plan.recipe.runtime.dynamo.version, "vllm": plan.recipe.runtime.vllm}
        assert public["model"]["container"] == plan.recipe.runtime.image
        assert public["benchmark"]["concurrencies"] == "x".join(map(str, plan.recipe.concurrency))


def flags_of(flags: Any) -> dict[str, Any]:
    return {flag.name: flag.value for flag in flags}


def normalised(config: dict[str, Any]) -> dict[str, Any]:
    """Parallel sizes of 1 say nothing and are left out by both sides."""
    flags = {canonical_flag(name): value for name, value in config.items()}
    return {name: value for name, value in flags.items() if not (name in PARALLEL and value == 1)}
