"""How the settings of prefill and decode are compared: what each side has, and where a difference was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recipegen.checks.views import PointView, RoleView
from recipegen.errors import Source
from recipegen.model import Architecture, LinearAttention, RoleRecipe, Value
from recipegen.role_flags import json_keys, switch

TRANSFER = "kv-transfer-config"


def transfer_config(role: RoleRecipe) -> Mapping[str, Any] | None:
    """The keys of `kv-transfer-config`; None where it is not set, empty where it cannot be read."""
    is_set = any(flag.name == TRANSFER or flag.name.startswith(f"{TRANSFER}.") for flag in role.flags)
    return json_keys(role, TRANSFER) if is_set else None


def uses_nixl(role: RoleRecipe) -> bool:
    """Whether NIXL moves the role's blocks, alone or among several connectors."""
    return "Nixl" in str(transfer_config(role) or "")


def prefix_caching(role: RoleRecipe) -> bool:
    """Whether the role caches prefixes: on unless it is switched off (vLLM 0.26 to 0.28, `is_prefix_caching_supported`)."""
    return switch(role, "enable-prefix-caching") is not False


def linear_of(architecture: Architecture | None) -> LinearAttention | None:
    """The linear-attention layers; None for a plain model, and where the architecture is not known."""
    return architecture.linear if architecture else None


def place(point: PointView, *flags: str) -> Source:
    """Where a difference was written: the later of the two sides' places, as overrides stand behind what they override."""
    written = [found for view in point.roles if (found := view.at(*flags)) != view.role.source]
    return max(written, default=point.recipe.source)


def shown(value: Value | None) -> str:
    """A flag's value in a message."""
    return "not set" if value is None else f"'{value}'"


def names(views: Iterable[RoleView]) -> str:
    """`prefill`, or `prefill and decode`."""
    return " and ".join(view.role.role.value for view in views)


def by_place(found: Iterable[tuple[Source, str, RoleView]]) -> Iterator[tuple[Source, str, str]]:
    """Fold what both roles inherit from one place: (place, text, names of the roles)."""
    folded: dict[tuple[Source, str], list[RoleView]] = {}
    for source, text, view in found:
        folded.setdefault((source, text), []).append(view)
    for (source, text), views in folded.items():
        yield source, text, names(views)
