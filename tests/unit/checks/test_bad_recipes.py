"""Recipes that other launchers accept, or refuse without a place: the same fault in our matrix has a rule and a place."""

from __future__ import annotations

import time

import pytest

from recipegen.checks.finding import Severity
from recipegen.pipeline import check_matrix
from tests.support import LEAF
from tests.unit.checks.test_input_rules import BOMB, place

MATRIX = (LEAF / "matrix.yaml").read_text()
PREFILL = "prefill: 2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [512]"
"""Of the point that the bad recipes are made from."""
ARGS = "    max-num-seqs: 32 "
"""Among the flags of prefill."""
ENV = "    DYN_LOG: error\n"

CASES = [  # the bad recipe, text in the published matrix, what stands there instead, the rule, where it is said to be broken
    ("01_unknown_top", "\nhardware:", "\nfontend: {type: dynamo}\nhardware:", "schema-unknown-key", "fontend"),
    ("unknown_nested", "{isl: 8192,", "{islx: 1, isl: 8192,", "schema-unknown-key", "islx"),
    ("03_unknown_vllm_flag", ARGS, f"    tensor-paralel-size: 2\n{ARGS}", "flag-unknown", "tensor-paralel-size"),
    ("05_wrong_type_tp", PREFILL, PREFILL.replace("2xTP2DP4", "2xTPtwoDP4"), "topology-notation", "2xTPtwoDP4"),
    ("06_gpu_mismatch", PREFILL, PREFILL.replace("2xTP2DP4", "{shape: 2xTP2DP4, gpus: 12}"), "worker-gpus", "12}"),
    ("08_missing_alias", "qwen3.8-2.4t-nvfp4\nhard", "qwen38-alias-not-there\nhard", "model-unknown", "qwen38-alias"),
    ("duplicate_key", ARGS, f"    max-num-seqs: 64\n{ARGS}", "yaml-duplicate", "max-num-seqs: 32"),
    ("10_tabs", "  image:", "\timage:", "yaml-tab", "\timage"),
    ("11_empty", MATRIX, "", "yaml-mapping", ""),
    ("15_shell_env", ENV, f"{ENV}    'BAD NAME;touch /tmp/pwned;': x\n", "schema-value", "'BAD NAME"),
    ("16_shell_name", "name: qwen38", 'name: "x\\n#SBATCH --wrap=evil\\n$(touch /tmp/pwned)" #', "schema-value", '"x\\n'),
    ("name_traversal", "name: qwen38", "name: ../../../../tmp/evil #", "schema-value", "../../../../tmp"),
    ("18_name_spaces", "name: qwen38", "name: my job; rm -rf $HOME #", "schema-value", "my job"),
    ("20_setup_traversal", "image: vllm", "image: ../../../etc/passwd #", "path-traversal", "../../../etc"),
    ("21_block_mismatch", ARGS, f"    block-size: 2176\n{ARGS}", "pd-block-size", "2176"),
    ("23_neg_nodes", PREFILL, PREFILL.replace("2xTP2DP4", "-4xTP2DP4"), "topology-notation", "-4xTP2DP4"),
    ("zero_workers", PREFILL, PREFILL.replace("2xTP2DP4", "0xTP2DP4"), "topology-notation", "0xTP2DP4"),
    ("25_time", '[2560], time_limit: "2:00:00"', "[2560], time_limit: 5400", "schema-type", "5400"),
    ("26_time_sexagesimal", '[2560], time_limit: "2:00:00"', "[2560], time_limit: 1:30:00", "yaml-scalar", "1:30:00}"),
    ("benchmark_type", "type: sa-bench", "type: sa_bench", "schema-value", "sa_bench"),
    ("28_no_concurrency", ", concurrency: [2560]", "", "schema-missing", "{prefill: 4xTP2DP4"),
    ("concurrency_text", "concurrency: [2560]", 'concurrency: "1,2,4"', "schema-type", '"1,2,4"'),
    ("30_env_int", ENV, f"{ENV}    NCCL_MNNVL_ENABLE: 1\n", "schema-type", "1\n    DYN_SDK"),
    ("31_env_bool", ENV, f"{ENV}    FLAG: true\n", "schema-type", "true\n    DYN_SDK"),
    ("list", MATRIX, "- a\n- b\n", "yaml-mapping", "- a"),
    ("33_scalar", MATRIX, "hello\n", "yaml-mapping", "hello"),
    ("benchmark_null", "{benchmark: {type: gsm8k}}", "{benchmark: null}", "schema-type", "null}"),
    ("36_gputype", "gb300-nvl72", "gb999", "hardware-unknown", "gb999"),
    ("connector_json", "{kv_connector: NixlConnector, kv_role: kv_both, kv_load_failure_policy: fail}", "'{broken'", "flag-json", "'{broken'"),
    ("38_two_spellings", ARGS, f"    max_num_seqs: 4\n{ARGS}", "flag-twice", "max-num-seqs: 32"),
    ("38_two_spellings", ARGS, f"    tensor_parallel_size: 4\n{ARGS}", "flag-owned", "tensor_parallel_size: 4\n"),
    ("one_connector", ARGS, f"    kv-transfer-config: null\n{ARGS}", "pd-connector", "{kv_connector"),
    ("41_segment_over18", PREFILL, PREFILL.replace("2xTP2DP4", "10xTP2DP4"), "topology-segment", "{prefill: 10x"),
    ("segment_24", PREFILL, PREFILL.replace("1xTP4DP4", "5xTP4DP4"), "topology-segment", "{prefill: 2xTP2DP4, decode: 5x"),
    ("43_maxlen_small", "max_model_len: 10240", "max_model_len: 4096", "capacity-model-len", "4096}"),
    ("43_maxlen_small", ARGS, f"    max-model-len: 4096\n{ARGS}", "flag-owned", "max-model-len: 4096\n"),
    ("45_bool_no", "install: present", "install: 'no'", "schema-value", "'no'"),
    ("45_bool_no", "install: present", "install: no", "yaml-scalar", "no}"),
    ("46_frac_nodes", PREFILL, PREFILL.replace("2xTP2DP4", "4.7xTP2DP4"), "topology-notation", "4.7xTP2DP4"),
    ("alias_bomb", "name: qwen38", f"{BOMB}name: qwen38", "yaml-alias", "*a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3, *a3]\na5"),
    ("48_python_tag", "\nhardware:", '\nenvironment: !!python/object/apply:os.system ["id"]\nhardware:', "yaml-tag", "!!python"),
]
WITHOUT_EQUIVALENT = {
    "35_precision": "the weights' type stands in the model's data file, whose words are checked when it is added",
    "36_gpus_per_node": "GPUs of a node are the hardware's, not the recipe's",
    "40_nodes_excess": "nodes are derived from workers and topology: none can be left over",
    "20_setup_script": "there is no set-up script; the key would be unknown",
    "50_env2000": "two thousand variables are no fault; they must not take long",
    "50_env20000": "nor are twenty thousand",
}
"""Bad recipes whose fault a matrix cannot say."""


@pytest.mark.parametrize(("recipe", "old", "new", "rule", "marker"), CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_the_fault_of_a_bad_recipe_is_refused_with_its_place(recipe: str, old: str, new: str, rule: str, marker: str) -> None:
    assert recipe not in WITHOUT_EQUIVALENT
    assert old in MATRIX
    text = MATRIX.replace(old, new, 1)
    found = check_matrix(text.encode(), "matrix.yaml").findings
    errors = [(f.rule, (f.source.line, f.source.column)) for f in found if f.severity is Severity.ERROR]
    assert (rule, place(text, marker)) in errors


def test_text_that_is_not_utf_8_is_refused_with_its_place() -> None:
    (finding,) = check_matrix(MATRIX.encode().replace(b"name: qwen38", b"name: \xff"), "matrix.yaml").findings
    assert (finding.rule, finding.source.line, finding.source.column) == ("text-encoding", MATRIX[: MATRIX.index("name: qwen38")].count("\n") + 1, 7)


def test_a_byte_order_mark_and_windows_line_ends_are_harmless() -> None:
    text = b"\xef\xbb\xbf" + MATRIX.replace("\n", "\r\n").encode()
    assert [f for f in check_matrix(text, "matrix.yaml").findings if f.severity is not Severity.NOTE] == []


def test_a_command_in_a_value_is_a_value() -> None:
    text = MATRIX.replace(ENV, f"{ENV}    FOO: '$(touch /tmp/pwned); `id`'\n", 1)
    checked = check_matrix(text.encode(), "matrix.yaml")
    assert checked.errors == ()
    assert ("FOO", "$(touch /tmp/pwned); `id`") in [(var.name, var.value) for var in checked.plans[0].processes[0].env]


@pytest.mark.parametrize("count", [2_000, 20_000])
def test_thousands_of_variables_take_seconds_at_most(count: int) -> None:
    text = MATRIX.replace(ENV, ENV + "".join(f"    V{number}: x\n" for number in range(count)), 1)
    began = time.monotonic()
    check_matrix(text.encode(), "matrix.yaml", points=["1xtp8-1xtp8-mtp-cc1-4"])
    assert time.monotonic() - began < 20
