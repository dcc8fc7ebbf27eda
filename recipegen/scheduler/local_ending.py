"""What is on record about a local job's end, whatever the record holds; and how the file system's refusals are told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from recipegen.errors import PollError
from recipegen.files import reason
from recipegen.scheduler import Activity, SchedulerState
from recipegen.standins import records


class Ending(NamedTuple):
    """How a job ended, in Slurm's words."""

    state: SchedulerState
    code: int | None
    signal: int


def ending_of(folder: str) -> Ending | None:
    """Return the end on record; a record that tells none is no record."""
    record = records.read(os.path.join(folder, records.ENDED))
    state = SchedulerState.parse(str(record.get("state", "")))
    if state.activity is not Activity.ENDED:
        return None
    code, signum = finite(record.get("code")), finite(record.get("signal"))
    return Ending(state, None if code is None else int(code), int(signum or 0))


def finite(value: object) -> float | None:
    """Return a number that can be one of a record: JSON knows NaN, infinity and 400 digits, too."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12 else None


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what the file system refuses into a PollError."""
    try:
        yield
    except PermissionError as error:
        raise PollError(f"{what}: {_strerror(error)}", hint="it may be another user's: only they, or root, can end it") from error
    except OSError as error:
        raise PollError(f"{what}: {_strerror(error)}") from error


def _strerror(error: OSError) -> str:
    where = f" ({error.filename})" if error.filename else ""
    return reason(error) + where
