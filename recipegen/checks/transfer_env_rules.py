"""Rules over environment variables that make or break a transfer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from recipegen.checks.agreement import by_place, transfer_config, uses_nixl
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.errors import Source
from recipegen.role_flags import switch

_ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
_EXPANDABLE = re.compile(r"expandable_segments\s*:\s*True", re.IGNORECASE)
_SIDE_CHANNEL = "VLLM_NIXL_SIDE_CHANNEL_HOST"
_OWN_HOST = re.compile(r"localhost|127\..*|::1|0\.0\.0\.0|::", re.IGNORECASE)
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
    node's address, unless the recipe sets the variable or takes it back with null. Decode then looks for prefill on its own node:
    prompts are computed again, or every request fails.

    Mend: leave the variable to the launcher.
    Source: vLLM 0.26 to 0.29, `envs.py`, `kv_connector/v1/nixl`.
    """
    if point.pair:
        yield from _faults(_advertising(point.pair), f"leave {_SIDE_CHANNEL} out: the launcher sets each node's address")


@rule("pd-multi-node-env", Severity.WARNING, covers=(54,))
def multi_node(point: PointView) -> Iterator[Fault]:
    """A worker across nodes has multi-node NVLink switched off.

    Workers that span trays of one NVLink domain need fabric handles; the hardware's data says which variables ask for them, and the
    launcher sets them. Without them NCCL and UCX take the network: slower by an order of magnitude, or a failed communicator.

    Mend: leave the variables to the launcher.
    Source: the hardware's data (`multi_node_env`); NCCL and UCX.
    """
    yield from _faults(_without_nvlink(point), "leave it out: the launcher sets it")


def _expandable(point: PointView) -> Iterator[tuple[Source, str, RoleView]]:
    for view in point.roles:
        exempt = switch(view.role, "enable-cumem-allocator") or switch(view.role, "enable-sleep-mode")
        if exempt or transfer_config(view.role) is None:
            continue
        for name in _ALLOCATOR:
            if _EXPANDABLE.search(view.env(name) or ""):
                shows = "vLLM refuses to start" if name == _ALLOCATOR[0] else "transfers fail or corrupt the cache"
                text = f"{name} has expandable_segments:True, which moves memory that the KV connector has registered; {shows}"
                yield view.at_env(name), text, view


def _advertising(views: tuple[RoleView, RoleView]) -> Iterator[tuple[Source, str, RoleView]]:
    for view in views:
        host = view.env(_SIDE_CHANNEL)
        if not uses_nixl(view.role):
            continue
        if host is not None and _OWN_HOST.fullmatch(host.strip()):
            yield view.at_env(_SIDE_CHANNEL), f"{_SIDE_CHANNEL} is '{host}', which every node is to itself; no block is found across nodes", view
        elif _SIDE_CHANNEL in view.role.unset_env:
            text = f"{_SIDE_CHANNEL} is taken back, and vLLM's own default is localhost; no block is found across nodes"
            yield view.at("kv-transfer-config"), text, view


def _without_nvlink(point: PointView) -> Iterator[tuple[Source, str, RoleView]]:
    hardware = point.recipe.hardware
    for view in point.roles:
        if not view.layout or view.layout.nodes_per_worker == 1:
            continue
        for name, wanted in hardware.multi_node_env.items():
            given = view.env(name)
            if name in view.role.unset_env:
                given = "taken back"
            elif given is None or given.lower() not in _OFF:
                continue
            text = f"{name} is {given or 'empty'} for workers across nodes; {hardware.key} needs '{wanted}' there, or collectives leave NVLink"
            yield view.at_env(name), text, view


def _faults(found: Iterator[tuple[Source, str, RoleView]], mend: str) -> Iterator[Fault]:
    for source, text, roles in by_place(found):
        yield Fault(source, f"{roles}: {text}", mend)


POINT_RULES: tuple[Rule[PointView], ...] = (expandable, side_channel, multi_node)
