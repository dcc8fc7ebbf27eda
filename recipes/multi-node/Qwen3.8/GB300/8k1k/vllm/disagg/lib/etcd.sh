#!/usr/bin/env bash
# A one-member etcd for this job, its data on the node's own disk and removed with it: etcd.sh ADDRESS PORT PEER_PORT
set -uo pipefail
data=$(mktemp -d "${TMPDIR:-/tmp}/recipegen-etcd-$SLURM_JOB_ID.XXXXXX") || exit
trap 'kill -s TERM "$server"' TERM INT
trap 'rm -rf "$data"' EXIT
"${ETCD:-etcd}" --data-dir "$data" --log-level warn --unsafe-no-fsync \
  --listen-client-urls "http://$1:$2" --advertise-client-urls "http://$1:$2" \
  --listen-peer-urls "http://$1:$3" --initial-advertise-peer-urls "http://$1:$3" --initial-cluster "default=http://$1:$3" &
server=$!
wait "$server"
code=$?
while kill -0 "$server" 2>/dev/null; do wait "$server"; done # a trap interrupts the first wait
exit "$code"
