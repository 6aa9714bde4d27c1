#!/usr/bin/env bash
# Measures trivial trials on a cluster that `scripts/kubernetes-cluster start CACHE DIR` started: one at a time against their own pods'
# starts and against bare pods of the same image, and many at once, with the peak memory of the program and what the API server was
# asked. SEATRIAL names the program.
#
# A node finds out once a second what became of its containers, so the start of a pod depends on when it was asked for. What a trial
# costs beyond its pod is therefore its own time without that from the request for its pod to the first request that its running allowed.
#
# Usage: benches/compare/cluster-trials.sh DIR [TRIALS...]
set -eu
if [ $# -eq 0 ]; then
  echo "skipped: no cluster was named"
  exit 0
fi
cd "$(dirname "$0")/../.."
. benches/compare/trivial.bash
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

# One at a time with a processor each; many with so little that the nodes take all that may run at once.
for number in $(seq 20); do
  trivial_task "single/trivial-$number" "$(printf '[environment]\ncpus = 1\nmemory_mb = 64\ndocker_image = "%s"\n' "$image")"
  trivial_task "many/trivial-$number" "$(printf '[environment]\ncpus = 0.05\nmemory_mb = 64\ndocker_image = "%s"\n' "$image")"
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
    container = {"name": "c", "image": image, "command": ["sleep", "1000"], "resources": {"limits": {"cpu": "1", "memory": "64Mi"}}}
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
# Trials: the whole, and of it the pod's own start, by the log of the API server and in order, as they ran one at a time.
cat >phases.py <<'P'
import glob, json, statistics, sys
from datetime import datetime
at = lambda text: datetime.fromisoformat(text.replace("Z", "+00:00"))
trials = [json.load(open(path)) for path in glob.glob(sys.argv[1] + "/*/result.json")]
trials = sorted((at(trial["started_at"]), at(trial["finished_at"])) for trial in trials)
made, attached = {}, {}
for line in open(sys.argv[2]):
    entry = json.loads(line)
    what, name = entry.get("objectRef", {}), entry.get("objectRef", {}).get("name")
    if what.get("resource") == "pods" and entry["verb"] == "create" and "subresource" not in what:
        made.setdefault(name, at(entry["requestReceivedTimestamp"]))
    elif what.get("subresource") == "attach":
        attached.setdefault(name, at(entry["requestReceivedTimestamp"]))
pods = sorted((made[name], attached[name]) for name in attached if name in made)
own = [min((end - start).total_seconds() for start, end in pods if begin <= start <= over) for begin, over in trials]
whole = [(over - begin).total_seconds() for begin, over in trials]
more = statistics.median(all - pod for all, pod in zip(whole, own))
print(f"{len(whole)} trials: median {statistics.median(whole):.2f} s, their pods' own starts {statistics.median(own):.2f} s, "
      f"and {more:.2f} s more")
P

"$seatrial" --quiet run -e kubernetes -p single -a oracle -j 1 --job-name warm >/dev/null
python3 bare.py "$image" 20
"$seatrial" --quiet run -e kubernetes -p single -a oracle -j 1 --job-name one-by-one >/dev/null
python3 phases.py jobs/one-by-one "$cluster/audit.log"
for trials in "${@:-100 1000}"; do for trials in $trials; do
  "$script" requests "$cluster" >before
  many_trials "$trials" "$seatrial" --quiet run -e kubernetes -p many -a oracle -j 64 -n $((trials / 20)) --job-name "job-$trials"
  "$script" requests "$cluster" >after
  echo "asked of the API server:"
  awk 'NR == FNR { before[$2 " " $3 " " $4] = $1; next }
    { n = $1 - before[$2 " " $3 " " $4]; if (n) printf "%7d %s %s %s\n", n, $2, $3, $4 }' before after
done; done
