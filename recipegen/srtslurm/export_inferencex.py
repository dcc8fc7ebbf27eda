"""A point as an entry of an InferenceX master configuration: what its sweep generator needs to start the exported srt-slurm recipe."""

from __future__ import annotations

import re
from typing import Any

from recipegen.benchmarks import LOAD_TYPES
from recipegen.errors import InputError, Problem
from recipegen.launch import LaunchPlan, RolePlan
from recipegen.model import Recipe
from recipegen.srtslurm.export_text import SrtDocument
from recipegen.srtslurm.export_v1 import common_document

_PRECISIONS = {"nvfp4": "fp4", "mxfp4": "fp4", "bfloat16": "bf16", "float16": "fp16"}
_HEAD = (
    "model-prefix, runner and the path of CONFIG_FILE are those of the configuration that this goes into:",
    "set them to its prefix of the model, its label of the machines, and where it keeps the exported recipe",
)


def inferencex_document(plan: LaunchPlan) -> SrtDocument:
    """Return a point as one entry by its name, of the multi-node form with `scenarios`.

    InputError for an aggregated point, whose entry has no recipe of its own, and for a benchmark of other than fixed lengths.
    """
    recipe = plan.recipe
    if problems := _limits(plan):
        raise InputError(problems)
    section = common_document(plan).fields
    gpu, precision = section["resources"]["gpu_type"], str(section["model"]["precision"]).lower()
    short = _PRECISIONS.get(precision, precision)
    prefix = re.split(r"[-_]", recipe.model.repo.rstrip("/").rpartition("/")[2].lower())[0]
    prefill, decode = plan.roles
    search = {
        "spec-decoding": "mtp" if recipe.mtp else "none",
        "conc-list": list(recipe.concurrency),
        "prefill": {**_worker(prefill), "additional-settings": [f"CONFIG_FILE=recipes/{recipe.point}.yaml"]},
        "decode": _worker(decode),
    }
    entry: dict[str, Any] = {
        "image": recipe.runtime.image,
        "model": recipe.model.repo,
        "model-prefix": prefix,
        "runner": gpu,
        "precision": short,
        "framework": "dynamo-vllm",
        "multinode": True,
        "disagg": True,
        "scenarios": {"fixed-seq-len": [{"isl": recipe.workload.isl, "osl": recipe.workload.osl, "search-space": [search]}]},
    }
    return SrtDocument(fields={f"{prefix}-{short}-{gpu}-dynamo-vllm-{recipe.point}": entry}, head=_HEAD)


def _worker(role: RolePlan) -> dict[str, Any]:
    """A role as the sweep generator has it: `tp` counts the GPUs that share attention, be it by tensors or by data (`dp-attn`)."""
    topology = role.recipe.topology
    stages = {"pp": topology.pp} if topology.pp > 1 else {}
    return {"num-worker": role.layout.workers, "tp": topology.tp * topology.dp, **stages, "ep": topology.ep_size, "dp-attn": topology.dp > 1}


def _limits(plan: LaunchPlan) -> list[Problem]:
    recipe: Recipe = plan.recipe
    found = []
    if len(plan.roles) == 1:
        message = f"point {recipe.point} is aggregated; InferenceX starts such a one by a script of its own, not by a recipe"
        found.append(Problem(recipe.source, message, "export prefill and decode points", "export-inferencex"))
    if recipe.benchmark.type not in LOAD_TYPES:
        message = f"the benchmark '{recipe.benchmark.type}' has no fixed lengths, which the entry is for"
        found.append(Problem(recipe.benchmark.source, message, "set `benchmark.type: sa-bench`", "export-inferencex"))
    return found
