"""One recipe in, one matrix out: what is derived, kept, carried, dropped and refused."""

from __future__ import annotations

import json

import pytest

from recipegen.engine.vllm import KV_EVENTS
from recipegen.matrix import parse_matrix
from recipegen.pipeline import plan_matrix
from recipegen.srtslurm.export import export_point
from recipegen.srtslurm.report import Outcome, report_json, report_text
from recipegen.srtslurm.run import RecipeFile, import_files
from recipegen.srtslurm.v1_events import DEFAULTS
from tests.support import agg_point, matrix_of, plan_one
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, import_texts, reasons

COMMON = "max-model-len: 10240"
THREE_NODES = [("prefill_nodes: 1", "prefill_nodes: 2"), ("prefill_workers: 1", "prefill_workers: 2")]


def test_a_matrix_has_the_recipes_words_comments_and_order() -> None:
    report, text = import_one(V1)
    assert (report.outcome, report.matrices) == (Outcome.IMPORTED, ("tiny/matrix.yaml",))
    assert (
        text
        == """\
# Imported from srt-slurm: a.yaml
schema: recipegen/v1
name: tiny
model: {repo: org/model, revision: 0123456789abcdef0123456789abcdef01234567, served_name: org/model}
hardware: gb300-nvl72
workload: {isl: 8192, osl: 1024, max_model_len: 10240}

runtime:
  image: vllm/vllm-openai:v0.28.0
  vllm: 0.28.0
  dynamo: {version: 1.2.1, install: present}

common:
  args:
    kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}
  env:
    DYN_LOG: error

prefill:
  args:
    max-num-seqs: 32 # enough

decode:
  args:
    # grows with the load
    max-num-seqs: 256

benchmark:
  type: sa-bench
  request_rate: inf
  endpoint: /v1/completions # srtctl's default
  random_range_ratio: 0.8 # srtctl's default
  prompts_per_concurrency: 10 # srtctl's default
  warmup_per_concurrency: 2 # srtctl's default

points:
  - {prefill: 1xTP4, decode: 1xTP4, concurrency: [4, 16], time_limit: "1:00:00"}

carried:
  model.precision: fp8
"""
    )


def test_both_layouts_give_the_same_matrix() -> None:
    old, new = import_one(changed(V1, (" # enough", ""), ("      # grows with the load\n", "")))[1], import_one(V2)[1]
    assert old == new != ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("connector: null", "connector: nixl"), ("      kv-transfer-config: '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'\n", "")],
         "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both} # srtctl's connector `nixl`"),
        ([("connector: null", "connector: lmcache"), ("      kv-transfer-config: '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'\n", "")],
         "kv-transfer-config: {kv_connector: LMCacheConnectorV1, kv_role: kv_both} # srtctl's connector `lmcache`"),
        ([("connector: null", "connector: nixl"), ("      kv-transfer-config: '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'\n", "      connector: null\n")],
         "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both} # srtctl's connector `nixl`"),
        ([("  connector: null\n", ""), ("      kv-transfer-config: '{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'\n", "")],
         "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both} # srtctl's connector `nixl`"),
        ([('"kv_connector": "NixlConnector", "kv_role"', '"kv_connector":"NixlConnector", "kv_role"')],
         "kv-transfer-config: '{\"kv_connector\":\"NixlConnector\", \"kv_role\": \"kv_both\"}'"),
        ([(COMMON, f"{COMMON}\n      speculative_config.method: mtp\n      speculative_config.num_speculative_tokens: 2")], "mtp: 2, concurrency"),
        ([(COMMON, f"{COMMON}\n      speculative-config: '{{\"method\": \"mtp\"}}'")], "speculative-config: {method: mtp}"),
        ([("tensor-parallel-size: 4", "data-parallel-size: 4\n      enable-expert-parallel: true")], "expert_parallel: true"),
        ([("tensor-parallel-size: 4", "data_parallel_size: 4\n      pipeline-parallel-size: 1")], "{prefill: 1xDP4, decode: 1xDP4, concurrency"),
        ([(f"      {COMMON}\n", "")], "workload: {isl: 8192, osl: 1024}"),
        ([("install: false", "install: true")], "dynamo: {version: 1.2.1, install: pip}"),
        ([("version: 1.2.1, install: false", "wheel: 1.2.0.dev20260426")], "dynamo: {version: 1.2.0.dev20260426, install: pip}"),
        ([("version: 1.2.1, install: false", "wheel: /wheels/ai_dynamo-1.3.0-py3-none-any.whl")],
         "dynamo: {version: 1.2.1, install: wheel, source: /wheels/ai_dynamo-1.3.0-py3-none-any.whl}"),
        ([("version: 1.2.1, install: false", "hash: abc123")],
         "dynamo: {version: 1.2.1, install: git, source: https://github.com/ai-dynamo/dynamo.git@abc123}"),
        ([("install: false", "install: false, request_plane: nats")], "dynamo: {version: 1.2.1, install: present, request_plane: nats}"),
        ([("gpus_per_node: 4", "gpus_per_node: 8")], "hardware: {type: gb300-nvl72, gpus_per_node: 8}"),
        ([("slurm:", "health_check: {max_attempts: 360, interval_seconds: 10}\nslurm:")], "deadlines: {ready: 3600}"),
        ([("slurm:", "health_check: {max_attempts: 60}\nslurm:")], "deadlines: {ready: 600}"),
        ([("slurm:", "setup_script: deps.sh\nslurm:")], "setup_script: deps.sh"),
        ([("slurm:", 'sbatch_directives: {mem: "0", cpus-per-task: "72", contiguous: ""}\nsrun_options: {mem: "0"}\nslurm:')],
         'slurm:\n  sbatch:\n    mem: "0"\n    cpus-per-task: "72"\n    contiguous: true\n  srun: ["--mem=0"]'),
        ([("slurm:", "infra: {etcd_nats_dedicated_node: true}\nslurm:")], "infra: {dedicated_node: true}"),
        ([("type: dynamo,", "type: dynamo, args: {router-mode: kv, router-reset-states: true},")], "frontend:\n  args:\n    router-mode: kv\n    router-reset-states: true\n"),
        ([("enable_multiple_frontends: false", "enable_multiple_frontends: false, env: {DYN_LOG: debug}")], "frontend:\n  env:\n    DYN_LOG: debug\n"),
        ([("enable_multiple_frontends: false", "enable_multiple_frontends: true")], "frontend:\n  replicas: 10\n"),
        ([("enable_multiple_frontends: false", "num_additional_frontends: 3")], "frontend:\n  replicas: 4\n"),
        ([("enable_multiple_frontends: false", "enable_multiple_frontends: true, nginx_container: /x/nginx.sqsh, nginx_session_affinity: true")],
         "frontend:\n  replicas: 10\n  nginx_image: /x/nginx.sqsh\n  session_header: X-Dynamo-Session-ID\n"),
        ([("enable_multiple_frontends: false", "nginx_session_affinity: true, nginx_session_affinity_header: X-Mine")],
         "frontend:\n  replicas: 10\n  session_header: X-Mine\n"),
        ([(", enable_multiple_frontends: false", ""), *THREE_NODES], "frontend:\n  replicas: 10\n"),
        ([("slurm:", "environment: {NCCL_DEBUG: INFO}\nslurm:")], "NCCL_DEBUG: INFO"),
        ([("connector: null", "connector: null\n  kv_events_config: true")], "kv_events: true\n"),
        ([("connector: null", "connector: null\n  kv_events_config: {prefill: true, aggregated: false}")], "kv_events: true\n"),
        ([("connector: null", "connector: null\n  kv_events_config: {prefill: {topic: kv-events}}")], "kv_events: true\n"),
        ([("type: sa-bench", "type: sa-bench\n  custom_tokenizer: a.b.C\n  use_chat_template: false")], "tokenizer_class: a.b.C"),
        ([("concurrencies: 4x16", "concurrencies: [16, 4, 8]")], "concurrency: [4, 8, 16]"),
        ([("DYN_LOG: error", "UCX_MEMTYPE_CACHE: n")], 'UCX_MEMTYPE_CACHE: "n"'),
        ([('time_limit: "1:00:00"', "account: me")], 'time_limit: "4:00:00"'),
        ([("name: tiny", "name: Tiny Model")], "name: tiny-model"),
    ],
)  # fmt: skip
def test_what_a_recipe_says_stands_in_the_matrix(changes: list[tuple[str, str]], expected: str) -> None:
    report, text = import_one(changed(V1, *changes))
    assert expected in text, (report.refused, text)
    assert parse_matrix(text, "matrix.yaml")


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ([(COMMON, f"{COMMON}\n      data-parallel-rpc-port: 13345")], "'data-parallel-rpc-port' is left out: it belongs to the launcher"),
        ([(COMMON, f"{COMMON}\n      enforce-eager: false")], "'enforce-eager' is left out: srtctl passes no flag that is false or null"),
        ([("enable_multiple_frontends: false", "enable_multiple_frontends: false, nginx_container: x")],
         "'frontend.nginx_container' is carried without effect: there is one front end, without nginx"),
        ([("enable_multiple_frontends: false", "num_additional_frontends: 0")], "srtctl starts one front end behind nginx; here it is the endpoint itself"),
        ([("enable_multiple_frontends: false", "nginx_raise_ulimit: true, enable_multiple_frontends: true")],
         "'frontend.nginx_raise_ulimit' is carried without effect: nginx always takes as many open files as the node allows, up to 131072"),
        ([("enable_multiple_frontends: false", "nginx_session_affinity_header: X-Mine")],
         "'frontend.nginx_session_affinity_header' is carried without effect: sessions are not kept together"),
        ([("prefill_nodes: 1", "prefill_nodes: 2")], "'resources.prefill_nodes' is 2, but 1 x 4 GPUs take 1 nodes of 4; the others are left out"),
        ([("slurm:", "profiling: {type: nsys}\nslurm:")], "'profiling' is carried without effect"),
        ([("type: sa-bench", "type: sa-bench\n  client_placement: last_decode")], "'benchmark.client_placement' is carried without effect"),
        ([("type: sa-bench", "type: sa-bench\n  num_shots: 5")], "'benchmark.num_shots' is carried without effect: sa-bench does not read it"),
        ([("type: sa-bench", "type: custom")], "'benchmark.type' is carried without effect"),
        ([("vllm: 0.28.0", "vllm: nightly")], "'identity.frameworks.vllm' is carried without effect"),
        ([("hf:org/model", "an-alias")], "'identity.model.repo' is carried without effect: 'an-alias' is resolved by the cluster"),
        ([("connector: null", "connector: lmcache")], "a.yaml:20:3: 'backend.connector' is left out: the role's own `kv-transfer-config` holds"),
        ([("connector: null", "connector: kvbm")], "a.yaml:20:3: 'backend.connector' is left out: the role's own `kv-transfer-config` holds"),
        ([("tensor-parallel-size: 4", "tensor-parallel-size: 4\n      enable-expert-parallel: true\n      no-enable-expert-parallel: true")],
         "a.yaml:29:7: 'backend.vllm_config.prefill.enable-expert-parallel' is left out: 'backend.vllm_config.prefill.no-enable-expert-parallel'"),
        ([("frameworks: {dynamo: 1.2.1", "frameworks: {dynamo: 9.9.9")],
         "a.yaml:5:16: 'identity.frameworks.dynamo' is carried without effect: 'dynamo' says 1.2.1, which holds"),
        ([("version: 1.2.1, install: false", "hash: abc, install: false")],
         "a.yaml:6:10: 'dynamo.hash' is left out: with `install: false` nothing is installed, and the image's own Dynamo runs"),
        ([("version: 1.2.1, install: false", "top_of_tree: true, install: false")], "a.yaml:6:1: 'dynamo.top_of_tree' is left out: with `install: false`"),
        ([("version: 1.2.1, install: false", "wheel: /w/ai_dynamo-1.2.1-py3-none-any.whl, install: false")], "a.yaml:6:10: 'dynamo.wheel' is left out"),
        ([("version: 1.2.1, install: false", "wheel: /w/ai_dynamo-1.3.0-py3-none-any.whl")],
         "a.yaml:5:24: 'identity.frameworks.dynamo' is 1.2.1, but the wheel's name says 1.3.0; nodes are compared with 1.2.1"),
        ([("version: 1.2.1, install: false", "version: 1.2.1, git: https://github.com/me/d.git")],
         "a.yaml:6:26: 'dynamo.git' is left out: srtctl builds Dynamo by 'hash' or 'top_of_tree', and neither stands there"),
        ([("enable_multiple_frontends: false", "num_additional_frontends: 64")],
         "a.yaml:17:52: the recipe asks for 65 front ends, of which a node has one at most: 64 are written, the most of a matrix"),
        ([("DYN_LOG: error", "UCX_MEMTYPE_CACHE: y")], "the letter is read as text"),
        ([("concurrencies: 4x16", "concurrencies: [16, 4]")], "the concurrencies are put in order: 4, 16"),
        ([("slurm:", "lock: {hash: abc}\nslurm:")], "'lock' is carried without effect: it records what a run found"),
    ],
)  # fmt: skip
def test_what_has_no_place_is_noted(changes: list[tuple[str, str]], note: str) -> None:
    report, text = import_one(changed(V1, *changes))
    assert report.outcome is Outcome.NOTED, report.refused
    assert any(note in str(one) for one in report.notes), report.notes
    assert all(one.source.line for one in report.notes)
    assert parse_matrix(text, "matrix.yaml")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("type: vllm", "type: sglang")], "'backend.type' is the text 'sglang'; only vllm is supported [srt-unsupported]"),
        ([("type: vllm", "type: trtllm")], "'backend.type' is the text 'trtllm'; only vllm is supported [srt-unsupported]"),
        ([("type: vllm", "type: mocker")], "'backend.type' is the text 'mocker'; only vllm is supported [srt-unsupported]"),
        ([("  type: vllm\n", "")], "'backend.type' is missing, which is sglang for srtctl; only vllm is supported [srt-unsupported]"),
        ([("enable_multiple_frontends: false", "enable_multiple_frontends: some")], "'frontend.enable_multiple_frontends' is the text 'some'"),
        ([("enable_multiple_frontends: false", "env: {NGINX_BIN: x}")], "'NGINX_BIN' is the cluster profile's `nginx`"),
        ([("enable_multiple_frontends: false", 'env: {PATH: "x"}')], "'PATH' belongs to the shell"),
        ([("enable_multiple_frontends: false", 'env: {DYN_HTTP_PORT: "8000"}')], "'DYN_HTTP_PORT' is set by the job itself"),
        ([("decode_nodes: 1", "decode_nodes: 0")], "prefill and decode have 1 nodes, but 1 x 4 and 1 x 4 GPUs take 2 of 4 [srt-nodes]"),
        ([("type: dynamo", "type: sglang")], "'frontend.type' is the text 'sglang'"),
        ([("gpus_per_decode: 4", "gpus_per_decode: 2")], "a worker of decode has 2 GPUs, as the recipe says, but TP4 x PP1 x DP1 = 4"),
        ([("decode_workers: 1", "decode_workers: 2")], "'resources.decode_nodes' is 1, but 2 x 4 GPUs take 2 nodes of 4 [srt-nodes]"),
        ([("osl: 1024", "osl: 1024\n  ols: 3")], "'benchmark.ols' is no key of an srt-slurm recipe; did you mean 'osl'? [srt-key]"),
        ([("resources:", "resources:\n  spread_workers: true")], "'resources.spread_workers' is not supported"),
        ([("backend:", "backend:\n  mooncake_kv_store: {}")], "'backend.mooncake_kv_store' is not supported"),
        ([("connector: null", "connector: kvbm"), ("kv-transfer-config", "stream-interval"), ("'{\"kv_connector\": \"NixlConnector\", \"kv_role\": \"kv_both\"}'", "5")],
         "'backend.connector' is the text 'kvbm'"),
        ([("DYN_LOG: error", 'POD: "{node}"')], "holds {node}, which srtctl fills in on each node"),
        ([("DYN_LOG: error", "PATH: /bin")], "'PATH' belongs to the shell"),
        ([("version: 1.2.1, install: false", "wheel: 1.2.1, hash: abc")], "'dynamo' names several sources: hash, wheel"),
        ([("isl: 8192", "isl: many")], "'benchmark.isl' is the text 'many'; expected a whole number [srt-type]"),
        ([("concurrencies: 4x16", "concurrencies: 1,2,4")], "'benchmark.concurrencies' is the text '1,2,4'; expected concurrencies, as 1x2x4"),
        ([("concurrencies: 4x16", "concurrencies: 0")], "'benchmark.concurrencies' is 0; expected 1 or more"),
        ([("slurm:", "sbatch_directives: {nodes: 4}\nslurm:")], "as a matrix: "),
        ([("name: tiny", "schema: 3\nname: tiny")], "'schema' is the number 3; expected 1 or 2"),
        ([("name: tiny", "schema: true\nname: tiny"), ("  type: vllm\n", "")], "'schema' is true; expected 1 or 2"),
        ([("name: tiny", "schema: 2.0\nname: tiny")], "'schema' is the number 2.0; expected 1 or 2"),
        ([("connector: null", "connector: [x]")], "a.yaml:20:14: 'backend.connector' is a list; expected the name of a connector, JSON or null [srt-type]"),
        ([("connector: null", "connector: lmcahe")], "'backend.connector' is the text 'lmcahe'; expected the name of a connector, JSON or null; did you mean 'lmcache'?"),
        ([("tensor-parallel-size: 4", "tensor-parallel-size: 4\n      no-enable-expert-parallel: banana")],
         "prefill.no-enable-expert-parallel' is the text 'banana'; expected true or false [srt-type]"),
        ([("served-model-name: org/model", "served-model-name: [a, b]")], "a.yaml:27:26: 'backend.vllm_config.prefill.served-model-name' is a list; expected one name"),
        ([("served-model-name: org/model", "served-model-name: true")], "a.yaml:27:26: 'backend.vllm_config.prefill.served-model-name' is true; expected one name"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_at_its_place(changes: list[tuple[str, str]], reason: str) -> None:
    report, text = import_one(changed(V1, *changes))
    assert (report.outcome, text) == (Outcome.REFUSED, "")
    found = reasons(report)
    assert any(reason in one for one in found), found
    assert all(one.startswith("a.yaml:") for one in found)


def test_an_option_of_slurm_is_refused_at_its_own_line() -> None:
    recipe = changed(V1, ("slurm:", "sbatch_directives:\n  mem: 0\n  nodes: 4\nslurm:"))
    report, _ = import_one(recipe)
    line = recipe.splitlines().index("  nodes: 4") + 1
    assert [one.partition(": ")[0] for one in reasons(report)] == [f"a.yaml:{line}:3"]


def test_files_that_differ_in_topology_and_load_are_points_of_one_matrix() -> None:
    other = changed(
        V1, ("1xtp4-1xtp4-cc4-16", "2xtp4-1xtp4-cc64"), ("prefill_nodes: 1", "prefill_nodes: 2"), ("prefill_workers: 1", "prefill_workers: 2"),
        ("4x16", "64"), ("max-num-seqs: 256", "max-num-seqs: 512"), ('"1:00:00"', '"2:00:00"'),
    )  # fmt: skip
    made = import_texts(V1, other)
    (text,) = [data.decode() for data in made.matrices.values()]
    assert "  - {prefill: 1xTP4, decode: {shape: 1xTP4, args: {max-num-seqs: 256}}, concurrency: [4, 16]" in text
    assert "  - {prefill: 2xTP4, decode: {shape: 1xTP4, args: {max-num-seqs: 512}}, concurrency: [64]" in text
    assert [plan.recipe.point for plan in plan_matrix(text.encode(), "matrix.yaml")] == ["1xtp4-1xtp4-cc4-16", "2xtp4-1xtp4-cc64"]


def test_files_that_differ_otherwise_or_would_be_one_point_are_apart() -> None:
    faster = changed(V1, ("tiny-1xtp4-1xtp4-cc4-16", "tiny-fast"), (COMMON, f"{COMMON}\n      async-scheduling: true"))
    again = changed(V1, ("tiny-1xtp4-1xtp4-cc4-16", "tiny"), ("max-num-seqs: 256", "max-num-seqs: 128"))
    assert sorted(import_texts(V1, faster, again).matrices) == ["tiny-2/matrix.yaml", "tiny-fast/matrix.yaml", "tiny/matrix.yaml"]


def test_a_refused_file_stops_no_other() -> None:
    made = import_texts(V1, "name: [", changed(V1, ("type: vllm", "type: sglang")))
    assert [report.outcome for report in made.reports] == [Outcome.IMPORTED, Outcome.REFUSED, Outcome.REFUSED]
    assert list(made.matrices) == ["tiny/matrix.yaml"]
    assert list(report_text(made.reports))[-1] == "1 imported, 0 imported with notes, 2 refused; 3 jobs: 1 point, 2 refused"
    assert '"outcome": "refused"' in report_json(made.reports)


def test_what_many_files_have_in_common_is_told_once() -> None:
    without = changed(V1, ('slurm: {time_limit: "1:00:00"}\n', ""))
    texts = [changed(without, ("cc4-16", f"cc4-16-{n}")) for n in range(4)]
    lines = list(report_text(import_texts(*texts, changed(V1, ("cc4-16", "other"), ("precision: fp8", "precision: fp8, stage_dir: /x"))).reports))
    told = "no slurm.time_limit: the cluster's default would hold, which is not known here; 4:00:00 is written"
    assert [line for line in lines if told in line] == [f"note of 4 files: {told} (first at a.yaml:1:1)"]
    assert [line for line in lines if "carried" in line] == [
        "  note: e.yaml:2:86: 'model.stage_dir' is carried without effect: models are not copied to the nodes first",
        "  carried: model.stage_dir",
        "carried of 5 files: model.precision",
    ]


def test_a_job_that_no_matrix_holds_takes_no_other_with_it() -> None:
    made = import_texts(V1, changed(V1, ("4x16", "64"), ('time_limit: "1:00:00"', 'time_limit: "0:01:00"')))
    assert [report.outcome for report in made.reports] == [Outcome.IMPORTED, Outcome.REFUSED]
    assert reasons(made.reports[1])[0].startswith("b.yaml:")
    assert "a time limit below 2 minutes" in reasons(made.reports[1])[0]


def test_jobs_of_a_sweep_that_do_not_fit_are_refused_one_by_one() -> None:
    swept = changed(
        V1,
        (
            "tensor-parallel-size: 4\n      max-model-len: 10240\n      # grows",
            'tensor-parallel-size: "{tp}"\n      max-model-len: 10240\n      # grows',
        ),
    )
    report, text = import_one(swept + "sweep: {tp: [1, 8, 2, 4, 16]}\n")
    assert (report.jobs, report.kept, report.outcome) == (5, 3, Outcome.PARTLY)
    assert [one.variant for one in report.refused] == ["tp=8", "tp=16"]
    assert all(f"decode: 1xTP{size}," in text for size in (1, 2, 4))
    (note,) = [str(one) for one in report.notes if "idle" in str(one)]
    assert note.endswith("2 jobs leave GPUs idle (TP1 of 4, TP2 of 4): a worker takes the GPUs of its sizes alone; srtctl refuses such a job")


def test_overrides_are_jobs_of_their_own() -> None:
    base = "".join(f"  {line}\n" for line in V1.splitlines())
    text = f'base:\n{base}override_more:\n  benchmark: {{concurrencies: [64, 128]}}\nzip_override_len:\n  slurm: {{time_limit: ["2:00:00", "3:00:00"]}}\n  benchmark: {{concurrencies: [[1], [2]]}}\n'
    report, matrix = import_one(text)
    assert (report.jobs, report.kept) == (3, 3)
    for words in (
        'concurrency: [64, 128], time_limit: "1:00:00"',
        'concurrency: [1], time_limit: "2:00:00"',
        'concurrency: [2], time_limit: "3:00:00"',
    ):
        assert words in matrix


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([("engine: {type: vllm, connector: null}", "engine: sglang")], "'engine' is the text 'sglang'; only vllm is supported"),
        ([("    nodes: 1\n    workers: 1\n    gpus: 4\n    env: {DYN_LOG: error}\n    args:\n      served-model-name: org/model\n      tensor-parallel-size: 4\n      max-model-len: 10240\n      max-num-seqs: 256",
           "    nodes: colocate\n    workers: 1\n    gpus: 4\n    args:\n      served-model-name: org/model\n      tensor-parallel-size: 4\n      max-model-len: 10240\n      max-num-seqs: 256")],
         "prefill and decode have 1 nodes, but 1 x 4 and 1 x 4 GPUs take 2 of 4 [srt-nodes]"),
        ([("resources:", "services: [{name: m, type: mooncake-master}]\nresources:")], "a service of type 'mooncake-master'"),
        ([("roles:", "rolls: {}\nroles:")], "'rolls' is no key of an srt-slurm recipe; did you mean 'roles'?"),
        ([("nodes: 1", "nodes: one")], "'roles.prefill.nodes' is the text 'one'; expected a whole number"),
        ([("resources:", "services: [{type: etcd, placement: {node: dedicatd}}]\nresources:")],
         "'services[0].placement.node' is the text 'dedicatd'; expected head, infra, dedicated, prefill, decode, agg, workers; did you mean 'dedicated'? [srt-type]"),
        ([("type: dynamo,", "type: dynamo, placement: {node: dedicatd},")],
         "'frontend.placement.node' is the text 'dedicatd'; expected head, first_decode, dedicated; did you mean 'dedicated'? [srt-type]"),
    ],
)  # fmt: skip
def test_the_second_layout_is_refused_by_its_own_keys(changes: list[tuple[str, str]], reason: str) -> None:
    report, _ = import_one(changed(V2, *changes))
    assert any(reason in one for one in reasons(report)), reasons(report)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("resources:", "services: [{name: etcd, type: etcd, placement: {node: dedicated}}, {name: nats, type: nats}]\nresources:")], "infra: {dedicated_node: true}"),
        ([("type: dynamo,", "type: dynamo, placement: {node: dedicated},")], "infra: {dedicated_node: true}"),
        ([("source: {pypi: 1.2.1}, install: false", "source: {git: https://example.org/dynamo.git, rev: abc}")], "source: https://example.org/dynamo.git@abc"),
        ([("engine: {type: vllm, connector: null}", "engine: vllm")], "kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}"),
    ],
)  # fmt: skip
def test_the_second_layouts_own_words_have_their_meaning(changes: list[tuple[str, str]], expected: str) -> None:
    report, text = import_one(changed(V2, *changes))
    assert expected in text, (reasons(report), text)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("slurm:", "setup_script: 'x;y'\nslurm:"), "7:15: as a matrix: setup_script"),
        (("vllm/vllm-openai:v0.28.0", "a b"), "2:42: as a matrix: runtime.image"),
        (("hf:org/model", "/a b/c"), "2:15: as a matrix: model.repo"),
        (('"1:00:00"', '"0:01:00"'), "7:21: as a matrix: a time limit below 2 minutes"),
        (("slurm:", "health_check: {max_attempts: 99999999}\nslurm:"), "7:1: as a matrix: deadlines.ready"),
        (("4x16", str(list(range(1, 102)))), "43:18: as a matrix: points[0].concurrency: expected 100 or fewer entries"),
        (("8192", "99999999999"), "41:8: as a matrix: workload.isl"),
    ],
)
def test_what_a_matrix_refuses_is_told_at_the_recipes_key(change: tuple[str, str], place: str) -> None:
    for text in (V1, changed(V1, ("DYN_LOG: error", f"LONG: {'x' * 200}"))):  # points on one line, and on several
        report, _ = import_one(changed(text, change))
        assert [one.startswith(f"a.yaml:{place}") for one in reasons(report)] == [True], reasons(report)


@pytest.mark.parametrize(
    ("limit", "written"),
    [("999:59:59", '"999:59:59"'), ("999-00:00:00", "999-00:00:00"), ("41-16:00:01", "41-16:00:01"), ("1-00:00:00", '"24:00:00"')],
)
def test_long_time_limits_are_told_in_days(limit: str, written: str) -> None:
    _, text = import_one(changed(V1, ('"1:00:00"', f'"{limit}"')))
    assert f"time_limit: {written}}}" in text


def test_a_name_that_is_cut_is_noted() -> None:
    report, text = import_one(changed(V1, ("tiny-1xtp4-1xtp4-cc4-16", "x" * 61)))
    assert [str(note) for note in report.notes] == [
        f"a.yaml:1:7: the name '{'x' * 61}' is longer than 60 characters: the matrix is called '{'x' * 60}'"
    ]
    assert f"name: {'x' * 60}\n" in text


INFRA = ("slurm:", "infra: {etcd_nats_dedicated_node: true}\nslurm:")
TEN = ("enable_multiple_frontends: false", "enable_multiple_frontends: true")
ALONE = (TEN[0], f"{TEN[1]}, dedicated_node: true")
THREE = (TEN[0], f"{TEN[1]}, num_additional_frontends: 2")


@pytest.mark.parametrize(
    ("changes", "place", "theirs", "ours"),
    [
        ([TEN], "17:1: on 2", "one front end on node 1, behind nginx on node 0", "is one front end on node 0"),
        ([INFRA, TEN], "18:1: on 3", "one front end on node 2, behind nginx on node 1", "are 2 front ends on nodes 1-2, behind nginx on node 0"),
        ([INFRA, TEN, *THREE_NODES],
         "18:1: on 4", "2 front ends on nodes 2-3, behind nginx on node 1", "are 3 front ends on nodes 1-3, behind nginx on node 0"),
        ([INFRA, THREE, ("prefill_nodes: 1", "prefill_nodes: 3"), ("prefill_workers: 1", "prefill_workers: 3")],
         "18:85: on 5", "3 front ends on nodes 2-4, behind nginx on node 1", "are 3 front ends on nodes 1-3, behind nginx on node 0"),
    ],
)  # fmt: skip
def test_front_ends_that_srtctl_places_otherwise_are_noted(changes: list[tuple[str, str]], place: str, theirs: str, ours: str) -> None:
    report, _ = import_one(changed(V1, *changes))
    assert f"a.yaml:{place} nodes, counted from 0, srtctl has {theirs}; here there {ours}" in map(str, report.notes)


def test_a_front_end_beside_a_node_for_etcd_alone_is_noted() -> None:
    report, _ = import_one(changed(V1, INFRA))
    told = "beside a node for etcd alone, srtctl has the front end on the first worker's node; here that node has both"
    assert f"a.yaml:7:1: {told}" in map(str, report.notes)


@pytest.mark.parametrize("changes", [[], [TEN, *THREE_NODES], [ALONE], [INFRA, ALONE], [THREE, *THREE_NODES]])
def test_front_ends_that_stand_as_srtctl_places_them_are_not_noted(changes: list[tuple[str, str]]) -> None:
    report, _ = import_one(changed(V1, *changes))
    assert not any("counted from 0" in str(note) or "beside a node" in str(note) for note in report.notes)


def test_of_two_nodes_that_leave_their_front_ends_to_srtctl_one_is_not_written() -> None:
    """One could not stand behind nginx on another node than the first."""
    small = changed(V1, (", enable_multiple_frontends: false", ""))
    large = changed(small, ("1xtp4-1xtp4-cc4-16", "2xtp4-1xtp4-cc4-16"), *THREE_NODES)
    report, text = import_one(small)
    assert "frontend" not in text
    assert len(report.notes) == 1
    (both,) = import_texts(small, large).matrices.values()
    assert b"\nfrontend:\n  replicas: 10\n" in both
    assert [len(plan.front_ends) for plan in plan_matrix(both, "m")] == [1, 2]


def test_a_sweep_without_a_template_is_one_point_with_a_note() -> None:
    report, text = import_one(V1 + "sweep: {x: [1, 2]}\n")
    assert (report.jobs, report.kept, text.count("- {prefill")) == (1, 1, 1)
    assert [str(note) for note in report.notes] == ["a.yaml:45:9: '{x}' stands nowhere in the recipe: its values make equal jobs, each imported once"]


def test_a_text_that_looks_like_a_date_stays_a_text() -> None:
    _, text = import_one(changed(V1, ("DYN_LOG: error", 'DAY: "2026-01-01"')))
    assert 'DAY: "2026-01-01"\n' in text


EVENTS = ("connector: null", "connector: null\n  kv_events_config: ")


@pytest.mark.parametrize("written", ["false", "null", "{}", "{prefill: false, decode: null}"])
def test_kv_events_that_are_off_leave_nothing(written: str) -> None:
    report, text = import_one(changed(V1, (EVENTS[0], EVENTS[1] + written)))
    assert (report.outcome, text) == (Outcome.IMPORTED, import_one(V1)[1])


@pytest.mark.parametrize(
    ("written", "on", "note"),
    [
        ("{prefill: true, decode: true}", True, "'backend.kv_events_config.decode' is left out: decode workers publish no KV events"),
        ("{decode: {publisher: zmq}}", False, "'backend.kv_events_config.decode' is left out"),
        ("{aggregated: true}", False, "'backend.kv_events_config.aggregated' is left out: the recipe gives agg no nodes"),
    ],
)
def test_kv_events_of_workers_that_publish_none_are_left_out(written: str, on: bool, note: str) -> None:
    report, text = import_one(changed(V1, (EVENTS[0], EVENTS[1] + written)))
    assert any(note in str(one) for one in report.notes), report.notes
    assert ("kv_events: true" in text) is on
    assert (report.outcome, "kv_events" in text) == (Outcome.NOTED, on)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("{prefill: {topic: mine}}", "a.yaml:21:32: 'backend.kv_events_config.prefill.topic' is not supported: events are published as by `true`"),
        ("{prefill: {endpoint: 'tcp://*:5557'}}", "'backend.kv_events_config.prefill.endpoint' is not supported"),
        ("{prefill: {enable_kv_cache_events: false}}", "'backend.kv_events_config.prefill.enable_kv_cache_events' is not supported"),
        ("{prefil: true}", "'backend.kv_events_config.prefil' is no key of an srt-slurm recipe; did you mean 'prefill'?"),
        ("{prefill: 5557}", "'backend.kv_events_config.prefill' is the number 5557; expected true, or a mapping of settings"),
        ("[prefill]", "'backend.kv_events_config' is a list; expected true, or a mapping of roles"),
    ],
)
def test_other_kv_events_are_refused_at_their_key(written: str, reason: str) -> None:
    report, text = import_one(changed(V1, (EVENTS[0], EVENTS[1] + written)))
    assert (report.outcome, text) == (Outcome.REFUSED, "")
    assert any(reason in one for one in reasons(report)), reasons(report)


def test_kv_events_and_a_flag_for_them_are_refused_at_the_flag() -> None:
    flag = ("max-num-seqs: 32 # enough", "max-num-seqs: 32\n      kv-events-config: {publisher: zmq}")
    report, _ = import_one(changed(V1, (EVENTS[0], EVENTS[1] + "true"), flag))
    assert any("a.yaml:32:7: as a matrix: 'kv-events-config' of prefill and `kv_events` both decide" in one for one in reasons(report)), reasons(
        report
    )


def test_true_switches_nothing_on_for_aggregated_workers() -> None:
    agg = export_point(plan_one(matrix_of(agg_point("1xTP4"))))
    for written, on in (("true", False), ("{aggregated: true}", True)):
        report, text = import_one(changed(agg, ("  connector: null\n", f"  connector: null\n  kv_events_config: {written}\n")))
        assert ("kv_events: true" in text) is on
        assert any("`true` is for prefill and decode" in str(one) for one in report.notes) is not on


def test_jobs_that_differ_in_kv_events_become_two_matrices() -> None:
    made = import_texts(V1, changed(V1, (EVENTS[0], EVENTS[1] + "true"), ("4x16", "32")))
    assert sorted(("kv_events" in data.decode()) for data in made.matrices.values()) == [False, True]


def test_engines_get_the_settings_that_srtctl_gives() -> None:
    assert json.loads(KV_EVENTS.filled("7")) == {**DEFAULTS, "endpoint": "tcp://*:7"}


@pytest.mark.parametrize("name", ["a\nsetup_script: evil.sh\n#.yaml", "a\u2028b.yaml", "a\rb.yaml", "a\udcff.yaml", "a\x85b.yaml"])
def test_the_name_of_a_file_writes_nothing_into_a_matrix_but_its_comment(name: str) -> None:
    other = changed(V1, ("4x16", "64"))
    made = import_files([RecipeFile(file=name, folder="", data=V1.encode()), RecipeFile(file=f"x{name}", folder="", data=other.encode())])
    (text,) = made.matrices.values()
    assert not [report.refused for report in made.reports if report.refused]
    matrix = parse_matrix(text.decode(), "matrix.yaml")
    assert (matrix.job.setup_script, len(matrix.points)) == ("", 2)
