#!/bin/sh
# Measures how much of a proof is test time: the example's whole run against the sum of its suites' own times, divided
# by the trials that run at once. Fetches the example's source distributions on the first run.
#
# Usage: benches/compare/prove.sh
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked
binary=$(pwd)/${CARGO_TARGET_DIR:-target}/release/seatrial
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cp -R examples/pypi-mini/. "$directory/"
"$binary" -C "$directory" --quiet source pull 2>/dev/null
python3 - "$binary" "$directory" <<'PYTHON'
import glob, json, os, subprocess, sys, time

binary, directory = sys.argv[1:]

def up():
    begun = time.perf_counter()
    subprocess.run([binary, "-C", directory, "--quiet", "up"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun

cold = up()
warm = up()
suites = trials = 0
for path in glob.glob(os.path.join(directory, "jobs/*/*/verifier/report.json")):
    suites += json.load(open(path)).get("suite_seconds") or 0
    trials += 1
cores = os.cpu_count()
print(f"trials                        {trials}")
print(f"whole run, nothing cached     {cold:6.1f} s (goal: below 180)")
print(f"whole run, everything known   {warm:6.1f} s (goal: below 30)")
print(f"suites / {cores} processors        {suites / cores:6.1f} s")
print(f"run / (suites / processors)   {cold / (suites / cores):6.2f}")
PYTHON
