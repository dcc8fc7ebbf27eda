"""What is new in a run folder since the last look."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

from recipegen.errors import TransportError
from recipegen.lifecycle.events import Event, merge_events, parse_events
from recipegen.lifecycle.markers import Endpoint, Exit, parse_endpoint, parse_exit
from recipegen.runs import RunPaths
from recipegen.transport import Transport

_MAIN_WRITERS = frozenset({"job", "probe"})


@dataclass(frozen=True)
class News:
    """New events, and both markers as they are now."""

    events: tuple[Event, ...] = ()
    endpoint: Endpoint | None = None
    exit: Exit | None = None
    problem: str = ""
    """What could not be read, the first of it."""


class _Files:
    """The files of one look: what cannot be read hides none of the others."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.problem = ""

    def read(self, path: str, offset: int = 0) -> bytes | None:
        try:
            return self._transport.read(path, offset)
        except TransportError as error:
            self.problem = self.problem or str(error)
            return None

    def list_dir(self, path: str) -> list[str]:
        try:
            return self._transport.list_dir(path)
        except TransportError as error:
            self.problem = self.problem or str(error)
            return []


class FolderReader:
    """Reads each file of events from where it stopped; it holds nothing that a second reader could not find anew."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._offsets: dict[str, int] = {}
        self.garbage = 0
        """Lines that were no events."""

    def read(self, transport: Transport, *, ready: bool = False) -> News:
        """Look once; of a READY run only the files that can still grow in a telling way are read.

        The markers are read first: each is written after the events that led to it, so who sees a marker sees those too.
        """
        files = _Files(transport)
        endpoint, end = parse_endpoint(files.read(self._paths.endpoint)), parse_exit(files.read(self._paths.exit))
        names = files.list_dir(self._paths.run_dir)
        writers = filter(None, map(RunPaths.event_writer, names))
        streams = [self._read_writer(files, writer) for writer in writers if not ready or writer in _MAIN_WRITERS]
        if not files.problem and posixpath.basename(self._paths.record) not in names:
            files.problem = f"{self._paths.run_dir} holds no run.json any more"
        return News(merge_events(streams), endpoint, end, files.problem)

    def _read_writer(self, files: _Files, writer: str) -> tuple[Event, ...]:
        offset = self._offsets.get(writer, 0)
        parsed = parse_events(files.read(self._paths.events(writer), offset) or b"")
        self._offsets[writer] = offset + parsed.used
        self.garbage += parsed.garbage
        return parsed.events
