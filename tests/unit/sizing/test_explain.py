"""The arithmetic that is printed is the arithmetic that was done: every formula in numbers is reckoned again."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from recipegen.architecture import Architecture
from recipegen.model import Flag, Recipe, RoleRecipe, Topology
from recipegen.sizing.choices import explain_block_size, explain_choices, explain_mtp
from recipegen.sizing.explain import Step, explain_sizes
from recipegen.sizing.role_sizes import size_role
from recipegen.sizing.what_if import Assumptions, assumed_recipe
from tests.support import published_plans
from tests.unit.sizing.models import DEEPSEEK, GB300, NEMOTRON, PLAIN, QWEN, SPEC

_ARITHMETIC = re.compile(r"(?:[0-9.]+|ceil|floor|max|min|[-+*/(), ])+")
_NUMBER = re.compile(r"-?[0-9.]+")


def reckoned(step: Step) -> float | None:
    """The value of a formula in numbers; None for words."""
    formula = step.formula.replace(" x ", " * ")
    if not _ARITHMETIC.fullmatch(formula):
        return None
    return float(eval(formula, {"__builtins__": {}, "ceil": math.ceil, "floor": math.floor, "max": max, "min": min}))


def check(recipe: Recipe, role: RoleRecipe) -> tuple[Step, ...]:
    sizes = size_role(recipe, role)
    assert sizes is not None
    steps = explain_sizes(recipe, sizes)
    for step in steps:
        found = _NUMBER.match(step.result)
        assert found, step
        assert step.source
        value = reckoned(step)
        if value is None:
            continue
        digits = len(found.group().partition(".")[2])
        assert value == pytest.approx(float(found.group()), abs=0.51 * 10**-digits if digits else 1e-9), step
    assert sum(reckoned(step) is not None for step in steps) >= len(steps) - len(sizes.weight_parts) - 5
    return steps


@pytest.mark.parametrize("number", range(8))
def test_published_points(number: int) -> None:
    recipe = published_plans()[number].recipe
    for role in recipe.roles:
        steps = check(recipe, role)
        assert any("maximum concurrency" in step.title for step in steps)
        assert any("study's figure" in step.title and step.formula.endswith("/ 759") for step in steps)
        assert any(step.formula == "(ceil(10240 / 2112) x 23 + 69) x 2112 x 2048 / 1048576" and step.result == "759 MiB" for step in steps)
        for name in ("non-torch memory", "peak activation", "CUDA graph estimate", "weights", "KV cache"):
            assert [reckoned(step) is not None for step in steps if step.title == name] == [True], name
        assert not any("between" in step.formula for step in steps)


def test_parts_that_were_not_measured_come_with_their_arithmetic() -> None:
    """Prefill of TP2DP4: the nearest row without its all2all workspace, and this one's; two copies of logits; a graph by the mean of a row."""
    recipe = published_plans()[3].recipe
    steps = {step.title: step for step in check(recipe, recipe.roles[0])}
    assert steps["non-torch memory"].formula == "max(0, 2.22 - 16 x 1104 x 21072 / 1073741824 + 8 x 16384 x 21072 / 1073741824)"
    token = "2 x (3 x 8192 + 49152 / 2 + 10 / 2 x (8192 + 3 x 2048))"
    assert steps["peak activation"].formula == f"0.56 + (2 x 128 x 248320 x 4 + 16384 x {token}) / 1073741824"
    assert steps["CUDA graph estimate"].formula == "7.56 / 85 + (35 - 1) x max(7.56 / 85, 1 / 1024)"
    assert "largest graph + (graphs - 1) x second largest" in steps["CUDA graph estimate"].source
    assert steps["weights"].result == "207.92 GiB (207.91 to 207.93)"


def test_both_graph_lists_come_with_their_arithmetic() -> None:
    assume = Assumptions(cudagraph_mode="FULL_AND_PIECEWISE", max_num_seqs=20, max_num_batched_tokens=8192, capture_size=160)
    recipe = assumed_recipe(SPEC, GB300, Topology(tp=8, ep=True), mtp=3, isl=8192, osl=1024, assume=assume)
    found = [(step.formula, step.result) for step in check(recipe, recipe.roles[0]) if "raph" in step.title and "estimate" not in step.title]
    assert found == [
        ("1 + ((160 - 8) / 8 + 1)", "21 graphs"),
        ("21 - 10", "11 graphs"),
        ("21 + 11", "32 graphs"),
    ]


def test_a_bound_is_called_one() -> None:
    recipe = assumed_recipe(replace(SPEC, key="another"), GB300, Topology(tp=8, ep=True), mtp=0, isl=4000, osl=500)
    (kv,) = (step for step in check(recipe, recipe.roles[0]) if step.title == "KV cache")
    assert kv.result.endswith("GiB at most")
    assert all("may fit: vLLM's maximum concurrency is at most" in text for text in explain_mtp(recipe)[:1])


def test_windows_and_a_given_number_of_blocks_are_explained() -> None:
    model = replace(PLAIN, attention=replace(PLAIN.attention, sliding_layers=40, window=128))
    recipe = assumed_recipe(replace(SPEC, key="another", architecture=model), GB300, Topology(tp=8), mtp=0, isl=4000, osl=500)
    role = replace(recipe.roles[0], flags=(*recipe.roles[0].flags, Flag(name="num-gpu-blocks-override", value=5000)))
    steps = check(replace(recipe, roles=(role,)), role)
    assert any("40 sliding-window in 1 group(s)" in step.title for step in steps)
    assert any(step.result == "5000 blocks" and step.source == "num-gpu-blocks-override" for step in steps)


@pytest.mark.parametrize("model", [QWEN, PLAIN, DEEPSEEK, NEMOTRON])
@pytest.mark.parametrize("topology", [Topology(tp=8, ep=True), Topology(tp=4, pp=3, dp=2), Topology(tp=16, dp=2, ep=True)], ids=str)
@pytest.mark.parametrize(
    "assume", [Assumptions(), Assumptions(prefix_caching=True, block_size=128, cudagraph_mode="FULL_AND_PIECEWISE")], ids=["study", "other"]
)
def test_other_models(model: Architecture, topology: Topology, assume: Assumptions) -> None:
    if model.moe is None:
        topology = replace(topology, ep=False)
    recipe = assumed_recipe(replace(SPEC, key="another", architecture=model), GB300, topology, mtp=1, isl=4000, osl=500, assume=assume)
    check(recipe, recipe.roles[0])


def test_nothing_is_explained_of_nothing() -> None:
    sizes = size_role(published_plans()[0].recipe, published_plans()[0].recipe.roles[0])
    assert sizes is not None
    bare = replace(published_plans()[0].recipe, model=replace(SPEC, architecture=None))
    assert explain_sizes(bare, sizes) == ()
    assert explain_choices(bare) == ()
    recipe = published_plans()[0].recipe
    packed = replace(recipe.roles[1], flags=(*(f for f in recipe.roles[1].flags if f.name != "kv-cache-dtype"),))
    assert explain_sizes(recipe, replace(sizes, role=packed, cache=None, room=None, budget=None, weight_parts=()))


def test_cc1024_keeps_mtp_because_it_fits_and_cc2560_does_without_because_it_would_not() -> None:
    kept, without = (" ".join(explain_mtp(plan.recipe)) for plan in published_plans()[-2:])
    assert "256 requests of each of 4 engines" in kept
    assert "As set, with MTP 3, they fit: vLLM's maximum concurrency is 315.94" in kept
    assert "640 requests of each of 4 engines" in without
    assert "As set, without MTP, they fit: vLLM's maximum concurrency is 716.88" in without
    assert "with MTP 3 they do not fit" in without
    assert "The study's figure" in kept
    assert "180.5" in kept
    assert "179.2" in without
    assert "17 blocks instead of 8" in without


@pytest.mark.parametrize(("number", "costs"), [(1, "301.64 -> 195.18"), (2, "297.86 -> 192.71")])
def test_block_size_and_what_it_costs(number: int, costs: str) -> None:
    why, prefill, decode = explain_block_size(published_plans()[number].recipe)
    assert "prefill on 2176, decode on 1088" in why
    assert "prefill 128, decode 64" in why
    assert "nothing is lost" in prefill
    assert costs in decode
    assert "35%" in decode


@pytest.mark.parametrize("number", [0, 3, 7])
def test_block_size_that_need_not_be_set(number: int) -> None:
    (only,) = explain_block_size(published_plans()[number].recipe)
    assert only.startswith("block-size is not set")
    assert "the same on all sides" in only
