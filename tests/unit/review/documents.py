"""Documents from a JSON schema, and slips in documents, for hypothesis."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st


def in_python(schema: Any) -> Any:
    """A schema whose `$` is the end of the text alone, as in ECMA 262, not also the place before its last newline."""
    if isinstance(schema, dict):
        return {
            key: re.sub(r"\$(?=\)|\Z)", r"\\Z", value) if key == "pattern" and isinstance(value, str) else in_python(value)
            for key, value in schema.items()
        }
    return [in_python(value) for value in schema] if isinstance(schema, list) else schema


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
REFERRED: dict[int, tuple[dict[str, Any], dict[str, st.SearchStrategy[Any]]]] = {}
BASIC = st.characters(codec="utf-8", max_codepoint=0x2FF)


def documents(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents that a schema takes, for the part of JSON schema that ours use."""
    if "$ref" in schema:
        return referred(schema["$ref"].rpartition("/")[2], root)
    if "anyOf" in schema:
        shared = {key: value for key, value in schema.items() if key in {"type", "minimum", "maximum"}}
        return st.one_of([documents({**shared, **branch}, root) for branch in schema["anyOf"]])
    if "enum" in schema or "const" in schema:
        return st.sampled_from(schema.get("enum", [schema.get("const")]))
    if "type" not in schema:
        return ANY
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return st.one_of([MAKE[kind](schema, root) for kind in kinds])


def referred(name: str, root: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Documents of a definition, which may refer to itself: one strategy for each, made when it is first drawn from."""
    known = REFERRED.setdefault(id(root), (root, {}))[1]
    if name not in known:
        known[name] = st.deferred(lambda: documents(root["$defs"][name], root))
    return known[name]


def strings(schema: dict[str, Any], _root: dict[str, Any]) -> st.SearchStrategy[str]:
    low, high = schema.get("minLength", 0), schema.get("maxLength", 50)
    if "pattern" not in schema:
        return st.text(BASIC, min_size=low, max_size=min(high, 20))
    return st.from_regex(schema["pattern"], alphabet=BASIC).filter(lambda text: low <= len(text) <= high)


def integers(schema: dict[str, Any], _root: dict[str, Any]) -> st.SearchStrategy[int]:
    return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))


def numbers(schema: dict[str, Any], _root: dict[str, Any]) -> st.SearchStrategy[float]:
    low, high = schema.get("minimum", schema.get("exclusiveMinimum", -1e9)), schema.get("maximum", 1e9)
    return st.floats(low, high, exclude_min="exclusiveMinimum" in schema, allow_nan=False, allow_infinity=False)


def arrays(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[list[Any]]:
    low = schema.get("minItems", 0)
    return st.lists(documents(schema.get("items", {}), root), min_size=low, max_size=min(schema.get("maxItems", 3), low + 2))


def objects(schema: dict[str, Any], root: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    if "properties" in schema:
        made = {key: documents(value, root) for key, value in schema["properties"].items()}
        required = schema.get("required", [])
        return st.fixed_dictionaries(
            {key: made[key] for key in required}, optional={key: value for key, value in made.items() if key not in required}
        )
    keys = documents({"type": "string", **schema.get("propertyNames", {})}, root)
    return st.dictionaries(keys, documents(schema.get("additionalProperties", {}), root), max_size=2)


MAKE: dict[str, Any] = {
    "string": strings,
    "integer": integers,
    "number": numbers,
    "array": arrays,
    "object": objects,
    "boolean": lambda _schema, _root: st.booleans(),
    "null": lambda _schema, _root: st.none(),
}


JUNK = [
    *(None, True, False, 0, 1, -1, 7, 1.5, 10**8, 2**62, [], {}, [1], ["a"], [None], {"a": 1}, {"prefill": True}),
    *(
        "",
        " ",
        "a",
        "A b",
        "a\nb",
        "a\tb",
        "é",
        "1",
        "true",
        "null",
        "x" * 101,
        "x" * 5000,
        "-a",
        ".a",
        "a.b",
        "a..b",
        "inf",
        "local",
        "slurm",
        "none",
        "pyxis",
    ),
    *("/", "//", "/a", "/a/", "/a/..", "/a/../b", "../a", "/a:/b", "/a:/b:ro", "/a:b", "/a,b:/c", "a\\b", "/a b", "a:..", "..#"),
    *("0:00:00", "1:00:00", "719:59:59", "720:00:00", "0720:00:00", "720:00:01", "1000:00:00", "1-00:00:00", "90"),
    *("--label", "--lab", "--mem=1", "--mem", "--mem=*", "mem", "mem=1", "--Mem", "--mpi=none", "time", "tim", "account", "acc", "cpus-per-task"),
    *("PATH_PREFIX", "HF_HOME", "1A", "a-b", "a_b+", "recipegen/v1", "recipegen-cluster/v1", "a/b", "0" * 40, "0.28.0", "v0.28.0", "10.3", "10.33"),
]


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for step, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from places(value, (*path, step))


@st.composite
def slips(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """One of the documents with one to three slips in it."""
    holder = {"": copy.deepcopy(draw(documents))}
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([("", *path) for path in places(holder[""])]))
        parent: Any = holder
        for step in path[:-1]:
            parent = parent[step]
        value, junk = parent[path[-1]], copy.deepcopy(draw(st.sampled_from(JUNK)))
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "rename", "append"])):
            case "remove" if len(path) > 1:
                del parent[path[-1]]
            case "add" if isinstance(value, dict):
                value[junk if isinstance(junk, str) else "extra"] = copy.deepcopy(draw(st.sampled_from(JUNK)))
            case "add" if isinstance(value, list):
                value.append(junk)
            case "rename" if isinstance(parent, dict) and len(path) > 1:
                parent[junk if isinstance(junk, str) else "extra"] = parent.pop(path[-1])
            case "append" if isinstance(value, str):
                parent[path[-1]] = value + draw(st.sampled_from(["a", ".", "/", ":", " ", "\n", "-", "/..", "=1", ",", "é"]))
            case _:
                parent[path[-1]] = junk
    return holder[""]
