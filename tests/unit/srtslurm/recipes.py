"""Small srt-slurm recipes for tests, of both layouts."""

from __future__ import annotations

from recipegen.srtslurm.report import FileReport
from recipegen.srtslurm.run import Import, RecipeFile, import_files

V1 = """\
name: tiny-1xtp4-1xtp4-cc4-16
model: {path: "hf:org/model", container: "vllm/vllm-openai:v0.28.0", precision: fp8}
identity:
  model: {repo: org/model, revision: "0123456789abcdef0123456789abcdef01234567"}
  frameworks: {dynamo: 1.2.1, vllm: 0.28.0}
dynamo: {version: 1.2.1, install: false}
slurm: {time_limit: "1:00:00"}
resources:
  gpu_type: gb300
  gpus_per_node: 4
  prefill_nodes: 1
  prefill_workers: 1
  gpus_per_prefill: 4
  decode_nodes: 1
  decode_workers: 1
  gpus_per_decode: 4
frontend: {type: dynamo, enable_multiple_frontends: false}
backend:
  type: vllm
  connector: null
  prefill_environment:
    DYN_LOG: error
  decode_environment:
    DYN_LOG: error
  vllm_config:
    prefill:
      served-model-name: org/model
      tensor-parallel-size: 4
      max-model-len: 10240
      max-num-seqs: 32 # enough
      kv-transfer-config: '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
    decode:
      served-model-name: org/model
      tensor-parallel-size: 4
      max-model-len: 10240
      # grows with the load
      max-num-seqs: 256
      kv-transfer-config: '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
benchmark:
  type: sa-bench
  isl: 8192
  osl: 1024
  concurrencies: 4x16
  req_rate: inf
"""

V2 = """\
schema: 2
name: tiny-1xtp4-1xtp4-cc4-16
model: {path: "hf:org/model", container: "vllm/vllm-openai:v0.28.0", precision: fp8}
identity:
  model: {repo: org/model, revision: "0123456789abcdef0123456789abcdef01234567"}
  frameworks: {dynamo: 1.2.1, vllm: 0.28.0}
dynamo: {source: {pypi: 1.2.1}, install: false}
slurm: {time_limit: "1:00:00"}
resources: {gpu_type: gb300, gpus_per_node: 4}
frontend: {type: dynamo, enable_multiple_frontends: false}
engine: {type: vllm, connector: null}
roles:
  prefill:
    nodes: 1
    workers: 1
    gpus: 4
    env: {DYN_LOG: error}
    args:
      served-model-name: org/model
      tensor-parallel-size: 4
      max-model-len: 10240
      max-num-seqs: 32
      kv-transfer-config: '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
  decode:
    nodes: 1
    workers: 1
    gpus: 4
    env: {DYN_LOG: error}
    args:
      served-model-name: org/model
      tensor-parallel-size: 4
      max-model-len: 10240
      max-num-seqs: 256
      kv-transfer-config: '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
benchmark: {type: sa-bench, isl: 8192, osl: 1024, concurrencies: 4x16, req_rate: inf}
"""


def changed(text: str, *changes: tuple[str, str]) -> str:
    """The recipe with texts replaced; each must be there."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def import_texts(*texts: str) -> Import:
    """Import recipes of one folder, called a.yaml, b.yaml, ..."""
    return import_files([RecipeFile(file=f"{chr(ord('a') + n)}.yaml", folder="", data=text.encode()) for n, text in enumerate(texts)])


def import_one(text: str) -> tuple[FileReport, str]:
    """Import one recipe; the report, and the text of its only matrix, empty where there is none."""
    made = import_texts(text)
    (report,) = made.reports
    assert len(made.matrices) <= 1
    return report, next((data.decode() for data in made.matrices.values()), "")


def reasons(report: FileReport) -> list[str]:
    return [f"{problem} [{problem.rule}]" for one in report.refused for problem in one.problems]
