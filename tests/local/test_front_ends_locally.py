"""Several front ends in a simulation on this machine: behind its nginx, or one for all where it has none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.local.conftest import Terminal
from tests.nginx import nginx
from tests.support import agg_point, matrix_of

pytestmark = [pytest.mark.sim, pytest.mark.timeout(180)]

POINT = "4xtp4-agg-cc64"


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    more = "frontend: {replicas: 3}\nallow: [{rule: capacity-weights, reason: mockers have none}]\n"
    (tmp_path / "matrix.yaml").write_text(matrix_of(agg_point("4xTP4")) + more)
    return tmp_path


def submitted(recipegen: Terminal, leaf: Path) -> Path:
    """The folder of a run that became READY."""
    run = recipegen("submit", leaf, "--point", POINT, "--simulate").stdout.strip()
    recipegen("wait", run, "--for", "ready", "--timeout", "60")
    return Path(recipegen.status(run)["run_dir"])


def steps(folder: Path) -> set[str]:
    events = [json.loads(line) for line in (folder / "events.job.jsonl").read_text().splitlines()]
    return {event["step"] for event in events if event["event"] == "step_started"}


def test_the_nginx_of_this_machine_spreads_requests(recipegen: Terminal, leaf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{nginx().parent}:{os.environ['PATH']}")
    folder = submitted(recipegen, leaf)
    assert steps(folder) >= {"nginx", "frontend-0", "frontend-1", "frontend-2"}
    assert "frontend" not in steps(folder)
    probe = [json.loads(line) for line in (folder / "events.probe.jsonl").read_text().splitlines()]
    assert [event["answered"] for event in probe if event["event"] == "front_ends"] == [3]


def test_without_nginx_one_front_end_stands_for_all(recipegen: Terminal, leaf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = [folder for folder in os.environ["PATH"].split(":") if not Path(folder, "nginx").exists()]
    monkeypatch.setenv("PATH", ":".join(without))
    folder = submitted(recipegen, leaf)
    assert "frontend" in steps(folder)
    assert not {"nginx", "frontend-0"} & steps(folder)
    note = "this machine has no nginx: one front end stands for all 3, at the endpoint's port"
    assert note in "\n".join(file.read_text() for file in folder.glob("slurm-*.out"))
    assert [line for line in recipegen("status", folder).stdout.splitlines() if line.endswith(f" · {note}")]
