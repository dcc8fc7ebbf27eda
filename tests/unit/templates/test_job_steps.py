"""Which options of srun each step of a job gets: the rendered script's own lines, with job.sh, before an srun that notes what it is told."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from recipegen.pipeline import render_plans
from tests.support import MINIMAL, ROOT, agg_point, matrix_of, plan_one

STAND_INS = """
srun() {
  printf '%s\\n' "$*" >>"$RUN_DIR/calls"
  [[ " $* " != *" --job-name=collect "* ]] || echo "0 n0 127.0.0.1 lo" >"$RUN_DIR/nodes.txt"
}
scontrol() { printf '%s\\n' n0 n1; }
scancel() { :; }
"""
SCRIPT = "setup_script: deps.sh\n"
SRUN = "slurm: {srun: [--mem=0, --distribution=cyclic]}\n"
PIP = MINIMAL.replace("version: 1.2.1", "version: 1.2.1, install: pip")
ROOTED, PLAIN = "--container-remap-root", "--no-container-remap-root"


def steps(folder: Path, more: str, *, head: str = MINIMAL, **site: str) -> dict[str, list[str]]:
    """The words that srun is told of each step, without the job's own and the command."""
    (bundle,) = render_plans([plan_one(matrix_of(agg_point("2xTP4"), head=head) + more)])
    lines = bundle.files["job.sbatch"].decode().splitlines()
    begin, end = (next(i for i, line in enumerate(lines) if line.startswith(name)) for name in ("open_run ", "start_step frontend "))
    body = "\n".join(lines[begin : end + 1])
    surroundings = {
        "PATH": os.environ["PATH"],
        "RUN_DIR": str(folder),
        "BUNDLE": str(folder),
        "LIB": str(ROOT / "templates/lib"),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "n[0-1]",
        "SLURM_JOB_END_TIME": str(int(time.time()) + 3600),
        "DIGEST": "d",
        "SITE_NAMES": "",
        "DISCOVERY": "file",
    }
    code = f"{STAND_INS}\n. {ROOT}/templates/lib/job.sh\n{body}\nwait\nENDED=true\n"
    done = subprocess.run(["bash", "-uc", code], env=surroundings | site, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    calls = [line.split() for line in (folder / "calls").read_text().splitlines()]
    return {name.removeprefix("--job-name="): words[: words.index("bash")] for words in calls for name in words if name.startswith("--job-name=")}


@pytest.mark.parametrize(
    ("more", "site", "given"),
    [
        ("", "", {}),
        (SRUN, "", {"agg-0": ["--mem=0", "--distribution=cyclic"], "agg-1": ["--mem=0", "--distribution=cyclic"]}),
        (SRUN + SCRIPT, "", {step: ["--mem=0", "--distribution=cyclic"] for step in ("check", "collect", "agg-0", "agg-1")}),
        (SRUN, "--mem=9", {"agg-0": ["--mem=0", "--distribution=cyclic", "--mem=9"], "agg-1": ["--mem=0", "--distribution=cyclic", "--mem=9"]}),
    ],
)
def test_the_recipe_s_options_are_for_workers_and_for_its_script_and_the_site_s_win(
    tmp_path: Path, more: str, site: str, given: dict[str, list[str]]
) -> None:
    found = steps(tmp_path, more, SRUN_OPTIONS=site)
    assert found.keys() == {"check", "collect", "agg-0", "agg-1", "frontend"}
    own = {name: words[5 + len(site.split()) : words.index("--nodes=1" if "--nodes=1" in words else "--nodes=2")] for name, words in found.items()}
    assert {name: words for name, words in own.items() if words} == given


def test_a_simulation_without_slurm_gives_its_srun_only_what_it_knows(tmp_path: Path) -> None:
    assert not any("--mem=0" in words for words in steps(tmp_path, SRUN + SCRIPT, RECIPEGEN_LOCAL_JOB="1").values())


@pytest.mark.parametrize(
    ("more", "head", "site", "root"),
    [
        ("", MINIMAL, "", False),
        (SCRIPT, MINIMAL, "", True),
        ("", PIP, "", True),
        (SCRIPT, PIP, PLAIN, False),  # pyxis refuses to be told both
        (SCRIPT + f"slurm: {{srun: [{PLAIN}]}}\n", MINIMAL, "", False),
    ],
)
def test_what_installs_packages_does_so_as_the_container_s_root(tmp_path: Path, more: str, head: str, site: str, *, root: bool) -> None:
    found = steps(tmp_path, more, head=head, SRUN_OPTIONS=site, CONTAINER_RUNTIME="pyxis", CONTAINER_IMAGE="/images/x.sqsh")
    assert {name: ROOTED in words for name, words in found.items()} == dict.fromkeys(found, root)
    assert all(words.count("--container-name=recipegen-7") == 1 for words in found.values())
    assert ["--container-image=/images/x.sqsh" in words for words in found.values()] == [name == "check" for name in found]


def test_without_a_container_nothing_is_said_of_root(tmp_path: Path) -> None:
    assert not any(ROOTED in words for words in steps(tmp_path, SCRIPT, head=PIP).values())
