"""The run folder: the names of its files, and the record that says which bundle and which job it is for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, TypeVar

from recipegen.errors import InputError, Problem, Source
from recipegen.model import Role
from recipegen.transport import Transport

FORMAT = 1
"""Of run.json and of the index; a reader refuses a higher one."""
_EVENTS = re.compile(r"events\.(?P<writer>.+)\.jsonl")
_NO_RECORD = "it may have been removed, or moved; a job that was submitted by hand makes one when it starts"
_MOST = 10**12
"""No time and no count of ours is beyond this."""
_DEEPEST = 20
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunPaths:
    """Every path of a run folder; nobody else joins strings."""

    run_dir: str

    def __post_init__(self) -> None:
        if not self.run_dir.startswith("/"):
            raise InputError(f"a run folder's path must be absolute: {self.run_dir!r}")

    @property
    def record(self) -> str:
        return self._at("run.json")

    @property
    def site_env(self) -> str:
        return self._at("site.env")

    @property
    def nodes(self) -> str:
        return self._at("nodes.txt")

    @property
    def ran(self) -> str:
        return self._at("ran.json")

    @property
    def endpoint(self) -> str:
        return self._at("endpoint.json")

    @property
    def exit(self) -> str:
        return self._at("exit.json")

    @property
    def logs(self) -> str:
        return self._at("logs")

    @property
    def discovery(self) -> str:
        return self._at("discovery")

    def bundle(self, point: str) -> str:
        return self._at(f"bundle/{point}")

    def shared(self, name: str) -> str:
        """What the bundles of a leaf share, by its path in the leaf folder: `lib/job.sh`."""
        return self._at(f"bundle/{name}")

    def batch_output(self, job: str) -> str:
        """The batch script's output; `%j` as the job stands for it in an sbatch option."""
        return self._at(f"slurm-{job}.out")

    def log(self, step: str, rank: int) -> str:
        return self._at(f"logs/{step}.{rank}.log")

    def events(self, writer: str) -> str:
        return self._at(f"events.{writer}.jsonl")

    @staticmethod
    def event_writer(name: str) -> str:
        """Return whose events a file of the run folder holds; empty when it holds none."""
        found = _EVENTS.fullmatch(name)
        return found["writer"] if found else ""

    def _at(self, name: str) -> str:
        return f"{self.run_dir.rstrip('/')}/{name}"


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """`run.json`; `job` is None between the staging of the folder and the scheduler's answer.

    `cluster` is the profile as it was at submission, as its JSON object: only `clusters` reads it.
    """

    id: str
    point: str
    name: str
    digest: str
    simulate: bool
    created: float
    run_dir: str
    cluster: Mapping[str, object]
    scheduler: str
    job: str | None
    submitted: float | None
    time_limit_s: int
    ready_timeout_s: int
    expected: Mapping[Role, int]

    @property
    def paths(self) -> RunPaths:
        return RunPaths(self.run_dir)

    @property
    def cluster_name(self) -> str:
        name = self.cluster.get("name")
        return name if isinstance(name, str) else ""

    @property
    def is_whole(self) -> bool:
        """Whether this is what `run.json` says, and not only what an index knows."""
        return bool(self.digest)

    def with_job(self, job: str, submitted: float) -> RunRecord:
        """Return the record of a run that the scheduler has taken."""
        return replace(self, job=job, submitted=submitted)


def new_run_id(point: str, now: float, token: str) -> str:
    """Name a run: its point, the UTC time, and a token that keeps two submissions of one second apart."""
    if not re.fullmatch(r"[0-9a-f]{4}", token):
        raise ValueError(f"a run's token is four hex digits, not {token!r}")
    return f"{point}-{datetime.fromtimestamp(now, timezone.utc):%Y%m%d-%H%M%S}-{token}"


def write_run(transport: Transport, record: RunRecord) -> None:
    """Write `run.json`, all or nothing."""
    transport.put(record.paths.record, format_run(record))


def read_run(transport: Transport, run_dir: str) -> RunRecord:
    """Read `run.json` back; the folder may have been moved, so `run_dir` is where it was found."""
    path = RunPaths(run_dir).record
    data = transport.read(path)
    if data is None:
        raise InputError(f"{run_dir} is no run folder: it holds no run.json", hint=_NO_RECORD)
    return replace(parse_run(data, path), run_dir=run_dir)


def format_run(record: RunRecord) -> bytes:
    """Return the bytes of a `run.json`."""
    values = {"format": FORMAT} | vars(record) | {"cluster": dict(record.cluster), "expected": {role.value: n for role, n in record.expected.items()}}
    return (json.dumps(values, indent=2) + "\n").encode()


def parse_run(data: bytes, source: str) -> RunRecord:
    """Read the bytes of a `run.json`; an InputError tells what is wrong with a torn or foreign one."""
    fields = Fields.parse(data, source)
    job, submitted, expected = fields.get("job"), fields.get("submitted"), fields.take("expected", dict)
    fields.require(job is None or _is_text(job), "job", "a string or null")
    fields.require(submitted is None or _is_number(submitted), "submitted", "a number or null")
    fields.require("/" not in fields.take("id", str), "id", "a name")
    known = {role.value for role in Role}
    counted = all(role in known and isinstance(count, int) and _is_number(count) for role, count in expected.items())
    fields.require(counted, "expected", "a count for each role")
    return RunRecord(
        id=fields.take("id", str),
        point=fields.take("point", str),
        name=fields.take("name", str),
        digest=fields.take("digest", str),
        simulate=fields.take("simulate", bool),
        created=fields.take("created", float),
        run_dir=fields.take("run_dir", str),
        cluster=fields.take("cluster", dict),
        scheduler=fields.take("scheduler", str),
        job=job,
        submitted=submitted,
        time_limit_s=fields.take("time_limit_s", int),
        ready_timeout_s=fields.take("ready_timeout_s", int),
        expected={Role(role): count for role, count in expected.items()},
    )


@dataclass(frozen=True)
class Fields:
    """A JSON object of one of our own files, read key by key; what is missing or of the wrong type is an InputError."""

    values: Mapping[str, Any]
    source: str

    @classmethod
    def parse(cls, data: bytes, source: str) -> Fields:
        """Read an object of a format that this version knows."""
        try:
            values = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise InputError([Problem(Source(source), f"is not JSON: {error}", "it is torn, or not written by recipegen")]) from error
        fields = cls(values if isinstance(values, dict) and _is_flat(values) else {}, source)
        if fields.take("format", int) > FORMAT:
            raise InputError([Problem(Source(source), f"has format {values['format']}", f"this recipegen knows {FORMAT}: upgrade it")])
        return fields

    def get(self, key: str) -> Any:  # noqa: ANN401  # a JSON value: the caller checks it
        return self.values.get(key)

    def take(self, key: str, kind: type[_T]) -> _T:
        """Return the value of a key that must be there and be of a type; a whole number will do for a float."""
        value = self.values.get(key)
        fits = _is_number(value) if kind in (int, float) else True
        fits = fits and (_is_text(value) if kind is str else kind is float or isinstance(value, kind))
        self.require(fits, key, f"a {kind.__name__}")
        return value  # type: ignore[return-value]  # just checked

    def require(self, fits: bool, key: str, expected: str) -> None:  # noqa: FBT001  # an assertion
        if not fits:
            found = "missing" if key not in self.values else _shortened(repr(self.values[key]))
            raise InputError([Problem(Source(self.source), f"{key} is {found}, expected {expected}", "it is not a run's file, or is damaged")])


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST <= value <= _MOST  # neither infinity nor NaN


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _UNPRINTABLE.search(value)


def _is_flat(value: object, depth: int = 0) -> bool:
    """Whether a value is nested no deeper than any of ours is: what walks through it then cannot run out of stack."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth <= _DEEPEST and all(_is_flat(one, depth + 1) for one in inner)


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
