"""Public srt-slurm recipes, imported and exported again, against their own YAML key for key: what differs is a list of normalisations.

RECIPEGEN_CORPUS points to the folder with the recipes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipegen.launch import LaunchPlan
from recipegen.pipeline import check_matrix
from recipegen.srtslurm.export import export_point
from recipegen.srtslurm.run import RecipeFile, import_files
from tests.contract.test_import_corpus import CORPUS, fitting_jobs, paths
from tests.support import published_plans

pytestmark = pytest.mark.skipif(not CORPUS or not Path(CORPUS, "qwen38").is_dir(), reason="RECIPEGEN_CORPUS does not point to public recipes")

Recipe = dict[str, Any]
SIZES = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
LAUNCHER = ("data-parallel-rpc-port", "data-parallel-hybrid-lb")
MODES = {"prefill": "prefill", "decode": "decode", "aggregated": "agg"}
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
WRITTEN_OUT = {"req_rate": "inf", "random_range_ratio": 0.8, "num_prompts_mult": 10, "num_warmup_mult": 2, "use_chat_template": True}
FRONTEND = {"type": "dynamo", "enable_multiple_frontends": False}


@dataclass(frozen=True)
class Normalisation:
    """One way in which an exported recipe is not the one that was imported; applied to both before they are compared."""

    why: str
    apply: Callable[[Recipe], None]
    needed: bool = True
    """Whether one of the recipes at hand needs it; else it is for others of the public ones."""


def each_config(change: Callable[[Recipe], Recipe]) -> Callable[[Recipe], None]:
    def apply(recipe: Recipe) -> None:
        configs = recipe["backend"]["vllm_config"]
        recipe["backend"]["vllm_config"] = {mode: change(dict(flags or {})) for mode, flags in configs.items()}

    return apply


def flag_name(name: str) -> str:
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + (dot + rest.replace("-", "_"))


def connector(recipe: Recipe) -> None:
    backend = recipe["backend"]
    named = backend.pop("connector", "nixl")
    if named == "nixl":
        for flags in backend["vllm_config"].values():
            flags.setdefault("kv-transfer-config", NIXL)


def served_name(recipe: Recipe) -> None:
    own = recipe["model"]["path"].rpartition("/")[2]
    for flags in recipe["backend"]["vllm_config"].values():
        if flags.get("served-model-name") == own:
            del flags["served-model-name"]


def gpus(recipe: Recipe) -> None:
    places = recipe["resources"]
    for role in ("prefill", "decode", "agg"):
        if f"{role}_nodes" in places:
            share = places[f"{role}_nodes"] * places["gpus_per_node"] // places[f"{role}_workers"]
            places.setdefault(f"gpus_per_{role}", share or places["gpus_per_prefill"])


def idle_gpus(recipe: Recipe) -> None:
    for mode, flags in recipe["backend"]["vllm_config"].items():
        sizes = [int(flags.get(size, 1)) for size in SIZES]
        given = f"gpus_per_{MODES[mode]}"
        recipe["resources"][given] = min(recipe["resources"][given], math.prod(sizes))


def one_node(recipe: Recipe) -> None:
    if recipe["backend"].pop("allow_prefill_decode_colocation", False):
        recipe["resources"] |= {"prefill_nodes": 1, "decode_nodes": 0}


def environment(recipe: Recipe) -> None:
    for mode in MODES:
        if recipe["backend"].get(f"{mode}_environment") == {}:
            del recipe["backend"][f"{mode}_environment"]


def time_limit(recipe: Recipe) -> None:
    slurm = recipe.setdefault("slurm", {})
    slurm["time_limit"] = re.sub(r"^0(?=\d:)", "", slurm.get("time_limit", "4:00:00"))


def benchmark(recipe: Recipe) -> None:
    section = recipe["benchmark"]
    if section["type"] == "sa-bench":
        for name, value in WRITTEN_OUT.items():
            section.setdefault(name, value)
    if section["type"] == "mooncake-router":
        section.setdefault("mooncake_workload", "conversation")
    if "random_range_ratio" in section:
        section["random_range_ratio"] = float(section["random_range_ratio"])
    section.setdefault("concurrencies", "1")
    counts = section["concurrencies"]
    section["concurrencies"] = sorted({int(one) for one in (counts if isinstance(counts, list) else str(counts).split("x"))})


def dynamo(recipe: Recipe) -> None:
    section = recipe.setdefault("dynamo", {})
    section.setdefault("install", True)
    stated = recipe.get("identity", {}).get("frameworks", {}).get("dynamo")
    tag = re.search(r"vllm-runtime:(\d+\.\d+\.\d+)", recipe["model"]["container"])
    if "wheel" not in section:
        section.setdefault("version", stated or (tag[1] if tag else None))
    if section.get("request_plane") == "tcp":
        del section["request_plane"]


def identity(recipe: Recipe) -> None:
    """None is as good as one that only says again what other keys say; so is a model's name without a revision."""
    pins, dynamo = recipe.setdefault("identity", {}), recipe["dynamo"]
    again = {
        "repo": recipe["model"]["path"].removeprefix("hf:"),
        "image": recipe["model"]["container"],
        "dynamo": dynamo.get("version", dynamo.get("wheel")),
    }
    if all(again.get(name) == value for section in pins.values() for name, value in section.items()):
        recipe["identity"] = {}
    elif pins.get("model") == {"repo": again["repo"]}:
        del pins["model"]


def health(recipe: Recipe) -> None:
    if check := recipe.get("health_check"):
        recipe["health_check"] = check["max_attempts"] * check["interval_seconds"]


def front_ends(recipe: Recipe) -> None:
    """srtctl's own number is 10, of which a job of two nodes has one."""
    section, places = recipe.setdefault("frontend", {"type": "dynamo"}), recipe["resources"]
    if "num_additional_frontends" not in section:
        nodes = sum(places.get(f"{role}_nodes", 0) for role in MODES.values()) + bool(recipe.get("infra"))
        section.setdefault("enable_multiple_frontends", nodes > 2)
    if section.setdefault("enable_multiple_frontends", True):
        section.setdefault("num_additional_frontends", 9)


def name(recipe: Recipe) -> None:
    del recipe["name"]


NORMALISATIONS = (
    Normalisation("a name ends in its point's, and is in lower case", name),
    Normalisation("`_` and `-` are the same in a flag", each_config(lambda flags: {flag_name(key): value for key, value in flags.items()}), needed=False),
    Normalisation("flags that are false or null reach no engine", each_config(lambda f: {k: v for k, v in f.items() if v is not None and v is not False})),
    Normalisation("a flag of the launcher is set by it", each_config(lambda f: {k: v for k, v in f.items() if k not in LAUNCHER})),
    Normalisation("sizes are whole numbers, and those of 1 left out", each_config(
        lambda f: {k: int(v) if k in SIZES else v for k, v in f.items() if k not in SIZES or int(v) > 1}
    )),
    Normalisation("a connector by name is its transfer configuration", connector),
    Normalisation("the last part of a model's path is its name for clients", served_name),
    Normalisation("GPUs of a worker are written out", gpus),
    Normalisation("GPUs of a worker are those that it uses", idle_gpus),
    Normalisation("workers of both roles on the one node that holds them have prefill's nodes, and decode none", one_node),
    Normalisation("an environment without variables is none", environment, needed=False),
    Normalisation("a time limit has no leading zero, and is written out", time_limit),
    Normalisation("what sa-bench does by default is written out; concurrencies are texts as 1x2x4, in order", benchmark),
    Normalisation("Dynamo is named by its version, also where a pin or the image's tag says it", dynamo),
    Normalisation("pins are written where a revision or a build is pinned, and not else", identity),
    Normalisation("a health check is its product", health, needed=False),
    Normalisation("how many front ends there are is written out", front_ends, needed=False),
)  # fmt: skip
"""Everything in which export(import(y)) is not y."""


def normal(recipe: Mapping[str, Any], *, without: int | None = None) -> str:
    found = json.loads(json.dumps(recipe))
    for number, one in enumerate(NORMALISATIONS):
        if number != without:
            one.apply(found)
    return json.dumps(found, sort_keys=True, indent=1)


@cache
def imported(path: Path) -> tuple[LaunchPlan, ...]:
    made = import_files([RecipeFile(file=str(path), folder="", data=path.read_bytes())])
    return tuple(plan for name, text in made.matrices.items() for plan in check_matrix(text, name).plans)


@cache
def exported(path: Path) -> tuple[str, ...]:
    return tuple(map(export_point, imported(path)))


@pytest.mark.parametrize("path", paths() if CORPUS else (), ids=lambda path: str(path.relative_to(CORPUS)))
def test_an_imported_recipe_is_exported_as_it_came(path: Path) -> None:
    found = sorted(normal(yaml.safe_load(text)) for text in exported(path))
    wished = sorted(normal(job) for job in fitting_jobs(path)) if found else []
    assert len(found) == len(wished)
    for made, asked in zip(found, wished, strict=True):
        assert made == asked


@pytest.mark.parametrize("number", [number for number, one in enumerate(NORMALISATIONS) if one.needed], ids=lambda number: NORMALISATIONS[number].why)
def test_every_normalisation_is_needed(number: int) -> None:
    """One that nothing needs would hide a difference."""
    assert any(differs(path, number) for path in paths())


def test_both_layouts_of_an_imported_recipe_are_imported_as_the_same_points() -> None:
    """The second has no key for where a benchmark sends its requests, nor for lengths and load of one that brings its own."""
    for path in paths()[::4]:
        plans = imported(path)
        for form in ("srt-slurm-v1", "srt-slurm-v2"):
            files = [RecipeFile(file=f"{n}.yaml", folder="", data=export_point(plan, form).encode()) for n, plan in enumerate(plans)]
            again = import_files(files)
            assert not [report.refused for report in again.reports if report.refused], path
            made = [plan for name, text in again.matrices.items() for plan in check_matrix(text, name).plans]
            assert sorted(map(engines, made)) == sorted(map(engines, plans)), path


def engines(plan: LaunchPlan) -> str:
    """What runs on the nodes of a plan, beside the launcher's own."""
    roles = [(role.layout, sorted(map(repr, (flag.words for flag in role.recipe.flags))), [e.value for e in role.recipe.env]) for role in plan.roles]
    return repr((roles, plan.directives, plan.recipe.runtime.dynamo, plan.recipe.model.repo, plan.recipe.job.carried.get("model.precision")))


def differs(path: Path, without: int) -> bool:
    texts = exported(path)
    try:
        found = sorted(normal(yaml.safe_load(text), without=without) for text in texts)
        return found != sorted(normal(job, without=without) for job in fitting_jobs(path) if texts)
    except (KeyError, TypeError, AttributeError):
        return True  # another rests on it


def test_the_studys_files_come_back_with_their_names() -> None:
    ours = {plan.recipe.name: yaml.safe_load(export_point(plan)) for plan in published_plans()}
    files = sorted(Path(CORPUS, "qwen38").glob("*.yaml"))
    assert len(files) == 5
    for path in files:
        theirs = yaml.safe_load(path.read_text())
        for flags in theirs["backend"]["vllm_config"].values():
            for size in SIZES:
                if flags.get(size) == 1:
                    del flags[size]
        assert ours[theirs["name"]] == theirs
