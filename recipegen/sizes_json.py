"""What sizing tells of a role as JSON: for `plan` and `size --format json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from recipegen.sizing.sizes import Estimate, RoleSizes, Room


def sizes_document(sizes: RoleSizes) -> dict[str, Any]:
    """Return sizes as plain JSON values: GiB and MiB of one GPU, requests of one engine (data-parallel rank)."""
    cache, budget = sizes.cache, sizes.budget
    return {
        "role": sizes.role.role.value,
        "topology": str(sizes.role.topology),
        "workers": sizes.role.workers,
        "engines": sizes.ranks,
        "asked_per_engine": sizes.asked,
        "head_room": _rounded(sizes.head_room),
        "block_size": asdict(sizes.blocks),
        "cache": None if cache is None else {**asdict(cache), "request_mib": cache.request_mib},
        "graphs": asdict(sizes.graphs),
        "weights_gib": _rounded(sizes.weights_gib),
        "weights": [_part(asdict(part)) for part in sizes.weight_parts],
        "budget": None
        if budget is None
        else {
            "total_gib": budget.total_gib,
            "utilization": budget.utilization,
            "calibration": budget.calibration,
            **{name: _estimate(getattr(budget, name)) for name in ("weights", "non_torch", "activation", "graphs", "kv")},
        },
        "fits": _room(sizes.room),
        "fits_low": _room(sizes.room_low),
        "fits_high": _room(sizes.room_high),
        "not_sized": list(sizes.unsized),
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return _part(asdict(estimate))


def _part(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _rounded(value) if isinstance(value, float) else value for name, value in values.items()}


def _room(room: Room | None) -> dict[str, Any] | None:
    return None if room is None else _part(asdict(room))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
