#!/usr/bin/env bash
# Measures a cluster of three nodes on this machine: `lapse bench cluster` with a PostgreSQL and a nats-server of its own,
# on free ports of the loopback, with their data in a temporary folder, stopped at the end. Usage:
#
#   bench/cluster.sh [ARGUMENTS OF lapse bench cluster…]     such as --rates 1000,4200 --seconds 20
#
# LAPSE names the binary to measure; without it, a release build is made. The figures hold for this machine and what else
# ran on it: compare ratios.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh nats postgresql
if [ -z "${LAPSE:-}" ]; then
  cargo build --release
  LAPSE=$PWD/target/release/lapse
fi
[ -f plugins/dist/order-timeout.wasm ] || make plugins
nats=${NATS_SERVER:-$PWD/.tools/nats-server}
folder=$(mktemp -d)
chmod 711 "$folder"

# shellcheck source=bench/postgres.sh
. bench/postgres.sh

stop() {
  [ ! -s "$folder/nats.pid" ] || kill "$(cat "$folder/nats.pid")" 2>/dev/null || true
  stop_postgres "$folder"
  rm -rf "$folder"
}
trap stop EXIT

start_postgres "$folder"

nats_port=$(free_port)
cat >"$folder/nats.conf" <<CONF
host: 127.0.0.1
port: $nats_port
pid_file: "$folder/nats.pid"
jetstream { store_dir: "$folder/nats" }
CONF
start_nats="'$nats' --config '$folder/nats.conf' >'$folder/nats.log' 2>&1 </dev/null & while ! bash -c 'exec 3<>/dev/tcp/127.0.0.1/$nats_port' 2>/dev/null; do sleep 0.05; done"
sh -c "$start_nats"

pg_user=
[ "$(id -u)" != 0 ] || pg_user="runuser -u postgres --"
set +e
"$LAPSE" bench cluster \
  --database "postgres://postgres@127.0.0.1:$port/postgres" --nats "nats://127.0.0.1:$nats_port" \
  --watch "postgres=$postmaster" --watch "nats=$(cat "$folder/nats.pid")" \
  --kill-broker "kill -9 \$(cat '$folder/nats.pid')" --start-broker "$start_nats" \
  --restart-database "cd / && $pg_user '$bin/pg_ctl' -D '$folder/postgres/data' -m fast -w -s -l '$folder/postgres/log' restart" \
  "$@"
