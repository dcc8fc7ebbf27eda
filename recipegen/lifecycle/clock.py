"""Time as tracking sees it: asked and slept through one object, so that a test can hold the hands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """UNIX seconds, comparable with the stamps of events, and a way to let them pass."""

    def now(self) -> float:
        """Return the time."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds))


class ScriptedClock:
    """A clock that moves only when slept on, and does at each time what the script has for it."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.start = now
        self._now = now
        self._script: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        for at, action in [entry for entry in self._script if entry[0] <= until]:
            self._now = max(self._now, at)
            self._script.remove((at, action))
            action()
        self._now = max(self._now, until)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something once that many seconds after the start have passed."""
        self._script.append((self.start + seconds, action))
        self._script.sort(key=lambda entry: entry[0])
