"""What sizing tells about one role: blocks, cache, graphs, weights, memory budget, requests that fit."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.model import RoleRecipe


@dataclass(frozen=True)
class Estimate:
    """A size in GiB: the best value, the interval that surely holds it, and where it comes from (`measured`, `derived`, ...).

    `formula` is the arithmetic of the best value in numbers, where there is one. `bound` tells that `best` is no estimate but the
    end of the interval that is known: the high one of a KV cache ("at most"), the low one of what it leaves.
    """

    low: float
    best: float
    high: float
    origin: str
    formula: str = ""
    bound: bool = False

    @property
    def exact(self) -> bool:
        return self.low == self.high


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """Tokens of a KV block: what vLLM would settle on alone, what it settles on as set, and the attention kernel's.

    0 is not known: all three for a cache type of unknown size, the kernel's for an attention backend whose sizes are not known.
    `misfit` tells why the engine cannot use the chosen block; empty where it can, or where that is not known.
    """

    natural: int
    chosen: int
    kernel: int
    misfit: str = ""


@dataclass(frozen=True, kw_only=True)
class CacheSizes:
    """How vLLM lays the cache out on one GPU, and what requests take of it.

    A block id costs `page_bytes` in each of `layers` layers, padding included. `blocks_per_request` are those of a request of
    `max_model_len` tokens, by which vLLM counts; `workload_blocks` those of a request of the workload: `workload_tokens`, ISL + OSL
    and a chat template. `lower_bound` tells that the engine may need less, so that what fits is a lower bound.
    """

    attention_groups: int
    linear_groups: int
    sliding_groups: int = 0
    layers: int
    padding_layers: int
    page_bytes: int
    blocks_per_request: int
    workload_tokens: int
    workload_blocks: int
    lower_bound: bool = False

    @property
    def block_bytes(self) -> int:
        return self.page_bytes * self.layers

    @property
    def request_mib(self) -> float:
        return self.block_bytes * self.blocks_per_request / 2**20


@dataclass(frozen=True, kw_only=True)
class GraphSizes:
    """CUDA graphs that are captured: the mode, the batch sizes in ascending order, and how many graphs that makes.

    `number` is how many sizes there are, of which `sizes` names the first 1,024, and `largest` the largest of all; 0: none.
    """

    mode: str
    sizes: tuple[int, ...]
    number: int
    largest: int
    count: int


@dataclass(frozen=True, kw_only=True)
class WeightPart:
    """Weights of one part of the model on one GPU, in GiB, and how it is shared out."""

    name: str
    whole_gib: float
    gpu_gib: float
    sharding: str


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Memory of one GPU, in GiB: kv = total x utilization - weights - non_torch - activation - graphs, unless a flag says it.

    `calibration` names the measured rows that the parts come from; empty: none, only weights are known, and `kv` is a bound.
    `given` names the flag that says the size of the KV cache; empty: none does.
    """

    total_gib: float
    utilization: float
    weights: Estimate
    non_torch: Estimate
    activation: Estimate
    graphs: Estimate
    kv: Estimate
    calibration: str
    given: str = ""

    @property
    def engine_gib(self) -> float:
        """What the engine may use of a GPU."""
        return self.total_gib * self.utilization


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a KV cache of some GiB on each GPU holds, per engine (one data-parallel rank).

    `concurrency` is what vLLM logs as "Maximum concurrency for N tokens per request" with N = `max_model_len`, `requests` how many
    whole ones of these fit, `workload_requests` how many of the workload's own length. `study_requests` is the published study's
    figure, KV GiB x 1024 / MiB of a request of `max_model_len` on one GPU without TP and MTP.
    """

    kv_gib: float
    blocks: int
    concurrency: float
    requests: int
    workload_requests: int
    study_requests: float


@dataclass(frozen=True, kw_only=True)
class RoleSizes:
    """Everything that sizing knows of a role; what is not derivable from the data at hand is None.

    `ranks` are the engines of the role (workers x DP), `asked` the requests that each must hold at the point's highest concurrency.
    `room` is of the best KV estimate, `room_low` and `room_high` of the ends of its interval. `unsized` names flags that change
    memory in a way that no formula here follows: what they touch is None.
    """

    role: RoleRecipe
    ranks: int
    asked: int
    blocks: BlockSizes
    cache: CacheSizes | None
    graphs: GraphSizes
    weight_parts: tuple[WeightPart, ...]
    budget: Budget | None
    room: Room | None
    room_low: Room | None
    room_high: Room | None = None
    unsized: tuple[str, ...] = ()

    @property
    def weights_gib(self) -> float:
        """Weights on one GPU, GiB; 0 where they are not derivable."""
        return sum(part.gpu_gib for part in self.weight_parts)

    @property
    def head_room(self) -> float | None:
        """Share by which requests of the workload's length that fit exceed those asked: 0.25 is 25 % more, negative does not fit."""
        return self.room.workload_requests / self.asked - 1 if self.room and self.asked else None
