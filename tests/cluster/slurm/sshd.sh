# shellcheck shell=bash
# sshd.sh: the sshd of up.sh -s: root by key only, into the login node.
#
# Expects the variables that up.sh sets and the functions of processes.sh; sourced, never run.

make_keys() {
  local key
  mkdir -p /run/sshd "$ETC/ssh"
  chmod 700 "$ETC/ssh"
  for key in host_ed25519 id_ed25519; do [ -f "$ETC/ssh/$key" ] || ssh-keygen -q -t ed25519 -N '' -f "$ETC/ssh/$key"; done
  cp "$ETC/ssh/id_ed25519.pub" "$ETC/ssh/authorized_keys"
}

conf_sshd() {
  cat <<C
Port $((FIRST_PORT + 3))
ListenAddress $HEAD
HostKey $ETC/ssh/host_ed25519
AuthorizedKeysFile $ETC/ssh/authorized_keys
PidFile $PID/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
UseDNS no
MaxStartups 100:30:200
MaxSessions 100
Subsystem sftp internal-sftp
SetEnv SLURM_CONF=$ETC/slurm.conf PATH=$PREFIX/bin:/usr/local/bin:/usr/bin:/bin
C
}

start_sshd() {
  alive "$PID/sshd.pid" sshd && return 0
  command -v sshd > /dev/null || fail "no sshd: install.sh first"
  make_keys
  conf_sshd > "$ETC/ssh/sshd_config"
  start_on login -- "$(command -v sshd)" -f "$ETC/ssh/sshd_config" -E "$LOG/sshd.log"
  wait_for 10 sshd test -s "$PID/sshd.pid"
}
