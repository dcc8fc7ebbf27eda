"""Engine and roles of a `schema: 2` document, in the words of the first layout."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from recipegen.srtslurm import keys
from recipegen.srtslurm.reading import Findings, Section
from recipegen.srtslurm.tree import Tree

MODES = {"prefill": "prefill", "decode": "decode", "agg": "aggregated"}
_ENGINE = (
    *("connector", "dp_launch_mode", "failover", "kv_events_config", "mooncake_kv_store"),
    *("allow_prefill_decode_colocation", "allow_prefill_decode_colocation_across_nodes"),
)
_HARMLESS = {"critical": True, "restart": "never", "sidecar": False}
_UNSUPPORTED = {"container": "all roles run one image", "sidecar": "there are no sidecars", "extra_args": "vLLM takes none"}


@dataclass
class RoleKeys:
    """What the roles say, by the sections of the first layout."""

    resources: dict[str, Tree] = field(default_factory=dict)
    backend: dict[str, Tree] = field(default_factory=dict)
    configs: dict[str, Tree] = field(default_factory=dict)


def read_engine(findings: Findings, tree: Tree | None) -> dict[str, Tree]:
    """The back end's own keys: the type alone, or a mapping with it."""
    if tree is None:
        return {}
    if tree.entries is None:
        return {"type": tree}
    engine = Section(findings, tree, tree.path, tree.source)
    found = {name: engine.rest[name] for name in ("type", *_ENGINE) if engine.says(name)}
    for name in found:
        engine.take(name)
    if (devices := engine.take("set_visible_devices")) is not None:
        found["set_cuda_visible_devices"] = devices
    engine.finish({"vllm_serve_binary": keys.BACKEND["vllm_serve_binary"]}, known=_ENGINE)
    return found


def read_role_keys(findings: Findings, roles: Section) -> RoleKeys:
    """Read every role."""
    found = RoleKeys()
    for name, mode in MODES.items():
        _read(findings, roles.section(name), name, mode, found)
    roles.finish()
    return found


def _read(findings: Findings, role: Section, name: str, mode: str, into: RoleKeys) -> None:
    nodes = role.take("nodes")
    nodes = replace(nodes, scalar=0, filled=None) if nodes is not None and nodes.scalar == "colocate" else nodes
    for key, one in ((f"{name}_nodes", nodes), (f"{name}_workers", role.take("workers")), (f"gpus_per_{name}", role.take("gpus"))):
        if one is not None:
            into.resources[key] = one
    for section, key, one in ((into.backend, f"{mode}_environment", role.take("env")), (into.configs, mode, role.take("args"))):
        if one is not None:
            section[key] = one
    _read_engine_of(findings, role.take("engine"), into)
    for key, harmless in _HARMLESS.items():
        if role.says(key) and role.rest[key].scalar == harmless:
            role.take(key)
    for key, why in _UNSUPPORTED.items():
        if (one := role.take(key)) is not None:
            findings.unsupported(one, why)
    options = {"srun_options": "options of steps are the same for all roles (`srun_options` at the top)"}
    role.finish({**keys.ROLE, **options}, known=("kv_events",))


def _read_engine_of(findings: Findings, tree: Tree | None, into: RoleKeys) -> None:
    """A role may name its engine itself; they have to be one."""
    if tree is None:
        return
    kind = tree if tree.entries is None else tree.entries.get("type", tree)
    known = into.backend.setdefault("type", kind)
    if known.scalar != kind.scalar or (tree.entries is not None and len(tree.entries) > 1):
        findings.unsupported(tree, "engine settings of one role's own")
