"""Rules over environment variables that make or break a transfer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipegen.checks.agreement import Found, by_place
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.kv_transfer import kv_transfer
from recipegen.role_flags import switch

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_EXPANDABLE = re.compile(r"expandable_segments\s*:\s*True", re.IGNORECASE)
_SIDE_CHANNEL = "VLLM_NIXL_SIDE_CHANNEL_HOST"
_OWN_HOST = re.compile(r"localhost|127\..*|::1|0\.0\.0\.0|::", re.IGNORECASE)
_TAKEN_BACK = "taken back"
_OFF = {"", "0", "n", "no", "off", "false"}


@rule("pd-expandable-segments", Severity.ERROR)
def expandable(point: PointView) -> Iterator[Fault]:
    """PyTorch may move the memory that a KV connector has registered.

    With `expandable_segments:True` the allocator maps other physical pages under the same addresses, and the registration with the
    network points nowhere. vLLM refuses any KV connector with `PYTORCH_CUDA_ALLOC_CONF` so set, at start; the newer name of the
    variable is not looked at, and transfers fail or corrupt instead. The cumem allocator is exempt: it switches the segments off
    for the KV cache.

    Mend: leave the variable out.
    Source: vLLM 0.26 to 0.29, `config/vllm.py`.
    """
    yield from _faults(_expandable(point), "unset it, or set enable-cumem-allocator")


@rule("pd-side-channel-host", Severity.ERROR, covers=(22,))
def side_channel(point: PointView) -> Iterator[Fault]:
    """NIXL's side channel advertises a node to itself.

    The host is what a worker binds and what decode is told to connect to; vLLM's own default is localhost. The launcher sets each
    node's address, unless the recipe sets the variable or takes it back with null. Then Dynamo looks for an address of the host's
    name, if NixlConnector stands at the top or in PdConnector: that may be the wrong network, and it stops the worker where there is
    only a loopback address. For any other set-up decode looks for prefill on its own node: prompts are computed again, or every
    request fails.

    Mend: leave the variable to the launcher.
    Source: vLLM 0.26 to 0.29, `envs.py`, `kv_connector/v1/nixl`; Dynamo 1.2 `dynamo/vllm/args.py` `ensure_side_channel_host`.
    """
    mend = f"leave {_SIDE_CHANNEL} out: the launcher sets each node's address"
    for view_faults, severity in ((_advertising(point), None), (_guessing(point), Severity.WARNING)):
        yield from _faults(view_faults, mend, severity)


@rule("pd-multi-node-env", Severity.WARNING, covers=(54,))
def multi_node(point: PointView) -> Iterator[Fault]:
    """A worker across nodes has multi-node NVLink switched off.

    Workers that span trays of one NVLink domain need fabric handles; the hardware's data says which variables ask for them, and the
    launcher sets them. Without them NCCL and UCX take the network: slower by an order of magnitude, or a failed communicator.

    Mend: leave the variables to the launcher.
    Source: the hardware's data (`multi_node_env`); NCCL and UCX.
    """
    yield from _faults(_without_nvlink(point), "leave it out: the launcher sets it")


def _expandable(point: PointView) -> Iterator[Found]:
    for view in point.roles:
        exempt = switch(view.role, "enable-cumem-allocator") or switch(view.role, "enable-sleep-mode")
        if exempt or kv_transfer(view.role) is None:
            continue
        for name in _ALLOCATOR:
            if _EXPANDABLE.search(view.env(name) or ""):
                shows = "vLLM refuses to start" if name == _ALLOCATOR[0] else "transfers fail or corrupt the cache"
                text = f"{name} has expandable_segments:True, which moves memory that the KV connector has registered; {shows}"
                yield view.at_env(name), text, view


def _advertising(point: PointView) -> Iterator[Found]:
    for view in _on_nixl(point):
        host = _host(view)
        if host and _OWN_HOST.fullmatch(host):
            yield view.at_env(_SIDE_CHANNEL), f"{_SIDE_CHANNEL} is '{host}', which every node is to itself; no block is found across nodes", view
        elif host == "" and not _found_by_dynamo(view):
            yield None, f"{_SIDE_CHANNEL} is taken back, and vLLM's own default is localhost; no block is found across nodes", view


def _guessing(point: PointView) -> Iterator[Found]:
    for view in _on_nixl(point):
        if _host(view) == "" and _found_by_dynamo(view):
            yield None, f"{_SIDE_CHANNEL} is taken back, and Dynamo takes an address of the host's name, on whatever network that is", view


def _on_nixl(point: PointView) -> Iterator[RoleView]:
    for view in point.pair or ():
        transfer = kv_transfer(view.role)
        if transfer and transfer.nixl:
            yield view


def _host(view: RoleView) -> str | None:
    """What a process is given, empty where nothing is; None: the launcher's, which is each node's address."""
    own = any(var.name == _SIDE_CHANNEL for var in view.role.env)
    return (view.env(_SIDE_CHANNEL) or "").strip() if own or _SIDE_CHANNEL in view.role.unset_env else None


def _found_by_dynamo(view: RoleView) -> bool:
    transfer = kv_transfer(view.role)
    if transfer is None or transfer.connector.name not in {"NixlConnector", "PdConnector"}:
        return False
    return any(leaf.name == "NixlConnector" for leaf in transfer.leaves)


def _without_nvlink(point: PointView) -> Iterator[Found]:
    hardware = point.recipe.hardware
    for view in point.roles:
        if not view.layout or view.layout.nodes_per_worker == 1:
            continue
        for name, wanted in hardware.multi_node_env.items():
            given = _given(view, name)
            if given is None or (given != _TAKEN_BACK and given.lower() not in _OFF):
                continue
            text = f"{name} is {given or 'empty'} for workers across nodes; {hardware.key} needs '{wanted}' there, or collectives leave NVLink"
            yield None if given == _TAKEN_BACK else view.at_env(name), text, view


def _given(view: RoleView, name: str) -> str | None:
    """What stands in the place of the launcher's value; None where nothing does."""
    if name in view.role.unset_env:
        return view.site_env.get(name, _TAKEN_BACK)
    return next((str(var.value) for var in view.role.env if var.name == name), None)


def _faults(found: Iterator[Found], mend: str, severity: Severity | None = None) -> Iterator[Fault]:
    for source, text, roles in by_place(found):
        yield Fault(source, f"{roles}: {text}", mend, severity)


POINT_RULES: tuple[Rule[PointView], ...] = (expandable, side_channel, multi_node)
