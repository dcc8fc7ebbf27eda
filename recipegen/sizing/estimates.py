"""Intervals for the memory that no formula gives exactly, from measured rows: non-torch memory, peak activation, CUDA graphs.

Between two rows of the same topology and speculation a part is interpolated. Everywhere else it is extrapolated by what is known
of its growth, and the interval is wide. Margins are ours: every measured row lies within the interval that the others give.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log

from recipegen.architecture import Architecture
from recipegen.builds import build_of
from recipegen.model import Topology
from recipegen.sizing.calibration import Calibration, MeasuredRow
from recipegen.sizing.engine_build import ONE_SIDED, shards_sequences
from recipegen.sizing.graphs import MIN_GRAPH_BYTES, NONE, graph_memory_gib
from recipegen.sizing.sizes import Estimate

MARGIN = 0.1
"""Share by which rows scatter that ought to agree."""

OTHER_ALL2ALL_GIB = 4.0
"""Our margin for the buffers of an all2all backend that was not measured."""

LOGIT_COPIES = 2
"""Copies of the sampled logits in float32 at the peak; fits the measured rows."""

ACTIVATION_MARGIN = 2.0
"""Factor on the computed part of the peak activation that surely holds it."""

Part = Callable[[MeasuredRow], float]

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class Situation:
    """The configuration whose memory is asked for; `capture` is the largest captured batch in tokens, 0 without graphs."""

    model: Architecture
    topology: Topology
    draft: int
    max_num_seqs: int
    max_num_batched_tokens: int
    capture: int
    graphs: int
    mode: str
    all2all: str
    sequence_parallel: bool

    def matches(self, row: MeasuredRow) -> bool:
        """Whether a row was measured with just these sizes."""
        return self.is_kin(row) and (self.max_num_seqs, self.max_num_batched_tokens, self.capture) == (
            row.max_num_seqs,
            row.max_num_batched_tokens,
            row.capture_size,
        )

    @property
    def dispatches(self) -> bool:
        """Whether tokens go to experts of other data-parallel ranks."""
        return self.topology.ep and self.topology.dp > 1

    def is_kin(self, row: MeasuredRow) -> bool:
        return (self.topology, self.draft) == (row.topology, row.mtp)


def exact_row(calibration: Calibration, situation: Situation) -> MeasuredRow | None:
    """The row that was measured with this configuration, graph mode and all2all backend included."""
    if not _same_settings(calibration, situation):
        return None
    return next((row for row in calibration.rows if situation.matches(row)), None)


@lru_cache(maxsize=4096)
def estimate_parts(calibration: Calibration, situation: Situation) -> tuple[Estimate, Estimate, Estimate]:
    """Return non-torch memory, peak activation and graph estimate of a configuration that was not measured.

    Points that differ in workers or concurrency alone, and both sides of most changes, share their configurations.
    """
    between = _bracket(calibration, situation)
    if between:
        parts: tuple[Part, ...] = (lambda r: r.non_torch, lambda r: r.activation, lambda r: r.graphs_estimate)
        non_torch, activation, graphs = (_interpolated(part, between, situation) for part in parts)
        return non_torch, activation, graphs
    rows = sorted(calibration.rows, key=lambda row: _distance(row, situation))
    return _non_torch(rows, calibration, situation), _activation(rows, situation), _graphs(rows, calibration, situation)


def workspace_gib(model: Architecture, topology: Topology, *, tokens: int, all2all: str) -> float:
    """GiB of the one-sided all2all's workspace on one GPU: EP x tokens x bytes of a token; 0 with another backend, or without all2all."""
    return topology.ep_size * tokens * workspace_token_bytes(model, topology, all2all=all2all) / GIB


def workspace_token_bytes(model: Architecture, topology: Topology, *, all2all: str) -> int:
    """Bytes of the one-sided all2all's workspace for a token and rank; 0 with another backend, or where there is no all2all.

    Dispatched hidden state with scales + 8 x top-k + 2 x hidden combined. Source: vLLM 0.28 `device_communicators/all2all.py`
    FlashInferNVLinkOneSidedManager, `fused_moe/all2all_utils.py`.
    """
    if all2all != ONE_SIDED or model.moe is None or not topology.ep or topology.dp == 1:
        return 0
    hidden = model.hidden_size
    dispatched = hidden // 2 + hidden // 16 if model.moe.expert_dtype == "nvfp4" else 2 * hidden
    return dispatched + 8 * model.moe.top_k + 2 * hidden


def activation_per_token(model: Architecture, topology: Topology, *, spread: bool) -> float:
    """Bytes that one token of the batch needs at the peak of a layer: our reckoning, not vLLM's.

    Three hidden states, the widest projection, and for each chosen expert its input and three times its width; with `spread` the
    chosen experts lie evenly on the GPUs, without all on this one.
    """
    values = 3 * model.hidden_size + max(_widest(model), 3 * model.mlp_intermediate_size) / topology.tp
    if model.moe is not None:
        chosen = model.moe.top_k / topology.tp if spread else model.moe.top_k
        values += chosen * (model.hidden_size + 3 * model.moe.intermediate_size)
    return 2 * values


def _widest(model: Architecture) -> int:
    """Values of the widest projection of a layer, on all GPUs together."""
    linear, attention = model.linear, model.attention
    own = attention.heads * attention.head_dim * 3
    if linear is None:
        return own
    return max(own, 2 * linear.key_heads * linear.key_head_dim + 2 * linear.value_heads * linear.value_head_dim)


def _token_formula(model: Architecture, topology: Topology) -> str:
    """`activation_per_token` of spread experts in numbers."""
    tp, hidden, moe = topology.tp, model.hidden_size, model.moe
    dense = f"max({_widest(model)}, 3 x {model.mlp_intermediate_size})" if model.mlp_intermediate_size else f"{_widest(model)}"
    chosen = f" + {moe.top_k} / {tp} x ({hidden} + 3 x {moe.intermediate_size})" if moe else ""
    return f"2 x (3 x {hidden} + {dense} / {tp}{chosen})"


def _same_settings(calibration: Calibration, situation: Situation) -> bool:
    """Whether graph mode, all2all backend and what follows from the build are those of the rows.

    The backend tells nothing where experts stay within one data-parallel rank.
    """
    if situation.mode != calibration.cudagraph_mode:
        return False
    if not situation.dispatches:
        return True
    sharded = shards_sequences(build_of(calibration.vllm), calibration.all2all_backend, situation.topology)
    return (situation.all2all, situation.sequence_parallel) == (calibration.all2all_backend, sharded)


def _bracket(calibration: Calibration, situation: Situation) -> tuple[MeasuredRow, MeasuredRow] | None:
    """The nearest rows of the same topology and speculation with fewer and with more batched tokens."""
    if not _same_settings(calibration, situation):
        return None
    kin = sorted((row for row in calibration.rows if situation.is_kin(row)), key=lambda row: row.max_num_batched_tokens)
    below = [row for row in kin if row.max_num_batched_tokens <= situation.max_num_batched_tokens]
    above = [row for row in kin if row.max_num_batched_tokens >= situation.max_num_batched_tokens]
    return (below[-1], above[0]) if below and above else None


def _interpolated(part: Part, rows: tuple[MeasuredRow, MeasuredRow], situation: Situation) -> Estimate:
    (below, above), tokens = rows, situation.max_num_batched_tokens
    span = above.max_num_batched_tokens - below.max_num_batched_tokens
    share = (tokens - below.max_num_batched_tokens) / span if span else 0.5
    ends = sorted((part(below), part(above)))
    best = part(below) + share * (part(above) - part(below))
    formula = f"{part(below):.2f} + {_share(below, above, tokens)} x ({part(above):.2f} - {part(below):.2f})"
    return Estimate(ends[0] * (1 - MARGIN), best, ends[1] * (1 + MARGIN), f"interpolated between {below} and {above}", formula)


def _share(below: MeasuredRow, above: MeasuredRow, tokens: int) -> str:
    low, high = below.max_num_batched_tokens, above.max_num_batched_tokens
    return f"({tokens} - {low}) / ({high} - {low})" if high > low else "0.5"


def _distance(row: MeasuredRow, situation: Situation) -> tuple[object, ...]:
    topology = situation.topology
    return (
        row.topology != topology,
        (row.topology.dp > 1) != (topology.dp > 1),
        row.topology.tp != topology.tp,
        row.mtp != situation.draft,
        abs(log(row.max_num_batched_tokens / situation.max_num_batched_tokens)),
    )


def _non_torch(rows: Sequence[MeasuredRow], calibration: Calibration, situation: Situation) -> Estimate:
    """What the rows have beside their all2all workspace, and the workspace of this configuration.

    With sequence-parallel MoE each TP rank may dispatch its share of the tokens only; that is the lower end.
    """
    bases = [row.non_torch - _row_workspace(row, calibration, situation) for row in rows]
    model, topology, tokens, nearest = situation.model, situation.topology, situation.max_num_batched_tokens, rows[0]
    asked = workspace_gib(model, topology, tokens=tokens, all2all=situation.all2all)
    low, high = min(bases) * (1 - MARGIN), max(bases) * (1 + MARGIN) + asked
    origin = f"{nearest} without its all2all workspace, and this one's: EP x batched tokens x bytes of a token"
    if situation.dispatches and situation.all2all != calibration.all2all_backend:
        high += OTHER_ALL2ALL_GIB
        origin += f"; buffers of {situation.all2all} were not measured"
    least = asked / topology.tp if situation.sequence_parallel else asked
    less = _workspace_formula(model, nearest.topology, nearest.max_num_batched_tokens, calibration.all2all_backend)
    more = _workspace_formula(model, topology, tokens, situation.all2all)
    formula = f"max(0, {nearest.non_torch:.2f} - {less} + {more})"
    return Estimate(max(0.0, low + least), max(0.0, bases[0] + asked), max(0.0, high), origin, formula)


def _workspace_formula(model: Architecture, topology: Topology, tokens: int, all2all: str) -> str:
    token = workspace_token_bytes(model, topology, all2all=all2all)
    return f"{topology.ep_size} x {tokens} x {token} / {GIB}" if token else "0"


def _row_workspace(row: MeasuredRow, calibration: Calibration, situation: Situation) -> float:
    return workspace_gib(situation.model, row.topology, tokens=row.max_num_batched_tokens, all2all=calibration.all2all_backend)


def _activation(rows: Sequence[MeasuredRow], situation: Situation) -> Estimate:
    """The smallest measured peak, and what batched tokens and sampled logits add to it; a dummy run of vLLM's, not derivable."""
    model, tokens = situation.model, situation.max_num_batched_tokens
    floor = min(row.activation for row in rows)
    rows_sampled = min(tokens, situation.max_num_seqs * (1 + situation.draft))
    logits = LOGIT_COPIES * rows_sampled * model.vocab_size * 4
    each = (activation_per_token(model, situation.topology, spread=spread) for spread in (True, False))
    even, uneven = ((logits + tokens * one) / GIB for one in each)
    origin = (
        f"not derivable: smallest measured peak; {LOGIT_COPIES} float32 copies of {rows_sampled} rows of logits; {tokens} batched tokens, with "
        f"three hidden states, the widest projection and the chosen experts of each"
    )
    formula = (
        f"{floor:.2f} + ({LOGIT_COPIES} x {rows_sampled} x {model.vocab_size} x 4 + {tokens} x {_token_formula(model, situation.topology)}) / {GIB}"
    )
    return Estimate(floor * (1 - MARGIN), floor + even, floor * (1 + MARGIN) + ACTIVATION_MARGIN * uneven, origin, formula)


def _graphs(rows: Sequence[MeasuredRow], calibration: Calibration, situation: Situation) -> Estimate:
    """By the mean graph of the nearest row; between the cheapest graph (1 MiB each in another mode) and the dearest row or graph."""
    count, none = situation.graphs, Estimate(0.0, 0.0, 0.0, "no CUDA graphs", "0")
    measured = [row for row in rows if row.graphs]
    if not count or not measured or situation.mode == NONE:
        return none
    each, nearest = [row.graphs_estimate / row.graphs for row in measured], measured[0]
    same, least = situation.mode == calibration.cudagraph_mode, MIN_GRAPH_BYTES / GIB
    cheapest = min(each) * (1 - MARGIN) if same else least
    low, best = (graph_memory_gib(one, one, count) for one in (cheapest, each[0]))
    high = max(*(row.graphs_estimate for row in rows), graph_memory_gib(max(each), max(each), count)) * (1 + MARGIN)
    origin = f"vLLM's rule, largest graph + (graphs - 1) x second largest, at least 1 MiB each; a graph as dear as those of {nearest}"
    one = f"{nearest.graphs_estimate:.2f} / {nearest.graphs}"
    formula = f"{one} + ({count} - 1) x max({one}, 1 / 1024)"
    return Estimate(low, best, high, origin if same else f"{origin}; mode {situation.mode} was not measured", formula)
