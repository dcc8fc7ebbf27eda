"""How the settings of prefill and decode are compared: what each side has, who moves the blocks, and where a difference was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from recipegen.architecture import Architecture, LinearAttention
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.views import PointView, RoleView
from recipegen.engine.flag_values import misfits
from recipegen.errors import Source
from recipegen.kv_transfer import KEEPERS, TRANSFER, kv_transfer, setting
from recipegen.role_flags import switch
from recipegen.settings import Value

HASH = "NIXL compares it at the handshake: the engines start and register, and then every request fails"

Found = tuple[Source | None, str, RoleView]
"""A fault of one role: its place (None: the place of what is left out), the text, the role."""


@dataclass(frozen=True, kw_only=True)
class Carrier:
    """What moves the blocks of a pair: `compares` tells that NIXL refuses sides whose compatibility hashes differ."""

    name: str
    nixl: bool
    compares: bool


def carrier(point: PointView) -> Carrier:
    """Return what moves a pair's blocks, or is meant to where a side names nothing.

    Decode compares the hashes, as it begins the handshake; when prefill pushes, both do. `enforce_handshake_compat: false` in
    `kv_connector_extra_config` switches that off (vLLM `kv_connector/v1/nixl/base_worker.py`).
    """
    transfers = [found for view in point.pair or () if (found := kv_transfer(view.role))]
    ends = [end for transfer in transfers if (end := transfer.nixl)]
    movers = sorted({name for transfer in transfers for name in transfer.names - KEEPERS})
    name = " and ".join(movers) or "the connector"
    judging = ends if any(end.name == "NixlPushConnector" for end in ends) else ends[-1:]
    enforced = any(setting(end, "enforce_handshake_compat") is not False for end in judging)
    return Carrier(name="NIXL" if ends else name, nixl=bool(ends), compares=bool(ends) and enforced)


def hashed(point: PointView, source: Source, difference: str, mend: str) -> Fault:
    """The fault of a difference that NIXL's compatibility hash holds: an error where it is compared, else a warning."""
    found = carrier(point)
    if found.compares:
        return Fault(source, f"{difference}; {HASH}", mend)
    if found.nixl:
        why = "with enforce_handshake_compat: false NIXL does not compare it, and decode may read blocks that are not as its own"
    else:
        why = f"{found.name} may not compare it, and decode may read blocks that are not as its own"
    return Fault(source, f"{difference}; {why}", mend, Severity.WARNING)


def malformed(view: RoleView) -> bool:
    """Whether the flag rules refuse the role's `kv-transfer-config`, so that nothing else need be said of it."""
    flags = [flag for flag in view.role.flags if flag.name.partition(".")[0] == TRANSFER]
    if {flag.name == TRANSFER for flag in flags} == {True, False}:
        return True
    uses = [(use, flag.value) for flag in flags if (use := view.catalogue.find(flag.name))]
    return any(True for use, value in uses for _ in misfits(use, value))


def prefix_caching(view: RoleView) -> bool:
    """Whether the role caches prefixes: on unless it is switched off (vLLM 0.26 to 0.28, `is_prefix_caching_supported`)."""
    return switch(view.role, "enable-prefix-caching") is not False


def linear_of(architecture: Architecture | None) -> LinearAttention | None:
    """The linear-attention layers; None for a plain model, and where the architecture is not known."""
    return architecture.linear if architecture else None


def place(point: PointView, *flags: str) -> Source:
    """Where a difference was written: the later of the two sides' places, as overrides stand behind what they override.

    What neither side wrote stands at the first role, as an omission.
    """
    written = [found for view in point.roles if (found := view.at(*flags)) != view.role.source]
    return max(written, default=point.roles[0].omission)


def shown(value: Value | None) -> str:
    """A flag's value in a message."""
    return "not set" if value is None else f"'{value}'"


def names(views: Iterable[RoleView]) -> str:
    """`prefill`, or `prefill and decode`."""
    return " and ".join(view.role.role.value for view in views)


def by_place(found: Iterable[Found]) -> Iterator[tuple[Source, str, str]]:
    """Fold what both roles inherit from one place, or both leave out: (place, text, names of the roles)."""
    folded: dict[tuple[Source | None, str], list[RoleView]] = {}
    for source, text, view in found:
        folded.setdefault((source, text), []).append(view)
    for (source, text), views in folded.items():
        yield views[0].omission if source is None else source, text, names(views)
