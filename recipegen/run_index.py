"""The user's list of submitted runs, and finding the one that is meant."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recipegen.errors import InputError, TransportError, near_match
from recipegen.runs import FORMAT, Fields, RunRecord, parse_run


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """Where a run is: its folder, and the profile of the cluster on which that lies."""

    id: str
    run_dir: str
    cluster: Mapping[str, object]
    scheduler: str
    job: str | None
    created: float

    @classmethod
    def of(cls, record: RunRecord) -> IndexEntry:
        return cls(id=record.id, run_dir=record.run_dir, cluster=record.cluster, scheduler=record.scheduler, job=record.job, created=record.created)


@dataclass(frozen=True)
class RunIndex:
    """One file a run below `root`: several processes may write at once, each its own run's file."""

    root: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> RunIndex:
        """Return the index below `$XDG_STATE_HOME`; a relative value counts as unset, as the XDG specification asks."""
        state = environ.get("XDG_STATE_HOME", "")
        home = environ.get("HOME", "") or "/"
        base = Path(state) if state.startswith("/") else Path(home) / ".local" / "state"
        return cls(base / "recipegen" / "runs")

    def add(self, record: RunRecord) -> None:
        """Enter a run, or its job id once it has one."""
        values = {"format": FORMAT} | vars(IndexEntry.of(record)) | {"cluster": dict(record.cluster)}
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            _replace_file(self.root / f"{record.id}.json", (json.dumps(values) + "\n").encode())
        except OSError as error:
            raise TransportError(
                f"the run could not be entered in {self.root}: {error.strerror}", hint=f"name it by its folder: {record.run_dir}"
            ) from error

    def remove(self, run_id: str) -> None:
        """Forget a run, as after a submission that was refused."""
        with suppress(FileNotFoundError):
            (self.root / f"{run_id}.json").unlink()

    def entries(self) -> list[IndexEntry]:
        """Return all runs, newest first; a file that cannot be read hides no other run."""
        found = [entry for path in self.root.glob("*.json") if (entry := _read_entry(path)) is not None]
        return sorted(found, key=lambda entry: (entry.created, entry.id), reverse=True)

    def find(self, name: str) -> IndexEntry:
        """Return the run that an id, a job id, a unique part of an id, or a run folder's path names."""
        if "/" in name or os.path.isfile(os.path.join(name, "run.json")):
            return _read_folder(Path(name))
        entries = self.entries()
        for matches in (
            [entry for entry in entries if entry.id == name],
            [entry for entry in entries if entry.job == name],
            [entry for entry in entries if is_part(name) and name in entry.id],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise InputError(f"{name!r} names {len(matches)} runs:\n" + _listed(matches), hint="give more of the id")
        raise InputError(f"no run is called {name!r}", hint=_hint(name, entries))


def is_part(name: str) -> bool:
    """Whether a word can stand for a part of an id; a short number means a job, and no digits of dates and sizes."""
    return bool(name) and not (name.isdecimal() and len(name) < 4)


def _hint(name: str, entries: Sequence[IndexEntry]) -> str:
    if not entries:
        return "the index is empty: name a run by its folder"
    return near_match(name, [entry.id for entry in entries]) or "`recipegen status` lists the runs; a run folder's path will do too"


def _listed(entries: Sequence[IndexEntry], most: int = 10) -> str:
    lines = [f"  {entry.id}" + (f"  (job {entry.job})" if entry.job else "") for entry in entries[:most]]
    return "\n".join(lines + ([f"  and {len(entries) - most} more"] if len(entries) > most else []))


def _read_folder(folder: Path) -> IndexEntry:
    path = folder.absolute() / "run.json"
    try:
        record = parse_run(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{folder} is no run folder: it holds no run.json") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    entry = IndexEntry.of(record)
    return IndexEntry(**{**vars(entry), "run_dir": str(folder.absolute())})


def _read_entry(path: Path) -> IndexEntry | None:
    try:
        fields = Fields.parse(path.read_bytes(), str(path))
        job = fields.get("job")
        return IndexEntry(
            id=fields.take("id", str),
            run_dir=fields.take("run_dir", str),
            cluster=fields.take("cluster", dict),
            scheduler=fields.take("scheduler", str),
            job=job if isinstance(job, str) else None,
            created=fields.take("created", float),
        )
    except (OSError, InputError):
        return None


def _replace_file(path: Path, data: bytes) -> None:
    """Write beside the target and rename: a reader sees the old or the new, and two writers leave one of both."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
