"""What `python -m dynamo.vllm` adds to its own parser: calls of `add_argument` and `add_negatable_bool_argument`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from recipegen.engine.flag_spec import FlagKind, FlagSpec
from recipegen.flag_extract.config_fields import constant
from recipegen.flag_extract.hints import HintKind, members, read_hints
from recipegen.flag_extract.modules import Found, Modules

PARSE = ("dynamo.vllm.args", "parse_args")
_KINDS = {"int": FlagKind.INT, "float": FlagKind.FLOAT}


def walk_dynamo(modules: Modules) -> Iterator[FlagSpec]:
    """Yield the options of every argument group that `parse_args` makes."""
    parse = modules.resolve(*PARSE)
    for node in ast.walk(parse.node) if parse else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and (group := modules.resolve(PARSE[0], node.func.id)):
            yield from _group(modules, group)


def _group(modules: Modules, group: Found) -> Iterator[FlagSpec]:
    if isinstance(group.node, ast.ClassDef):
        for method in group.node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "add_arguments":
                yield from _function(modules, Found(group.module, method))


def _function(modules: Modules, found: Found) -> Iterator[FlagSpec]:
    """Options that a function adds, those of the functions that it calls for more included."""
    for node in ast.walk(found.node):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if any(keyword.arg == "flag_name" for keyword in node.keywords):
                yield _option(modules, found.module, node, switchable=name == "add_negatable_bool_argument")
            elif name and (called := modules.resolve(found.module, name)) and isinstance(called.node, ast.FunctionDef):
                yield from _function(modules, called)


def _option(modules: Modules, module: str, call: ast.Call, *, switchable: bool) -> FlagSpec:
    parts = {keyword.arg: keyword.value for keyword in call.keywords}
    text = {name: str(constant(modules, module, parts.get(name)) or "") for name in ("flag_name", "obsolete_flag", "nargs")}
    kind = FlagKind.BOOL if switchable else _KINDS.get(ast.unparse(parts["arg_type"]), FlagKind.STR) if "arg_type" in parts else FlagKind.STR
    choices = tuple(_choices(modules, module, parts.get("choices")))
    if text["nargs"]:
        return FlagSpec(name=text["flag_name"].lstrip("-"), kind=FlagKind.LIST, item=kind)
    return FlagSpec(
        name=text["flag_name"].lstrip("-"),
        kind=FlagKind.ENUM if choices else kind,
        choices=choices,
        default=constant(modules, module, parts.get("default")),
        negatable=switchable,
        aliases=tuple(filter(None, [text["obsolete_flag"]])),
    )


def _choices(modules: Modules, module: str, node: ast.expr | None) -> Iterator[str]:
    """A list of words, or `[m.value for m in AnEnumeration]`; nothing, that is any, where it is computed."""
    if isinstance(node, ast.List):
        yield from (str(item.value) for item in node.elts if isinstance(item, ast.Constant))
    elif isinstance(node, ast.ListComp):
        for hint in read_hints(modules, module, node.generators[0].iter):
            if hint.kind is HintKind.ENUM and hint.cls:
                yield from (str(value) for _, value in members(hint.cls) if value is not None)
