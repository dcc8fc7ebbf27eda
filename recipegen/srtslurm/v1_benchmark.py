"""The benchmark of a v1 document: workload, concurrencies, settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recipegen.benchmarks import LOAD_TYPES, SETTINGS
from recipegen.errors import Source
from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import MISSING, WRONG_TYPE, Findings, Section, read_whole
from recipegen.srtslurm.recipe import Comment, Entry
from recipegen.srtslurm.tree import Tree, plain

_LOAD = ("isl", "osl", "concurrencies")
DEFAULT_LENGTH = 1024
"""Tokens in and out where the benchmark brings its own requests: sizing needs an idea of them."""
_ELSEWHERE = (
    *("agentperf_client_dir", "agentperf_config", "aiperf_env", "concurrency", "num_prompts", "num_requests", "num_warmups"),
    *("prefix_ratios", "sweep", "tokenizer_mode", "warmup_prompts"),
)
"""Settings that some version of srtctl reads for some benchmark."""
_TEXTS = ("backend", "categories", "dataset", "dataset_path", "endpoint", "mooncake_workload", "tokenizer", "tokenizer_class", "trace_file")
"""Settings that are no numbers, also where they look like one; a number may stand in quotes, as srtctl reads it."""
_NUMBER = re.compile(r"\d{1,9}(\.\d{1,9})?")
_CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+")


@dataclass(frozen=True)
class _Type:
    """The benchmark that is run, and the recipe's word where that is another one."""

    kind: str
    name: str


@dataclass(frozen=True, kw_only=True)
class BenchmarkPart:
    """What a recipe measures; `settings` begins with the type."""

    isl: int
    osl: int
    concurrency: tuple[int, ...]
    settings: tuple[Entry, ...]


def read_benchmark(findings: Findings, section: Section, where: Source) -> BenchmarkPart:
    """Read the section; settings that the type does not take are carried, and all of a benchmark that there is not."""
    found = _read_type(findings, section)
    kind = found.kind
    needed = [name for name in _LOAD if (tree := section.rest.get(name)) is None or tree.is_null]
    isl, osl = section.whole("isl"), section.whole("osl")
    concurrencies = section.take("concurrencies")
    concurrency = _read_concurrency(findings, concurrencies) if concurrencies is not None else ()
    if kind in LOAD_TYPES:
        for name in needed:
            findings.problem(MISSING, section.where, f"'benchmark.{name}' is missing: {kind} sends requests of a length at a concurrency")
    else:
        here = section.where if section.given else where
        if isl is None or osl is None:
            lengths = f"{isl or DEFAULT_LENGTH} tokens in and {osl or DEFAULT_LENGTH} out"
            findings.note(here, f"{found.name} brings its own requests: {lengths} stand for them where sizes follow")
        if not concurrency:
            findings.note(here, f"{found.name} has no concurrency: 1 stands for it")
    settings = tuple(_settings(findings, section, kind))
    section.finish(_reasons(section, found))
    return BenchmarkPart(
        isl=isl or DEFAULT_LENGTH,
        osl=osl or DEFAULT_LENGTH,
        concurrency=concurrency or (1,),
        settings=(Entry(name="type", value=kind), *settings, *_defaults(kind, settings)),
    )


def _reasons(section: Section, found: _Type) -> dict[str, str]:
    """Why settings that are left over have no effect; of a benchmark that there is not, any may stand there."""
    if found.name != found.kind:
        return dict.fromkeys(section.rest, f"it belongs to '{found.name}', which is not run here")
    foreign = dict.fromkeys(_ELSEWHERE, "benchmarks have no such setting here")
    return {**keys.BENCHMARK, **foreign, **dict.fromkeys(keys.BENCHMARK_NAMES, f"{found.kind} does not read it")}


def _read_type(findings: Findings, section: Section) -> _Type:
    tree = section.take("type")
    if tree is None:
        return _Type("manual", "manual")
    if tree.text is not None:
        if tree.text in SETTINGS:
            return _Type(tree.text, tree.text)
        findings.carry(tree, "there is no such benchmark here, so that nothing is measured (`manual`)")
        return _Type("manual", tree.text)
    findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected the name of a benchmark")
    return _Type("manual", "manual")


def _settings(findings: Findings, section: Section, kind: str) -> list[Entry]:
    found = []
    for theirs, ours in keys.BENCHMARK_NAMES.items():
        if theirs not in section.rest or ours not in SETTINGS[kind]:
            continue
        tree = section.take(theirs)
        if tree is None:
            continue
        name, value = _value(ours, tree.text if ours in _TEXTS and tree.text is not None else plain(tree))
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = tuple(value)
        if isinstance(value, dict | list):
            findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected text, a number or a switch")
            continue
        found.append(Entry(name=name, value=value, source=tree.source, comment=Comment(tree.above, tree.behind)))
    return found


def _value(name: str, value: Any) -> tuple[str, Any]:  # noqa: ANN401 - whatever YAML holds
    if name == "tokenizer_class" and isinstance(value, str) and not _CLASS.fullmatch(value):
        return "tokenizer", value
    if name not in _TEXTS and isinstance(value, str) and _NUMBER.fullmatch(value):
        return name, float(value) if "." in value or name == "request_rate" else int(value)
    return name, value


def _defaults(kind: str, settings: tuple[Entry, ...]) -> list[Entry]:
    """srtctl's defaults where they are not those of a matrix."""
    if kind != "sa-bench":
        return []
    own = {entry.name for entry in settings}
    theirs: Mapping[str, Any] = keys.SA_BENCH_DEFAULTS
    return [Entry(name=name, value=value, comment=Comment(behind="srtctl's default")) for name, value in theirs.items() if name not in own]


def _read_concurrency(findings: Findings, tree: Tree) -> tuple[int, ...]:
    """`1x2x4`, one number, or a list of either."""
    parts: list[Tree | str] = list(tree.items) if tree.items is not None else [tree]
    found: list[int] = []
    for part in parts:
        scalar = part.scalar if isinstance(part, Tree) else part
        if isinstance(scalar, str) and re.fullmatch(r"\d{1,8}(x\d{1,8})*", scalar):
            found += map(int, scalar.split("x"))
        elif isinstance(part, Tree) and isinstance(scalar, int):
            number = read_whole(findings, part, least=1)
            found += [] if number is None else [number]
        else:
            place = part if isinstance(part, Tree) else tree
            findings.problem(WRONG_TYPE, place.source, f"'{place.path}' is {place.kind}; expected concurrencies, as 1x2x4 or a list of numbers")
            return (1,)
    if not found or min(found) < 1:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' names no concurrency of 1 or more")
        return (1,)
    rising = tuple(sorted(set(found)))
    if list(rising) != found:
        findings.note(tree.source, f"the concurrencies are put in order: {', '.join(map(str, rising))}")
    return rising
