"""Sizes of a topology without a matrix: a recipe of assumed settings, and the ranking of all topologies by what fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from recipegen.architecture import Architecture
from recipegen.errors import NOWHERE
from recipegen.model import Benchmark, Dynamo, Flag, HardwareSpec, ModelSpec, Recipe, Role, RoleRecipe, Runtime, Topology, Workload
from recipegen.settings import Value
from recipegen.sizing.budget import DEFAULT_UTILIZATION
from recipegen.sizing.divides import not_divided
from recipegen.sizing.graphs import FULL_DECODE_ONLY
from recipegen.sizing.role_sizes import size_role
from recipegen.sizing.sizes import RoleSizes

TEMPLATE_RESERVE = 1024
"""Tokens that max-model-len leaves beside ISL and OSL for the chat template, as the published study does (8192 + 1024 + 1024)."""

BATCH_RESERVE = 16
"""Sequences over the concurrency, and tokens over the captured batch, that the published recipes add."""

DEFAULT_CONCURRENCY = 256

STUDY_BUILD = "0.26.1rc1.dev1177+ga9a17e709"
"""The vLLM of the published study: main at about 0.28."""


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Settings that nobody wrote: by default those of the published study's decode role.

    `concurrency` are the requests that all ranks together are asked for; None for a number takes what follows from the rest:
    max-model-len ISL + OSL + 1024, max-num-seqs concurrency / DP + 16, capture size max-num-seqs x (1 + MTP), batched tokens 16
    more. `mamba_ssm_cache_dtype` counts for hybrid models only, `all2all_backend` with EP only.
    """

    vllm: str = STUDY_BUILD
    role: Role = Role.DECODE
    concurrency: int = DEFAULT_CONCURRENCY
    kv_cache_dtype: str = "fp8"
    mamba_ssm_cache_dtype: str = "bfloat16"
    prefix_caching: bool = False
    all2all_backend: str = "flashinfer_nvlink_one_sided"
    cudagraph_mode: str = FULL_DECODE_ONLY
    gpu_memory_utilization: float = DEFAULT_UTILIZATION
    block_size: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    capture_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A topology of a sweep. `requests` of the workload's length fit on all its ranks together, per GPU they are what it is ranked by."""

    recipe: Recipe
    sizes: RoleSizes
    requests: int
    requests_per_gpu: float

    @property
    def topology(self) -> Topology:
        return self.sizes.role.topology


def assumed_recipe(
    model: ModelSpec, hardware: HardwareSpec, topology: Topology, *, mtp: int, isl: int, osl: int, assume: Assumptions | None = None
) -> Recipe:
    """Return a recipe of one role with one worker of this topology, all flags set that sizing reads."""
    chosen = assume or Assumptions()
    workload = Workload(isl=isl, osl=osl, max_model_len=chosen.max_model_len or isl + osl + TEMPLATE_RESERVE)
    flags = tuple(Flag(name=name, value=value) for name, value in sorted(_flags(model, topology, mtp, workload, chosen)))
    name = f"{model.key}-{hardware.key}-{str(topology).lower()}"
    return Recipe(
        name=name,
        point=name,
        model=model,
        hardware=hardware,
        workload=workload,
        runtime=Runtime(image="", vllm=chosen.vllm, dynamo=Dynamo(version="")),
        mtp=mtp,
        concurrency=(chosen.concurrency,),
        time_limit_s=0,
        roles=(RoleRecipe(role=chosen.role, workers=1, topology=topology, flags=flags, env=()),),
        benchmark=Benchmark(type="sa-bench"),
        variants=(),
        source=NOWHERE,
    )


def size_topology(
    model: ModelSpec, hardware: HardwareSpec, topology: Topology, *, mtp: int, isl: int, osl: int, assume: Assumptions | None = None
) -> tuple[Recipe, RoleSizes | None]:
    """Return the assumed recipe and the sizes of its role; None for a model without an architecture."""
    recipe = assumed_recipe(model, hardware, topology, mtp=mtp, isl=isl, osl=osl, assume=assume)
    return recipe, size_role(recipe, recipe.roles[0])


def sweep(
    model: ModelSpec, hardware: HardwareSpec, *, max_gpus: int, mtp: int, isl: int, osl: int, assume: Assumptions | None = None
) -> tuple[Candidate, ...]:
    """Return the topologies on up to `max_gpus` GPUs that hold a request, by requests that fit per GPU, fewer GPUs first when equal.

    TP and DP in powers of 2, PP 1, EP on and off for a model with experts; those are left out that do not divide the model or
    whose weights do not fit. Empty for a model whose weights are not known.
    """
    architecture = model.architecture
    if architecture is None:
        return ()
    sized = (
        size_topology(model, hardware, topology, mtp=mtp, isl=isl, osl=osl, assume=assume) for topology in topologies(architecture, max_gpus=max_gpus)
    )
    found = [_candidate(recipe, sizes) for recipe, sizes in sized if sizes and sizes.room and sizes.room.requests]  # else vLLM would not start
    return tuple(sorted(found, key=lambda c: (-c.requests_per_gpu, c.topology.gpus, c.topology.tp, not c.topology.ep)))


def topologies(model: Architecture, *, max_gpus: int) -> Iterator[Topology]:
    """Topologies that a model can run with: TP and DP in powers of 2, PP 1, EP off, and on where there are experts to share."""
    for tp in _powers(max_gpus):
        for dp in _powers(max_gpus // tp):
            for topology in (Topology(tp=tp, dp=dp), Topology(tp=tp, dp=dp, ep=True)):
                if not (topology.ep and topology.ep_size == 1) and not not_divided(model, topology):
                    yield topology


def why_not(model: ModelSpec, hardware: HardwareSpec, topology: Topology, sizes: RoleSizes | None) -> tuple[str, ...]:
    """Return the reasons why a topology cannot run: what does not divide, and, by `sizes` of it, what does not fit; none where it can.

    Of intervals the end counts that leaves most room.
    """
    reasons = list(not_divided(model.architecture, topology)) if model.architecture else []
    budget, room = (sizes.budget, sizes.room_high) if sizes else (None, None)
    if budget and budget.weights.low > budget.engine_gib:
        share = f"{budget.total_gib:g} x {budget.utilization:g} of {hardware.key}"
        reasons.append(
            f"{budget.weights.best:.1f} GiB of weights on each GPU exceed the {budget.engine_gib:.1f} GiB that the engine may use ({share})"
        )
    elif sizes and sizes.cache and room and room.concurrency < 1 and not sizes.cache.lower_bound:
        need = f"{sizes.cache.request_mib / 1024:.2f} GiB of each GPU"
        reasons.append(f"the longest request takes {need}, and the KV cache has {room.kv_gib:.2f} at most")
    return tuple(reasons)


def _powers(limit: int) -> Iterator[int]:
    size = 1
    while size <= limit:
        yield size
        size *= 2


def _candidate(recipe: Recipe, sizes: RoleSizes) -> Candidate:
    requests = sizes.room.workload_requests * sizes.ranks if sizes.room else 0
    return Candidate(recipe=recipe, sizes=sizes, requests=requests, requests_per_gpu=requests / sizes.role.topology.gpus)


def _flags(model: ModelSpec, topology: Topology, mtp: int, workload: Workload, assume: Assumptions) -> Iterator[tuple[str, Value]]:
    seqs = assume.max_num_seqs or -(-assume.concurrency // topology.dp) + BATCH_RESERVE
    capture = assume.capture_size or seqs * (1 + mtp)
    yield "max-model-len", workload.max_model_len
    yield "max-num-seqs", seqs
    yield "max-cudagraph-capture-size", capture
    yield "max-num-batched-tokens", assume.max_num_batched_tokens or max(seqs, capture) + BATCH_RESERVE
    yield "compilation-config.cudagraph_mode", assume.cudagraph_mode
    yield "gpu-memory-utilization", assume.gpu_memory_utilization
    yield "kv-cache-dtype", assume.kv_cache_dtype
    yield ("enable-prefix-caching" if assume.prefix_caching else "no-enable-prefix-caching"), True
    if model.architecture is not None and model.architecture.linear is not None:
        yield "mamba-ssm-cache-dtype", assume.mamba_ssm_cache_dtype
    if topology.ep:
        yield "all2all-backend", assume.all2all_backend
    if assume.block_size:
        yield "block-size", assume.block_size
    if mtp:
        yield "speculative-config.method", "mtp"
        yield "speculative-config.num_speculative_tokens", mtp
