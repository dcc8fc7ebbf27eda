"""Texts that have to match a pattern: what was expected is said in words, never as the pattern."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from recipegen import cluster_schema, job_schema, matrix_schema
from recipegen.errors import InputError
from recipegen.matrix import parse_matrix
from recipegen.matrix_schema import Matching
from recipegen.sizing import calibration_schema
from tests.support import agg_point, matrix_of

MODULES = (matrix_schema, job_schema, cluster_schema, calibration_schema)
NEVER = "\n\x00 no text of ours \x00"


def models(module: ModuleType) -> list[type[BaseModel]]:
    return [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseModel) and value.__module__ == module.__name__
    ]


def matchings(hint: object) -> Iterator[Matching]:
    for part in (*getattr(hint, "__metadata__", ()), *get_args(hint)):
        if isinstance(part, Matching):
            yield part
        else:
            yield from matchings(part)


def patterns(schema: Any) -> Iterator[str]:
    """Every pattern of a JSON schema, those of keys included."""
    if isinstance(schema, dict):
        yield from [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        yield from schema.get("patternProperties", {})
        for value in schema.values():
            yield from patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns(value)


KNOWN = {
    found.pattern: found
    for module in MODULES
    for model in models(module)
    for hint in get_type_hints(model, include_extras=True).values()
    for found in matchings(hint)
}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_pattern_of_every_schema_has_words(module: ModuleType) -> None:
    assert models(module)
    for model in models(module):
        assert set(patterns(json.loads(json.dumps(model.model_json_schema())))) <= set(KNOWN), model


@pytest.mark.parametrize("matching", KNOWN.values(), ids=lambda matching: matching.wanted)
def test_words_are_no_pattern_and_stand_in_its_place(matching: Matching) -> None:
    assert not re.search(r"[\^\\*?|{}\[\]]", matching.wanted)
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, matching]).validate_python("" if re.search(matching.pattern, NEVER) else NEVER)
    (error,) = caught.value.errors()
    assert (error["type"], error["msg"]) == ("string_pattern_mismatch", f"expected {matching.wanted}")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"1:00:00"', '"90"', "points[0].time_limit: expected H:MM:SS or D-HH:MM:SS, found the string '90'"),
        ("vllm: 0.28.0", "vllm: v0.28.0", "runtime.vllm: expected a version such as 0.28.0, without the v, found the string 'v0.28.0'"),
        (
            "{kv-cache",
            "{--max-num-seqs: 8, kv-cache",
            "common.args.--max-num-seqs: expected a flag without dashes in front, such as max-num-seqs, found the key '--max-num-seqs'",
        ),
        ("name: tiny", "name: Tiny", "name: expected lower-case letters, digits and . _ -, a letter or digit first, found the string 'Tiny'"),
        ("points:", "allow: [{rule: a, reason: ''}]\npoints:", "allow[0].reason: expected a reason, found the string ''"),
        ("name: tiny", f"name: {'x' * 101}", "name: expected a string of 100 or fewer characters, found the string"),
    ],
)
def test_what_a_matrix_may_not_hold_is_said_in_words(old: str, new: str, message: str) -> None:
    text = matrix_of(agg_point("TP8"))
    assert old in text
    with pytest.raises(InputError) as caught:
        parse_matrix(text.replace(old, new, 1), "matrix.yaml")
    (problem,) = caught.value.problems
    assert problem.message.startswith(message)
