from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from enum import Enum
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator

from recipegen.errors import InputError
from recipegen.yamlsource import parse_yaml, validate


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Kind(Enum):
    FULL = "full"
    NONE = "none"


class Gsm8k(Strict):
    type: Literal["gsm8k"]
    limit: int | None = None


class Aiperf(Strict):
    type: Literal["aiperf"]
    requests: int


class Roles(Strict):
    prefill: str = ""
    decode: str


class Model(Strict):
    name: str = ""
    value: int | float | bool | str | tuple[int | str, ...] | None = None
    tokens: Annotated[int, Field(ge=1)] | Literal["auto"] = 1
    benchmark: Annotated[Gsm8k | Aiperf, Field(discriminator="type")] | None = None
    roles: Roles | str = ""
    either: list[Roles | Gsm8k] = []
    pair: tuple[int, str] | None = None
    kind: Kind = Kind.NONE
    ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    flag: bool = False
    env: dict[Annotated[str, Field(pattern="^[A-Z]+$")], int] = {}
    points: Annotated[tuple[Roles, ...], Field(max_length=2)] = ()

    @field_validator("name")
    @classmethod
    def _lower(cls, name: str) -> str:
        if name != name.lower():
            raise ValueError("name has capitals; expected small letters")
        return name


def invalid(text: str, model: type[BaseModel] = Model) -> list[str]:
    with pytest.raises(InputError) as caught:
        validate(parse_yaml(text, "f"), model)
    return [str(p) for p in caught.value.problems]


def test_validate_returns_the_model() -> None:
    text = "value: [1, a]\ntokens: auto\nbenchmark: {type: gsm8k}\nkind: full\nratio: 1\npair: [1, x]\nenv: {A: 1}\npoints: [{decode: x}]\n"
    model = validate(parse_yaml(text, "f"), Model)
    assert model == Model(
        value=(1, "a"),
        tokens="auto",
        benchmark=Gsm8k(type="gsm8k"),
        kind=Kind.FULL,
        ratio=1.0,
        pair=(1, "x"),
        env={"A": 1},
        points=(Roles(decode="x"),),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nam: x\n", ["f:1:1: unknown key 'nam'; did you mean 'name'?"]),
        ("roles:\n  prefil: x\n  decode: z\n", ["f:2:3: roles: unknown key 'prefil'; did you mean 'prefill'?"]),
        ("roles:\n  zzz: x\n", ["f:2:3: roles: missing key 'decode'", "f:2:3: roles: unknown key 'zzz'; expected 'prefill' or 'decode'"]),
        (
            "points:\n  - {decode: x}\n  - prefill: 2\n",
            ["f:3:5: points[1]: missing key 'decode'", "f:3:14: points[1].prefill: expected a string, found the integer 2; put it in quotes"],
        ),
        ("name:\n", ["f:1:1: name: expected a string, found nothing"]),
        ("name: 1.50\n", ["f:1:7: name: expected a string, found the number 1.5; put it in quotes"]),
        ("name: Abc\n", ["f:1:7: name: name has capitals; expected small letters"]),
        ("flag: 1\n", ["f:1:7: flag: expected true or false, found the integer 1"]),
        ("flag: 'true'\n", ["f:1:7: flag: expected true or false, found the string 'true'; leave out the quotes"]),
        ("ratio: 0\n", ["f:1:8: ratio: expected more than 0, found the integer 0"]),
        ("ratio: '0.5'\n", ["f:1:8: ratio: expected a number, found the string '0.5'; leave out the quotes"]),
        ("kind: ful\n", ["f:1:7: kind: expected 'full' or 'none', found the string 'ful'; did you mean 'full'?"]),
        ("pair: [1]\n", ["f:1:7: pair: missing entry 2"]),
        ("points: [{decode: a}, {decode: b}, {decode: c}]\n", ["f:1:9: points: expected 2 or fewer entries, found a list of 3"]),
        (
            "env: {a: x}\n",
            ["f:1:7: env.a: expected a string of another form, found the key 'a'", "f:1:10: env.a: expected an integer, found the string 'x'"],
        ),
    ],
)
def test_validation_errors(text: str, expected: list[str]) -> None:
    assert invalid(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value: {a: 1}\n", ["f:1:8: value: expected an integer, a number, true or false, a string or a list, found a mapping"]),
        ("value: [1, [2]]\n", ["f:1:12: value[1]: expected an integer or a string, found a list"]),
        ("tokens: 0\n", ["f:1:9: tokens: expected 1 or more, found the integer 0"]),
        ("tokens: atuo\n", ["f:1:9: tokens: expected 'auto', found the string 'atuo'; did you mean 'auto'?"]),
        ("tokens: [1]\n", ["f:1:9: tokens: expected an integer or 'auto', found a list"]),
        ("roles: 3\n", ["f:1:8: roles: expected a mapping or a string, found the integer 3; put it in quotes"]),
        ("roles: {decode: 1}\n", ["f:1:17: roles.decode: expected a string, found the integer 1; put it in quotes"]),
        ("benchmark: {type: gsm}\n", ["f:1:19: benchmark.type: expected 'gsm8k' or 'aiperf', found the string 'gsm'; did you mean 'gsm8k'?"]),
        ("benchmark: {limit: 1}\n", ["f:1:12: benchmark: missing key 'type'"]),
        ("benchmark: x\n", ["f:1:12: benchmark: expected a mapping, found the string 'x'"]),
        ("benchmark: {type: gsm8k, request: 1}\n", ["f:1:26: benchmark: unknown key 'request'; expected 'limit'"]),
        ("either:\n  - {type: gsm8k, limits: 1}\n", ["f:2:19: either[0]: unknown key 'limits'; did you mean 'limit'?"]),
    ],
)
def test_unions_speak_with_one_voice(text: str, expected: list[str]) -> None:
    assert invalid(text) == expected


def test_validation_reports_everything_in_file_order() -> None:
    found = invalid("kind: 1\nflag: 2\nbad: 3\nname: 4\n")
    assert [p.split(" ")[0] for p in found] == ["f:1:7:", "f:2:7:", "f:3:1:", "f:4:7:"]


def test_validation_counts_many_problems() -> None:
    found = invalid("value: 1\n" + "".join(f"x{n}: 1\n" for n in range(500)))
    assert len(found) == 101
    assert found[-1] == "f:102:1: 400 more problems from here on"


def test_validation_through_an_alias() -> None:
    assert invalid("value: &v {decode: 1}\nroles: *v\n") == [
        "f:1:8: value: expected an integer, a number, true or false, a string or a list, found a mapping",
        "f:1:20: roles.decode: expected a string, found the integer 1; put it in quotes",
    ]


SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
KEYS = st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126))
VALUES = st.recursive(
    SCALARS | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.sampled_from([*Model.model_fields, "nam", "x"])


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, VALUES | st.fixed_dictionaries({"type": VALUES, "decode": VALUES}), min_size=1))
def test_validation_only_ever_raises_input_errors(value: dict[str, object]) -> None:
    with suppress(InputError):
        validate(parse_yaml(json.dumps(value), "f"), Model)


def test_pydantic_is_loaded_by_validation_only() -> None:
    code = "import sys, recipegen.yamlsource as y; y.parse_yaml('a: 1', 'f'); sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
