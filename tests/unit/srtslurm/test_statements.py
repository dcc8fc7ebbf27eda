"""Statements that contradict each other, sweeps in texts, lengths that are none, and block sizes that an import adds."""

from __future__ import annotations

import pytest

from recipegen.catalogue import load_model
from recipegen.pipeline import plan_matrix
from tests.unit.srtslurm.recipes import V1, V2, changed, import_one, import_texts, reasons

STUDIED = load_model("qwen3.8-2.4t-nvfp4")


@pytest.mark.parametrize("value", ["0", "8192.0", "many", "[1]"])
def test_a_length_that_is_none_is_told_once(value: str) -> None:
    """It is there, so that nothing is missing."""
    (reason,) = reasons(import_one(changed(V1, ("isl: 8192", f"isl: {value}")))[0])
    assert reason.startswith("a.yaml:41:8: 'benchmark.isl' is ")
    assert "missing" in reasons(import_one(changed(V1, ("  isl: 8192\n", "")))[0])[0]


def test_expert_parallelism_that_is_said_both_ways_is_off() -> None:
    _, text = import_one(
        changed(V1, ("tensor-parallel-size: 4", "data-parallel-size: 4\n      enable-expert-parallel: true\n      no-enable-expert-parallel: true"))
    )
    assert "expert_parallel" not in text
    assert "{prefill: 1xDP4, decode: 1xDP4," in text


def test_a_service_on_workers_nodes_stands_on_the_first_with_a_note() -> None:
    report, text = import_one(
        changed(V2, ("resources:", "services: [{type: etcd, placement: {node: workers}}, {type: nats, placement: {node: head}}]\nresources:"))
    )
    assert [one.message for one in report.notes] == ["'services[0].placement.node' is left out: etcd and NATS stand on the job's first node"]
    assert "infra" not in text


SWEPT = [("name: tiny-1xtp4-1xtp4-cc4-16", "sweep: {x: [1, 2]}\nname: tiny-1xtp4-1xtp4-cc4-16")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("DYN_LOG: error", 'DYN_LOG: "{x}"'), ['DYN_LOG: "1"', 'DYN_LOG: "2"']),
        (("served-model-name: org/model", 'served-model-name: "{x}"'), ['served_name: "1"', 'served_name: "2"']),
        (("max-num-seqs: 256", 'max-num-seqs: "{x}"'), ["max-num-seqs: 1", "max-num-seqs: 2"]),
        (("connector: null", 'setup_script: "{x}"\n  connector: null'), None),
        (('container: "vllm/vllm-openai:v0.28.0"', 'container: "{x}"'), ['image: "1"', 'image: "2"']),
        (("type: sa-bench", 'type: sa-bench\n  dataset_name: "{x}"'), ['dataset: "1"', 'dataset: "2"']),
    ],
)
def test_a_sweeps_value_is_a_text_where_one_belongs(change: tuple[str, str], words: list[str] | None) -> None:
    if words is None:
        recipe = changed(V1, ("slurm:", 'setup_script: "{x}"\nslurm:'), *SWEPT)
        words = ['setup_script: "1"', 'setup_script: "2"']
    else:
        recipe = changed(V1, change, *SWEPT)
    made = import_texts(recipe)
    texts = "\n".join(data.decode() for data in made.matrices.values())
    assert all(word in texts for word in words), (reasons(made.reports[0]), texts)


def test_a_whole_name_may_be_a_sweeps_value() -> None:
    made = import_texts(changed(V1, ("name: tiny-1xtp4-1xtp4-cc4-16", 'sweep: {x: [a, 12, true]}\nname: "{x}"')))
    assert list(made.matrices) == ["a/matrix.yaml", "12/matrix.yaml", "true/matrix.yaml"]


def test_a_list_of_a_sweep_is_no_text() -> None:
    report, _ = import_one(changed(V1, ("DYN_LOG: error", 'DYN_LOG: "{x}"'), ("name: tiny", "sweep: {x: [[1, 2]]}\nname: tiny")))
    assert "'backend.prefill_environment.DYN_LOG' is a list; expected text, in quotes [srt-env]" in reasons(report)[0]


def test_a_block_size_that_recipegen_adds_is_noted_at_the_role() -> None:
    """A hybrid model whose sides have blocks of their own sizes."""
    hybrid = changed(V1, ("hf:org/model", f"hf:{STUDIED.repo}"), ("repo: org/model", f"repo: {STUDIED.repo}"))
    apart = changed(hybrid, ("decode_nodes: 1", "decode_nodes: 2"), ("gpus_per_decode: 4", "gpus_per_decode: 8"))
    head, _, tail = apart.rpartition("tensor-parallel-size: 4")
    report, text = import_one(f"{head}tensor-parallel-size: 8{tail}")
    (plan,) = plan_matrix(text, "matrix.yaml")
    sizes = {role.recipe.flag("block-size") for role in plan.roles}
    told = f"a.yaml:11:3: recipegen sets block-size {sizes.pop()} on both sides, which NIXL needs as their own differ; the recipe sets none"
    assert told in map(str, report.notes), reasons(report)
    assert not any("block-size" in str(note) for note in import_one(hybrid)[0].notes)
