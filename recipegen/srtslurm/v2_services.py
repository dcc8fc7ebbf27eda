"""The services of a `schema: 2` document: etcd and NATS, and those that nobody starts here."""

from __future__ import annotations

from recipegen.srtslurm.reading import WRONG_TYPE, Findings, Section
from recipegen.srtslurm.tree import Tree

DISCOVERY = ("etcd", "nats")
BESIDE = ("exporter", "tachometer")
"""Words in the types of services that only watch."""


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
    placement = service.section("placement")
    node = placement.text("node")
    placement.finish()
    service.finish(dict.fromkeys(service.rest, "etcd and NATS run with recipegen's own settings"))
    return node == "dedicated"
