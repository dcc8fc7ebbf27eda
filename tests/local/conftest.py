"""Runs on the built-in cluster `local`, with mockers; skipped with the reason where those are not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from recipegen.engine.mocker import MOCKER_DYNAMO
from tests.support import LEAF, soon


def unavailable() -> str | None:
    try:
        found = metadata.version("ai-dynamo")
    except metadata.PackageNotFoundError:
        return "Dynamo's mocker is not installed: pip install -e '.[sim]'"
    return None if found == MOCKER_DYNAMO else f"ai-dynamo {found} is installed, the simulation needs {MOCKER_DYNAMO}"


@dataclass(frozen=True)
class Terminal:
    """`recipegen` as a command, with a state folder of its own."""

    state: Path

    def __call__(self, *args: str | Path, check: bool = True, timeout: float = 90) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "recipegen", *map(str, args)], env=self.env, check=check, capture_output=True, text=True, timeout=timeout
        )

    @property
    def env(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self.state), "NO_COLOR": "1"}

    def submit(self, point: str, *options: str) -> str:
        return self("submit", LEAF, "--point", point, "--cluster", "local", "--simulate", *options).stdout.strip()

    def status(self, run: str) -> dict[str, Any]:
        return json.loads(self("status", run, "--format", "json").stdout)  # type: ignore[no-any-return]

    def runs(self) -> list[dict[str, Any]]:
        return json.loads(self("status", "--format", "json").stdout)  # type: ignore[no-any-return]


@pytest.fixture
def recipegen(tmp_path: Path) -> Iterator[Terminal]:
    """The command; every run that it submitted is ended, and nothing of it may be left."""
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    terminal = Terminal(tmp_path / "state")
    yield terminal
    for run in terminal.runs():
        terminal("cancel", run["id"])
    soon(lambda: not left_behind(tmp_path), "no process is left")


def left_behind(folder: Path) -> list[str]:
    """Processes that name the folder in their environment or command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            state = (process / "stat").read_text().rsplit(") ", 1)[1][0]
        except OSError:
            continue
        if str(folder).encode() in text and state != "Z" and int(process.name) != os.getpid():
            found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found
