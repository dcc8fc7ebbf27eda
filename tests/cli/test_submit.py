"""`recipegen submit` before anything is submitted: what is refused, and what --dry-run shows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from recipegen.errors import RecipegenError, TransportError
from recipegen.lifecycle.clock import ScriptedClock
from recipegen.lifecycle.tracker import Tracker
from recipegen.run_index import RunIndex
from recipegen.scheduler import Submission
from recipegen.scheduler.scripted import ScriptedScheduler
from recipegen.submission import Prepared
from recipegen.submission import submit as hand_over
from recipegen.transport.local import LocalTransport
from recipegen.transport.scripted import ScriptedTransport
from tests.scripted_run import START, make_record
from tests.support import LEAF, as_on_a_terminal, soon

POINT = "1xtp2dep4-1xtp8-mtp-cc32-64"
PROFILE = """\
schema: recipegen-cluster/v1
name: oslo
scheduler: slurm
run_root: {root}
account: team
partition: gb300
container:
  runtime: pyxis
  images: {{"vllm/vllm-openai:nightly-a9a17e7095a66ef6c6685a1c7ddd657781a78d3c": /images/vllm.sqsh}}
  mounts: ["/models:/models:ro"]
models: {{Inferact/Qwen3.8-2.4T-A95B-NVFP4: /models/qwen}}
environment: {{HF_HOME: "/lustre/hf cache"}}
"""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "oslo.yaml"
    path.write_text(PROFILE.format(root=tmp_path / "runs"))
    return path


def submit(tmp_path: Path, *args: str | Path) -> Result:
    env = {"XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CONFIG_HOME": str(tmp_path / "config"), "RECIPEGEN_CLUSTERS": None}
    return CliRunner().invoke(main, ["submit", *map(str, args)], env=env)


def test_a_dry_run_shows_every_file_and_the_command_and_touches_nothing(profile: Path, tmp_path: Path) -> None:
    result = submit(tmp_path, LEAF, "--point", POINT, "--cluster", profile, "--dry-run", "--time", "2:00:00")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name in (
        "job.sbatch",
        "prefill.sh",
        "decode.sh",
        "frontend.sh",
        "plan.json",
        "MANIFEST",
        "lib/job.sh",
        "lib/probe.py",
        "site.env",
        "run.json",
    ):
        assert any(line.startswith("write ") and name in line for line in lines), name
    assert "CONTAINER_IMAGE=/images/vllm.sqsh" in lines
    assert "MODEL=/models/qwen" in lines
    assert "HF_HOME='/lustre/hf cache'" in lines
    command = lines[-1].split()
    assert command[:2] == ["sbatch", "--parsable"]
    for option in ("--account=team", "--partition=gb300", "--gpus-per-node=4", "--segment=4", "--time=02:00:00"):
        assert option in command
    assert command[-3].endswith(f"/bundle/{POINT}/job.sbatch")
    assert len(command[-1]) == 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["oslo.yaml"]


def test_a_stale_bundle_is_not_submitted(tmp_path: Path) -> None:
    leaf = Path(shutil.copytree(LEAF, tmp_path / "leaf"))
    with (leaf / POINT / "decode.sh").open("a") as file:
        file.write("# changed by hand\n")
    result = submit(tmp_path, leaf, "--point", POINT)
    assert result.exit_code == 2
    assert f"stale {POINT}/decode.sh" in result.stderr
    assert "recipegen render" in result.stderr
    shutil.rmtree(leaf / POINT)
    assert "missing" in submit(tmp_path, leaf, "--point", POINT).stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--point", "1xtp2dep4-1xtp8-mtp-cc32"], f"did you mean '{POINT}'?"),
        (["--point", POINT, "--cluster", "locla"], "did you mean 'local'?"),
        (["--point", POINT, "--cluster", "/nonexistent.yaml"], "/nonexistent.yaml"),
        (["--point", POINT, "--time", "90"], "no duration"),
        (["--point", POINT], "add --simulate, or name a cluster"),
        (["--point", POINT, "--time", "0:00:30"], "leaves nothing beside the reserve"),
        ([], "point"),
    ],
)
def test_what_cannot_be_used_is_refused(args: list[str], words: str, tmp_path: Path) -> None:
    result = submit(tmp_path, LEAF, *args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def slow_sbatch(tmp_path: Path) -> Path:
    """A folder with a `sbatch` that has everybody wait."""
    path = tmp_path / "bin" / "sbatch"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/asked'\nexec sleep 60\n")
    path.chmod(0o755)
    return path.parent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_submission_leaves_nothing_and_says_what_may_be_queued(number: int, profile: Path, slow_sbatch: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    words = [sys.executable, "-m", "recipegen", "submit", str(LEAF), "--point", POINT, "--cluster", str(profile)]
    env = os.environ | {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": f"{slow_sbatch}:{os.environ['PATH']}"}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True, preexec_fn=as_on_a_terminal) as submitting:  # noqa: PLW1509
        soon((tmp_path / "asked").exists, "sbatch")
        submitting.send_signal(number)
        _, said = submitting.communicate(timeout=20)
    assert submitting.returncode == 130
    assert "Traceback" not in said
    assert f"the comment {POINT}-20" in said
    assert list((tmp_path / "runs").iterdir()) == list((tmp_path / "state/recipegen/runs").iterdir()) == []


def test_an_index_that_cannot_be_written_is_a_refusal(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "state").write_text("in the way")
    result = submit(tmp_path, LEAF, "--point", POINT, "--cluster", profile)
    assert result.exit_code == 3
    assert "could not be entered" in result.stderr
    assert "XDG_STATE_HOME" in result.stderr
    assert list((tmp_path / "runs").iterdir()) == []


def test_what_cannot_be_taken_back_does_not_hide_why(profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise TransportError("cannot remove it")

    (tmp_path / "runs").mkdir()
    (tmp_path / "state").write_text("in the way")
    monkeypatch.setattr(LocalTransport, "remove_tree", refuse)
    monkeypatch.setattr(RunIndex, "remove", refuse)
    result = submit(tmp_path, LEAF, "--point", POINT, "--cluster", profile)
    assert result.exit_code == 3
    assert "could not be entered" in result.stderr


@pytest.mark.parametrize("trouble", [TransportError("no space left on device"), KeyboardInterrupt()])
def test_a_job_that_cannot_be_written_down_is_told_and_found_again(trouble: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, scheduler, index, record = ScriptedTransport(), ScriptedScheduler(), RunIndex(tmp_path / "index"), make_record(job=None)
    transport.programs["test"] = lambda _argv, _stdin: (0, "", "")
    prepared = Prepared(record=record, files={}, submission=Submission(run_dir=record.run_dir, script="/job.sbatch"))

    def refuse(*_: object) -> None:
        raise trouble

    with monkeypatch.context() as patched:
        patched.setattr("recipegen.submission.write_run", refuse)
        with pytest.raises(RecipegenError, match="job 1 was submitted, but the run could not be recorded") as caught:
            hand_over(prepared, transport, scheduler, index, now=START)
    assert f"recipegen status {record.run_dir}" in caught.value.hint
    tracker = Tracker([record], transport, scheduler, ScriptedClock(START), on_job=index.update)
    tracker.look()
    assert tracker.latest[0].run.job == index.find(record.id).job == "1"


def test_local_runs_and_their_list_lie_in_one_folder(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": "relative", "HOME": str(tmp_path), "RECIPEGEN_CLUSTERS": None}
    result = CliRunner().invoke(main, ["submit", str(LEAF), "--point", POINT, "--simulate", "--dry-run"], env=env)
    assert result.exit_code == 0
    assert f"mkdir {tmp_path}/.local/state/recipegen/local/" in result.stdout


def test_a_run_root_that_cannot_be_made_is_a_refusal(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    result = submit(tmp_path, LEAF, "--point", POINT, "--cluster", profile)
    assert result.exit_code == 3
    assert "run_root" in result.stderr
    assert "is not a folder here" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["oslo.yaml", "runs"]
