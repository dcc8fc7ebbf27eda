"""Validation of a document by a pydantic model, with every error in our words and at its place in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from recipegen.document import MAX_PROBLEMS, Document, more_problems
from recipegen.errors import InputError, Problem, Source, near_match
from recipegen.yamlscalars import quote

if TYPE_CHECKING:
    from pydantic import BaseModel

T = TypeVar("T", bound="BaseModel")
Path = tuple[str | int, ...]

_LISTED = 12
"""Keys that are worth naming when none comes near the unknown one."""
_COMPARED = 100
"""Characters of a word that a near match is sought for."""

_KINDS = {  # pydantic's error for a value of the wrong kind, and the kind that was expected
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("string_type", "string_sub_type"), "a string"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "a list"),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), "a mapping"),
    "none_required": "nothing",
}
_LIMITS = {  # and for a value of the right kind
    "literal_error": "{expected}",
    "enum": "{expected}",
    "greater_than": "more than {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "less than {lt}",
    "less_than_equal": "{le} or less",
    "multiple_of": "a multiple of {multiple_of}",
    "finite_number": "a finite number",
    "string_too_short": "a string of {min_length} or more characters",
    "string_too_long": "a string of {max_length} or fewer characters",
    "string_pattern_mismatch": "{wanted}",
    "too_short": "{min_length} or more entries",
    "too_long": "{max_length} or fewer entries",
}
_RULES = {"extra_forbidden": "schema-unknown-key", "missing": "schema-missing"}
"""Rules by kind of error; a wrong kind of value is `schema-type`, all else `schema-value`."""
_UNQUOTED = (("an integer", r"-?\d+"), ("a number", r"-?\d+(\.\d+)?"), ("true or false", "true|false"))
"""What a string may look like that was meant to be of another kind."""


@dataclass(frozen=True, kw_only=True)
class _Error:
    """One error of pydantic's, its location told apart into steps in the data and branches of unions."""

    kind: str
    path: Path
    value: object
    branches: tuple[tuple[int, str], ...] = ()
    missing: str | int = ""
    on_key: bool = False
    text: str = ""
    own_rule: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)

    def source(self, document: Document) -> Source:
        at_key = self.on_key or self.kind == "extra_forbidden"
        return document.key_source(*self.path) if at_key else document.source(*self.path)


def validate(document: Document, model: type[T]) -> T:
    """Return the document as a `model`, or raise InputError with every problem.

    Values count as JSON does, strictly: lists become tuples, words enums, but text never a number nor 1 true. Where a union
    has no branch for a value, only the branch of the value's own kind speaks.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate_json(json.dumps(document.data), strict=True)
    except ValidationError as error:
        found = [_read_error(raw, document.data) for raw in error.errors(include_url=False)]
    errors = sorted(_settle_unions(found), key=lambda e: e.source(document))
    schema = _json_schema(model)
    problems = [_problem(e, document, schema) for e in errors[:MAX_PROBLEMS]]
    if rest := errors[MAX_PROBLEMS:]:
        problems.append(more_problems(len(rest), rest[0].source(document)))
    raise InputError(problems)


# -- where an error belongs --------------------------------------------------------------------------------------------


def _read_error(raw: Mapping[str, Any], data: object) -> _Error:
    """Follow the location through the data: a step that is not there is a missing key or names a branch of a union."""
    kind, loc, value, context = raw["type"], raw["loc"], data, raw.get("ctx", {})
    path: list[str | int] = []
    branches: list[tuple[int, str]] = []
    missing: str | int = ""
    for index, step in enumerate(loc):
        if isinstance(value, dict if isinstance(step, str) else list) and (step in value if isinstance(step, str) else step < len(value)):
            path.append(step)
            value = value[step]
        elif index == len(loc) - 1 and kind == "missing":
            missing = step
        elif step != "[key]":
            branches.append((len(path), str(step)))
    if tag := str(context.get("discriminator", "")).strip("'"):
        kind, missing = ("missing", tag) if kind == "union_tag_not_found" else (kind, missing)
        path, value = ([*path, tag], context["tag"]) if kind == "union_tag_invalid" else (path, value)
    on_key = loc[-1:] == ("[key]",)
    return _Error(
        kind=kind,
        path=tuple(path),
        value=path[-1] if on_key and path else value,
        branches=tuple(branches),
        missing=missing,
        on_key=on_key,
        text=str(context.get("error", raw["msg"])),
        own_rule=getattr(context.get("error"), "rule", ""),
        context=context,
    )


def _settle_unions(errors: Sequence[_Error], level: int = 0) -> list[_Error]:
    """Leave one branch of each union, from the outermost union inwards."""
    settled = [e for e in errors if len(e.branches) <= level]
    unions: dict[Path, dict[str, list[_Error]]] = {}
    for e in errors:
        if len(e.branches) > level:
            depth, branch = e.branches[level]
            unions.setdefault(e.path[:depth], {}).setdefault(branch, []).append(e)
    for place, branches in unions.items():
        fitting = [found for found in branches.values() if not all(e.path == place and _is_misfit(e) for e in found)]
        if fitting:
            settled += _settle_unions(min(fitting, key=_strangeness), level + 1)
        else:
            settled.append(_merge([e for found in branches.values() for e in found]))
    return settled


def _is_misfit(error: _Error) -> bool:
    """Tell whether the value is of another kind than the branch is for; a choice of words is for strings, any other for none."""
    if error.kind in ("literal_error", "enum"):
        return isinstance(error.value, str) != str(error.context["expected"]).startswith("'")
    return error.kind in _KINDS


def _strangeness(errors: Sequence[_Error]) -> tuple[int, int]:
    return sum(e.kind == "extra_forbidden" for e in errors), len(errors)


def _merge(errors: Sequence[_Error]) -> _Error:
    wanted = list(dict.fromkeys(_wanted(e) for e in errors))
    return _Error(kind="union", path=errors[0].path, value=errors[0].value, context={"expected": _one_of(wanted)})


def _one_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


# -- in our words ------------------------------------------------------------------------------------------------------


def _problem(error: _Error, document: Document, schema: Mapping[str, Any]) -> Problem:
    place, hint = error.path, ""
    if error.kind == "extra_forbidden":
        place, key = error.path[:-1], str(error.path[-1])
        message, hint = f"unknown key {quote(key)}", _key_hint(key, error, document, schema)
    elif error.kind == "missing":
        message = f"missing key {quote(error.missing)}" if isinstance(error.missing, str) else f"missing entry {error.missing + 1}"
    elif wanted := _wanted(error):
        message, hint = f"expected {wanted}, found {_found(error)}", _value_hint(error.value, wanted)
    else:
        message = error.text
    where = _dotted(place)
    return Problem(error.source(document), f"{where}: {message}" if where else message, hint, _rule(error))


def _rule(error: _Error) -> str:
    """The rule that a value breaks: the one that its validator names, else one of ours by pydantic's kind of error."""
    if error.kind in _KINDS or error.kind == "union":
        return "schema-type"
    return error.own_rule or _RULES.get(error.kind, "schema-value")


def _wanted(error: _Error) -> str:
    """Return what was expected, or an empty string where the error's own text says it."""
    if error.kind == "union":
        return str(error.context["expected"])
    if error.kind == "union_tag_invalid":
        return _one_of(str(error.context["expected_tags"]).split(", "))
    shown = {k: f"{v:g}" if isinstance(v, float) else v for k, v in error.context.items()}
    return _KINDS.get(error.kind) or _LIMITS.get(error.kind, "").format(**{"wanted": "a string of another form", **shown})


def _found(error: _Error) -> str:
    value = error.value
    if value is None:
        return "nothing"
    if isinstance(value, (list, dict)):
        what = "list" if isinstance(value, list) else "mapping"
        if error.kind in ("too_short", "too_long"):
            return f"a {what} of {len(value)}"
        return f"a {what}" if value else f"an empty {what}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the {'key' if error.on_key else 'string'} {quote(value)}"
    return f"the {'integer' if isinstance(value, int) else 'number'} {value}"


def _value_hint(value: object, wanted: str) -> str:
    if isinstance(value, str):
        if any(kind in wanted and re.fullmatch(pattern, value) for kind, pattern in _UNQUOTED):
            return "leave out the quotes"
        return near_match(value[:_COMPARED], re.findall(r"'([^']*)'", wanted))
    return "put it in quotes" if "a string" in wanted and isinstance(value, (bool, int, float)) else ""


def _dotted(path: Path) -> str:
    return "".join(_step(step) for step in path).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if re.fullmatch(r"[\w-]{1,60}", step) else f"[{quote(step)}]"


# -- keys that the model knows -----------------------------------------------------------------------------------------


def _key_hint(key: str, error: _Error, document: Document, schema: Mapping[str, Any]) -> str:
    mapping: Any = document.data
    for step in error.path[:-1]:
        mapping = mapping[step]
    known = [k for k in _known_keys(schema, error.path[:-1], {label for _, label in error.branches}) if k not in mapping]
    if not known:
        return ""
    listed = f"expected {_one_of([quote(k) for k in known])}" if len(known) <= _LISTED else ""
    return near_match(key[:_COMPARED], known) or listed


def _json_schema(model: type[BaseModel]) -> dict[str, Any]:
    from pydantic import PydanticUserError

    try:
        return model.model_json_schema()
    except PydanticUserError:  # a type that JSON schema cannot express: no hints, then
        return {}


def _known_keys(schema: Mapping[str, Any], path: Path, branches: set[str]) -> list[str]:
    nodes = _alternatives([schema], schema, branches)
    for step in path:
        nodes = _alternatives([child for node in nodes for child in _children(node, step)], schema, branches)
    return list(dict.fromkeys(key for node in nodes for key in node.get("properties", {})))


def _children(node: Mapping[str, Any], step: str | int) -> list[Any]:
    if isinstance(step, int):
        first = node.get("prefixItems", [])
        return [first[step] if step < len(first) else node.get("items")]
    if step in node.get("properties", {}):
        return [node["properties"][step]]
    return [node.get("additionalProperties"), *node.get("patternProperties", {}).values()]


def _alternatives(nodes: Sequence[Any], schema: Mapping[str, Any], branches: set[str]) -> list[Mapping[str, Any]]:
    """Follow references and unions; of a union only the branches in question, where their names are known."""
    waiting, seen, found = list(nodes), set(), []
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or id(node) in seen:
            continue
        seen.add(id(node))
        found.append(node)
        waiting.append(schema.get("$defs", {}).get(str(node.get("$ref", "")).rpartition("/")[2]))
        options = [option for word in ("anyOf", "oneOf", "allOf") for option in node.get(word, [])]
        tagged = node.get("discriminator", {}).get("mapping", {})
        names = branches | {tagged[b].rpartition("/")[2] for b in branches if b in tagged}
        waiting += [o for o in options if o.get("$ref", "").rpartition("/")[2] in names] or options
    return found
