"""Rules over the KV connectors of prefill and decode: which there are, whether they meet, and how they are set up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recipegen.checks.agreement import Found, by_place, malformed, names, place
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.kv_transfer import DYNAMO, DYNAMO_MODULE, KEEPERS, TRANSFER, Connector, KvTransfer, kv_transfer, near_connector, setting
from recipegen.model import Role
from recipegen.role_flags import switch

_FITTING = {Role.PREFILL: {"kv_producer", "kv_both"}, Role.DECODE: {"kv_consumer", "kv_both"}}
_COMPARED: tuple[tuple[str, object, str], ...] = (
    ("enable_cross_layers_blocks", False, "where the attention backend has such blocks, NIXL's compatibility hash holds them and requests fail"),
    ("backends", ["UCX"], "agents without a transport in common cannot reach each other's memory"),
)
"""Keys of NIXL's extra configuration that both sides must have alike, with vLLM's defaults."""


@rule("pd-connector", Severity.ERROR)
def connector(point: PointView) -> Iterator[Fault]:
    """Prefill and decode have no KV connector in common.

    Without `kv-transfer-config` nothing moves the blocks: Dynamo's prefill worker raises a ValueError at start, and a decode worker
    computes every prompt again. Connectors that are different do not speak to each other, and a side that only produces cannot
    receive. vLLM refuses a connector without a role.

    A side may have more connectors than the other, as MultiConnector or Dynamo's PdConnector has them: those that both have move the
    blocks. That is a note.

    Mend: one `kv-transfer-config` under `common`, with `kv_both`, or `kv_producer` for prefill and `kv_consumer` for decode.
    Source: vLLM 0.26 to 0.29, `config/kv_transfer.py`, `kv_connector/v1/multi_connector.py`; Dynamo 1.2 `dynamo/vllm/args.py`.
    """
    if not point.pair:
        return
    found = [(view, kv_transfer(view.role)) for view in point.pair]
    if without := [view for view, transfer in found if transfer is None]:
        yield Fault(place(point, TRANSFER), f"{names(without)}: no {TRANSFER}, {_missing(without)}", f"set {TRANSFER} under common")
        return
    read = [(view, transfer) for view, transfer in found if transfer]
    for source, text, roles in by_place(_nameless(read)):
        yield Fault(source, f"{roles}: {text}, so that no KV blocks move", "name one")
    for source, text, roles in by_place(_misfits(read)):
        yield Fault(source, f"{roles}: {text}", "set kv_role to kv_both, or to kv_producer for prefill and kv_consumer for decode")
    (_, prefill), (_, decode) = read
    yield from _left(_compared(point, prefill, decode), point.pair)


@rule("pd-connector-unknown", Severity.ERROR)
def unknown(point: PointView) -> Iterator[Fault]:
    """A KV connector has a name that vLLM does not know.

    vLLM takes a name that it registers, or looks for the class in the module that `kv_connector_module_path` names, as Dynamo's own
    connectors need it. Any other name stops the worker with "Unsupported connector type" when the engine starts, after the job waited
    for its nodes. A plug-in in the image may register more: where no name is near and the build is not known, it is a warning.

    Mend: the near match, or the module's path.
    Source: vLLM `distributed/kv_transfer/kv_connector/factory.py`; Dynamo 1.2 `dynamo/vllm/args.py`.
    """
    for source, name, roles in by_place(_unknown(point)):
        near = near_connector(name)
        sure = bool(near) or point.roles[0].catalogue.sure
        message = f"{roles}: vLLM has no KV connector '{name}'; 'Unsupported connector type' stops the worker when the engine starts"
        if name in DYNAMO:
            mend = f"it is Dynamo's: set kv_connector_module_path to {DYNAMO_MODULE}"
        else:
            mend = f"did you mean '{near}'?" if near else "name the module of a connector of your own in kv_connector_module_path"
        yield Fault(source, message, mend, None if sure else Severity.WARNING)


@rule("pd-connector-config", Severity.WARNING)
def config(point: PointView) -> Iterator[Fault]:
    """NIXL is set up differently on the two sides.

    Cross-layer blocks change what a block holds, and NIXL's transport backends decide whether the two agents can reach each other.
    It shows at the handshake of the first request.

    Mend: one `kv-transfer-config` under `common`.
    Source: vLLM 0.26 to 0.29, `kv_connector/v1/nixl/connector.py`, `kv_connector/v1/nixl/metadata.py`.
    """
    transfers = [transfer for view in point.pair or () if (transfer := kv_transfer(view.role))]
    ends = [end for transfer in transfers if (end := transfer.nixl)]
    yield from _left(_settings(point, *ends), point.roles) if len(ends) == len(_FITTING) else ()


def _left(faults: Iterator[Fault], views: Iterable[RoleView]) -> list[Fault]:
    """Faults of a pair, unless the rules over flags refuse a side's configuration as it is."""
    found = list(faults)
    return [] if found and any(malformed(view) for view in views) else found


def _settings(point: PointView, prefill: Connector, decode: Connector) -> Iterator[Fault]:
    for key, default, why in _COMPARED:
        ours, theirs = (_given(end, key, default) for end in (prefill, decode))
        if ours != theirs:
            message = f"{key} of NIXL is {ours} for prefill and {theirs} for decode; {why}"
            yield Fault(place(point, TRANSFER), message, "set it alike on both sides")


def _missing(without: list[RoleView]) -> str:
    """What happens without the flag: decode alone can do without, at the price of computing every prompt itself."""
    if [view.role.role for view in without] == [Role.DECODE]:
        return "so that it receives no KV blocks: it computes every prompt again, and prefill's work is lost"
    return "so that no KV blocks move from prefill to decode; Dynamo's prefill worker refuses to start"


def _nameless(read: Iterable[tuple[RoleView, KvTransfer]]) -> Iterator[Found]:
    for view, transfer in read:
        name = transfer.connector.name
        text = f"{name} has no `connectors` in its kv_connector_extra_config" if name else f"{TRANSFER} names no kv_connector"
        if transfer.readable and not (name and transfer.leaves) and not malformed(view):
            yield view.at(TRANSFER), text, view


def _misfits(read: Iterable[tuple[RoleView, KvTransfer]]) -> Iterator[Found]:
    for view, transfer in read:
        own, text = transfer.connector, ""
        if without := [one.name for one in transfer.connectors if one.name and not one.role]:
            text = f"no kv_role is set for {' and '.join(without)}; vLLM refuses to start"
        elif own.name and own.role not in _FITTING[view.role.role]:
            text = f"kv_role '{own.role}' does not fit the role"
        if text and not malformed(view):
            yield view.at(TRANSFER), text, view


def _compared(point: PointView, prefill: KvTransfer, decode: KvTransfer) -> Iterator[Fault]:
    if not all(one.known for side in (prefill, decode) for one in side.connectors) or not (prefill.leaves and decode.leaves):
        return
    source, sides = place(point, TRANSFER), f"prefill has {_listed(prefill.names)}, decode {_listed(decode.names)}"
    moving = [side.names - KEEPERS for side in (prefill, decode)]
    if not prefill.names & decode.names or (any(moving) and not moving[0] & moving[1]):
        message = f"{sides}: none of them brings KV blocks from one to the other, and every transfer fails at the first request"
        yield Fault(source, message, "use one connector on both sides")
    elif not any(moving):
        message = f"{sides}, which keep blocks for their own engine: nothing moves from prefill to decode, and decode computes every prompt again"
        yield Fault(source, message, "add NixlConnector, by MultiConnector", Severity.WARNING)
    elif prefill.names != decode.names:
        yield Fault(source, f"{sides}: blocks move by {_listed(moving[0] & moving[1])}{_hybrid_manager(point)}", "", Severity.NOTE)


def _hybrid_manager(point: PointView) -> str:
    """What may still differ: vLLM switches the manager off where a connector does not support it (`config/vllm.py`)."""
    if all(switch(view.role, "disable-hybrid-kv-cache-manager") is not None for view in point.roles):
        return ""
    return "; a connector without support for the hybrid KV cache manager switches it off on its side only, unless both sides say which"


def _unknown(point: PointView) -> Iterator[Found]:
    for view in point.roles:
        transfer = kv_transfer(view.role)
        strange = [one.name for one in transfer.connectors if one.name and not one.known] if transfer else []
        if strange and not malformed(view):
            yield from ((view.at(TRANSFER), name, view) for name in strange)


def _given(end: Connector, key: str, default: object) -> str:
    value = setting(end, key)
    value = default if value is None else value
    return ", ".join(sorted(map(str, value))) if isinstance(value, list) else str(value).lower()


def _listed(found: Iterable[str]) -> str:
    return " and ".join(sorted(found))


POINT_RULES: tuple[Rule[PointView], ...] = (connector, unknown, config)
