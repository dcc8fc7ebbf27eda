"""What sizing tells about one role: blocks, cache, graphs, weights, memory budget, requests that fit."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.model import RoleRecipe


@dataclass(frozen=True)
class Estimate:
    """A size in GiB: the best value, the interval that surely holds it, and where it comes from (`measured`, `derived`, ...)."""

    low: float
    best: float
    high: float
    origin: str


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """Tokens of a KV block: what vLLM would settle on alone, what it settles on as set, and the attention kernel's.

    0 is not known: all three for a cache type of unknown size, the kernel's where no size that it offers divides the block.
    """

    natural: int
    chosen: int
    kernel: int


@dataclass(frozen=True, kw_only=True)
class CacheSizes:
    """How vLLM lays the cache out on one GPU, and what a request of `max_model_len` tokens takes of it.

    A block id costs `page_bytes` in each of `layers` layers, padding included.
    """

    attention_groups: int
    linear_groups: int
    layers: int
    padding_layers: int
    page_bytes: int
    blocks_per_request: int

    @property
    def block_bytes(self) -> int:
        return self.page_bytes * self.layers

    @property
    def request_mib(self) -> float:
        return self.block_bytes * self.blocks_per_request / 2**20


@dataclass(frozen=True, kw_only=True)
class GraphSizes:
    """CUDA graphs that are captured: the mode, the batch sizes in ascending order, and how many graphs that makes."""

    mode: str
    sizes: tuple[int, ...]
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
    """Memory of one GPU, in GiB: kv = total x utilization - weights - non_torch - activation - graphs.

    `calibration` names the measured rows that the parts come from; empty: none, and the interval is wide.
    """

    total_gib: float
    utilization: float
    weights: Estimate
    non_torch: Estimate
    activation: Estimate
    graphs: Estimate
    kv: Estimate
    calibration: str


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a KV cache of some GiB on each GPU holds, per engine (one data-parallel rank).

    `concurrency` is what vLLM logs as "Maximum concurrency for N tokens per request", `requests` how many whole requests fit;
    `study_requests` is the published study's own figure, KV GiB x 1024 / MiB of a request on one GPU without TP and MTP.
    """

    kv_gib: float
    blocks: int
    concurrency: float
    requests: int
    study_requests: float


@dataclass(frozen=True, kw_only=True)
class RoleSizes:
    """Everything that sizing knows of a role; what is not derivable from the data at hand is None.

    `ranks` are the engines of the role (workers x DP), `asked` the requests that each must hold at the point's highest concurrency.
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

    @property
    def weights_gib(self) -> float:
        """Weights on one GPU, GiB; 0 where they are not derivable."""
        return sum(part.gpu_gib for part in self.weight_parts)

    @property
    def head_room(self) -> float | None:
        """Share of the asked requests by which the room exceeds them: 0.25 is 25 % more, negative does not fit."""
        return self.room.requests / self.asked - 1 if self.room and self.asked else None
