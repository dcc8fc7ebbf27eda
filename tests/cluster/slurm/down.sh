#!/bin/bash
# down.sh -b BASE [-w]: ends the cluster that up.sh -b BASE made; -w also deletes BASE.
#
# It ends only what is recorded in BASE: daemons by their pid files, what jobs left behind by the namespaces of the nodes
# (processes.sh), the network by its list (network.sh). Nothing is looked for by name. Safe to repeat, and after an up.sh
# that failed half-way.
set -uo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
. "$HERE/processes.sh"
. "$HERE/network.sh"

BASE='' WIPE=0
while getopts b:w option; do case $option in b) BASE=$OPTARG ;; w) WIPE=1 ;; *) exit 2 ;; esac; done
[ -n "$BASE" ] || fail "-b BASE is needed"
[ -d "$BASE" ] || exit 0
if [ -z "$(ls -A "$BASE")" ]; then [ $WIPE = 0 ] || rmdir "$BASE"; exit 0; fi      # an up.sh that never began
BASE=$(cd "$BASE" && pwd) PID=$BASE/pid
[ -d "$PID" ] && [ -d "$BASE/ns" ] || fail "$BASE is not a run directory of up.sh"
# shellcheck disable=SC1091
[ ! -f "$BASE/env" ] || . "$BASE/env"

no_jobs() { [ -z "$(timeout 10 squeue -h -t R,CG,S -o %A 2>/dev/null)" ]; }

cancel_jobs() { # while the controller is there: steps outlive slurmd
  local ids _
  alive "$PID/slurmctld.pid" slurmctld || return 0
  mapfile -t ids < <(timeout 10 squeue -h -o %A 2>/dev/null | sort -u)
  [ ${#ids[@]} -gt 0 ] || return 0
  timeout 30 scancel --signal=KILL --full "${ids[@]}" 2>/dev/null
  timeout 30 scancel "${ids[@]}" 2>/dev/null
  for _ in $(seq 30); do no_jobs && break; sleep 0.1; done
}

remove_cgroups() { # of up.sh -g: Slurm leaves one directory per node
  local node cgroup
  grep -qs task/cgroup "$BASE/etc/slurm.conf" || return 0
  for node in "$BASE"/spool/*/; do
    for cgroup in /sys/fs/cgroup/*/slurm_"$(basename "$node")"; do
      [ ! -d "$cgroup" ] || find "$cgroup" -depth -type d -exec rmdir {} \; 2>/dev/null
    done
  done
}

cancel_jobs
stop slurmd "$PID"/slurmd.*.pid
stop slurmctld "$PID/slurmctld.pid"
stop slurmdbd "$PID/slurmdbd.pid"
stop mariadbd "$PID/mariadbd.pid"
stop sshd "$PID/sshd.pid"
stop munged "$PID/munged.pid"
sweep_hosts
unpin_hosts
remove_network
remove_cgroups
[ $WIPE = 0 ] || rm -rf "$BASE"
