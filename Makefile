# The two commands of the README: `make demo` and `make test`. The rest are their parts.

CARGO ?= cargo
DEMO_DIR ?= target/demo
PROOF_DIR ?= target/real-proofs

.PHONY: demo build test test-kubernetes lint clean-demo bench prove-minismith test-consumers

demo: build
	@scripts/prepare demo
	@scripts/demo "$(DEMO_DIR)"

build:
	@scripts/prepare build
	$(CARGO) build --release --locked

test:
	@scripts/prepare demo test
	@scripts/test

# The engine's tests on a cluster of their own; the first time it builds the cluster's programs, which takes ten minutes of two processors.
test-kubernetes:
	@scripts/test-kubernetes

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

clean-demo:
	rm -rf "$(DEMO_DIR)"

# All real bugs of the corpus by the full rule; half an hour on two processors.
prove-minismith:
	@scripts/prepare build demo
	@scripts/prove-minismith "$(PROOF_DIR)"

# Every export, loaded by the code of those who read it. Makes Python environments of several gigabytes.
test-consumers: build
	@scripts/prepare demo
	@scripts/consumers/run

bench: build
	@benches/compare/run
