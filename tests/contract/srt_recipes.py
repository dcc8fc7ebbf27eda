"""Public srt-slurm recipes as matrices, read straight from their YAML: vLLM, one file or a sweep of them."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from recipegen.architecture import Architecture, Attention, LinearAttention, Moe
from recipegen.benchmarks import make_benchmark
from recipegen.catalogue import load_hardware, load_model
from recipegen.engines import REAL
from recipegen.errors import Source
from recipegen.matrix import canonical_flag
from recipegen.model import Benchmark, Dynamo, Matrix, ModelSpec, Point, Role, RoleShape, Runtime, Topology, Workload
from recipegen.settings import RoleSettings, Setting
from tests.unit.test_hf_config import KNOWN

ROLES = {"prefill": Role.PREFILL, "decode": Role.DECODE, "aggregated": Role.AGG}
SIZES = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
HARDWARE = {"gb200": "gb200-nvl72", "gb300": "gb300-nvl72"}
STUDIED = load_model("qwen3.8-2.4t-nvfp4")
UNKNOWN = "0" * 40
NOT_SAID = "0.1.0"
"""A build older than any that is known, for recipes that do not say theirs."""
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
"""What the other launcher adds to both sides for `connector: nixl`, and where nothing is said."""


def expanded(path: Path) -> Iterator[dict[str, Any]]:
    """The recipe, or every recipe that its sweep makes; a template that stands alone takes the value with its type."""
    recipe = yaml.safe_load(path.read_text())
    sweep = recipe.pop("sweep", None) or {}
    for values in itertools.product(*sweep.values()):
        yield _filled(recipe, dict(zip(sweep, values, strict=True)))


def _filled(value: Any, names: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, names) for one in value]
    if isinstance(value, str):
        for name, filled in names.items():
            if value == f"{{{name}}}":
                return filled
            value = value.replace(f"{{{name}}}", str(filled))
    return value


def as_matrix(recipe: Mapping[str, Any], file: str) -> Matrix:
    """One public recipe as a matrix of one point."""
    benchmark, resources = recipe["benchmark"], recipe["resources"]
    configs = {ROLES[name]: flags or {} for name, flags in recipe["backend"]["vllm_config"].items()}
    if Role.AGG not in configs:
        configs = {role: _with_connector(recipe["backend"], flags) for role, flags in configs.items()}
    environment = {role: recipe["backend"].get(f"{name}_environment") or {} for name, role in ROLES.items()}
    lengths = [f.get("max-model-len") for f in configs.values() if f.get("max-model-len")]
    isl, osl = int(benchmark.get("isl", 1024)), int(benchmark.get("osl", 1024))
    shapes = tuple(_shape(role, flags, resources, file) for role, flags in configs.items())
    concurrency = _concurrency(benchmark.get("concurrencies", "1"))
    point = Point(
        name=recipe["name"], shapes=shapes, mtp=0, concurrency=concurrency, sized_for=concurrency[-1], time_limit_s=4 * 3600,
        overrides={role: _settings(configs.get(role, {}), environment[role], file) for role in Role}, source=Source(file, 1, 1),
    )  # fmt: skip
    return Matrix(
        file=file, name=recipe["name"], model=_model(recipe["model"]["path"].removeprefix("hf:")), points=(point,),
        hardware=replace(load_hardware(HARDWARE.get(resources["gpu_type"], resources["gpu_type"])), gpus_per_node=resources["gpus_per_node"]),
        workload=Workload(isl=isl, osl=osl, max_model_len=min(map(int, lengths), default=max(isl + osl + 1024, 4096))),
        runtime=Runtime(image=recipe["model"]["container"], vllm=_build(recipe), dynamo=Dynamo(version="1.2.1")),
        benchmark=_benchmark(benchmark), common=RoleSettings(), roles={role: RoleSettings() for role in Role},
    )  # fmt: skip


QWEN35 = Architecture(
    hidden_size=4096, vocab_size=248320, max_position=262144, mtp_layers=1,
    attention=Attention(layers=15, heads=32, kv_heads=2, head_dim=256, output_gate=True),
    linear=LinearAttention(layers=45, key_heads=16, value_heads=64, key_head_dim=128, value_head_dim=128, conv_kernel=4),
    moe=Moe(layers=60, experts=512, top_k=10, intermediate_size=1024, shared_intermediate_size=1024, expert_dtype="nvfp4"),
)  # fmt: skip
QWEN3_32B = Architecture(
    hidden_size=5120, vocab_size=151936, max_position=40960, mlp_layers=64, mlp_intermediate_size=25600,
    attention=Attention(layers=64, heads=64, kv_heads=8, head_dim=128),
)  # fmt: skip
ARCHITECTURES = {
    "Qwen3.5-397B": QWEN35, "qwen3-32b": QWEN3_32B, "DeepSeek-R1": KNOWN["DeepSeek-R1"][1], "deepseek-r1": KNOWN["DeepSeek-R1"][1],
    "Kimi-K2": KNOWN["Kimi-K2"][1], "MiniMax-M2": KNOWN["MiniMax-M2"][1], "minimax-m2": KNOWN["MiniMax-M2"][1], "gpt-oss": KNOWN["gpt-oss-120b"][1],
    "Nemotron-3-Super": KNOWN["Nemotron-3-Super"][1],
}  # fmt: skip
"""Families whose shape is known, by part of the name: sizing and the rules that need a model see these recipes whole."""


def _model(repo: str) -> ModelSpec:
    if repo == STUDIED.repo:
        return STUDIED
    known = next((architecture for part, architecture in ARCHITECTURES.items() if part in repo), None)
    return ModelSpec(key=repo, repo=repo, revision=UNKNOWN, served_name=repo, architecture=known)


BENCHMARK = {
    "req_rate": "request_rate", "random_range_ratio": "random_range_ratio", "num_prompts_mult": "prompts_per_concurrency",
    "num_warmup_mult": "warmup_per_concurrency", "use_chat_template": "chat_template", "custom_tokenizer": "tokenizer_class", "backend": "backend",
    "endpoint": "endpoint", "ttft_threshold_ms": "ttft_threshold_ms", "itl_threshold_ms": "itl_threshold_ms", "repeat": "repeat",
    "mooncake_workload": "mooncake_workload",
}  # fmt: skip


def _benchmark(fields: Mapping[str, Any]) -> Benchmark:
    given = {ours: fields[name] for name, ours in BENCHMARK.items() if name in fields}
    if given.get("request_rate") == "inf":
        given["request_rate"] = math.inf
    return make_benchmark(fields["type"], given)


def _shape(role: Role, flags: Mapping[str, Any], resources: Mapping[str, Any], file: str) -> RoleShape:
    tp, pp, dp = (int(flags.get(name, 1)) for name in SIZES)
    workers = int(resources[f"{role.value}_workers"])
    return RoleShape(
        role=role, workers=workers, topology=Topology(tp=tp, pp=pp, dp=dp, ep=bool(flags.get("enable-expert-parallel"))), source=Source(file, 1, 1)
    )


def _with_connector(backend: Mapping[str, Any], flags: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"kv-transfer-config": NIXL, **flags} if backend.get("connector", "nixl") == "nixl" else flags


def _settings(flags: Mapping[str, Any], environment: Mapping[str, Any], file: str) -> RoleSettings:
    """Flags and environment as written, without what the launcher owns."""
    place = Source(file, 1, 1)
    names = [name for name in flags if canonical_flag(name) not in REAL.owned_flags()]
    args = tuple(Setting(name=canonical_flag(name), value=_value(flags[name]), source=place) for name in names)
    return RoleSettings(args=args, env=tuple(Setting(name=name, value=str(value), source=place) for name, value in environment.items()))


def _value(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


def _concurrency(text: Any) -> tuple[int, ...]:
    return tuple(sorted({int(n) for n in re.findall(r"\d+", str(text))})) or (1,)


def _build(recipe: Mapping[str, Any]) -> str:
    stated = ((recipe.get("identity") or {}).get("frameworks") or {}).get("vllm", "")
    tag = re.search(r":v(\d+\.\d+\.\d+)", recipe["model"]["container"])
    return stated if re.match(r"\d", stated) else tag[1] if tag else NOT_SAID
