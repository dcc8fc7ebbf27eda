"""The roles of a v1 document: nodes, workers, topology, engine flags, environment."""

from __future__ import annotations

from dataclasses import dataclass, replace

from recipegen.errors import InputError, Problem, Source
from recipegen.model import Role
from recipegen.role_flags import as_whole_number
from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import UNSUPPORTED, WRONG_TYPE, Findings, Section
from recipegen.srtslurm.recipe import Entry, SrtRole
from recipegen.srtslurm.tree import Tree
from recipegen.srtslurm.v1_events import MODES, read_events
from recipegen.srtslurm.v1_flags import RoleFlags, merge_env, read_env, read_flags, shared_mtp, without_mtp
from recipegen.srtslurm.v1_nodes import ACROSS, ALLOW, Share, Switches, settle

GPUS_PER_NODE = 4
"""srtctl's default."""
_SIMPLE = {
    "dp_launch_mode": ("per_node", "a process for each GPU is another layout; workers run one process a node"),
    "mooncake_kv_store": (None, "no Mooncake master is started"),
    "failover": (None, "there are no shadow engines"),
}
"""Keys of the back end that change what runs, with the value that changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Roles:
    """What resources and back end say together."""

    roles: tuple[SrtRole, ...]
    gpu_type: Tree | None
    resources: Source
    gpus_per_node: int
    served_name: str
    max_model_len: int | None
    mtp: int
    colocate: bool


def read_roles(findings: Findings, top: Section, shared: tuple[Entry, ...]) -> Roles:
    """Read `resources` and `backend`; InputError at once for another engine. `shared` is `environment`, which all processes get."""
    backend = top.section("backend")
    _check_engine(backend)
    resources = top.section("resources")
    gpu_type = resources.take("gpu_type")
    per_node = resources.whole("gpus_per_node") or GPUS_PER_NODE
    chosen = _shares(findings, resources)
    _refuse_other_layouts(findings, resources, backend)
    by_default = not backend.says("connector")
    connector, config = backend.take("connector"), backend.section("vllm_config")
    roles, flags, events = [], [], read_events(findings, backend.take("kv_events_config"), chosen)
    for role, share in chosen.items():
        env = merge_env(findings, read_env(findings, backend.take(f"{MODES[role]}_environment")), shared)
        own = read_flags(findings, config.take(MODES[role]), connector, by_default=by_default, where=backend.where)
        flags.append(own)
        roles.append(replace(_role(resources, role, share, own, env), kv_events=role in events))
    settled = settle(findings, chosen, tuple(roles), per_node, _switches(backend))
    _take_unused(findings, backend, config, chosen)
    return Roles(
        roles=tuple(without_mtp(settled.roles)) if (mtp := shared_mtp(roles)) else settled.roles,
        gpu_type=gpu_type,
        resources=resources.where,
        gpus_per_node=per_node,
        served_name=str(_same(findings, [one.served_name for one in flags]) or ""),
        max_model_len=_length(findings, [one.max_model_len for one in flags]),
        mtp=mtp,
        colocate=settled.colocate,
    )


def _check_engine(backend: Section) -> None:
    kind = backend.take("type")
    if kind is None:
        message = "'backend.type' is missing, which is sglang for srtctl; only vllm is supported"
        raise InputError([Problem(backend.where, message, rule=UNSUPPORTED)])
    if kind.scalar != "vllm":
        raise InputError([Problem(kind.source, f"'{kind.path}' is {kind.kind}; only vllm is supported", rule=UNSUPPORTED)])


def _shares(findings: Findings, resources: Section) -> dict[Role, Share]:
    """The roles that have nodes: prefill and decode, or agg."""
    shares = {role: _share(resources, role) for role in Role}
    apart = [shares[Role.PREFILL], shares[Role.DECODE]]
    together = shares[Role.AGG]
    if any(share.given for share in apart) and together.given:
        findings.problem("srt-roles", resources.where, "'resources' has nodes for prefill and decode and for agg; expected one of both")
    elif any(share.given for share in apart):
        for role in (Role.PREFILL, Role.DECODE):
            if not shares[role].given:
                resources.missing(f"{role.value}_nodes")
        return {role: shares[role] for role in (Role.PREFILL, Role.DECODE) if shares[role].given}
    elif together.given:
        return {Role.AGG: together}
    else:
        resources.missing("agg_nodes")
    return {}


def _share(resources: Section, role: Role) -> Share:
    name = role.value
    tree = resources.rest.get(f"{name}_nodes")
    nodes = resources.whole(f"{name}_nodes", least=0 if role is Role.DECODE else 1)
    workers, gpus = resources.whole(f"{name}_workers"), resources.whole(f"gpus_per_{name}")
    return Share(nodes, workers, gpus, None if tree is None or tree.is_null else tree)


def _switches(backend: Section) -> Switches:
    """Whether decode workers may begin on prefill's nodes."""
    given = [tree for key in (ALLOW, ACROSS) if (tree := backend.rest.get(key)) is not None and tree.scalar is True]
    return Switches(backend.switch(ALLOW) or False, backend.switch(ACROSS) or False, given[0] if given else None)


def _refuse_other_layouts(findings: Findings, resources: Section, backend: Section) -> None:
    for key, why in (("spread_workers", "workers fill a node before the next one"), ("het_jobs", "there are no heterogeneous jobs")):
        tree = resources.take(key)
        if tree is not None and tree.scalar is not False:
            findings.unsupported(tree, why)
    resources.finish()
    for key, (harmless, why) in _SIMPLE.items():
        tree = backend.take(key)
        if tree is not None and (tree.entries is not None or tree.scalar != harmless):
            findings.unsupported(tree, why)


def _take_unused(findings: Findings, backend: Section, config: Section, chosen: dict[Role, Share]) -> None:
    """Flags and environment of a role without nodes have no effect, for srtctl neither."""
    for role, mode in MODES.items():
        if role not in chosen:
            for tree in filter(None, (config.take(mode), backend.take(f"{mode}_environment"))):
                if tree.entries:
                    findings.carry(tree, f"the recipe gives {role.value} no nodes")
    config.finish()
    if (devices := backend.rest.get("set_cuda_visible_devices")) is not None and devices.scalar is False:
        backend.take("set_cuda_visible_devices")
    backend.finish(keys.BACKEND)


def _role(resources: Section, role: Role, share: Share, flags: RoleFlags, env: tuple[Entry, ...]) -> SrtRole:
    if share.workers is None:
        resources.missing(f"{role.value}_workers")
    return SrtRole(
        role=role,
        nodes=1 if share.nodes is None else share.nodes,
        workers=share.workers or 1,
        topology=flags.topology,
        flags=flags.flags,
        env=env,
        source=share.tree.key if share.tree else resources.where,
    )


def _same(findings: Findings, given: list[Entry | None]) -> object:
    """The value that all roles give alike; None where none gives it."""
    first = next((entry for entry in given if entry is not None), None)
    for entry in given:
        if first is not None and (entry is None or entry.value != first.value):
            findings.problem("srt-roles-differ", (entry or first).source, f"'{first.name}' is not the same for all roles; expected one value")
            break
    return None if first is None else first.value


def _length(findings: Findings, given: list[Entry | None]) -> int | None:
    value = _same(findings, given)
    number = as_whole_number(value)
    if value is not None and number is None:
        source = next(entry.source for entry in given if entry is not None)
        findings.problem(WRONG_TYPE, source, f"'max-model-len' is {value!r}; expected a whole number")
    return number
