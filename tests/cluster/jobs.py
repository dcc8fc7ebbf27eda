"""A user of a test cluster, who has a profile, run folders and a list of runs of her own, and runs `recipegen` as a person does."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.cluster.node_processes import processes_on, tasks_on
from tests.cluster.slurm_cluster import FOREIGN_PREFIXES, SlurmCluster
from tests.support import matrix_of

BIN = Path(sys.executable).parent
RECIPEGEN = BIN / "recipegen"
PAIR = "1xtp4-1xtp4-cc4"  # the point of `small_leaf`
_T = TypeVar("_T")


def until(look: Callable[[], _T | None], *, what: str, timeout: float = 30.0, pause: float = 0.1) -> _T:
    """Look again and again until there is something to see."""
    deadline = time.monotonic() + timeout
    while True:
        seen = look()
        if seen:
            return seen
        assert time.monotonic() < deadline, f"no {what} within {timeout:.0f} s"
        time.sleep(pause)


def small_leaf(folder: Path) -> Path:
    """A leaf of one point: a prefill and a decode worker of one node each."""
    folder.mkdir(parents=True, exist_ok=True)
    point = '{prefill: 1xTP4, decode: 1xTP4, concurrency: [4], time_limit: "0:30:00"}'
    allow = "allow:\n  - {rule: capacity-weights, reason: mockers have no weights}\n"
    (folder / "matrix.yaml").write_text(matrix_of(point) + allow)
    return folder


@dataclass(frozen=True)
class Site:
    """One user on one cluster; everything of hers lies in `folder`."""

    cluster: SlurmCluster
    folder: Path
    slurm: Mapping[str, object]  # what this Slurm can do, as the profile says it

    @property
    def run_root(self) -> Path:
        root = self.folder / "her runs"  # a blank, as a path may have
        root.mkdir(exist_ok=True)
        return root

    @property
    def etcd_folders(self) -> list[str]:
        """What etcd has on the nodes' disks."""
        return [path.name for path in self.temporary.glob("recipegen-etcd-*")]

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def env(self) -> dict[str, str]:
        """This process's environment, and in it the cluster, and a state and a TMPDIR that nobody else has."""
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_PREFIXES)}
        self.temporary.mkdir(exist_ok=True)
        return {**own, **self.cluster.env, "XDG_STATE_HOME": str(self.folder / "state"), "TMPDIR": str(self.temporary)}

    def profile(self, **changes: object) -> Path:
        """Write a profile for this cluster; a change replaces a key."""
        values: dict[str, object] = {
            "schema": "recipegen-cluster/v1",
            "name": "test",
            "scheduler": "slurm",
            "run_root": str(self.run_root),
            "path_prefix": str(BIN),
            "discovery": {"backend": "etcd", "etcd": shutil.which("etcd")},
            "slurm": dict(self.slurm),
            "deadlines": {"ready": 60, "reserve": 5},
        }
        path = self.folder / "test.yaml"
        path.write_text(yaml.safe_dump(values | changes))
        return path

    def recipegen(
        self, *words: str | Path, code: int | None = 0, env: Mapping[str, str] | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end; any other exit code than the expected one fails the test."""
        argv = [str(RECIPEGEN), *map(str, words)]
        done = subprocess.run(
            argv,
            env={**self.env, **(env or {})},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert code is None or done.returncode == code, f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def begin(self, *words: str | Path) -> subprocess.Popen[str]:
        """Start a verb; the caller waits for it, as a context manager."""
        argv = [str(RECIPEGEN), *map(str, words)]
        return subprocess.Popen(
            argv, env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def submit(self, leaf: Path, point: str = PAIR, *options: str, profile: Path | None = None) -> Run:
        """Submit in simulation."""
        done = self.recipegen(*self.submission(leaf, point, *options, profile=profile))
        return self.run_of(done.stderr)

    def submission(self, leaf: Path, point: str = PAIR, *options: str, profile: Path | None = None) -> list[str | Path]:
        return ["submit", leaf, "--point", point, "--cluster", profile or self.profile(), "--simulate", *options]

    def run_of(self, told: str) -> Run:
        """The run that `recipegen submit` told about."""
        found = re.search(r"^submitted job (\d+) to test; run folder (.+)$", told, re.MULTILINE)
        assert found, told
        return Run(self, Path(found[2]), found[1])

    def runs(self) -> list[Run]:
        """Runs whose submission is done."""
        records = {path.parent: json.loads(path.read_text()) for path in self.run_root.glob("*/run.json")}
        return [Run(self, folder, record["job"]) for folder, record in records.items() if record["job"]]

    def jobs(self) -> list[str]:
        """Jobs that have not ended."""
        return self.cluster.run(["squeue", "--noheader", "--format=%A"]).stdout.split()

    def leave(self) -> None:
        """End what is left, so that the next test finds a quiet cluster."""
        if jobs := self.jobs():
            self.cluster.run(["scancel", *jobs], check=False)
        until(lambda: not self.jobs() and not processes_on(self.cluster), what="quiet cluster")


@dataclass(frozen=True)
class Run:
    """One job and its run folder."""

    site: Site
    folder: Path
    job: str

    def status(self) -> dict[str, Any]:
        return json.loads(self.site.recipegen("status", self.folder, "--format", "json").stdout)  # type: ignore[no-any-return]

    def read(self, name: str) -> dict[str, Any] | None:
        """A marker; None as long as it is not there."""
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else None

    def ready(self) -> dict[str, Any]:
        """Wait for endpoint.json; the job's end instead of it fails the test at once."""
        until(lambda: self.read("endpoint.json") or self.read("exit.json"), what="endpoint.json")
        found = self.read("endpoint.json")
        assert found, self.read("exit.json")
        return found

    def ended(self, timeout: float = 30.0) -> dict[str, Any]:
        """Wait for exit.json."""
        return until(lambda: self.read("exit.json"), what="exit.json", timeout=timeout)

    def events(self, event: str | None = None) -> list[dict[str, Any]]:
        """Whole lines of every writer's file, those of one event or all, in the order of time."""
        lines = [line for path in self.folder.glob("events.*.jsonl") for line in path.read_text().splitlines(keepends=True)]
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return sorted((each for each in found if event in (None, each["event"])), key=lambda each: each["time"])

    def steps(self) -> list[str]:
        return [event["step"] for event in self.events("step_started")]

    def kill(self, step: str, number: int) -> None:
        """Send a signal to the only task of a step, as soon as it is there; a worker, when it has written its marker."""
        role = step.partition("-")[0]
        if step != role:
            until(lambda: any(event["role"] == role for event in self.events("process_started")), what=f"{step} about to start")
        (task,) = (task for task in tasks_on(self.site.cluster) if self.is_step(task.environ, step))
        os.kill(task.pid, number)

    def is_step(self, environ: Mapping[str, str], name: str) -> bool:
        """Whether a task belongs to a step of this job; srun names a step in its tasks' environment."""
        return environ.get("SLURM_JOB_ID") == self.job and environ.get("SLURM_JOB_NAME") == name

    def gone(self) -> None:
        """Wait until nothing of any job is left on the nodes; then no etcd is on a disk, either."""
        until(lambda: not processes_on(self.site.cluster), what="end of all processes", timeout=15)
        assert self.site.etcd_folders == []
