# The two commands of the README: `make demo` and `make test`. The rest are their parts.

CARGO ?= cargo
DEMO_DIR ?= target/demo
BIN = target/release/seatrial

.PHONY: demo test build lint check unit clean-demo bench

demo: build
	@scripts/prepare demo
	@scripts/demo "$(DEMO_DIR)"

build:
	@scripts/prepare build
	$(CARGO) build --release --locked

test:
	@scripts/prepare demo test
	@scripts/test

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

clean-demo:
	rm -rf "$(DEMO_DIR)"

bench: build
	@benches/compare/run
