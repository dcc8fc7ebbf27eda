"""What vLLM's `make_arg_parser` adds to a parser, statement by statement, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.flag_extract.config_fields import FieldReader, constant
from recipegen.flag_extract.modules import Found, Modules

SERVE = ("vllm.entrypoints.cli.serve", "make_arg_parser")
ENGINE = ("vllm.engine.arg_utils", "AsyncEngineArgs")

_TYPES = {"int": FlagKind.INT, "float": FlagKind.FLOAT, "str": FlagKind.STR}
_BARE = ("'store_true'", "'store_false'")
Fields = dict[str, FlagSpec]


@dataclass
class ParserWalk:
    """Walks the functions that add arguments; names of a function hold the fields of a class, or one of them."""

    modules: Modules
    reader: FieldReader
    options: list[FlagSpec] = field(default_factory=list)

    def walk_serve(self) -> None:
        """Add what `vllm serve` alone takes, the frontend's arguments among it."""
        if found := self.modules.resolve(*SERVE):
            self._walk(_Scope(found, engine=False), found.body)

    def walk_engine(self) -> None:
        """Add what the engine takes, under `vllm serve` and under Dynamo."""
        if found := self.modules.resolve(*ENGINE):
            self._call_method(_Scope(found, engine=True), found, "add_cli_args")

    def _call_method(self, scope: _Scope, cls: Found, name: str, *, above: ast.ClassDef | None = None) -> None:
        """Walk a method as a class, or one above it, defines it; `above` asks for the one before that class (`super()`)."""
        methods: list[tuple[Found, ast.FunctionDef]] = []
        for base in self.modules.bases(cls):
            if base.node is above:
                break
            methods += [(base, n) for n in base.body if isinstance(n, ast.FunctionDef) and n.name == name]
        if methods:
            owner, method = methods[-1]
            inner = replace(scope, cls=cls, owner=owner.node, module=owner.module)
            self._walk(inner, method.body)

    def _walk(self, scope: _Scope, body: Iterable[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.If():
                    self._walk(scope, node.body)
                    self._walk(scope, node.orelse)
                case ast.For():
                    self._for(scope, node)
                case ast.Assign(targets=[target], value=value):
                    self._assign(scope, target, value)
                case ast.AugAssign(target=ast.Subscript() as target):
                    self._set(scope, target, None)
                case ast.Delete(targets=targets):
                    for target in targets:
                        self._set(scope, target, None)
                case ast.Expr(value=ast.Call() as call) | ast.Return(value=ast.Call() as call):
                    self._call(scope, call)
                case _:
                    pass

    def _assign(self, scope: _Scope, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Subscript):
            self._set(scope, target, value)
        elif isinstance(target, ast.Name) and isinstance(value, ast.Call):
            if ast.unparse(value.func) == "get_kwargs":
                scope.fields[target.id] = self._fields(scope, value.args[0])
            else:
                self._call(scope, value)
        elif isinstance(target, ast.Name) and (place := scope.place(value)):
            scope.alias[target.id] = place

    def _fields(self, scope: _Scope, node: ast.expr) -> Fields:
        if not isinstance(node, ast.Name):
            return {}
        found = scope.cls if node.id == "cls" else self.modules.resolve(scope.module, node.id)
        return self.reader.flags(found) if found and isinstance(found.node, ast.ClassDef) else {}

    def _call(self, scope: _Scope, call: ast.Call) -> None:
        if not isinstance(call.func, ast.Attribute):
            return
        owner, method = call.func.value, call.func.attr
        if method == "add_argument":
            self._add(scope, call)
        elif method == "add_cli_args" and isinstance(owner, ast.Name):
            cls = self.modules.resolve(scope.module, owner.id)
            if cls and (cls.node is scope.owner or owner.id != ENGINE[1]):
                self._call_method(replace(scope, fields={}, alias={}), cls, method)
        elif isinstance(owner, ast.Name) and owner.id == "cls" and scope.cls:
            self._call_method(scope, scope.cls, method)
        elif ast.unparse(owner) == "super()" and scope.cls and isinstance(scope.owner, ast.ClassDef):
            self._call_method(scope, scope.cls, method, above=scope.owner)

    def _for(self, scope: _Scope, node: ast.For) -> None:
        """`for key, value in kwargs.items(): group.add_argument(f"--{key}", **value)` adds every field of a class."""
        match node.iter:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="items")) if name in scope.fields:
                self.options += [replace(spec, engine=scope.engine) for spec in scope.fields[name].values()]
            case _:
                self._walk(scope, node.body)

    def _set(self, scope: _Scope, target: ast.expr, value: ast.expr | None) -> None:
        """`kwargs["name"]["type"] = ...`: change one field before it is added. What cannot be read leaves the choices open."""
        if not isinstance(target, ast.Subscript) or not (place := scope.place(target.value)):
            return
        fields, name = place
        part = target.slice.value if isinstance(target.slice, ast.Constant) else ""
        if spec := fields.get(name):
            fields[name] = _changed(spec, str(part), value)

    def _add(self, scope: _Scope, call: ast.Call) -> None:
        words = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        longest = next((word for word in words if word.startswith("--")), "")
        if not longest:
            return
        spec = FlagSpec(name=longest[2:], kind=FlagKind.STR)
        for keyword in call.keywords:
            spec = self._with(scope, spec, keyword)
        aliases = tuple(word for word in words if word != longest)
        spec = replace(spec, name=longest[2:], aliases=aliases, engine=scope.engine, negatable=spec.kind is FlagKind.BOOL)
        self.options.append(spec)

    def _with(self, scope: _Scope, spec: FlagSpec, keyword: ast.keyword) -> FlagSpec:
        if keyword.arg is None and isinstance(keyword.value, ast.Dict):
            for key, value in zip(keyword.value.keys, keyword.value.values, strict=True):
                name = str(key.value) if isinstance(key, ast.Constant) else None
                spec = self._with(scope, spec, ast.keyword(arg=name, value=value))
            return spec
        if keyword.arg is None:
            place = scope.place(keyword.value)
            return place[0].get(place[1], spec) if place else spec
        if keyword.arg == "default":
            return replace(spec, default=constant(self.modules, scope.module, keyword.value))
        return _changed(spec, keyword.arg, keyword.value)


@dataclass(frozen=True)
class _Scope:
    """Names of one function: the fields of classes, other names for one field, and the class that it is a method of."""

    found: Found
    engine: bool
    module: str = ""
    cls: Found | None = None
    owner: ast.AST | None = None
    fields: dict[str, Fields] = field(default_factory=dict)
    alias: dict[str, tuple[Fields, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "module", self.module or self.found.module)

    def place(self, node: ast.expr) -> tuple[Fields, str] | None:
        """The field that `kwargs["name"]`, or a name for it, stands for."""
        match node:
            case ast.Name(id=name):
                return self.alias.get(name)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) if name in self.fields:
                return self.fields[name], key
            case _:
                return None


def _changed(spec: FlagSpec, part: str, value: ast.expr | None) -> FlagSpec:
    """A flag after one keyword of `add_argument` was set to an expression, or (None) to something that is not read."""
    text = ast.unparse(value) if value else ""
    match part:
        case "type":
            return replace(spec, **_type(spec, text))
        case "choices":
            words = _words(value)
            return replace(spec, choices=words, kind=FlagKind.ENUM if words and spec.kind is FlagKind.STR else spec.kind)
        case "action":
            return _acting(spec, text)
        case "nargs" if text in {"'+'", "'*'"}:
            return replace(spec, kind=FlagKind.LIST, item=spec.kind)
        case _:
            return spec


def _acting(spec: FlagSpec, action: str) -> FlagSpec:
    if action.endswith("BooleanOptionalAction"):
        return replace(spec, kind=FlagKind.BOOL, negatable=True)
    if action in _BARE:
        return replace(spec, kind=FlagKind.SWITCH, default=spec.default or False)
    return replace(spec, kind=FlagKind.STR, item=None) if action == "'append'" else spec


def _type(spec: FlagSpec, text: str) -> dict[str, Any]:
    if text in _TYPES:
        return {"kind": spec.kind if spec.kind is FlagKind.LIST else _TYPES[text]}
    if "json.loads" in text:
        return {"kind": FlagKind.JSON, "item": None}
    return {"loose": ".lower()" in text, "hyphens": "replace('-', '_')" in text}


def _words(value: ast.expr | None) -> tuple[str, ...]:
    try:
        found = ast.literal_eval(value) if value else ()
    except (ValueError, TypeError, SyntaxError):
        return ()
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()
