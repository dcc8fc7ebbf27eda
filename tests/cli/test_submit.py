"""`recipegen submit` before anything is submitted: what is refused, and what --dry-run shows."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF

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


def test_a_run_root_that_cannot_be_made_is_a_refusal(profile: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file, not a folder")
    result = submit(tmp_path, LEAF, "--point", POINT, "--cluster", profile)
    assert result.exit_code == 3
    assert "run_root" in result.stderr
    assert "is not a folder here" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["oslo.yaml", "runs"]
