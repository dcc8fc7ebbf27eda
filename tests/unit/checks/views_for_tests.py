"""Builders of what rules look at: views of small matrices, and what a rule says of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from recipegen.architecture import Architecture
from recipegen.catalogue import load_model
from recipegen.checks.finding import Finding
from recipegen.checks.rule import AnyRule
from recipegen.checks.views import PointView, RoleView
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.engines import REAL
from recipegen.launch import WorkerLayout
from recipegen.layout import LayoutError, beside, lay_out
from recipegen.matrix import parse_matrix
from recipegen.model import Matrix, Point, Recipe, Role, RoleRecipe
from recipegen.recipe import make_recipe
from recipegen.sizing.role_sizes import room_for, size_role
from recipegen.sizing.sizes import Budget, Estimate, RoleSizes
from tests.support import PINS

HEAD = (
    PINS
    + """\
common:
  args:
    all2all-backend: flashinfer_nvlink_one_sided
    kv-cache-dtype: fp8
    kv-transfer-config: {kv_connector: NixlConnector, kv_role: kv_both}
    mamba-ssm-cache-dtype: bfloat16
    no-enable-prefix-caching: true
  env: {VLLM_SSM_CONV_STATE_LAYOUT: DS}
prefill:
  args: {max-num-seqs: 32, max-num-batched-tokens: 16384, compilation-config: {cudagraph_mode: PIECEWISE}}
decode:
  args:
    compilation-config: {cudagraph_mode: FULL_DECODE_ONLY}
    max-cudagraph-capture-size: 320
    max-num-batched-tokens: 336
    max-num-seqs: 80
points:
"""
)
"""A head under which the default point breaks no rule."""

POINT = '{prefill: 1xTP2DP4, decode: 1xTP4DP4, mtp: 3, concurrency: [128], time_limit: "1:00:00"}'


def head_with(*changes: tuple[str, str]) -> str:
    """HEAD with some texts replaced, each of which must stand in it."""
    text = HEAD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def pair(prefill: str = "1xTP2DP4", decode: str = "1xTP4DP4", *, mtp: int = 3, concurrency: int = 128) -> str:
    """A point of these shapes as it stands in a matrix; a shape may be a flow mapping."""
    return f'{{prefill: {prefill}, decode: {decode}, mtp: {mtp}, concurrency: [{concurrency}], time_limit: "1:00:00"}}'


def together(prefill: str, decode: str) -> str:
    """A point of these shapes whose decode workers begin on the nodes of prefill."""
    return pair(prefill, decode)[:-1] + ", colocate: true}"


def agg(topology: str, *, mtp: int = 0, concurrency: int = 64) -> str:
    return f'{{agg: {topology}, mtp: {mtp}, concurrency: [{concurrency}], time_limit: "1:00:00"}}'


def points_of(text: str | bytes, *, architecture: Architecture | None = None) -> list[PointView]:
    """Views of all points of a matrix; `architecture` replaces the model's."""
    matrix = parse_matrix(text, "matrix.yaml")
    if architecture:
        matrix = replace(matrix, model=replace(matrix.model, architecture=architecture))
    return [_point(matrix, point) for point in matrix.points]


def point_of(point: str = POINT, *changes: tuple[str, str], architecture: Architecture | None = None) -> PointView:
    """The view of one point under HEAD, some of whose texts are replaced."""
    (view,) = points_of(f"{head_with(*changes)}  - {point}\n", architecture=architecture)
    return view


def role_of(view: PointView, role: Role) -> RoleView:
    return next(found for found in view.roles if found.role.role is role)


def found(rule: AnyRule, view: PointView) -> list[Finding]:
    """What a rule over points or roles says of a point."""
    views: Iterable[object] = view.roles if _looks_at_roles(rule) else (view,)
    return [finding for seen in views for finding in rule.findings(seen)]


def rules_of(*groups: Iterable[AnyRule]) -> dict[str, AnyRule]:
    return {rule.id: rule for group in groups for rule in group}


def severities(findings: Iterable[Finding]) -> list[str]:
    return [finding.severity.value for finding in findings]


def architecture_of() -> Architecture:
    """The architecture of HEAD's model, to change and hand to point_of."""
    architecture = load_model("qwen3.8-2.4t-nvfp4").architecture
    assert architecture
    return architecture


def with_kv(view: RoleView, low: float, best: float, high: float) -> RoleView:
    """The role with a KV cache of so many GiB on each GPU."""
    sizes = _sizes(view)
    budget = replace(_budget(sizes), kv=Estimate(low, best, high, "test"))
    rooms = [room_for(view.recipe, view.role, gib) for gib in (best, low, high)]
    return replace(view, sizes=replace(sizes, budget=budget, room=rooms[0], room_low=rooms[1], room_high=rooms[2]))


def with_weights(view: RoleView, gib: float) -> RoleView:
    sizes = _sizes(view)
    return replace(view, sizes=replace(sizes, budget=replace(_budget(sizes), weights=Estimate(gib, gib, gib, "test"))))


def _point(matrix: Matrix, point: Point) -> PointView:
    recipe = make_recipe(matrix, point, REAL)
    catalogue = FlagCatalogue(asked=recipe.runtime.vllm, version="0.28.0", flags={})
    layouts: list[WorkerLayout | None] = []
    for role in recipe.roles:
        layouts.append(_layout(recipe, role, [layout for layout in layouts if layout]))
    roles = tuple(
        RoleView(recipe=recipe, role=role, layout=layout, sizes=size_role(recipe, role), catalogue=catalogue)
        for role, layout in zip(recipe.roles, layouts, strict=True)
    )
    return PointView(recipe=recipe, roles=roles)


def _layout(recipe: Recipe, role: RoleRecipe, before: list[WorkerLayout]) -> WorkerLayout | None:
    try:
        layout = lay_out(role, recipe.hardware, REAL, first_node=sum(one.nodes for one in before))
        return beside(layout, before[-1]) if recipe.colocate and before else layout
    except LayoutError:
        return None


def _looks_at_roles(rule: AnyRule) -> bool:
    return "RoleView" in rule.check.__annotations__["view" if "view" in rule.check.__annotations__ else "point"]


def _sizes(view: RoleView) -> RoleSizes:
    assert view.sizes
    return view.sizes


def _budget(sizes: RoleSizes) -> Budget:
    assert sizes.budget
    return sizes.budget
