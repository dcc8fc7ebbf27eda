"""Keys of an srt-slurm recipe that have no effect on what recipegen runs, each with the reason (none: it only informs)."""

from __future__ import annotations

_PROFILE = "it belongs to the cluster, so to the cluster profile"
_OTHER_TOOL = "it steers a part of srtctl that recipegen does not have"
_AFTER = "it concerns what is done beside or after serving"

TOP = {
    "container_mounts": f"{_PROFILE} (`container.mounts`)",
    "extra_mount": f"{_PROFILE} (`container.mounts`)",
    "enable_config_dump": _OTHER_TOOL,
    "host_setup": f"commands on the hosts are not run by a recipe; {_PROFILE}",
    "lock": "it records what a run found",
    "observability": _AFTER,
    "output": _OTHER_TOOL,
    "post_eval": _AFTER,
    "profiling": "a deployment is not profiled here",
    "reporting": _AFTER,
    "telemetry": _AFTER,
}
MODEL = {"precision": "", "stage_dir": "models are not copied to the nodes first"}
SLURM = {"account": f"{_PROFILE} (`account`)", "partition": f"{_PROFILE} (`partition`)"}
BACKEND = {
    "set_cuda_visible_devices": "devices are always given by CUDA_VISIBLE_DEVICES",
    "vllm_serve_binary": "workers are started as `python3 -m dynamo.vllm`",
}
FRONTEND = {
    "container_image": "the front end runs in the engines' image",
    "nginx_container": "there is one front end, without nginx",
    "nginx_keepalive_timeout": "there is one front end, without nginx",
    "nginx_raise_ulimit": "there is one front end, without nginx",
    "nginx_session_affinity": "there is one front end, without nginx",
    "nginx_session_affinity_header": "there is one front end, without nginx",
    "num_additional_frontends": "there is one front end",
    "numa_bind": "the front end is not bound",
    "orchestrator_placement": "the front end stands on the job's first node",
    "worker_selection": "the front end chooses workers by its own arguments",
}
NGINX = {
    "nginx_keepalive_timeout": "nginx has its own limits for idle connections",
    "nginx_raise_ulimit": "nginx always takes as many open files as the node allows, up to 131072",
    "nginx_session_affinity": "sessions are not kept together unless it is true",
    "nginx_session_affinity_header": "sessions are not kept together",
}
"""Of several front ends, why these are without effect."""
DYNAMO = {
    "event_plane": "Dynamo's own default holds",
    "cargo_patches": "Dynamo is not built with patches",
}
INFRA = {"nats_max_payload_mb": "NATS runs with its own limit"}
HEALTH = {
    "fatal_log_markers": "recipegen looks for fatal lines by its own rules",
    "extra_fatal_log_patterns": "recipegen looks for fatal lines by its own rules",
}
ROLE = {"critical": "every worker is needed", "restart": "workers are not restarted in place"}
BENCHMARK = {
    **dict.fromkeys(
        (
            *("aiperf_args", "aiperf_package", "client_dedicated_node", "client_placement", "colocate_with_frontend", "command", "container_image"),
            *("env", "export_node_metrics", "placement", "stream_output"),
            *("slow_down_sleep_time", "slow_down_wait_time"),
        ),
        "benchmarks have no such setting here",
    )
}

BENCHMARK_NAMES = {
    "backend": "backend",
    "categories": "categories",
    "custom_tokenizer": "tokenizer_class",
    "dataset_name": "dataset",
    "dataset_path": "dataset_path",
    "endpoint": "endpoint",
    "itl_threshold_ms": "itl_threshold_ms",
    "max_context_length": "max_context_length",
    "max_tokens": "max_tokens",
    "mooncake_workload": "mooncake_workload",
    "num_examples": "num_examples",
    "num_prompts_mult": "prompts_per_concurrency",
    "num_shots": "num_shots",
    "num_threads": "num_threads",
    "num_warmup_mult": "warmup_per_concurrency",
    "random_range_ratio": "random_range_ratio",
    "repeat": "repeat",
    "req_rate": "request_rate",
    "reuse_http_connections": "reuse_connections",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "trace_file": "trace_file",
    "ttft_threshold_ms": "ttft_threshold_ms",
    "use_chat_template": "chat_template",
}
"""Settings of a benchmark: srt-slurm's name and recipegen's."""

SA_BENCH_DEFAULTS = {
    "endpoint": "/v1/completions",
    "random_range_ratio": 0.8,
    "prompts_per_concurrency": 10,
    "warmup_per_concurrency": 2,
}
"""What srtctl 1.0 measures by where a recipe does not say, as far as it differs from recipegen's defaults."""

HARDWARE = {"gb200": "gb200-nvl72", "gb300": "gb300-nvl72"}
"""GPU types that the catalogue has under a longer name."""

CARRIED_IN_V1 = {
    "engine.vllm_serve_binary": "backend.vllm_serve_binary",
    "engine.set_visible_devices": "backend.set_cuda_visible_devices",
    "dynamo.source.patches": "dynamo.cargo_patches",
    "frontend.placement.node": "frontend.orchestrator_placement",
}
"""Keys of `schema: 2` that are carried by their own path, and where the first layout has them."""
CARRIED_IN_V2 = {first: second for second, first in CARRIED_IN_V1.items()} | {"dynamo.wheel": "dynamo.source.wheel"}
ONLY_IN_V2 = frozenset({"engine", "host_setup", "job_scoped_ports", "post_eval", "roles", "services"})
"""Sections that the first layout does not have."""
