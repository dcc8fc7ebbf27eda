"""What a flag takes, and how a written name of it is understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from recipegen.settings import Value


class FlagKind(str, Enum):
    """What a flag takes; of `any` it is not known."""

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
    ANY = "any"


@dataclass(frozen=True, kw_only=True)
class FlagSpec:
    """One flag: `name` without dashes, `keys` the sub-keys of a JSON argument (empty: any), bounds as the engine enforces them.

    `engine` tells a flag that a worker takes from one that only `vllm serve` takes; `negatable`, that `--no-<name>` exists.
    `aliases` are other option strings, dashes included. `item` is the kind of a list's members (None: any). Among `loose` choices
    case does not matter; with `hyphens`, `-` is `_`. `default` is None where there is none, or where it is computed.
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
    item: FlagKind | None = None
    loose: bool = False
    hyphens: bool = False


@dataclass(frozen=True, kw_only=True)
class FlagUse:
    """How a written name is understood: the flag, whether as its `no-` form, and the keys that follow it after dots."""

    spec: FlagSpec
    negative: bool = False
    keys: tuple[str, ...] = ()

    @property
    def target(self) -> FlagSpec | None:
        """The flag, or the sub-key that the dots lead to; None where there is no such sub-key."""
        spec = self.spec
        for key in self.keys:
            if not spec.keys:
                return FlagSpec(name=key, kind=FlagKind.ANY)
            if key.removesuffix("+") not in spec.keys:
                return None
            spec = spec.keys[key.removesuffix("+")]
        return spec
