"""vLLM under Dynamo (`python3 -m dynamo.vllm`): its flags, environment, ports and command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from recipegen.engine.flag_catalogue import FlagCatalogue, load_flags
from recipegen.engine.flag_versions import version_key
from recipegen.kv_transfer import uses_nixl
from recipegen.launch import Arg, Command, LaunchMode, When, WorkerLayout
from recipegen.model import Dynamo, EnvVar, Flag, Placeholder, Recipe, Role, RoleRecipe, Runtime, Topology, Word

_TOPOLOGY = "it comes from the topology, such as TP2DP4"
_LAUNCHER = "it belongs to the launcher, which knows the nodes"
_OWNED = {
    "tensor-parallel-size": _TOPOLOGY,
    "pipeline-parallel-size": _TOPOLOGY,
    "data-parallel-size": _TOPOLOGY,
    "enable-expert-parallel": "set `expert_parallel` of the matrix, or write +EP in the topology",
    "max-model-len": "set `workload.max_model_len`",
    "model": "set `model` of the matrix",
    "served-model-name": "it stands in the model's data file",
    "revision": "it stands in the model's data file",
    **dict.fromkeys(
        (
            "data-parallel-address",
            "data-parallel-external-lb",
            "data-parallel-hybrid-lb",
            "data-parallel-rank",
            "data-parallel-rpc-port",
            "data-parallel-size-local",
            "data-parallel-start-rank",
            "device-ids",
            "disaggregation-mode",
            "headless",
            "host",
            "is-decode-worker",
            "is-prefill-worker",
            "master-addr",
            "master-port",
            "nnodes",
            "node-rank",
            "port",
        ),
        _LAUNCHER,
    ),
}
_ALIASES = {
    "tp": "tensor-parallel-size",
    "pp": "pipeline-parallel-size",
    "dp": "data-parallel-size",
    "ep": "enable-expert-parallel",
    "dpa": "data-parallel-address",
    "dpp": "data-parallel-rpc-port",
    "dpl": "data-parallel-size-local",
    "dpn": "data-parallel-rank",
    "dpr": "data-parallel-start-rank",
    "dph": "data-parallel-hybrid-lb",
    "dpe": "data-parallel-external-lb",
    "n": "nnodes",
    "r": "node-rank",
}
_OWNED_IN_ANY_FORM = _OWNED | {f"no-{name}": why for name, why in _OWNED.items()} | {alias: _OWNED[name] for alias, name in _ALIASES.items()}
_ROLE_BY_MODE = (1,)
"""The release from which on a worker's role is `--disaggregation-mode`, and there is no `--connector` beside `--kv-transfer-config`.

Source: `dynamo/vllm/args.py` and `backend_args.py` of ai-dynamo 0.7.1 to 1.6.1.
"""
_ROLE_FLAGS = {Role.PREFILL: "--is-prefill-worker", Role.DECODE: "--is-decode-worker"}
_PORTS_OF_A_RENDEZVOUS = 32
"""Ports that vLLM may take from VLLM_PORT on: torch's store and the sockets between front end and engine cores (our margin)."""
KV_EVENTS = Placeholder("KV_EVENT_PORT", '{"publisher":"zmq","topic":"kv-events","enable_kv_cache_events":true,"endpoint":"tcp://*:', '"}')
"""How a worker publishes what its cache holds, as srtctl has it too: Dynamo 1.2 `dynamo/vllm/main.py` setup_kv_event_publisher reads it
on the same node, every topic. vLLM binds an endpoint with a `*` only (`distributed/kv_events.py` ZmqEventPublisher)."""


class VllmEngine:
    """The engine of a real deployment."""

    name = "vllm"

    def dynamo(self, runtime: Runtime) -> Dynamo:
        return runtime.dynamo

    def owned_flags(self) -> Mapping[str, str]:
        return _OWNED_IN_ANY_FORM

    def catalogue(self, runtime: Runtime) -> FlagCatalogue:
        return load_flags(runtime.vllm, runtime.dynamo.version)

    def topology_flags(self, topology: Topology) -> tuple[Flag, ...]:
        sizes = {
            "tensor-parallel-size": topology.tp,
            "pipeline-parallel-size": topology.pp,
            "data-parallel-size": topology.dp,
        }
        flags = [Flag(name=name, value=size) for name, size in sizes.items() if size > 1]
        return (*flags, Flag(name="enable-expert-parallel", value=True)) if topology.ep else tuple(flags)

    def speculation_flags(self, mtp: int) -> tuple[Flag, ...]:
        if not mtp:
            return ()
        return (
            Flag(name="speculative-config.method", value="mtp"),
            Flag(name="speculative-config.num_speculative_tokens", value=mtp),
        )

    def port_needs(self, role: RoleRecipe, *, local_dp: int, one_node: bool) -> Mapping[str, int]:
        """NIXL's side channel is base + global DP rank; older builds used a port per TP rank too, so DP x TP are kept free.

        KV events are published at base + global DP rank (vLLM 0.28 `distributed/kv_events.py` offset_endpoint_port).
        """
        topology = role.topology
        events = topology.dp if role.kv_events else local_dp
        needs = {"SYSTEM_PORT": 1, "KV_EVENT_PORT": events, "FORWARD_PASS_PORT": topology.dp, "NIXL_PORT": topology.dp * topology.tp}
        if one_node:
            return needs | {"VLLM_PORT_BASE": _PORTS_OF_A_RENDEZVOUS}
        return needs | {"DP_RPC_PORT": 1, "MASTER_PORT": 1}

    def command(self, recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> Command:
        engine = [Arg(words=f.words, note=f.derivation) for f in role.flags]
        return Command(
            program=("python3", "-m", "dynamo.vllm"),
            args=(*_model_args(recipe, role), *_placement_args(layout), *engine, *_events_args(role)),
            env=(*role.env, *_launcher_env(recipe, role, layout)),
        )


def _model_args(recipe: Recipe, role: RoleRecipe) -> Iterator[Arg]:
    yield Arg(words=("--model", Placeholder("MODEL")), group="model")
    if recipe.model.revision:
        yield Arg(words=("--revision", recipe.model.revision), group="model", when=When.HUB_ID)
    yield Arg(words=("--served-model-name", recipe.model.served_name), group="model")
    yield from _role_args(recipe, role)


def _role_args(recipe: Recipe, role: RoleRecipe) -> Iterator[Arg]:
    version = version_key(recipe.runtime.dynamo.version)
    if version is None or version[0] >= _ROLE_BY_MODE:
        yield Arg(words=("--disaggregation-mode", role.role.value), group="model")
        return
    if role.role in _ROLE_FLAGS:
        yield Arg(words=(_ROLE_FLAGS[role.role],), note="Dynamo before 1.0", group="model")
    if role.flag("connector") is None:
        yield Arg(words=("--connector", "none"), note="nixl by default, which --kv-transfer-config must not meet", group="model")


def _placement_args(layout: WorkerLayout) -> Iterator[Arg]:
    """Flags that only the launcher can know: hybrid load balancing by node, or one rendezvous for a replica across nodes."""
    leader, rank = Placeholder("LEADER_ADDRESS"), Placeholder("NODE_RANK")
    words: list[tuple[Word, ...]] = []
    if layout.mode is LaunchMode.NODE_LOCAL_DP:
        words = [
            ("--data-parallel-size-local", str(layout.local_dp)),
            ("--data-parallel-start-rank", Placeholder("START_RANK")),
            ("--data-parallel-address", leader),
            ("--data-parallel-rpc-port", Placeholder("DP_RPC_PORT")),
            ("--data-parallel-hybrid-lb",),
        ]
    elif layout.mode is LaunchMode.SPANNING:
        words = [
            ("--nnodes", str(layout.nodes_per_worker)),
            ("--node-rank", rank),
            ("--master-addr", leader),
            ("--master-port", Placeholder("MASTER_PORT")),
        ]
    yield from (Arg(words=w, group="placement") for w in words)
    if layout.mode is LaunchMode.SPANNING:
        yield Arg(words=("--headless",), group="placement", when=When.FOLLOWER)


def _events_args(role: RoleRecipe) -> Iterator[Arg]:
    if role.kv_events:
        yield Arg(words=("--kv-events-config", KV_EVENTS), note="vLLM adds the data-parallel rank to the port", group="events")


def _launcher_env(recipe: Recipe, role: RoleRecipe, layout: WorkerLayout) -> tuple[EnvVar, ...]:
    """What the launcher adds; a variable that the recipe sets, or takes back with null, is left to it."""
    own = {e.name for e in role.env} | set(role.unset_env)
    wanted = (*_process_env(role, layout), *_node_env(recipe, layout))
    return tuple(EnvVar(name=name, value=value, note=note, launcher=True) for name, value, note in wanted if name not in own)


def _process_env(role: RoleRecipe, layout: WorkerLayout) -> Iterator[tuple[str, Word, str]]:
    yield "CUDA_VISIBLE_DEVICES", Placeholder("DEVICES"), ""
    yield "DYN_SYSTEM_PORT", Placeholder("SYSTEM_PORT"), "health and metrics of this process"
    yield "DYN_VLLM_KV_EVENT_PORT", Placeholder("KV_EVENT_PORT"), "for Dynamo that reads it; 1.2 takes it from --kv-events-config"
    yield "DYN_FORWARDPASS_METRIC_PORT", Placeholder("FORWARD_PASS_PORT"), ""
    yield "VLLM_ENGINE_READY_TIMEOUT_S", Placeholder("READY_TIMEOUT_S"), "vLLM's own 600 s do not load a large model"
    if uses_nixl(role):
        yield "VLLM_NIXL_SIDE_CHANNEL_HOST", Placeholder("NODE_ADDRESS"), "the default, localhost, breaks transfers between nodes"
        yield "VLLM_NIXL_SIDE_CHANNEL_PORT", Placeholder("NIXL_PORT"), "vLLM adds the data-parallel rank"
    if layout.mode is LaunchMode.ONE_NODE:
        yield "VLLM_PORT", Placeholder("VLLM_PORT_BASE"), "workers of one node must not race for ports"


def _node_env(recipe: Recipe, layout: WorkerLayout) -> Iterator[tuple[str, Word, str]]:
    if layout.nodes_per_worker > 1:
        for name, value in recipe.hardware.multi_node_env.items():
            yield name, value, f"{recipe.hardware.key}, a worker across nodes"
