#!/bin/bash
# nginx.sh [-p PREFIX]: lays Debian's nginx into PREFIX, and prints the path of the program.
#   -p  default /opt/recipegen-nginx, or a folder of ~/.cache for those who are not root
#
# The package is downloaded and unpacked, never installed: no web server starts on this machine, now or at its next boot, and none comes
# onto its PATH. Libraries that it lacks are installed, which root can. Where there is no apt-get, an nginx on the PATH is taken.
set -euo pipefail
PATIENCE=300 # seconds for any one step

PREFIX=/opt/recipegen-nginx
[ "$(id -u)" = 0 ] || PREFIX=${XDG_CACHE_HOME:-$HOME/.cache}/recipegen-nginx
while getopts p: option; do case $option in p) PREFIX=$OPTARG ;; *) exit 2 ;; esac; done
PROGRAM=$PREFIX/usr/sbin/nginx

fail() { echo "nginx.sh: $*" >&2; exit 1; }

apt() { timeout "$PATIENCE" apt-get -qq -o DPkg::Lock::Timeout="$PATIENCE" -o Acquire::Retries=3 -o APT::Sandbox::User=root "$@" </dev/null >&2; }

download() { # into the folder that this runs in; package lists may be missing, or older than the archive
  apt download nginx || { [ "$(id -u)" = 0 ] && apt update && apt download nginx; }
}

add_libraries() { # add_libraries DEB: those of its dependencies, where something is missing
  ! ldd "$PREFIX.new/usr/sbin/nginx" | grep -q 'not found' || {
    local names; mapfile -t names < <(dpkg-deb -f "$1" Depends | tr ',' '\n' | sed 's/^ *//; s/[ |(].*//' | grep '^lib\|^zlib')
    DEBIAN_FRONTEND=noninteractive apt install -y --no-install-recommends "${names[@]}"
  }
}

lay_out() {
  # what is replaced must be an earlier run's work
  [ ! -e "$PREFIX" ] || [ -z "$(ls -A "$PREFIX")" ] || [ -e "$PROGRAM" ] || fail "$PREFIX exists and is not ours: give another with -p"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  (cd "$folder" && download) || fail "apt-get could not download nginx"
  rm -rf "$PREFIX.new" && mkdir -p "$PREFIX.new"
  dpkg-deb -x "$folder"/nginx_*.deb "$PREFIX.new"
  add_libraries "$folder"/nginx_*.deb || fail "libraries of nginx are missing, and could not be installed"
  rm -rf "$PREFIX" && mv "$PREFIX.new" "$PREFIX"
}

if ! command -v apt-get >/dev/null; then
  command -v nginx || fail "there is neither apt-get nor nginx"
  exit
fi
mkdir -p "$(dirname "$PREFIX")"
exec 9> "$PREFIX.lock"
flock -w $((4 * PATIENCE)) 9 || fail "another nginx.sh holds $PREFIX.lock"
"$PROGRAM" -v 2>/dev/null || lay_out
"$PROGRAM" -v 2>/dev/null || fail "$PROGRAM does not run here"
echo "$PROGRAM"
