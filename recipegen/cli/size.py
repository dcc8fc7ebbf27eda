"""`recipegen size`: topologies without a matrix, their ranking, and the measured table that sizes rest on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from recipegen.errors import InputError
from recipegen.model import HardwareSpec, ModelSpec

if TYPE_CHECKING:
    from recipegen.model import Topology
    from recipegen.sizing.measured import MeasuredSizes
    from recipegen.sizing.what_if import Assumptions, Candidate

DEFAULT_MODEL = "qwen3.8-2.4t-nvfp4"
DEFAULT_HARDWARE = "gb300-nvl72"
_RANKED = 20
_DOMAIN = 0
_SWEEP_HELP = "Rank topologies by requests that fit per GPU, on up to so many GPUs; without a number, those of one NVLink domain."


@click.command(name="size", short_help="Size topologies without a matrix, or show what is measured.")
@click.option("--model", default=DEFAULT_MODEL, show_default=True, help="A known model; `recipegen model list` names them.")
@click.option("--hardware", default=DEFAULT_HARDWARE, show_default=True, help="A known hardware type.")
@click.option("--topology", "topologies", multiple=True, help="A worker's topology such as TP4DP4+EP; may be given several times.")
@click.option("--sweep", "max_gpus", is_flag=False, flag_value=_DOMAIN, metavar="[GPUS]", type=click.IntRange(0, 4096), help=_SWEEP_HELP)
@click.option("--mtp", default=0, type=click.IntRange(0, 64), help="Tokens of multi-token prediction.")
@click.option("--isl", default=8192, show_default=True, type=click.IntRange(1, 10_000_000), help="Input tokens.")
@click.option("--osl", default=1024, show_default=True, type=click.IntRange(1, 10_000_000), help="Output tokens.")
@click.option("--max-model-len", type=click.IntRange(1, 10_000_000), help="Default: ISL + OSL + 1024 for the chat template.")
@click.option("--concurrency", default=256, show_default=True, type=click.IntRange(1, 10_000_000), help="Requests at once on one worker.")
@click.option("--role", default="decode", show_default=True, type=click.Choice(["decode", "prefill", "agg"]), help="What the worker does.")
@click.option("--kv-cache-dtype", default="fp8", show_default=True, help="As vLLM's flag takes it.")
@click.option("--block-size", type=click.IntRange(1, 1_000_000), help="As vLLM's flag takes it; default: what vLLM settles on.")
@click.option("--explain", is_flag=True, help="The arithmetic step by step, with sources.")
@click.option("--format", "output", default="text", type=click.Choice(["text", "json"]), help="For people, or for programs.")
def command(
    model: str, hardware: str, topologies: tuple[str, ...], max_gpus: int | None, mtp: int, isl: int, osl: int, max_model_len: int | None,
    concurrency: int, role: str, kv_cache_dtype: str, block_size: int | None, explain: bool, output: str,
) -> None:  # fmt: skip
    """Answer what fits: a --topology, a ranking with --sweep, or, with neither, the measured rows that sizes are calibrated with.

    What is not asked is as in the published study: bfloat16 SSM state, prefix caching off, one-sided all2all, graphs for decode.
    """
    from recipegen.catalogue import load_hardware, load_model
    from recipegen.model import Role
    from recipegen.sizing.state import DTYPE_BYTES, CacheDtypes, unknown_cache_dtype
    from recipegen.sizing.what_if import Assumptions

    spec, machine = load_model(model), load_hardware(hardware)
    assume = Assumptions(
        role=Role(role), concurrency=concurrency, kv_cache_dtype=kv_cache_dtype, block_size=block_size, max_model_len=max_model_len
    )  # fmt: skip
    question = _Question(spec, machine, mtp, isl, osl, assume)
    if spec.architecture is None:
        raise InputError(f"the architecture of {model} is not known: nothing can be sized", hint="`recipegen model add` reads a config.json")
    if unknown_cache_dtype(CacheDtypes(kv=kv_cache_dtype), spec.architecture):
        raise InputError(f"--kv-cache-dtype: the size of '{kv_cache_dtype}' is not known", hint=f"known: {', '.join(DTYPE_BYTES)}")
    if topologies and max_gpus is not None:
        raise click.UsageError("--topology and --sweep are two questions: ask one")
    if explain and not topologies:
        raise click.UsageError("--explain needs a --topology")
    if topologies:
        question.answer([_topology(text) for text in topologies], explain=explain, output=output)
    elif max_gpus is not None:
        question.rank(max_gpus or machine.gpus_per_node * machine.nodes_per_domain, output=output)
    else:
        _print_measured(spec, machine, output=output)


def _topology(text: str) -> Topology:
    from recipegen.topology import NotationError, parse_topology

    try:
        return parse_topology(text)
    except NotationError as error:
        raise InputError(f"--topology: {error}") from None


class _Question:
    """One model on one hardware type under one workload."""

    def __init__(self, model: ModelSpec, hardware: HardwareSpec, mtp: int, isl: int, osl: int, assume: Assumptions) -> None:
        self.model, self.hardware, self.assume = model, hardware, assume
        self.workload: dict[str, Any] = {"mtp": mtp, "isl": isl, "osl": osl}

    def answer(self, topologies: Sequence[Topology], *, explain: bool, output: str) -> None:
        from recipegen.cli.sizes_steps import print_steps
        from recipegen.sizes_json import sizes_document
        from recipegen.sizing.what_if import size_topology, why_not

        sized = [size_topology(self.model, self.hardware, topology, assume=self.assume, **self.workload) for topology in topologies]
        reasons = [why_not(self.model, self.hardware, topology, sizes) for topology, (_, sizes) in zip(topologies, sized, strict=True)]
        if output == "json":
            click.echo(
                json.dumps([sizes and {**sizes_document(sizes), "why_not": why} for (_, sizes), why in zip(sized, reasons, strict=True)], indent=1)
            )
        elif explain:
            for recipe, sizes in sized:
                print_steps(recipe, [sizes] if sizes else [])
        else:
            _print_sizes([(str(topology), sizes) for topology, (_, sizes) in zip(topologies, sized, strict=True)], ("TOPOLOGY",))
        _warn(topologies, reasons)

    def rank(self, max_gpus: int, *, output: str) -> None:
        from recipegen.sizes_json import sizes_document
        from recipegen.sizing.what_if import sweep

        found = sweep(self.model, self.hardware, max_gpus=max_gpus, assume=self.assume, **self.workload)
        if output == "json":
            click.echo(json.dumps([{"requests_per_gpu": c.requests_per_gpu, **sizes_document(c.sizes)} for c in found], indent=1))
            return
        if not found:
            raise InputError(f"no topology of {self.model.key} on up to {max_gpus} GPUs holds a request", hint="more GPUs, or a shorter workload")
        _print_ranking(found[:_RANKED])
        if len(found) > _RANKED:
            click.echo(f"{len(found) - _RANKED} more topologies hold fewer; --format json has them all", err=True)


def _warn(topologies: Sequence[Topology], reasons: Sequence[Sequence[str]]) -> None:
    for topology, why in zip(topologies, reasons, strict=True):
        for reason in why:
            click.echo(f"warning: {topology} cannot run: {reason}", err=True)


def _print_sizes(rows: Sequence[tuple[Any, ...]], heads: tuple[str, ...]) -> None:
    from recipegen.cli.sizes_table import LEGEND, SIZE_HEADS, size_cells
    from recipegen.cli.table import print_rows

    print_rows((*heads, *SIZE_HEADS), [(*cells, *size_cells(sizes)) for *cells, sizes in rows])
    click.echo(LEGEND, err=True)


def _print_ranking(found: Sequence[Candidate]) -> None:
    rows = [(str(c.topology), str(c.topology.gpus), str(c.requests), f"{c.requests_per_gpu:.2f}", c.sizes) for c in found]
    _print_sizes(rows, ("TOPOLOGY", "GPUS", "REQUESTS", "PER GPU"))


def _print_measured(model: ModelSpec, hardware: HardwareSpec, *, output: str) -> None:
    """The measured parts of each row beside what sizing makes of them."""
    from recipegen.cli.table import print_rows
    from recipegen.sizing.measured import measured_rows, size_measured

    found = [size_measured(model, hardware, row) for row in measured_rows(model, hardware)]
    if not found:
        raise InputError(f"nothing is measured of {model.key} on {hardware.key}", hint="give a --topology, or --sweep GPUS")
    if output == "json":
        click.echo(json.dumps([_measured_document(one) for one in found], indent=1))
        return
    heads = ("RUN", "TOPOLOGY", "MTP", "SEQS", "TOKENS", "CAPTURE", "GRAPHS", "NON-TORCH", "ACTIVATION", "GRAPH EST", "WEIGHTS", "KV", "BLOCK")
    print_rows((*heads, "FITS vLLM", "paired", "FITS study"), [_measured_cells(one) for one in found])
    click.echo(
        "measured, GiB of one GPU; `a = b`: measured and derived. Paired: with the block size that the other rows of the same speculation need.",
        err=True,
    )


def _measured_cells(one: MeasuredSizes) -> tuple[str, ...]:
    row, sizes, room = one.row, one.sizes, one.room
    return (
        str(row.run),
        str(row.topology),
        str(row.mtp),
        str(row.max_num_seqs),
        str(row.max_num_batched_tokens),
        str(row.capture_size),
        f"{row.graphs} = {sizes.graphs.count}",
        f"{row.non_torch:.2f}",
        f"{row.activation:.2f}",
        f"{row.graphs_estimate:.2f}",
        f"{row.weights:.2f} = {sizes.weights_gib:.2f}",
        f"{row.kv:.2f} = {one.kv_gib:.2f}",
        f"{sizes.blocks.chosen}/{sizes.blocks.kernel}",
        f"{room.concurrency:.2f}",
        f"{one.paired_room.concurrency:.2f} at {one.paired_block}" if one.paired_room else "-",
        f"{room.study_requests:.1f}",
    )


def _measured_document(one: MeasuredSizes) -> dict[str, Any]:
    from recipegen.sizes_json import sizes_document

    measured = {**asdict(one.row), "topology": str(one.row.topology)}
    paired = None if one.paired_room is None else {"block_size": one.paired_block, **asdict(one.paired_room)}
    return {"measured": measured, "derived": {**sizes_document(one.sizes), "kv_gib": one.kv_gib, "fits": asdict(one.room), "paired": paired}}
