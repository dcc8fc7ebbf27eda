"""Capacity rules: each on a point that breaks it, and on one that just does not; the published points break none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from recipegen.checks import handshake_rules, topology_rules
from recipegen.checks.capacity_rules import ROLE_RULES
from recipegen.checks.finding import Severity
from recipegen.checks.views import PointView, RoleView
from recipegen.model import Role
from tests.unit.checks.views_for_tests import (
    POINT,
    agg,
    architecture_of,
    found,
    pair,
    point_of,
    points_of,
    role_of,
    rules_of,
    severities,
    with_kv,
    with_weights,
)

RULES = rules_of(ROLE_RULES)
QWEN = architecture_of()
MODEL_LEN = "max_model_len: 10240"
LEAF = Path(__file__).parents[3] / "recipes/multi-node/Qwen3.8/GB300/8k1k/vllm/disagg/matrix.yaml"


def decode(flags: str = "", *, concurrency: int = 128, mtp: int = 3) -> str:
    return pair(decode=f"{{shape: 1xTP4DP4, args: {{{flags}}}}}", concurrency=concurrency, mtp=mtp)


def prefill(flags: str) -> str:
    return pair(f"{{shape: 1xTP2DP4, args: {{{flags}}}}}")


def decode_role(point: str = POINT) -> RoleView:
    return role_of(point_of(point), Role.DECODE)


def test_the_published_points_are_free_of_faults() -> None:
    rules = rules_of(ROLE_RULES, topology_rules.ROLE_RULES, topology_rules.POINT_RULES, handshake_rules.POINT_RULES).values()
    points = points_of(LEAF.read_bytes())
    assert len(points) == 8
    assert [f for view in points for rule in rules for f in found(rule, view) if f.severity is not Severity.NOTE] == []


def test_there_is_nothing_to_say_of_the_default_point() -> None:
    assert [finding for rule in RULES.values() for finding in found(rule, point_of())] == []


FLAGS = [
    (
        "capacity-batched-tokens",
        decode("max-num-batched-tokens: 79"),
        decode("max-num-batched-tokens: 80"),
        "79 is less than max-num-seqs 80",
        "error",
    ),
    (
        "capacity-batched-tokens",
        prefill("max-num-batched-tokens: 8192, enable-chunked-prefill: false"),
        prefill("max-num-batched-tokens: 10240, no-enable-chunked-prefill: true"),
        "8192 is less than max_model_len 10240, and chunked prefill is off",
        "error",
    ),
    (
        "capacity-step-tokens",
        decode("max-num-batched-tokens: 319", concurrency=320),
        decode("max-num-batched-tokens: 320", concurrency=320),
        "a step takes 319 tokens, and 80 requests x 4 are 320",
        "warning",
    ),
    (
        "capacity-step-tokens",  # 32 requests are asked of each rank, of 80 that it would take
        decode("max-num-batched-tokens: 127"),
        decode("max-num-batched-tokens: '128'"),
        "a step takes 127 tokens, and 32 requests x 4 are 128",
        "warning",
    ),
    ("capacity-batch", decode("max-num-seqs: 31"), decode("max-num-seqs: 32"), "31 is less than the 32 requests asked of each rank", "warning"),
    (
        "capacity-graphs",
        decode("max-cudagraph-capture-size: 319", concurrency=320),
        decode("max-cudagraph-capture-size: 320", concurrency=320),
        "up to 319 tokens, and the batch that is asked for has 320",
        "warning",
    ),
    (
        "capacity-graphs",
        decode("max-cudagraph-capture-size: 127"),
        decode("max-cudagraph-capture-size: 128"),
        "up to 127 tokens, and the batch that is asked for has 128",
        "warning",
    ),
    (
        "capacity-graphs",
        decode("max-cudagraph-capture-size: null, cudagraph-capture-sizes: [4, 64]"),
        decode("max-cudagraph-capture-size: null, cudagraph-capture-sizes: [4, 320]"),
        "up to 64 tokens",
        "warning",
    ),
    (
        "capacity-graphs",
        decode("max-cudagraph-capture-size: null, max-num-seqs: 288, max-num-batched-tokens: 2048", concurrency=1152),
        decode("max-cudagraph-capture-size: null, max-num-seqs: 288, max-num-batched-tokens: 2048", concurrency=1024),
        "up to 1024 tokens, and the batch that is asked for has 1152",
        "warning",
    ),
    (
        "capacity-graphs",
        decode("max-cudagraph-capture-size: 64"),
        decode("max-cudagraph-capture-size: 64, enforce-eager: true"),
        "up to 64",
        "warning",
    ),
    ("capacity-graphs", decode("max-cudagraph-capture-size: 64"), prefill("max-cudagraph-capture-size: 64"), "up to 64", "warning"),
    (
        "capacity-capture-list",
        decode("cudagraph-capture-sizes: [4, 316]"),
        decode("cudagraph-capture-sizes: [4, 320, 1024]"),
        "max-cudagraph-capture-size is 320, but the largest of cudagraph-capture-sizes is 316",
        "error",
    ),
    (
        "capacity-capture-list",
        prefill("compilation-config: {cudagraph_capture_sizes: [4, 8], max_cudagraph_capture_size: 16}"),
        prefill("compilation-config: {cudagraph_capture_sizes: [4, 8]}"),
        "is 16, but the largest",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("max-cudagraph-capture-size: 0"),
        decode("max-cudagraph-capture-size: 4"),
        "max-cudagraph-capture-size 0 captures nothing; vLLM refuses to start",
        "error",
    ),
    (
        "capacity-capture-list",
        prefill("max-cudagraph-capture-size: -1"),
        prefill("max-cudagraph-capture-size: 1"),
        "max-cudagraph-capture-size -1 captures nothing",
        "error",
    ),
    (
        "capacity-capture-list",
        prefill("compilation-config: {cudagraph_capture_sizes: []}"),
        prefill("compilation-config: {cudagraph_capture_sizes: [], cudagraph_mode: NONE}"),
        "the list of cudagraph-capture-sizes is empty",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("cudagraph-capture-sizes: [0]"),
        decode("cudagraph-capture-sizes: [0], enforce-eager: true"),
        "is 320, but the largest of cudagraph-capture-sizes is 0",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("cudagraph-capture-sizes: -1"),
        decode("cudagraph-capture-sizes: '320'"),
        "is 320, but the largest of cudagraph-capture-sizes is -1",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("cudagraph-capture-sizes: [1000000000]"),
        decode("cudagraph-capture-sizes: [1000000000], max-cudagraph-capture-size: null"),
        "is 320, but of cudagraph-capture-sizes none is within 336",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("max-cudagraph-capture-size: 7", mtp=7),
        decode("max-cudagraph-capture-size: 8", mtp=7),
        "the largest graph has 4 tokens, and a request with speculation 8: no size is left",
        "error",
    ),
    (
        "capacity-capture-list",
        decode("max-cudagraph-capture-size: null, cudagraph-capture-sizes: [1, 2]"),
        decode("max-cudagraph-capture-size: null, cudagraph-capture-sizes: [1, 2], compilation-config: {cudagraph_mode: PIECEWISE}"),
        "the largest graph has 2 tokens, and a request with speculation 4",
        "error",
    ),
    (
        "capacity-capture-cut",
        decode("max-cudagraph-capture-size: 337"),
        decode("max-cudagraph-capture-size: 336"),
        "337 exceeds max-num-batched-tokens 336",
        "warning",
    ),
    (
        "capacity-state-dtype",
        decode("mamba-ssm-cache-dtype: null"),
        decode("mamba-ssm-cache-dtype: float32"),
        "at TP4 blocks of 4224 tokens instead of 2176",
        "warning",
    ),
    (
        "capacity-prefix-caching",
        decode("no-enable-prefix-caching: null"),
        decode("no-enable-prefix-caching: null, enable-prefix-caching: true"),
        "20 instead of 17 blocks, 76.5 MiB of each GPU",
        "warning",
    ),
    (
        "capacity-speculation",
        decode("async-scheduling: true, speculative-config: {method: ngram, num_speculative_tokens: 3}", mtp=0),
        decode("speculative-config: {method: ngram, num_speculative_tokens: 3}", mtp=0),
        "does not go with speculation by ngram",
        "error",
    ),
    (
        "capacity-utilization",
        decode("gpu-memory-utilization: 0.99"),
        decode("gpu-memory-utilization: 0.95"),
        "0.99 leaves 2.8 of 276.62 GiB",
        "warning",
    ),
    (
        "capacity-requests",
        decode("max-num-seqs: 400", concurrency=2560),
        decode("max-num-seqs: 400", concurrency=1024),
        "640 requests of 9280 tokens are asked of each rank, and",
        "warning",
    ),
    ("capacity-block-size", decode("block-size: 100"), decode("block-size: 1088"), "block-size 100 makes blocks of 2200 tokens: attention", "error"),
    (
        "capacity-block-size",
        decode("block-size: 2200"),
        decode("block-size: 2208"),
        "block-size 2200: attention kernels take multiples of 16",
        "error",
    ),
    (
        "capacity-not-sized",
        decode("cpu-offload-gb: 10"),
        decode("cpu-offload-gb: 0"),
        "cpu-offload-gb changes memory in a way that is not sized",
        "note",
    ),
    (
        "capacity-weights",
        decode("kv-cache-memory-bytes: 200g"),
        decode("kv-cache-memory-bytes: 150g"),
        "102.2 GiB of weights and the 186.3 GiB of KV cache that kv-cache-memory-bytes asks exceed 276.6 GiB",
        "error",
    ),
    ("capacity-weights", pair(decode="1xTP4"), pair(decode="1xTP8"), "of weights on each GPU exceed 254.5 GiB (276.6 x 0.92)", "error"),
]


@pytest.mark.parametrize(("rule", "breaks", "holds", "says", "severity"), FLAGS)
def test_rule(rule: str, breaks: str, holds: str, says: str, severity: str) -> None:
    faults = found(RULES[rule], point_of(breaks))
    assert len(faults) == 1, faults
    assert says in faults[0].message
    assert faults[0].mend
    assert faults[0].source.line
    assert severities(faults) == [severity]
    assert found(RULES[rule], point_of(holds)) == []


def test_every_rule_is_tried() -> None:
    elsewhere = {"capacity-model-len", "capacity-model-len-position", "capacity-one-request", "capacity-state-blocks", "capacity-unmeasured"}
    assert {case[0] for case in FLAGS} | elsewhere == set(RULES)


@pytest.mark.parametrize(("length", "severity"), [(9215, ["error"]), (9216, ["warning"]), (9279, ["warning"]), (9280, [])])
def test_room_for_prompt_answer_and_template(length: int, severity: list[str]) -> None:
    """A fault of the workload: the same for every role and point."""
    faults = found(RULES["capacity-model-len"], point_of(POINT, (MODEL_LEN, f"max_model_len: {length}")))
    assert severities({(f.source, f.message): f for f in faults}.values()) == severity


@pytest.mark.parametrize(("length", "severity"), [(7372, "error"), (7373, "warning"), (9215, "warning")])
def test_lengths_that_vary_downwards(length: int, severity: str) -> None:
    """From 0.8 x 9216 = 7372.8 tokens on, only the longest requests are refused."""
    view = point_of(POINT, (MODEL_LEN, f"max_model_len: {length}"))
    recipe = replace(view.recipe, benchmark=replace(view.recipe.benchmark, random_range_ratio=0.8))
    faults = list(RULES["capacity-model-len"].findings(replace(view.roles[0], recipe=recipe)))
    assert severities(faults) == [severity]
    assert ("every request" in faults[0].message) is (severity == "error")


def test_a_length_beyond_the_positions() -> None:
    long = point_of(POINT, (MODEL_LEN, "max_model_len: 262145"))
    assert len({fault.message for fault in found(RULES["capacity-model-len-position"], long)}) == 1
    assert found(RULES["capacity-model-len-position"], point_of(POINT, (MODEL_LEN, "max_model_len: 262144"))) == []
    for meant in ("VLLM_ALLOW_LONG_MAX_MODEL_LEN: '1'", "DYN_LOG: error"):
        view = point_of(POINT, (MODEL_LEN, "max_model_len: 262145"), ("VLLM_SSM_CONV_STATE_LAYOUT: DS", meant))
        assert bool(found(RULES["capacity-model-len-position"], view)) is meant.startswith("DYN")
    stretched = point_of(
        pair(*(f"{{shape: {shape}, args: {{hf-overrides: {{a: 1}}}}}}" for shape in ("1xTP2DP4", "1xTP4DP4"))), (MODEL_LEN, "max_model_len: 262145")
    )
    assert found(RULES["capacity-model-len-position"], stretched) == []


@pytest.mark.parametrize(
    ("kv", "severity", "says"),
    [
        ((13, 13.1, 13.5), ["warning"], "31 fit (-3% head room) at most"),
        ((10, 12, 14), ["warning"], "28 fit (-12% head room) by the best estimate"),
        ((12, 14.5, 16), ["warning"], "34 fit (+6% head room) by the best estimate, but only 28 surely"),
        ((14, 14.5, 16), [], ""),
        ((13.1, 13.1, 13.1), ["warning"], "30 fit (-6% head room); the others"),
        ((-5, -4, 0.1), [], ""),
    ],
)
def test_requests_by_what_the_estimate_says(kv: tuple[float, float, float], severity: list[str], says: str) -> None:
    """A request takes 433.5 MiB, 32 are asked of each rank; below one request another rule speaks."""
    faults = list(RULES["capacity-requests"].findings(with_kv(decode_role(), *kv)))
    assert severities(faults) == severity
    assert all(says in fault.message for fault in faults)


def test_prefill_may_queue() -> None:
    assert list(RULES["capacity-requests"].findings(with_kv(role_of(point_of(), Role.PREFILL), 1, 1, 1))) == []


def test_an_aggregated_role_is_held_to_what_is_asked() -> None:
    (role,) = point_of(agg("1xTP4DP4", concurrency=128)).roles
    assert severities(RULES["capacity-requests"].findings(with_kv(role, 5, 5, 5))) == ["warning"]
    assert list(RULES["capacity-requests"].findings(with_kv(role, 50, 50, 50))) == []


def test_why_the_highest_concurrency_runs_without_mtp() -> None:
    """With MTP 3 a rank of TP4DP4 holds 315 requests, and 2560 ask 640 of it; 1024 ask 256."""
    flags = "max-num-seqs: 272, max-cudagraph-capture-size: 1088, max-num-batched-tokens: 1104"
    study = ("vllm: 0.28.0", "vllm: 0.26.1rc1.dev1177+ga9a17e709")
    (fault,) = found(RULES["capacity-requests"], point_of(decode(flags, concurrency=2560), study))
    assert "640 requests of 9280 tokens are asked of each rank, and 315 fit (-51% head room); the others wait" in fault.message
    assert found(RULES["capacity-requests"], point_of(decode(flags, concurrency=1024), study)) == []
    bare = "max-num-seqs: 656, max-cudagraph-capture-size: 656, max-num-batched-tokens: 672"
    assert found(RULES["capacity-requests"], point_of(decode(bare, concurrency=2560, mtp=0), study)) == []


@pytest.mark.parametrize(
    ("kv", "severity", "says"),
    [
        ((-3, -2, 0.42), ["error"], "takes 0.42 GiB of each GPU, and the KV cache has 0.42 at most"),
        ((-3, 0.4, 0.5), ["warning"], "the KV cache has 0.40 by the best estimate"),
        ((-3, 0.43, 0.5), [], ""),
    ],
)
def test_one_request(kv: tuple[float, float, float], severity: list[str], says: str) -> None:
    faults = list(RULES["capacity-one-request"].findings(with_kv(decode_role(), *kv)))
    assert severities(faults) == severity
    assert all(says in fault.message for fault in faults)


def test_weights_that_do_not_fit_are_said_alone() -> None:
    role = with_weights(with_kv(decode_role(), -10, -9, -8), 254.6)
    assert [rule for rule in RULES if list(RULES[rule].findings(role))] == ["capacity-weights"]
    assert list(RULES["capacity-weights"].findings(with_weights(role, 254.4))) == []


@pytest.mark.parametrize(("blocks", "mode", "faults"), [(79, "FULL_DECODE_ONLY", 1), (80, "FULL_DECODE_ONLY", 0), (79, "PIECEWISE", 0)])
def test_full_graphs_need_a_block_for_each_sequence(blocks: int, mode: str, faults: int) -> None:
    role = decode_role(decode(f"compilation-config: {{cudagraph_mode: {mode}}}"))
    gib = (blocks + 0.5) * 25.5 / 1024
    messages = [fault.message for fault in RULES["capacity-state-blocks"].findings(with_kv(role, gib, gib, gib))]
    assert len(messages) == faults
    assert all("max-num-seqs 80 exceeds the 79 blocks" in message for message in messages)


@pytest.mark.parametrize(("blocks", "faults"), [(1023, 1), (1024, 0)])
def test_full_graphs_by_vllms_own_number_of_sequences(blocks: int, faults: int) -> None:
    role = decode_role(decode("max-num-seqs: null, max-num-batched-tokens: 8192"))
    gib = (blocks + 0.5) * 25.5 / 1024
    messages = [fault.message for fault in RULES["capacity-state-blocks"].findings(with_kv(role, gib, gib, gib))]
    assert len(messages) == faults
    assert all("max-num-seqs 1024, vLLM's default, exceeds the 1023 blocks" in message for message in messages)


def test_a_long_max_model_len_costs_short_requests_nothing() -> None:
    """1,024 + 1,024 tokens: 256 of each rank fit at 2,112 tokens, where 184 of 262,144 would not."""
    lengths = ("workload: {isl: 8192, osl: 1024, max_model_len: 10240}", "workload: {isl: 1024, osl: 1024, max_model_len: 262144}")
    flags = "max-num-seqs: 272, max-cudagraph-capture-size: 1088, max-num-batched-tokens: 1104"
    view = point_of(decode(flags, concurrency=1024), lengths)
    assert found(RULES["capacity-requests"], view) == []
    sizes = role_of(view, Role.DECODE).sizes
    assert sizes
    assert sizes.room
    assert sizes.room.requests < sizes.asked <= sizes.room.workload_requests


def unmeasured(*changes: tuple[str, str], point: str = POINT) -> PointView:
    return point_of(point, ("hardware: gb300-nvl72", "hardware: gb200-nvl72"), *changes)


def test_without_measured_rows_there_is_one_note_for_all_points() -> None:
    """Not a warning for each: what fits has an upper bound only, and no lower end to warn of."""
    views = [unmeasured(point=pair(prefill, "1xTP4DP8", concurrency=64)) for prefill in ("1xTP4DP4", "2xTP4DP4")]
    said = [finding for view in views for rule in RULES.values() for finding in found(rule, view)]
    (note,) = set(said)
    assert (note.rule, note.severity, note.source.line) == ("capacity-unmeasured", Severity.NOTE, 0)
    assert "1xtp" not in note.message
    assert found(RULES["capacity-unmeasured"], point_of()) == []


def test_a_bound_that_is_too_small_is_said_all_the_same() -> None:
    """TP2DP4 on GB200: 208 GiB of weights; at TP8 a KV cache of 8 GiB at most."""
    assert "of weights on each GPU exceed" in found(RULES["capacity-weights"], unmeasured(point=pair(decode="1xTP2DP4")))[0].message
    tight = unmeasured(point=pair("1xTP4DP4", "1xTP8", concurrency=128))
    (fault,) = found(RULES["capacity-requests"], tight)
    assert "fit (" in fault.message
    assert "at most; the others" in fault.message
    assert fault.severity is Severity.WARNING
    assert [f for rule in RULES.values() for f in found(rule, tight) if f.severity is Severity.ERROR] == []


@pytest.mark.parametrize(("flags", "severity"), [("num-gpu-blocks-override: 545", []), ("num-gpu-blocks-override: 544", ["warning"])])
def test_a_given_number_of_blocks_is_judged_as_it_is(flags: str, severity: list[str]) -> None:
    """32 requests of 17 blocks, and the null block."""
    faults = found(RULES["capacity-requests"], point_of(decode(flags)))
    assert severities(faults) == severity
    assert all("31 fit (-3% head room); the others" in fault.message for fault in faults)


@pytest.mark.parametrize(
    "flag", ["cpu-offload-gb: 50", "decode-context-parallel-size: 2", "hf-overrides: {num_hidden_layers: 4}", "enable-eplb: true"]
)
def test_what_is_not_followed_is_not_judged(flag: str) -> None:
    """2,560 requests would not fit otherwise, nor the weights of TP4 alone."""
    for point in (decode(f"max-num-seqs: 656, {flag}", concurrency=2560), pair(decode=f"{{shape: 1xTP4, args: {{{flag}}}}}")):
        view = point_of(point)
        rules = {f.rule for rule in RULES.values() for f in found(rule, view) if f.source != role_of(view, Role.PREFILL).role.source}
        assert "capacity-not-sized" in rules
        assert not rules & {"capacity-requests", "capacity-weights", "capacity-one-request", "capacity-state-blocks"}


def test_a_layout_that_is_a_lower_bound_is_not_judged() -> None:
    """Sliding windows under a connector: vLLM may keep windows only, and hold far more."""
    plain = replace(QWEN, linear=None, mtp_layers=0, attention=replace(QWEN.attention, layers=92, sliding_layers=46, window=128))
    for keep, faults in (("no-disable-hybrid-kv-cache-manager: true, ", 0), ("disable-hybrid-kv-cache-manager: true, ", 1), ("", 0)):
        view = point_of(decode(f"{keep}max-num-seqs: 656", concurrency=2560, mtp=0), architecture=plain)
        assert len(found(RULES["capacity-requests"], view)) == faults, keep


@pytest.mark.parametrize(("vllm", "faults"), [("0.28.0", 1), ("0.29.0", 0)])
def test_prefix_caching_is_on_by_default_in_some_builds(vllm: str, faults: int) -> None:
    view = point_of(decode("no-enable-prefix-caching: null"), ("vllm: 0.28.0", f"vllm: {vllm}"))
    assert len(found(RULES["capacity-prefix-caching"], view)) == faults


@pytest.mark.parametrize(("tokens", "faults"), [(1, 0), (3, 1), (4, 0)])
def test_drafts_come_in_whole_passes(tokens: int, faults: int) -> None:
    view = point_of(decode(mtp=tokens), architecture=replace(QWEN, mtp_layers=2))
    assert len([f for f in found(RULES["capacity-speculation"], view) if f.message.startswith("decode")]) == faults


def test_utilization_of_a_gpu_that_is_not_known() -> None:
    role = decode_role(decode("gpu-memory-utilization: 0.96"))
    unknown = replace(role, recipe=replace(role.recipe, hardware=replace(role.recipe.hardware, gpu_memory_gib=0)))
    assert list(RULES["capacity-utilization"].findings(role)) == []
    assert "leaves 4% of a GPU's memory" in next(iter(RULES["capacity-utilization"].findings(unknown))).message


def test_a_plain_model_has_no_state_to_speak_of() -> None:
    view = point_of(decode("mamba-ssm-cache-dtype: null, no-enable-prefix-caching: null"), architecture=replace(QWEN, linear=None))
    assert found(RULES["capacity-state-dtype"], view) + found(RULES["capacity-prefix-caching"], view) == []


def test_what_cannot_be_sized_is_not_judged() -> None:
    view = point_of(decode("max-num-seqs: 31, max-num-batched-tokens: 300"))
    recipe = replace(view.recipe, model=replace(view.recipe.model, architecture=None))
    roles = [replace(role, recipe=recipe, sizes=None) for role in view.roles]
    assert {finding.rule for role in roles for rule in RULES.values() for finding in rule.findings(role)} == {"capacity-capture-cut"}


@pytest.mark.parametrize(
    "flags",
    [
        "max-num-seqs: -5",
        "max-num-seqs: 0",
        "max-num-batched-tokens: -1",
        f"max-num-batched-tokens: '1{30 * '0'}'",
        "max-num-batched-tokens: 9007199254740993",
        "gpu-memory-utilization: 1.0e+307",
        "gpu-memory-utilization: -1",
        "gpu-memory-utilization: 0",
        "gpu-memory-utilization: 1.5",
        "block-size: -1",
        "block-size: -64",
        "mamba-block-size: -8",
        "kv-cache-memory-bytes: -5",
        "num-gpu-blocks-override: -5",
        "compilation-config: {cudagraph_capture_sizes: 8, cudagraph_mode: FULL_DECODE_ONLY}",
        "compilation-config: {max_cudagraph_capture_size: many, cudagraph_mode: FULL_DECODE_ONLY}",
    ],
)
def test_what_the_engine_refuses_counts_as_not_set(flags: str) -> None:
    """The rules over flags refuse it; nothing is reckoned with it."""
    view = point_of(decode(flags))
    head = flags.partition(":")[0]
    default = f"{head}: null" if head != "compilation-config" else "compilation-config: {cudagraph_mode: FULL_DECODE_ONLY}"
    said, expected = ({(f.rule, f.message) for rule in RULES.values() for f in found(rule, one)} for one in (view, point_of(decode(default))))
    assert said == expected


def test_absurd_speculation_is_the_same_to_every_rule() -> None:
    """A full batch is asked x (1 + tokens) to all of them, whatever a step takes of it."""
    flags = "speculative-config: {method: ngram, num_speculative_tokens: 10000000}, max-num-seqs: 20"
    view = point_of(decode(f"{flags}, compilation-config: {{cudagraph_mode: PIECEWISE}}", mtp=0))
    (graphs,), (step,) = (found(RULES[name], view) for name in ("capacity-graphs", "capacity-step-tokens"))
    assert "the batch that is asked for has 200000020, of which a step takes 336" in graphs.message
    assert "20 requests x 10000001 are 200000020" in step.message


def test_captures_that_are_refused_are_said_once() -> None:
    view = point_of(decode("max-cudagraph-capture-size: 2"))
    assert [f.rule for rule in RULES.values() for f in found(rule, view)] == ["capacity-capture-list"]
