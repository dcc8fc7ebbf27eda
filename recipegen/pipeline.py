"""The pure line in one call: from a matrix's text to plans and bundles."""

from __future__ import annotations

from collections.abc import Sequence

from recipegen.engines import REAL, choose_engine
from recipegen.errors import InputError, Problem, Source, near_match
from recipegen.launch import Bundle, LaunchPlan
from recipegen.matrix import parse_matrix
from recipegen.model import Matrix, Point
from recipegen.plan import plan_point
from recipegen.render import render_bundle


def plan_matrix(text: bytes, file: str, *, points: Sequence[str] = (), simulate: bool = False) -> list[LaunchPlan]:
    """Plan the named points, or all; InputError with the problems of every one of them."""
    matrix = parse_matrix(text, file)
    plans: list[LaunchPlan] = []
    problems: list[Problem] = []
    for point in select_points(matrix, points):
        try:
            plans.append(plan_point(matrix, point, recipe_engine=REAL, engine=choose_engine(simulate=simulate)))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(list(dict.fromkeys(problems)))
    return plans


def select_points(matrix: Matrix, names: Sequence[str]) -> list[Point]:
    """The points of these names in the matrix's order; InputError names near matches."""
    known = {point.name: point for point in matrix.points}
    unknown = [name for name in names if name not in known]
    if unknown:
        hints = {name: near_match(name, known) or f"points: {', '.join(known)}" for name in unknown}
        raise InputError([Problem(Source(matrix.file), f"no point is called '{name}'", hint) for name, hint in hints.items()])
    return [point for point in matrix.points if not names or point.name in names]


def render_plans(plans: Sequence[LaunchPlan]) -> list[Bundle]:
    """Render plans, real or simulated."""
    return [render_bundle(plan) for plan in plans]
