#!/usr/bin/env bash
# Makes the client libraries from the documents in openapi/, ready to publish, in target/sdk; or tests them, as they would
# be installed, against a server of their own. Usage: scripts/sdk.sh build|test
set -euo pipefail
cd "$(dirname "$0")/.."

root=$PWD
into=$root/target/sdk
version=$(python3 -c 'import json; print(json.load(open("openapi/openapi.json"))["info"]["version"])')

say() { printf 'sdk: %s\n' "$*"; }

# Runs a command only if the file that it depends upon is not the one of its last run.
once() {
    local file=$1 mark=$2
    shift 2
    cmp --silent "$file" "$mark" && return
    rm -f "$mark"
    "$@"
    cp "$file" "$mark"
}

# All of `from` but what it has from elsewhere, with the licences.
take() {
    mkdir -p "$2"
    cp -R "$1"/. "$2"
    cp LICENSE-MIT LICENSE-APACHE "$2"
}

typescript() {
    local to=$into/typescript
    rm -rf "$to"/{src,dist,test}
    take sdk/typescript "$to"
    cd "$to"
    once package-lock.json node_modules/.lapse-lock npm ci --silent --no-audit --no-fund
    npm pkg set "version=$version"
    node generate.mjs "$root/openapi/openapi.json"
    npm run --silent build
    rm -f ./*.tgz
    npm pack --silent >/dev/null
    cd "$root"
    say "target/sdk/typescript: $(cd "$to" && echo ./*.tgz)"
}

# The packed library beside the test, where its package would be installed.
typescript_test() {
    cd "$into/typescript/test"
    mkdir -p node_modules/@lapse
    rm -rf node_modules/@lapse/client && mkdir node_modules/@lapse/client
    tar -xzf ../lapse-client-"$version".tgz -C node_modules/@lapse/client --strip-components 1
    example ts 1 ../README.md >readme.ts
    example ts 2 ../README.md >stream.ts
    generated ts types.ts sorts.ts
    cp "$root/sdk/types/use.ts" use.ts
    ../node_modules/.bin/tsc -p tsconfig.json
    node --test --test-reporter=dot out/contract.test.js
    node out/use.js
    node out/readme.js >out/readme.txt
    grep -qx 'paid in time' out/readme.txt
    timeout 120 node out/stream.js >out/stream.txt
    grep -qx 'C17 is closed' out/stream.txt
    cd "$root"
}

python() {
    local to=$into/python
    rm -rf "$to"/{lapse_client,templates,tests,dist}
    take sdk/python "$to"
    cd "$to"
    once requirements.txt venv/.lapse-lock python_tools
    venv/bin/python generate.py "$root/openapi/openapi-3.0.json"
    # A wheel of the sources, so that both are seen to be whole.
    venv/bin/hatchling build -t sdist >/dev/null 2>&1
    venv/bin/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist dist/*.tar.gz
    cd "$root"
    say "target/sdk/python/dist: $(cd "$to/dist" && echo *)"
}

python_tools() {
    rm -rf venv
    python3 -m venv venv
    venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements.txt
}

# The wheel beside the test, as installed.
python_test() {
    cd "$into/python/tests"
    rm -rf installed
    ../venv/bin/pip install --quiet --disable-pip-version-check --no-deps --target installed ../dist/*.whl
    example python 1 ../README.md >readme.py
    example python 2 ../README.md >stream.py
    generated python types_of_server.py sorts.py
    cp "$root/sdk/types/use.py" use.py
    ../venv/bin/openapi-spec-validator "$root/openapi/openapi.json" "$root/openapi/openapi-3.0.json" >/dev/null
    MYPYPATH=installed ../venv/bin/mypy --config-file ../pyproject.toml *.py installed/lapse_client
    PYTHONPATH=installed ../venv/bin/python -m unittest --quiet
    PYTHONPATH=installed ../venv/bin/python use.py
    PYTHONPATH=installed ../venv/bin/python readme.py >readme.txt
    grep -qx 'paid in time' readme.txt
    PYTHONPATH=installed timeout 120 ../venv/bin/python stream.py >stream.txt
    grep -qx 'D17 is closed' stream.txt
    cd "$root"
}

# Helpers for the server's types, and for schemas of all sorts.
generated() {
    "$root/target/debug/lapse" type generate --lang "$1" >"$2"
    "$root/target/debug/lapse" type generate --lang "$1" --schemas "$root/sdk/types/schemas.json" >"$3"
}

# The nth example in a README: the block of the language after the nth mark.
example() {
    awk -v "fence=\`\`\`$1" -v "nth=$2" '
        $0 == "<!-- example -->" { marks += 1 }
        $0 == "```" { inside = 0 }
        inside { print }
        $0 == fence && marks == nth && !found { inside = found = 1 }' "$3"
}

build() {
    typescript
    python
}

# A server on a free port, in a folder that is gone afterwards.
test_all() {
    build
    local folder
    folder=$(mktemp -d)
    server=
    trap 'if [ -n "$server" ]; then kill "$server" 2>/dev/null && wait "$server"; fi || true; rm -rf "'"$folder"'"' EXIT
    target/debug/lapse dev --json --listen 127.0.0.1:0 --demo-shop 127.0.0.1:0 --data "$folder/data" --plugins plugins/dist \
        >"$folder/said" 2>"$folder/log" &
    server=$!
    # A minute at most.
    for _ in $(seq 600); do
        [ -s "$folder/said" ] && break
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    [ -s "$folder/said" ] || { cat "$folder/log" >&2; say "the server did not start"; exit 1; }
    said() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$folder/said" "$1"; }
    LAPSE_SERVER_URL=$(said url)
    LAPSE_TOKEN=$(said token)
    LAPSE_COMPONENT=$root/plugins/dist/hostile.wasm
    export LAPSE_SERVER_URL LAPSE_TOKEN LAPSE_COMPONENT
    typescript_test
    python_test
}

case ${1:-} in
    build) build ;;
    test) test_all ;;
    *) echo "usage: scripts/sdk.sh build|test" >&2; exit 2 ;;
esac
