#!/bin/sh
# Measures the start, one `true` and the end of a native sandbox against the same namespaces, overlays and /proc set
# up by unshare, mount and chroot, in pairs within one run. Prints medians and ratios.
#
# Usage: benches/compare/sandbox-start.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p sandbox --example start-times
exec "${CARGO_TARGET_DIR:-target}/release/examples/start-times" "${1:-100}"
