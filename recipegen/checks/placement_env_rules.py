"""A rule over variables that say where a process stands: its GPUs and its ports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.rule import Rule, rule
from recipegen.checks.views import PointView, RoleView
from recipegen.launch import WorkerLayout

_DEVICES = "CUDA_VISIBLE_DEVICES"
_PORTS = frozenset({"DYN_SYSTEM_PORT", "DYN_VLLM_KV_EVENT_PORT", "DYN_FORWARDPASS_METRIC_PORT", "VLLM_NIXL_SIDE_CHANNEL_PORT", "VLLM_PORT"})


@rule("env-placement", Severity.WARNING)
def placement(point: PointView) -> Iterator[Fault]:
    """A recipe sets a process's GPUs or ports itself.

    The launcher gives each process GPUs and ports of its own, checks on every node that the ports are free, and moves them by the
    job's id so that jobs that meet on a node do not collide. A value of the recipe is the same for all processes of the role:
    where two stand on one node they take the same GPUs, or one of them ends with "address already in use", which is an error. Alone
    on a node, a port is neither checked nor moved, and the probe looks for the process's counters at the port of the plan.

    Mend: leave the variable out.
    Source: vLLM 0.28 `envs.py`; Dynamo 1.2 `dynamo/vllm/args.py`; `srun` starts the processes of a node side by side.
    """
    for name in (_DEVICES, *sorted(_PORTS)):
        setting = [view for view in point.roles if _sets(view, name)]
        shared = _meet([view.layout for view in setting if view.layout])
        for view in setting:
            if name in view.role.unset_env and name != _DEVICES and not shared:
                continue  # the engine's own default, on a node of its own
            what = "GPUs" if name == _DEVICES else "port"
            lost = "what the launcher gives and checks is lost" if name == _DEVICES else "what the launcher gives, checks and moves by job is lost"
            clash = f"workers that share a node would take the same {what}" if shared else lost
            message = f"{view.role.role.value}: `{name}` belongs to the launcher; {clash}"
            yield Fault(view.at_env(name), message, "leave it out", Severity.ERROR if shared else None)


POINT_RULES: tuple[Rule[PointView], ...] = (placement,)


def _sets(view: RoleView, name: str) -> bool:
    return name in view.role.unset_env or any(var.name == name for var in view.role.env)


def _meet(layouts: Iterable[WorkerLayout]) -> bool:
    """Whether a node holds two processes of these roles. A worker that fills nodes has them alone."""
    nodes = [layout.node(worker) for layout in layouts for worker in range(layout.workers)]
    return len(set(nodes)) < len(nodes)
