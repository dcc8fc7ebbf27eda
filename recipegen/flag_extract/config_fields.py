"""Fields of a configuration class as flags: kind, choices, bounds, default, sub-keys.

The kinds follow vLLM `engine/arg_utils.py` `_compute_kwargs`; what sub-keys take follows pydantic, which is laxer.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.flag_extract.hints import Hint, HintKind, Hints, members, read_hints
from recipegen.flag_extract.modules import Found, Modules
from recipegen.settings import Value

_DEEPEST = 3
"""Levels of sub-keys that are read: `speculative-config.draft_load_config.device` has two."""

_HUMAN = re.compile(r"human_readable_int_args\s*=\s*(\{[^}]*\})")
_PLAIN = {HintKind.BOOL: FlagKind.BOOL, HintKind.INT: FlagKind.INT, HintKind.FLOAT: FlagKind.FLOAT, HintKind.STR: FlagKind.STR}
_COLLECTIONS = (HintKind.TUPLE, HintKind.LIST, HintKind.SET)


@dataclass(frozen=True)
class FieldReader:
    """Reads configuration classes; `human` are the fields whose whole numbers may be written as `16k`."""

    modules: Modules
    human: frozenset[str]

    def flags(self, found: Found) -> dict[str, FlagSpec]:
        """Fields of a class as options of the command line, by field name."""
        return {field.name: self._flag(field) for field in _fields(self.modules, found) if not field.derived and not field.init_only}

    def _flag(self, field: _Field) -> FlagSpec:
        hints = read_hints(self.modules, field.module, field.annotation)
        spec = FlagSpec(name=field.name.replace("_", "-"), kind=FlagKind.ANY, default=field.default, bounds=field.bounds)
        spec = replace(spec, **self._option(field, hints))
        optional = any(h.kind is HintKind.NONE for h in hints) and spec.kind is not FlagKind.BOOL
        return replace(spec, optional=optional, negatable=spec.kind is FlagKind.BOOL)

    def _option(self, field: _Field, hints: Hints) -> dict[str, Any]:
        kinds = {h.kind for h in hints}
        config = next((h for h in hints if h.kind is HintKind.CONFIG), None)
        if config:
            return {"kind": FlagKind.JSON, "keys": self._keys(config, 1)}
        if kinds == {HintKind.BOOL, HintKind.STR, HintKind.NONE}:
            return {"kind": FlagKind.BOOL_OR_STR}
        if HintKind.BOOL in kinds:
            return {"kind": FlagKind.BOOL}
        if HintKind.LITERAL in kinds:
            return _literal(hints, open_ended=HintKind.STR in kinds)
        for kind in _COLLECTIONS:
            if kind in kinds:
                return _collection(next(h for h in hints if h.kind is kind))
        return self._plain(field, hints, kinds)

    def _plain(self, field: _Field, hints: Hints, kinds: set[HintKind]) -> dict[str, Any]:
        if HintKind.INT in kinds:
            if field.name == "max_model_len":
                return {"kind": FlagKind.INT_OR_AUTO}
            return {"kind": FlagKind.HUMAN_INT if field.name in self.human else FlagKind.INT}
        if HintKind.FLOAT in kinds:
            return {"kind": FlagKind.FLOAT}
        if HintKind.DICT in kinds:
            text = kinds & {HintKind.STR, HintKind.OTHER, HintKind.ENUM}
            return {"kind": FlagKind.JSON_OR_STR if text else FlagKind.JSON}
        enum = next((h for h in hints if h.kind is HintKind.ENUM), None)
        if enum and enum.cls and HintKind.STR not in kinds:
            return _enumeration(enum.cls, field)
        return {"kind": FlagKind.STR}

    def _keys(self, hint: Hint, level: int) -> dict[str, FlagSpec]:
        """Sub-keys of a configuration class; none, that is any, where it is not read so deep."""
        if hint.cls is None or hint.raw or level > _DEEPEST:
            return {}
        return {f.name: self._key(f, level) for f in _fields(self.modules, hint.cls) if not f.derived}

    def _key(self, field: _Field, level: int) -> FlagSpec:
        hints = read_hints(self.modules, field.module, field.annotation)
        own = [h for h in hints if h.kind is not HintKind.NONE]
        spec = FlagSpec(name=field.name, kind=FlagKind.ANY, default=field.default, optional=len(own) < len(hints), bounds=field.bounds)
        if any(h.raw for h in own):
            return spec
        kinds = {h.kind for h in own}
        if kinds in ({HintKind.LITERAL}, {HintKind.LITERAL, HintKind.STR}):
            return replace(spec, **_literal(tuple(own), open_ended=HintKind.STR in kinds), **_folding(field))
        return replace(spec, **self._single(field, own[0], level)) if len(own) == 1 else spec

    def _single(self, field: _Field, hint: Hint, level: int) -> dict[str, Any]:
        """What a sub-key of one type takes. A validator that looks at the value first may take anything, but for an enumeration's names."""
        if hint.kind is HintKind.ENUM and hint.cls:
            return _enumeration(hint.cls, field)
        if hint.kind is HintKind.CONFIG:
            return {"kind": FlagKind.JSON, "keys": self._keys(hint, level + 1)}
        if field.validators:
            return {}
        if hint.kind in _COLLECTIONS:
            return _collection(hint)
        if hint.kind is HintKind.DICT:
            return {"kind": FlagKind.JSON}
        return {"kind": _PLAIN.get(hint.kind, FlagKind.ANY)}


def human_fields(read: Callable[[str], str | None]) -> frozenset[str]:
    """Fields whose numbers may carry a suffix, as `engine/arg_utils.py` lists them."""
    found = _HUMAN.search(read("vllm/engine/arg_utils.py") or "")
    return frozenset(ast.literal_eval(found[1])) if found else frozenset()


def _literal(hints: Hints, *, open_ended: bool) -> dict[str, Any]:
    values = [value for h in hints for value in h.values if value is not None]
    whole = bool(values) and all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    kind = FlagKind.INT if whole else FlagKind.STR if open_ended else FlagKind.ENUM
    return {"kind": kind, "choices": () if open_ended else tuple(map(str, sorted(set(values))))}


def _collection(hint: Hint) -> dict[str, Any]:
    """What a list holds: of a union vLLM takes text; a Literal's values are its choices."""
    if len(hint.items) == 1 and hint.items[0].kind is HintKind.LITERAL:
        return {"kind": FlagKind.LIST, "item": FlagKind.STR, "choices": _literal(hint.items, open_ended=False)["choices"]}
    item = _PLAIN.get(hint.items[0].kind) if len(hint.items) == 1 else None
    return {"kind": FlagKind.LIST, "item": item}


def _enumeration(cls: Found, field: _Field) -> dict[str, Any]:
    """What an enumeration takes: its values; where a validator looks the text up, its names, and numbers as they are."""
    names = [name for name, _ in members(cls)]
    values = [str(value) for _, value in members(cls) if isinstance(value, int | str)]
    if not field.validators:
        return {"kind": FlagKind.ENUM, "choices": tuple(values)}
    numbers = [value for value in values if value.isdigit()]
    special = [word for validator in field.validators for word in validator.words]
    return {"kind": FlagKind.ENUM, "choices": (*names, *numbers, *special), **_folding(field)}


def _folding(field: _Field) -> dict[str, Any]:
    return {"loose": any(v.folds for v in field.validators), "hyphens": any(v.hyphens for v in field.validators)}


@dataclass(frozen=True)
class _Validator:
    """A validator that sees values before their type is checked: of which fields, how it changes text, and words that it takes besides."""

    fields: frozenset[str]
    folds: bool
    hyphens: bool
    words: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Field:
    """One annotated name of a class body. `derived`: it cannot be given."""

    name: str
    module: str
    annotation: ast.expr
    default: Value | None = None
    bounds: Mapping[str, float]
    derived: bool
    init_only: bool
    validators: tuple[_Validator, ...] = ()


def _fields(modules: Modules, found: Found) -> list[_Field]:
    fields: dict[str, _Field] = {}
    for cls in modules.bases(found):
        validators = tuple(_validators(cls.body))
        for node in cls.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "ClassVar" not in ast.unparse(node.annotation):
                fields[node.target.id] = _field(modules, cls.module, node, node.target.id, validators)
    return list(fields.values())


def _field(modules: Modules, module: str, node: ast.AnnAssign, name: str, validators: Iterable[_Validator]) -> _Field:
    call = node.value if isinstance(node.value, ast.Call) else None
    parts = {keyword.arg: keyword.value for keyword in call.keywords} if call else {}
    given = parts.get("default") or (call.args[0] if call and call.args else None) if call else node.value
    init = parts.get("init")
    return _Field(
        name=name,
        module=module,
        annotation=node.annotation,
        default=constant(modules, module, given),
        bounds={key: number for key in ("ge", "gt", "le", "lt") if isinstance(number := constant(modules, module, parts.get(key)), int | float)},
        derived=name.startswith("_") or (isinstance(init, ast.Constant) and init.value is False),
        init_only="InitVar" in ast.unparse(node.annotation),
        validators=tuple(v for v in validators if v.fields & {name, "*"}),
    )


def _validators(body: Iterable[ast.stmt]) -> Iterator[_Validator]:
    for method in body:
        for call in method.decorator_list if isinstance(method, ast.FunctionDef) else ():
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "field_validator" and _sees_first(call):
                text = ast.unparse(method)
                yield _Validator(
                    fields=frozenset(str(arg.value) for arg in call.args if isinstance(arg, ast.Constant)),
                    folds=".upper()" in text or ".lower()" in text,
                    hyphens="replace('-', '_')" in text,
                    words=tuple(_accepted_words(method)),
                )


def _sees_first(call: ast.Call) -> bool:
    return any(keyword.arg == "mode" and ast.unparse(keyword.value) in {"'before'", "'plain'"} for keyword in call.keywords)


def _accepted_words(method: ast.AST) -> Iterator[str]:
    """Words that a validator compares with and then returns: `if value.lower() == "auto": return None`."""
    for node in ast.walk(method):
        if isinstance(node, ast.If) and isinstance(node.body[0], ast.Return) and isinstance(node.test, ast.Compare):
            yield from (c.value for c in node.test.comparators if isinstance(c, ast.Constant) and isinstance(c.value, str))


def constant(modules: Modules, module: str, node: ast.expr | None) -> Value | None:
    """The value of a literal, or of a name that stands for one; None for what is computed."""
    if isinstance(node, ast.Name):
        found = modules.resolve(module, node.id)
        return constant(modules, found.module, found.node) if found and isinstance(found.node, ast.expr) and found.node is not node else None
    try:
        value = ast.literal_eval(node) if node else None
    except (ValueError, TypeError, SyntaxError):
        return _product(modules, module, node)
    return value if isinstance(value, str | int | float) else None


def _product(modules: Modules, module: str, node: ast.expr | None) -> int | None:
    """Sizes as they are written: `16 * MIB`, `2**30`, `1 << 20`."""
    if not isinstance(node, ast.BinOp):
        return None
    left, right = (constant(modules, module, side) for side in (node.left, node.right))
    if not isinstance(left, int) or not isinstance(right, int) or not 0 <= left < 2**40 or not 0 <= right < 2**40:
        return None
    match node.op:
        case ast.Mult():
            return left * right
        case ast.Pow() if right < 64:
            return int(left**right)
        case ast.LShift() if right < 64:
            return left << right
        case _:
            return None
