"""Rules over what is measured: settings of the benchmark's type, endpoint, prompts, tokenizer."""

from __future__ import annotations

import math
from collections.abc import Iterator

from recipegen.benchmarks import ACCURACY_TYPES, CHAT, SETTINGS
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import ClusterView, PointView
from recipegen.errors import Source, near_match
from recipegen.model import Benchmark, Recipe
from recipegen.role_flags import draft_tokens

FEW_PROMPTS = 4
"""Requests for each place in flight below which the ramp at both ends is most of the run; the published study takes 8."""
MANY_SESSIONS = 1000
"""Concurrency from which a connection for each request shows in the latencies (our margin)."""
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


@rule("benchmark-field", Severity.ERROR, covers=(4,))
def field(view: PointView) -> Iterator[Fault]:
    """A benchmark has a setting that its type does not read.

    It would be dropped without notice, and the run measure something else than what is written; other launchers refuse it once
    the model is loaded.

    Mend: remove the setting, or take the type that reads it.
    """
    for benchmark in _benchmarks(view.recipe):
        known = SETTINGS.get(benchmark.type)
        for name, source in benchmark.places.items():
            if known is not None and name not in known:
                takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none"
                yield Fault(source, f"a benchmark of type {benchmark.type} does not read '{name}'", near_match(name, known) or takes)


@rule("benchmark-type", Severity.ERROR, covers=(12,))
def kind(view: PointView) -> Iterator[Fault]:
    """A benchmark is of no known type, or lacks what its type needs.

    A type that nobody knows, or a trace-replay without a trace, ends at once, but only after the model was loaded: what a benchmark
    needs is looked at when it starts.

    Mend: take a type that the reference lists, and give it what it needs.
    """
    for benchmark in _benchmarks(view.recipe):
        if benchmark.type not in SETTINGS:
            hint = near_match(benchmark.type, SETTINGS) or f"types: {', '.join(SETTINGS)}"
            yield Fault(_at(view.recipe, benchmark), f"no benchmark is called '{benchmark.type}'", hint)
        elif benchmark.type == "trace-replay" and not benchmark.trace_file:
            yield Fault(_at(view.recipe, benchmark), "a benchmark of type trace-replay needs a trace", "set `trace_file`")


_ON_RAW = {True: "what the client renders comes on top of ISL", **dict.fromkeys((False, None), "acceptance on raw prompts means nothing")}


@rule("benchmark-endpoint", Severity.WARNING)
def endpoint(view: PointView) -> Iterator[Fault]:
    """Speculation is measured without the chat template.

    How many drafted tokens are accepted, and so the speed, depends on text that looks like what the model was trained on. The
    published study measures MTP over /v1/chat/completions, where the server renders the template; raw prompts give an acceptance
    that no user will see, and a template that the client renders (`chat_template: true` of sa-bench) comes on top of ISL. It shows in
    no log: the figures are merely wrong.

    Mend: `endpoint: /v1/chat/completions` and `chat_template: true`, or `mtp: 0`.
    """
    if not any(draft_tokens(view.recipe, role.role) for role in view.roles):
        return
    for benchmark in _benchmarks(view.recipe):
        if benchmark.endpoint not in {None, CHAT}:
            message = (
                f"speculation is measured over {benchmark.endpoint}, where the server renders no chat template: {_ON_RAW[benchmark.chat_template]}"
            )
            yield Fault(_at(view.recipe, benchmark, "endpoint"), message, f"set `endpoint: {CHAT}`")
        elif benchmark.chat_template is False:
            message = "speculation is measured without the chat template: its acceptance on raw random tokens means nothing"
            yield Fault(_at(view.recipe, benchmark, "chat_template"), message, "set `chat_template: true`")


@rule("benchmark-prompts", Severity.ERROR)
def prompts(view: PointView) -> Iterator[Fault]:
    """A benchmark sends fewer prompts than its concurrency.

    The concurrency that the result is filed under is never reached, whatever the deployment can do.

    Mend: `prompts_per_concurrency: 8`, as the published study has it.
    """
    for benchmark in _benchmarks(view.recipe):
        multiple = benchmark.prompts_per_concurrency
        if multiple is not None and multiple < 1:
            message = f"{multiple:g} prompts for each place in flight: the concurrency is never reached"
            yield Fault(_at(view.recipe, benchmark, "prompts_per_concurrency"), message, "set 8, as the published study does")


@rule("benchmark-few-prompts", Severity.WARNING)
def few_prompts(view: PointView) -> Iterator[Fault]:
    """A benchmark sends so few prompts that its ramps are most of it.

    All requests start at once and prefill queues; at the end the batch runs dry. With fewer than four prompts for each place in
    flight the middle, which is what the figure stands for, is less than half of the run.

    Mend: `prompts_per_concurrency: 8`, as the published study has it.
    """
    for benchmark in _benchmarks(view.recipe):
        multiple = benchmark.prompts_per_concurrency
        if multiple is not None and 1 <= multiple < FEW_PROMPTS:
            message = f"{multiple:g} prompts for each place in flight: ramp-up and running dry are most of what is measured"
            yield Fault(_at(view.recipe, benchmark, "prompts_per_concurrency"), message, f"set {FEW_PROMPTS} or more")


@rule("benchmark-concurrency", Severity.WARNING)
def concurrency(view: PointView) -> Iterator[Fault]:
    """An accuracy benchmark asks more questions at once than the point is for.

    The decode batch and its CUDA graphs are sized for the point's highest concurrency; what comes on top queues, and long answers
    run into the client's timeouts.

    Mend: `num_threads` no higher than the point's highest concurrency.
    """
    highest = max(view.recipe.concurrency)
    for benchmark in _benchmarks(view.recipe):
        if benchmark.num_threads is not None and benchmark.num_threads > highest:
            message = f"{benchmark.num_threads} questions at once, but the point is for {highest}"
            yield Fault(_at(view.recipe, benchmark, "num_threads"), message, f"set num_threads to {highest} or less")


@rule("benchmark-rate", Severity.NOTE)
def rate(view: PointView) -> Iterator[Fault]:
    """A request rate bounds what the concurrency would allow.

    With a finite rate the concurrency is only a ceiling: a fast deployment never has that many requests in flight, and its result
    is not one of that concurrency.

    Mend: `request_rate: inf` to measure at a concurrency.
    """
    for benchmark in _benchmarks(view.recipe):
        if benchmark.request_rate is not None and not math.isinf(benchmark.request_rate):
            message = f"{benchmark.request_rate:g} requests a second: the concurrency is a ceiling that may not be reached"
            yield Fault(_at(view.recipe, benchmark, "request_rate"), message, "set `request_rate: inf` to measure at a concurrency")


@rule("benchmark-range-ratio", Severity.NOTE)
def range_ratio(view: PointView) -> Iterator[Fault]:
    """Prompt lengths vary below the workload's.

    sa-bench draws lengths between `random_range_ratio` times ISL (and OSL) and the whole of it. Below 1 the mean is shorter than
    what the point is named for, and results are not comparable with those at full length.

    Mend: `random_range_ratio: 1.0` for lengths exactly as the workload says.
    """
    for benchmark in _benchmarks(view.recipe):
        if benchmark.random_range_ratio is not None and benchmark.random_range_ratio < 1:
            ratio, workload = benchmark.random_range_ratio, view.recipe.workload
            message = f"ISL varies between {ratio * workload.isl:.0f} and {workload.isl}, OSL between {ratio * workload.osl:.0f} and {workload.osl}"
            yield Fault(_at(view.recipe, benchmark, "random_range_ratio"), message, "set 1.0 to measure the workload's own lengths")


@rule("benchmark-session", Severity.NOTE, covers=(57,))
def session(view: PointView) -> Iterator[Fault]:
    """Every request opens a connection of its own, at a high concurrency.

    sa-bench makes an HTTP session for each request unless told otherwise. With a thousand and more in flight the handshakes are
    part of the time to first token, and closed sockets pile up on the client's node.

    Mend: `reuse_connections: true`, and the same in every run that is compared.
    """
    benchmark = view.recipe.benchmark
    if benchmark.type == "sa-bench" and not benchmark.reuse_connections and max(view.recipe.concurrency) >= MANY_SESSIONS:
        message = f"an HTTP session for each request, from a concurrency of {MANY_SESSIONS} on: handshakes count into the time to first token"
        yield Fault(_at(view.recipe, benchmark, "reuse_connections"), message, "set `reuse_connections: true`")


@rule("benchmark-tokenizer", Severity.WARNING)
def tokenizer(view: ClusterView) -> Iterator[Fault]:
    """The benchmark's tokenizer cannot be fetched.

    A hub id is looked up when the benchmark starts, after the model was loaded; with HF_HUB_OFFLINE set only a snapshot that is
    already there is found.

    Mend: map the hub id in the profile's `models`, or give the path of a snapshot.
    """
    if not _offline(view):
        return
    for benchmark in _benchmarks(view.point.recipe):
        name = benchmark.tokenizer
        if name and not name.startswith(("/", ".")) and name not in view.profile.models:
            message = (
                f"the tokenizer {name} is a hub id without a snapshot in `models`, and the profile sets HF_HUB_OFFLINE: the benchmark may not start"
            )
            yield Fault(_at(view.point.recipe, benchmark, "tokenizer"), message, "map it in the profile's `models`, or give a path")


@rule("benchmark-offline", Severity.WARNING)
def offline(view: ClusterView) -> Iterator[Fault]:
    """The benchmark does not start where the hub is switched off.

    AIPerf 0.12 takes a tokenizer's path for a hub id when HF_HUB_OFFLINE is set, and stops; accuracy benchmarks fetch their
    questions from the hub. Both show only after the model was loaded.

    Mend: leave HF_HUB_OFFLINE out of the profile's environment; a snapshot's path is read without the network.
    """
    if not _offline(view):
        return
    for benchmark in _benchmarks(view.point.recipe):
        if benchmark.type == "aiperf":
            message = "AIPerf 0.12 takes the path of a tokenizer for a hub id when HF_HUB_OFFLINE is set, and stops"
        elif benchmark.type in ACCURACY_TYPES:
            message = f"{benchmark.type} fetches its questions from the hub, but the profile sets HF_HUB_OFFLINE"
        else:
            continue
        yield Fault(_at(view.point.recipe, benchmark), message, "leave HF_HUB_OFFLINE out of the profile's environment")


POINT_RULES: tuple[Rule[PointView], ...] = (
    field,
    kind,
    endpoint,
    prompts,
    few_prompts,
    concurrency,
    rate,
    range_ratio,
    session,
)
CLUSTER_RULES: tuple[Rule[ClusterView], ...] = (tokenizer, offline)


def _benchmarks(recipe: Recipe) -> tuple[Benchmark, ...]:
    return (recipe.benchmark, *(variant.benchmark for variant in recipe.variants))


def _at(recipe: Recipe, benchmark: Benchmark, name: str = "") -> Source:
    """Where the setting was written, else the benchmark, else the point."""
    return benchmark.places.get(name) or (benchmark.source if benchmark.source.file else recipe.source)


def _offline(view: ClusterView) -> bool:
    """Whether the benchmark, which sees the profile's variables and not those of a role, may not ask the hub."""
    return any(view.profile.environment.get(name, "").lower() in {"1", "on", "yes", "true"} for name in _OFFLINE)
