#!/usr/bin/env bash
# One whole run on this machine, without Slurm or GPUs: submit a published point in simulation, wait until it is READY, ask it
# something, show that the answer passed through a prefill worker, tear down. Usage: docs/demo.sh LEAF
set -euo pipefail

leaf=$1
point=1xtp2dep4-1xtp8-mtp-cc32-64
here=$(cd "$(dirname "$0")" && pwd)
state=$(mktemp -d "${TMPDIR:-/tmp}/recipegen-demo.XXXXXX")
export XDG_STATE_HOME=$state

run=
finish() {
  [[ -z $run ]] || recipegen cancel "$run"
  rm -rf "$state"
}
trap finish EXIT

run=$(recipegen submit "$leaf" --point "$point" --cluster local --simulate)
recipegen watch "$run" --until ready
python3 "$here/ask.py" "$(recipegen status "$run" --format json)"
