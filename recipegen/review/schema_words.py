"""What an editor shows beside a key: one line for each key of each model, by the names of both."""

from __future__ import annotations

from collections.abc import Mapping

_SETTINGS = {
    "args": "Engine flags without the dashes: true is the bare flag, false its --no- form, a list several values, null takes an inherited one back.",
    "env": "Environment of every process of the role; null takes an inherited variable back.",
    "derive": "Flags by formula over sized_for, tp, pp, dp, ep, mtp, isl, osl, max_model_len and flags before them, such as sized_for / dp + 16.",
}
_SHAPE = "<workers>x<topology>, such as 2xTP2DP4, or the long form with a shape and settings of its own."

WORDS: Mapping[str, Mapping[str, str]] = {
    "MatrixSchema": {
        "schema": "The layout of this file.",
        "name": "Job name; results are kept under <name>-<point>.",
        "model": "A known model; `recipegen model list` names them.",
        "hardware": "A known machine type, such as gb300-nvl72.",
        "workload": "Request lengths in tokens.",
        "runtime": "The pinned software.",
        "expert_parallel": "Experts spread over TP x DP: for all roles, or by role; a topology may say +EP itself.",
        "kv_events": "Whether workers publish what their caches hold, for `router-mode: kv`: prefill and agg, or by role; decode publishes nothing.",
        "common": "Settings of all roles.",
        "prefill": "Settings of prefill workers.",
        "decode": "Settings of decode workers.",
        "agg": "Settings of workers that do both.",
        "points": "The operating points; each is rendered into a folder.",
        "benchmark": "What is measured.",
        "variants": "Other benchmarks to choose at submission; the bundle stays the same.",
        "allow": "Findings of `recipegen check` that are wanted, each with a reason.",
    },
    "WorkloadSchema": {
        "isl": "Input tokens of a request.",
        "osl": "Output tokens of a request.",
        "max_model_len": "The longest sequence an engine accepts: more than ISL + OSL + chat template.",
    },
    "RuntimeSchema": {
        "image": "Container image, tag or digest, taken exactly as written.",
        "vllm": "The vLLM build inside, without the v; compared with what is installed before an engine starts.",
        "dynamo": "Which Dynamo, and how it gets into the container.",
    },
    "DynamoSchema": {
        "version": "The version that is wanted.",
        "install": "present: only checked; pip: the pinned version; wheel, git: from source.",
        "source": "The wheel or the git URL.",
    },
    "FrontendSchema": {
        "args": "Further arguments of every front end, without the dashes; true is a bare one.",
        "env": "Variables of every front end.",
        "replicas": "How many front ends stand behind nginx, one a node behind the first; fewer where there are not as many nodes.",
        "nginx_image": "What nginx runs in; nginx:1.27.4 unless stated. With two replicas or more.",
        "session_header": "Requests with the same value of this header go to the same front end. With two replicas or more.",
    },
    "SettingsSchema": _SETTINGS,
    "ShapeSchema": {**_SETTINGS, "shape": "<workers>x<topology>, such as 2xTP2DP4.", "gpus": "GPUs of one worker, checked against the topology."},
    "PointSchema": {
        "prefill": _SHAPE,
        "decode": _SHAPE,
        "agg": _SHAPE,
        "common": "Settings of this point, all roles.",
        "mtp": "Tokens of multi-token prediction on both roles; 0 is off.",
        "concurrency": "What the point is measured at, rising.",
        "sized_for": "The concurrency its buffers are for; the largest of `concurrency` unless stated.",
        "time_limit": "H:MM:SS or D-HH:MM:SS, in quotes.",
        "colocate": "Whether decode workers begin on the GPUs that prefill workers leave free, instead of on nodes of their own.",
    },
    "VariantSchema": {"benchmark": "What is measured instead."},
    "AllowanceSchema": {
        "rule": "The id in brackets behind the finding.",
        "reason": "Why it is wanted.",
        "points": "Names of the points that it is for; all unless stated.",
    },
    "ClusterSchema": {
        "schema": "The layout of this file.",
        "name": "The profile's name.",
        "scheduler": "What queues jobs.",
        "transport": "How commands and files reach the cluster.",
        "run_root": "The folder of all runs, shared by login and compute nodes; it exists.",
        "sbatch": "Further sbatch options by their long names; true is the bare option.",
        "container": "What runs containers, and which.",
        "models": "Hub id to snapshot, as the container sees it; what is not listed is loaded by its hub id.",
        "network_interface": "The interface whose address the workers use; null: that of the host name.",
        "path_prefix": "Where python3 is when there is no container.",
        "discovery": "Where Dynamo's instances find each other.",
        "nats": "Path of nats-server; only when NATS is wanted.",
        "nginx": "Path of nginx on the nodes, which then runs instead of its image, before several front ends.",
        "environment": "Seen by every process.",
        "deadlines": "How long a start may take, and what is kept for the end.",
        "port_offset": "Added to every port; null: from the job id.",
        "frontend_host": "What the frontend listens on; `node`: only the address of its node.",
        "srun": "Further options of every srun, --key=value or --key.",
        "slurm": "What this site's Slurm can do.",
        "storage": "What was measured of the file system that checkpoints are read from.",
        "nodes": "What the compute nodes are.",
    },
    "ContainerSchema": {
        "images": "Image of the recipe to image on this cluster; what is not listed is taken as written.",
        "mounts": "SRC:DST or SRC:DST:FLAGS.",
    },
    "DeadlinesSchema": {"ready": "Until READY: seconds, or H:MM:SS in quotes.", "reserve": "Kept for the tear-down: seconds, or H:MM:SS in quotes."},
    "SlurmSchema": {
        "segment": "--segment is known: Slurm 23.11 or later.",
        "gpus": "How GPUs are asked for.",
        "require": "sbatch options that jobs need here; one that is not set is an error of `recipegen check`.",
    },
    "StorageSchema": {"read_gib_s": "GiB/s at which a worker reads the checkpoint while the others do too."},
    "NodesSchema": {"machine": "As `uname -m` prints it on a compute node."},
    "ModelSchema": {
        "repo": "ORG/NAME on the hub.",
        "revision": "The commit: 40 hex digits.",
        "served_name": "What clients ask for.",
        "checkpoint_bytes": "Bytes of the safetensors files; 0: not known.",
        "architecture": "The numbers of config.json that sizing needs.",
    },
    "HardwareSchema": {
        "gpus_per_node": "GPUs of one node.",
        "nodes_per_domain": "Nodes of one NVLink domain.",
        "gpu_memory_gib": "What an engine sees of one GPU, in GiB; 0: not known.",
        "machine": "As `uname -m` prints it.",
        "compute_capability": "Of the GPUs, as CUDA counts it, such as 10.3.",
        "multi_node_env": "Environment of workers that span nodes.",
    },
}
