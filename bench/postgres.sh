# A PostgreSQL of a benchmark's own, to be sourced: its data in a folder, on a free port of the loopback.
# shellcheck shell=bash

bin=$(command -v initdb >/dev/null && dirname "$(command -v initdb)" || ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)

# PostgreSQL refuses to run as root.
as_user() {
  if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# start_postgres FOLDER: leaves its port in `port`, and its first process in `postmaster`.
start_postgres() {
  local folder=$1
  mkdir "$folder/postgres"
  [ "$(id -u)" != 0 ] || chown postgres "$folder/postgres"
  port=$(free_port)
  (
    cd /
    as_user "$bin/initdb" -D "$folder/postgres/data" -U postgres --auth=trust -E UTF8 --locale=C.UTF-8 --no-sync >/dev/null
    as_user tee -a "$folder/postgres/data/postgresql.auto.conf" >/dev/null <<CONF
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = '$folder/postgres'
max_connections = 200
shared_buffers = 512MB
max_wal_size = 8GB
checkpoint_timeout = 15min
wal_compression = on
CONF
    as_user "$bin/pg_ctl" -D "$folder/postgres/data" -w -s -l "$folder/postgres/log" start
  )
  postmaster=$(head -1 "$folder/postgres/data/postmaster.pid")
}

stop_postgres() {
  [ ! -d "$1/postgres/data" ] || (cd / && as_user "$bin/pg_ctl" -D "$1/postgres/data" -m immediate -s stop) || true
}
