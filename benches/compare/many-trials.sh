#!/usr/bin/env bash
# Measures how many trivial native trials a second run, and the peak memory of the program, with twice as many at once as
# there are processors: for a hundred trials and for a thousand, so that growth shows.
#
# Usage: benches/compare/many-trials.sh [TRIALS...]
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo build --quiet --release
seatrial=$PWD/${CARGO_TARGET_DIR:-target}/release/seatrial
case ${CARGO_TARGET_DIR:-} in /*) seatrial=$CARGO_TARGET_DIR/release/seatrial ;; esac
bench=$(mktemp -d)
trap 'rm -rf "$bench"' EXIT
cd "$bench"

for number in $(seq 20); do
  task=tasks/trivial-$number
  mkdir -p "$task"/environment "$task"/solution "$task"/tests
  printf 'schema_version = "1.4"\n' >"$task/task.toml"
  echo 'Make /app/done.' >"$task/instruction.md"
  printf 'FROM seatrial.local/host\nWORKDIR /app\n' >"$task/environment/Dockerfile"
  printf '#!/bin/bash\ntouch /app/done\n' >"$task/solution/solve.sh"
  printf '#!/bin/bash\nif [ -e /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n' >"$task/tests/test.sh"
done
"$seatrial" --quiet run -p tasks --job-name warm >/dev/null
for trials in "${@:-100 1000}"; do for trials in $trials; do
  begin=$(date +%s%N)
  "$seatrial" --quiet run -p tasks -j $((2 * $(nproc))) -n $((trials / 20)) --job-name "job-$trials" >/dev/null &
  program=$!
  peak=0
  while memory=$(awk '/^VmHWM/ { print $2 }' "/proc/$program/status" 2>/dev/null) && [ -n "$memory" ]; do
    peak=$memory
    sleep 0.05
  done
  wait $program
  awk "BEGIN { s = ($(date +%s%N) - $begin) / 1e9
    printf \"%d trials in %.1f s: %.1f a second, peak %.0f MiB\\n\", $trials, s, $trials / s, $peak / 1024 }"
done; done
