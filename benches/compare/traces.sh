#!/bin/sh
# Measures `seatrial traces` in turns with other programs, within one run: the export of all turns of 1,000 trials of 20 turns
# against Harbor's own exporter, and the rows of successes by task in a set of 3,707 rows (450 MB of text) against pandas and
# `datasets`. Whatever is not installed for the python3 on the path is left out, and said. Prints medians, ratios and the highest memory of each.
#
# Usage: benches/compare/traces.sh [ROUNDS] [TRIALS] [TURNS] [ROWS]
# Needs python3 and about 2 GB of disk.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked -p seatrial
target="${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 benches/compare/traces-data.py "$work" "${2:-1000}" "${3:-20}" "${4:-3707}"
"$target/release/seatrial" -q traces merge "$work/rows.jsonl" -o "$work/set"
rm "$work/rows.jsonl"
python3 - "$target/release/seatrial" "$work" "${1:-3}" <<'PYTHON'
import glob, json, os, shutil, statistics, subprocess, sys, time

seatrial, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])

def run(*command):
    """Seconds, MiB and output of one run."""
    begun = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": f"{work}/hf"})
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, f"{command} ended with {status}"
    return time.perf_counter() - begun, usage.ru_maxrss / 1024, output

def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0

def export():
    shutil.rmtree(f"{work}/out", ignore_errors=True)
    return run(seatrial, "-q", "traces", "export", f"{work}/job", "--episodes", "all", "-o", f"{work}/out")

def stats():
    return run(seatrial, "-q", "--json", "traces", "stats", f"{work}/set")

HARBOR = """
import sys
from harbor.utils.traces_utils import export_traces
print(len(export_traces(sys.argv[1], episodes="all", verbose=False)))
"""
PANDAS = """
import sys, glob, pandas as pd
rows = pd.concat(pd.read_parquet(file) for file in sorted(glob.glob(sys.argv[1] + "/data/*.parquet")))
rewards = pd.to_numeric(rows["result"], errors="coerce")
print(int((rewards > 0).sum()), len(rows[rewards > 0].groupby("task").size()))
"""
DATASETS = """
import sys, datasets
rows = datasets.load_dataset(sys.argv[1], split="train")
def success(result):
    try: return float(result) > 0
    except (TypeError, ValueError): return False
kept = rows.filter(lambda row: success(row["result"]), input_columns=None)
print(len(kept), len(set(kept["task"])))
"""

def show(name, runs, ours=None):
    seconds = statistics.median(one[0] for one in runs)
    ratio = f"; {seconds / ours:.1f} times as long" if ours else ""
    print(f"{name:22}{seconds:8.2f} s median of {len(runs)}, {max(one[1] for one in runs):6.0f} MiB{ratio}")
    return seconds

others = [("harbor", HARBOR, "job"), ("pandas", PANDAS, "set"), ("datasets", DATASETS, "set")]
there = {name: has(name if name != "pandas" else "pandas, pyarrow") for name, _, _ in others}
runs = {name: [] for name in ["export", "stats", *there]}
for _ in range(rounds):
    runs["export"].append(export())
    runs["stats"].append(stats())
    for name, script, what in others:
        # Harbor takes minutes; once is enough.
        if there[name] and not (name == "harbor" and runs[name]):
            shutil.rmtree(f"{work}/hf", ignore_errors=True)
            runs[name].append(run(sys.executable, "-c", script, f"{work}/{what}"))
size = sum(os.path.getsize(file) for file in glob.glob(f"{work}/set/data/*"))
print(f"{len(os.listdir(work + '/job'))} trials; a set of {size / 1e6:.0f} MB on disk; {len(os.sched_getaffinity(0))} threads")
ours = {"harbor": show("traces export", runs["export"])}
ours["pandas"] = ours["datasets"] = show("traces stats", runs["stats"])
found = json.loads(runs["stats"][0][2])
solved = sum(task["solved"] > 0 for task in found["tasks"])
for name, _, what in others:
    if not there[name]:
        print(f"{name:22}is not installed here")
        continue
    show(name, runs[name], ours[name])
    if what == "set":
        counted = runs[name][0][2].split()[-2:]
        assert [int(number) for number in counted] == [found["all"]["solved"], solved], f"{name} found {counted}"
PYTHON
