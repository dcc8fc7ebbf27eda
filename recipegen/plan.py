"""From a Recipe to its LaunchPlan: nodes, processes with ranks, devices, ports, argv and env, directives, expected instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from recipegen.engine import Engine
from recipegen.errors import InputError, Problem
from recipegen.launch import Command, Directives, LaunchPlan, Port, Process, RolePlan, When, WorkerLayout
from recipegen.layout import PORT_BASE, PORT_LIMIT, WORKER_PORTS, LayoutError, beside, lay_out, ports_of_node, span
from recipegen.model import EnvVar, Placeholder, Recipe, Word

SERVICES = (
    Port("FRONTEND_PORT", PORT_BASE),
    Port("ETCD_PORT", PORT_BASE + 1),
    Port("ETCD_PEER_PORT", PORT_BASE + 2),
    Port("NATS_PORT", PORT_BASE + 3),
)
"""Ports on the job's first node."""
REPLICA_PORT = Port("FRONTEND_REPLICA_PORT", PORT_BASE + 4)
"""The port of a front end behind nginx, which has FRONTEND_PORT; on the front end's own node."""

MOST_GPUS = 32_768
"""GPUs of one point: more than one job gets anywhere; each of its processes has a command in the plan."""
_PORT_STEP = 256


def make_plan(recipe: Recipe, engine: Engine) -> LaunchPlan:
    """Place a recipe on nodes; raise InputError with every problem of its topology."""
    gpus = sum(role.workers * role.topology.gpus for role in recipe.roles)
    if gpus > MOST_GPUS:
        raise InputError([Problem(recipe.source, f"point {recipe.point} takes {gpus} GPUs; expected {MOST_GPUS} at most", rule="placement")])
    roles, problems = _place(recipe, engine)
    if problems:
        raise InputError(problems)
    nodes = _infra_nodes(recipe) + span([r.layout for r in roles])
    width = WORKER_PORTS - PORT_BASE + max(ports_of_node(r.layout) for r in roles)
    step = _PORT_STEP * -(-width // _PORT_STEP)
    front_ends = place_front_ends(recipe.job.front_ends, nodes)
    return LaunchPlan(
        recipe=recipe,
        engine=engine.name,
        dynamo=engine.dynamo(recipe.runtime),
        roles=tuple(roles),
        processes=tuple(p for r in roles for p in _processes(r)),
        services=(*SERVICES, REPLICA_PORT) if len(front_ends) > 1 else SERVICES,
        port_step=step,
        port_slots=(PORT_LIMIT - PORT_BASE) // step,
        directives=Directives(
            nodes=nodes,
            tasks_per_node=1,
            time_limit_s=recipe.time_limit_s,
            gpus_per_node=recipe.hardware.gpus_per_node,
            segment=nodes if nodes <= recipe.hardware.nodes_per_domain else 0,
        ),
        front_ends=front_ends,
    )


def place_front_ends(wanted: int, nodes: int) -> tuple[int, ...]:
    """Return the nodes of the front ends, counted from 0: several stand one a node on those behind the first, which has nginx.

    Where fewer than two have such a node, one stands on the first, and nginx is not needed. srtctl 1.0 places them likewise but for two
    cases: on two nodes it starts one front end on the second, behind nginx on the first; and beside a dedicated node for etcd, its nginx
    stands on the first worker's node, so that front ends begin on the second worker's and are fewer by one.
    """
    several = min(wanted, nodes - 1)
    return tuple(range(1, 1 + several)) if several > 1 else (0,)


def _place(recipe: Recipe, engine: Engine) -> tuple[list[RolePlan], list[Problem]]:
    roles: list[RolePlan] = []
    problems: list[Problem] = []
    for role in recipe.roles:
        try:
            first = _infra_nodes(recipe) + sum(r.layout.nodes for r in roles)
            layout = lay_out(role, recipe.hardware, engine, first_node=first)
            if recipe.colocate and roles:
                layout = beside(layout, roles[-1].layout)
        except LayoutError as error:
            problems.append(Problem(role.source, f"point {recipe.point}, {role.role.value}: {error}", rule="placement"))
            continue
        roles.append(RolePlan(recipe=role, layout=layout, command=engine.command(recipe, role, layout)))
    return roles, problems


def _infra_nodes(recipe: Recipe) -> int:
    """Nodes before the first worker's, for discovery and the front end alone."""
    return 1 if recipe.job.dedicated_node else 0


def _processes(role: RolePlan) -> list[Process]:
    layout = role.layout
    return [_process(role, worker, rank) for worker in range(layout.workers) for rank in range(layout.nodes_per_worker)]


def _process(role: RolePlan, worker: int, rank: int) -> Process:
    layout = role.layout
    slot = layout.slot(worker)
    devices = tuple(slot * layout.gpus_per_process + gpu for gpu in range(layout.gpus_per_process))
    known = {
        "NODE_RANK": str(rank),
        "START_RANK": str(rank * layout.local_dp),
        "DEVICES": ",".join(map(str, devices)),
    }
    return Process(
        role=layout.role,
        worker=worker,
        node_index=layout.node(worker) + rank,
        node_rank=rank,
        device_ids=devices,
        headless=is_headless(layout, rank),
        ports=tuple([Port(p.name, p.base + slot * layout.slot_ports, p.count) for p in layout.ports]) if slot else layout.ports,
        env=tuple([_resolved(variable, known) for variable in role.command.env]),
        argv=_argv(role.command, rank, known),
    )


def is_headless(layout: WorkerLayout, rank: int) -> bool:
    """Whether this process registers no endpoint of its own."""
    return rank > 0 and layout.instances == layout.workers


def _argv(command: Command, rank: int, known: Mapping[str, str]) -> tuple[Word, ...]:
    """The command with ranks filled in. Arguments for hub ids stand: which form the model has, only the site knows."""
    words = [word for arg in command.args if arg.when is not When.FOLLOWER or rank > 0 for word in arg.words]
    return (*command.program, *[_filled(word, known) for word in words])


def _resolved(variable: EnvVar, known: Mapping[str, str]) -> EnvVar:
    value = _filled(variable.value, known)
    return variable if value is variable.value else replace(variable, value=value)


def _filled(word: Word, known: Mapping[str, str]) -> Word:
    return word.filled(known[word.name]) if isinstance(word, Placeholder) and word.name in known else word
