# Where a process stands in its job, how it finds the others, and its open files. Sourced by prefill.sh, decode.sh, agg.sh and frontend.sh.
# shellcheck shell=bash

[[ -z ${PATH_PREFIX:-} ]] || PATH=$PATH_PREFIX:$PATH

open_files() { # as many open files as this node lets a process have, 131072 at most: a request in flight takes two of a front end's
  local most soft
  most=$(ulimit -Hn)
  [[ $most =~ ^[0-9]+$ ]] && ((most <= 131072)) || most=131072
  soft=$(ulimit -Sn) # often 1024
  [[ $soft == unlimited ]] || ((soft >= most)) || ulimit -Sn "$most" || true
}
open_files

place_process() { # place_process FIRST_NODE: the worker's first node; sets NODE_RANK, NODE_ADDRESS, LEADER_ADDRESS
  NODE_RANK=$SLURM_PROCID
  local index host address interface
  while read -r index host address interface; do
    ((index == $1)) && LEADER_ADDRESS=$address
    ((index == $1 + NODE_RANK)) || continue
    if [[ $host != "$SLURMD_NODENAME" ]]; then
      echo "rank $NODE_RANK of this step runs on $SLURMD_NODENAME, but nodes.txt says $host: the step's order is not the job's" >&2
      exit 1
    fi
    NODE_ADDRESS=$address NODE_INTERFACE=$interface
  done <"$RUN_DIR/nodes.txt"
  export NODE_RANK NODE_ADDRESS LEADER_ADDRESS

  # Dynamo's planes: requests come to this address; the response stream takes the interface's name (1.2 knows no address there).
  # A model card is served by the worker itself, so that no front end needs the hub or the same paths.
  export DYN_TCP_RPC_HOST=$NODE_ADDRESS DYN_TCP_RESPONSE_STREAM_HOST=$NODE_INTERFACE DYN_SYSTEM_HOST=$NODE_ADDRESS
  export DYN_SELF_HOST_METADATA=1

  # The engine's own sockets between nodes: the same address, not whatever the default route or the host's name leads to.
  export VLLM_HOST_IP=$NODE_ADDRESS GLOO_SOCKET_IFNAME=${GLOO_SOCKET_IFNAME:-$NODE_INTERFACE} NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-=$NODE_INTERFACE}
}

process_started() { # process_started ROLE WORKER: the marker that this process is about to become its engine
  printf '{"time": %s, "job": "%s", "restart": %d, "event": "process_started", "role": "%s", "worker": %d, "rank": %d, "node": "%s"}\n' \
    "$(date +%s.%3N)" "$SLURM_JOB_ID" "$RESTART" "$1" "$2" "$NODE_RANK" "$SLURMD_NODENAME" >>"$RUN_DIR/events.$1-$2-$NODE_RANK.jsonl"
}
