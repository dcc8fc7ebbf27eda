"""Reading a role's KV transfer: one JSON text or dotted keys, connectors inside of connectors."""

from __future__ import annotations

import json

import pytest

from recipegen.kv_transfer import kv_transfer, near_connector, setting, uses_nixl
from recipegen.model import Flag, Role, RoleRecipe, Topology
from recipegen.settings import Value

NIXL = {
    "kv_connector": "NixlConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"backends": ["UCX"], "enforce_handshake_compat": "False"},
}
KVBM = {"kv_connector": "DynamoConnector", "kv_role": "kv_both", "kv_connector_module_path": "kvbm.vllm_integration.connector"}
PD = {"kv_connector": "PdConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [KVBM, NIXL]}}
NESTED = {"kv_connector": "MultiConnector", "kv_role": "kv_both", "kv_connector_extra_config": {"connectors": [PD, {"kv_connector": "Mine"}]}}


def role(**flags: Value) -> RoleRecipe:
    made = tuple(Flag(name=name.replace("__", "."), value=value) for name, value in flags.items())
    return RoleRecipe(role=Role.DECODE, workers=1, topology=Topology(), flags=tuple(Flag(name=_dashed(f.name), value=f.value) for f in made), env=())


def _dashed(name: str) -> str:
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest


@pytest.mark.parametrize(
    ("config", "leaves", "nixl"),
    [
        (NIXL, ["NixlConnector"], True),
        (KVBM, ["DynamoConnector"], False),
        (PD, ["DynamoConnector", "NixlConnector"], True),
        (NESTED, ["DynamoConnector", "NixlConnector", "Mine"], True),
        ({"kv_connector": "NixlPushConnector"}, ["NixlPushConnector"], True),
        ({"kv_connector": "MooncakeConnector", "engine_id": "Nixl"}, ["MooncakeConnector"], False),
        ({"kv_connector": "MultiConnector"}, [], False),
        ({"kv_connector": "MultiConnector", "kv_connector_extra_config": {"connectors": ["NixlConnector", 3]}}, [], False),
        ({}, [], False),
    ],
)
def test_one_text(config: dict[str, object], leaves: list[str], nixl: bool) -> None:
    read = role(kv_transfer_config=json.dumps(config))
    transfer = kv_transfer(read)
    assert transfer
    assert transfer.readable
    assert [leaf.name for leaf in transfer.leaves] == leaves
    assert uses_nixl(read) is nixl


def test_dotted_keys_say_the_same() -> None:
    whole = kv_transfer(role(kv_transfer_config=json.dumps({**NIXL, "enable_permute_local_kv": True})))
    dotted = role(
        kv_transfer_config__kv_connector="NixlConnector",
        kv_transfer_config__kv_role="kv_both",
        kv_transfer_config__enable_permute_local_kv=True,
        kv_transfer_config__kv_connector_extra_config__backends='["UCX"]',
        kv_transfer_config__kv_connector_extra_config__enforce_handshake_compat="False",
    )
    assert kv_transfer(dotted) == whole
    assert whole
    assert whole.nixl
    assert setting(whole.nixl, "enforce_handshake_compat") is False


def test_dotted_keys_take_the_place_of_the_text() -> None:
    both = role(kv_transfer_config=json.dumps(NIXL), kv_transfer_config__kv_connector="MooncakeConnector")
    transfer = kv_transfer(both)
    assert transfer
    assert transfer.names == {"MooncakeConnector"}
    assert transfer.connector.role == ""


def test_nested_connectors_by_a_dotted_key() -> None:
    read = role(kv_transfer_config__kv_connector="MultiConnector", kv_transfer_config__kv_connector_extra_config=json.dumps({"connectors": [NIXL]}))
    assert uses_nixl(read)


def test_no_config_is_none_and_a_text_that_is_no_json_says_nothing() -> None:
    assert kv_transfer(role(kv_cache_dtype="fp8")) is None
    broken = kv_transfer(role(kv_transfer_config="{NixlConnector"))
    assert broken
    assert (broken.readable, broken.leaves) == (False, ())


def test_pull_is_nixl_under_its_newer_name() -> None:
    transfer = kv_transfer(role(kv_transfer_config='{"kv_connector": "NixlPullConnector"}'))
    assert transfer
    assert transfer.names == {"NixlConnector"}


@pytest.mark.parametrize(("name", "near"), [("NIXLCONNECTOR", "NixlConnector"), ("mooncake", "MooncakeConnector"), ("kvbm", ""), ("", "")])
def test_near_names(name: str, near: str) -> None:
    assert near_connector(name) == near
