"""Flags of an engine build: which there are, what they take, and what other builds had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from recipegen.model import Value


class FlagKind(str, Enum):
    """What a flag takes."""

    BOOL = "bool"
    SWITCH = "switch"
    INT = "int"
    HUMAN_INT = "human_int"
    INT_OR_AUTO = "int_or_auto"
    FLOAT = "float"
    STR = "str"
    ENUM = "enum"
    LIST = "list"
    JSON = "json"
    JSON_OR_STR = "json_or_str"
    BOOL_OR_STR = "bool_or_str"


@dataclass(frozen=True, kw_only=True)
class FlagSpec:
    """One flag: `name` without dashes, `keys` the sub-keys of a JSON argument (empty: any), bounds as the engine enforces them.

    `engine` tells a flag of the engine from one that only `vllm serve` takes; `negatable`, that `--no-<name>` exists.
    """

    name: str
    kind: FlagKind
    choices: tuple[str, ...] = ()
    default: Value | None = None
    optional: bool = False
    negatable: bool = False
    aliases: tuple[str, ...] = ()
    bounds: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, FlagSpec] = field(default_factory=dict)
    engine: bool = True


@dataclass(frozen=True, kw_only=True)
class FlagCatalogue:
    """Every flag of one build. `asked` is the build that the recipe declares, `version` the one these flags are of."""

    asked: str
    version: str
    flags: Mapping[str, FlagSpec]
    exact: bool = True
