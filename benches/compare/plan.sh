#!/bin/sh
# Measures `seatrial plan` at full scale against plan.py, the same rules in pandas, in turns within one run, and holds
# their answers against each other. Prints medians, the ratio and the highest memory of each.
#
# Usage: benches/compare/plan.sh [ROUNDS] [WORDS OF MESSAGES A ROW]
# Needs python3 with venv and pip; pandas and pyarrow are installed into target/compare-venv.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked -p seatrial -p rehearsal
target="${CARGO_TARGET_DIR:-target}"
venv="$target/compare-venv"
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -c 'import pandas, pyarrow' 2>/dev/null || "$venv/bin/pip" install --quiet pandas pyarrow
universe=$(mktemp -d)
trap 'rm -rf "$universe"' EXIT
"$target/release/rehearsal" "$universe" "${2:-600}"
"$target/release/seatrial" -q -C "$universe" source pull 2>/dev/null
"$venv/bin/python" - "$target/release/seatrial" "$venv/bin/python" benches/compare/plan.py "$universe" "${1:-5}" <<'PYTHON'
import json, os, statistics, subprocess, sys, time

seatrial, python, script, universe, rounds = *sys.argv[1:5], int(sys.argv[5])

def run(*command):
    """Seconds and MiB of one run."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, f"{command} ended with {status}"
    return time.perf_counter() - begun, usage.ru_maxrss / 1024

ours = (seatrial, "-q", "-C", universe, "plan")
theirs = (python, script, universe, f"{universe}/plan.py.json")
pairs = [(run(*ours), run(*theirs)) for _ in range(rounds)]
column = lambda which, what: [pair[which][what] for pair in pairs]
fast, slow = statistics.median(column(0, 0)), statistics.median(column(1, 0))

ids = lambda name: [task["task_id"] for task in json.load(open(f"{universe}/{name}.json"))["tasks"]]
other = json.load(open(f"{universe}/plan.py.json"))
assert ids("plan") == other["primaries"], "the primaries differ"
assert ids("reserves") == other["reserves"], "the reserves differ"
size = sum(os.path.getsize(f"{universe}/data/{name}") for name in os.listdir(f"{universe}/data"))
print(f"data               {size / 1e6:8.1f} MB; both plans are the same")
print(f"seatrial plan      {fast:8.3f} s median of {rounds}, {max(column(0, 1)):6.0f} MiB (goals: below 1 s, 400 MiB)")
print(f"pandas             {slow:8.3f} s, {max(column(1, 1)):6.0f} MiB")
print(f"ratio              {slow / fast:8.1f} (goal: 10)")
PYTHON
