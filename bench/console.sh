#!/usr/bin/env bash
# Measures what the console costs, on this machine. Usage:
#
#   bench/console.sh [timings|scroll|open…]      all without one
#
#   timings   each call that a page makes, with 10,000 timers and with COUNT (1,000,000), on SQLite and on PostgreSQL
#   scroll    how smoothly the list of timers scrolls, with COUNT of them
#   open      a page left open for MINUTES (10) at RATE (1,000) expiries a second: its heap, and what it costs the server
#             beside a page that would poll
#
# Servers of its own are started on free ports of the loopback, with their data in a temporary folder, and stopped at the
# end. LAPSE names the binary to measure; without it, a release build is made, with the console in it. The figures hold for
# this machine and what else ran on it: compare ratios.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh browser postgresql
make --no-print-directory console >&2
if [ -z "${LAPSE:-}" ]; then
  cargo build --release
  LAPSE=$PWD/target/release/lapse
fi
[ -f plugins/dist/order-timeout.wasm ] || make plugins
export LAPSE_BIN=$LAPSE
folder=$(mktemp -d)
chmod 711 "$folder"

# shellcheck source=bench/postgres.sh
. bench/postgres.sh
trap 'stop_postgres "$folder"; rm -rf "$folder"' EXIT

[ $# -gt 0 ] || set -- timings scroll open
for scenario in "$@"; do
  case $scenario in
    timings)
      start_postgres "$folder"
      node bench/console/timings.mjs SQLite
      node bench/console/timings.mjs PostgreSQL "postgres://postgres@127.0.0.1:$port/postgres"
      ;;
    scroll | open) node "bench/console/$scenario.mjs" ;;
    *) echo "no such scenario: $scenario" >&2; exit 2 ;;
  esac
done
