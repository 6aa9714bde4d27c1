#!/usr/bin/env bash
# Measures how many trivial native trials a second run, and the peak memory of the program, with twice as many at once as
# there are processors: for a hundred trials and for a thousand, so that growth shows.
#
# Usage: benches/compare/many-trials.sh [TRIALS...]
set -euo pipefail
cd "$(dirname "$0")/../.."
. benches/compare/trivial.bash
cargo build --quiet --release
seatrial=$PWD/${CARGO_TARGET_DIR:-target}/release/seatrial
case ${CARGO_TARGET_DIR:-} in /*) seatrial=$CARGO_TARGET_DIR/release/seatrial ;; esac
bench=$(mktemp -d)
trap 'rm -rf "$bench"' EXIT
cd "$bench"

for number in $(seq 20); do
  trivial_task "tasks/trivial-$number"
done
"$seatrial" --quiet run -p tasks --job-name warm >/dev/null
for trials in "${@:-100 1000}"; do for trials in $trials; do
  many_trials "$trials" "$seatrial" --quiet run -p tasks -j $((2 * $(nproc))) -n $((trials / 20)) --job-name "job-$trials"
done; done
