"""How a role's KV blocks move: the connectors that `kv-transfer-config` names, nested ones included."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from recipegen.model import Flag, Role, RoleRecipe, Topology
from recipegen.role_flags import json_keys, read_json, word
from recipegen.settings import Value

TRANSFER = "kv-transfer-config"

NIXL = frozenset({"NixlConnector", "NixlPushConnector"})
"""Connectors on NIXL, as `leaf_name` has them."""

REGISTERED = frozenset(
    {
        "DecodeBenchConnector",
        "ExampleConnector",
        "ExampleHiddenStatesConnector",
        "FlexKVConnectorV1",
        "HF3FSKVConnector",
        "LMCacheConnectorV1",
        "LMCacheMPConnector",
        "MoRIIOConnector",
        "MooncakeConnector",
        "MooncakeStoreConnector",
        "MultiConnector",
        "NixlConnector",
        "NixlPullConnector",
        "NixlPushConnector",
        "OffloadingConnector",
        "P2pNcclConnector",
        "SimpleCPUOffloadConnector",
    }
)
"""Names that need no module path: vLLM `distributed/kv_transfer/kv_connector/factory.py`, what its versions of 2026 register taken together."""

DYNAMO_MODULE = "kvbm.vllm_integration.connector"
DYNAMO = frozenset({"DynamoConnector", "PdConnector"})
"""Connectors that come with Dynamo (KVBM) and need DYNAMO_MODULE as their module path: Dynamo 1.2 `dynamo/vllm/args.py`."""

KEEPERS = frozenset({"DecodeBenchConnector", "DynamoConnector", "ExampleHiddenStatesConnector", "OffloadingConnector", "SimpleCPUOffloadConnector"})
"""Connectors that keep blocks for their own engine and bring none to another."""

_WRAPPERS = frozenset({"MultiConnector", "PdConnector"})
_EXTRA = "kv_connector_extra_config"


@dataclass(frozen=True, kw_only=True)
class Connector:
    """One connector as configured: class name, kv_role, module path, its own `kv_connector_extra_config`; empty: not given."""

    name: str
    role: str
    module_path: str
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def leaf_name(self) -> str:
        """The name by which sides are compared: NixlConnector is NIXL's pull mode under its older name (vLLM 0.28 `kv_connector/v1/nixl`)."""
        return "NixlConnector" if self.name == "NixlPullConnector" else self.name

    @property
    def known(self) -> bool:
        """Whether vLLM finds the class: it registers the name, or is told the module."""
        return bool(self.module_path) or self.name in REGISTERED


@dataclass(frozen=True, kw_only=True)
class KvTransfer:
    """A role's KV transfer. `connector` is the one named at the top, `leaves` those that do the work: itself, or what it wraps.

    `readable` is false where the text is no JSON object. `permutes` is `enable_permute_local_kv`.
    """

    connector: Connector
    leaves: tuple[Connector, ...]
    readable: bool = True
    permutes: bool = False

    @property
    def names(self) -> frozenset[str]:
        return frozenset(leaf.leaf_name for leaf in self.leaves)

    @property
    def nixl(self) -> Connector | None:
        """The connector on NIXL, alone or among several."""
        return next((leaf for leaf in self.leaves if leaf.leaf_name in NIXL), None)

    @property
    def connectors(self) -> tuple[Connector, ...]:
        """Wrapping connectors and wrapped ones, each once."""
        return tuple({id(one): one for one in (self.connector, *self.leaves)}.values())


def kv_transfer(role: RoleRecipe) -> KvTransfer | None:
    """Read a role's `kv-transfer-config`, one JSON text or dotted keys; None where it is not set.

    MultiConnector and Dynamo's PdConnector list theirs in `kv_connector_extra_config.connectors`, each with a configuration of its
    own (vLLM `kv_connector/v1/multi_connector.py`).
    """
    whole, keys = role.flag(TRANSFER), role.keys(TRANSFER)
    return None if whole is None and not keys else _read_flags(whole, tuple(keys.items()))


def uses_nixl(role: RoleRecipe) -> bool:
    """Whether NIXL moves the role's blocks, alone or among several connectors."""
    transfer = kv_transfer(role)
    return transfer is not None and transfer.nixl is not None


def setting(connector: Connector, key: str) -> object:
    """A key of `kv_connector_extra_config`, texts of truth values as such (vLLM compares them in lower case); None where it is not given."""
    value = connector.settings.get(key)
    return {"true": True, "false": False}.get(value.lower(), value) if isinstance(value, str) else value


def near_connector(name: str) -> str:
    """The connector whose name is nearest, in whatever case and with or without `Connector`; empty where none is near."""
    names = {known.lower(): known for known in sorted(REGISTERED | DYNAMO)}
    short = {_stem(lower): known for lower, known in names.items()}
    lower, stem = name.lower(), _stem(name.lower())
    if stem in short:
        return short[stem]
    for wanted, among, cutoff in ((lower, names, 0.85), (stem, short, 0.75)):
        if found := difflib.get_close_matches(wanted, among, n=1, cutoff=cutoff):
            return among[found[0]]
    return ""


@lru_cache(maxsize=256)
def _read_flags(whole: Value | None, dotted: tuple[tuple[str, Value], ...]) -> KvTransfer:
    """Points of a matrix mostly share these flags, and many rules ask for them."""
    given = {TRANSFER: whole} | {f"{TRANSFER}.{key}": value for key, value in dotted}
    flags = tuple(Flag(name=name, value=value) for name, value in given.items() if value is not None)
    role = RoleRecipe(role=Role.AGG, workers=1, topology=Topology(), flags=flags, env=())
    keys = _nested(json_keys(role, TRANSFER))
    top = _connector(keys)
    readable = bool(keys) or "".join(word(role, TRANSFER).split()) == "{}"
    return KvTransfer(connector=top, leaves=tuple(_leaves(top)), readable=readable, permutes=_is_on(keys.get("enable_permute_local_kv")))


def _leaves(connector: Connector) -> Iterator[Connector]:
    inner = connector.settings.get("connectors")
    if isinstance(inner, list):
        for raw in inner:
            if isinstance(raw, Mapping):
                yield from _leaves(_connector(raw))
    elif connector.name and connector.name not in _WRAPPERS:
        yield connector


def _connector(keys: Mapping[str, object]) -> Connector:
    extra = keys.get(_EXTRA)
    texts = (str(value) if (value := keys.get(key)) else "" for key in ("kv_connector", "kv_role", "kv_connector_module_path"))
    name, role, module_path = texts
    return Connector(name=name, role=role, module_path=module_path, settings=extra if isinstance(extra, Mapping) else {})


def _nested(keys: Mapping[str, object]) -> dict[str, object]:
    """Put dotted keys (`a.b: 1`) into objects (`a: {b: 1}`), and read texts of JSON objects and lists, as vLLM does."""
    found: dict[str, object] = {}
    for name, value in keys.items():
        *path, last = name.split(".")
        inside = found
        for part in path:
            held = inside.get(part)
            inside[part] = inside = dict(held) if isinstance(held, Mapping) else {}
        inside[last] = _read(value)
    return found


def _read(value: object) -> object:
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return read_json(value, suffixes=False)
    except ValueError:
        return value


def _is_on(value: object) -> bool:
    return str(value).lower() in {"true", "1"}


def _stem(name: str) -> str:
    return name.removesuffix("v1").removesuffix("connector")
