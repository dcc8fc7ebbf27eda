"""The pure line in one call: from a matrix's text to findings, plans and bundles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recipegen.checks.finding import Finding, Severity
from recipegen.checks.run import Cluster, finding_of, run_rules
from recipegen.checks.views import PointView, RoleView
from recipegen.engine import Engine
from recipegen.engines import REAL, choose_engine
from recipegen.errors import NOWHERE, InputError, Problem, Source, near_match
from recipegen.launch import Bundle, LaunchPlan, RolePlan
from recipegen.matrix import parse_matrix
from recipegen.model import Matrix, Point, Recipe, RoleRecipe
from recipegen.plan import make_plan
from recipegen.recipe import make_recipe
from recipegen.sizing.role_sizes import size_role


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A matrix as far as it could be followed: plans and views of its points, and everything that was found.

    `usable` is false when an input could not be used; `plans` then lacks the points concerned.
    """

    points: tuple[PointView, ...] = ()
    plans: tuple[LaunchPlan, ...] = ()
    findings: tuple[Finding, ...]
    usable: bool = True

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Findings that refuse render and submit."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR and not f.allowed)


def check_matrix(
    text: bytes,
    file: str,
    *,
    points: Sequence[str] = (),
    simulate: bool = False,
    cluster: Cluster | None = None,
    time_limit_s: int | None = None,
) -> Checked:
    """Plan the named points, or all, and run every rule over them; `time_limit_s` is judged instead of the points' own.

    InputError for the name of a point that there is not.
    """
    try:
        matrix = parse_matrix(text, file)
    except InputError as error:
        if not error.problems:
            raise
        return Checked(findings=tuple(finding_of(problem) for problem in error.problems), usable=False)
    return check_points(matrix, select_points(matrix, points), simulate=simulate, cluster=cluster, time_limit_s=time_limit_s)


def check_points(
    matrix: Matrix, chosen: Sequence[Point], *, simulate: bool = False, cluster: Cluster | None = None, time_limit_s: int | None = None
) -> Checked:
    """Plan these points of a matrix, and run every rule over them."""
    line = _Line(matrix, choose_engine(simulate=simulate), cluster, time_limit_s)
    views = tuple(view for point in chosen for view in line.follow(point))
    findings = run_rules(matrix, views, line.catalogue, problems=line.problems, cluster=cluster)
    return Checked(points=views, plans=tuple(line.plans), findings=findings, usable=not line.problems)


class _Line:
    """Takes points to recipe, plan and view, and collects what stops them."""

    def __init__(self, matrix: Matrix, engine: Engine, cluster: Cluster | None, time_limit_s: int | None) -> None:
        self.matrix, self.engine, self.cluster, self.time_limit_s = matrix, engine, cluster, time_limit_s
        self.catalogue = REAL.catalogue(matrix.runtime)
        self.plans: list[LaunchPlan] = []
        self.problems: list[Problem] = []

    def follow(self, point: Point) -> Iterator[PointView]:
        try:
            recipe = make_recipe(self.matrix, point, REAL)
        except InputError as error:
            self.problems += error.problems
            return
        plan = self._plan(recipe)
        judged = recipe if self.time_limit_s is None else replace(recipe, time_limit_s=self.time_limit_s)
        placed = plan.roles if plan else [None for _ in recipe.roles]
        roles = tuple(self._view(judged, role, own) for role, own in zip(judged.roles, placed, strict=True))
        yield PointView(recipe=judged, roles=roles, front_ends=len(plan.front_ends) if plan else 1)

    def _plan(self, recipe: Recipe) -> LaunchPlan | None:
        try:
            plan = make_plan(recipe, self.engine)
        except InputError as error:
            self.problems += error.problems
            return None
        self.plans.append(plan)
        return plan

    def _view(self, recipe: Recipe, role: RoleRecipe, placed: RolePlan | None) -> RoleView:
        return RoleView(
            recipe=recipe,
            role=role,
            layout=placed.layout if placed else None,
            sizes=size_role(recipe, role),
            catalogue=self.catalogue,
            site_env=self._site_env(placed) if placed and self.cluster else {},
            site_source=self.cluster.source if self.cluster else NOWHERE,
            args_source=self.matrix.common.source,
        )

    def _site_env(self, placed: RolePlan) -> Mapping[str, str]:
        """What the profile gives every process, without what the launcher sets over it."""
        launcher = {var.name for var in placed.command.env if var.launcher}
        environment = self.cluster.profile.environment if self.cluster else {}
        return {name: value for name, value in environment.items() if name not in launcher}


def plan_matrix(text: bytes, file: str, *, points: Sequence[str] = (), simulate: bool = False) -> list[LaunchPlan]:
    """Plan the named points, or all, unchecked; InputError with the problems of every one of them."""
    matrix = parse_matrix(text, file)
    plans: list[LaunchPlan] = []
    problems: list[Problem] = []
    for point in select_points(matrix, points):
        try:
            plans.append(make_plan(make_recipe(matrix, point, REAL), choose_engine(simulate=simulate)))
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
    from recipegen.render import render_bundle

    return [render_bundle(plan) for plan in plans]
