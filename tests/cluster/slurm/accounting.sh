# shellcheck shell=bash
# accounting.sh: the accounting of up.sh -a: slurmdbd on a private mariadbd.
#
# Expects the variables that up.sh sets and the functions of processes.sh; sourced, never run.

sql_port() { echo $((FIRST_PORT + 2)); }
sql() { "$1" --no-defaults -uroot -S "$SOCK/mysql.sock" "${@:2}"; }

start_database() {
  command -v mariadbd >/dev/null || fail "accounting needs mariadb-server: install.sh -a"
  [ -d "$STATE/mysql/mysql" ] || mariadb-install-db --no-defaults --user=root --datadir="$STATE/mysql" \
    --auth-root-authentication-method=normal --skip-test-db > "$LOG/mariadb-install.log" 2>&1
  # durability is of no use here: a database that survives a power failure only costs time
  # mariadbd stays in the foreground: setsid -f
  alive "$PID/mariadbd.pid" mariadbd || start_on login -- setsid -f mariadbd --no-defaults --user=root --datadir="$STATE/mysql" \
    --socket="$SOCK/mysql.sock" --port="$(sql_port)" --bind-address="$HEAD" --pid-file="$PID/mariadbd.pid" \
    --log-error="$LOG/mariadb.log" --skip-name-resolve --innodb-buffer-pool-size=64M --innodb-log-file-size=64M \
    --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 --innodb-doublewrite=0 --sync-binlog=0
  wait_for 30 mariadbd sql mariadb-admin ping
  sql mariadb -e "create database if not exists slurm_acct_db;
    create user if not exists 'slurm'@'$HEAD' identified by 'slurm'; grant all on slurm_acct_db.* to 'slurm'@'$HEAD'"
}

conf_slurmdbd() {
  cat <<C
AuthType=auth/munge
AuthInfo=socket=$SOCK/munge.socket
CommunicationParameters=NoInAddrAny
DbdHost=localhost
DbdAddr=$HEAD
DbdPort=$((FIRST_PORT + 1))
PluginDir=$PLUGINDIR
SlurmUser=root
DebugLevel=info
LogFile=$LOG/slurmdbd.log
PidFile=$PID/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=$HEAD
StoragePort=$(sql_port)
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
CommitDelay=1
C
}

start_accounting() {
  start_database
  if ! alive "$PID/slurmdbd.pid" slurmdbd; then
    (umask 077; conf_slurmdbd > "$ETC/slurmdbd.conf")
    start_on login -- slurmdbd
  fi
  wait_for 30 slurmdbd sacctmgr -n list cluster
  sacctmgr -n list cluster format=cluster | grep -qw gb300 || sacctmgr -i add cluster gb300 > /dev/null
}
