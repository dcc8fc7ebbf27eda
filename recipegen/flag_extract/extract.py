"""The flags of a wheel, an unpacked folder, or a help text."""

from __future__ import annotations

import re
from pathlib import Path

from recipegen.engine.flag_format import FlagTable, table_of
from recipegen.errors import InputError
from recipegen.files import read_regular, reason
from recipegen.flag_extract.config_fields import FieldReader, human_fields
from recipegen.flag_extract.dynamo_walk import PARSE, walk_dynamo
from recipegen.flag_extract.listing import parse_listing
from recipegen.flag_extract.modules import Modules
from recipegen.flag_extract.parser_walk import ENGINE, ParserWalk
from recipegen.flag_extract.source_tree import SourceTree, open_tree

_WANTED = "a wheel of vllm or ai-dynamo, a folder that it was unpacked into, or what `vllm serve --help=all` prints"
_BUILD = re.compile(r"(?:^|/)vllm[-_/ ]v?(\d+\.\d+\.\d+[\w.+]*)|docs\.vllm\.ai/en/v(\d+\.\d+\.\d+[\w.]*)/")


def extract_flags(path: Path, version: str = "") -> FlagTable:
    """Read the flags of a wheel, a folder or a help text; `version` wins over what the input says of itself.

    InputError for anything else, for an input without flags, and where no version is known.
    """
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder", hint=f"expected {_WANTED}")
    if path.is_dir() or path.suffix == ".whl":
        return _of_tree(open_tree(path), version)
    return _of_listing(path, version)


def _of_tree(tree: SourceTree, version: str) -> FlagTable:
    modules = Modules(tree.read)
    try:
        if modules.has(ENGINE[0]):
            walk = ParserWalk(modules, FieldReader(modules, human_fields(tree.read)))
            walk.walk_serve()
            walk.walk_engine()
            table = table_of("vllm", _version(tree, "vllm", version), walk.options)
        elif modules.has(PARSE[0]):
            table = table_of("dynamo", _version(tree, "ai_dynamo", version), walk_dynamo(modules))
        else:
            raise InputError(f"{tree.name}: holds neither vllm/engine/arg_utils.py nor dynamo/vllm/args.py", hint=f"expected {_WANTED}")
    except RecursionError as error:
        raise InputError(f"{tree.name}: its classes or types refer to one another without end") from error
    return _not_empty(table, tree.name)


def _of_listing(path: Path, version: str) -> FlagTable:
    try:
        text = read_regular(str(path)).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}", hint=f"expected {_WANTED}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 at byte {error.start}", hint=f"expected {_WANTED}") from error
    found = version or next((a or b for a, b in _BUILD.findall(text)), "")
    table = _not_empty(table_of("vllm", found, parse_listing(text)), str(path))
    if not found:
        raise InputError(f"{path}: does not say which build printed it", hint="give it with --vllm-version")
    return table


def _version(tree: SourceTree, distribution: str, asked: str) -> str:
    found = asked or tree.versions.get(distribution, "")
    if not found:
        raise InputError(f"{tree.name}: its name does not tell the version", hint="give it with --vllm-version")
    return found


def _not_empty(table: FlagTable, name: str) -> FlagTable:
    if not table.flags:
        raise InputError(f"{name}: no flag was found in it", hint=f"expected {_WANTED}")
    return table
