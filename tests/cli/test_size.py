"""`recipegen size` and `plan --explain`: what fits, and why."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from recipegen.cli import main
from tests.support import LEAF


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def test_the_measured_table_is_reproduced() -> None:
    rows = [line.split() for line in run("size").stdout.splitlines()[1:]]
    text = run("size").stdout
    assert len(rows) == 8
    for vllm, study in zip(
        ("303.00", "301.64", "297.86", "266.36", "315.88", "315.94", "722.88", "716.88"),
        ("112.0", "111.5", "110.1", "98.4", "180.4", "180.5", "180.7", "179.2"),
        strict=True,
    ):
        assert any(vllm in row and study in row for row in rows), (vllm, study)
    for graphs in (11, 17, 37, 85, 52, 60):
        assert f"{graphs} = {graphs} " in text


def test_the_measured_table_as_json() -> None:
    for row in json.loads(run("size", "--format", "json").stdout):
        measured, derived = row["measured"], row["derived"]
        assert measured["weights"] == pytest.approx(round(derived["weights_gib"], 2), abs=0.0101)
        assert measured["kv"] == pytest.approx(round(derived["kv_gib"], 2), abs=0.0101)


def test_a_topology_without_a_matrix() -> None:
    words = ("size", "--model", "qwen3.8-2.4t-nvfp4", "--hardware", "gb300-nvl72", "--topology", "TP4DP4+EP", "--mtp", "3", "--isl", "8192")
    done = run(*words, "--osl", "1024", "--format", "json")
    (sizes,) = json.loads(done.stdout)
    assert sizes["topology"] == "TP4DP4+EP"
    assert sizes["block_size"] == {"natural": 2176, "chosen": 2176, "kernel": 128, "misfit": ""}
    assert "TP4DP4+EP" in run(*words).stdout
    assert "2176 x 512 = 1114112 B" in run(*words, "--explain").stdout


def test_a_sweep_ranks_by_what_fits() -> None:
    found = json.loads(run("size", "--sweep", "16", "--format", "json").stdout)
    assert [one["requests_per_gpu"] for one in found] == sorted((one["requests_per_gpu"] for one in found), reverse=True)
    assert {one["topology"] for one in json.loads(run("size", "--sweep", "--format", "json").stdout)} > {one["topology"] for one in found}
    assert run("size", "--sweep", "16").stdout.splitlines()[1].split()[0] == found[0]["topology"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--model", "qwen3.8-2.4t-nvfp"), "did you mean 'qwen3.8-2.4t-nvfp4'?"),
        (("--hardware", "gb300"), "gb300-nvl72"),
        (("--topology", "TP4XP2"), "TP4XP2"),
        (("--sweep", "2"), "no topology"),
        (("--sweep", "8", "--topology", "TP8"), "two questions"),
        (("--explain",), "--explain needs a --topology"),
        (("--topology", "TP8", "--kv-cache-dtype", "fp9"), "fp9"),
    ],
)
def test_what_cannot_be_sized_is_refused(args: tuple[str, ...], words: str) -> None:
    done = run("size", *args)
    assert done.exit_code == 2
    assert words in done.stderr


def test_the_published_choices_are_explained() -> None:
    text = run("plan", str(LEAF), "--explain").stdout
    with_mtp = text[text.index("# 3xtp2dep4-1xtp4dep4-mtp-cc1024") : text.index("# 4xtp2dep4-1xtp4dep4-cc2560")]
    assert "concurrency 1024 asks 256 requests of each of 4 engines" in with_mtp
    assert "with MTP 3, they fit" in with_mtp
    without = text[text.index("# 4xtp2dep4-1xtp4dep4-cc2560") :]
    assert "concurrency 2560 asks 640 requests of each of 4 engines" in without
    assert "without MTP, they fit" in without
    assert "with MTP 3 they do not fit" in without
    assert text.count("block-size is set: alone, prefill on 2176, decode on 1088") == 2
    assert "301.64 -> 195.18" in text
    assert "297.86 -> 192.71" in text
