"""Run the rules over a matrix and its points, fold what is the same, and apply what the matrix allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recipegen.checks.allow_rules import ALLOW_RULES, AllowView
from recipegen.checks.finding import Finding, Severity
from recipegen.checks.registry import CLUSTER_RULES, POINT_RULES, ROLE_RULES, SETTING_RULES, all_rules
from recipegen.checks.rule import AnyRule
from recipegen.checks.views import ClusterView, PointView, SettingView
from recipegen.engine.flag_catalogue import FlagCatalogue
from recipegen.errors import NOWHERE, Problem, Source
from recipegen.model import Allowance, Matrix

if TYPE_CHECKING:
    from recipegen.clusters import ClusterProfile


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The profile to check points against, and its file."""

    profile: ClusterProfile
    source: Source = NOWHERE


def run_rules(
    matrix: Matrix, points: Sequence[PointView], catalogue: FlagCatalogue, *, problems: Iterable[Problem] = (), cluster: Cluster | None = None
) -> tuple[Finding, ...]:
    """Return the findings in file order: those of `problems`, met on the way to the points, and those of every rule.

    A finding stands once, with the points that it concerns; one that the matrix allows for all of them carries the reason.
    """
    found: dict[Finding, dict[str, None]] = {}
    for finding in _settings(matrix, catalogue):
        found.setdefault(finding, {})
    for point in points:
        for finding in _point(point, cluster):
            found.setdefault(finding, {})[point.recipe.point] = None
    findings = [_allowed(replace(finding, points=tuple(names)), matrix.allow) for finding, names in found.items()]
    findings += [finding_of(problem) for problem in dict.fromkeys(problems)]
    allowances = AllowView(
        allow=matrix.allow,
        findings=tuple(findings),
        rules=tuple(all_rules()),
        whole=len(points) == len(matrix.points),
        cluster=cluster is not None,
        cluster_rules=tuple(rule.id for rule in CLUSTER_RULES),
    )
    findings += _apply(ALLOW_RULES, allowances)
    return tuple(sorted(findings, key=lambda finding: (finding.source, finding.rule, finding.message)))


def finding_of(problem: Problem) -> Finding:
    """An input that cannot be used, as a finding."""
    return Finding(rule=problem.rule, severity=Severity.ERROR, source=problem.source, message=problem.message, mend=problem.hint)


def _settings(matrix: Matrix, catalogue: FlagCatalogue) -> Iterator[Finding]:
    """Every flag as written, in whatever layer, once."""
    layers = [matrix.common, *matrix.roles.values(), *(layer for point in matrix.points for layer in point.overrides.values())]
    args = dict.fromkeys(setting for layer in layers for setting in layer.args)
    derive = dict.fromkeys(setting for layer in layers for setting in layer.derive)
    for setting in args:
        yield from _apply(SETTING_RULES, SettingView(setting=setting, catalogue=catalogue))
    for setting in derive:
        yield from _apply(SETTING_RULES, SettingView(setting=setting, catalogue=catalogue, derived=True))


def _point(point: PointView, cluster: Cluster | None) -> Iterator[Finding]:
    for role in point.roles:
        yield from _apply(ROLE_RULES, role)
    yield from _apply(POINT_RULES, point)
    if cluster is not None:
        yield from _apply(CLUSTER_RULES, ClusterView(point=point, profile=cluster.profile, profile_source=cluster.source))


def _apply(rules: Iterable[AnyRule], view: object) -> Iterator[Finding]:
    for rule in rules:
        yield from rule.findings(view)


def _allowed(finding: Finding, allow: Sequence[Allowance]) -> Finding:
    for allowance in allow:
        if allowance.rule == finding.rule and (not allowance.points or (finding.points and set(finding.points) <= set(allowance.points))):
            return replace(finding, allowed=allowance.reason)
    return finding
