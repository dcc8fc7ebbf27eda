"""A LaunchPlan as JSON: what `plan --format json` prints and a bundle's plan.json holds, for people, tests and the job's probe."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from recipegen.benchmarks import benchmark_settings
from recipegen.launch import LaunchPlan, Port, Process
from recipegen.model import EnvVar

FORMAT = 1


def plan_document(plan: LaunchPlan) -> dict[str, Any]:
    """Return the plan as plain JSON values; addresses and ports stand as `${NAME}`, port numbers are bases."""
    recipe = plan.recipe
    return {
        "format": FORMAT,
        "name": recipe.name,
        "point": recipe.point,
        "engine": plan.engine,
        "recipe_digest": recipe_digest(plan),
        "model": {
            "repo": recipe.model.repo,
            "revision": recipe.model.revision or None,
            "served_name": recipe.model.served_name,
        },
        "runtime": {
            "image": recipe.runtime.image,
            "vllm": recipe.runtime.vllm or None,
            "dynamo": plan.dynamo.version or None,
            "dynamo_requirement": plan.dynamo.requirement,
        },
        "workload": {
            "isl": recipe.workload.isl,
            "osl": recipe.workload.osl,
            "max_model_len": recipe.workload.max_model_len if recipe.workload.stated else None,
            "concurrency": list(recipe.concurrency),
        },
        "benchmark": benchmark_settings(recipe.benchmark),
        "variants": {variant.name: variant.benchmark.type for variant in recipe.variants},
        "directives": {
            "nodes": plan.directives.nodes,
            "ntasks_per_node": plan.directives.tasks_per_node,
            "time_limit_s": plan.directives.time_limit_s,
            "exclusive": True,
            "gpus_per_node": plan.directives.gpus_per_node,
            "segment": plan.directives.segment,
        },
        "expected_instances": {role.value: count for role, count in plan.expected.items()},
        "services": _ports(plan.services),
        **({"front_ends": list(plan.front_ends)} if plan.several_front_ends else {}),
        "port_step": plan.port_step,
        "port_slots": plan.port_slots,
        "processes": [_process(process) for process in plan.processes],
        **_job(plan),
        **({"carried": dict(recipe.job.carried)} if recipe.job.carried else {}),
    }


def plan_text(plan: LaunchPlan) -> str:
    """Return the document as indented JSON, short lists on one line, ending in a newline."""
    return json.dumps(plan_document(plan), indent=1, ensure_ascii=False) + "\n"


def recipe_digest(plan: LaunchPlan) -> str:
    """Return the sha256 of the canonical recipe: all that decides what runs, in sorted JSON; not where it was written."""
    recipe = plan.recipe
    canonical = {
        "name": recipe.name,
        "model": [recipe.model.repo, recipe.model.revision, recipe.model.served_name],
        "hardware": recipe.hardware.key,
        "workload": [recipe.workload.isl, recipe.workload.osl, recipe.workload.max_model_len if recipe.workload.stated else None],
        "runtime": [recipe.runtime.image, recipe.runtime.vllm, recipe.runtime.dynamo.version, recipe.runtime.dynamo.requirement],
        "time_limit_s": recipe.time_limit_s,
        "concurrency": recipe.concurrency,
        "roles": {
            role.role.value: {
                "workers": role.workers,
                "topology": str(role.topology),
                "flags": {flag.name: flag.value for flag in role.flags},
                "env": _env(role.env),
            }
            for role in recipe.roles
        },
        **_job(plan),
        **({"gpus_per_node": recipe.hardware.gpus_per_node} if recipe.hardware.split else {}),
    }
    return hashlib.sha256(json.dumps(canonical, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _job(plan: LaunchPlan) -> dict[str, Any]:
    """What the matrix asks of the job beside flags and variables, as far as it asks for anything that this point gets."""
    recipe, job = plan.recipe, plan.recipe.job
    asked = {
        "setup_script": job.setup_path,
        "slurm": {name: value for name, value in (("sbatch", dict(job.sbatch)), ("srun", list(job.srun))) if value},
        "infra": {"dedicated_node": True} if job.dedicated_node else {},
        "deadlines": {"ready_s": job.ready_s} if job.ready_s else {},
        "frontend": _frontend(plan),
        "request_plane": recipe.runtime.dynamo.request_plane if recipe.runtime.dynamo.request_plane != "tcp" else "",
        "colocate": recipe.colocate,
        "kv_events": [role.role.value for role in recipe.roles if role.kv_events],
    }
    return {name: value for name, value in asked.items() if value}


def _frontend(plan: LaunchPlan) -> dict[str, Any]:
    job = plan.recipe.job
    asked: dict[str, Any] = {"args": [list(flag.words) for flag in job.frontend_args], "env": _env(job.frontend_env)}
    if plan.several_front_ends:
        asked |= {"replicas": len(plan.front_ends), "nginx_image": job.nginx_image, "session_header": job.session_header}
    return {name: value for name, value in asked.items() if value}


def _process(process: Process) -> dict[str, Any]:
    return {
        "role": process.role.value,
        "worker": process.worker,
        "node_index": process.node_index,
        "node_rank": process.node_rank,
        "headless": process.headless,
        "device_ids": list(process.device_ids),
        "ports": _ports(process.ports),
        "env": _env(process.env),
        "argv": [str(word) for word in process.argv],
    }


def _ports(ports: tuple[Port, ...]) -> dict[str, dict[str, int]]:
    return {port.name: {"base": port.base, "count": port.count} for port in ports}


def _env(env: tuple[EnvVar, ...]) -> dict[str, str]:
    return {var.name: str(var.value) for var in sorted(env, key=lambda var: var.name)}
