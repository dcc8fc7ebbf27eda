"""A point as plain command lines for people without Slurm: one script, that each node runs with its number."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from recipegen.launch import LaunchPlan, Process
from recipegen.model import Placeholder, Word
from recipegen.shell import quote_word
from recipegen.srtslurm.export_front_ends import front_end_lines, nginx_functions

READY_TIMEOUT_S = 7200
"""What a cluster profile has where it says nothing else."""
_LINT = "# shellcheck disable=SC2030,SC2031 # each process has an environment of its own"
_EVERYWHERE = (
    "export DYN_DISCOVERY_BACKEND=etcd DYN_SELF_HOST_METADATA=1",
    'export DYN_TCP_RPC_HOST="$NODE_ADDRESS" DYN_SYSTEM_HOST="$NODE_ADDRESS" VLLM_HOST_IP="$NODE_ADDRESS"',
)


def commands_text(plan: LaunchPlan, head: tuple[str, ...]) -> str:
    """Return the script of a point: bash, with addresses as variables that its user gives, and port numbers as in plan.json."""
    lines = ["#!/usr/bin/env bash", *(f"# {line}" for line in (*head, *_about(plan))), _LINT, "set -euo pipefail", "", *_inputs(plan), ""]
    lines += ["case ${1:?the number of this node, from 0} in"]
    for node in range(plan.directives.nodes):
        lines += [f"{node})", *(f"  {line}" if line else "" for line in _node(plan, node)), "  ;;"]
    known = plan.directives.nodes - 1
    lines += [f'*) echo "no node has the number $1; expected 0 to {known}" >&2 && exit 2 ;;', "esac", "wait"]
    return "".join(f"{line}\n" for line in lines)


def _about(plan: LaunchPlan) -> Iterator[str]:
    runtime, nodes = plan.recipe.runtime, plan.directives.nodes
    expected = " + ".join(f"{count} {role.value}" for role, count in plan.expected.items())
    yield f"Nodes: {nodes} with {plan.directives.gpus_per_node} GPUs; image: {runtime.image}; instances at the front end: {expected}."
    wanted = plan.dynamo.requirement
    yield f"Dynamo {plan.dynamo.version or 'of any version'}" + (f": pip install {shlex.quote(wanted)}" if wanted else " is in the image.")
    addresses = " ".join(f"NODE_{node}=ADDRESS" for node in range(min(nodes, 3)))
    yield f"On every node, in the image: {addresses}{' ...' if nodes > 3 else ''} bash FILE NUMBER"
    if plan.several_front_ends:
        yield "Node 0 also needs nginx, which is the endpoint; it spreads requests over the front ends of the others."
    yield "Where a node has several networks, set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME, too."


def _inputs(plan: LaunchPlan) -> Iterator[str]:
    recipe, ports = plan.recipe, {port.name: port.base for port in plan.services}
    yield from (f"NODE_{node}=${{NODE_{node}:?the address of node {node}}}" for node in range(plan.directives.nodes))
    yield f"MODEL=${{MODEL:-{recipe.model.repo}}} # a path of the nodes instead; then without --revision"
    yield f"READY_TIMEOUT_S=${{READY_TIMEOUT_S:-{recipe.job.ready_s or READY_TIMEOUT_S}}}"
    yield f'export ETCD_ENDPOINTS="http://$NODE_0:{ports["ETCD_PORT"]}"'
    if recipe.runtime.dynamo.request_plane == "nats":
        yield f'export NATS_SERVER="nats://$NODE_0:{ports["NATS_PORT"]}" DYN_REQUEST_PLANE=nats DYN_EVENT_PLANE=nats'
    else:
        yield "export DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq"
    yield from nginx_functions(plan)


def _node(plan: LaunchPlan, node: int) -> Iterator[str]:
    yield f"NODE_ADDRESS=$NODE_{node}"
    yield from _EVERYWHERE
    yield from _setup(plan, node)
    if node == 0:
        yield from _services(plan)
    yield from front_end_lines(plan, node)
    for process in plan.processes:
        if process.node_index == node:
            yield ""
            yield from _worker(process)


def _setup(plan: LaunchPlan, node: int) -> Iterator[str]:
    """The recipe's own preparation, with the environment of the node's first worker but for its GPUs, or of the front end where it has none."""
    if plan.recipe.job.setup_script:
        first = next((process.env for process in plan.processes if process.node_index == node), plan.recipe.job.frontend_env)
        shared = [var for var in first if isinstance(var.value, str) and var.name != "CUDA_VISIBLE_DEVICES"]
        settings = "".join(f"{var.name}={quote_word(var.value)} " for var in shared)
        yield f"{settings}bash {shlex.quote(plan.recipe.job.setup_path)} || exit"


def _services(plan: LaunchPlan) -> Iterator[str]:
    """Discovery, on the first node."""
    ports = {port.name: port.base for port in plan.services}
    client, peer = f'"http://$NODE_0:{ports["ETCD_PORT"]}"', f'"http://$NODE_0:{ports["ETCD_PEER_PORT"]}"'
    yield ""
    yield "# discovery"
    yield f'etcd --data-dir "$(mktemp -d)" --listen-client-urls {client} --advertise-client-urls {client} \\'
    yield f'  --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} --initial-cluster "default=http://$NODE_0:{ports["ETCD_PEER_PORT"]}" &'
    if plan.recipe.runtime.dynamo.request_plane == "nats":
        yield f'nats-server --addr "$NODE_0" --port {ports["NATS_PORT"]} &'


def _worker(process: Process) -> Iterator[str]:
    """A process in a shell of its own: its variables, and the command."""
    rank = f", rank {process.node_rank}{' (headless)' if process.headless else ''}"
    yield f"# {process.role.value}-{process.worker}{rank}: GPUs {','.join(map(str, process.device_ids))}"
    yield "("
    used = {word.name for word in (*process.argv, *(var.value for var in process.env)) if isinstance(word, Placeholder)}
    if "LEADER_ADDRESS" in used:
        yield f"  LEADER_ADDRESS=$NODE_{process.node_index - process.node_rank}"
    yield from (f"  {port.name}={port.base}" for port in process.ports if port.name in used)
    yield from (f"  export {var.name}={quote_word(var.value)}" for var in process.env)
    yield from (f"  {line}" for line in _command(_flags(process.argv)))
    yield ") &"


def _flags(argv: tuple[Word, ...]) -> list[str]:
    """The command's words, with the values of a flag behind it."""
    found: list[str] = []
    for word in argv:
        text = quote_word(word)
        if str(word).startswith("--") or not found:
            found.append(text)
        else:
            found[-1] += f" {text}"
    return [f"exec {found[0]}", *found[1:]]


def _command(parts: list[str], ending: str = "") -> Iterator[str]:
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        yield ("  " if number else "") + part + (ending if last else " \\")
