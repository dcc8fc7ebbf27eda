# shellcheck shell=bash
# config.sh: writes the cluster's configuration: slurm.conf and its fellows, hosts, env, login and cluster.json.
#
# Expects the variables that up.sh sets; sourced, never run.

# ---- names and addresses: racks of PER_RACK nodes, as an NVL72 rack has 18 of 4 GPUs
node_name() { printf 'gb300-r%02d-c%02d' $((($1 - 1) / PER_RACK + 1)) $((($1 - 1) % PER_RACK + 1)); }
node_addr() { if [ "$MODE" = loop ]; then echo 127.0.0.1; else echo "$NET.$((($1 - 1) / PER_RACK + 1)).$((($1 - 1) % PER_RACK + 1))"; fi; }
each_rack() { # each_rack CMD: CMD gets the number of the rack, and the numbers of its first and its last node
  local rack last
  for rack in $(seq 1 $(((NODES + PER_RACK - 1) / PER_RACK))); do
    last=$((rack * PER_RACK < NODES ? rack * PER_RACK : NODES))
    "$1" "$rack" $(((rack - 1) * PER_RACK + 1)) $last
  done
}
span() { if [ "$1" = "$2" ]; then echo "$1"; else echo "${3:-}$1-$2${4:-}"; fi; } # span FIRST LAST [OPEN CLOSE]
rack_nodes() { printf 'gb300-r%02d-c%s' "$1" "$(span 01 "$(printf %02d $(($3 - $2 + 1)))" '[' ']')"; }

write_hosts() {
  # Slurm binds to the address of gethostname() (NoInAddrAny), so each node's own name must give its own address.
  # The file is bind-mounted over /etc/hosts on the nodes; the host's own is left alone.
  local i; echo '127.0.0.1 localhost'; echo "$HEAD login"
  for i in $(seq 1 "$NODES"); do echo "$(node_addr "$i") $(node_name "$i")"; done
}

# ---- slurm.conf
node_line() {
  local addr=127.0.0.1; [ "$MODE" = loop ] || addr=$NET.$1.$(span 1 $(($3 - $2 + 1)) '[' ']')
  echo "NodeName=$(rack_nodes "$@") NodeHostname=$(rack_nodes "$@") NodeAddr=$addr" \
    "Port=$(span $((FIRST_PORT + 9 + $2)) $((FIRST_PORT + 9 + $3))) Sockets=2 CoresPerSocket=72 ThreadsPerCore=1" \
    "RealMemory=900000 Gres=gpu:gb300:4 Feature=gb300,nvl72,rack$(printf %02d "$1") State=UNKNOWN"
}
conf_places() {
  cat <<C
ClusterName=gb300
SlurmctldHost=localhost($HEAD)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$FIRST_PORT
PluginDir=$PLUGINDIR
AuthType=auth/munge
AuthInfo=socket=$SOCK/munge.socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$STATE
SlurmdSpoolDir=$BASE/spool/%n
# one per node, or PMIx cannot make its directory
TmpFS=$BASE/tmp/%n
SlurmctldPidFile=$PID/slurmctld.pid
SlurmdPidFile=$PID/slurmd.%n.pid
SlurmctldLogFile=$LOG/slurmctld.log
SlurmdLogFile=$LOG/slurmd.%n.log
SlurmctldDebug=info
SlurmdDebug=info
MailProg=/bin/true
PlugStackConfig=$ETC/plugstack.conf
C
}
conf_behaviour() {
  cat <<C
ProctrackType=proctrack/linuxproc
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0
PriorityType=priority/basic
GresTypes=gpu
TopologyPlugin=topology/$TOPOLOGY
# nodes may claim the CPUs and the memory of a GB300 tray on a small machine
SlurmdParameters=config_overrides
ReturnToService=2
MessageTimeout=30
TreeWidth=65533
SlurmctldTimeout=60
# short, so that a dead node is noticed within half a minute
SlurmdTimeout=10
InactiveLimit=0
KillWait=5
MinJobAge=600
MaxJobCount=20000
MaxArraySize=10001
JobRequeue=1
C
  [ "$CGROUP" = 0 ] || echo TaskPlugin=task/cgroup
}
conf_accounting() {
  [ "$ACCOUNTING" = 0 ] || cat <<C
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$HEAD
AccountingStoragePort=$((FIRST_PORT + 1))
AccountingStoragePass=$SOCK/munge.socket
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment,job_script
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
C
}
conf_nodes() {
  each_rack node_line
  echo 'PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=01:00:00 DefMemPerCPU=6000 State=UP'
  echo 'PartitionName=debug Nodes=gb300-r01-c01 MaxTime=00:10:00 State=UP'
}

# ---- its fellows
switch_line() { printf 'SwitchName=nvl72-r%02d Nodes=%s\n' "$1" "$(rack_nodes "$@")"; }
block_line() { printf 'BlockName=nvl72-r%02d Nodes=%s\n' "$1" "$(rack_nodes "$@")"; }
conf_topology() {
  local racks=$(((NODES + PER_RACK - 1) / PER_RACK)) rest=$((NODES - (NODES - 1) / PER_RACK * PER_RACK))
  if [ "$TOPOLOGY" = tree ]; then
    each_rack switch_line
    echo "SwitchName=spine Switches=nvl72-r$(span 01 "$(printf %02d $racks)" '[' ']')"
  else
    each_rack block_line
    # slurmctld refuses a block with fewer nodes than the block size: the smallest rack decides
    echo "BlockSizes=$((rest < PER_RACK ? rest : PER_RACK))"
  fi
}
conf_cgroup() {
  printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=%s\n' "$([ "$CGROUP" = 0 ] && echo no || echo yes)"
}
make_gpus() { # slurmd wants a character or block device for each gres File: clones of /dev/null
  local i; for i in 0 1 2 3; do [ -c "$BASE/gpu/gb300_$i" ] || mknod "$BASE/gpu/gb300_$i" c 1 3; done
}

# ---- for those who use the cluster
write_env() { echo "export SLURM_CONF=$ETC/slurm.conf PATH=$PREFIX/bin:\$PATH"; }
write_login() {
  cat <<'C'
#!/bin/bash
# login CMD...: runs CMD on the login node: its hostname is "login" and node names resolve (srun needs that)
B=$(cd "$(dirname "$0")" && pwd); . "$B/env"
exec nsenter --uts="$B/ns/login" unshare --mount --propagation private \
  sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$B/etc/hosts" "$@"
C
}
write_json() {
  local i comma=''
  printf '{"head": "%s", "bridge": "%s", "bin": "%s", "ssh_port": %d, "nodes": {' "$HEAD" "${BRIDGE:-}" "$PREFIX/bin" $((FIRST_PORT + 3))
  for i in $(seq 1 "$NODES"); do printf '%s"%s": "%s"' "$comma" "$(node_name "$i")" "$(node_addr "$i")"; comma=', '; done
  echo '}}'
}

write_configuration() {
  make_gpus
  write_hosts > "$ETC/hosts"
  { conf_places; conf_behaviour; conf_accounting; conf_nodes; printf '%s' "$EXTRA"; } > "$ETC/slurm.conf.new"
  conf_cgroup > "$ETC/cgroup.conf"
  printf 'AutoDetect=off\nName=gpu Type=gb300 File=%s/gpu/gb300_[0-3]\n' "$BASE" > "$ETC/gres.conf"
  conf_topology > "$ETC/topology.conf"
  echo "required $PREFIX/spank_fakepyxis.so $PLUGIN_ARGS" > "$ETC/plugstack.conf"
  mv "$ETC/slurm.conf.new" "$ETC/slurm.conf"
  write_env > "$BASE/env"
  write_login > "$BASE/login"
  chmod 755 "$BASE/login"
  write_json > "$BASE/cluster.json"
}
