"""From what a matrix says of its model, its machine, its requests and the job around the engines to the domain."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from recipegen.document import Document
from recipegen.errors import Problem
from recipegen.job_variables import why_reserved
from recipegen.model import NGINX_IMAGE, TEMPLATE_TOKENS, EnvVar, Flag, HardwareSpec, JobSettings, ModelSpec, Role, Workload

if TYPE_CHECKING:
    from recipegen.job_schema import ModelPinSchema
    from recipegen.matrix_schema import MatrixSchema, RoleSwitchSchema, WorkloadSchema

_SERVICES = "the job gives it, as all processes need the same"
FRONTEND_OWNED = {
    "http-host": "`frontend_host` of the cluster profile",
    "http-port": "it belongs to the launcher, which keeps ports free",
    "enforce-disagg": "it follows from the roles of a point",
    "request-plane": "set `runtime.dynamo.request_plane`",
    **dict.fromkeys(("discovery-backend", "event-plane", "namespace", "namespace-prefix"), _SERVICES),
}
"""Arguments of Dynamo's front end that a matrix must not set, and what decides them instead."""
NOT_OF_A_SESSION = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "date", "expect", "host"),
        *("keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "via"),
    }
)
"""Headers of HTTP itself (RFC 9110), by which requests of one session would be spread, or those of all clients kept together."""


def canonical_flag(name: str) -> str:
    """Return the flag as vLLM reads it: `_` and `-` are equal before the first dot."""
    head, dot, rest = name.partition(".")
    return head.replace("_", "-") + dot + rest


def pinned_model(raw: ModelPinSchema, known: ModelSpec | None) -> ModelSpec:
    """Return a model that the matrix pins itself; `known` is the data file whose numbers it has, None where it names none."""
    return ModelSpec(
        key=known.key if known else raw.repo,
        repo=raw.repo,
        revision=raw.revision or "",
        served_name=raw.served_name or raw.repo,
        checkpoint_bytes=known.checkpoint_bytes if known else 0,
        architecture=known.architecture if known else None,
    )


def split_hardware(spec: HardwareSpec, gpus_per_node: int) -> HardwareSpec:
    """Return a machine type whose nodes have so many GPUs; the type's own number changes nothing."""
    return spec if gpus_per_node == spec.gpus_per_node else replace(spec, gpus_per_node=gpus_per_node, split=True)


def workload_of(raw: WorkloadSchema, model: ModelSpec, document: Document) -> Workload:
    """Return the request lengths; a longest sequence that is not stated is the model's, or what the requests need where that is not known."""
    positions = model.architecture.max_position if model.architecture else 0
    return Workload(
        isl=raw.isl,
        osl=raw.osl,
        max_model_len=raw.max_model_len or positions or raw.isl + raw.osl + TEMPLATE_TOKENS,
        source=document.source("workload", "max_model_len"),
        stated=raw.max_model_len is not None,
    )


def event_roles(raw: bool | RoleSwitchSchema, document: Document, problems: list[Problem]) -> frozenset[Role]:  # noqa: FBT001 - as it is written
    """Return the roles whose workers publish KV events: prefill and agg, or those that the matrix names. Decode is a problem.

    Source: Dynamo 1.0 to 1.2 `dynamo/vllm/args.py` create_kv_events_config, which takes the setting from decode workers.
    """
    if isinstance(raw, bool):
        return frozenset({Role.PREFILL, Role.AGG}) if raw else frozenset()
    if raw.decode:
        message = "decode workers publish no KV events: Dynamo takes the setting from them, and prefixes are looked for at prefill workers"
        problems.append(Problem(document.source("kv_events", "decode"), message, "leave `decode` out", "kv-events"))
    return frozenset(role for role in Role if role is not Role.DECODE and getattr(raw, role.value))


def job_settings(raw: MatrixSchema, document: Document, problems: list[Problem]) -> JobSettings:
    """Return what the matrix asks of the job; what is wrong with it is added to `problems`."""
    several = raw.frontend.replicas > 1
    return JobSettings(
        setup_script=raw.setup_script or "",
        sbatch=raw.slurm.sbatch,
        srun=tuple(raw.slurm.srun),
        dedicated_node=raw.infra.dedicated_node,
        ready_s=int(raw.deadlines.ready or 0),
        frontend_args=tuple(_frontend_args(raw, document, problems)),
        frontend_env=tuple(_frontend_env(raw, document, problems)),
        front_ends=raw.frontend.replicas,
        nginx_image=_of_nginx("nginx_image", raw.frontend.nginx_image or (NGINX_IMAGE if several else ""), raw, document, problems),
        session_header=_of_nginx("session_header", raw.frontend.session_header or "", raw, document, problems),
        carried=raw.carried,
        setup_source=document.source("setup_script"),
        ready_source=document.source("deadlines", "ready"),
    )


def _frontend_args(raw: MatrixSchema, document: Document, problems: list[Problem]) -> Iterator[Flag]:
    found: set[str] = set()
    for key, value in raw.frontend.args.items():
        name, path = canonical_flag(key), ("frontend", "args", key)
        if name in found:
            problems.append(Problem(document.key_source(*path), f"'{key}' and an earlier key are the same flag '{name}'", rule="flag-twice"))
        if why := FRONTEND_OWNED.get(name.removeprefix("no-")):
            problems.append(Problem(document.key_source(*path), f"'{key}' cannot be set here: {why}", rule="flag-owned"))
        found.add(name)
        yield Flag(name=name, value=value, source=document.source(*path))


def _frontend_env(raw: MatrixSchema, document: Document, problems: list[Problem]) -> Iterator[EnvVar]:
    for name, value in raw.frontend.env.items():
        path = ("frontend", "env", name)
        if why := why_reserved(name):
            problems.append(Problem(document.key_source(*path), f"'{name}' {why}", rule="env-reserved"))
        if bad := control_character(value):
            message = f"the value holds a control character, {bad}; expected one line of text"
            problems.append(Problem(document.source(*path), message, rule="env-value"))
        yield EnvVar(name=name, value=value, source=document.source(*path))


def control_character(text: str) -> str:
    """Return the first control character of a text, as `U+000A`; empty where there is none."""
    return next((f"U+{ord(char):04X}" for char in text if unicodedata.category(char) == "Cc"), "")


def _of_nginx(key: str, value: str, raw: MatrixSchema, document: Document, problems: list[Problem]) -> str:
    """What is said of nginx, which stands before several front ends only."""
    path = ("frontend", key)
    if value and raw.frontend.replicas == 1:
        message = f"'{key}' is for nginx, and nothing of it starts before a single front end"
        problems.append(Problem(document.key_source(*path), message, "set `replicas` to 2 or more, or leave it out", "frontend-single"))
    if ".." in value.replace(":", "/").split("/"):
        message = f"'{value}' climbs out of its folder by '..'"
        problems.append(Problem(document.source(*path), message, "write the path that it leads to", "path-traversal"))
    if key == "session_header" and value.lower() in NOT_OF_A_SESSION:
        message = f"'{value}' is not a session's: every request of a client has the same, or each one its own"
        problems.append(Problem(document.source(*path), message, "name the header by which clients tell their sessions apart", "session-header"))
    return value
