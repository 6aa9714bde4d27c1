#!/bin/sh
# Measures `seatrial images mirror` against `skopeo copy` in a loop and against four of these at once: 40 images with shared layers from
# one registry into four shards of another one, then the same again with everything there. Prints requests, bytes, processor time, memory
# and time, and holds the tags against each other at the end.
#
# Usage: benches/compare/mirror.sh [ROUNDS]
# SEATRIAL names the binary; without it a release build is made. Needs root, python3, docker-registry and skopeo.
set -eu
cd "$(dirname "$0")/../.."
for need in docker-registry skopeo python3; do
  if ! command -v "$need" >/dev/null 2>&1; then
    echo "skipped: needs $need"
    exit 0
  fi
done
if [ "$(id -u)" -ne 0 ]; then
  echo "skipped: needs root, to give skopeo a cache of its own"
  exit 0
fi
if [ -z "${SEATRIAL:-}" ]; then
  cargo build --quiet --release --locked -p seatrial
  SEATRIAL="${CARGO_TARGET_DIR:-target}/release/seatrial"
fi
exec python3 benches/compare/mirror.py "$SEATRIAL" "${1:-3}"
