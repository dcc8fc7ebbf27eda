#!/bin/bash
# install.sh [-v VERSION] [-p PREFIX] [-a] [-n]: puts what a test cluster needs onto a bare Debian 12, as root.
#   -v  24.11 (default), or 22.05: a site whose Slurm is too old for --segment
#   -p  where Slurm goes; default /opt/recipegen-slurm24 or /opt/recipegen-slurm22
#   -a  also what accounting needs (up.sh -a)
#   -n  install nothing: only say, in one line on stderr, why it could not be done here; exit 1 if so
#
# Packages come by apt, with their services kept from starting; Slurm and the stand-in for pyxis go into PREFIX alone
# (unpack.sh). Prints PREFIX. A second run looks at a stamp and is done in a moment; two at once wait for each other.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
PACKAGES=(munge patchelf iproute2 gcc libc6-dev etcd-server openssh-server curl)
PATIENCE=900        # seconds for any one step: a slow archive must end in a message, not in a hang

VERSION=24.11 PREFIX='' CHECK_ONLY=0
while getopts v:p:an option; do case $option in
  v) VERSION=$OPTARG ;; p) PREFIX=$OPTARG ;; a) PACKAGES+=(mariadb-server) ;; n) CHECK_ONLY=1 ;; *) exit 2 ;; esac; done
case $VERSION in 24.11 | 22.05) ;; *) echo "install.sh: no Slurm $VERSION here: 24.11 or 22.05" >&2; exit 2 ;; esac
PREFIX=${PREFIX:-/opt/recipegen-slurm${VERSION%.*}}
STAMP=$PREFIX/.recipegen-slurm POLICY=/usr/sbin/policy-rc.d

fail() { echo "install.sh: $*" >&2; exit 1; }

require_machine() {
  [ "$(id -u)" = 0 ] || fail "the test cluster needs root (namespaces, device nodes): this is $(id -un)"
  grep -qsx 'ID=debian' /etc/os-release || fail "the test cluster is made of Debian packages: this is not Debian"
  command -v apt-get >/dev/null || fail "the test cluster is made of Debian packages: there is no apt-get"
  [ "$(dpkg --print-architecture)" = amd64 ] || fail "the test cluster is for amd64: this is $(dpkg --print-architecture)"
  unshare --uts --mount --net true 2>/dev/null || fail "the test cluster needs namespaces of its own: unshare is refused here"
}

missing_packages() { # those of PACKAGES that are not installed
  local package
  for package in "${PACKAGES[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

keep_services_down() { # for the duration of this script, unless the machine has a policy of its own
  [ ! -e $POLICY ] || return 0
  printf '#!/bin/sh\nexit 101\n' > $POLICY
  chmod 755 $POLICY
  trap 'rm -f $POLICY' EXIT
}

install_packages() {
  local missing; mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  keep_services_down
  local apt=(timeout "$PATIENCE" apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
  export DEBIAN_FRONTEND=noninteractive
  # </dev/null: a maintainer script that asks must get an end of file, not a terminal
  { "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${missing[@]}"; } </dev/null >&2 ||
    fail "apt-get could not install: ${missing[*]}"
}

recipe_digest() { cat "$HERE/unpack.sh" "$HERE/spank_fakepyxis.c" | sha256sum | cut -d ' ' -f 1; }

require_own_prefix() { # what is replaced must be an earlier run's work
  if [ -d "$PREFIX" ] && [ -n "$(ls -A "$PREFIX")" ] && [ ! -e "$STAMP" ]; then
    fail "$PREFIX exists and is not ours: give another with -p"; fi
}

lay_out_slurm() { # lay_out_slurm STAGE
  timeout "$PATIENCE" "$HERE/unpack.sh" "$VERSION" "$PREFIX" "$1" >&2 || fail "Slurm $VERSION could not be laid out in $1"
  # Slurm loads only plugins built for its own version: each prefix gets its own
  gcc -O1 -Wall -Wextra -Werror -shared -fPIC -I"$1/usr/include" -o "$1/spank_fakepyxis.so" "$HERE/spank_fakepyxis.c" ||
    fail "the pyxis stand-in does not compile against Slurm $VERSION"
}

install_slurm() {
  local digest stage=$PREFIX.new
  digest=$(recipe_digest)
  [ "$(cat "$STAMP" 2>/dev/null)" != "$digest" ] || return 0
  require_own_prefix
  rm -rf "$stage" "$PREFIX.old"
  mkdir -p "$stage"
  lay_out_slurm "$stage"
  echo "$digest" > "$stage/$(basename "$STAMP")"
  # in one move: clusters that run from the old one go on with the new, and an interrupted run leaves the old as it was
  [ ! -e "$PREFIX" ] || mv "$PREFIX" "$PREFIX.old"
  mv "$stage" "$PREFIX"
  rm -rf "$PREFIX.old"
}

require_machine
[ $CHECK_ONLY = 0 ] || exit 0
mkdir -p "$(dirname "$PREFIX")"
exec 9> "$PREFIX.lock"
flock -w $PATIENCE 9 || fail "another install.sh holds $PREFIX.lock"
install_packages
install_slurm
echo "$PREFIX"
