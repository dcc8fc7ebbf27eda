"""The KV events of a v1 document: which roles publish what their caches hold, for the router."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from recipegen.errors import near_match
from recipegen.model import Role
from recipegen.srtslurm.reading import UNKNOWN_KEY, WRONG_TYPE, Findings
from recipegen.srtslurm.tree import Tree, plain

MODES: Final = {Role.PREFILL: "prefill", Role.DECODE: "decode", Role.AGG: "aggregated"}
"""Roles, and srtctl 1.0's words for them."""
DEFAULTS: Final = {"publisher": "zmq", "topic": "kv-events", "enable_kv_cache_events": True}
"""What srtctl gives vLLM beside the port of a worker: `backend.kv_events_config`, `roles.*.kv_events`."""


def read_events(findings: Findings, tree: Tree | None, roles: Collection[Role]) -> frozenset[Role]:
    """Return those of `roles` whose workers publish: by `true` prefill (srtctl 1.0), in a mapping those that it switches on.

    Other settings than srtctl's own are a problem; decode is a note, as Dynamo takes the setting from such workers.
    """
    if tree is None or tree.scalar is False or tree.entries == {}:
        return frozenset()
    if tree.scalar is True:
        if Role.AGG in roles:
            findings.note(tree.key, f"'{tree.path}' is left out: `true` is for prefill and decode, and switches nothing on for aggregated workers")
        return frozenset({Role.PREFILL}) & frozenset(roles)
    if tree.entries is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected true, or a mapping of roles")
        return frozenset()
    known = {mode: role for role, mode in MODES.items()}
    found = set()
    for name, one in tree.entries.items():
        if name not in known:
            findings.problem(UNKNOWN_KEY, one.key, f"'{one.path}' is no key of an srt-slurm recipe", near_match(name, known))
        elif _is_on(findings, one) and _publishes(findings, one, known[name], roles):
            found.add(known[name])
    return frozenset(found)


def _is_on(findings: Findings, tree: Tree) -> bool:
    """Whether events are switched on; settings have to be those that the switch alone gives."""
    if tree.is_null or isinstance(tree.scalar, bool):
        return tree.scalar is True
    if tree.entries is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected true, or a mapping of settings")
        return False
    for name, one in tree.entries.items():
        if name not in DEFAULTS or plain(one) != DEFAULTS[name]:
            findings.unsupported(one, "events are published as by `true`: over ZeroMQ, with the topic kv-events, at a port that the job keeps free")
    return True


def _publishes(findings: Findings, tree: Tree, role: Role, roles: Collection[Role]) -> bool:
    if role not in roles:
        findings.note(tree.key, f"'{tree.path}' is left out: the recipe gives {role.value} no nodes")
    elif role is Role.DECODE:
        findings.note(tree.key, f"'{tree.path}' is left out: decode workers publish no KV events, as Dynamo up to 1.2 takes the setting from them")
    else:
        return True
    return False
