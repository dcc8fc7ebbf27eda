"""The services of a `schema: 2` document: etcd and NATS, and those that nobody starts here."""

from __future__ import annotations

from recipegen.errors import near_match
from recipegen.srtslurm.reading import WRONG_TYPE, Findings, Section
from recipegen.srtslurm.tree import Tree

DISCOVERY = ("etcd", "nats")
BESIDE = ("exporter", "tachometer")
"""Words in the types of services that only watch."""
_FIRST = ("head", "infra", "dedicated")
_NODES = (*_FIRST, "prefill", "decode", "agg", "workers")
"""Where srtctl 2 places a service: `services[].placement.node`."""


def read_services(findings: Findings, tree: Tree | None) -> bool:
    """Return whether etcd and NATS have a node of their own; other services are unsupported, those that only watch are carried."""
    if tree is None:
        return False
    if tree.items is None:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected a list")
        return False
    found = [_read(findings, Section(findings, item, item.path, item.source), item) for item in tree.items]
    return any(found)


def _read(findings: Findings, service: Section, tree: Tree) -> bool:
    kind, name = service.text("type"), service.text("name")
    if service.switch("enabled") is False:
        findings.carry(tree, "it is switched off")
        return False
    if any(word in (kind or name) for word in BESIDE):
        findings.carry(tree, "it only watches")
        return False
    if (kind or name) not in DISCOVERY:
        findings.unsupported(tree, f"a service of type {kind or name!r}; etcd and NATS are started, and no other")
        return False
    node = _read_node(findings, service.section("placement"))
    service.finish(dict.fromkeys(service.rest, "etcd and NATS run with recipegen's own settings"))
    return node == "dedicated"


def _read_node(findings: Findings, placement: Section) -> str:
    """Where etcd or NATS stand; those that are not alone stand on the first node."""
    tree = placement.take("node")
    placement.finish()
    if tree is None:
        return ""
    if tree.text not in _NODES:
        findings.problem(WRONG_TYPE, tree.source, f"'{tree.path}' is {tree.kind}; expected {', '.join(_NODES)}", near_match(tree.text or "", _NODES))
    elif tree.text not in _FIRST:
        findings.note(tree.source, f"'{tree.path}' is left out: etcd and NATS stand on the job's first node")
    return tree.text or ""
