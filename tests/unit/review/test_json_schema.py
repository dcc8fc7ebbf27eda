"""The JSON schemas against the loader: what one takes the other takes, and so with what they refuse."""

from __future__ import annotations

import json
import re
import unicodedata
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from recipegen import cluster_schema
from recipegen.clusters import parse_profile
from recipegen.document import Document, Node, Text
from recipegen.errors import InputError
from recipegen.job_variables import why_reserved
from recipegen.matrix import parse_matrix
from recipegen.review.json_schema import KINDS, editor_line, make_schema, schema_text
from recipegen.review.schema_limits import INVISIBLE, LIMITS, beginnings
from recipegen.review.schema_words import WORDS
from recipegen.yamlsource import parse_yaml, validate
from tests.support import LEAF, ROOT, agg_point, matrix_of
from tests.unit.review.documents import documents, in_python, slips

COMMITTED = ("matrix", "cluster")


# -- the loader, and a validator that reads patterns as ECMA 262 does ---------------------------------------------------


@cache
def schema_of(kind: str) -> dict[str, Any]:
    return in_python(make_schema(kind))


@cache
def validator_of(kind: str) -> Draft202012Validator:
    return Draft202012Validator(schema_of(kind))


def stage_takes(kind: str, data: object) -> bool:
    """What the loader's schema stage says of a document."""
    try:
        validate(Document("f", data, Text("f", "", (0,)), Node(0, data)), KINDS[kind].model)
    except InputError:
        return False
    return True


def loader_takes(kind: str, data: object) -> bool:
    """What the whole loader says: text, shape and, of a matrix, meaning."""
    text = json.dumps(data)
    try:
        if kind == "matrix":
            parse_matrix(text, "f")
        elif kind == "cluster":
            parse_profile(text, "f")
        else:
            validate(parse_yaml(text, "f"), KINDS[kind].model)
    except InputError:
        return False
    return True


def beyond_schema(kind: str, data: Any) -> bool:
    """The limits that the module states: names that the job keeps for itself, and characters beyond the first plane."""
    names = data.get("environment") if kind == "cluster" and isinstance(data, dict) else None
    reserved = isinstance(names, dict) and any(why_reserved(name) for name in names)
    return reserved or any(ord(char) > 0xFFFF or not char.isprintable() for char in json.dumps(data, ensure_ascii=False))


@cache
def documents_of(kind: str) -> st.SearchStrategy[Any]:
    schema = schema_of(kind)
    return documents(schema, schema).filter(validator_of(kind).is_valid)


def agrees(kind: str, data: Any) -> None:
    """What the schema takes the schema stage takes; what it refuses the loader refuses."""
    if validator_of(kind).is_valid(data):
        assert beyond_schema(kind, data) or stage_takes(kind, data)
    elif stage_takes(kind, data):
        assert not loader_takes(kind, data)


SLOW = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


@pytest.mark.parametrize("kind", KINDS)
@settings(SLOW, max_examples=40)
@given(st.data())
def test_what_the_schema_makes_the_loader_takes(kind: str, data: st.DataObject) -> None:
    made = data.draw(documents_of(kind))
    assert beyond_schema(kind, made) or stage_takes(kind, made), made


@pytest.mark.parametrize("kind", KINDS)
@settings(SLOW, max_examples=100)
@given(st.data())
def test_slips_are_seen_by_both(kind: str, data: st.DataObject) -> None:
    agrees(kind, data.draw(slips(documents_of(kind))))


def shipped(kind: str) -> list[Any]:
    """Documents that people wrote."""
    if kind == "cluster":
        text = (ROOT / "docs/reference/cluster-profile.md").read_text().split("```yaml\n")[1].split("```")[0]
        return [parse_yaml(text, "f").data]
    if kind == "matrix":
        texts = [(LEAF / "matrix.yaml").read_text(), matrix_of(agg_point("TP8"))]
        return [parse_yaml(text, "f").data for text in texts]
    return [
        parse_yaml(path.read_bytes(), "f").data for path in sorted((ROOT / f"recipegen/data/{'models' if kind == 'model' else kind}").glob("*.yaml"))
    ]


@pytest.mark.parametrize("kind", KINDS)
@settings(SLOW, max_examples=150)
@given(st.data())
def test_slips_in_what_people_wrote_are_seen_by_both(kind: str, data: st.DataObject) -> None:
    agrees(kind, data.draw(slips(st.sampled_from(shipped(kind)))))


@pytest.mark.parametrize("kind", KINDS)
def test_what_people_wrote_is_taken(kind: str) -> None:
    assert shipped(kind)
    for written in shipped(kind):
        assert list(validator_of(kind).iter_errors(written)) == []


HEAD = {"schema": "recipegen-cluster/v1", "name": "oslo", "scheduler": "slurm", "run_root": "/runs"}


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        ("run_root", "/", False),
        ("run_root", "/a:b", False),
        ("run_root", "/a/../b", False),
        ("run_root", "/a/..b", True),
        ("run_root", "/a\u00a0b", False),
        ("account", "a b", False),
        ("account", "té", False),
        ("account", None, True),
        ("sbatch", {"tim": True}, False),
        ("sbatch", {"time": "1"}, False),
        ("sbatch", {"times": "1"}, True),
        ("sbatch", {"mem": False}, False),
        ("sbatch", {"exclusive": True}, True),
        ("srun", ["--label"], False),
        ("srun", ["--lab=1"], False),
        ("srun", ["--labels"], True),
        ("srun", ["--mpi=none"], True),
        ("srun", ["--mpi=a b"], False),
        ("slurm", {"require": ["account", "mem"]}, True),
        ("slurm", {"require": ["acc"]}, False),
        ("environment", {"MODEL": "x"}, False),
        ("environment", {"MODELS": 1}, True),
        ("environment", {"A": "a\u200bb"}, False),
        ("deadlines", {"ready": "0:00:00"}, False),
        ("deadlines", {"ready": "720:00:00"}, True),
        ("deadlines", {"ready": "720:00:01"}, False),
        ("deadlines", {"ready": 2592001}, False),
        ("port_offset", 20001, False),
        ("port_offset", None, True),
        ("container", {"mounts": ["/a:/b/../c"]}, False),
        ("container", {"mounts": ["/a:/b:ro"]}, True),
        ("container", {"images": {"a": "b/../c"}}, False),
        ("models", {"a/b": "/c#..d"}, True),
        ("nodes", {"machine": "arm64"}, False),
    ],
)
def test_a_profiles_checks_are_in_its_schema(key: str, value: object, taken: bool) -> None:
    document = {**HEAD, key: value}
    assert (validator_of("cluster").is_valid(document), stage_takes("cluster", document)) == (taken, taken)


def test_a_local_cluster_has_no_container() -> None:
    for runtime, taken in (("none", True), ("pyxis", False)):
        document = {**HEAD, "scheduler": "local", "container": {"runtime": runtime}}
        assert (validator_of("cluster").is_valid(document), stage_takes("cluster", document)) == (taken, taken)


@pytest.mark.parametrize("value", ["", [], [None], [True], [[1]]])
def test_what_no_flag_can_hold_is_in_the_schema_though_the_loader_tells_it_later(value: object) -> None:
    document = {**parse_yaml(matrix_of(agg_point("TP8")), "f").data, "agg": {"args": {"max-num-seqs": value}}}  # type: ignore[dict-item]
    assert not validator_of("matrix").is_valid(document)
    assert stage_takes("matrix", document)
    assert not loader_takes("matrix", document)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "", "a", [], {}, [None], [True], [[1]], [[[{"a": [None]}]]], {"a": {"b": [[]]}}])
def test_what_is_carried_is_any_value(value: object) -> None:
    document = {**parse_yaml(matrix_of(agg_point("TP8")), "f").data, "carried": {"x": value}}  # type: ignore[dict-item]
    assert validator_of("matrix").is_valid(document)
    assert loader_takes("matrix", document)


def test_what_is_carried_is_a_mapping() -> None:
    document = {**parse_yaml(matrix_of(agg_point("TP8")), "f").data, "carried": [1]}  # type: ignore[dict-item]
    assert not validator_of("matrix").is_valid(document)
    assert not loader_takes("matrix", document)


# -- the schemas themselves ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_that_needs_nothing_else(kind: str) -> None:
    schema = make_schema(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:recipegen:{kind}:v1"
    assert schema["title"]
    assert schema["description"]
    assert {ref.partition("/")[0] for ref in re.findall(r'"\$ref": "([^"]+)"', json.dumps(schema))} <= {"#"}


@pytest.mark.parametrize("kind", KINDS)
def test_patterns_are_ones_that_ecma_262_reads_in_unicode_mode(kind: str) -> None:
    """There an escape of a character that needs none is an error, and so is a possessive or named group of Python's."""
    patterns = re.findall(r'"pattern": ("(?:[^"\\]|\\.)*")', json.dumps(make_schema(kind)))
    assert patterns
    for pattern in map(json.loads, patterns):
        assert set(re.findall(r"\\(.)", pattern)) <= set("sSu.[]{}()*+?^$|/\\-")
        assert "(?P" not in pattern


def test_every_check_of_a_profile_is_known() -> None:
    functions = {
        *(name for name in vars(cluster_schema) if re.search(rf"AfterValidator\({name}\)", (ROOT / "recipegen/cluster_schema.py").read_text())),
        *cluster_schema.ClusterSchema.__pydantic_decorators__.model_validators,
    }
    assert functions == set(LIMITS)


def test_every_word_is_for_a_key_that_there_is() -> None:
    schemas = [make_schema(kind) for kind in KINDS]
    known = {KINDS[kind].model.__name__: schema for kind, schema in zip(KINDS, schemas, strict=True)} | {
        n: s for one in schemas for n, s in one.get("$defs", {}).items()
    }
    for name, words in WORDS.items():
        assert set(words) <= set(known[name]["properties"]), name


def test_invisible_characters_are_those_of_the_loader() -> None:
    listed = re.compile(f"[{INVISIBLE}]")
    for char in map(chr, range(0x10000)):
        if (category := unicodedata.category(char)) not in {"Cn", "Cs"}:
            assert bool(listed.match(char)) == (category in {"Cc", "Cf", "Zl", "Zp"}), hex(ord(char))


def test_beginnings_of_words() -> None:
    pattern = re.compile(f"(?:{beginnings(['time', 'time-min', 'qos'])})\\Z")
    assert [word for word in ("t", "time", "time-", "time-min", "q", "qos", "", "times", "im", "time-min-") if pattern.match(word)] == [
        "t",
        "time",
        "time-",
        "time-min",
        "q",
        "qos",
    ]


def test_another_kind_gets_a_near_match() -> None:
    with pytest.raises(InputError, match="no kind of file is called 'matrx'") as caught:
        make_schema("matrx")
    assert caught.value.hint == "did you mean 'matrix'?"


# -- editors -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "schema", "way"),
    [
        ("recipes/a/b/matrix.yaml", "schemas/matrix.schema.json", "../../../schemas/matrix.schema.json"),
        ("/r/matrix.yaml", "/r/matrix.schema.json", "matrix.schema.json"),
        ("matrix.yaml", "schemas/m.json", "schemas/m.json"),
        ("/a/b/c.yaml", "/a/b.json", "../b.json"),
        ("/schemas/x/matrix.yaml", "/schemas/m.json", "../m.json"),
    ],
)
def test_the_line_leads_to_the_schema(file: str, schema: str, way: str) -> None:
    assert editor_line(PurePosixPath(file), PurePosixPath(schema)) == f"# yaml-language-server: $schema={way}"


def test_the_published_matrix_can_carry_the_line() -> None:
    """A comment changes nothing, and the way that it tells leads to the committed schema."""
    line = editor_line(PurePosixPath(LEAF / "matrix.yaml"), PurePosixPath(ROOT / "schemas/matrix.schema.json"))
    text = (LEAF / "matrix.yaml").read_text()
    plain = text.split("\n", 1)[1] if text.startswith("# yaml-language-server:") else text
    assert text in {plain, f"{line}\n{plain}"}
    assert parse_yaml(f"{line}\n{plain}", "f").data == parse_yaml(plain, "f").data
    assert (LEAF / line.partition("=")[2]).resolve() == ROOT / "schemas/matrix.schema.json"


@pytest.mark.parametrize("kind", COMMITTED)
def test_the_committed_schema_is_fresh(kind: str) -> None:
    path = ROOT / f"schemas/{kind}.schema.json"
    assert path.read_text() == schema_text(kind), f"stale: recipegen schema {kind} --out schemas/{path.name}"
