"""Environment names that the job's scripts, bash or Slurm need for themselves: neither a recipe nor a profile may set them."""

from __future__ import annotations

import re

_SHELL = frozenset(
    {
        *("BASH", "BASHOPTS", "BASHPID", "DIRSTACK", "ENV", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME", "FUNCNEST", "GLOBIGNORE"),
        *("GROUPS", "HISTCMD", "IFS", "LINENO", "OPTARG", "OPTERR", "OPTIND", "PATH", "PIPESTATUS", "POSIXLY_CORRECT", "PPID", "RANDOM"),
        *("SECONDS", "SHELLOPTS", "SHLVL", "SITE_ENV", "SRANDOM", "TMOUT", "UID", "_", "args"),
    }
)
"""Bash reads some of them as arithmetic, which runs code, gives others a value of its own, or works otherwise with them."""
_JOB = frozenset(
    {
        *("BUNDLE", "CREATE", "DIGEST", "END_TIME", "ENDED", "ENTER", "FIRST_ADDRESS", "FRONT_ENDS", "HOSTS", "LIB", "POINT", "READY_BY"),
        *("MORE_SRUN", "OWN_SRUN", "REMAP_ROOT", "RESTART", "RUN_DIR", "SITE_NAMES", "SRUN", "STEPS"),
        *("DEVICES", "LEADER_ADDRESS", "NODE_ADDRESS", "NODE_INTERFACE", "NODE_RANK", "SIMULATION", "SLOT", "START_RANK"),
        *("TINY_MODEL", "WORKER"),
        *("DP_RPC_PORT", "FORWARD_PASS_PORT", "KV_EVENT_PORT", "MASTER_PORT", "NIXL_PORT", "SYSTEM_PORT", "VLLM_PORT_BASE"),
        *("DYN_DISCOVERY_BACKEND", "DYN_EVENT_PLANE", "DYN_FILE_KV", "DYN_HTTP_HOST", "DYN_HTTP_PORT", "DYN_NAMESPACE", "DYN_REQUEST_PLANE"),
        *("DYN_SELF_HOST_METADATA", "DYN_SYSTEM_HOST", "DYN_TCP_RESPONSE_STREAM_HOST", "DYN_TCP_RPC_HOST", "ETCD_ENDPOINTS", "NATS_SERVER"),
    }
)
SITE_VARIABLES = {
    "RUN_ROOT": "run_root",
    "CONTAINER_RUNTIME": "container.runtime",
    "CONTAINER_IMAGE": "container.images",
    "CONTAINER_MOUNTS": "container.mounts",
    "MODEL": "models",
    "NETWORK_INTERFACE": "network_interface",
    "PATH_PREFIX": "path_prefix",
    "DISCOVERY": "discovery.backend",
    "ETCD": "discovery.etcd",
    "NATS_SERVER_BIN": "nats",
    "NGINX_BIN": "nginx",
    "NGINX_IMAGE": "container.images",
    "READY_TIMEOUT_S": "deadlines.ready",
    "RESERVE_S": "deadlines.reserve",
    "PORT_OFFSET": "port_offset",
    "FRONTEND_HOST": "frontend_host",
    "SRUN_OPTIONS": "srun",
}
"""Variables of site.env that the profile has keys for."""
_PREFIXES = ("BASH_", "COMP_", "SLURM_", "SLURMD_", "SBATCH_", "RECIPEGEN_")


def why_reserved(name: str) -> str:
    """Return why nobody may set this name, or an empty string when everybody may."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name, re.ASCII):
        return "is not the name of an environment variable"
    if name in _SHELL or name.startswith(_PREFIXES):
        return "belongs to the shell, to Slurm or to the tool"
    if name in SITE_VARIABLES:
        return f"is the cluster profile's `{SITE_VARIABLES[name]}`"
    return "is set by the job itself" if name in _JOB else ""
