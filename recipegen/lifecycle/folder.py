"""What is new in a run folder since the last look."""

from __future__ import annotations

from dataclasses import dataclass

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
        endpoint, end = parse_endpoint(transport.read(self._paths.endpoint)), parse_exit(transport.read(self._paths.exit))
        writers = filter(None, map(RunPaths.event_writer, transport.list_dir(self._paths.run_dir)))
        streams = [self._read_writer(transport, writer) for writer in writers if not ready or writer in _MAIN_WRITERS]
        return News(merge_events(streams), endpoint, end)

    def _read_writer(self, transport: Transport, writer: str) -> tuple[Event, ...]:
        offset = self._offsets.get(writer, 0)
        parsed = parse_events(transport.read(self._paths.events(writer), offset) or b"")
        self._offsets[writer] = offset + parsed.used
        self.garbage += parsed.garbage
        return parsed.events
