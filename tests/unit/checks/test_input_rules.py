"""Input that cannot be used: every problem carries a rule that is documented, and every documented rule is met here."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from recipegen.checks.input_rules import INPUT_RULES
from recipegen.checks.registry import all_rules
from recipegen.clusters import ClusterProfile, local_profile, parse_profile, profile_from_json, profile_to_json
from recipegen.engines import REAL
from recipegen.errors import InputError, Problem
from recipegen.matrix import parse_matrix
from recipegen.plan import make_plan
from recipegen.profile_files import load_profile, resolve_profile
from recipegen.recipe import make_recipe
from recipegen.yamlsource import MAX_BYTES
from tests.support import PINS, ROOT

MATRIX = (
    PINS
    + """\
common:
  args: {kv-cache-dtype: fp8}
  env: {NCCL_DEBUG: INFO}
points:
  - {prefill: 1xTP4, decode: 1xTP8, mtp: 3, concurrency: [4, 8], time_limit: "1:00:00"}
  - {agg: TP8, concurrency: [64], time_limit: "1:00:00"}
benchmark: {type: sa-bench}
allow:
  - {rule: pd-tp-ratio, reason: measured so, points: [1xtp4-1xtp8-mtp-cc4-8]}
"""
)
PROFILE = """\
schema: recipegen-cluster/v1
name: oslo
scheduler: slurm
run_root: /runs
account: team
sbatch: {mem: "0"}
container: {runtime: pyxis, images: {i: /images/i.sqsh}, mounts: ["/a:/b"]}
models: {org/name: /models/name}
path_prefix: /opt/bin
discovery: {backend: etcd, etcd: /opt/etcd}
environment: {HF_HOME: /cache}
srun: [--mpi=none]
"""
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))


def problems_of(act: Callable[[], object]) -> tuple[Problem, ...]:
    try:
        act()
    except InputError as error:
        return error.problems
    return ()


def follow(text: str | bytes) -> tuple[Problem, ...]:
    """The problems met from a matrix's text to the plans of its points."""

    def to_plans() -> None:
        matrix = parse_matrix(text, "m")
        for point in matrix.points:
            make_plan(make_recipe(matrix, point, REAL), REAL)

    return problems_of(to_plans)


def read_profile(text: str | bytes) -> tuple[Problem, ...]:
    return problems_of(lambda: parse_profile(text, "m"))


def local() -> ClusterProfile:
    return local_profile(run_root="/state", path_prefix="/bin")


MATRIX_CASES = [  # text in MATRIX, what stands there instead, the rule, and where it is said to be broken: a text of the new matrix
    ("tiny", "ti\x00ny", "text-control", "\x00"),
    ("tiny", '"ti\\u202eny"', "text-control", '"ti'),
    ("tiny", '"ti\\nny"', "schema-value", '"ti'),
    ("tiny", "ti\rny", "text-control", "\r"),
    ("name: tiny", "name: 'tiny", "yaml-syntax", "'tiny"),
    ("name: tiny", "\tname: tiny", "yaml-tab", "\t"),
    ("tiny", "!!python/object/apply:os.system [id]", "yaml-tag", "!!python"),
    ("tiny", "!!python/name:os.system x", "yaml-tag", "!!python"),
    ("tiny", "!e!x y", "yaml-tag", "!e!x"),
    ("tiny", "!!int x", "yaml-tag", "!!int"),
    ("name: tiny", "name: *gone", "yaml-alias", "*gone"),
    ("name: tiny", BOMB + "name: tiny", "yaml-alias", "*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]\na5"),
    ("tiny", "&a tiny\nmodel: &a x", "yaml-alias", "&a x"),
    ("tiny", "[" * 100, "yaml-depth", "[" * 37 + "\nmodel"),
    ("hardware: gb", "hardware: x\nhardware: gb", "yaml-duplicate", "hardware: gb"),
    ("env: {", "env: {<<: {}, ", "yaml-merge", "<<"),
    ("env: {", "env: {1: x, ", "yaml-key", "1: x"),
    ('"1:00:00"', "1:00:00", "yaml-scalar", "1:00:00}"),
    ("concurrency: [64]", "concurrency: [010]", "yaml-scalar", "010"),
    ("version: 1.2.1", "version: 1.2.1, install: no", "yaml-scalar", "no}"),
    (MATRIX, "", "yaml-mapping", ""),
    (MATRIX, "hello\n", "yaml-mapping", "hello"),
    (MATRIX, "- a\n", "yaml-mapping", "- a"),
    ("schema:", "%YAML 1.1\n---\nschema:", "yaml-document", "%YAML"),
    ("benchmark:", "---\nbenchmark:", "yaml-document", "---"),
    ("name: tiny", "name: tiny\nfontend: {type: dynamo}", "schema-unknown-key", "fontend"),
    ("mtp: 3", "mtpp: 3", "schema-unknown-key", "mtpp"),
    ("type: sa-bench", "type: sa-bench, isl: 8192", "schema-unknown-key", "isl: 8192}"),
    ("hardware: gb300-nvl72\n", "", "schema-missing", "schema"),
    (', time_limit: "1:00:00"}', "}", "schema-missing", "{prefill"),
    ("isl: 8192", "isl: '8192'", "schema-type", "'8192'"),
    ("isl: 8192", "isl: 8192.5", "schema-type", "8192.5"),
    ('"1:00:00"', "5400", "schema-type", "5400}"),
    ("NCCL_DEBUG: INFO", "NCCL_DEBUG: 1", "schema-type", "1}\npoints"),
    ("NCCL_DEBUG: INFO", "NCCL_DEBUG: true", "schema-type", "true}"),
    ("concurrency: [64]", 'concurrency: "64x128"', "schema-type", '"64x128"'),
    ("isl: 8192", "isl: -1", "schema-value", "-1"),
    ("concurrency: [64]", "concurrency: []", "schema-value", "[]"),
    ("tiny", "../../etc", "schema-value", "../../etc"),
    ("tiny", "'my job; rm -rf $HOME'", "schema-value", "'my"),
    ("NCCL_DEBUG: INFO", "'A;id': x", "schema-value", "'A;id'"),
    ("NCCL_DEBUG: INFO", '"A\\nB": x', "schema-value", '"A\\nB"'),
    ("kv-cache-dtype: fp8", "'kv $(id)': fp8", "schema-value", "'kv"),
    ("vllm/vllm-openai:v0.28.0", "'x; rm -rf /'", "schema-value", "'x;"),
    ("vllm/vllm-openai:v0.28.0", '"image\\n#SBATCH --wrap=x"', "schema-value", '"image'),
    ("version: 1.2.1", 'version: "1.2.1\\n"', "schema-value", '"1.2.1'),
    ("version: 1.2.1", "version: 1.2.1, install: git, source: '-r /etc/passwd'", "schema-value", "'-r"),
    ("version: 1.2.1", 'version: 1.2.1, install: git, source: "https://x\\nid"', "schema-value", '"https'),
    ("type: sa-bench", "type: sa_bench", "schema-value", "sa_bench"),
    ("type: sa-bench", "type: sa-bench, tokenizer: '$(id)'", "schema-value", "'$(id)'"),
    ("reason: measured so", "reason: ' '", "schema-value", "' '"),
    ("qwen3.8-2.4t-nvfp4", "qwen3.9", "model-unknown", "qwen3.9"),
    ("qwen3.8-2.4t-nvfp4", "../hardware/gb300-nvl72", "model-unknown", "../hardware"),
    ("gb300-nvl72", "gb999", "hardware-unknown", "gb999"),
    ("version: 1.2.1", "version: 1.2.1, install: wheel", "dynamo-source", "{version"),
    ("version: 1.2.1", "version: 1.2.1, install: pip, source: x.whl", "dynamo-source", "{version"),
    ("version: 1.2.1", "install: pip", "dynamo-source", "{install"),
    ("vllm/vllm-openai:v0.28.0", "/images/../../etc/passwd", "path-traversal", "/images"),
    ("vllm/vllm-openai:v0.28.0", "../vllm.sqsh", "path-traversal", "../vllm"),
    ("version: 1.2.1", "version: 1.2.1, install: wheel, source: ../x.whl", "path-traversal", "../x.whl"),
    ("type: sa-bench", "type: sa-bench, tokenizer: ../../etc", "path-traversal", "../../etc"),
    ("type: sa-bench", "type: sa-bench, dataset_path: /data/..", "path-traversal", "/data/.."),
    ("type: sa-bench", "type: trace-replay, trace_file: a/../../b", "path-traversal", "a/../../b"),
    ("NCCL_DEBUG: INFO", "PATH: /tmp", "env-reserved", "PATH"),
    ("NCCL_DEBUG: INFO", "NODE_RANK: '7'", "env-reserved", "NODE_RANK"),
    ("NCCL_DEBUG: INFO", "SLURM_JOB_ID: '7'", "env-reserved", "SLURM_JOB_ID"),
    ("NCCL_DEBUG: INFO", 'NCCL_DEBUG: "a\\nPATH=/tmp"', "env-value", '"a'),
    ("NCCL_DEBUG: INFO", 'NCCL_DEBUG: "a\\tb"', "env-value", '"a'),
    ("kv-cache-dtype: fp8", "tensor_parallel_size: 4", "flag-owned", "tensor_parallel_size"),
    ("kv-cache-dtype: fp8", "data-parallel-rpc-port: 13345", "flag-owned", "data-parallel-rpc-port"),
    ("kv-cache-dtype: fp8", "no-headless: true", "flag-owned", "no-headless"),
    ("kv-cache-dtype: fp8", "kv-cache-dtype: fp8, kv_cache_dtype: auto", "flag-twice", "kv_cache_dtype"),
    ("env: {N", "derive: {kv_cache_dtype: isl}\n  env: {N", "flag-twice", "kv_cache_dtype: isl"),
    ("kv-cache-dtype: fp8", "kv-cache-dtype: ''", "flag-value", "''"),
    ("kv-cache-dtype: fp8", "kv-cache-dtype: []", "flag-value", "[]"),
    ("kv-cache-dtype: fp8", "kv-cache-dtype: [[1]]", "flag-value", "[[1]]"),
    ("kv-cache-dtype: fp8", "speculative_config.method: eagle", "speculation-twice", "eagle"),
    ("common:", "kv_events: {decode: true}\ncommon:", "kv-events", "true}"),
    ("common:\n  args: {", "kv_events: true\ncommon:\n  args: {kv_events_config: {publisher: zmq}, ", "kv-events", "kv_events_config"),
    ("env: {N", "derive: {max-num-seqs: sized / dp}\n  env: {N", "formula", "sized / dp"),
    ("env: {N", "derive: {max-num-seqs: isl / 0}\n  env: {N", "formula", "isl / 0"),
    ("env: {N", "derive: {max-num-seqs: 0 - isl}\n  env: {N", "formula", "0 - isl"),
    ("env: {N", "derive: {max-num-seqs: __import__('os')}\n  env: {N", "formula", "__import__"),
    ("kv-cache-dtype: fp8", "kv-cache-dtype: nvfp4", "block-size-unknown", "{prefill"),
    ("common:", "frontend: {session_header: X-A}\ncommon:", "frontend-single", "session_header"),
    ("common:", "frontend: {replicas: 2, session_header: Host}\ncommon:", "session-header", "Host}"),
    ("{agg: TP8", "{colocate: true, agg: TP8", "colocate", "true, agg"),
    ("agg: TP8", "agg: TP4XP2", "topology-notation", "TP4XP2"),
    ("agg: TP8", "agg: -1xTP8", "topology-notation", "-1xTP8"),
    ("agg: TP8", "agg: 0xTP8", "topology-notation", "0xTP8"),
    ("agg: TP8", "agg: 4.7xTP8", "topology-notation", "4.7xTP8"),
    ("agg: TP8", "agg: TPtwo", "topology-notation", "TPtwo"),
    ("agg: TP8", "agg: {shape: TP8, gpus: 12}", "worker-gpus", "12}"),
    ("agg: TP8", "prefill: TP8", "roles", "{prefill: TP8"),
    ("agg: TP8", "agg: TP8, decode: TP8", "roles", "{agg"),
    ("[4, 8]", "[8, 4]", "concurrency-order", "[8, 4]"),
    ("[4, 8]", "[4, 4]", "concurrency-order", "[4, 4]"),
    ('"1:00:00"', '"0:01:00"', "time-limit", '"0:01'),
    ("benchmark:", '  - {agg: 1xTP8, concurrency: [64], time_limit: "1:00:00"}\nbenchmark:', "point-twice", "{agg: 1xTP8"),
    ("[1xtp4-1xtp8-mtp-cc4-8]", "[1xtp4-1xtp8-mtp-cc8]", "allow-point", "1xtp4-1xtp8-mtp-cc8]"),
    ("agg: TP8", "agg: TP2DP3", "placement", "TP2DP3"),
    ("agg: TP8", "agg: TP1PP5", "placement", "TP1PP5"),
]
PROFILE_CASES = [
    ("name: oslo", "name: oslo\ncolour: red", "schema-unknown-key", "colour"),
    ("name: oslo", "name: oslo\nname: bergen", "yaml-duplicate", "name: bergen"),
    ("team", '"a\\nb"', "profile-text", '"a'),
    ("team", '"a\\tb"', "profile-text", '"a'),
    ("/cache", '"a\\nPATH=/tmp"', "profile-text", '"a'),
    ("/opt/etcd", '"/opt/etcd\\n"', "profile-text", '"/opt/etcd'),
    ("/a:/b", "/a:/b\\n/c:/d", "profile-text", '"/a'),
    ('mem: "0"', 'mem: "0\\n#SBATCH --wrap=x"', "profile-text", '"0'),
    ("/images/i.sqsh", '"/images/i\\n"', "profile-text", '"/images'),
    ("oslo", "../oslo", "profile-name", "../oslo"),
    ("team", "'$(id)'", "profile-name", "'$(id)'"),
    ("team", "--help", "profile-name", "--help"),
    ("run_root: /runs", "run_root: runs", "profile-path", "runs\naccount"),
    ("run_root: /runs", "run_root: /runs/../etc", "profile-path", "/runs/../etc"),
    ("run_root: /runs", "run_root: /a:b", "profile-path", "/a:b"),
    ("/opt/bin", "/opt/../bin", "profile-path", "/opt/../bin"),
    ("/opt/etcd", "../etcd", "profile-path", "../etcd"),
    ("/images/i.sqsh", "../i.sqsh", "profile-path", "../i.sqsh"),
    ("/models/name", "/models/../../name", "profile-path", "/models/../../name"),
    ("/a:/b", "/a/../b:/b", "profile-path", '"/a/../b'),
    ("/a:/b", "/a,/x:/b", "profile-path", '"/a,/x'),
    ('mem: "0"', "nodes: 3", "profile-sbatch", "nodes: 3"),
    ('mem: "0"', "wrap: id", "profile-sbatch", "wrap"),
    ('mem: "0"', '"mem=0 --wrap": x', "profile-sbatch", '"mem=0'),
    ('mem: "0"', '"mem\\n": x', "profile-sbatch", '"mem\\n"'),
    ("--mpi=none", "--nodelist=a", "profile-srun", "--nodelist"),
    ("--mpi=none", "'--mpi=none --nodes=1'", "profile-srun", "'--mpi"),
    ("--mpi=none", "--cpu-bind none", "profile-srun", "--cpu-bind"),
    ("HF_HOME:", "MODEL:", "profile-environment", "MODEL"),
    ("HF_HOME:", "'A;id':", "profile-environment", "'A;id'"),
    ("HF_HOME:", '"A\\nB":', "profile-environment", '"A\\nB"'),
    ("scheduler: slurm", "scheduler: local", "profile-container", "schema"),
    ("srun:", "slurm: {require: [nodes]}\nsrun:", "profile-sbatch", "nodes]"),
    ("srun:", "storage: {read_gib_s: 0}\nsrun:", "schema-value", "0}\nsrun"),
    ("srun:", "nodes: {machine: arm64}\nsrun:", "schema-value", "arm64"),
    ("srun:", "deadlines: {ready: 2h}\nsrun:", "schema-value", "2h"),
    ("srun:", "port_offset: 99999\nsrun:", "schema-value", "99999"),
]


def place(text: str, marker: str) -> tuple[int, int]:
    """Line and column of the marker, as editors count them."""
    before = text[: text.index(marker)].replace("\r\n", "\n")
    return before.count("\n") + 1, len(before) - before.rfind("\n")


@pytest.mark.parametrize(("old", "new", "rule", "marker"), MATRIX_CASES)
def test_a_matrix_that_cannot_be_used(old: str, new: str, rule: str, marker: str) -> None:
    assert old in MATRIX
    text = MATRIX.replace(old, new, 1)
    found = [(problem.rule, (problem.source.line, problem.source.column)) for problem in follow(text)]
    assert (rule, place(text, marker)) in found
    assert {name for name, _ in found} <= {rule.id for rule in INPUT_RULES}


@pytest.mark.parametrize(("old", "new", "rule", "marker"), PROFILE_CASES)
def test_a_profile_that_cannot_be_used(old: str, new: str, rule: str, marker: str) -> None:
    assert old in PROFILE
    text = PROFILE.replace(old, new, 1)
    assert (rule, place(text, marker)) in [(problem.rule, (problem.source.line, problem.source.column)) for problem in read_profile(text)]


def others(tmp_path: Path) -> Iterable[tuple[str, tuple[Problem, ...]]]:
    """What is no text in the place of another."""
    yield "text-size", follow(b"#" * (MAX_BYTES + 1))
    yield "text-encoding", follow(MATRIX.encode() + b"# \xff\n")
    yield "more-problems", follow("on: 1\n" * 1000)
    yield "more-problems", follow(MATRIX + "".join(f"x{n}: 1\n" for n in range(200)))
    (tmp_path / "bergen.yaml").write_text(PROFILE)
    yield "profile-name", problems_of(lambda: resolve_profile("bergen", folders=[str(tmp_path)], local=local))
    yield "profile-unreadable", problems_of(lambda: load_profile(str(tmp_path / "none.yaml")))
    yield "profile-record", problems_of(lambda: profile_from_json({**profile_to_json(local()), "mounts": "x"}))


def test_what_is_no_text_in_the_place_of_another(tmp_path: Path) -> None:
    for rule, problems in others(tmp_path):
        assert rule in {problem.rule for problem in problems}


def test_every_documented_rule_is_met(tmp_path: Path) -> None:
    met = {rule for _, _, rule, _ in MATRIX_CASES + PROFILE_CASES} | {rule for rule, _ in others(tmp_path)}
    assert met == {rule.id for rule in INPUT_RULES}


def test_what_the_cases_change_is_fine_as_it_stands() -> None:
    assert follow(MATRIX) == ()
    assert read_profile(PROFILE) == ()


def test_every_rule_has_a_title_a_reason_and_a_mend() -> None:
    assert len({rule.id for rule in INPUT_RULES}) == len(INPUT_RULES)
    for rule in INPUT_RULES:
        title, why, mend = rule.text.split("\n\n")
        assert title.endswith(".")
        assert len(title) < 80
        assert why.strip().endswith(".")
        assert mend.startswith("Mend: ")


OF_OTHER_PAGES = ("srt-", "export-")
"""Rules that docs/reference/import.md and export.md explain."""


def rules_given() -> dict[str, str]:
    """Rules by which the sources refuse inputs, each with a file that does."""
    found = {}
    for file in sorted((ROOT / "recipegen").rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
            given = [word.value for word in call.keywords if word.arg == "rule"]
            given += call.args[3:4] if name == "Problem" else call.args[:1] if name in {"_problem", "_key_problem"} else []
            found |= {
                rule.value: file.name for rule in given if isinstance(rule, ast.Constant) and re.fullmatch(r"[a-z]+(-[a-z]+)*", str(rule.value))
            }
    return found


def test_every_rule_that_refuses_an_input_has_its_page() -> None:
    given = rules_given()
    assert {"frontend-single", "env-reserved", "yaml-merge", "placement"} <= given.keys()
    assert {rule: file for rule, file in given.items() if rule not in all_rules() and not rule.startswith(OF_OTHER_PAGES)} == {}
