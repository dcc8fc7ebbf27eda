"""The command line of the stand-in srun: the options that job.sbatch uses, no others."""

from __future__ import annotations

from typing import NamedTuple

from recipegen.standins.hostlist import expand

_NUMBERS = {"nodes", "ntasks", "ntasks-per-node", "wait", "kill-on-bad-exit"}
_TEXTS = {"nodelist", "output", "error", "export", "job-name", "cpu-bind", "mpi", "input"}
_SWITCHES = {"overlap", "unbuffered", "label", "kill-on-bad-exit"}
_ONLY = {"cpu-bind": ("none",), "mpi": ("none",), "input": ("none", "all")}


class UsageError(Exception):
    """A command line that srun would refuse; `code` is srun's exit code."""

    def __init__(self, message: str, code: int = 255) -> None:
        super().__init__(message)
        self.code = code


class Task(NamedTuple):
    """One task's place: its rank, its node in the step, its rank there."""

    rank: int
    node: int
    local: int


class Options(NamedTuple):
    """What a step is to be; `hosts` are its nodes in the order of the allocation."""

    command: list[str]
    hosts: list[str]
    tasks: list[Task]
    output: str = ""
    error: str = ""
    export: list[str] = []  # noqa: RUF012 - a named tuple's default; nothing changes it
    name: str = ""
    label: bool = False
    input: bool = True
    kill_on_bad_exit: bool = False
    wait_s: int = 0


def parse(argv: list[str], allocation: list[str]) -> Options:
    """Read an srun command line; UsageError, in srun's words, for what it does not take."""
    given, command = _split(argv)
    if not command:
        raise UsageError("srun: fatal: No command given to execute.", 1)
    hosts, tasks = _layout(given, allocation)
    return Options(
        command=command,
        hosts=hosts,
        tasks=tasks,
        output=given.get("output", ""),
        error=given.get("error", ""),
        export=_export(given.get("export", "ALL")),
        name=given.get("job-name", command[0].rpartition("/")[2]),
        label="label" in given,
        input=given.get("input") != "none",
        kill_on_bad_exit=given.get("kill-on-bad-exit", "0") != "0",
        wait_s=int(given.get("wait", "0")),
    )


def _split(argv: list[str]) -> tuple[dict[str, str], list[str]]:
    given: dict[str, str] = {}
    for position, word in enumerate(argv):
        if word == "--" or not word.startswith("-"):
            return given, argv[position + (word == "--") :]
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in _NUMBERS | _TEXTS | _SWITCHES:
            raise UsageError(f"srun: unrecognized option '{word}'")
        if not equals and name not in _SWITCHES:
            raise UsageError(f"srun: option '--{name}' requires an argument: --{name}=...")
        if equals and name not in _NUMBERS | _TEXTS:
            raise UsageError(f"srun: option '--{name}' doesn't allow an argument")
        if equals and (not value or (name in _NUMBERS and not value.isdecimal()) or value not in _ONLY.get(name, (value,))):
            raise UsageError(f"srun: error: Invalid --{name} specification")
        given[name] = value if equals else "1"
    return given, []


def _layout(given: dict[str, str], allocation: list[str]) -> tuple[list[str], list[Task]]:
    try:
        wanted = expand(given.get("nodelist", ""))
    except ValueError as error:
        raise UsageError(f"srun: error: {error}") from None
    nodes = int(given.get("nodes", "0")) or len(wanted) or len(allocation)
    hosts = [host for host in allocation if host in wanted] or allocation
    if set(wanted) - set(allocation) or len(wanted) > nodes or nodes > len(allocation):
        raise UsageError("srun: error: Unable to create step for job: Requested node configuration is not available", 1)
    hosts = [*hosts, *(host for host in allocation if host not in hosts)][:nodes]
    hosts = [host for host in allocation if host in hosts]
    per_node = int(given.get("ntasks-per-node", "0"))
    count = int(given.get("ntasks", "0")) or nodes * (per_node or 1)
    if count < nodes or (per_node and count > nodes * per_node):
        raise UsageError(f"srun: error: {count} tasks do not fit {nodes} nodes", 1)
    share = [count // nodes + (node < count % nodes) for node in range(nodes)]
    places = [(node, local) for node in range(nodes) for local in range(share[node])]
    return hosts, [Task(rank, node, local) for rank, (node, local) in enumerate(places)]


def _export(value: str) -> list[str]:
    """Return the assignments that follow `ALL` in `--export=ALL,NAME=value`."""
    first, *assignments = value.split(",")
    if first != "ALL" or any("=" not in one for one in assignments):
        raise UsageError("srun: error: only --export=ALL[,NAME=value...] is understood without Slurm")
    return assignments
