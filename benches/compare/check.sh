#!/bin/sh
# Measures `seatrial check` over thousands of task directories against a program that only reads every byte of them with
# as many threads, and against check.py, five of the same rules in Python with as many processes: in turns within one run,
# and with the same findings of those five. Prints medians of wall time and of processor time, ratios and the highest memory of each.
#
# Usage: benches/compare/check.sh [ROUNDS] [TASKS]
# Needs python3, git, and about 1 MB of disk and of free memory for each task.
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release --locked -p seatrial
cargo build --quiet --release --locked -p check --example read_all
target="${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 benches/compare/check-tasks.py "$work/tasks" "${2:-5000}" crates/grade/vendored
python3 - "$target/release" benches/compare/check.py "$work" "${1:-3}" <<'PYTHON'
import json, os, statistics, subprocess, sys, time

programs, script, work, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
tasks, threads = f"{work}/tasks", len(os.sched_getaffinity(0))

def run(*command, out=os.devnull, codes=(0,)):
    """Seconds, MiB and seconds of processor time of one run."""
    begun = time.perf_counter()
    with open(out, "w") as stdout:
        child = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
    assert os.waitstatus_to_exitcode(status) in codes, f"{command} ended with {status}"
    return time.perf_counter() - begun, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime

def ours():
    # Some tasks are wrong on purpose: exit code 1.
    return run(f"{programs}/seatrial", "-q", "check", "--json", tasks, out=f"{work}/ours.jsonl", codes=(1,))

def read():
    return run(f"{programs}/examples/read_all", tasks)

def python():
    return run(sys.executable, script, tasks, str(threads), f"{work}/theirs")

read()
runs = [(read(), ours(), python()) for _ in range(rounds)]
column = lambda which, what: [run[which][what] for run in runs]
least, time_of_ours, slow = (statistics.median(column(which, 0)) for which in range(3))
work_of_reading, work_of_ours = (statistics.median(column(which, 2)) for which in range(2))

five = {"config-key-unknown", "script-crlf", "verifier-network", "answer-in-image", "hidden-test-in-workspace"}
found = set()
for line in open(f"{work}/ours.jsonl"):
    row = json.loads(line)
    found |= {f"{finding['rule']} {os.path.basename(row['path'])}" for finding in row["findings"] if finding["rule"] in five}
other = set(open(f"{work}/theirs").read().splitlines())
assert found == other, f"the findings differ: {sorted(found ^ other)[:5]}"
count = len(os.listdir(tasks))
size = sum(os.path.getsize(os.path.join(above, name)) for above, _, names in os.walk(tasks) for name in names)
print(f"{count} tasks, {size / 1e9:.2f} GB, {threads} threads; {len(found)} findings of the five rules, the same in both")
print(f"reading only    {least:8.2f} s median of {rounds}")
print(f"seatrial check  {time_of_ours:8.2f} s, {max(column(1, 1)):6.0f} MiB; {time_of_ours / least:.2f} of reading (goal: at most 2)")
print(f"processor time  {work_of_reading:8.2f} s of reading, {work_of_ours:6.2f} s of seatrial check; {work_of_ours / work_of_reading:.2f} of reading")
print(f"check.py        {slow:8.2f} s, {max(column(2, 1)):6.0f} MiB a process; {slow / time_of_ours:.1f} times as long (goal: at least 5)")
PYTHON
