"""A ninth point, a plain engine flag and a second model are data: shown in a copy of the project where no Python changes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import LEAF, MINIMAL, ROOT, agg_point

SECOND_MODEL = """\
repo: example/Plain-70B
revision: 0123456789abcdef0123456789abcdef01234567
served_name: plain-70b
architecture:
  attention: {layers: 80, heads: 64, kv_heads: 8, head_dim: 128}
"""


class Copy:
    """The package, its templates and the published leaf in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.leaf = folder, folder / "leaf"
        for name in ("recipegen", "templates"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(LEAF, self.leaf)

    def recipegen(self, *args: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        code = "import sys; sys.path.insert(0, '.'); from recipegen.cli import main; main(sys.argv[1:])"
        return subprocess.run([sys.executable, "-c", code, *map(str, args)], cwd=self.folder, check=check, capture_output=True, text=True)

    def plan(self, path: Path, point: str) -> dict[str, Any]:
        return json.loads(self.recipegen("plan", path, "--point", point, "--format", "json").stdout)  # type: ignore[no-any-return]

    def edit(self, old: str, new: str) -> None:
        matrix = self.leaf / "matrix.yaml"
        text = matrix.read_text()
        assert old in text
        matrix.write_text(text.replace(old, new, 1))


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_ninth_point_is_a_line(copy: Copy) -> None:
    line = '  - {prefill: 2xTP2DP4, decode: 1xTP8, mtp: 3, concurrency: [48], time_limit: "1:00:00"}\n'
    copy.edit("\nvariants:", f"{line}\nvariants:")
    done = copy.recipegen("render", copy.leaf)
    name = "2xtp2dep4-1xtp8-mtp-cc48"
    assert done.stdout == f"written: {copy.leaf / name} (6 files)\nwritten: {copy.leaf / 'srt-slurm' / name}.yaml\n"
    plan = copy.plan(copy.leaf, name)
    assert plan["expected_instances"] == {"prefill": 4, "decode": 1}
    decode = next(p for p in plan["processes"] if p["role"] == "decode")
    assert decode["argv"][decode["argv"].index("--max-num-seqs") + 1] == "64"
    assert copy.recipegen("render", "--check", copy.leaf).returncode == 0


def test_a_plain_engine_flag_is_a_line(copy: Copy) -> None:
    copy.edit("    async-scheduling: true\n", "    async-scheduling: true\n    stream-interval: 50\n")
    assert copy.recipegen("render", "--check", copy.leaf, check=False).returncode == 1
    copy.recipegen("render", copy.leaf)
    scripts = list(copy.leaf.glob("*/prefill.sh")) + list(copy.leaf.glob("*/decode.sh"))
    assert len(scripts) == 16
    assert all("\n  --stream-interval 50\n" in script.read_text() for script in scripts)


def test_a_second_model_is_a_file(copy: Copy) -> None:
    (copy.folder / "recipegen/data/models/plain-70b.yaml").write_text(SECOND_MODEL)
    leaf = copy.folder / "second"
    leaf.mkdir()
    head = MINIMAL.replace("qwen3.8-2.4t-nvfp4", "plain-70b").replace(", mamba-ssm-cache-dtype: bfloat16", "").replace("expert_parallel: true\n", "")
    pd = '{prefill: 2xTP4, decode: 1xTP8, concurrency: [64], time_limit: "1:00:00"}'
    (leaf / "matrix.yaml").write_text(head + f"  - {pd}\n  - {agg_point('2xTP2')}\n")
    copy.recipegen("render", leaf)
    argv = copy.plan(leaf, "2xtp4-1xtp8-cc64")["processes"][0]["argv"]
    assert "plain-70b" in argv
    assert "--block-size" not in argv
    assert (leaf / "2xtp2-agg-cc64/agg.sh").is_file()
