"""What differs between two versions of a matrix, by what would run."""

from __future__ import annotations

import json
import re

import pytest

from recipegen.pipeline import plan_matrix
from recipegen.plan_json import plan_document
from recipegen.review.diff import MatrixText, TextPair, compare_all, only_point
from recipegen.review.diff_groups import cause_groups, consequence_groups, group_label
from recipegen.review.diff_model import MatrixChange, PointChange, Section
from tests.support import LEAF, MINIMAL, agg_point, matrix_of

PUBLISHED = (LEAF / "matrix.yaml").read_text()
CC128 = "1xtp2dep4-1xtp4dep4-mtp-cc128"
CC256 = "2xtp2dep4-1xtp4dep4-mtp-cc256"


def edited(*edits: tuple[str, str], text: str = PUBLISHED) -> str:
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def compare(old: str | None, new: str | None) -> MatrixChange:
    texts = [None if text is None else MatrixText(path="matrix.yaml", data=text.encode()) for text in (old, new)]
    (change,) = compare_all([TextPair(*texts)])
    return change


def told(point: PointChange, section: Section) -> dict[str, tuple[str | None, str | None]]:
    """`role name` to the values before and after."""
    found = [change for change in point.changes if change.section is section]
    return {f"{c.fact.role} {c.fact.name}".strip(): (c.old and c.old.text, c.new and c.new.text) for c in found}


def only(change: MatrixChange) -> PointChange:
    (point,) = change.points
    return point


def test_the_same_text_does_not_differ() -> None:
    assert not compare(PUBLISHED, PUBLISHED).differs


@pytest.mark.parametrize(
    "edit",
    [
        ("sized_for: 256,", "sized_for:   256,"),
        ("# kept as measured in a sweep to 256", ""),
        ("max-num-seqs: 32 # bounds", 'max-num-seqs: "32" # bounds'),
        ("no-enable-prefix-caching: true", "enable_prefix_caching: false"),
        ("{kv_connector: NixlConnector, kv_role: kv_both, kv_load_failure_policy: fail}", '\'{"kv_role": "kv_both", "kv_connector": "NixlConnector", "kv_load_failure_policy": "fail"}\''),
        ("max-num-seqs: sized_for / dp + 16", "max-num-seqs: 16 + sized_for / dp"),
        ("2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [256],", "2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [256], sized_for: 256,"),
    ],
)  # fmt: skip
def test_other_words_for_the_same_do_not_differ(edit: tuple[str, str]) -> None:
    assert compare(PUBLISHED, edited(edit)).points == ()


def test_an_input_shows_with_its_flags_and_head_room_at_its_point_alone() -> None:
    change = compare(PUBLISHED, edited(("sized_for: 256", "sized_for: 128")))
    point = only(change)
    assert (point.kind, point.name, change.compared) == ("changed", CC128, 8)
    assert told(point, Section.INPUT) == {"sized_for": ("256", "128")}
    assert told(point, Section.FLAG) == {
        "decode max-cudagraph-capture-size": ("320", "192"),
        "decode max-num-batched-tokens": ("336", "208"),
        "decode max-num-seqs": ("80", "48"),
    }
    sizes = told(point, Section.SIZE)
    assert all(name.startswith("decode ") for name in sizes)
    before, after = sizes["decode KV head room"]
    assert before == "+884%"
    assert str(after).startswith("~+")
    notes = {c.fact.name: (c.old.note, c.new.note) for c in point.changes if c.section is Section.FLAG and c.old and c.new}
    assert notes["max-num-seqs"] == ("256/4 + 16", "128/4 + 16")


def test_head_room_is_told_where_it_stays_beside_flags_that_do_not() -> None:
    point = only(compare(PUBLISHED, edited(("time_limit: \"1:30:00\"} # kept as measured in a sweep to 256", "time_limit: \"1:30:00\", decode: {shape: 1xTP4DP4, args: {seed: 1}}}"), ("decode: 1xTP4DP4, mtp: 3, concurrency: [128]", "mtp: 3, concurrency: [128]"))))  # fmt: skip
    assert told(point, Section.FLAG) == {"decode seed": (None, "1")}
    assert told(point, Section.SIZE)["decode KV head room"] == ("+884%", "+884%")


def test_what_all_points_and_roles_share_is_said_once() -> None:
    change = compare(PUBLISHED, edited(("DYN_LOG: error", "DYN_LOG: info"), ("generation-config: vllm", "generation-config: auto")))
    assert len(change.points) == 8
    (group,) = cause_groups(change)
    assert group_label(group, change) == "all 8 points"
    assert {(row.where, row.change.fact.name) for row in group.rows} == {
        ("prefill, decode env", "DYN_LOG"),
        ("prefill, decode flag", "generation-config"),
    }


def test_what_some_points_share_is_grouped_and_each_size_stays_with_its_points() -> None:
    change = compare(PUBLISHED, edited(('time_limit: "1:00:00"', 'time_limit: "1:10:00"'), ("kv-cache-dtype: fp8", "kv-cache-dtype: auto")))
    groups = cause_groups(change)
    assert [len(group.points) for group in groups][:2] == [8, 3]
    assert {row.change.fact.name for row in groups[1].rows} == {"time limit"}
    shown = [(point.name, row.where) for group in consequence_groups(change) for point in group.points for row in group.rows]
    assert {name for name, _ in shown} == {point.name for point in change.points}


@pytest.mark.parametrize(
    ("edit", "section", "expected"),
    [
        (("vllm-openai:nightly-a9a", "vllm-openai:nightly-b9a"), Section.PIN, "image"),
        (("vllm: 0.26.1rc1.dev1177+ga9a17e709", "vllm: 0.28.0"), Section.PIN, "vllm"),
        (("1.2.0.dev20260526, install: present", "1.2.1, install: pip"), Section.PIN, "dynamo install"),
        (("osl: 1024", "osl: 512"), Section.WORKLOAD, "osl"),
        (("max_model_len: 10240", "max_model_len: 12288"), Section.FLAG, "prefill max-model-len"),
        (("prompts_per_concurrency: 8", "prompts_per_concurrency: 10"), Section.BENCHMARK, "prompts_per_concurrency"),
        (("{type: gsm8k}", "{type: mmlu}"), Section.BENCHMARK, "variant accuracy: type"),
        (("name: qwen38", "name: other"), Section.INPUT, "name"),
        (("VLLM_SSM_CONV_STATE_LAYOUT: DS", "VLLM_SSM_CONV_STATE_LAYOUT: DS\n    DYN_SYSTEM_PORT: null"), Section.LAUNCHER_ENV, "decode DYN_SYSTEM_PORT"),
        (("expert_parallel: true", "expert_parallel: {prefill: true, decode: false, agg: false}"), Section.ROLE, "decode topology"),
        (("expert_parallel: true", "expert_parallel: true\nkv_events: true"), Section.INPUT, "prefill kv_events"),
        (("expert_parallel: true", "expert_parallel: true\nkv_events: true"), Section.LAUNCHER_FLAG, "prefill kv-events-config"),
        (("expert_parallel: true", "expert_parallel: true\nkv_events: true"), Section.PORT, "prefill KV_EVENT_PORT"),
    ],
)  # fmt: skip
def test_every_kind_of_setting_is_told(edit: tuple[str, str], section: Section, expected: str) -> None:
    for old, new in ((PUBLISHED, edited(edit)), (edited(edit), PUBLISHED)):
        change = compare(old, new)
        assert any(expected in told(point, section) for point in change.points), [told(point, section) for point in change.points]


@pytest.mark.parametrize(
    "edit",
    [
        ("sized_for: 256", "sized_for: 128"),
        ("kv-cache-dtype: fp8", "kv-cache-dtype: auto"),
        ("random", "Random"),
        ('"1:00:00"', '"1:00:01"'),
        ("warmup_per_concurrency: 1", "warmup_per_concurrency: 2"),
        ("DYN_LOG: error", "DYN_LOG: warn"),
        ("install: present", "install: pip"),
        ("flashinfer_nvlink_one_sided", "deepep_low_latency"),
        ("3xTP2DP4", "5xTP2DP4"),
    ],
)
def test_a_diff_is_there_just_where_plans_differ(edit: tuple[str, str]) -> None:
    new = edited(edit)
    documents = [[plan_document(plan) for plan in plan_matrix(text.encode(), "m")] for text in (PUBLISHED, new)]
    assert bool(compare(PUBLISHED, new).points) == (json.dumps(documents[0]) != json.dumps(documents[1]))


def test_a_point_that_goes_is_removed_and_comes_back_added() -> None:
    less = re.sub(r"\n.*concurrency: \[1024\].*", "", PUBLISHED)
    gone, back = only(compare(PUBLISHED, less)), only(compare(less, PUBLISHED))
    assert (gone.kind, gone.name) == ("removed", "3xtp2dep4-1xtp4dep4-mtp-cc1024")
    assert (back.kind, back.name) == ("added", gone.name)
    assert {c.old for c in gone.changes} == {c.new for c in back.changes}


@pytest.mark.parametrize(
    ("edit", "new", "inputs"),
    [
        (("mtp: 3, concurrency: [256]", "mtp: 3, concurrency: [320]"), "2xtp2dep4-1xtp4dep4-mtp-cc320", {"sized_for"}),
        (("mtp: 3, concurrency: [256]", "mtp: 0, concurrency: [256]"), "2xtp2dep4-1xtp4dep4-cc256", {"mtp"}),
    ],
)
def test_a_point_under_another_name_is_renamed(edit: tuple[str, str], new: str, inputs: set[str]) -> None:
    point = only(compare(PUBLISHED, edited(edit)))
    assert (point.kind, point.old, point.new) == ("renamed", CC256, new)
    assert set(told(point, Section.INPUT)) == inputs
    back = only(compare(edited(edit), PUBLISHED))
    assert (back.kind, back.old, back.new) == ("renamed", new, CC256)


def test_speculation_that_goes_takes_its_flags_and_shows_the_room_that_it_leaves() -> None:
    point = only(compare(PUBLISHED, edited(("mtp: 3, concurrency: [256]", "concurrency: [256]"))))
    assert told(point, Section.FLAG)["decode speculative-config.num_speculative_tokens"] == ("3", None)
    assert {"decode weights", "decode block size", "decode KV cache", "decode KV head room", "decode graphs"} <= told(point, Section.SIZE).keys()


def test_a_name_that_changed_because_of_another_point_is_renamed_with_the_same_content() -> None:
    """Names tell TP with EP from TP without only where a matrix has both."""
    head = MINIMAL.replace("expert_parallel: true", "expert_parallel: false")
    one = '{prefill: 1xTEP8, decode: 1xTEP8, concurrency: [4], time_limit: "1:00:00"}'
    other = '{prefill: 1xTP8, decode: 1xTP8, concurrency: [8], time_limit: "1:00:00"}'
    change = compare(matrix_of(one, other, head=head), matrix_of(one, head=head))
    renamed, removed = change.points
    assert (renamed.kind, renamed.old, renamed.new, renamed.changes) == ("renamed", "1xtep8-1xtep8-cc4", "1xtp8-1xtp8-cc4", ())
    assert removed.kind == "removed"


def test_more_workers_of_one_role_show_nodes_instances_and_room() -> None:
    change = compare(PUBLISHED, edited(("1xTP4DP4, concurrency: [2560]", "2xTP4DP4, concurrency: [2560]")))
    point = only(change)
    assert (point.kind, point.old, point.new) == ("renamed", "4xtp2dep4-1xtp4dep4-cc2560", "4xtp2dep4-2xtp4dep4-cc2560")
    assert told(point, Section.JOB) == {"nodes": ("12", "16"), "GPUs": ("48", "64"), "segment": ("12", "16"), "decode expected instances": ("4", "8")}
    assert told(point, Section.ROLE) == {"decode workers": ("1", "2"), "decode nodes": ("4", "8"), "decode GPUs": ("16", "32")}
    assert told(point, Section.SIZE)["decode KV head room"] == ("+12%", "+124%")


def test_other_shapes_are_another_point() -> None:
    change = compare(
        PUBLISHED, edited(("2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [256]", "2xTP4DP2, decode: 1xTP4DP2, mtp: 3, concurrency: [256]"))
    )
    assert sorted(point.kind for point in change.points) == ["added", "removed"]


def test_of_several_that_would_do_the_nearest_concurrency_is_the_same() -> None:
    change = compare(
        PUBLISHED,
        edited(
            ("mtp: 3, concurrency: [256]", "mtp: 3, concurrency: [250]"),
            ("mtp: 3, concurrency: [512], sized_for: 1024", "mtp: 3, concurrency: [600], sized_for: 1024"),
        ),
    )
    assert {(point.old[-5:], point.new[-5:]) for point in change.points} == {("cc256", "cc250"), ("cc512", "cc600")}


def test_findings_come_and_go_by_rule_and_point() -> None:
    bad = edited(("kv-cache-dtype: fp8", "kv-cache-dtype: auto"))
    points = {"3xtp2dep4-1xtp4dep4-mtp-cc1024", "4xtp2dep4-1xtp4dep4-cc2560"}
    for change, appears in ((compare(PUBLISHED, bad), True), (compare(bad, PUBLISHED), False)):
        assert {(f.appears, f.rule) for f in change.findings} == {(appears, "capacity-requests")}
        assert {point for f in change.findings for point in f.points} == points
    assert compare(bad, edited(("concurrency: [2560]", "concurrency: [2600]"), text=bad)).findings == ()


def test_an_allowance_alone_shows_as_findings() -> None:
    bad = edited(("kv-cache-dtype: fp8", "kv-cache-dtype: auto"))
    change = compare(bad, bad + "allow:\n  - {rule: capacity-requests, reason: they may wait}\n")
    assert change.points == ()
    assert {(f.appears, f.allowed) for f in change.findings} == {(True, "they may wait"), (False, "")}


def test_a_side_that_cannot_be_parsed_is_told_and_the_other_shown() -> None:
    for old, new, side in ((PUBLISHED, "points: [", "to"), ("points: [", PUBLISHED, "from")):
        change = compare(old, new)
        (unusable,) = change.unusable
        assert unusable.side == side
        assert unusable.findings
        assert len(change.of_kind("uncompared")) == 8
        assert change.findings == ()


def test_a_point_that_cannot_be_followed_is_neither_added_nor_removed() -> None:
    """The formula is negative for small points alone."""
    change = compare(PUBLISHED, edited(("max-num-seqs: sized_for / dp + 16", "max-num-seqs: sized_for / dp - 30")))
    assert [side.side for side in change.unusable] == ["to"]
    assert {point.kind for point in change.points} == {"uncompared", "changed"}
    assert {point.name for point in change.of_kind("uncompared")} == {"1xtp8-1xtp8-mtp-cc1-4", "1xtp4dep2-1xtp8-mtp-cc8-16"}


def test_a_matrix_that_moved_and_was_edited_is_one_matrix() -> None:
    old = MatrixText(path="a/matrix.yaml", data=PUBLISHED.encode())
    new = MatrixText(path="b/matrix.yaml", data=edited(("sized_for: 256", "sized_for: 128")).encode())
    (change,) = compare_all([TextPair(old, None), TextPair(None, new)])
    assert (change.kind, change.old, change.new) == ("renamed", "a/matrix.yaml", "b/matrix.yaml")
    assert [point.name for point in change.points] == [CC128]


def test_two_that_came_under_one_name_are_added() -> None:
    old = MatrixText(path="a/matrix.yaml", data=PUBLISHED.encode())
    news = [MatrixText(path=f"{name}/matrix.yaml", data=PUBLISHED.encode()) for name in "bc"]
    changes = compare_all([TextPair(old, None), *(TextPair(None, new) for new in news)])
    assert sorted(change.kind for change in changes) == ["added", "added", "removed"]


def test_one_point_alone() -> None:
    change = compare(PUBLISHED, edited(("kv-cache-dtype: fp8", "kv-cache-dtype: auto")))
    one = only_point(change, CC256)
    assert [point.name for point in one.points] == [CC256]
    assert one.findings == ()
    assert [group_label(group, one) for group in cause_groups(one)] == [CC256]


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("setup_script: deps.sh\n", "setup script"),
        ("slurm: {sbatch: {mem: '0'}}\n", "sbatch mem"),
        ("slurm: {srun: ['--mem=0']}\n", "srun"),
        ("infra: {dedicated_node: true}\n", "dedicated node"),
        ("deadlines: {ready: 3600}\n", "ready deadline"),
        ("frontend: {args: {router-mode: kv}}\n", "front end router-mode"),
        ("frontend: {env: {A: b}}\n", "front end variable A"),
        ("carried: {precision: fp4}\n", "carried precision"),
    ],
)
def test_what_a_matrix_asks_of_the_job_is_told(key: str, name: str) -> None:
    old = matrix_of(agg_point("TP8"))
    assert name in told(only(compare(old, old + key)), Section.JOB)


def test_what_several_front_ends_change_is_told() -> None:
    old = matrix_of(agg_point("1xDP16"))
    change = only(compare(old, old + "frontend: {replicas: 3, session_header: X-A}\n"))
    assert set(told(change, Section.JOB)) == {"front ends", "front end nodes", "nginx image", "session header"}
    assert set(told(change, Section.PORT)) == {"FRONTEND_REPLICA_PORT"}
    more = only(compare(old + "frontend: {replicas: 2}\n", old + "frontend: {replicas: 3}\n"))
    assert told(more, Section.JOB) == {"front ends": ("2", "3"), "front end nodes": ("1-2", "1-3")}


@pytest.mark.parametrize(
    ("shape", "old", "new", "wanted"),
    [
        ("1xDP16", 10, 12, ("10", "12")),  # four nodes, three front ends
        ("1xTP4", 10, 12, ("10", "12")),
        ("1xDP16", 3, 10, (None, "10")),
    ],
)
def test_front_ends_that_have_no_node_are_told_as_an_export_asks_for_them(shape: str, old: int, new: int, wanted: tuple[str | None, str]) -> None:
    texts = [matrix_of(agg_point(shape)) + f"frontend: {{replicas: {count}}}\n" for count in (old, new)]
    assert told(only(compare(*texts)), Section.JOB) == {"front ends wanted": wanted}
