#!/usr/bin/env bash
# Measures trivial trials on a cluster that `scripts/kubernetes-cluster start CACHE DIR` started: one at a time against bare pods of the
# same image, and many at once, with the peak memory of the program and what the API server was asked. SEATRIAL names the program.
#
# Usage: benches/compare/cluster-trials.sh DIR [TRIALS...]
set -eu
if [ $# -eq 0 ]; then
  echo "skipped: no cluster was named"
  exit 0
fi
cd "$(dirname "$0")/../.."
cluster=$(cd "$1" && pwd)
shift
seatrial=${SEATRIAL:-}
if [ -z "$seatrial" ]; then
  cargo build --quiet --release
  seatrial=$PWD/target/release/seatrial
fi
script=$PWD/scripts/kubernetes-cluster
export KUBECONFIG=$cluster/runner.kubeconfig
image=$(cat "$cluster/base.reference")
bench=$(mktemp -d)
trap 'rm -rf "$bench"' EXIT
cd "$bench"

for number in $(seq 20); do
  task=tasks/trivial-$number
  mkdir -p "$task"/environment "$task"/solution "$task"/tests
  printf 'schema_version = "1.4"\n[environment]\ncpus = 0.05\nmemory_mb = 64\ndocker_image = "%s"\n' "$image" >"$task/task.toml"
  echo 'Make /app/done.' >"$task/instruction.md"
  printf '#!/bin/bash\nmkdir -p /app && touch /app/done\n' >"$task/solution/solve.sh"
  printf '#!/bin/bash\nif [ -e /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n' >"$task/tests/test.sh"
done
cat >seatrial.toml <<'C'
[dataset]
name = "bench"
version = "v1"
[sources.none]
kind = "file"
as = "instances"
path = "none.jsonl"
[[pool]]
stage = "all"
members = "none"
target = 1
cap = 1
[materialize]
workspace = "git"
base = "seatrial.local/host"
from = "none"
[resolve]
repo_cap = 1
split = { train = 1 }
[kubernetes]
accept_open_network = true
C

# Bare pods, one after the other: from the request to a running container, as the API server tells it.
cat >bare.py <<'P'
import json, ssl, statistics, sys, time, urllib.request
import subprocess
image, rounds = sys.argv[1], int(sys.argv[2])
view = json.loads(subprocess.check_output(["kubectl", "config", "view", "--raw", "-o", "json"]))
server, token = view["clusters"][0]["cluster"]["server"], view["users"][0]["user"]["token"]
context = ssl._create_unverified_context()
def ask(method, path, body=None):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(server + path, data, method=method)
    request.add_header("Authorization", "Bearer " + token)
    request.add_header("Content-Type", "application/json")
    return urllib.request.urlopen(request, context=context)
pods, times = "/api/v1/namespaces/seatrial/pods", []
for number in range(rounds):
    name = f"bare-{number}"
    container = {"name": "c", "image": image, "command": ["sleep", "1000"], "resources": {"limits": {"cpu": "50m", "memory": "64Mi"}}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False, "containers": [container]}
    begin = time.monotonic()
    ask("POST", pods, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).read()
    for line in ask("GET", f"{pods}?watch=true&fieldSelector=metadata.name%3D{name}"):
        status = json.loads(line)["object"]["status"]
        if any("running" in state["state"] for state in status.get("containerStatuses", [])):
            break
    times.append(time.monotonic() - begin)
    ask("DELETE", f"{pods}/{name}").read()
print(f"bare pod, request to running: median {statistics.median(times):.2f} s of {rounds}")
P
# Trials: the whole, and of it the start of the sandbox, by the records of phases.
cat >phases.py <<'P'
import glob, json, statistics, sys
from datetime import datetime
at = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
whole, starts = [], []
for path in glob.glob(sys.argv[1] + "/*/result.json"):
    result = json.load(open(path))
    if result.get("started_at") and result.get("finished_at"):
        whole.append((at(result["finished_at"]) - at(result["started_at"])).total_seconds())
        setup = result.get("environment_setup") or {}
        if setup.get("finished_at"):
            starts.append((at(setup["finished_at"]) - at(setup["started_at"])).total_seconds())
print(f"{len(whole)} trials: median {statistics.median(whole):.2f} s, of it the start of the sandbox {statistics.median(starts):.2f} s")
P

"$seatrial" --quiet run -e kubernetes -p tasks -a oracle -j 1 --job-name warm >/dev/null
python3 bare.py "$image" 20
"$seatrial" --quiet run -e kubernetes -p tasks -a oracle -j 1 --job-name single >/dev/null
python3 phases.py jobs/single
for trials in "${@:-100 1000}"; do for trials in $trials; do
  "$script" requests "$cluster" >before
  begin=$(date +%s%N)
  "$seatrial" --quiet run -e kubernetes -p tasks -a oracle -j 64 -n $((trials / 20)) --job-name "job-$trials" >/dev/null &
  program=$!
  peak=0
  while memory=$(awk '/^VmHWM/ { print $2 }' "/proc/$program/status" 2>/dev/null) && [ -n "$memory" ]; do
    peak=$memory
    sleep 0.05
  done
  wait $program
  "$script" requests "$cluster" >after
  awk "BEGIN { s = ($(date +%s%N) - $begin) / 1e9
    printf \"%d trials in %.1f s: %.1f a second, peak %.0f MiB; asked of the API server:\\n\", $trials, s, $trials / s, $peak / 1024 }"
  awk 'NR == FNR { before[$2 " " $3 " " $4] = $1; next }
    { n = $1 - before[$2 " " $3 " " $4]; if (n) printf "%7d %s %s %s\n", n, $2, $3, $4 }' before after
done; done
