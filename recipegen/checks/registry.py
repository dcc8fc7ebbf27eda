"""Every rule, by the view that it looks at."""

from __future__ import annotations

from functools import cache

from recipegen.checks import (
    benchmark_rules,
    capacity_rules,
    cluster_rules,
    deadline_rules,
    flag_rules,
    handshake_rules,
    kv_events_rules,
    model_rules,
    placement_env_rules,
    topology_rules,
)
from recipegen.checks.allow_rules import ALLOW_RULES
from recipegen.checks.input_rules import INPUT_RULES
from recipegen.checks.rule import Rule, RuleText
from recipegen.checks.views import ClusterView, PointView, RoleView, SettingView

SETTING_RULES: tuple[Rule[SettingView], ...] = flag_rules.SETTING_RULES
ROLE_RULES: tuple[Rule[RoleView], ...] = (
    *flag_rules.ROLE_RULES,
    *topology_rules.ROLE_RULES,
    *handshake_rules.ROLE_RULES,
    *capacity_rules.ROLE_RULES,
    *kv_events_rules.ROLE_RULES,
)
POINT_RULES: tuple[Rule[PointView], ...] = (
    *topology_rules.POINT_RULES,
    *handshake_rules.POINT_RULES,
    *benchmark_rules.POINT_RULES,
    *deadline_rules.POINT_RULES,
    *cluster_rules.POINT_RULES,
    *model_rules.POINT_RULES,
    *kv_events_rules.POINT_RULES,
    *placement_env_rules.POINT_RULES,
)
CLUSTER_RULES: tuple[Rule[ClusterView], ...] = (
    *benchmark_rules.CLUSTER_RULES,
    *deadline_rules.CLUSTER_RULES,
    *cluster_rules.CLUSTER_RULES,
    *model_rules.CLUSTER_RULES,
)

ARGUMENT = RuleText(
    id="argument",
    text="""A path, a name or an option of the command cannot be used.

It is no file, or names a point, a profile or a rule that there is not.

Mend: as the message says.""",
)


@cache
def all_rules() -> dict[str, RuleText]:
    """Every rule by id, those of unusable input included, sorted."""
    rules: tuple[RuleText, ...] = (ARGUMENT, *INPUT_RULES, *ALLOW_RULES, *SETTING_RULES, *ROLE_RULES, *POINT_RULES, *CLUSTER_RULES)
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}
