"""The pure parts of an import: comments, layers, formulas, text."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from recipegen.errors import NOWHERE, InputError, Source
from recipegen.model import Role, Topology
from recipegen.srtslurm.derive import recognise
from recipegen.srtslurm.export_text import text_scalar
from recipegen.srtslurm.layers import layer
from recipegen.srtslurm.recipe import Comment, Entry, SrtModel, SrtRecipe, SrtRole, SrtRuntime
from recipegen.srtslurm.source_text import parse_recipe
from recipegen.srtslurm.tree import head_comment, plant
from recipegen.srtslurm.yaml_text import Flow, Item, Key, block, scalar
from recipegen.yamlsource import parse_yaml

SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8)


@given(st.dictionaries(st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True), VALUES, min_size=1, max_size=4))
def test_text_is_read_back_as_it_was(values: dict[str, Any]) -> None:
    keys = [Key(name=name, value=Flow(value)) for name, value in values.items()]
    items = Key(name="items", value=(Item(value=values),))
    text = block([*keys, Key(name="nested", value=tuple(keys)), items]).text
    try:
        data = parse_yaml(text, "x").data
    except InputError as error:
        assert "text-control" in {problem.rule for problem in error.problems}  # what no recipe can hold  # noqa: PT017
        return
    assert data == {**values, "nested": values, "items": [values]}


@pytest.mark.parametrize(
    "word",
    ["yes", "n", "1e3", "0x1F", "010", "1:30:00", "null", "~", "a: b", "a #b", "- a", "*x", "", " x", "x ", "12", "1.5", "inf", "a,b", "2026-09-01"],
)
def test_words_that_could_be_mistaken_are_texts(word: str) -> None:
    assert parse_yaml(block([Key(name="k", value=Flow([word]))]).text, "x").data == {"k": [word]}


NUMBERS = st.text(st.sampled_from("0123456789._:-+eETtZzxob /"), max_size=20)
DATES = st.from_regex(r"\d{4}-\d\d?-\d\d?(([Tt]| +)\d\d?:\d\d:\d\d(\.\d*)?( *(Z|[-+]\d\d?(:\d\d)?))?)?", fullmatch=True)
WORDS = st.sampled_from(["yes", "No", "ON", "off", "True", "y", "N", "~", "null", "NULL", "=", "<<", ".inf", "-.Inf", ".NaN"])


@given(NUMBERS | DATES | WORDS | st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"]), max_size=12))
@example("2026-01-01")
@example("2001-12-14t21:59:43.10-05:00")
@example("2001-12-14 21:59:43.10 -5")
@example("190:20:30.15")
@example("1_000")
@example("0b11")
@example("1.")
@example("._5")
def test_text_is_text_to_readers_of_yaml_1_1(text: str) -> None:
    for written in (scalar(text), text_scalar(text)):
        (value,) = yaml.safe_load(f"[{written}]")
        assert (type(value), value) == (str, text), written
        assert yaml.safe_load(f"k: {written}\n") == {"k": text}


def test_a_line_knows_where_it_comes_from() -> None:
    place = Source("r.yaml", 7, 3)
    text = block([Key(name="a", value=Flow(1)), Key(name="b", value=(Key(name="c", value=Flow(2), comment=Comment(("why",)), source=place),))])
    assert text.text == "a: 1\n\nb:\n  # why\n  c: 2\n"
    assert [text.origin(line) for line in (1, 5)] == [NOWHERE, place]


def test_comments_belong_to_keys() -> None:
    document = parse_yaml(
        "# of the file\n\n# of the name\nname: x # a name\nargs:\n  # one\n  # two\n  a: \"# no\" # yes\n  b: 'it''s # no'\n\n  # apart\n\n  c: 1\n",
        "x",
    )
    args = (plant(document).entries or {})["args"].entries or {}
    assert head_comment(document) == ("of the file", "of the name")
    assert {name: (tree.above, tree.behind) for name, tree in args.items()} == {"a": (("one", "two"), "yes"), "b": ((), ""), "c": ((), "")}


def test_single_letters_are_texts_as_for_srtctl() -> None:
    document, notes = parse_recipe(b"a: n\nb: {c: y, d: N} # y\ne: [Y]\n", "x")
    assert document.data == {"a": "n", "b": {"c": "y", "d": "N"}, "e": ["Y"]}
    assert [str(note.source) for note in notes] == ["x:1:4", "x:2:8", "x:2:14", "x:3:5"]
    with pytest.raises(InputError, match="'no' is false to some YAML readers"):
        parse_recipe(b"a: n\nb: no\n", "x")


P, D = Role.PREFILL, Role.DECODE
CELLS = [(0, P), (0, D), (1, P), (1, D)]


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 1) | st.booleans()), min_size=4, max_size=4))
def test_layers_give_every_cell_just_its_own_back(settings: list[dict[str, Any]]) -> None:
    layers = layer({cell: [Entry(name=name, value=value) for name, value in own.items()] for cell, own in zip(CELLS, settings, strict=True)})
    for cell, own in zip(CELLS, settings, strict=True):
        point, role = cell
        parts = (layers.common, layers.roles.get(role, []), layers.points.get(point, []), layers.cells.get(cell, []))
        found = {entry.name: entry.value for part in parts for entry in part}
        assert {name: (type(value), value) for name, value in found.items()} == {name: (type(value), value) for name, value in own.items()}


def test_a_setting_stands_as_high_as_it_can() -> None:
    values = {
        (0, P): {"a": 1, "b": 1, "c": 1, "d": 1},
        (0, D): {"a": 1, "b": 2, "c": 1},
        (1, P): {"a": 1, "b": 1, "c": 2},
        (1, D): {"a": 1, "b": 2, "c": 2},
    }
    layers = layer({cell: [Entry(name=name, value=value) for name, value in own.items()] for cell, own in values.items()})
    assert [entry.name for entry in layers.common] == ["a"]
    assert {role: [e.name for e in own] for role, own in layers.roles.items()} == {P: ["b"], D: ["b"]}
    assert {point: [e.name for e in own] for point, own in layers.points.items()} == {0: ["c"], 1: ["c"]}
    assert {cell: [e.name for e in own] for cell, own in layers.cells.items()} == {(0, P): ["d"]}


def job(*, seqs: int, capture: int, tokens: int, dp: int = 1, mtp: int = 0, concurrency: tuple[int, ...] = (64,)) -> SrtRecipe:
    sizes = {"max-num-seqs": seqs, "max-cudagraph-capture-size": capture, "max-num-batched-tokens": tokens}
    role = SrtRole(role=D, nodes=1, workers=1, topology=Topology(dp=dp), flags=tuple(Entry(name=n, value=v) for n, v in sizes.items()), env=())
    return SrtRecipe(
        file="r.yaml", variant="", name="x", model=SrtModel(repo="m", revision="", served_name="m"), hardware="b200", gpus_per_node=8,
        runtime=SrtRuntime(image="i", vllm="", dynamo="1", install="present"), isl=1, osl=1, max_model_len=None, roles=(role,), mtp=mtp,
        concurrency=concurrency, time_limit_s=3600, benchmark=(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("jobs", "sized_for"),
    [
        ([job(seqs=80, capture=80, tokens=96)], (64,)),
        ([job(seqs=80, capture=320, tokens=336, dp=4, mtp=3, concurrency=(128,))], (256,)),
        ([job(seqs=33, capture=33, tokens=49, dp=4, concurrency=(66,))], (66,)),
        ([job(seqs=80, capture=80, tokens=96), job(seqs=81, capture=80, tokens=96)], None),
        ([job(seqs=16, capture=16, tokens=32)], None),
        ([job(seqs=80, capture=160, tokens=176)], None),
    ],
)
def test_formulas_are_recognised_only_where_they_hold_for_all(jobs: list[SrtRecipe], sized_for: tuple[int, ...] | None) -> None:
    found = recognise(jobs)
    assert (found.sized_for if found else None) == sized_for
    assert found is None or all(not role.flags for recipe in found.recipes for role in recipe.roles)
