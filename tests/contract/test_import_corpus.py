"""Public srt-slurm recipes, imported and planned, against what their YAML says: read here without the importer.

RECIPEGEN_CORPUS points to the folder with the recipes.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipegen.benchmarks import benchmark_settings
from recipegen.launch import LaunchPlan
from recipegen.pipeline import check_matrix, render_plans
from recipegen.srtslurm.report import Outcome, counts, report_text
from recipegen.srtslurm.run import Import, RecipeFile, import_files
from tests.support import published_plans

CORPUS = os.environ.get("RECIPEGEN_CORPUS", "")
FOLDERS = ("qwen38", "srt-slurm", "srt-slurm-recipes")
REFUSED: dict[str, str] = {}
"""Files of which nothing can be imported: the end of a path -> why."""

MODES = {"prefill": "prefill", "decode": "decode", "aggregated": "agg"}
SIZES = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
LAUNCHER = ("data-parallel-rpc-port", "data-parallel-hybrid-lb")
SA_BENCH = {"endpoint": "/v1/completions", "random_range_ratio": 0.8, "prompts_per_concurrency": 10.0, "warmup_per_concurrency": 2.0}
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
BENCHMARK = {
    "backend": "backend", "custom_tokenizer": "tokenizer_class", "endpoint": "endpoint", "itl_threshold_ms": "itl_threshold_ms",
    "mooncake_workload": "mooncake_workload", "num_prompts_mult": "prompts_per_concurrency", "num_warmup_mult": "warmup_per_concurrency",
    "random_range_ratio": "random_range_ratio", "repeat": "repeat", "req_rate": "request_rate", "ttft_threshold_ms": "ttft_threshold_ms",
    "use_chat_template": "chat_template",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not CORPUS or not Path(CORPUS, "qwen38").is_dir(), reason="RECIPEGEN_CORPUS does not point to public recipes")


@cache
def paths() -> tuple[Path, ...]:
    return tuple(sorted(path for folder in FOLDERS for path in Path(CORPUS, folder).rglob("*.yaml")))


@cache
def imported() -> Import:
    return import_files([RecipeFile(file=str(p), folder=str(p.parent.relative_to(CORPUS)), data=p.read_bytes()) for p in paths()])


@cache
def plans(folder: str) -> tuple[LaunchPlan, ...]:
    texts = {path: text for path, text in imported().matrices.items() if str(Path(path).parent.parent) == folder}
    return tuple(plan for path, text in texts.items() for plan in check_matrix(text, path).plans)


def test_every_file_is_imported_or_refused_for_a_true_reason() -> None:
    reports = {report.file: report for report in imported().reports}
    assert len(reports) == len(paths()) >= 111
    refused = {file: report for file, report in reports.items() if report.outcome is Outcome.REFUSED}
    for file, report in refused.items():
        why = next((reason for end, reason in REFUSED.items() if file.endswith(end)), None)
        assert why is not None, f"{file} is refused: {report.refused}"
        assert all(why in str(problem) for one in report.refused for problem in one.problems)
        assert all(problem.source.line and problem.rule for one in report.refused for problem in one.problems)
    if len(paths()) == 111:
        assert len(refused) == len(REFUSED)
    for line in report_text(imported().reports):
        print(line)


@pytest.mark.parametrize("folder", sorted({str(path.parent.relative_to(CORPUS)) for path in paths()}) if CORPUS else [""])
def test_plans_run_what_the_recipes_say(folder: str) -> None:
    """All jobs of a folder's files, as a bag: none is missing, and none is there that no recipe asks for."""
    here = [path for path in paths() if str(path.parent.relative_to(CORPUS)) == folder]
    reports = {report.file: report for report in imported().reports}
    wanted = [job for path in here if reports[str(path)].matrices for job in fitting_jobs(path)]
    assert len(plans(folder)) == len(wanted)
    found, wished = (sorted(json.dumps(one, sort_keys=True, indent=1) for one in ones) for ones in (map(planned, plans(folder)), map(said, wanted)))
    for made, asked in zip(found, wished, strict=True):
        assert made == asked


def test_jobs_that_do_not_fit_are_counted() -> None:
    for path, report in zip(paths(), imported().reports, strict=True):
        if report.matrices:
            assert (report.jobs, report.kept) == (len(list(jobs(path))), len(list(fitting_jobs(path)))), path


def test_what_is_imported_is_rendered_without_errors() -> None:
    points = 0
    for path, text in imported().matrices.items():
        checked = check_matrix(text, path)
        assert checked.usable
        assert not checked.errors, [str(finding) for finding in checked.errors]
        points += len(render_plans(checked.plans))
    assert points == counts(imported().reports)["points"]


def test_a_sweep_is_its_product_with_its_types() -> None:
    path = next(path for path in paths() if str(path).endswith("NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4/B200/vllm/8k1k.yaml"))
    sizes = {(t, p, d, e) for t, p, d, e in itertools.product([1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], [True, False]) if t * p * d <= 8}
    made = [plan.roles[0].recipe for plan in plans(str(path.parent.relative_to(CORPUS)))]
    assert {(r.topology.tp, r.topology.pp, r.topology.dp, r.topology.ep) for r in made} == sizes
    assert len(made) == len(sizes)
    assert all(type(flag.value) is int for role in made for flag in role.flags if flag.name in SIZES)


def test_the_studys_files_are_points_of_the_published_leaf() -> None:
    (matrix,) = [text for path, text in imported().matrices.items() if path.startswith("qwen38/")]
    ours = {plan.recipe.name: plan for plan in published_plans()}
    for plan in check_matrix(matrix, "matrix.yaml").plans:
        twin = ours[plan.recipe.name]
        assert sides(plan) == sides(twin)
        assert (plan.directives, plan.recipe.model, plan.recipe.runtime.image) == (twin.directives, twin.recipe.model, twin.recipe.runtime.image)
    assert b"sized_for / dp + 16" in matrix
    assert b"block-size" not in matrix


def sides(plan: LaunchPlan) -> list[Any]:
    return [
        (
            side.recipe.role,
            side.layout.nodes,
            side.layout.workers,
            {f.name: f.value for f in side.recipe.flags},
            {e.name: e.value for e in side.recipe.env},
        )
        for side in plan.roles
    ]


def comments(text: str) -> list[str]:
    """Comments of a file line by line; no recipe at hand has a '#' within a text."""
    found = []
    for line in text.splitlines():
        before, mark, after = line.partition("#")
        if mark and (not before or before[-1].isspace()) and before.count('"') % 2 == before.count("'") % 2 == 0 and after.strip("# "):
            found.append(after.strip("# "))
    return found


def test_no_comment_of_a_file_with_a_matrix_of_its_own_is_lost() -> None:
    owners: dict[str, list[str]] = {}
    for report in imported().reports:
        for path in report.matrices:
            owners.setdefault(path, []).append(report.file)
    alone = [(path, files[0]) for path, files in owners.items() if len(files) == 1]
    told = 0
    for path, file in alone:
        written = comments(imported().matrices[path].decode())
        have = {*written, *(line.partition(": ")[2] for line in written)}
        wanted = comments(Path(file).read_text())
        missing = [line for line in wanted if line not in have]
        assert not missing, (file, missing)
        told += len(wanted)
    assert len(alone) > 20
    assert told > 200
    print(f"{told} comment lines of {len(alone)} matrices")


def test_comments_of_further_files_stand_in_their_matrix() -> None:
    for report in imported().reports:
        texts = [imported().matrices[path].decode() for path in report.matrices]
        for line in comments(Path(report.file).read_text()):
            assert not texts or any(line in text for text in texts), (report.file, line)


BAD = {
    "01_unknown_top": "90:1: 'fontend' is no key of an srt-slurm recipe; did you mean 'frontend'? [srt-key]",
    "03_unknown_vllm_flag": "did you mean 'tensor-parallel-size'? [flag-unknown]",
    "05_wrong_type_tp": "40:29: 'backend.vllm_config.prefill.tensor-parallel-size' is the text 'two'; expected a whole number [srt-type]",
    "06_gpu_mismatch": "14:18: 'resources.prefill_nodes' is 4, but 2 x 12 GPUs take 6 nodes of 4 [srt-nodes]",
    "08_missing_alias": None,
    "10_tabs": "17:1: indented with a tab; expected spaces [yaml-tab]",
    "11_empty": "1:1: nothing is here; expected a mapping, 'key: value' [yaml-mapping]",
    "15_shell_env": "92:3: 'environment.BAD NAME;touch",
    "16_shell_name": "1:7: 'name' is the text 'x\\n#SBATCH",
    "18_name_spaces": "1:7: 'name' is the text 'my job; rm -rf $HOME'",
    "20_setup_traversal": "90:15: 'setup_script' climbs out of its folder by '..'",
    "21_block_mismatch": None,
    "23_neg_nodes": "14:18: 'resources.prefill_nodes' is -4; expected 1 or more [srt-type]",
    "25_time": "3:15: 'slurm.time_limit' is the number 5400; expected H:MM:SS",
    "26_time_sexagesimal": "4:15: '1:30:00' is a number in base 60",
    "28_no_concurrency": "80:1: 'benchmark.concurrencies' is missing",
    "30_env_int": "31:24: 'backend.prefill_environment.NCCL_MNNVL_ENABLE' is the number 1; expected text, in quotes [srt-env]",
    "31_env_bool": "31:11: 'backend.prefill_environment.FLAG' is true; expected text, in quotes [srt-env]",
    "33_scalar": "1:1: the file holds a single value; expected a mapping",
    "35_precision": None,
    "36_gputype": "12:13: 'resources.gpu_type' is the text 'gb999'",
    "38_two_spellings": "58:7: 'tensor_parallel_size' and 'tensor-parallel-size' are the same flag",
    "40_nodes_excess": None,
    "41_segment_over18": "[topology-segment]",
    "43_maxlen_small": "72:7: 'max-model-len' is not the same for all roles",
    "45_bool_no": "10:12: 'dynamo.install' is the text 'no'; expected true or false [srt-type]",
    "46_frac_nodes": "14:18: 'resources.prefill_nodes' is the number 4.7; expected a whole number [srt-type]",
    "48_python_tag": "133:14: tag '!!python/object/apply:os.system' is not allowed on a list; expected no tag [yaml-tag]",
    "50_env2000": None,
    "50_env20000": None,
}
"""What is said of a bad recipe, by the import or by a check of what was imported; None: nothing is wrong that a matrix could show.

An alias is resolved by the cluster, a precision informs, idle nodes are left out with a note, many variables are only many, and a
block of 1088 tokens is rounded up by vLLM to the 2176 of the other side, as one block holds the state of a request.
"""


@pytest.mark.parametrize("name", BAD)
def test_bad_recipes_are_refused_by_import_or_check(name: str) -> None:
    data = Path(CORPUS, "bad-recipes", f"{name}.yaml").read_bytes()
    made = import_files([RecipeFile(file=name, folder="", data=data)])
    (report,) = made.reports
    said = [f"{problem} [{problem.rule}]" for one in report.refused for problem in one.problems]
    for path, text in made.matrices.items():
        said += [f"{finding.source}: {finding.message}; {finding.mend} [{finding.rule}]" for finding in check_matrix(text, path).errors]
    assert bool(said) is (BAD[name] is not None), said
    assert not BAD[name] or any(BAD[name] in text for text in said), said


# -- what a recipe says, straight from its YAML ------------------------------------------------------------------------


def jobs(path: Path) -> Iterator[dict[str, Any]]:
    recipe = yaml.safe_load(path.read_text())
    sweep = recipe.pop("sweep", None) or {}
    for values in itertools.product(*sweep.values()):
        yield filled(recipe, dict(zip(sweep, values, strict=True)))


def fitting_jobs(path: Path) -> Iterator[dict[str, Any]]:
    for job in jobs(path):
        if all(gpus(flags) <= worker_gpus(job, role) for role, flags in configs(job).items()):
            yield job


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [filled(one, names) for one in value]
    if isinstance(value, str) and value.startswith("{") and value[1:-1] in names:
        return names[value[1:-1]]
    return value


def configs(job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    found = {MODES[mode]: dict(flags or {}) for mode, flags in job["backend"]["vllm_config"].items()}
    if job["backend"].get("connector", "nixl") == "nixl":
        found = {role: {"kv-transfer-config": NIXL, **flags} for role, flags in found.items()}
    return found


def gpus(flags: Mapping[str, Any]) -> int:
    tp, pp, dp = (int(flags.get(name, 1)) for name in SIZES)
    return tp * pp * dp


def worker_gpus(job: Mapping[str, Any], role: str) -> int:
    places = job["resources"]
    if role == "decode" and places["decode_nodes"] == 0 and "gpus_per_decode" not in places:
        return worker_gpus(job, "prefill")
    return int(places.get(f"gpus_per_{role}") or places[f"{role}_nodes"] * places["gpus_per_node"] // places[f"{role}_workers"])


def together(job: Mapping[str, Any]) -> bool:
    """Whether decode begins on prefill's nodes: it has none, and prefill takes all; or the recipe lets it and one node holds all workers."""
    places, allowed = job["resources"], job["backend"].get("allow_prefill_decode_colocation", False)
    if "decode_nodes" not in places:
        return False
    all_gpus = sum(places[f"{role}_workers"] * worker_gpus(job, role) for role in ("prefill", "decode"))
    if allowed and all_gpus <= places["gpus_per_node"]:
        return True
    each = places["gpus_per_node"] // gpus(configs(job)["prefill"])
    return places["decode_nodes"] == 0 and places["prefill_nodes"] == -(-places["prefill_workers"] // each)


def nodes_taken(job: Mapping[str, Any]) -> dict[str, set[int]]:
    """The nodes on which each role's workers stand, one worker behind the other."""
    places, shared = job["resources"], together(job)
    width, end, found = places["gpus_per_node"], 0, {}
    for role, flags in sorted(configs(job).items(), reverse=True):
        size, taken = gpus(flags), set[int]()
        end = end if shared else -(-end // width) * width
        for _ in range(places[f"{role}_workers"]):
            start = end if end % width + size <= width else -(-end // width) * width
            end = start + size
            taken |= set(range(start // width, -(-end // width)))
        found[role] = taken
    return found


def said(job: Mapping[str, Any]) -> dict[str, Any]:
    """One job as its YAML has it, in the terms of `planned`."""
    benchmark, places = job["benchmark"], job["resources"]
    names = {"prefill": "prefill", "decode": "decode", "agg": "aggregated"}
    taken, full = nodes_taken(job), all(gpus(flags) == worker_gpus(job, role) for role, flags in configs(job).items())
    if full and not together(job):
        assert {role: len(nodes) for role, nodes in taken.items()} == {role: places[f"{role}_nodes"] for role in taken}
    roles = {
        role: {
            "workers": places[f"{role}_workers"], "nodes": len(taken[role]), "flags": engine_flags(flags),
            "env": {**(job["backend"].get(f"{names[role]}_environment") or {}), **variables(job)},
        }
        for role, flags in configs(job).items()
    }  # fmt: skip
    infra = bool((job.get("infra") or {}).get("etcd_nats_dedicated_node"))
    dynamo, stated = job.get("dynamo") or {}, (job.get("identity") or {}).get("frameworks") or {}
    return {
        "roles": roles,
        "nodes": len(set().union(*taken.values())) + infra,
        "gpus_per_node": places["gpus_per_node"],
        "concurrency": concurrency(benchmark.get("concurrencies", 1)),
        "lengths": [benchmark.get("isl", 1024), benchmark.get("osl", 1024)],
        "benchmark": measured(benchmark),
        "time_limit": re.sub(r"^0(?=\d:)", "", (job.get("slurm") or {}).get("time_limit", "4:00:00")),
        "image": job["model"]["container"],
        "model": job["model"]["path"].removeprefix("hf:"),
        "served_name": served_name(job),
        "vllm": version if re.match(r"\d", version := stated.get("vllm", "")) else "",
        "dynamo": [dynamo.get("install", True), dynamo.get("version") or dynamo.get("wheel") or stated.get("dynamo") or of_image(job)],
        "setup_script": job.get("setup_script", ""),
        "sbatch": job.get("sbatch_directives") or {},
        "srun": [f"--{name}={value}" for name, value in (job.get("srun_options") or {}).items()],
        "ready_s": (check["max_attempts"] * check["interval_seconds"]) if (check := job.get("health_check")) else 0,
        "frontend": (job.get("frontend") or {}).get("args") or {},
        "frontend_env": {**variables(job), **((job.get("frontend") or {}).get("env") or {})},
        "front_ends": front_ends(job.get("frontend") or {}, sum(role["nodes"] for role in roles.values()) + infra),
        "precision": job["model"]["precision"],
        "colocate": together(job),
    }


def variables(job: Mapping[str, Any]) -> dict[str, str]:
    """What all processes get; a wheel's name and version are added below what the recipe says."""
    wheel = (job.get("dynamo") or {}).get("wheel")
    added = {"DYNAMO_WHEEL_NAME": f"ai_dynamo-{wheel}-py3-none-any.whl", "DYNAMO_VERSION": wheel} if wheel else {}
    return {**added, **(job.get("environment") or {})}


def front_ends(frontend: Mapping[str, Any], nodes: int) -> int:
    """As many as are asked for, on the nodes behind the first, which then has nginx."""
    wanted = 1 + frontend.get("num_additional_frontends", 9) if frontend.get("enable_multiple_frontends", True) else 1
    return max(1, min(wanted, nodes - 1))


def measured(benchmark: Mapping[str, Any]) -> dict[str, Any]:
    """A benchmark's settings, with what srtctl measures sa-bench by where a recipe does not say."""
    found = {ours: benchmark[name] for name, ours in BENCHMARK.items() if name in benchmark}
    return {"type": benchmark["type"], **(SA_BENCH if benchmark["type"] == "sa-bench" else {}), **numbers(found)}


def numbers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """1 is 1.0."""
    return {name: float(value) if isinstance(value, int) and not isinstance(value, bool) else value for name, value in settings.items()}


def served_name(job: Mapping[str, Any]) -> str:
    """What clients ask for: the last part of the model's path where no role names it."""
    names = {flags["served-model-name"] for flags in configs(job).values() if "served-model-name" in flags}
    return names.pop() if names else job["model"]["path"].rpartition("/")[2]


def of_image(job: Mapping[str, Any]) -> str:
    """The version of Dynamo that the tag of its own images begins with."""
    found = re.search(r"vllm-runtime:(\d+\.\d+\.\d+)", job["model"]["container"])
    return found[1] if found else ""


def engine_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """What vLLM gets beside what the launcher gives it: no sizes of 1, no false and null, no served name."""
    found = {}
    for key, value in flags.items():
        head, dot, rest = key.partition(".")
        name = head.replace("_", "-") + dot + rest
        if name in LAUNCHER or name == "served-model-name" or value is None or value is False or (name in SIZES and int(value) == 1):
            continue
        found[name] = int(value) if name in SIZES else value
    return found


def concurrency(value: Any) -> list[int]:
    parts = value if isinstance(value, list) else str(value).split("x")
    return sorted({int(part) for part in parts})


def planned(plan: LaunchPlan) -> dict[str, Any]:
    """One plan, as far as a recipe decides it."""
    recipe, job = plan.recipe, plan.recipe.job
    hours, rest = divmod(recipe.time_limit_s, 3600)
    settings = benchmark_settings(recipe.benchmark)
    written = {name: settings[name] for name in ("type", *BENCHMARK.values()) if name in recipe.benchmark.places or name == "type"}
    return {
        "roles": {
            side.recipe.role.value: {
                "workers": side.layout.workers, "nodes": side.layout.nodes,
                "flags": {flag.name: list(flag.value) if isinstance(flag.value, tuple) else flag.value for flag in side.recipe.flags},
                "env": {var.name: var.value for var in side.recipe.env},
            }
            for side in plan.roles
        },
        "nodes": plan.directives.nodes,
        "gpus_per_node": plan.directives.gpus_per_node,
        "concurrency": list(recipe.concurrency),
        "lengths": [recipe.workload.isl, recipe.workload.osl],
        "benchmark": numbers(written),
        "time_limit": f"{hours}:{rest // 60:02d}:{rest % 60:02d}",
        "image": recipe.runtime.image,
        "model": recipe.model.repo,
        "served_name": recipe.model.served_name,
        "vllm": recipe.runtime.vllm,
        "dynamo": [recipe.runtime.dynamo.install == "pip", recipe.runtime.dynamo.version],
        "setup_script": job.setup_script,
        "sbatch": dict(job.sbatch),
        "srun": list(job.srun),
        "ready_s": job.ready_s,
        "frontend": {flag.name: flag.value for flag in job.frontend_args},
        "frontend_env": {var.name: var.value for var in job.frontend_env},
        "front_ends": len(plan.front_ends),
        "precision": job.carried["model.precision"],
        "colocate": recipe.colocate,
    }  # fmt: skip
