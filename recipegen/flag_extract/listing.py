"""The text of `vllm serve --help=all`: option strings, choices, and kinds as far as it tells them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from recipegen.engine.flag_spec import FlagKind, FlagSpec

_OPTION = re.compile(r" {2}(-\S.*)", re.ASCII)
_GROUP = re.compile(r"(\S.*):")
_WORD = re.compile(r"(?:^|, )(-{1,2}[A-Za-z0-9][\w-]*)", re.ASCII)
_CHOICES = re.compile(r"\{([^{}]*)\}")
_DECIMAL_DEFAULT = re.compile(r"\(default: -?\d+\.\d+(?:e-?\d+)?\)", re.ASCII)
_SUFFIXES = re.compile(r"human-\s?readable integers")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SERVE = frozenset({"headless", "api-server-count", "config", "grpc"})
"""Options of no group that `vllm serve` adds itself; the others of no group are the engine's."""


@dataclass
class _Entry:
    """One option as printed: its invocation, its group, and the lines of its help."""

    words: str
    group: str
    lines: list[str] = field(default_factory=list)


def parse_listing(text: str) -> Iterator[FlagSpec]:
    """Yield the flags of a help text as argparse prints it, in either style (`--x X, -y X`, or `--x, -y X` from Python 3.13 on)."""
    for entry in _entries(_ANSI.sub("", text)):
        options = _WORD.findall(entry.words)
        name = next((option[2:] for option in options if option.startswith("--") and option != "--help"), "")
        if name:
            yield _spec(name, options, entry)


def _entries(text: str) -> Iterator[_Entry]:
    """Options stand two columns in; their help, further in."""
    entry, group = None, ""
    for line in text.splitlines():
        if found := _OPTION.fullmatch(line):
            if entry:
                yield entry
            words, _, rest = found[1].partition("  ")
            entry = _Entry(words, group, [rest.strip()])
        elif found := _GROUP.fullmatch(line):
            group = found[1]
        elif entry and line.startswith("    "):
            entry.lines.append(line.strip())
    if entry:
        yield entry


def _spec(name: str, options: list[str], entry: _Entry) -> FlagSpec:
    negative = f"--no-{name}" in options
    spec = FlagSpec(
        name=name,
        kind=FlagKind.BOOL if negative else FlagKind.ANY,
        negatable=negative,
        aliases=tuple(option for option in options if option not in {f"--{name}", f"--no-{name}"}),
        engine=entry.group != "Frontend" and name not in _SERVE,
    )
    return spec if negative else _with_value(spec, _metavar(entry.words), " ".join(entry.lines))


def _metavar(words: str) -> str:
    """What follows the last option string."""
    *_, last = _WORD.finditer(words)
    return words[last.end() :].strip()


def _with_value(spec: FlagSpec, metavar: str, text: str) -> FlagSpec:
    if not metavar:
        return replace(spec, kind=FlagKind.SWITCH, default=False)
    found = _CHOICES.match(metavar)
    choices = tuple(found[1].split(",")) if found else ()
    if metavar.endswith("...]"):
        return replace(spec, kind=FlagKind.LIST, choices=choices)
    if found and found.end() == len(metavar):
        own = tuple(choice for choice in choices if choice != "None")
        return replace(spec, kind=FlagKind.ENUM, choices=own, optional=len(own) < len(choices))
    if metavar.startswith("[") and metavar.endswith("]") and "," not in metavar:
        return replace(spec, kind=FlagKind.BOOL_OR_STR)
    return replace(spec, kind=_kind(text))


def _kind(text: str) -> FlagKind:
    """What the help's own words tell: vLLM explains JSON arguments and numbers with suffixes."""
    if "valid JSON string or JSON keys passed individually" in text:
        return FlagKind.JSON
    if _SUFFIXES.search(text):
        return FlagKind.INT_OR_AUTO if "'auto'" in text else FlagKind.HUMAN_INT
    return FlagKind.FLOAT if _DECIMAL_DEFAULT.search(text) else FlagKind.ANY
