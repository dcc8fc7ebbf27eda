# shellcheck shell=bash
# processes.sh: how up.sh and down.sh know the cluster's processes: by recorded pids and by pinned namespaces.
#
# A daemon is known by its pid file. What a job leaves behind has none, but it cannot leave the UTS namespace of its node:
# each node's is held in a file, $BASE/ns/NODE, so its number is nobody else's while the cluster is there.
# Expects BASE; sourced, never run.

fail() { echo "$(basename "$0"): $*" >&2; exit 1; }

running() { # running PID: a zombie does not count, though an init that reaps slowly leaves it in /proc for a while
  local stat; stat=$(cat "/proc/$1/stat" 2>/dev/null) && [[ ${stat##*) } != Z* ]]
}

recorded_pid() { # recorded_pid PIDFILE NAME: prints the pid if it runs and still is that program, not a later one
  local pid name; [ -s "$1" ] && pid=$(< "$1") && running "$pid" || return 1
  name=$(cat "/proc/$pid/comm" 2>/dev/null) && [ "$name" = "$2" ] && echo "$pid"
}

alive() { recorded_pid "$@" >/dev/null; }

wait_for() { # wait_for SECONDS WHAT CMD...
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { last_words; fail "$what did not come up; see $BASE/log"; }
    sleep 0.05
  done
}

last_words() { # on stderr, since the logs may be deleted with the cluster that failed
  tail -q -n 3 "$BASE/log/start.log" 2>/dev/null >&2
  grep -h -e fatal -e error "$BASE"/log/slurm*.log 2>/dev/null | tail -n 5 >&2
}

pin_host() { # pin_host NAME: a UTS namespace with that hostname, held in $BASE/ns/NAME
  local file=$BASE/ns/$1
  mountpoint -q "$file" && return 0
  touch "$file"
  unshare --uts="$file" hostname "$1"
}

unpin_hosts() {
  local file; for file in "$BASE"/ns/*; do [ ! -e "$file" ] || { umount "$file" 2>/dev/null; rm -f "$file"; }; done
}

start_on() { # start_on NAME NSENTER_OPTION... -- CMD...: starts a daemon on a node or on the login node
  local name=$1 enter=(); shift
  while [ "$1" != -- ]; do enter+=("$1"); shift; done; shift
  # own mount namespace: /etc/hosts knows the nodes; all else is shared with the host, /tmp too
  # the descriptors go to files: a daemon that kept ours would hold up whoever reads the output of up.sh
  # shellcheck disable=SC2016
  nsenter --uts="$BASE/ns/$name" "${enter[@]}" unshare --mount --propagation private \
    sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$BASE/etc/hosts" "$@" \
    </dev/null >>"$BASE/log/start.log" 2>&1 || { last_words; fail "$1 did not start on $name"; }
}

stop() { # stop NAME PIDFILE...: TERM to each that still runs, ten seconds to go, then KILL
  local name=$1 file pid pids=() _; shift
  for file in "$@"; do pid=$(recorded_pid "$file" "$name") && kill "$pid" && pids+=("$pid"); done
  for _ in $(seq 100); do
    mapfile -t pids < <(for pid in "${pids[@]}"; do running "$pid" && echo "$pid"; done)
    [ ${#pids[@]} -gt 0 ] || break
    sleep 0.1
  done
  for pid in "${pids[@]}"; do kill -KILL "$pid" 2>/dev/null; done
  rm -f "$@"
}

pids_on_hosts() { # the processes in the namespaces of the nodes and of the login node, this script's own line left out
  local file ours=' ' number path pid own=' ' up=$$
  while [ "$up" -gt 1 ]; do own+="$up "; up=$(sed 's/.*) . //; s/ .*//' "/proc/$up/stat"); done
  for file in "$BASE"/ns/*; do ! mountpoint -q "$file" || ours+="$(stat -Lc %i "$file") "; done
  stat -Lc '%i %n' /proc/[0-9]*/ns/uts 2>/dev/null | while read -r number path; do
    pid=${path#/proc/}; pid=${pid%%/*}
    [[ $ours != *" $number "* || $own == *" $pid "* ]] || ! running "$pid" || echo "$pid"
  done
}

sweep_hosts() { # ends what jobs and logins left on the nodes; looks again, since what is being ended may still fork
  local pids _
  for _ in $(seq 50); do
    mapfile -t pids < <(pids_on_hosts)
    [ ${#pids[@]} -gt 0 ] || return 0
    kill -KILL "${pids[@]}" 2>/dev/null
    sleep 0.05
  done
}
