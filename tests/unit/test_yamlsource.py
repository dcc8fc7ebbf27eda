from __future__ import annotations

from typing import Any

import pytest
import yaml

from recipegen.errors import InputError
from recipegen.yamlsource import MAX_ALIASED, MAX_BYTES, MAX_DEPTH, parse_yaml

PARSERS = [pytest.param(True, id="libyaml", marks=pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML without libyaml")), False]


@pytest.fixture(params=PARSERS)
def libyaml(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def problems(text: str | bytes, *, libyaml: bool = True) -> list[str]:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f", libyaml=libyaml)
    return [str(p) for p in caught.value.problems]


def data(text: str | bytes, *, libyaml: bool = True) -> Any:
    return parse_yaml(text, "f", libyaml=libyaml).data


# -- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("null", None),
        ("Null", None),
        ("~", None),
        ("", None),
        ("0", 0),
        ("-12", -12),
        ("+5", 5),
        ("0x1F", 31),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        ("-0.25", -0.25),
        ("1.", 1.0),
        (".5", 0.5),
        ("1.0e+3", 1000.0),
        ("1.5E-3", 0.0015),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01 10:00:00", "2026-01-01 10:00:00"),
        ("1.2.3", "1.2.3"),
        ("1-2", "1-2"),
        ("1xTP8", "1xTP8"),
        ("a:b", "a:b"),
        ("oN", "oN"),
        ("nan", "nan"),
        ("inf", "inf"),
        ("=", "="),
        ("<<", "<<"),
        (".", "."),
        ("é", "é"),
        ("0.26.1rc1", "0.26.1rc1"),
        ("yesterday", "yesterday"),
        ("0o9", "0o9"),
        ("0x", "0x"),
        ("'on'", "on"),
        ('"1:30:00"', "1:30:00"),
        ('"\\t\\n"', "\t\n"),
        ("!!str 010", "010"),
        ("!!int 3", 3),
        ('!!int "3"', 3),
        ("!!float 3", 3.0),
        ("!!null ''", None),
        ("!!bool true", True),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
    ],
)
def test_values(text: str, value: object, libyaml: bool) -> None:
    found = data(f"k: {text}\n", libyaml=libyaml)["k"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO", "off", "Off", "OFF"])
def test_words_that_yaml_1_1_reads_as_bool(text: str, libyaml: bool) -> None:
    value, key = problems(f"k: {text}\n{text}: v\n", libyaml=libyaml)
    assert value.startswith(f"f:1:4: '{text}' is ")
    assert key.startswith(f"f:2:1: '{text}' is ")
    assert "quotes" in value


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1:30:00", "base 60"),
        ("190:20", "base 60"),
        ("01:30", "base 60"),
        ("-1:2", "base 60"),
        ("1:2.5", "base 60"),
        ("010", "octal"),
        ("00", "octal"),
        ("08", "octal"),
        ("-01", "octal"),
        ("01.5", "octal"),
        ("0o10", "octal"),
        ("0b1", "binary"),
        ("1_000", "some YAML readers"),
        ("1_0.5", "some YAML readers"),
        ("1e3", "some YAML readers"),
        ("1.5e3", "some YAML readers"),
        ("1234e56", "some YAML readers"),
        ("-.5", "some YAML readers"),
        ("0x_1", "some YAML readers"),
        ("-0x1F", "some YAML readers"),
        (".inf", "finite"),
        ("-.Inf", "finite"),
        (".NAN", "finite"),
        ("1.0e+999", "too large"),
        ("1" * 400 + ".0", "too large"),
        ("9223372036854775808", "64 bits"),
        ("-9223372036854775809", "64 bits"),
        ("0xFFFFFFFFFFFFFFFF", "64 bits"),
        ("9" * 100_000, "64 bits"),
    ],
)
def test_numbers_without_one_meaning(text: str, what: str, libyaml: bool) -> None:
    (found,) = problems(f"k:\n  - {text}\n", libyaml=libyaml)
    assert found.startswith("f:2:5: '")
    assert what in found
    assert len(found) < 250
    assert data(f"k: '{text}'", libyaml=libyaml) == {"k": text}


@pytest.mark.parametrize("character", ["\\x00", "\\x01", "\\r", "\\x7f", "\\x85", "\\u2028", "\\u2029", "\\ufeff", "\\u202e", "\\ud800", "\\e"])
def test_control_characters_by_escape(character: str, libyaml: bool) -> None:
    (found,) = problems(f'ä: 1\nk: "a{character}b"\n', libyaml=libyaml)
    assert found.startswith("f:2:4: ")


@pytest.mark.parametrize("character", ["\x00", "\x01", "\x7f", "\x80", "\x85", "\u2028", "\u2029", "\ufeff", "\u2066", "\ufffe"])
def test_control_characters_as_such(character: str, libyaml: bool) -> None:
    found = problems(f"ä: 1\nkey: a{character}b\n# {character}\non: 1\n", libyaml=libyaml)
    assert [p.split(" ")[0] for p in found] == ["f:2:7:", "f:3:3:", "f:4:1:"]
    assert f"U+{ord(character):04X}" in found[0]


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f:1:1: nothing is here; expected a mapping, 'key: value'"),
        ("# only a comment\n", "f:1:1: nothing is here; expected a mapping, 'key: value'"),
        ("[1]", "f:1:1: the file holds a list; expected a mapping, 'key: value', at its top level"),
        ("\nword", "f:2:1: the file holds a single value; expected a mapping, 'key: value', at its top level"),
        ("a: 1\n---\nb: 1\n", "f:2:1: a second document begins here; expected one document in the file"),
        ("%YAML 1.1\n---\na: 1\n", "f:1:1: a directive; expected none, the file is read as YAML 1.2"),
        (b"a: 1\nb: \xc3\xa9 \xff", "f:2:6: byte 0xff is not UTF-8; expected UTF-8 text"),
        (b"\xef\xbb\xbf\xff", "f:1:1: byte 0xff is not UTF-8; expected UTF-8 text"),
        ("a: b\rc\n", "f:1:5: a carriage return without a newline; expected a newline"),
        ("a: 1\nb:\n\tc: 1\n\td: 1\n", "f:3:1: indented with a tab; expected spaces; tabs begin 1 later line too"),
        ("a: 1\nb: \tx\n", "f:2:4: a tab between values; expected spaces"),
        ("a: b: c\n", "f:1:5: a ': ' is not allowed here; expected quotes around text with ': ', or another indentation"),
        ("a:\n  b: 1\n c: 2\n", "f:3:2: 'c:' does not fit here; expected a key, indented like the other keys of its mapping"),
        ("a: 1\nword\nb: 1\n", "f:2:1: no ': ' follows; expected 'key: value'"),
        (
            "a: 'it's'\n",
            """f:1:8: "s'" does not fit here; expected a key, indented like the other keys of its mapping; a quoted text ends just before""",
        ),
        ('é: 😀\nb: "x\ny: 1\n', "f:2:4: the quote that opens here is never closed"),
        ("a: [1, 2\nb: 3\n", "f:2:2: ':' does not fit here; expected ',' or ']', or quotes around the text; it belongs to what opens on line 1"),
        ("a: @x\n", "f:1:4: '@x' cannot begin a value; expected quotes around it"),
        ('a: "\\U00110000"', "f:1:7: an escape beyond \\U0010ffff; expected a character that exists"),
    ],
)
def test_files_that_cannot_be_used(text: str | bytes, message: str, libyaml: bool) -> None:
    assert problems(text, libyaml=libyaml) == [message]


def test_missing_space_after_a_colon(libyaml: bool) -> None:
    (found,) = problems("a:b\nc: 1\n", libyaml=libyaml)
    assert found.endswith("a key's ':' needs a space after it")


def test_syntax_error_keeps_what_was_found_before(libyaml: bool) -> None:
    assert [p.split(" ")[0] for p in problems("a: on\nb: 010\nc: [1\nd: 2\n", libyaml=libyaml)] == ["f:1:4:", "f:2:4:", "f:4:2:"]


def test_byte_order_mark_and_crlf(libyaml: bool) -> None:
    document = parse_yaml("\ufeffa: é 😀\r\nb: |\r\n  x\r\n  y\r\n".encode(), "f", libyaml=libyaml)
    assert document.data == {"a": "é 😀", "b": "x\ny\n"}
    assert [str(document.source("a")), str(document.source("b"))] == ["f:1:4", "f:2:4"]


def test_tabs_within_text_and_comments(libyaml: bool) -> None:
    assert data("a: |\n  x\n  \ty\nb: 'p\tq' #\tr\n", libyaml=libyaml) == {"a": "x\n\ty\n", "b": "p\tq"}


def test_size() -> None:
    assert data("a: " + "x" * (MAX_BYTES - 3))
    for text in ("a: " + "x" * (MAX_BYTES - 2), b"a: " + b"x" * MAX_BYTES, "é" * (MAX_BYTES // 2 + 1)):
        assert problems(text) == [f"f: the file is larger than {MAX_BYTES} bytes; expected less"]


# -- keys, tags, aliases -----------------------------------------------------------------------------------------------


def test_keys(libyaml: bool) -> None:
    found = problems("a: 1\n\"a\": 2\n? [x]\n: 1\n1: 1\nnull: 1\nTrue: 1\n<<: {b: 1}\nc: {d: 1, 'd': 2}\n1:20: x\n", libyaml=libyaml)
    assert found == [
        "f:2:1: duplicate key 'a'; first on line 1, expected once",
        "f:3:3: a key is a list; expected text",
        "f:5:1: a key is a number; expected text, in quotes if it looks like a number",
        "f:6:1: a key is nothing or null; expected text, in quotes if it looks like null",
        "f:7:1: a key is true or false; expected text, in quotes if it looks like true or false",
        "f:8:1: merge key '<<' is not allowed; expected the merged keys written out",
        "f:9:11: duplicate key 'd'; first on line 9, expected once",
        "f:10:1: '1:20' is a number in base 60 to some YAML readers; expected a plain number, or quotes around it",
    ]
    assert data("'1': a\n\"on\": b\n'<<': c\n'': d\n2026-01-01: e\n", libyaml=libyaml) == {"1": "a", "on": "b", "<<": "c", "": "d", "2026-01-01": "e"}


def test_tags(libyaml: bool) -> None:
    text = "a: !!python/object/apply:os.system [x]\nb: !foo {}\nc: !!timestamp 2026-01-01\nd: ! x\ne: !!int x\nf: !!map [x]\n"
    assert problems(text, libyaml=libyaml) == [
        "f:1:4: tag '!!python/object/apply:os.system' is not allowed on a list; expected no tag",
        "f:2:4: tag '!foo' is not allowed on a mapping; expected no tag",
        "f:3:4: tag '!!timestamp' is not allowed on a text or number; expected no tag",
        "f:4:4: tag '!' is not allowed on a text or number; expected no tag",
        "f:5:4: 'x' does not fit its tag !!int; expected no tag",
        "f:6:4: tag '!!map' is not allowed on a list; expected no tag",
    ]


def test_aliases(libyaml: bool) -> None:
    document = parse_yaml("a: &x {k: [1, 2]}\nb: *x\n&n c: *n\n", "f", libyaml=libyaml)
    assert document.data == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": "c"}
    assert [str(document.source("b")), str(document.source("b", "k", 1)), str(document.key_source("b"))] == ["f:2:4", "f:1:15", "f:2:1"]
    assert problems("a: &node 1\nb: *nod\nc: &d [*d]\nd: &node 2\n", libyaml=libyaml) == [
        "f:2:4: alias '*nod' has no anchor; expected one before it; did you mean 'node'?",
        "f:3:8: alias '*d' stands within the value that it repeats",
        "f:4:4: anchor '&node' is already taken; expected a name of its own",
    ]


def test_alias_bomb_ends_quickly(libyaml: bool) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    assert problems("\n".join(lines), libyaml=libyaml)[0].endswith(f"aliases repeat more than {MAX_ALIASED} values; expected fewer")


@pytest.mark.parametrize("text", ["a: " + "[" * MAX_DEPTH, "a: " + "{b: " * MAX_DEPTH, "- " * (MAX_DEPTH + 1), "[" * 500_000, "? " * 500_000])
def test_depth(text: str, libyaml: bool) -> None:
    (found,) = problems(text, libyaml=libyaml)
    assert f"nested more than {MAX_DEPTH} deep" in found


def test_depth_counts_aliases_and_has_an_edge(libyaml: bool) -> None:
    inner = "[" * 40 + "]" * 40
    assert "alias '*a' nests more" in problems(f"a: &a {inner}\nb: {'[' * 30}*a{']' * 30}\n", libyaml=libyaml)[0]
    assert data(f"a: {'[' * (MAX_DEPTH - 1)}{']' * (MAX_DEPTH - 1)}", libyaml=libyaml)


# -- places ------------------------------------------------------------------------------------------------------------


def test_places(libyaml: bool) -> None:
    document = parse_yaml('日本: {"é": [x, "😀", {k: v}]}\nempty:\nlist:\n  -\n  - "q": |\n      t\n', "f", libyaml=libyaml)
    places = {
        ("日本",): "f:1:5",
        ("日本", "é"): "f:1:11",
        ("日本", "é", 1): "f:1:15",
        ("日本", "é", 2, "k"): "f:1:24",
        ("empty",): "f:2:1",
        ("list",): "f:4:3",
        ("list", 1): "f:5:5",
        ("list", 1, "q"): "f:5:10",
        ("list", 9, "x"): "f:4:3",
        ("none",): "f:1:1",
        (): "f:1:1",
    }
    assert {path: str(document.source(*path)) for path in places} == places
    assert [str(document.key_source(*p)) for p in [("日本", "é"), ("list", 1, "q"), ("list", 1), ("list", 7)]] == ["f:1:6", "f:5:5", "f:5:5", "f:4:3"]


def test_many_problems_are_counted() -> None:
    found = problems("on: 1\n" * 1000)
    assert len(found) == 101
    assert found[-1] == "f:51:1: 1899 more problems from here on"
