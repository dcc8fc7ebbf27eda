"""The user's list of submitted runs, and finding the one that is meant."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from recipegen.errors import InputError, RecipegenError, TransportError, near_match
from recipegen.files import read_regular, reason, replace_file
from recipegen.runs import FORMAT, Fields, RunPaths, RunRecord, parse_run

_OTHER_PLACE = "free space there, or set XDG_STATE_HOME to a folder that can be written"
_STAMP = re.compile(r"-\d{8}-\d{6}-[0-9a-f]{4}$")
"""What `new_run_id` puts behind the point."""


def state_folder(environ: Mapping[str, str]) -> Path | None:
    """Return where recipegen keeps what it knows: below `$XDG_STATE_HOME`, else below `~/.local/state`; None without a home.

    A relative value counts as unset, as the XDG specification asks.
    """
    state, home = environ.get("XDG_STATE_HOME", ""), environ.get("HOME", "")
    if state.startswith("/"):
        return Path(state) / "recipegen"
    return Path(home) / ".local" / "state" / "recipegen" if home.startswith("/") else None


def need_state_folder(environ: Mapping[str, str]) -> Path:
    """Return `state_folder`, or raise InputError."""
    return _required(state_folder(environ))


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

    def as_record(self) -> RunRecord:
        """Return what is known of a run whose own record is gone: enough to ask about its job, and to end it."""
        return RunRecord(
            id=self.id,
            point=_STAMP.sub("", self.id),
            name="",
            digest="",
            simulate=False,
            created=self.created,
            run_dir=self.run_dir,
            cluster=self.cluster,
            scheduler=self.scheduler,
            job=self.job,
            submitted=None,
            time_limit_s=0,
            ready_timeout_s=0,
            expected={},
        )


@dataclass(frozen=True)
class RunIndex:
    """One file a run below `root`: several processes may write at once, each its own run's file."""

    place: Path | None
    """None where there is no home to keep it in: using it is an InputError then."""

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> RunIndex:
        """Return the index in the user's state folder."""
        folder = state_folder(environ)
        return cls(folder and folder / "runs")

    @property
    def root(self) -> Path:
        """The folder of the index."""
        return _required(self.place)

    def add(self, record: RunRecord) -> None:
        """Enter a run, or its job id once it has one."""
        values = {"format": FORMAT} | vars(IndexEntry.of(record)) | {"cluster": dict(record.cluster)}
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            replace_file(self.root / f"{record.id}.json", (json.dumps(values) + "\n").encode(), mode=0o600)
        except OSError as error:
            raise TransportError(f"the run could not be entered in {self.root}: {reason(error)}", hint=_OTHER_PLACE) from error

    def update(self, record: RunRecord) -> None:
        """Enter what has become known of a run that is in the index; one that cannot be written changes nothing."""
        with suppress(RecipegenError):
            if os.path.exists(self.root / f"{record.id}.json"):
                self.add(record)

    def remove(self, run_id: str) -> None:
        """Forget a run, as after a submission that was refused."""
        try:
            (self.root / f"{run_id}.json").unlink(missing_ok=True)
        except OSError as error:
            raise TransportError(f"the run could not be taken out of {self.root}: {reason(error)}") from error

    def entries(self) -> list[IndexEntry]:
        """Return all runs, newest first; a file that cannot be read hides no other run."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return []
        except OSError as error:
            hint = "a run's folder names it, too; or set XDG_STATE_HOME to another folder"
            raise TransportError(f"the list of runs {self.root} cannot be read: {reason(error)}", hint=hint) from error
        shown = [name for name in names if name.endswith(".json") and not name.startswith(".")]
        found = [entry for name in shown if (entry := _read_entry(self.root / name)) is not None]
        return sorted(found, key=lambda entry: (entry.created, entry.id), reverse=True)

    def find(self, name: str, *, exactly: bool = False) -> IndexEntry:
        """Return the run that an id, a job id, a unique part of an id, or a run folder's path names.

        A number is a job id or nothing. `exactly`, for what cannot be undone: a part must begin or end an id, at a hyphen.
        """
        if "/" in name or _isfile(os.path.join(name, "run.json")):
            return self._find_folder(Path(name))
        entries = self.entries()
        for matches in (
            [entry for entry in entries if entry.id == name],
            [entry for entry in entries if entry.job == name],
            [entry for entry in entries if _is_part(name, entry.id, exactly=exactly)],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise InputError(f"{name!r} names {len(matches)} runs:\n" + _listed(matches), hint="give more of the id")
        raise InputError(f"no run is called {name!r}", hint=_hint(name, entries))

    def _find_folder(self, folder: Path) -> IndexEntry:
        """Return the run of a folder; one that is gone may still be known by its path."""
        try:
            return _read_folder(folder)
        except InputError:
            run_dir = os.path.abspath(folder)
            known = [entry for entry in self._readable_entries() if os.path.normpath(entry.run_dir) == run_dir]
            if len(known) != 1:
                raise
            return known[0]

    def _readable_entries(self) -> list[IndexEntry]:
        try:
            return self.entries()
        except RecipegenError:
            return []


def _is_part(name: str, run_id: str, *, exactly: bool) -> bool:
    """Whether a word stands for a run; digits of dates, sizes and tokens stand for none."""
    if not name or name.isdigit():
        return False
    return run_id.startswith(f"{name}-") or run_id.endswith(f"-{name}") if exactly else name in run_id


def _required(folder: Path | None) -> Path:
    if folder is None:
        raise InputError("there is no folder to keep runs in: neither XDG_STATE_HOME nor HOME is an absolute path", hint="set one of them")
    return folder


def _isfile(path: str) -> bool:
    return "\0" not in path and os.path.isfile(path)


def _hint(name: str, entries: Sequence[IndexEntry]) -> str:
    if not entries:
        return "the index is empty: name a run by its folder"
    if name.isdigit():
        return "a number is a job id, and none of the runs has that; `recipegen status` lists them"
    return near_match(name, [entry.id for entry in entries]) or "`recipegen status` lists the runs; a run folder's path will do too"


def _listed(entries: Sequence[IndexEntry], most: int = 10) -> str:
    lines = [f"  {entry.id}" + (f"  (job {entry.job})" if entry.job else "") for entry in entries[:most]]
    return "\n".join(lines + ([f"  and {len(entries) - most} more"] if len(entries) > most else []))


def _read_folder(folder: Path) -> IndexEntry:
    path = folder.absolute() / "run.json"
    try:
        record = parse_run(read_regular(str(path)), str(path))
    except FileNotFoundError:
        raise InputError(f"{folder} is no run folder: it holds no run.json") from None
    except OSError as error:
        raise InputError(f"{path}: {reason(error)}") from error
    except ValueError as error:  # a NUL in the path
        raise InputError(f"{str(path)!r}: {error}") from error
    entry = IndexEntry.of(record)
    return IndexEntry(**{**vars(entry), "run_dir": str(folder.absolute())})


def _read_entry(path: Path) -> IndexEntry | None:
    try:
        fields = Fields.parse(read_regular(str(path)), str(path))
        return IndexEntry(
            id=fields.take("id", str),
            run_dir=RunPaths(fields.take("run_dir", str)).run_dir,
            cluster=fields.take("cluster", dict),
            scheduler=fields.take("scheduler", str),
            job=None if fields.get("job") is None else fields.take("job", str),
            created=fields.take("created", float),
        )
    except (OSError, InputError):
        return None
