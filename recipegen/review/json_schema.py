"""JSON schemas (2020-12) of the files that people write, made from the models that the loader validates with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from recipegen.cluster_schema import ClusterSchema
from recipegen.errors import InputError, near_match
from recipegen.matrix_schema import HardwareSchema, MatrixSchema, ModelSchema
from recipegen.review.schema_limits import FLAG_VALUE, LIMITS, portable
from recipegen.review.schema_words import WORDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of file: the model that its loader validates with, and what it is called."""

    model: type[BaseModel]
    title: str
    description: str
    version: str = "v1"


KINDS: Mapping[str, FileKind] = {
    "matrix": FileKind(model=MatrixSchema, title="recipegen matrix", description="The operating points of one leaf folder: matrix.yaml."),
    "cluster": FileKind(model=ClusterSchema, title="recipegen cluster profile", description="What one cluster adds to every bundle."),
    "model": FileKind(model=ModelSchema, title="recipegen model", description="A model as data: its pins, and the numbers of its config.json."),
    "hardware": FileKind(model=HardwareSchema, title="recipegen hardware", description="A machine type as data: its nodes, GPUs and NVLink domain."),
}


def make_schema(kind: str) -> dict[str, Any]:
    """Return the JSON schema of a kind of file: of the shape that the loader asks for, not of the meaning. InputError for another kind.

    Its `$id` is a name and no address: nothing has to be fetched. `schema_limits` says what no schema can say.
    """
    if kind not in KINDS:
        raise InputError(f"no kind of file is called '{kind}'", hint=near_match(kind, KINDS) or f"known: {', '.join(KINDS)}")
    known = KINDS[kind]
    found = known.model.model_json_schema(schema_generator=_Writer)
    definitions = {name: _worded(name, schema) for name, schema in sorted(found.pop("$defs", {}).items())}
    head = {"$schema": DIALECT, "$id": f"urn:recipegen:{kind}:{known.version}", "title": known.title, "description": known.description}
    body = _worded(known.model.__name__, found)
    return {**head, **{key: value for key, value in body.items() if key not in head}, **({"$defs": definitions} if definitions else {})}


def schema_text(kind: str) -> str:
    """Return the schema as a file holds it: ASCII, indented, always the same."""
    return json.dumps(make_schema(kind), indent=1) + "\n"


def editor_line(file: PurePosixPath, schema: PurePosixPath) -> str:
    """Return the first line by which an editor finds the schema of `file` without a network: the way there, from the file's folder.

    Both paths are absolute, or both are relative to the same folder. The comment is what the YAML language server of VS Code,
    Neovim, Emacs and JetBrains' editors reads.
    """
    here, there = file.parent.parts, schema.parts
    shared = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), min(len(here), len(there)))
    steps = [".."] * (len(here) - shared) + list(there[shared:])
    return f"# yaml-language-server: $schema={'/'.join(steps)}"


class _Writer(GenerateJsonSchema):
    """Writes as pydantic does, and says in addition what its functions and the keys of its mappings ask for."""

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        found = super().str_schema(schema)
        return {**found, "pattern": portable(found["pattern"])} if "pattern" in found else found

    def any_schema(self, schema: core_schema.AnySchema) -> JsonSchemaValue:  # noqa: ARG002 - pydantic's signature
        return dict(FLAG_VALUE)

    def json_or_python_schema(self, schema: core_schema.JsonOrPythonSchema) -> JsonSchemaValue:
        """Of pydantic's JsonValue, which is anything to itself, what it takes: it may hold what no flag can."""
        if schema["json_schema"]["type"] != "any":
            return super().json_or_python_schema(schema)
        itself = self.generate_inner(core_schema.definition_reference_schema(schema["ref"]))
        inner = [{"type": "array", "items": itself}, {"type": "object", "additionalProperties": itself}]
        return {"anyOf": [{"type": ["string", "number", "boolean", "null"]}, *inner]}

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        keys = self.generate_inner(schema["keys_schema"]) if "keys_schema" in schema else {}
        values = self.generate_inner(schema["values_schema"]) if "values_schema" in schema else {}
        names = {word: value for word, value in keys.items() if word not in {"type", "title"}}
        return {"type": "object", **({"propertyNames": names} if names else {}), "additionalProperties": values}

    def function_after_schema(self, schema: core_schema.AfterValidatorFunctionSchema) -> JsonSchemaValue:
        return {**super().function_after_schema(schema), **LIMITS.get(getattr(schema["function"]["function"], "__name__", ""), {})}


def _worded(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Give a model's keys the words that an editor shows beside them, instead of titles made of their names."""
    words = WORDS.get(name, {})
    keys = {key: {word: value for word, value in one.items() if word != "title"} for key, one in schema.get("properties", {}).items()}
    described = {key: {"description": words[key], **one} if key in words else one for key, one in keys.items()}
    rest = {word: value for word, value in schema.items() if word not in {"title", "properties"}}
    return {**rest, **({"properties": described} if described else {})}
