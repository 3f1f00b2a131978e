# What one does with this repository. `make` alone says what there is.
.DEFAULT_GOAL := help
.PHONY: help run test soak build plugins console e2e openapi sdk sdk-test fmt lint setup

help: ## Show this.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: setup ## Set up what is missing, and run Lapse with its demo shop.
	@# Without Node.js all but the console runs, and its page says so.
	-@$(MAKE) --no-print-directory console
	cargo run --quiet -- plugin build plugins --all --lang rust --output plugins/dist
	cargo run --quiet -- dev

test: console plugins ## Everything that must hold: tests, lints, formatting, documentation.
	@scripts/setup.sh nextest nats postgresql mariadb
	cargo fmt --all --check
	cd plugins && cargo fmt --all --check
	cd plugins && npm test --workspaces --if-present
	cargo clippy --quiet --all-targets -- -D warnings
	if command -v cargo-nextest >/dev/null; then cargo nextest run; else cargo test --quiet; fi
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps
	$(MAKE) --no-print-directory e2e
	$(MAKE) --no-print-directory sdk-test

soak: plugins ## The tests that take long: many kills, long outages, millions of rows.
	@scripts/setup.sh nats postgresql mariadb
	if command -v cargo-nextest >/dev/null; then \
		LAPSE_SOAK=1 cargo nextest run --no-capture -E 'test(/^(cluster|delivery|faults|sql|store::postgres)/)'; \
	else \
		LAPSE_SOAK=1 cargo test -- --nocapture --test-threads 1 cluster:: delivery:: faults:: sql:: store::postgres; \
	fi

build: setup console ## Leave target/release/lapse and plugins/dist/*.wasm.
	@scripts/setup.sh node_js python_venv
	cargo build --release
	target/release/lapse plugin build plugins --all --output plugins/dist

# By lapse itself, in the profile that run and test build anyway: no second tool, and no release build.
plugins: setup ## Build the reference plugins and the tests' guests into plugins/dist.
	@scripts/setup.sh node_js python_venv
	cargo run --quiet -- plugin build plugins --all --output plugins/dist

# What the console is made of; its types come from the API's document.
CONSOLE := $(shell find web/src web/public -type f 2>/dev/null) web/index.html web/vite.config.ts web/package-lock.json openapi/openapi.json

console: web/dist/index.html ## Build the web console into web/dist, to be embedded.

web/dist/index.html: $(CONSOLE)
	scripts/setup.sh node_js
	cd web && npm ci --no-audit --no-fund && npm run build

# The console in a browser, against a server of its own.
e2e: console ## Test the console in a browser.
	scripts/setup.sh browser
	cd web && npm test
	$(MAKE) --no-print-directory plugins
	node --test --test-concurrency=2 tests/e2e/*.test.mjs

openapi: setup ## Write the API's documents anew: 3.1, and the 3.0 that is derived from it.
	cargo build --quiet --bin lapse
	target/debug/lapse openapi >openapi/openapi.json
	target/debug/lapse openapi --version 3.0 >openapi/openapi-3.0.json

sdk: ## Make the client libraries, ready to publish, in target/sdk.
	@scripts/setup.sh node_js python_venv
	scripts/sdk.sh build

# They are made anew each time: the documents and the clients cannot drift apart unseen.
sdk-test: console plugins ## Test the client libraries against a server.
	@scripts/setup.sh node_js python_venv
	scripts/sdk.sh test

fmt: ## Format all code.
	cargo fmt --all
	cd plugins && cargo fmt --all

lint: ## Lints, and what may be depended upon.
	scripts/setup.sh deny
	cargo clippy --all-targets -- -D warnings
	cargo deny check bans licenses sources

setup:
	@scripts/setup.sh
