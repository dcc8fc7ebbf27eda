"""Rules over KV connectors: pairs that meet, pairs that do not, names that vLLM does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from recipegen.checks.connector_rules import POINT_RULES
from recipegen.checks.views import PointView
from recipegen.engine.flag_catalogue import load_flags
from tests.unit.checks.views_for_tests import agg, found, pair, point_of, rules_of, severities

RULES = rules_of(POINT_RULES)
NIXL = "{kv_connector: NixlConnector, kv_role: kv_both}"
MOONCAKE = "{kv_connector: MooncakeConnector, kv_role: kv_both}"
OFFLOADING = "{kv_connector: OffloadingConnector, kv_role: kv_both}"
KVBM = "{kv_connector: DynamoConnector, kv_role: kv_both, kv_connector_module_path: kvbm.vllm_integration.connector}"


def several(*inner: str, wrapper: str = "MultiConnector", more: str = "") -> str:
    return f"{{kv_connector: {wrapper}, kv_role: kv_both, kv_connector_extra_config: {{connectors: [{', '.join(inner)}]}}{more}}}"


def pd(*inner: str) -> str:
    return several(*inner, wrapper="PdConnector", more=", kv_connector_module_path: kvbm.vllm_integration.connector")


def extra(settings: str, connector: str = "NixlConnector") -> str:
    return f"{{kv_connector: {connector}, kv_role: kv_both, kv_connector_extra_config: {{{settings}}}}}"


def sides(prefill: str, decode: str) -> PointView:
    """A point whose roles have these transfer configurations; an empty text keeps the common one."""
    shapes = zip(("1xTP2DP4", "1xTP4DP4"), (prefill, decode), strict=True)
    return point_of(pair(*(f"{{shape: {shape}, args: {{{f'kv-transfer-config: {text}' if text else ''}}}}}" for shape, text in shapes)))


def with_flags(view: PointView) -> PointView:
    """The point with the flags of its build, which tell what is malformed."""
    return replace(view, roles=tuple(replace(role, catalogue=load_flags("0.28.0")) for role in view.roles))


@pytest.mark.parametrize(
    ("prefill", "decode", "severity", "says"),
    [
        ("null", "", "error", "prefill: no kv-transfer-config, so that no KV blocks move from prefill to decode; Dynamo's prefill worker refuses"),
        ("null", "null", "error", "prefill and decode: no kv-transfer-config"),
        ("", "null", "error", "decode: no kv-transfer-config, so that it receives no KV blocks: it computes every prompt again"),
        (MOONCAKE, NIXL, "error", "prefill has MooncakeConnector, decode NixlConnector: none of them brings"),
        (several(MOONCAKE, OFFLOADING), several(NIXL, OFFLOADING), "error", "none of them brings"),
        (NIXL, NIXL.replace("Nixl", "NixlPush"), "error", "none of them brings"),
        (several(NIXL, OFFLOADING), OFFLOADING, "error", "none of them brings"),
        (OFFLOADING, OFFLOADING, "warning", "keep blocks for their own engine"),
        (
            several(NIXL, OFFLOADING),
            NIXL,
            "note",
            "prefill has NixlConnector and OffloadingConnector, decode NixlConnector: blocks move by NixlConnector",
        ),
        (pd(KVBM, NIXL), NIXL, "note", "prefill has DynamoConnector and NixlConnector, decode NixlConnector"),
        ("", "{kv_connector: NixlConnector, kv_role: kv_producer}", "error", "decode: kv_role 'kv_producer' does not fit"),
        ("{kv_connector: NixlConnector}", "", "error", "prefill: no kv_role is set for NixlConnector"),
        (several("{kv_connector: NixlConnector}", OFFLOADING), several(NIXL, OFFLOADING), "error", "no kv_role is set for NixlConnector"),
        ("{kv_role: kv_both}", "", "error", "prefill: kv-transfer-config names no kv_connector"),
        ("{}", "", "error", "prefill: kv-transfer-config names no kv_connector"),
        ("{kv_connector: MultiConnector, kv_role: kv_both}", "", "error", "MultiConnector has no `connectors`"),
    ],
)
def test_pairs_that_do_not_quite_meet(prefill: str, decode: str, severity: str, says: str) -> None:
    (fault,) = found(RULES["pd-connector"], sides(prefill, decode))
    assert says in fault.message
    assert severities([fault]) == [severity]
    assert fault.source.line
    assert bool(fault.mend) == (severity != "note")


@pytest.mark.parametrize(
    ("prefill", "decode"),
    [
        ("", ""),
        (NIXL, NIXL.replace("Nixl", "NixlPull")),
        ("{kv_connector: NixlConnector, kv_role: kv_producer}", "{kv_connector: NixlConnector, kv_role: kv_consumer}"),
        (pd(KVBM, NIXL), several(NIXL, KVBM)),
        (several("{kv_connector: MooncakeStoreConnector, kv_role: kv_consumer}", NIXL), several(NIXL, NIXL.replace("Nixl", "MooncakeStore"))),
        ("'{kv_connector'", ""),
    ],
)
def test_pairs_that_meet(prefill: str, decode: str) -> None:
    assert found(RULES["pd-connector"], sides(prefill, decode)) == []


def test_dotted_keys_are_a_config_too() -> None:
    dotted = "kv-transfer-config: null, kv-transfer-config.kv_connector: NixlConnector, kv-transfer-config.kv_role: kv_both"
    assert found(RULES["pd-connector"], point_of(pair(f"{{shape: 1xTP2DP4, args: {{{dotted}}}}}"))) == []


def test_a_fault_of_both_sides_is_said_once() -> None:
    view = point_of(pair(), (NIXL, "{kv_connector: NixlConnector}"))
    assert [fault.message.partition(":")[0] for fault in found(RULES["pd-connector"], view)] == ["prefill and decode"]


@pytest.mark.parametrize(
    ("connector", "says", "mend"),
    [
        ("NIXLConnector", "no KV connector 'NIXLConnector'", "did you mean 'NixlConnector'?"),
        ("NixlConector", "'Unsupported connector type'", "did you mean 'NixlConnector'?"),
        ("nixl", "no KV connector 'nixl'", "did you mean 'NixlConnector'?"),
        ("LMCacheConnector", "'LMCacheConnector'", "did you mean 'LMCacheConnectorV1'?"),
        ("DynamoConnector", "'DynamoConnector'", "set kv_connector_module_path to kvbm.vllm_integration.connector"),
        ("SharedStorageConnector", "'SharedStorageConnector'", "name the module"),
    ],
)
def test_names_that_vllm_does_not_know(connector: str, says: str, mend: str) -> None:
    """One fault for both sides, and none of two connectors that would not meet."""
    unknown = NIXL.replace("NixlConnector", connector)
    (fault,) = found(RULES["pd-connector-unknown"], point_of(pair(), (NIXL, unknown)))
    assert says in fault.message
    assert fault.message.startswith("prefill and decode: ")
    assert mend in fault.mend
    assert severities([fault]) == ["error"]
    assert found(RULES["pd-connector"], sides(unknown, "")) == []
    assert found(RULES["pd-connector-unknown"], point_of(pair(), (NIXL, f"{unknown[:-1]}, kv_connector_module_path: a.b}}"))) == []


def test_names_inside_of_another_connector_and_of_an_aggregated_point_count() -> None:
    wrapped = several(NIXL, "{kv_connector: OffloadConnector, kv_role: kv_both}")
    (fault,) = found(RULES["pd-connector-unknown"], point_of(agg("1xTP4"), (NIXL, wrapped)))
    assert "did you mean 'OffloadingConnector'?" in fault.mend


def test_a_name_like_no_other_is_a_warning_where_the_build_is_not_known() -> None:
    view = point_of(pair(), (NIXL, NIXL.replace("Nixl", "HouseMade")))
    unsure = replace(view.roles[0].catalogue, exact=False)
    roles = tuple(replace(role, catalogue=unsure) for role in view.roles)
    assert severities(found(RULES["pd-connector-unknown"], replace(view, roles=roles))) == ["warning"]


@pytest.mark.parametrize(
    ("prefill", "decode", "faults"),
    [
        (extra("enable_cross_layers_blocks: true"), NIXL, 1),
        (extra("enable_cross_layers_blocks: 'True'"), extra("enable_cross_layers_blocks: true"), 0),
        (extra("enable_cross_layers_blocks: false"), NIXL, 0),
        (extra("backends: [LIBFABRIC]"), NIXL, 1),
        (extra("backends: [UCX, GDS]"), extra("backends: [GDS, UCX]"), 0),
        (extra("backends: [UCX]"), NIXL, 0),
        (several(extra("backends: [LIBFABRIC]"), OFFLOADING), NIXL, 1),
        (extra("kv_lease_duration: 60"), NIXL, 0),
        (extra("backends: [LIBFABRIC]", "MooncakeConnector"), MOONCAKE, 0),
    ],
)
def test_settings_of_nixl_that_both_sides_need(prefill: str, decode: str, faults: int) -> None:
    assert severities(found(RULES["pd-connector-config"], sides(prefill, decode))) == ["warning"] * faults


@pytest.mark.parametrize(
    "config", ["{kv_connector: NixlConnector, kv_role: both}", "{kv_connector: NixlConnector, kv_rol: kv_both}", "'{kv_connector'"]
)
def test_what_the_flag_rules_refuse_is_left_to_them(config: str) -> None:
    view = with_flags(point_of(pair(), (NIXL, config)))
    assert [finding for rule in RULES.values() for finding in found(rule, view)] == []


def test_a_config_in_two_ways_is_left_to_the_flag_rules() -> None:
    view = with_flags(point_of(pair("{shape: 1xTP2DP4, args: {kv-transfer-config.kv_role: kv_producer}}")))
    assert found(RULES["pd-connector"], view) == []
