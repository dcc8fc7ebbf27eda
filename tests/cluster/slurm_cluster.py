"""A real Slurm cluster of many nodes on this machine, for the tests: brought up, used and ended by the scripts in slurm/."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Version = Literal["24.11", "22.05"]
Mode = Literal["netns", "loop"]

SCRIPTS = Path(__file__).parent / "slurm"
INSTALL_TIMEOUT = 1800.0  # a bare machine downloads a compiler and Slurm; install.sh bounds each step itself
UP_TIMEOUT = 180.0
DOWN_TIMEOUT = 120.0
# variables that would make sbatch and srun take this process for a job, or change what they are asked
FOREIGN_PREFIXES = ("SLURM_", "SBATCH_", "SRUN_", "SALLOC_")
UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED")


class ClusterError(Exception):
    """A command of the test cluster failed; the message holds its last words."""


def unavailable_reason(version: Version = "24.11") -> str | None:
    """Why no test cluster can be had on this machine, in one line; None if it can. Installs nothing."""
    done = subprocess.run([str(SCRIPTS / "install.sh"), "-n", "-v", version], capture_output=True, text=True, timeout=60, check=False)
    return None if done.returncode == 0 else last_line(done.stderr)


def install(version: Version = "24.11", *, accounting: bool = False) -> Path:
    """Installs what is missing and returns the prefix of that Slurm; a fraction of a second when nothing is."""
    argv = [str(SCRIPTS / "install.sh"), "-v", version, *(["-a"] if accounting else [])]
    return Path(last_line(call(argv, timeout=INSTALL_TIMEOUT).stdout))


@dataclass(frozen=True, kw_only=True)
class SlurmCluster:
    """A cluster that is up. As a context manager it ends with the block."""

    base: Path  # run directory: etc/, log/, state, pid files
    version: Version
    nodes: Mapping[str, str]  # address by node name
    head: str  # address of the login node, where slurmctld and sshd listen
    ssh_port: int
    bridge: str  # "" in loop mode
    bin: str

    @classmethod
    def up(
        cls,
        nodes: int,
        *,
        base: Path,
        version: Version = "24.11",
        per_rack: int = 18,
        mode: Mode = "netns",
        accounting: bool = False,
        sshd: bool = False,
        cgroup: bool = False,
        first_port: int = 16800,
        plugin_args: Sequence[str] = (),
        conf_lines: Sequence[str] = (),
    ) -> SlurmCluster:
        """Installs on demand and starts a cluster in `base`; what a failed start left is taken down again."""
        prefix = install(version, accounting=accounting)
        argv = [str(SCRIPTS / "up.sh"), "-b", str(base), "-x", str(prefix), "-n", str(nodes), "-r", str(per_rack), "-m", mode]
        argv += ["-p", str(first_port), *flags(a=accounting, s=sshd, g=cgroup)]
        argv += [word for arg in plugin_args for word in ("-o", arg)] + [word for line in conf_lines for word in ("-c", line)]
        try:
            call(argv, timeout=UP_TIMEOUT)
        except BaseException:
            take_down(base)
            raise
        told = json.loads((base / "cluster.json").read_text())
        return cls(base=base, version=version, **told)

    def down(self) -> None:
        """Ends every job and daemon and removes network and files; safe to repeat."""
        take_down(self.base)

    def __enter__(self) -> SlurmCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    @property
    def names(self) -> list[str]:
        """The names of the nodes, in order."""
        return list(self.nodes)

    @property
    def env(self) -> Mapping[str, str]:
        """What a process needs in its environment, beside its own, to talk to this cluster."""
        return {"SLURM_CONF": str(self.base / "etc/slurm.conf"), "PATH": f"{self.bin}:{os.environ['PATH']}"}

    @property
    def ssh_key(self) -> Path:
        """The private key that the cluster's sshd lets in."""
        return self.base / "etc/ssh/id_ed25519"

    def run(
        self, argv: Sequence[str | Path], *, stdin: str | None = None, cwd: Path | None = None, timeout: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs sbatch, squeue and the like from outside the cluster, as any process of this machine with `env` may."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN_PREFIXES)}
        return call(argv, stdin=stdin, cwd=cwd, timeout=timeout, check=check, env={**env, **self.env})

    def login(
        self, argv: Sequence[str | Path], *, stdin: str | None = None, cwd: Path | None = None, timeout: float = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the login node, where node names resolve: srun and salloc work only there."""
        return self.run([self.base / "login", *argv], stdin=stdin, cwd=cwd, timeout=timeout, check=check)

    def end_of(self, job_id: str, *, timeout: float = 60.0) -> str:
        """Waits until the job has ended and returns its state, COMPLETED for instance."""
        deadline = time.monotonic() + timeout
        while (state := self.job_state(job_id)) in UNFINISHED:
            if time.monotonic() > deadline:
                raise ClusterError(f"job {job_id} is still {state} after {timeout:.0f} s")
            time.sleep(0.1)
        return state

    def job_state(self, job_id: str) -> str:
        """The state of a job as the controller has it now."""
        words = self.run(["scontrol", "--oneliner", "show", "job", job_id]).stdout.split()
        return next(word.removeprefix("JobState=") for word in words if word.startswith("JobState="))


def take_down(base: Path) -> None:
    """Ends whatever cluster is or was in `base`, and deletes it."""
    call([str(SCRIPTS / "down.sh"), "-b", str(base), "-w"], timeout=DOWN_TIMEOUT)


def call(
    argv: Sequence[str | Path],
    *,
    timeout: float,
    stdin: str | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end; a failure is a ClusterError, unless `check` is off."""
    words = [str(word) for word in argv]
    # an empty input, not this process's own: no command may wait for a terminal
    done = subprocess.run(words, input=stdin or "", cwd=cwd, env=env, timeout=timeout, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise ClusterError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def flags(**wanted: bool) -> list[str]:
    """The option letters that are wanted, each with its dash."""
    return [f"-{letter}" for letter, on in wanted.items() if on]


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it gave no reason")
