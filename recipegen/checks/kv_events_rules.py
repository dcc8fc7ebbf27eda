"""Rules over KV events: whether a router that looks for cached prefixes is told of any."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.agreement import prefix_caching
from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.engine.flag_versions import version_key
from recipegen.errors import Source
from recipegen.model import JobSettings, Role, RoleRecipe
from recipegen.role_flags import json_keys

FLAG = "kv-events-config"
OPT_IN = (1, 1)
"""Dynamo from which workers publish only when they are told to; those of 1.0 do so by themselves: `dynamo/vllm/args.py`
create_kv_events_config of 1.0.0 and 1.1.0."""
_ON = frozenset({"true", "1", "yes", "on"})
"""How Dynamo 1.2 reads a switch from a variable: `dynamo/common/configuration/utils.py` env_or_default."""


@rule("kv-events-prefix", Severity.WARNING)
def events_without_prefixes(view: RoleView) -> Iterator[Fault]:
    """KV events are switched on, and prefix caching is off.

    Dynamo then drops the setting, with one line in the log: a cache that keeps no prefixes has nothing to tell. With
    `router-mode: kv` requests are spread by load alone, and figures show it only beside those of a deployment with caching.

    Mend: take `no-enable-prefix-caching` away, or leave `kv_events` out. Where neither flag is set, Dynamo switches prefix caching on.
    Source: Dynamo 1.0 to 1.2 `dynamo/vllm/args.py` create_kv_events_config, update_engine_config_with_dynamo.
    """
    if view.role.role is not Role.DECODE and _published(view.role) and not prefix_caching(view):
        message = f"{view.role.role.value} workers are told to publish KV events, but their prefix caching is off: Dynamo drops the setting"
        yield Fault(view.at("no-enable-prefix-caching", "enable-prefix-caching"), message, "switch prefix caching on, or leave `kv_events` out")


@rule("kv-router-events", Severity.WARNING)
def router_without_events(view: PointView) -> Iterator[Fault]:
    """The router looks for cached prefixes, and no worker tells it of any.

    With `router-mode: kv` Dynamo sends a request to the worker that holds most of its prefix, which it knows from the KV events of
    prefill or aggregated workers. Since Dynamo 1.1 they publish only when they are told to (1.0 did so where prefix caching is on).
    Without events every worker looks empty, and requests are spread by load alone; nothing fails, and no log says so. A Dynamo of
    which no version is named is a note.

    Mend: `kv_events: true`, and prefix caching; or `no-router-kv-events: true` of `frontend.args`, by which the router reckons with
    its own decisions instead.
    Source: Dynamo 1.0.0, 1.1.0 and 1.2.1, `dynamo/vllm/args.py` create_kv_events_config, `dynamo/frontend/frontend_args.py`, and
    `dynamo/common/configuration/groups/kv_router_args.py`.
    """
    job, tellers = view.recipe.job, [role for role in view.roles if role.role.role is not Role.DECODE]
    source = _event_router(job)
    if source is None or any(_published(role.role) for role in tellers):
        return
    version, caching = version_key(view.recipe.runtime.dynamo.version), any(map(prefix_caching, tellers))
    by_itself = version is not None and version[0] < OPT_IN
    if by_itself and caching:
        return
    roles = " and ".join(role.role.role.value for role in tellers)
    why = "publish no KV events" if caching else "publish no KV events, as their prefix caching is off"
    mend = "set `kv_events: true`" if caching else "switch prefix caching on" if by_itself else "set `kv_events: true` and switch prefix caching on"
    message = f"the router looks for cached prefixes, but {roles} workers {why}: all of them look empty, and requests are spread by load alone"
    yield Fault(source, message, f"{mend}, or `no-router-kv-events: true` in `frontend.args`", None if version else Severity.NOTE)


ROLE_RULES: tuple[Rule[RoleView], ...] = (events_without_prefixes,)
POINT_RULES: tuple[Rule[PointView], ...] = (router_without_events,)


def _published(role: RoleRecipe) -> bool:
    """Whether the role's workers are told to publish, by the matrix's key or by a flag."""
    return role.kv_events or json_keys(role, FLAG).get("enable_kv_cache_events") is True


def _event_router(job: JobSettings) -> Source | None:
    """Where the front ends are told to route by KV events; None where they do not."""
    args = {flag.name: flag for flag in job.frontend_args}
    env = {var.name: var for var in job.frontend_env}
    mode = args.get("router-mode") or env.get("DYN_ROUTER_MODE")
    load_aware = _switch(job, "load-aware", "DYN_ROUTER_LOAD_AWARE", default=False)
    events = _switch(job, "router-kv-events", "DYN_ROUTER_USE_KV_EVENTS", default=_switch(job, "kv-events", "", default=True))
    credit = args.get("router-kv-overlap-score-credit") or env.get("DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT")
    if mode is None or mode.value != "kv" or load_aware or not events or _is_zero(credit.value if credit else ""):
        return None
    return mode.source


def _switch(job: JobSettings, name: str, variable: str, *, default: bool) -> bool:
    """A switch of the front end: as an argument, else as a variable."""
    for flag in job.frontend_args:
        if flag.name in {name, f"no-{name}"} and isinstance(flag.value, bool):
            return flag.value is (flag.name == name)
    value = next((str(var.value) for var in job.frontend_env if var.name == variable), "")
    return value.lower() in _ON if value else default


def _is_zero(value: object) -> bool:
    try:
        return float(str(value)) == 0
    except ValueError:
        return False
