#!/usr/bin/env bash
# Run a script of this folder with the python3 of the container, or of the site's PATH_PREFIX: python.sh SCRIPT [ARGUMENTS]
set -euo pipefail
[[ -z ${PATH_PREFIX:-} ]] || PATH=$PATH_PREFIX:$PATH
exec python3 "${BASH_SOURCE[0]%/*}/$1" "${@:2}"
