"""What a batch script and its options ask of the local scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recipegen.errors import SubmissionRefused

_DEFAULT_LIMIT_S = 3600
_MAX_NODES = 1000


@dataclass(frozen=True, kw_only=True)
class Request:
    """The directives that mean something on one machine; what else a script asks for, Slurm alone knows."""

    nodes: int
    time_limit_s: int
    name: str
    output: str
    work_dir: str


def read_request(script: str, options: Iterable[str], *, script_name: str, run_dir: str) -> Request:
    """Return what the script's `#SBATCH` lines ask for; options win over them, as with sbatch."""
    asked = dict(_pairs([*_directives(script), *options]))
    work_dir = asked.get("chdir", run_dir)
    return Request(
        nodes=_nodes(asked.get("nodes", "1")),
        time_limit_s=_seconds(asked["time"]) if "time" in asked else _DEFAULT_LIMIT_S,
        name=asked.get("job-name", script_name),
        output=asked.get("output", f"{work_dir}/slurm-%j.out"),
        work_dir=work_dir,
    )


def expand_output(pattern: str, job: str, name: str) -> str:
    """Fill in `--output`'s `%j`, `%x` and `%%`."""
    return re.sub(r"%([jx%])", lambda m: {"j": job, "x": name, "%": "%"}[m[1]], pattern)


def _directives(script: str) -> Iterator[str]:
    if not script.startswith("#!"):
        raise SubmissionRefused("this does not look like a batch script: its first line must be '#!' and an interpreter")
    for line in script.splitlines():
        if line.startswith("#SBATCH "):
            yield from line[len("#SBATCH ") :].split(" #")[0].split()
        elif line.strip() and not line.startswith("#"):
            return


def _pairs(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    for option in options:
        name, _, value = option.partition("=")
        yield name.removeprefix("--"), value


def _nodes(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= _MAX_NODES:
        raise SubmissionRefused(f"--nodes={text}: expected 1 to {_MAX_NODES}")
    return int(text)


def _seconds(text: str) -> int:
    """Read a time limit as Slurm does: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S."""
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if not found:
        raise SubmissionRefused(f"--time={text}: expected a time limit such as 90, 1:30:00 or 1-12:00:00")
    days, parts = int(found[1] or 0), [int(part) for part in found.groups()[1:] if part is not None]
    if found[1] is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, [*parts, 0][:2]
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not total:
        raise SubmissionRefused(f"--time={text}: expected a time limit above zero")
    return total
