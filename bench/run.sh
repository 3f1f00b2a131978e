#!/usr/bin/env bash
# Measures a release build on this machine, each figure with the command that made it. Usage:
#
#   bench/run.sh [SCENARIO…]      size, register, expire, race, pending, neighbours; all but the last two without one
#
# A server of its own is started on free ports, with its data in a temporary folder, and stopped at the end. The figures
# hold for this machine and what else ran on it: compare ratios.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
[ -f plugins/dist/order-timeout.wasm ] || make plugins
lapse=$PWD/target/release/lapse
folder=$(mktemp -d)
pid=

stop() {
  if [ -n "$pid" ]; then
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
    pid=
  fi
}
trap 'stop; rm -rf "$folder"' EXIT

start() {
  local begun
  begun=$(date +%s%N)
  (cd "$folder" && exec "$lapse" dev --json --log warn --listen 127.0.0.1:0 --demo-shop 127.0.0.1:0 >started 2>log) &
  pid=$!
  until [ -s "$folder/started" ]; do
    kill -0 "$pid" || { cat "$folder/log"; exit 1; }
    sleep 0.01
  done
  echo "# ready after $((($(date +%s%N) - begun) / 1000000)) ms"
  LAPSE_SERVER_URL=$(sed -E 's/.*"url":"([^"]*)".*/\1/' "$folder/started")
  LAPSE_TOKEN=$(sed -E 's/.*"token":"([^"]*)".*/\1/' "$folder/started")
  shop=$(sed -E 's/.*"demo_shop":"([^"]*)".*/\1/' "$folder/started")
  export LAPSE_SERVER_URL LAPSE_TOKEN
}

measure() {
  echo
  echo "\$ lapse $*"
  "$lapse" "$@"
}

memory() {
  echo "# resident: $(awk '/VmRSS/ { printf "%.0f MiB", $2 / 1024 }' "/proc/$pid/status"), peak $(awk '/VmHWM/ { printf "%.0f MiB", $2 / 1024 }' "/proc/$pid/status")"
}

size() {
  echo "# binary: $(stat -c %s "$lapse") bytes"
}

register() {
  measure bench register --count 20000 --concurrency 64
  measure bench register --count 200000 --batch 500 --concurrency 4
}

expire() {
  measure bench expire --rate 500 --seconds 20
  measure bench expire --rate 2000 --seconds 20
  measure bench expire --rate 20000 --seconds 3 --ahead 30s
}

race() {
  measure bench race --count 2000 --window-ms 5
  measure bench race --count 2000 --window-ms 5 --type order-timeout-checked --shop "$shop"
}

# A million timers that are due in an hour must not make the others late, nor fill the memory.
pending() {
  memory
  measure bench expire --rate 500 --seconds 20
  measure bench register --count 1000000 --batch 1000 --concurrency 4 --delay 2h
  sleep 15 # what the load itself left to be checkpointed
  memory
  measure bench expire --rate 500 --seconds 20
  memory
}

# Each time that a hostile expiry fails, it is to fail again: a paused type would disturb nobody.
neighbours() {
  stop
  rm -rf "$folder"/*
  export LAPSE_DISPATCH__PAUSE_FAILED_SHARE=0
  start
  measure bench neighbours --hostile plugins/dist/hostile.wasm --rate 200 --seconds 20
}

start
for scenario in "${@:-size}" ; do
  case $scenario in
    size | register | expire | race | pending | neighbours) "$scenario" ;;
    *) echo "no such scenario: $scenario" >&2; exit 2 ;;
  esac
done
if [ $# = 0 ]; then
  register
  expire
  race
  memory
fi
