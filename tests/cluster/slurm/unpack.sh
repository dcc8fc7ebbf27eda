#!/bin/bash
# unpack.sh VERSION PREFIX STAGE: lays a Debian build of Slurm, 24.11 or 22.05, with its own C library into STAGE, made to
# run from PREFIX once STAGE is moved there.
#
# The packages are downloaded, unpacked and relocated, never installed: nothing outside STAGE changes, no srun comes
# onto the machine's PATH, both versions can stand side by side, and the newer one runs on the older Debian.
# Needs apt-get, dpkg-deb, patchelf and perl. About 17 MB are downloaded.
set -euo pipefail

[ $# = 3 ] || { echo "usage: unpack.sh VERSION PREFIX STAGE" >&2; exit 2; }
VERSION=$1 PREFIX=$2 STAGE=$3
APT=$STAGE/.apt LIB=usr/lib/x86_64-linux-gnu
RPATH=$PREFIX/$LIB:$PREFIX/$LIB/slurm-wlm
# What the two have in common: Slurm itself, and the libraries its programs and the plugins we use are linked with.
SLURM=(slurm-wlm-basic-plugins slurm-client slurmctld slurmd slurmdbd slurm-wlm-mysql-plugin libslurm-dev)
LIBRARIES=(libc6 libgcc-s1 libstdc++6 libmunge2 libhwloc15 liblz4-1 libjson-c5 libyaml-0-2 libjansson4 libb64-0d libtinfo6
  libncursesw6 libdbus-1-3 libsystemd0 libcap2 libgcrypt20 libgpg-error0 libzstd1 liblzma5 libnuma1 libudev1 libpam0g
  libaudit1 libcap-ng0 libcrypt1 liblua5.1-0 libmariadb3 zlib1g libselinux1 libpcre2-8-0 libxxhash0)
case $VERSION in
24.11) SUITE=trixie; LIBRARIES+=(libslurm42t64 libjwt2 libreadline8t64 libssl3t64 libpmix2t64 libevent-core-2.1-7t64 libevent-pthreads-2.1-7t64) ;;
22.05) SUITE=bookworm; LIBRARIES+=(libslurm38 libjwt0 libreadline8 libssl3 libpmix2 libevent-core-2.1-7 libevent-pthreads-2.1-7) ;;
*) echo "unpack.sh: no Slurm $VERSION here: 24.11 or 22.05" >&2; exit 2 ;;
esac

debian_archive() { # the archive that this machine's own apt uses for Debian
  apt-get indextargets --format "\$(REPO_URI)" 'Created-By: Packages' | grep -v -e security -e debug | sort -u | head -n 1
}

download() { # fetches the packages with an apt state of our own, so that the machine's lists and sources stay as they are
  local uri; uri=$(debian_archive)
  [ -n "$uri" ] || { echo "unpack.sh: apt knows no Debian archive" >&2; exit 1; }
  mkdir -p "$APT"/{lists/partial,cache/archives/partial,sources,debs}
  cat > "$APT/sources/$SUITE.sources" <<C
Types: deb
URIs: $uri
Suites: $SUITE
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
C
  cat > "$APT/apt.conf" <<C
Dir::State::lists "$APT/lists";
Dir::State::status "/dev/null";
Dir::Cache "$APT/cache";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$APT/sources";
Acquire::Retries "3";
Acquire::http::Timeout "60";
APT::Sandbox::User "root";
C
  (cd "$APT/debs" && export APT_CONFIG=$APT/apt.conf &&
    apt-get -qq update && apt-get -qq download "${SLURM[@]/%//$SUITE}" "${LIBRARIES[@]/%//$SUITE}")
}

unpack() {
  local deb; for deb in "$APT"/debs/*.deb; do dpkg-deb -x "$deb" "$STAGE"; done
  # bookworm's packages still say /lib for some of what lies in /usr/lib
  [ ! -d "$STAGE/lib/x86_64-linux-gnu" ] || cp -a "$STAGE/lib/x86_64-linux-gnu/." "$STAGE/$LIB/"
  rm -rf "${STAGE:?}/lib" "${STAGE:?}/lib64"
}

relocate() { # programs and libraries look for each other, and for the C library, below PREFIX only
  local file loader=$PREFIX/$LIB/ld-linux-x86-64.so.2
  find "$STAGE/usr/bin" "$STAGE/usr/sbin" -type f | while read -r file; do
    patchelf --print-interpreter "$file" >/dev/null 2>&1 || continue
    patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$RPATH" "$file"
  done
  find "$STAGE/$LIB" -name '*.so*' -type f | while read -r file; do
    [ -z "$(patchelf --print-rpath "$file" 2>/dev/null)" ] ||
      patchelf --force-rpath --set-rpath "$RPATH" "$file"
  done
}

name_programs() { # bin/ and sbin/ with the plain names that Debian gives through its alternatives
  local file; mkdir -p "$STAGE/bin" "$STAGE/sbin"
  # The daemons are moved, not linked: on 'scontrol reconfigure' they start anew from /proc/self/exe, and a link would
  # then leave processes named slurmd-wlm.
  for file in "$STAGE"/usr/sbin/*-wlm; do [ ! -e "$file" ] || mv "$file" "${file%-wlm}"; done
  for file in "$STAGE"/usr/bin/*; do ln -sr "$file" "$STAGE/bin/"; done
  for file in "$STAGE"/usr/sbin/*; do ln -sr "$file" "$STAGE/sbin/"; done
}

use_own_pmix() { # the PMIx plugins open libpmix by an absolute path of the system, which may be another version and hang
  ln -s "$LIB/pmix2/lib" "$STAGE/pmix"
  ln -sf libpmix.so.2 "$STAGE/$LIB/pmix2/lib/libpmix.so"       # 22.05 asks for the development package's name
  local old=/usr/lib/x86_64-linux-gnu/pmix2/lib new=$PREFIX/pmix
  [ ${#new} -le ${#old} ] || return 0        # it must fit into the bytes of the old one; without it only --mpi=pmix is lost
  OLD=$old NEW=$new perl -0777 -pi -e \
    's/\Q$ENV{OLD}\E\0/$ENV{NEW} . "\0" x (1 + length($ENV{OLD}) - length($ENV{NEW}))/ge' "$STAGE/$LIB"/slurm-wlm/mpi_pmix_v*.so
}

download
unpack
relocate
name_programs
use_own_pmix
rm -rf "$APT"
