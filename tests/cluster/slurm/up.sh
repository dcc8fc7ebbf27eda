#!/bin/bash
# up.sh -b BASE [OPTION...]: brings up a real Slurm cluster of many nodes on this one machine, as root, without systemd.
#   -b  run directory: configuration, state, logs, pid files; short, since sockets lie below it
#   -x  prefix made by install.sh                                         default /opt/recipegen-slurm24
#   -n  number of compute nodes                                           default 18
#   -r  nodes in a rack                                                   default 18
#   -m  loop: all on 127.0.0.1, nodes differ by port; netns: each node with an address and ports of its own   default loop
#   -i  netns: name of the bridge, at most 10 characters                  default the first free of rg0..rg99
#   -N  netns: first two numbers of the network                           default 10.77 with -i, else 10.<100 + its number>
#   -p  first port: slurmctld, slurmdbd, mariadbd, sshd; the nodes from +10 on   default 16800
#   -t  topology plugin: tree or block                                    default block where Slurm has it
#   -a  accounting by slurmdbd and a private mariadbd
#   -s  an sshd into the login node, key BASE/etc/ssh/id_ed25519
#   -g  hold jobs to their --mem by cgroup v1 (gives OUT_OF_MEMORY)
#   -o  argument for the pyxis stand-in, nocheck or segment; may be repeated
#   -c  one more line for slurm.conf; may be repeated
#   -k  keep the jobs of the last run
#
# Several clusters can be up at once: netns ones as they are, loop ones with ports apart. Idempotent: what runs is left
# alone, what died is started again. Then: `. BASE/env` for sbatch, squeue, ...; `BASE/login CMD` for srun and salloc;
# addresses in BASE/cluster.json; `down.sh -b BASE` to end it.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/processes.sh"
. "$HERE/network.sh"
. "$HERE/config.sh"
. "$HERE/accounting.sh"
. "$HERE/sshd.sh"

BASE='' PREFIX=/opt/recipegen-slurm24 NODES=18 PER_RACK=18 MODE=loop BRIDGE='' NET=10.77 FIRST_PORT=16800 TOPOLOGY=''
ACCOUNTING=0 SSHD=0 CGROUP=0 PLUGIN_ARGS='' EXTRA='' KEEP=0 OPTIONS=''
while getopts b:x:n:r:m:i:N:p:t:asgo:c:k option; do case $option in
  b) BASE=$OPTARG ;; x) PREFIX=$OPTARG ;; n) NODES=$OPTARG ;; r) PER_RACK=$OPTARG ;; m) MODE=$OPTARG ;;
  i) BRIDGE=$OPTARG ;; N) NET=$OPTARG ;; p) FIRST_PORT=$OPTARG ;; t) TOPOLOGY=$OPTARG ;;
  a) ACCOUNTING=1 ;; s) SSHD=1 ;; g) CGROUP=1 ;; o) PLUGIN_ARGS+=" $OPTARG" ;; c) EXTRA+=$OPTARG$'\n' ;; k) KEEP=1 ;;
  *) exit 2 ;; esac
  [ "$option" = k ] || OPTIONS+="-$option${OPTARG:+ $OPTARG} "
done

check_options() {
  [ "$(id -u)" = 0 ] || fail "must run as root"
  [ -n "$BASE" ] || fail "-b BASE is needed"
  [ -f "$PREFIX/spank_fakepyxis.so" ] || fail "no Slurm in $PREFIX: install.sh first"
  case $MODE in loop | netns) ;; *) fail "-m $MODE: loop or netns" ;; esac
  # the kernel's limits: 15 characters for a cable's name, 107 for the path of a step's socket below BASE/spool
  [ ${#BRIDGE} -le 10 ] || fail "-i $BRIDGE: at most 10 characters"
  [ ${#BASE} -le 56 ] || fail "-b $BASE: at most 56 characters"
}

make_directories() {
  mkdir -p "$BASE"
  BASE=$(cd "$BASE" && pwd)
  ETC=$BASE/etc LOG=$BASE/log PID=$BASE/pid STATE=$BASE/state SOCK=$BASE/sock
  mkdir -p "$ETC" "$LOG" "$PID" "$STATE" "$SOCK" "$BASE"/{spool,gpu,tmp,ns}
  # munged refuses a socket or key below a directory that others can write without the sticky bit
  chmod 755 "$BASE" "$ETC" "$LOG" "$PID" "$STATE" "$SOCK"
}

use_prefix() {
  export PATH=$PREFIX/bin:$PREFIX/sbin:$PATH:/usr/sbin:/sbin SLURM_CONF=$ETC/slurm.conf
  # a relocated Slurm has to be told where its plugins are
  PLUGINDIR=$PREFIX/usr/lib/x86_64-linux-gnu/slurm-wlm
  [ -n "$TOPOLOGY" ] || { [ -e "$PLUGINDIR/topology_block.so" ] && TOPOLOGY=block || TOPOLOGY=tree; }
}

refuse_change() { # the daemons must all have read the same slurm.conf: no other options under running ones
  if alive "$PID/slurmctld.pid" slurmctld && [ "$(cat "$BASE/options" 2>/dev/null)" != "$OPTIONS" ]; then
    fail "already up with other options ($(cat "$BASE/options")): down.sh first"; fi
  echo "$OPTIONS" > "$BASE/options"
}

make_hosts() { # network and hostnames
  local i
  if [ "$MODE" = netns ]; then make_network; HEAD=$NET.0.1; else HEAD=127.0.0.1; fi
  pin_host login
  for i in $(seq 1 "$NODES"); do pin_host "$(node_name "$i")"; done
}

start_munge() {
  if ! alive "$PID/munged.pid" munged; then
    [ -s "$ETC/munge.key" ] || (umask 077; head -c 128 /dev/urandom > "$ETC/munge.key")
    chmod 400 "$ETC/munge.key"
    rm -f "$SOCK/munge.socket"*
    # --force: all here is root's, and the directory above may well be closed to everybody else
    start_on login -- munged --force --key-file="$ETC/munge.key" --socket="$SOCK/munge.socket" --pid-file="$PID/munged.pid" \
      --log-file="$LOG/munged.log" --seed-file="$STATE/munged.seed" --num-threads=10
  fi
  wait_for 10 munged munge -n -S "$SOCK/munge.socket"
}

forget_last_run() {
  # slurmctld -c alone keeps more than the jobs, and dies on the state of a Slurm too old or too new; job ids start at 1
  # again, so the accounting of the last run goes too
  if [ $KEEP = 0 ] && ! alive "$PID/slurmctld.pid" slurmctld && ! alive "$PID/mariadbd.pid" mariadbd; then
    find "$STATE" -mindepth 1 -maxdepth 1 ! -name munged.seed -exec rm -rf {} +; fi
}

start_slurmctld() {
  alive "$PID/slurmctld.pid" slurmctld || start_on login -- slurmctld
  wait_for 20 slurmctld scontrol ping
}

start_node() { # start_node NAME
  local enter=()
  alive "$PID/slurmd.$1.pid" slurmd && return 0
  mkdir -p "$BASE/spool/$1" "$BASE/tmp/$1"
  [ "$MODE" = loop ] || enter=(--net="/run/netns/$(netns_of "$1")")
  start_on "$1" "${enter[@]}" -- slurmd -N "$1" -d "$PREFIX/sbin/slurmstepd"
}

all_idle() { [ "$(sinfo -h -N -p batch -t idle,mix,alloc -o %N | sort -u | wc -l)" -ge "$NODES" ]; }

start_nodes() {
  local i; for i in $(seq 1 "$NODES"); do start_node "$(node_name "$i")"; done
  wait_for 60 "the last of $NODES nodes" all_idle
}

started=$(date +%s%3N)
check_options
make_directories
use_prefix
refuse_change
make_hosts
write_configuration
forget_last_run
start_munge
[ $ACCOUNTING = 0 ] || start_accounting
start_slurmctld
start_nodes
[ $SSHD = 0 ] || start_sshd
echo "up: Slurm $(slurmctld -V | sed 's/.* //'), $NODES nodes, $MODE${BRIDGE:+ on $BRIDGE}, topology $TOPOLOGY, $(($(date +%s%3N) - started)) ms"
echo ". $BASE/env"
