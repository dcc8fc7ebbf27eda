"""What a matrix may say, and what is said when it may not."""

from __future__ import annotations

import pytest

from recipegen.errors import InputError
from recipegen.matrix import parse_matrix
from recipegen.model import Role
from tests.support import MINIMAL, agg_point, matrix_of, plan_one

LINE = MINIMAL.count("\n") + 1
"""Of the first point."""


def problems_of(text: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        plan_one(text)
    return [str(problem) for problem in caught.value.problems]


def test_points_get_their_names() -> None:
    matrix = parse_matrix(
        matrix_of(
            '{prefill: 2xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [512], time_limit: "1:30:00"}',
            '{prefill: TEP8, decode: tp8, mtp: 1, concurrency: [1, 2, 4], time_limit: "0:30:00"}',
            '{agg: DEP16, concurrency: [8], time_limit: "1-00:00:00"}',
        ),
        "matrix.yaml",
    )
    assert [p.name for p in matrix.points] == ["2xtp2dep4-1xtp4dep4-mtp-cc512", "1xtp8-1xtp8-mtp1-cc1-4", "1xdep16-agg-cc8"]
    assert [p.time_limit_s for p in matrix.points] == [5400, 1800, 86400]
    assert matrix.points[0].sized_for == 512


def test_tp_with_and_without_ep_in_one_matrix_are_told_apart() -> None:
    head = MINIMAL.replace("expert_parallel: true", "expert_parallel: false")
    names = [p.name for p in parse_matrix(matrix_of(agg_point("TP8"), agg_point("TEP8"), head=head), "m").points]
    assert names == ["1xtp8-agg-cc64", "1xtep8-agg-cc64"]


def test_a_point_s_word_wins_over_the_role_s_and_common_s() -> None:
    head = MINIMAL.replace(
        "points:",
        "agg:\n  args: {max-num-seqs: 8, stream-interval: 10}\n  derive: {max-num-batched-tokens: max_num_seqs * 2}\n  env: {A: x, B: z}\npoints:",
    )
    point = '{agg: {shape: TP8, args: {max_num_seqs: 50, stream-interval: null}, env: {A: null}}, concurrency: [1], time_limit: "1:00:00"}'
    role = plan_one(matrix_of(point, head=head)).roles[0].recipe
    assert (role.flag("max-num-seqs"), role.flag("max-num-batched-tokens"), role.flag("stream-interval")) == (50, 100, None)
    assert [(v.name, v.value) for v in role.env] == [("B", "z")]


def test_a_launcher_s_default_gives_way_to_the_recipe() -> None:
    head = MINIMAL.replace("points:", "agg:\n  env: {NCCL_MNNVL_ENABLE: '0', NCCL_CUMEM_ENABLE: null}\npoints:")
    env = {v.name: v.value for v in plan_one(matrix_of(agg_point("TP8"), head=head)).processes[0].env}
    assert env["NCCL_MNNVL_ENABLE"] == "0"
    assert "NCCL_CUMEM_ENABLE" not in env
    assert env["UCX_CUDA_IPC_ENABLE_MNNVL"] == "y"


def test_a_false_flag_is_its_negative() -> None:
    head = MINIMAL.replace("points:", "agg:\n  args: {enable-chunked-prefill: false}\npoints:")
    assert "--no-enable-chunked-prefill" in plan_one(matrix_of(agg_point("TP8"), head=head)).processes[0].argv


@pytest.mark.parametrize(
    ("point", "where", "words"),
    [
        ('{agg: TP4XP2, concurrency: [1], time_limit: "1:00:00"}', (LINE, 11), "did you mean 'TP4DP2'?"),
        ('{agg: {shape: TP4DP2, gpus: 16}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 33), "TP4 x PP1 x DP2 = 8 does not fill them"),
        ('{prefill: TP8, concurrency: [1], time_limit: "1:00:00"}', (LINE, 5), "`prefill` and `decode`, or `agg` alone"),
        ('{prefill: TP8, decode: TP8, agg: TP8, concurrency: [1], time_limit: "1:00:00"}', (LINE, 5), "`agg` alone"),
        ('{agg: TP8, concurrency: [4, 2], time_limit: "1:00:00"}', (LINE, 29), "must rise"),
        ('{agg: TP8, concurrency: [1], time_limit: "0:00:00"}', (LINE, 46), "zero is no limit for Slurm"),
        ("{agg: TP8, concurrency: [1], time_limit: 1:00:00}", (LINE, 46), "quote"),
        ('{agg: TP8, concurrency: [1], sized_fr: 2, time_limit: "1:00:00"}', (LINE, 34), "did you mean 'sized_for'?"),
        ('{agg: TP8, concurrency: [one], time_limit: "1:00:00"}', (LINE, 30), "integer"),
        ('{agg: {shape: TP8, args: {tensor-parallel-size: 4}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 53), "comes from the topology"),
        ('{agg: {shape: TP8, args: {port: 8000}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 37), "belongs to the launcher"),
        ('{agg: {shape: TP8, args: {no_headless: true}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 44), "belongs to the launcher"),
        ('{agg: {shape: TP8, args: {a_b: 1, a-b: 2}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 39), "the same flag 'a-b'"),
        ('{agg: {shape: TP8, derive: {max-num-seqs: sized / dp}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 47), "unknown name 'sized'"),
        ('{agg: {shape: TP8, derive: {max-num-seqs: 1 / (dp - 1)}}, concurrency: [1], time_limit: "1:00:00"}', (LINE, 47), "division by zero"),
        (
            '{agg: {shape: TP8, args: {speculative_config.method: eagle}}, mtp: 3, concurrency: [1], time_limit: "1:00:00"}',
            (LINE, 58),
            "both decide on speculation",
        ),
    ],
)
def test_a_wrong_point_is_named_with_its_place(point: str, where: tuple[int, int], words: str) -> None:
    (problem,) = problems_of(matrix_of(point))
    assert problem.startswith(f"matrix.yaml:{where[0]}:{where[1]}: ")
    assert words in problem


def test_two_points_of_one_name_name_each_other() -> None:
    (problem,) = problems_of(matrix_of(agg_point("TP8"), agg_point("1xTP8")))
    assert f"stands twice, first at matrix.yaml:{LINE}:5" in problem


def test_all_problems_come_at_once() -> None:
    text = matrix_of(agg_point("TP4XP2"), agg_point("TPP8"), head=MINIMAL.replace("model: qwen3.8", "model: qwen3.9"))
    found = problems_of(text)
    assert len(found) == 3
    assert "did you mean 'qwen3.8-2.4t-nvfp4'?" in found[0]


def test_unknown_keys_duplicates_and_old_yaml_come_at_once() -> None:
    text = matrix_of(agg_point("TP8")).replace("isl: 8192", "isl: 010").replace("name: tiny", "name: tiny\nname: other\nfontend: on")
    found = problems_of(text)
    assert len(found) == 3


@pytest.mark.parametrize(
    "change",
    [
        ("name: tiny", 'name: "tiny\\nevil"'),
        ("name: tiny", "name: ../../etc"),
        ("name: tiny", "name: $(id)"),
        ("image: vllm/vllm-openai:v0.28.0", "image: 'x; rm -rf /'"),
        ("args: {kv-cache-dtype: fp8", "env: {'A;id': x}\n  args: {kv-cache-dtype: fp8"),
        ("args: {kv-cache-dtype: fp8", "env: {NODE_RANK: '7'}\n  args: {kv-cache-dtype: fp8"),
        ("args: {kv-cache-dtype: fp8", "env: {PATH: /tmp}\n  args: {kv-cache-dtype: fp8"),
        ("args: {kv-cache-dtype: fp8", "env: {SLURM_JOB_ID: '7'}\n  args: {kv-cache-dtype: fp8"),
        ("agg: TP8", "agg: TP\u0661"),
        ('"1:00:00"', '"\u0661:00:00"'),
        ("points:", "agg: {derive: {max-num-seqs: 0 - isl}}\npoints:"),
        ("args: {kv-cache-dtype: fp8", "args: {'kv $(id)': fp8"),
        ("version: 1.2.1", "version: 1.2.1, install: wheel, source: '-r /etc/passwd'"),
        ("version: 1.2.1", "version: 1.2.1, install: wheel"),
        ("version: 1.2.1", "version: 1.2.1, install: pip, source: x.whl"),
    ],
)
def test_hostile_or_contradictory_values_are_refused(change: tuple[str, str]) -> None:
    assert problems_of(matrix_of(agg_point("TP8")).replace(*change))


def test_a_cache_type_of_unknown_size_asks_for_the_block_size() -> None:
    head = MINIMAL.replace("kv-cache-dtype: fp8", "kv-cache-dtype: nvfp4")
    pd = '{prefill: TP4, decode: TP8, concurrency: [1], time_limit: "1:00:00"}'
    (problem,) = problems_of(matrix_of(pd, head=head))
    assert "set block-size on both sides" in problem
    fixed = head.replace("kv-cache-dtype: nvfp4", "kv-cache-dtype: nvfp4, block-size: 2176")
    assert plan_one(matrix_of(pd, head=fixed)).roles[1].recipe.flag("block-size") == 2176


def test_expert_parallelism_by_role() -> None:
    head = MINIMAL.replace("expert_parallel: true", "expert_parallel: {decode: true}")
    plan = plan_one(matrix_of('{prefill: TP8, decode: TP8, concurrency: [1], time_limit: "1:00:00"}', head=head))
    assert {r.layout.role: r.recipe.topology.ep for r in plan.roles} == {Role.PREFILL: False, Role.DECODE: True}
    assert plan.recipe.point == "1xtp8-1xtep8-cc1"
