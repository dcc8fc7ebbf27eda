"""A real nginx for tests: Debian's, laid into a folder of its own by cluster/nginx.sh; skipped, with the reason, where it cannot be had."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.support import ROOT


def nginx() -> Path:
    """The program; the test is skipped without one, or fails where RECIPEGEN_REQUIRE_SLURM says that everything must be there."""
    program, reason = _install()
    if program is None:
        (pytest.fail if os.environ.get("RECIPEGEN_REQUIRE_SLURM") else pytest.skip)(reason)
    return program


@cache
def _install() -> tuple[Path | None, str]:
    done = subprocess.run([ROOT / "tests/cluster/nginx.sh"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1500, check=False)
    lines = (done.stdout if done.returncode == 0 else done.stderr).splitlines() or ["nginx.sh gave no reason"]
    return (Path(lines[-1]), "") if done.returncode == 0 else (None, lines[-1])
