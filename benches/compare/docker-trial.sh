#!/bin/sh
# Measures the start, two commands and the end of a Docker sandbox against the same requests made by curl on the same
# socket, in pairs within one run. Prints medians and the ratio. The daemon is one of its own; needs root and dockerd.
#
# Usage: benches/compare/docker-trial.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
if [ "$(id -u)" -ne 0 ] || ! command -v dockerd >/dev/null 2>&1; then
  echo "skipped: needs root and dockerd"
  exit 0
fi
cargo build --quiet --release -p sandbox --example docker-times
directory=$(mktemp -d)
trap 'scripts/docker-engine stop "$directory"' EXIT
trap 'exit 130' INT TERM
DOCKER_HOST=$(scripts/docker-engine start "$directory")
export DOCKER_HOST
"${CARGO_TARGET_DIR:-target}/release/examples/docker-times" "${1:-30}"
