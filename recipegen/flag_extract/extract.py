"""The flags of a wheel, an unpacked folder, or a help text."""

from __future__ import annotations

import re
from pathlib import Path

from recipegen.engine.flag_catalogue import flag_versions, load_table
from recipegen.engine.flag_format import FlagTable, table_of
from recipegen.engine.flag_versions import nearest, version_key
from recipegen.errors import InputError
from recipegen.files import read_regular, reason
from recipegen.flag_extract.config_fields import FieldReader, human_fields
from recipegen.flag_extract.dynamo_walk import PARSE, walk_dynamo
from recipegen.flag_extract.listing import parse_listing
from recipegen.flag_extract.modules import Modules
from recipegen.flag_extract.parser_walk import ENGINE, ParserWalk
from recipegen.flag_extract.source_tree import SourceTree, open_tree

FEWEST = 0.9
"""Share of the nearest release's flags below which an input is not likely to be whole: from release to release less than a tenth goes."""
_WANTED = "a wheel of vllm or ai-dynamo, a folder that it was unpacked into, or what `vllm serve --help=all` prints"
_BUILD = re.compile(r"(?:^|/)vllm[-_/ ]v?(\d+\.\d+\.\d+[\w.+]*)|docs\.vllm\.ai/en/v(\d+\.\d+\.\d+[\w.]*)/")


def extract_flags(path: Path, version: str = "") -> FlagTable:
    """Read the flags of a wheel, a folder or a help text; `version` wins over what the input says of itself.

    InputError for anything else, for an input without flags, and where no version is known, or what is given is none.
    """
    if version and (not version[0].isdigit() or version_key(version) is None):
        raise InputError(f"'{version}' is no version", hint="expected one as `runtime.vllm` names it, such as 0.30.0 or 0.30.0rc1.dev5+g0123456")
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder", hint=f"expected {_WANTED}")
    if path.is_dir() or path.suffix == ".whl":
        return _of_tree(open_tree(path), version)
    return _of_listing(path, version)


def few_flags(table: FlagTable) -> str:
    """Say that a build has far fewer flags than the nearest release that is shipped: those that it lacks would count as removed."""
    near = nearest(table.version, flag_versions(table.program))
    known = len(load_table(table.program, near).flags)
    if len(table.flags) >= FEWEST * known:
        return ""
    return f"{table.program} {near} has {known} flags: those that are missing here will count as removed; was all of the help printed?"


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
