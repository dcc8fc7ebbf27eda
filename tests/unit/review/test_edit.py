"""Edits that change one value: what else is in the file stays, byte for byte."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recipegen.errors import InputError
from recipegen.matrix import parse_matrix
from recipegen.review.edit import set_values
from recipegen.review.edit_path import PointName, dotted, parse_assignment
from recipegen.yamlsource import parse_yaml
from tests.support import LEAF

PUBLISHED = (LEAF / "matrix.yaml").read_bytes()


def edit(text: str, *assignments: str, add: bool = False) -> str:
    return set_values(text.encode(), "m.yaml", assignments, add=add).text.decode()


def refusal(text: str, *assignments: str, add: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        set_values(text.encode(), "m.yaml", assignments, add=add)
    return f"{caught.value} | {caught.value.hint}"


# -- paths ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "steps", "value"),
    [
        ("name=x", ("name",), "x"),
        ("points[3].sized_for=2048", ("points", 3, "sized_for"), "2048"),
        ("points[1xtp8-1xtp8-cc4].mtp=0", ("points", PointName("1xtp8-1xtp8-cc4"), "mtp"), "0"),
        ('common.args["speculative-config.method"]=mtp', ("common", "args", "speculative-config.method"), "mtp"),
        ("common.args['it''s'].a=1", ("common", "args", "it's", "a"), "1"),
        ('a["\\u00e9=["]=1', ("a", "é=["), "1"),
        ("common.args.kv-cache-dtype=a=b", ("common", "args", "kv-cache-dtype"), "a=b"),
        ("a[0][1]={b: [c]}", ("a", 0, 1), "{b: [c]}"),
        ("a=", ("a",), ""),
        ("a[-1]=1", ("a", -1), "1"),
        ('points["1xtp8-1xtp8-cc4"].mtp=0', ("points", PointName("1xtp8-1xtp8-cc4"), "mtp"), "0"),
        ("points['1xtp8-1xtp8-cc4'].mtp=0", ("points", PointName("1xtp8-1xtp8-cc4"), "mtp"), "0"),
        ('a.points["b"]=0', ("a", "points", "b"), "0"),
    ],
)
def test_an_assignment_is_read(text: str, steps: tuple[object, ...], value: str) -> None:
    found = parse_assignment(text)
    assert (found.steps, found.value) == (steps, value)


@pytest.mark.parametrize(
    "text", ["", "=", "=1", "a", "a.b", ".a=1", "a.=1", "a..b=1", "[0]=1", "a[=1", "a[0=1", "a[0]b=1", "a b=1", 'a["x=1', "a[b]=1", 'a["\\q"]=1']
)
def test_what_is_no_assignment_is_said(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_assignment(text)
    assert "points[3].sized_for=2048" in caught.value.hint


@given(
    st.lists(st.integers(0, 99) | st.text(st.characters(codec="utf-8"), min_size=1), max_size=4), st.text(st.characters(codec="utf-8"), min_size=1)
)
def test_a_dotted_path_is_read_back(rest: list[str | int], first: str) -> None:
    if not any(char in first for char in " .[]='\"\t\n\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0") and first.isascii():
        assert parse_assignment(f"{dotted([first, *rest])}=1").steps == (first, *rest)


# -- values in their place -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "assignment", "after"),
    [
        ("a: 1 # why\n", "a=2", "a: 2 # why\n"),
        ("a:    1     # aligned\nb:  2\n", "a=true", "a:    true     # aligned\nb:  2\n"),
        ("a: 'x' # c\n", "a=it's", "a: 'it''s' # c\n"),
        ('a: "x"\n', 'a=say "no"', 'a: "say \\"no\\""\n'),
        ('a: "1:00:00"\n', "a=1:30:00", 'a: "1:30:00"\n'),
        ("a: x\n", "a=1:30:00", 'a: "1:30:00"\n'),
        ("a: x\n", 'a="1"', 'a: "1"\n'),
        ("a: x\n", 'a="plain"', "a: plain\n"),
        ("a: x\n", 'a="a # b"', 'a: "a # b"\n'),
        ("a: x\n", "a=null", "a: null\n"),
        ("a: x\n", "a=~", "a: ~\n"),
        ("a: x\n", "a=0x1F", "a: 0x1F\n"),
        ("a: [1,  2] # c\n", "a[1]=3", "a: [1,  3] # c\n"),
        ("a: [x, z]\n", 'a[0]="p, q"', 'a: ["p, q", z]\n'),
        ("a: [1, 2]\n", "a=[4]", "a: [4]\n"),
        ("a: {b: 1}\n", "a=5", "a: 5\n"),
        ("a:\n  - b: 1\n    c: 2 # c\n  - 3\n", "a[0].c=9", "a:\n  - b: 1\n    c: 9 # c\n  - 3\n"),
        ("a:\n  - b: 1\n  - 3 # c\n", "a[1]=9", "a:\n  - b: 1\n  - 9 # c\n"),
        ("a:\nb: 1\n", "a=2", "a: 2\nb: 1\n"),
        ("a: # nothing\nb: 1\n", "a=2", "a: 2 # nothing\nb: 1\n"),
        ("a: {b: , c: 1}\n", "a.b=2", "a: {b: 2 , c: 1}\n"),
        ("a: {b, c: 1}\n", "a.b=2", "a: {b: 2, c: 1}\n"),
        ("a: |\n  x\n  y\n# c\nb: 1\n", "a=z", "a: z\n# c\nb: 1\n"),
        ("a: >-\n  x\n\n  y\nb: 1\n", "a=z", "a: z\nb: 1\n"),
        ("a: x\n  y\n  z # c\n", "a=w", "a: w # c\n"),
        ("a: &n 1 # c\n", "a=2", "a: &n 2 # c\n"),
        ("a: &n 1\nb: *n # c\n", "b=2", "a: &n 1\nb: 2 # c\n"),
        ("a: &n {x: 1}\nb: *n\n", "b={x: 2}", "a: &n {x: 1}\nb: {x: 2}\n"),
        ("a: !!str 1 # c\n", 'a="2"', "a: !!str 2 # c\n"),
        ("\ufeffa: 1\r\nb: 2 # c\r\n", "b=3", "\ufeffa: 1\r\nb: 3 # c\r\n"),
        ("a: 1", "a=2", "a: 2"),
        ("---\na: 1\n...\n", "a=2", "---\na: 2\n...\n"),
    ],
)
def test_one_value_is_replaced(before: str, assignment: str, after: str) -> None:
    assert edit(before, assignment) == after


@pytest.mark.parametrize(
    ("before", "assignment", "after"),
    [
        ("a: {b: 1} # c\n", "a.d=2", "a: {b: 1, d: 2} # c\n"),
        ("a: {} # c\n", "a.d=2", "a: {d: 2} # c\n"),
        ("a: {b: 1,\n    c: [2] # last\n    }\n", "a.d=2", "a: {b: 1,\n    c: [2], d: 2 # last\n    }\n"),
        ("a: {b: &n 1, c: *n}\n", "a.d=2", "a: {b: &n 1, c: *n, d: 2}\n"),
        ("a:\n  b: 1 # last\n\n# for e\ne: 2\n", "a.d=2", "a:\n  b: 1 # last\n  d: 2\n\n# for e\ne: 2\n"),
        ("a:\n  b:\n    x: [1,\n      2]\n  # out\ne: 2\n", "a.d=2", "a:\n  b:\n    x: [1,\n      2]\n  d: 2\n  # out\ne: 2\n"),
        ("a:\n- b: 1\n- c: 2\n", "a[0].d=x y", "a:\n- b: 1\n  d: x y\n- c: 2\n"),
        ("a: 1\r\nb: 2\r\n", "c=3", "a: 1\r\nb: 2\r\nc: 3\r\n"),
        ("a: 1", "c=3", "a: 1\nc: 3"),
        ("a: 1\n", 'c="true"', 'a: 1\nc: "true"\n'),
        ("a: 1\n", 'b={c: "on"}', 'a: 1\nb: {c: "on"}\n'),
        ("a: {b: 1}\n", 'a["true"]=1', 'a: {b: 1, "true": 1}\n'),
        ("a: {b: 1}\n", 'a["x.y"]=1', "a: {b: 1, x.y: 1}\n"),
        ("a:\n  b: |\n    text\nc: 1\n", "a.d=2", "a:\n  b: |\n    text\n  d: 2\nc: 1\n"),
        ("a: 1\n", "a=2", "a: 2\n"),
    ],
)
def test_a_key_is_added_where_that_is_wanted(before: str, assignment: str, after: str) -> None:
    assert edit(before, assignment, add=True) == after


@pytest.mark.parametrize(
    ("text", "assignment", "words"),
    [
        ("alpha: 1\n", "alpho=2", "m.yaml:1:1: the file has no key 'alpho'; did you mean 'alpha'? --add adds a key that is not there"),
        ("a: {x.y: 1}\n", "a.x.y=2", "m.yaml:1:4: a has no key 'x'; a key with dots is written a[\"x.y\"]"),
        ("a: {b: 1}\n", "a.c.d=2", "m.yaml:1:4: a has no key 'c'; --add adds the last key of a path only: a.c={d: ...} --add"),
        ("a: [1]\n", f"a[{'9' * 5000}].b=1", f"a: there is no [{'9' * 18}...]"),
        ("a: [1]\n", f"a[-{'9' * 5000}]=1", "a: there is no [-9"),
        ("a: [1]\n", f"a[0]={'9' * 5000}", "does not fit in 64 bits"),
        ("a: [1]\n", "a[1]=2", "m.yaml:1:4: a has 1 entries, counted from 0: there is no [1]"),
        ("a: [1]\n", "a[-1]=2", "there is no [-1]"),
        (
            "a: {args: {k: 1}, derive: {x: dp}}\n",
            "a.args.x=2",
            "m.yaml:1:11: a.args has no key 'x'; a.derive.x decides it: set that, or remove it first",
        ),
        ("a: [1]\n", "a.b=2", "a is a list: it has no key 'b'"),
        ("a: 1\n", "a.b=2", "a is a single value: it has no key 'b'"),
        ("a:\n", "a.b=2", "a is nothing: it has no key 'b'; a={b: ...} makes it a mapping"),
        ("a: 1\n", "a[0]=2", "a is no list: there is no [0]"),
        ("a:\n  b: 1\n", "a=2", "a is a mapping over several lines; set what is in it, one by one"),
        ("a:\n- 1\n", "a=2", "a is a list over several lines"),
        ("a: &x 1\nb: *x\n", "a=2", "a cannot be set alone; an alias repeats it"),
        ("a: &x {k: 1}\nb: *x\n", "b.k=2", "b.k cannot be set alone; an alias repeats it"),
        ("a: &x {k: 1}\nb: *x\n", "b.l=2", "b has no key 'l'"),
        ("a: 1\n", "a=", "a: no value to set | null is nothing"),
        ("a: 1\n", "a=2\nb: 3", "a: more than one line to set"),
        ("a: 1\n", "a=2 # why", "expected a value and nothing else, found '2 # why'"),
        ("a: 1\n", "a=[1", "a: "),
        ("a: 1\n", "a=b: c", "a: a ': ' is not allowed here"),
        ("a: 1\n", "a=on", "a: 'on' is true to some YAML readers and text to others; expected true, or quotes around it"),
        ("a: 1\n", "a=*x", "has no anchor"),
        ("a: 1\na: 2\n", "a=3", "m.yaml:2:1: "),
    ],
)
def test_what_cannot_be_set_is_refused(text: str, assignment: str, words: str) -> None:
    assert words in refusal(text, assignment)


@pytest.mark.parametrize(
    ("assignment", "words"), [("a.b.c=1", "a={b: ...} --add"), ("a[0].b=1", "has no key 'a'"), ("x.y.z=1", "x.y={z: ...} --add")]
)
def test_only_the_last_key_of_a_path_is_added(assignment: str, words: str) -> None:
    assert words in refusal("x: {w: 1}\n", assignment, add=True)
    assert "--add adds the last key of a path only" in refusal("x: {w: 1}\n", assignment, add=True)


def test_what_is_behind_an_alias_gets_no_key() -> None:
    assert "cannot be set alone" in refusal("a: &x {k: 1}\nb: *x\n", "b.l=2", add=True)


def test_all_or_nothing() -> None:
    assert edit("a: 1\nb: 2 # c\n", "b=longer text", "a=x") == "a: x\nb: longer text # c\n"
    assert "no key 'c'" in refusal("a: 1\nb: 2\n", "a=3", "c=1")
    assert "a is set twice" in refusal("a: 1\nb: 2\n", "a=3", "a=4")


def test_a_later_assignment_can_go_into_what_an_earlier_added() -> None:
    assert edit("a: 1\n", "b={}", "b.c=2", add=True) == "a: 1\nb: {c: 2}\n"


def test_changes_tell_where_and_what() -> None:
    added, replaced = set_values(b"a: 1\nb: {c: 'x'}\n", "m.yaml", ["d=5", "b.c=y"], add=True).changes
    assert (str(added.source), added.path, added.before, added.after) == ("m.yaml:3:4", "d", None, "5")
    assert (str(replaced.source), replaced.path, replaced.before, replaced.after) == ("m.yaml:2:8", "b.c", "'x'", "'y'")


# -- the published matrix ------------------------------------------------------------------------------------------------


def test_a_point_is_found_by_its_name_even_when_that_changes_with_it() -> None:
    name = "2xtp2dep4-1xtp4dep4-mtp-cc512"
    done = set_values(PUBLISHED, "m.yaml", [f"points[{name}].concurrency=[768]", f"points[{name}].sized_for=2048"])
    (old, new) = (text.decode().splitlines() for text in (PUBLISHED, done.text))
    (number,) = [n for n, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert new[number] == old[number].replace("[512], sized_for: 1024", "[768], sized_for: 2048")
    assert "no point is called '2xtp2dep4-1xtp4dep4-mtp-cc513' | did you mean" in refusal(PUBLISHED.decode(), f"points[{name[:-1]}3].mtp=1")


def scalars(data: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(data, (dict, list)):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from scalars(value, (*path, step))
    else:
        yield path


DATA: Any = parse_yaml(PUBLISHED, "m.yaml").data
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp", "Cn", "Co")), max_size=12)
)


def put(data: Any, path: tuple[str | int, ...], value: object) -> Any:
    copied = copy.deepcopy(data)
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copied


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(scalars(DATA))), VALUES), min_size=1, max_size=3, unique_by=lambda pair: pair[0]))
def test_random_edits_of_the_published_matrix_keep_every_other_byte(edits: list[tuple[tuple[str | int, ...], object]]) -> None:
    done = set_values(PUBLISHED, "m.yaml", [f"{dotted(path)}={json.dumps(value, ensure_ascii=False)}" for path, value in edits])
    expected = DATA
    for path, value in edits:
        expected = put(expected, path, value)
    found = parse_yaml(done.text, "m.yaml")
    assert json.dumps(found.data) == json.dumps(expected)
    old, new = PUBLISHED.decode().split("\n"), done.text.decode().split("\n")
    touched = {parse_yaml(PUBLISHED, "m.yaml").source(*path).line - 1 for path, _ in edits}
    assert len(old) == len(new)
    assert [line for number, line in enumerate(new) if number not in touched] == [line for number, line in enumerate(old) if number not in touched]
    if len(edits) == 1:
        (change,) = done.changes
        line, column = change.source.line - 1, change.source.column - 1
        assert change.before is not None
        assert new[line] == old[line][:column] + change.after + old[line][column + len(change.before) :]


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["common.args", "common.env", "decode", "points[2]", "points[5]", "workload", "variants", "variants.accuracy.benchmark"]), VALUES
)
def test_random_keys_of_the_published_matrix_are_added_and_nothing_else(parent: str, value: object) -> None:
    done = set_values(PUBLISHED, "m.yaml", [f"{parent}.further-key={json.dumps(value, ensure_ascii=False)}"], add=True)
    (change,) = done.changes
    steps = parse_assignment(f"{parent}=1").path()
    assert json.dumps(parse_yaml(done.text, "m.yaml").data) == json.dumps(put(DATA, (*steps, "further-key"), value))
    for key in ("further-key", '"further-key"'):
        for added in (f"\n{'  ' * len(steps)}{key}: {change.after}", f", {key}: {change.after}"):
            if done.text.decode().replace(added, "", 1) == PUBLISHED.decode():
                return
    pytest.fail(done.text.decode())


def test_one_size_is_one_number() -> None:
    done = set_values(PUBLISHED, "m.yaml", ["points[3].sized_for=2048"])
    assert done.text == PUBLISHED.replace(b"sized_for: 256", b"sized_for: 2048")
    assert parse_matrix(done.text, "m.yaml").points[3].sized_for == 2048
