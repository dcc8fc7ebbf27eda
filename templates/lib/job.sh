# What job.sbatch does, step by step. Sourced by it; runs on the batch host, outside any container.
# shellcheck shell=bash

RESTART=${SLURM_RESTART_COUNT:-0}
declare -A STEPS=() # name of each running step -> process id of its srun
ENTER=()            # srun's options for the container, once there is one
REMAP_ROOT=()       # srun's option to be root in a container
OWN_SRUN=()         # srun's options that the recipe asks for
MORE_SRUN=()        # of them, what the steps of a function take
ENDED=false         # whether exit.json is written

# --- markers -------------------------------------------------------------------------------------------------------

event() { # event NAME [JSON MEMBERS]
  printf '{"time": %s, "job": "%s", "restart": %d, "event": "%s"%s}\n' \
    "$(date +%s.%3N)" "$SLURM_JOB_ID" "$RESTART" "$1" "${2:+, $2}" >>"$RUN_DIR/events.job.jsonl"
}

note() { # note TEXT: what a reader of the run's state should know, though nothing is wrong
  echo "$1"
  event note "\"text\": $(json_text "$1")"
}

json_text() { # json_text TEXT: a JSON string without control characters
  local text=${1//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//[[:cntrl:]]/ }"
}

end() { # end REASON CODE [STEP] [DETAIL]: tear down, say why, and exit
  trap '' TERM INT
  tear_down "$1"
  rm -rf "${TMPDIR:-/tmp}/recipegen-etcd-$SLURM_JOB_ID."* # of an etcd that was killed; this is its node, too
  [[ ${#ENTER[@]} == 0 ]] || remove_container
  local step=null ready=false
  [[ -z ${3:-} ]] || step=$(json_text "$3")
  ! is_ready || ready=true
  printf '{"job": "%s", "restart": %d, "time": %s, "code": %d, "reason": "%s", "step": %s, "ready": %s, "detail": %s}\n' \
    "$SLURM_JOB_ID" "$RESTART" "$(date +%s.%3N)" "$2" "$1" "$step" "$ready" "$(json_text "${4:-}")" >"$RUN_DIR/.exit.json" &&
    mv "$RUN_DIR/.exit.json" "$RUN_DIR/exit.json"
  ENDED=true
  echo "end: $1${3:+, step $3}${4:+, $4}"
  exit "$2"
}

is_ready() { # whether the probe has seen the endpoint answer since this start of the job
  grep -qs "\"job\": \"$SLURM_JOB_ID\", \"restart\": $RESTART," "$RUN_DIR/endpoint.json"
}

tear_down() { # tear_down REASON: stop every step; TERM, then what is left by force
  event tear_down "\"reason\": \"$1\""
  # Through Slurm: a TERM to the srun client kills its tasks at once on Slurm 25.11. Without --batch or --full it reaches the steps only.
  ((${#STEPS[@]} == 0)) || scancel --signal=TERM "$SLURM_JOB_ID" 2>/dev/null # refused when scancel has ended the job already
  local signal
  for signal in none TERM KILL; do
    [[ $signal == none ]] || running_steps | xargs --no-run-if-empty kill -s "$signal"
    local i
    for ((i = 0; i < 100; i++)); do
      [[ -n $(running_steps) ]] || return 0
      sleep 0.1
    done
  done
}

remove_container() { # pyxis keeps a named container, tens of GB, unless the site scopes names to jobs; a job that was cancelled starts no more steps
  local name=pyxis_recipegen-$SLURM_JOB_ID
  timeout 60 "${SRUN[@]}" --nodes="${#HOSTS[@]}" --ntasks="${#HOSTS[@]}" --job-name=remove --output=/dev/null \
    bash -c "! command -v enroot || enroot remove --force $name" </dev/null 2>/dev/null
}

running_steps() { # process ids of steps that have not ended
  local pid
  for pid in "${STEPS[@]}"; do
    kill -0 "$pid" 2>/dev/null && echo "$pid"
  done
}

# --- set-up --------------------------------------------------------------------------------------------------------

load_site() { # what the cluster adds; what the submitter's shell happened to hold must not decide what runs, or how
  local file
  unset CONTAINER_IMAGE CONTAINER_MOUNTS CONTAINER_RUNTIME DISCOVERY ETCD FRONTEND_HOST MODEL NATS_SERVER_BIN NETWORK_INTERFACE NGINX_BIN \
    NGINX_IMAGE PATH_PREFIX PORT_OFFSET READY_TIMEOUT_S RESERVE_S RUN_ROOT SRUN_OPTIONS
  unset PYTHONPATH PYTHONHOME "${!DYN_@}" "${!ETCD_@}" "${!FLASHINFER_@}" "${!NATS_@}" "${!NCCL_@}" "${!NIXL_@}" "${!NVSHMEM_@}" \
    "${!PYTORCH_@}" "${!TORCH_@}" "${!UCX_@}" "${!VLLM_@}"
  for file in ${RUN_DIR:+"$RUN_DIR/site.env"} ${SITE_ENV:+"$SITE_ENV"} "${LIB%/*}/site.env" "${SLURM_SUBMIT_DIR:-.}/site.env"; do
    [[ -f $file ]] || continue
    set -a
    # shellcheck source=/dev/null
    . "$file"
    set +a
    SITE_NAMES=$(sed -n 's/^ *\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p' "$file" | paste -sd ,)
    echo "site: $file"
    return
  done
  refuse_site "no site.env: looked for ${RUN_DIR:+$RUN_DIR/site.env, }\$SITE_ENV, ${LIB%/*}/site.env and \$SLURM_SUBMIT_DIR/site.env"
}

refuse_site() { # refuse_site WHY
  [[ -z $RUN_DIR ]] || end site 1 "" "$1"
  echo "$1" >&2
  exit 1
}

open_run() { # open_run TIME_LIMIT_S EXPECTED: the run folder, the deadline, and what every step inherits
  [[ -n $RUN_DIR ]] || by_hand "$@"
  mkdir -p "$RUN_DIR/logs" "$RUN_DIR/nodes.d" || exit
  trap 'end cancelled 130' TERM INT
  trap '[[ $ENDED == true ]] || end internal 1 "" "the batch script stopped unexpectedly"' EXIT
  mapfile -t HOSTS < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
  event job_started "\"nodes\": ${#HOSTS[@]}"

  RESERVE_S=${RESERVE_S:-60}
  END_TIME=${SLURM_JOB_END_TIME:-$(SLURM_TIME_FORMAT=%s squeue --noheader --jobs="$SLURM_JOB_ID" --format=%e)} # unset before Slurm 23
  [[ $END_TIME =~ ^[0-9]+$ ]] || END_TIME=$(($(date +%s) + $1))
  local left=$((END_TIME - RESERVE_S - $(date +%s)))
  READY_TIMEOUT_S=${READY_TIMEOUT_S:-7200}
  ((READY_TIMEOUT_S <= left)) || READY_TIMEOUT_S=$left
  READY_BY=$(($(date +%s) + READY_TIMEOUT_S))

  read -ra SRUN <<<"srun --overlap --ntasks-per-node=1 --cpu-bind=none --mpi=none --export=ALL ${SRUN_OPTIONS:-}"
  CREATE=()
  if [[ ${CONTAINER_RUNTIME:-none} == pyxis ]]; then
    local mounts="$RUN_DIR:$RUN_DIR,${LIB%/*}:${LIB%/*}:ro"
    ENTER=(--container-name="recipegen-$SLURM_JOB_ID" --container-mounts="$mounts${CONTAINER_MOUNTS:+,$CONTAINER_MOUNTS}"
      --container-writable --no-container-mount-home --no-container-entrypoint)
    [[ -z $SITE_NAMES ]] || ENTER+=(--container-env="$SITE_NAMES") # the site's values win over the image's
    [[ -n ${CONTAINER_IMAGE:-} ]] || refuse_site "site.env names no CONTAINER_IMAGE, which pyxis needs"
    CREATE=(--container-image="$CONTAINER_IMAGE")
    [[ " ${SRUN_OPTIONS:-} " == *" --no-container-remap-root "* ]] || REMAP_ROOT=(--container-remap-root) # pyxis refuses to be told both
  fi
  export RUN_DIR BUNDLE LIB DIGEST RESTART READY_TIMEOUT_S READY_BY MODEL=${MODEL:-}
}

by_hand() { # by_hand TIME_LIMIT_S EXPECTED: submitted without recipegen, so the run folder and its record are made here
  [[ -n ${RUN_ROOT:-} ]] || refuse_site "site.env names no RUN_ROOT, below which the run folder is made"
  RUN_DIR=$RUN_ROOT/$POINT-$SLURM_JOB_ID
  mkdir -p "$RUN_DIR" || exit
  local simulate=false
  ! grep -q '"engine": "mocker"' "$BUNDLE/plan.json" || simulate=true
  DIGEST=$(sha256sum <"$BUNDLE/MANIFEST" | cut -d ' ' -f 1)
  printf '{"format": 1, "id": "%s", "point": "%s", "name": %s, "digest": "%s", "simulate": %s, "created": %d, "run_dir": %s, "cluster": {}, %s}\n' \
    "${RUN_DIR##*/}" "$POINT" "$(json_text "$SLURM_JOB_NAME")" "$DIGEST" "$simulate" "$(date +%s)" "$(json_text "$RUN_DIR")" \
    "\"scheduler\": \"slurm\", \"job\": \"$SLURM_JOB_ID\", \"submitted\": $(date +%s), \"time_limit_s\": $1, \"ready_timeout_s\": ${READY_TIMEOUT_S:-7200}, \"expected\": $2" \
    >"$RUN_DIR/.run.json" && mv "$RUN_DIR/.run.json" "$RUN_DIR/run.json"
  echo "run folder: $RUN_DIR"
}

own_srun() { # own_srun OPTION...: for workers and the recipe's setup script; the site's come last, and win
  [[ -z ${RECIPEGEN_LOCAL_JOB:-} ]] || return 0 # a simulation on this machine knows no options but the job's
  local site_options
  read -ra site_options <<<"${SRUN_OPTIONS:-}"
  OWN_SRUN=("$@" "${site_options[@]}")
}

be_root() { # as root in the container, as packages want it. Every step that enters: the home in which one may lie is root's then
  [[ " ${OWN_SRUN[*]} " == *" --no-container-remap-root "* ]] || ENTER+=("${REMAP_ROOT[@]}")
}

choose_ports() { # choose_ports STEP SLOTS: jobs that meet on a node get different ports; all stay below the ephemeral range
  export PORT_OFFSET=${PORT_OFFSET:-$((SLURM_JOB_ID % $2 * $1))}
}

check_nodes() { # check_nodes [SETUP_SCRIPT]: what would otherwise fail an hour later fails now, on all nodes at once
  local check=(bash "$LIB/python.sh" node_check.py)
  [[ -z ${1:-} ]] || local MORE_SRUN=("${OWN_SRUN[@]}") # the script runs as workers do
  local all=(--kill-on-bad-exit=0 --wait=0) # one node's problem does not hide another's
  if ! run_to_end check 0 "${#HOSTS[@]}" "${all[@]}" "${CREATE[@]}" "${ENTER[@]}" "${check[@]}" check "$BUNDLE/plan.json" ||
    ! run_to_end collect 0 1 "${ENTER[@]}" "${check[@]}" collect "$BUNDLE/plan.json"; then
    end node_check 1 check "$(complaints)"
  fi
  event container_ready
  read -r _ _ FIRST_ADDRESS _ <"$RUN_DIR/nodes.txt"
}

complaints() { # what the checks found, in one line; where none could run, what Slurm and pyxis said on the first node that failed
  local found log
  found=$(sed -n 's/^problem: //p' "$RUN_DIR"/logs/{check,collect}.*.log 2>/dev/null | awk -F ': ' '
    { text = substr($0, length($1) + 3); hosts[text] = (text in hosts) ? hosts[text] : $1; if (!count[text]++) order[++n] = text }
    END { for (i = 1; i <= n && i <= 3; i++) print order[i] " (" (count[order[i]] > 1 ? count[order[i]] " nodes" : hosts[order[i]]) ")" }')
  for log in "$RUN_DIR"/logs/check.*.log; do
    [[ -z $found ]] || break
    found=$(sed -n 's/^slurmstepd[^ ]*: error: //p' "$log" | head -n 5)
  done
  paste -sd '|' <<<"${found:-the checks could not run; see slurm-$SLURM_JOB_ID.out}"
}

# --- steps ---------------------------------------------------------------------------------------------------------

start_step() { # start_step NAME FIRST_NODE NODES COMMAND...: one process per node, inside the container
  launch "$1" "$2" "$3" "${ENTER[@]}" "${@:4}"
}

launch() { # launch NAME FIRST_NODE NODES [SRUN OPTIONS] COMMAND...: a step that stays, and ends with the first of its processes
  begin "$1" "$2" "$3" --kill-on-bad-exit=1 --wait=10 "${@:4}"
  event step_started "\"step\": \"$1\""
}

run_to_end() { # run_to_end NAME FIRST_NODE NODES [SRUN OPTIONS] COMMAND...: a step to its end, which a signal does not wait for
  begin "$@"
  wait "${STEPS[$1]}"
  local code=$?
  unset "STEPS[$1]"
  return $code
}

begin() { # begin NAME FIRST_NODE NODES [SRUN OPTIONS] COMMAND...
  local nodes
  nodes=$(IFS=, && echo "${HOSTS[*]:$2:$3}")
  "${SRUN[@]}" "${MORE_SRUN[@]}" --nodes="$3" --ntasks="$3" --nodelist="$nodes" --job-name="$1" --output="${RUN_DIR//%/%%}/logs/$1.%t.log" "${@:4}" </dev/null &
  STEPS[$1]=$!
}

start_workers() { # start_workers ROLE WORKERS FIRST_NODE NODES_PER_WORKER WORKERS_PER_NODE [FIRST_SLOT]
  local worker first group MORE_SRUN=("${OWN_SRUN[@]}")
  for ((worker = 0; worker < $2; worker++)); do
    group=$(((worker + ${6:-0}) / $5)) # workers that share a node, or the one that fills nodes
    first=$(($3 + group * $4))
    start_step "$1-$worker" "$first" "$4" bash "$BUNDLE/$1.sh" "$worker" "$first"
  done
}

start_discovery() { # start_discovery ETCD_PORT ETCD_PEER_PORT NATS_PORT: how processes find each other; services on the first node
  export DYN_REQUEST_PLANE=tcp DYN_EVENT_PLANE=zmq DYN_DISCOVERY_BACKEND=${DISCOVERY:-etcd}
  if [[ $DYN_DISCOVERY_BACKEND == file ]]; then
    export DYN_FILE_KV=$RUN_DIR/discovery
  else
    local port=$(($1 + PORT_OFFSET))
    export ETCD_ENDPOINTS=http://$FIRST_ADDRESS:$port
    launch etcd 0 1 bash "$LIB/etcd.sh" "$FIRST_ADDRESS" "$port" $(($2 + PORT_OFFSET))
    await etcd "$port"
  fi
  if [[ -n ${NATS_SERVER_BIN:-} ]]; then
    local port=$(($3 + PORT_OFFSET))
    launch nats 0 1 "$NATS_SERVER_BIN" --addr "$FIRST_ADDRESS" --port "$port"
    await nats "$port"
    export DYN_EVENT_PLANE=nats NATS_SERVER=nats://$FIRST_ADDRESS:$port
  fi
}

await() { # await STEP PORT: until a service on the first node takes connections
  local i
  for ((i = 0; i < 300; i++)); do
    ! (: <"/dev/tcp/$FIRST_ADDRESS/$2") 2>/dev/null || return 0
    kill -0 "${STEPS[$1]}" 2>/dev/null || break
    sleep 0.1
  done
  end step_ended 1 "$1" "$1 does not answer on $FIRST_ADDRESS:$2; see logs/$1.0.log"
}

serve() { # the job's life from here: every step's end but the probe's success is a failure, 0 included
  local name code left
  while true; do
    for name in "${!STEPS[@]}"; do
      ! kill -0 "${STEPS[$name]}" 2>/dev/null || continue
      wait "${STEPS[$name]}"
      code=$?
      unset "STEPS[$name]"
      event step_ended "\"step\": \"$name\", \"code\": $code"
      case $name:$code in
        probe:0) ;;
        probe:5) end deadline 5 probe "not READY within $READY_TIMEOUT_S s" ;;
        *) end step_ended 1 "$name" "$name ended with code $code; see logs/$name.*.log" ;;
      esac
    done
    left=$((END_TIME - RESERVE_S - $(date +%s)))
    if ((left <= 0)); then
      is_ready && end served 0
      end deadline 5 "" "the time limit is near and the endpoint is not READY"
    fi
    sleep 0.5 &
    wait $! # a trap runs at once when wait is interrupted
  done
}
