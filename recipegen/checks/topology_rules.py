"""Rules over parallel sizes: what a model can be divided by, and what nodes and NVLink domains hold."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.launch import WorkerLayout
from recipegen.layout import LayoutError, beside, idle_gpus, span
from recipegen.role_flags import json_keys, switch
from recipegen.sizing.divides import linear_heads, model_layers

_EPLB = "enable-eplb"


@rule("topology-heads", Severity.ERROR)
def heads(view: RoleView) -> Iterator[Fault]:
    """Attention heads do not divide by TP.

    Every GPU of a TP group computes the same number of attention heads, so TP must divide the heads. KV heads are divided while
    there are enough, and whole heads are replicated when TP exceeds them: one of the two numbers must divide the other. vLLM
    raises "Total number of attention heads must be divisible by tensor parallel size" at start, with the nodes already taken.
    Latent attention keeps one latent on every GPU and has no KV heads to divide.

    Mend: a TP that divides both, usually a power of two.
    Source: vLLM 0.26 to 0.29, `config/model.py` `verify_with_parallel_config` and the attention layers' own assertions.
    """
    if not (architecture := view.recipe.model.architecture):
        return
    attention, tp = architecture.attention, view.role.topology.tp
    mend = f"take a TP of {_choices(attention.heads, attention.kv_heads)}"
    if attention.heads % tp:
        yield Fault(view.role.source, f"{_who(view)}: TP{tp} does not divide {attention.heads} attention heads; vLLM refuses to start", mend)
    elif not attention.mla and attention.kv_heads % tp and tp % attention.kv_heads:
        message = f"TP{tp} and {attention.kv_heads} KV heads: neither divides the other, so heads can be neither shared out nor replicated"
        yield Fault(view.role.source, f"{_who(view)}: {message}; an assertion fails while the model is built", mend)


@rule("topology-linear", Severity.ERROR)
def linear(view: RoleView) -> Iterator[Fault]:
    """Heads of the linear-attention layers do not divide by TP.

    The convolution and the state of a gated delta net are cut by key and value heads; vLLM divides both by TP and asserts that
    nothing remains, in each worker process while the model is built. A Mamba 2 layer with a single group replicates it, so only
    its heads must divide.

    Mend: a TP that divides key heads and value heads.
    Source: vLLM 0.26 to 0.29, `model_executor/layers/mamba/mamba_utils.py`.
    """
    architecture, tp = view.recipe.model.architecture, view.role.topology.tp
    if not architecture or not architecture.linear:
        return
    if odd := [(name, count) for name, count in linear_heads(architecture.linear) if count % tp]:
        heads = " and the ".join(f"{count} {name} heads" for name, count in odd)
        message = f"{_who(view)}: TP{tp} does not divide the {heads} of the linear-attention layers; vLLM's assertion fails while the model is"
        yield Fault(view.role.source, f"{message} built", f"take a TP that divides {' and '.join(str(count) for _, count in odd)}")


@rule("topology-experts", Severity.ERROR)
def experts(view: RoleView) -> Iterator[Fault]:
    """More ranks than experts, or expert parallelism without experts.

    Expert parallelism spreads whole experts over TP x DP ranks. A rank without an expert has no weights to load; a TP larger than
    the number of experts is refused by vLLM, and so is expert parallelism of a model that has none. With EPLB, redundant experts
    count: `enable-eplb` and `eplb-config.num_redundant_experts`. Each shows when the model is built, in the job.

    Mend: a smaller TP or DP, or no expert parallelism.
    Source: vLLM 0.26 to 0.29, `config/model.py` `_verify_with_expert_parallelism`, `model_executor/layers/fused_moe`.
    """
    architecture, topology = view.recipe.model.architecture, view.role.topology
    if not architecture:
        return
    if not architecture.moe:
        if topology.ep:
            message = f"{_who(view)}: {topology}, but the model has no experts; vLLM refuses to start"
            yield Fault(view.role.source, message, "leave EP out, or set expert_parallel: false")
        return
    count, told = _experts(view, architecture.moe.experts)
    if topology.tp > architecture.moe.experts:
        message = f"{_who(view)}: TP{topology.tp} exceeds the {architecture.moe.experts} experts; vLLM refuses it"
        yield Fault(view.role.source, message, "take a smaller TP")
    elif topology.ep_size > count:
        message = f"{_who(view)}: EP{topology.ep_size} (TP{topology.tp} x DP{topology.dp}) exceeds the {told}"
        yield Fault(view.role.source, f"{message}; ranks without one fail while the model is built", "take a smaller DP")


@rule("topology-layers", Severity.ERROR)
def layers(view: RoleView) -> Iterator[Fault]:
    """More pipeline stages than layers.

    A stage holds at least one layer; vLLM fails while it divides the layers, once the job runs.

    Mend: a smaller PP.
    Source: vLLM 0.26 to 0.29, `distributed/utils.py` `get_pp_indices`.
    """
    architecture, pp = view.recipe.model.architecture, view.role.topology.pp
    if architecture and pp > (count := model_layers(architecture)):
        yield Fault(view.role.source, f"{_who(view)}: PP{pp} exceeds the model's {count} layers; a stage would be empty", "take a smaller PP")


@rule("topology-domain", Severity.WARNING)
def domain(view: RoleView) -> Iterator[Fault]:
    """A TP or EP group reaches over the NVLink domain.

    Every layer ends in a collective over the TP group, and with expert parallelism in an all-to-all over TP x DP. Where such a
    group leaves the NVLink domain it falls back to the network between domains, and the NVLink all-to-all backends cannot start.
    It shows as a failed communicator at start, or as a fraction of the expected speed. For EP a note: wide expert parallelism over a
    fast network is done on purpose.

    Mend: a smaller TP or DP, or more workers instead.
    Source: the hardware's data (`nodes_per_domain`).
    """
    hardware, topology = view.recipe.hardware, view.role.topology
    for name, group, severity in (("TP", topology.tp, Severity.WARNING), ("EP", topology.ep_size, Severity.NOTE)):
        nodes = -(-group // hardware.gpus_per_node)
        if nodes > hardware.nodes_per_domain:
            message = f"{_who(view)}: the {name} group of {group} GPUs spans {nodes} nodes, an NVLink domain of {hardware.key} has"
            mend = "take a smaller group, and more workers"
            yield Fault(view.role.source, f"{message} {hardware.nodes_per_domain}; its collectives would cross domains", mend, severity)
            return


@rule("topology-uneven-experts", Severity.NOTE)
def uneven_experts(view: RoleView) -> Iterator[Fault]:
    """Experts do not divide evenly over the EP ranks.

    vLLM allows it: the first ranks get one expert more. Every all-to-all then waits for the ranks with more work, and weights
    differ between GPUs. With EPLB it is an error: "EPLB currently only supports even distribution of experts across ranks", redundant
    experts counted, while the model is built.

    Mend: a TP x DP that divides the experts; with EPLB, as many redundant experts as make them even.
    Source: vLLM 0.26 to 0.29, `model_executor/layers/fused_moe` `determine_expert_map` and the layer's check of EPLB.
    """
    architecture, ranks = view.recipe.model.architecture, view.role.topology.ep_size
    if not architecture or not architecture.moe:
        return
    count, told = _experts(view, architecture.moe.experts)
    if ranks > count or not (over := count % ranks):
        return
    message = f"{_who(view)}: {told} over EP{ranks}"
    if switch(view.role, _EPLB):
        mend = f"add {ranks - over} to num_redundant_experts of eplb-config, or take a TP x DP that divides the experts"
        message = f"{message}: {over} are over, and EPLB takes an even distribution only; vLLM refuses it while the model is built"
        yield Fault(view.role.source, message, mend, Severity.ERROR)
    else:
        message = f"{message}: {over} ranks hold one expert more than the others, and every all-to-all waits for them"
        yield Fault(view.role.source, message, "a TP x DP that divides the experts is even")


@rule("topology-idle-gpus", Severity.WARNING, covers=(6,))
def idle(point: PointView) -> Iterator[Fault]:
    """GPUs of the point's nodes stay idle.

    Nodes are taken whole, so what the workers leave over is paid for and counts in throughput per GPU. It shows in the bill, or
    when a result is divided by the job's GPUs. With `colocate`, the nodes of both roles count together.

    Mend: worker counts and sizes that fill nodes; `colocate: true` where decode workers fit beside prefill workers.
    Source: the placement rule (`recipegen.layout`).
    """
    mend = "choose a worker count and a topology that fill the nodes"
    placed = [(view.role.source, _who(view), [view.layout]) for view in point.roles if view.layout]
    if point.recipe.colocate and len(placed) > 1:
        placed = [(point.recipe.source, f"point {point.recipe.point}", [layout for _, _, layouts in placed for layout in layouts])]
    for source, who, layouts in placed:
        if count := idle_gpus(layouts, point.recipe.hardware):
            nodes = span(layouts)
            whole = nodes * point.recipe.hardware.gpus_per_node
            yield Fault(source, f"{who}: {count} of the {whole} GPUs of its {nodes} nodes stay idle, but are allocated and paid for", mend)


@rule("topology-segment", Severity.ERROR, covers=(53,))
def segment(point: PointView) -> Iterator[Fault]:
    """A P/D point has more nodes than an NVLink domain.

    KV blocks move from prefill to decode over NVLink, and Slurm guarantees nodes of one domain only as one segment. A segment
    larger than the domain can never be placed: the job stays pending, or Slurm refuses it. Aggregated workers move no blocks, and
    where a domain is a single node, blocks take the network in any case.

    Mend: fewer workers or smaller topologies; two smaller points serve the same load.
    Source: the hardware's data (`nodes_per_domain`); Slurm's `--segment`.
    """
    hardware, placed = point.recipe.hardware, [view.layout for view in point.roles if view.layout]
    nodes = span(placed) if placed else 0
    if point.pair and 1 < hardware.nodes_per_domain < nodes:
        shares = " + ".join(f"{layout.nodes} {layout.role.value}" for layout in placed)
        shares += ", one of them shared" if sum(layout.nodes for layout in placed) > nodes else ""
        message = f"point {point.recipe.point} takes {nodes} nodes ({shares}), but an NVLink domain of {hardware.key} has"
        mend = "take fewer workers or smaller topologies"
        yield Fault(point.recipe.source, f"{message} {hardware.nodes_per_domain}: it cannot be one segment and would never start", mend)


@rule("topology-colocation", Severity.NOTE, covers=(52,))
def colocation(point: PointView) -> Iterator[Fault]:
    """Prefill and decode would fit on fewer nodes if they shared one.

    Each role has nodes of its own unless the point says `colocate: true`: then decode workers begin on the GPUs that prefill workers
    leave free. Where both leave GPUs idle, the point costs a node more than its GPUs need.

    Mend: `colocate: true`, or fill the nodes of each role, or accept the cost.
    Source: the placement rule (`recipegen.layout`).
    """
    if point.recipe.colocate or not point.pair or not point.pair[0].layout or not point.pair[1].layout:
        return
    prefill, decode = point.pair[0].layout, point.pair[1].layout
    apart, together = prefill.nodes + decode.nodes, _nodes_together(prefill, decode)
    if together < apart:
        message = f"point {point.recipe.point}: prefill and decode on shared nodes would need {together} of their {apart} nodes"
        yield Fault(point.recipe.source, message, "say `colocate: true`, choose worker counts that fill nodes, or accept the idle GPUs")


def _nodes_together(prefill: WorkerLayout, decode: WorkerLayout) -> int:
    """Nodes of a point whose decode workers begin on the last node of prefill, where both fit into nodes; else those of each."""
    try:
        return span([prefill, beside(decode, prefill)])
    except LayoutError:
        return prefill.nodes + decode.nodes


def _who(view: RoleView) -> str:
    return f"point {view.recipe.point}, {view.role.role.value}"


def _experts(view: RoleView, own: int) -> tuple[int, str]:
    """Experts that the ranks hold, redundant ones of EPLB included, and how they are told."""
    redundant = json_keys(view.role, "eplb-config").get("num_redundant_experts") if switch(view.role, _EPLB) else 0
    if not isinstance(redundant, int) or redundant <= 0:
        return own, f"{own} experts"
    return own + redundant, f"{own} + {redundant} redundant experts"


def _choices(heads: int, kv_heads: int) -> str:
    """Sizes that divide the heads and go with the KV heads, up to 16 GPUs."""
    fitting = [tp for tp in range(1, 17) if not heads % tp and not (kv_heads % tp and tp % kv_heads)]
    return ", ".join(map(str, fitting))


ROLE_RULES: tuple[Rule[RoleView], ...] = (heads, linear, experts, layers, domain, uneven_experts)
POINT_RULES: tuple[Rule[PointView], ...] = (idle, segment, colocation)
