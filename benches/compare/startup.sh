#!/bin/sh
# Measures `seatrial --help` as a whole process against `true`, in pairs within one run, and the size of the binary.
#
# Usage: benches/compare/startup.sh [ROUNDS]
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked
binary="${CARGO_TARGET_DIR:-target}/release/seatrial"
exec python3 - "$binary" "${1:-200}" <<'PYTHON'
import os, statistics, subprocess, sys, time

binary, rounds = sys.argv[1], int(sys.argv[2])

def run(*command):
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - begun) * 1000

pairs = [(run(binary, "--help"), run("/bin/true")) for _ in range(rounds + 5)][5:]
helps, trues = (statistics.median(column) for column in zip(*pairs))
print(f"seatrial --help   {helps:6.2f} ms median of {rounds}")
print(f"true              {trues:6.2f} ms")
print(f"difference        {helps - trues:6.2f} ms (goal: below 15)")
print(f"binary            {os.path.getsize(binary) / 1e6:6.1f} MB stripped (goal: below 40)")
PYTHON
