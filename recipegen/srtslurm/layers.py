"""Where a setting of several jobs is written: in common, at the role, at the point, or at the point's role."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recipegen.model import Role
from recipegen.srtslurm.recipe import Entry

Cell = tuple[int, Role]
"""A point, counted from 0, and a role of it."""


@dataclass
class Layers:
    """Settings by layer, in the order in which recipes have them."""

    common: list[Entry] = field(default_factory=list)
    roles: dict[Role, list[Entry]] = field(default_factory=dict)
    points: dict[int, list[Entry]] = field(default_factory=dict)
    cells: dict[Cell, list[Entry]] = field(default_factory=dict)


def layer(settings: Mapping[Cell, Sequence[Entry]]) -> Layers:
    """Lay out settings, each given for every cell that it holds for, so that every cell gets exactly its own back."""
    layers = Layers()
    found: dict[str, dict[Cell, Entry]] = {}
    for cell, entries in settings.items():
        for entry in entries:
            found.setdefault(entry.name, {})[cell] = entry
    for held in found.values():
        _place(layers, held, list(settings))
    return layers


def _place(layers: Layers, held: Mapping[Cell, Entry], cells: Sequence[Cell]) -> None:
    """Put one setting as high as it may stand: where all cells below hold it, alike."""
    if _same(held, cells):
        layers.common.append(next(iter(held.values())))
        return
    rest = dict(held)
    for role in dict.fromkeys(role for _, role in cells):
        own = [cell for cell in cells if cell[1] is role]
        if _same(held, own):
            layers.roles.setdefault(role, []).append(held[own[0]])
            rest = {cell: entry for cell, entry in rest.items() if cell not in own}
    whole = rest if len(rest) == len(held) else {}
    for point in dict.fromkeys(point for point, _ in rest):
        own = [cell for cell in cells if cell[0] == point]
        if len(own) > 1 and _same(whole, own):
            layers.points.setdefault(point, []).append(held[own[0]])
        else:
            for cell in own:
                if cell in rest:
                    layers.cells.setdefault(cell, []).append(rest[cell])


def _same(held: Mapping[Cell, Entry], cells: Sequence[Cell]) -> bool:
    values = [held[cell].value for cell in cells if cell in held]
    return len(values) == len(cells) and all(type(value) is type(values[0]) and value == values[0] for value in values)
