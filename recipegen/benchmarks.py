"""Benchmarks as data: which types there are, and which settings each takes, with the defaults that the published study measured by."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recipegen.errors import NOWHERE, Source
from recipegen.model import Benchmark

CHAT = "/v1/chat/completions"

_OWN: None = None
"""The benchmark's own default."""
_LOAD = {
    "endpoint": CHAT,
    "prompts_per_concurrency": 8,
    "warmup_per_concurrency": 1,
    "request_rate": math.inf,
    "random_range_ratio": 1.0,
    "tokenizer": _OWN,
    "reuse_connections": _OWN,
}
_SLO = dict.fromkeys(("ttft_threshold_ms", "itl_threshold_ms"), _OWN)
_ACCURACY = dict.fromkeys(("num_examples", "num_threads", "max_tokens", "repeat"), _OWN)
_SAMPLING = dict.fromkeys(("temperature", "top_p", "top_k"), _OWN)

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "sa-bench": _LOAD | {"backend": "dynamo", "chat_template": True, **dict.fromkeys(("tokenizer_class", "dataset", "dataset_path"), _OWN)},
    "aiperf": _LOAD,
    "mooncake-router": {"mooncake_workload": "conversation", **_SLO},
    "trace-replay": {"trace_file": _OWN, **_SLO},
    "gsm8k": {**_ACCURACY, "num_shots": _OWN, **_SAMPLING},
    "mmlu": _ACCURACY,
    "gpqa": _ACCURACY,
    "longbenchv2": {**_ACCURACY, "max_context_length": _OWN, "categories": _OWN},
    "lm-eval": {},
    "manual": {},
}
"""Types of srt-slurm v1 that go with vLLM, and AIPerf on its own: each setting with its default. Defaults are those of the published study."""

LOAD_TYPES = ("sa-bench", "aiperf")
"""Types that send prompts of the workload's ISL and OSL at the point's concurrencies."""
ACCURACY_TYPES = ("gsm8k", "mmlu", "gpqa", "longbenchv2", "lm-eval")
"""Types that ask questions and count right answers."""


def make_benchmark(
    type: str,  # noqa: A002 - as the matrix calls it
    given: Mapping[str, Any],
    *,
    places: Mapping[str, Source] | None = None,
    source: Source = NOWHERE,
) -> Benchmark:
    """Return a benchmark with what is given and, of what its type takes, the defaults.

    What the type does not take is kept as given, for the rules to complain of. TypeError for settings that no benchmark has.
    """
    settings = {**SETTINGS.get(type, {}), **{name: value for name, value in given.items() if value is not None}}
    return Benchmark(type=type, **settings, places=dict(places or {}), source=source)


def benchmark_settings(benchmark: Benchmark) -> dict[str, Any]:
    """Return the type and every setting that is not None, by name; a rate without limit is the text `inf`."""
    names = (name for name in Benchmark.__dataclass_fields__ if name not in {"places", "source"})
    found = {name: getattr(benchmark, name) for name in names}
    return {name: "inf" if value == math.inf else value for name, value in found.items() if value is not None}
