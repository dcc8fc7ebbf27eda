"""Reading flags: numbers as vLLM reads them, sizes that it would take, JSON that is deep, suffixed or none."""

from __future__ import annotations

import pytest

from recipegen.kv_transfer import kv_transfer
from recipegen.model import Flag, Role, RoleRecipe, Topology
from recipegen.role_flags import MAX_JSON_DEPTH, MAX_SIZE, json_keys, number, own_draft_tokens, read_json, size, whole_number
from recipegen.settings import Value

DEEP = ['{"a":' * 3000 + "1" + "}" * 3000, "[" * 3000 + "]" * 3000, "[" * 3000, '{"a": ' + "[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH + "}"]


def role(**flags: Value) -> RoleRecipe:
    set_flags = tuple(Flag(name=_dashed(name), value=value) for name, value in flags.items())
    return RoleRecipe(role=Role.DECODE, workers=1, topology=Topology(), flags=set_flags, env=())


def _dashed(name: str) -> str:
    head, *keys = name.split("__")
    return ".".join((head.replace("_", "-"), *keys))


@pytest.mark.parametrize(
    ("value", "whole", "as_size"),
    [
        (5, 5, 5),
        ("16k", 16_000, 16_000),
        ("16K", 16_384, 16_384),
        ("1.5m", 1_500_000, 1_500_000),
        ("1.5M", None, None),
        (-5, -5, None),
        (0, 0, None),
        (MAX_SIZE, MAX_SIZE, MAX_SIZE),
        (MAX_SIZE + 1, MAX_SIZE + 1, None),
        ("9" * 5000, None, None),
        ("9" * 5000 + "T", None, None),
        ("9" * 400 + "k", None, None),
        (True, None, None),
        (1.0, None, None),
        ((1, 2), None, None),
    ],
)
def test_whole_numbers_and_sizes(value: Value, whole: int | None, as_size: int | None) -> None:
    assert (whole_number(role(block_size=value), "block-size"), size(role(block_size=value), "block-size")) == (whole, as_size)


@pytest.mark.parametrize(("value", "found"), [(0.92, 0.92), ("0.92", 0.92), (1, 1.0), (10**400, None), ("1e999", None), (float("inf"), None)])
def test_numbers_are_finite(value: Value, found: float | None) -> None:
    assert number(role(some_number=value), "some-number") == found


@pytest.mark.parametrize("text", DEEP, ids=["objects", "lists", "open", "one too deep"])
def test_deep_json_says_nothing(text: str) -> None:
    for flag in ("speculative-config", "kv-transfer-config", "compilation-config", "attention-config"):
        one = RoleRecipe(role=Role.DECODE, workers=1, topology=Topology(), flags=(Flag(name=flag, value=text),), env=())
        assert json_keys(one, flag) == {}
        assert own_draft_tokens(one, mtp=3) == 3
    dotted = role(kv_transfer_config__kv_connector_extra_config=text, kv_transfer_config__kv_connector="NixlConnector")
    assert kv_transfer(dotted) is not None


def test_as_deep_as_a_matrix_may_nest_is_read() -> None:
    text = "[" * MAX_JSON_DEPTH + "]" * MAX_JSON_DEPTH
    assert str(read_json(text)) == text
    brackets = '{"a": "' + "[" * 500 + '\\"{"}'
    assert json_keys(role(hf_overrides=brackets), "hf-overrides")["a"].startswith("[[[")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"kv_buffer_size": 80m}', {"kv_buffer_size": 80_000_000}),
        ('{"a": [1K, 1.5k], "b": "80m", "c": {"d": 2}}', {"a": [1024, 1500], "b": "80m", "c": {"d": 2}}),
        ('{"a": 1.5M}', None),
        ('{"a": ' + "9" * 5000 + "}", None),
        ('{"a": ' + "9" * 5000 + "k}", None),
        ('{"a": "80m}', None),
        ("80m", 80_000_000),
        ("", None),
    ],
)
def test_json_with_suffixed_numbers(text: str, found: object) -> None:
    if found is None:
        with pytest.raises(ValueError, match=r"Expecting|Unterminated|Exceeds|Extra"):
            read_json(text)
    else:
        assert read_json(text) == found
    keys = found if isinstance(found, dict) else {}
    assert json_keys(role(kv_config=text), "kv-config") == keys


def test_suffixes_stand_in_whole_arguments_only() -> None:
    assert read_json('{"a": 1}', suffixes=False) == {"a": 1}
    with pytest.raises(ValueError, match="Expecting"):
        read_json('{"a": 80m}', suffixes=False)


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ({"speculative_config": '{"num_speculative_tokens": 5}'}, 5),
        ({"speculative_config__num_speculative_tokens": 5, "spec_tokens": 4}, 5),
        ({"speculative_config": '{"num_speculative_tokens": 0}'}, 0),
        ({"speculative_config": '{"num_speculative_tokens": -5}'}, 3),
        ({"speculative_config": '{"num_speculative_tokens": -5}', "spec_tokens": 4}, 4),
        ({"spec_tokens": -4}, 3),
        ({"spec_tokens": 10**30}, 3),
        ({}, 3),
    ],
)
def test_draft_tokens(flags: dict[str, Value], tokens: int) -> None:
    assert own_draft_tokens(role(**flags), mtp=3) == tokens
