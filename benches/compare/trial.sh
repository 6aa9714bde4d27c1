#!/usr/bin/env bash
# Measures a trivial oracle trial in the native sandbox, one at a time, against the same two scripts run by hand with
# unshare, an overlay and chroot, in pairs within one run. Prints medians in milliseconds and ratios.
#
# command: the whole command `seatrial run` for one trial, from its start to its exit
# trial:   the trial's own time, as its record states it
# bare:    namespaces, overlay, solve.sh, test.sh, reward read, all removed
#
# Needs root. Usage: benches/compare/trial.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "$0")/../.."
. benches/compare/trivial.bash
rounds=${1:-40}
[ "$(id -u)" -eq 0 ] || { echo "skipped: by hand, this needs root"; exit 0; }
cargo build --quiet --release
seatrial=$PWD/${CARGO_TARGET_DIR:-target}/release/seatrial
case ${CARGO_TARGET_DIR:-} in /*) seatrial=$CARGO_TARGET_DIR/release/seatrial ;; esac
bench=$(mktemp -d)
trap 'rm -rf "$bench"' EXIT
cd "$bench"

task=tasks/trivial
trivial_task $task
mkdir bare

cat >bare.sh <<'SH'
set -e
root=$1
mkdir -p "$root/upper/logs/verifier" "$root/work" "$root/merged"
mount -t overlay overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" "$root/merged"
mount -t proc proc "$root/merged/proc"
mkdir -p "$root/merged/solution" "$root/merged/tests"
cp "$2/solution/solve.sh" "$root/merged/solution/"
chroot "$root/merged" /bin/bash /solution/solve.sh
cp "$2/tests/test.sh" "$root/merged/tests/"
chroot "$root/merged" /bin/bash /tests/test.sh
SH
bare() {
  unshare --mount --pid --net --ipc --uts --fork bash bare.sh "$bench/bare/$1" "$bench/$task"
  [ "$(cat "bare/$1/upper/logs/verifier/reward.txt")" = 1 ]
  rm -rf "bare/${1:?}"
}
now() { date +%s%N; }
median() { sort -n | awk '{ v[NR] = $1 } END { printf "%.1f", (NR % 2) ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

# The image is built and every cache is warm before anything counts.
"$seatrial" --quiet run -p tasks --job-name warm >/dev/null
bare warm
for round in $(seq "$rounds"); do
  begin=$(now)
  "$seatrial" --quiet run -p tasks -j 1 --job-name "job-$round" >/dev/null
  middle=$(now)
  bare "$round"
  end=$(now)
  awk "BEGIN { print ($middle - $begin) / 1e6 }" >>command
  awk "BEGIN { print ($end - $middle) / 1e6 }" >>by-hand
  sed -E 's/.*"wall_ms":([0-9]+).*/\1/' "jobs/job-$round"/*/seatrial.json >>trial
  echo >>trial
done
command=$(median <command)
trial=$(grep . trial | median)
hand=$(median <by-hand)
echo "rounds $rounds, medians in ms: command $command, trial $trial, bare $hand"
awk "BEGIN { printf \"command / bare %.2f, trial / bare %.2f\\n\", $command / $hand, $trial / $hand }"
