"""The lines that a job and its processes append to `events.<writer>.jsonl`, read whole line by whole line."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_MOST = 10**12
"""No time and no count is beyond this."""


@dataclass(frozen=True)
class Stamp:
    """Whose and when: an event or a marker belongs to one job and one start of it; `time` is of the writer's clock."""

    time: float
    job: str
    restart: int


@dataclass(frozen=True)
class Event:
    """One line: its stamp, its name, and further keys, which may be missing or of any type."""

    stamp: Stamp
    name: str
    data: Mapping[str, object] = field(default_factory=dict)

    def text(self, key: str) -> str:
        """Return a text value, or an empty one."""
        value = self.data.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        """Return a whole number, or None."""
        return as_count(self.data.get(key), lowest=None)


@dataclass(frozen=True)
class Parsed:
    """What a piece of a file held: its events, how many bytes were whole lines, how many lines were no events."""

    events: tuple[Event, ...]
    used: int
    garbage: int


def parse_events(data: bytes) -> Parsed:
    """Read the whole lines of a piece; a last line without its newline is not there yet, and not used."""
    used = data.rfind(b"\n") + 1
    lines = [line for line in data[:used].split(b"\n") if line.strip()]
    events = [event for event in map(_parse_line, lines) if event is not None]
    return Parsed(tuple(events), used, len(lines) - len(events))


def merge_events(streams: Iterable[Iterable[Event]]) -> tuple[Event, ...]:
    """Merge writers by time; the order within one writer stays, whatever its clock did."""
    return tuple(heapq.merge(*streams, key=lambda event: event.stamp.time))


def parse_object(data: bytes | None) -> Mapping[str, object] | None:
    """Read a JSON object; anything else, a torn one too, is None."""
    try:
        value = json.loads(data.decode("utf-8")) if data else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def parse_stamp(record: Mapping[str, object]) -> Stamp | None:
    """Read the keys that every event and marker has, or None."""
    time, job, restart = record.get("time"), record.get("job"), as_count(record.get("restart"))
    seconds = _as_finite(time)
    if seconds is None or not isinstance(job, str) or restart is None:
        return None
    return Stamp(seconds, job, restart)


def as_count(value: object, *, lowest: int | None = 0) -> int | None:
    """Return a whole number of at least `lowest`, or None: JSON's `true` is no number, and no count has 400 digits."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST:
        return None
    return value if lowest is None or value >= lowest else None


def _as_finite(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if -_MOST <= value <= _MOST else None  # neither infinity nor NaN


def _parse_line(line: bytes) -> Event | None:
    record = parse_object(line)
    stamp = parse_stamp(record) if record is not None else None
    name = record.get("event") if record is not None else None
    if record is None or stamp is None or not isinstance(name, str):
        return None
    return Event(stamp, name, record)
