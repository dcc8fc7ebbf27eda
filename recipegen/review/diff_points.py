"""Which point of one matrix is which of another: by name, then by content."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from recipegen.errors import NOWHERE
from recipegen.model import Matrix, Point

_Key = Callable[[Point], Hashable]
_PLACES = frozenset({"places", "source", "key_source", "image_source", "vllm_source", "time_limit_source"})
"""Fields of the domain's types that tell where something was written."""


def meaning(value: object) -> Hashable:
    """Return what a value of the domain says, without where it was written: equal for equal content."""
    kind: Any = type(value)
    if kind is str:
        return str(value)
    if names := _said_by(kind):
        return (kind, *[meaning(getattr(value, name)) for name in names])
    if isinstance(value, Mapping):
        return tuple([(meaning(key), meaning(item)) for key, item in value.items()])
    if isinstance(value, tuple):
        return tuple([meaning(item) for item in value])
    return kind, repr(value)


@cache
def _said_by(kind: Any) -> tuple[str, ...]:  # noqa: ANN401  # mypy takes no type for hashable
    """The fields of a dataclass that are no places; of anything else none."""
    return tuple(field.name for field in fields(kind) if field.name not in _PLACES) if is_dataclass(kind) else ()


def common_meaning(matrix: Matrix) -> Hashable:
    """Return what a matrix says for all of its points."""
    return meaning(replace(matrix, file="", points=()))


def pair_points(old: Sequence[Point], new: Sequence[Point]) -> list[tuple[Point | None, Point | None]]:
    """Return (old, new) pairs, first those of `new` in its order, then what only `old` has; None stands where a side lacks one.

    Points of one name are the same. A name follows from topology, speculation and concurrency, so that a point with another name has
    changed in one of these: of the points left over, those are the same, renamed, that have in common, in this order of preference,
    1. everything but the name; 2. shapes, MTP and the point's own settings; 3. shapes and MTP; 4. shapes and concurrency;
    5. MTP, concurrency and the shape of one of two roles.
    Where several would do, the one with the nearest highest concurrency is taken. Whatever is left was removed or added.
    """
    left = {point.name: point for point in old}
    found: dict[str, Point] = {point.name: left.pop(point.name) for point in new if point.name in left}
    for key in _KEYS:
        for point in new:
            alike = [other for other in left.values() if point.name not in found and key(other) == key(point)]
            if alike:
                found[point.name] = left.pop(min(alike, key=lambda other: _distance(other, point)).name)
    return [*((found.get(point.name), point) for point in new), *((point, None) for point in left.values())]


def _shapes(point: Point) -> tuple[Hashable, ...]:
    return tuple((shape.role, shape.workers, shape.topology) for shape in point.shapes)


def _distance(one: Point, other: Point) -> float:
    return abs(math.log(one.concurrency[-1] / other.concurrency[-1]))


def _whole(point: Point) -> Hashable:
    return meaning(replace(point, name="", source=NOWHERE))


def _half(point: Point, index: int) -> Hashable:
    """A point without the shape of its other role; one with a single role is like no other."""
    shapes = _shapes(point)
    return (shapes[index], point.mtp, point.concurrency) if len(shapes) > 1 else point.name


_KEYS: tuple[_Key, ...] = (
    _whole,
    lambda point: (_shapes(point), point.mtp, meaning(point.overrides)),
    lambda point: (_shapes(point), point.mtp),
    lambda point: (_shapes(point), point.concurrency),
    lambda point: _half(point, 0),
    lambda point: _half(point, 1),
)
