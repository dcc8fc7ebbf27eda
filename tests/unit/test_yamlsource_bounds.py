from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recipegen.errors import InputError
from recipegen.yamlsource import parse_yaml


def outcome(text: str | bytes, *, libyaml: bool) -> object:
    try:
        document = parse_yaml(text, "f", libyaml=libyaml)
    except InputError as error:
        return [str(p) for p in error.problems]
    return type(document.data), json.dumps(document.data, allow_nan=False)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{n:x}:\n" for n in range(0x10000, 0x10000 + 140_000)),
        "a: [" + "1," * 500_000 + "]",
        "\x00" * 1_000_000,
        "on: on\n" * 140_000,
        "a:\n" + "".join(f"- &a{n} 1\n" for n in range(90)) + "- *a\n" * 190_000,
        "- &a x\n" * 140_000,
        "'" * 1_000_000,
        "a: " + "1_" * 500_000,
        "-" * 1_000_000 + ":\nb: c: d",
    ],
    ids=["keys", "list", "nul", "surprises", "aliases", "anchors", "quotes", "underscores", "dashes"],
)
def test_large_files_are_judged(text: str) -> None:
    """What does not grow linearly does not end here before the timeout of a test."""
    result = outcome(text, libyaml=True)
    assert not isinstance(result, list) or len(result) <= 101


SEEDS = [
    "a: 1\nb: [1, 2, {c: d}]\n",
    "x: \"é\\n\\x41\" # c\ny: 'it''s'\n",
    "- a\n- b: c\n  d: |\n    text\n\n  e: >-\n   fold\n",
    "&a a: &b {x: 1}\nb: *b\n",
    "? k\n: v\n? [l]\n: !!str w\n",
    "%YAML 1.1\n---\na: 1\n...\n---\nb: 2\n",
    "on: off\nt: 1:30:00\n010: 1_0\n<<: *x\n",
    "p: !foo bar\nempty:\n'': \n",
    "\tx: 1\na:\t2\n",
    'points:\n  - {prefill: 1xTP8, concurrency: [1, 2], time_limit: "1:00:00"}\n',
]
PIECES = [
    *" \n:-?[]{},&*!|>'\"%@`#ab10\t\\é😀~.\r\x01\u2028\ufeff",
    ": ",
    "- ",
    "\n  ",
    "---",
    "...",
    "*a",
    "&a ",
    "!!str ",
    "on",
    "1:20",
    "<<: ",
    "\\u",
    "\\U",
]


@st.composite
def mutated_yaml(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(SEEDS)) + draw(st.sampled_from(["", *SEEDS]))
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", *PIECES])) + text[at + draw(st.integers(0, 3)) :]
    return text


@settings(max_examples=400, deadline=None)
@given(mutated_yaml())
@example("{a?b: 1}")
@example("a: |#c\n x\n")
@example("a: !...!b c\n")
@example('a: "\\ud800\\UFFFFFFFF"')
def test_mutated_yaml_has_one_outcome(text: str) -> None:
    assert outcome(text, libyaml=True) == outcome(text, libyaml=False)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.binary()))
def test_any_text_has_one_outcome(text: str | bytes) -> None:
    assert outcome(text, libyaml=True) == outcome(text, libyaml=False)


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126))
VALUES = st.recursive(
    SCALARS | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["a", "b", "on", "1"]), VALUES, min_size=1))
def test_what_pyyaml_writes_is_read_back(value: dict[str, object]) -> None:
    text = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    result = outcome(text, libyaml=True)
    if isinstance(result, list):
        assert all("U+" in p or "YAML readers" in p or "carriage" in p for p in result)
    else:
        assert result == (dict, json.dumps(value))
