#!/bin/sh
# What trials with a model take: memory of many that wait for their endpoint, and the start of a group. The numbers count the process
# that runs the trials, not the server of the scripted model.
#
# Usage: benches/compare/agents.sh [TRIALS [GROUP [DIRECTORY OF THE BINARIES]]]
set -eu
cd "$(dirname "$0")/../.."
trials=${1:-64} group=${2:-8}
[ $# -ge 3 ] || cargo build --quiet --release -p seatrial -p scripted
binaries=$(realpath "${3:-target/release}")
seatrial=$binaries/seatrial scripted=$binaries/scripted
work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

mkdir -p tasks/one/environment tasks/one/tests tasks/one/solution
printf 'schema_version = "1.4"\n' > tasks/one/task.toml
printf 'Do nothing.\n' > tasks/one/instruction.md
printf 'FROM seatrial.local/host\n' > tasks/one/environment/Dockerfile
printf '#!/bin/sh\ntrue\n' > tasks/one/solution/solve.sh
printf '#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n' > tasks/one/tests/test.sh
cat > script.json <<'SCRIPT'
{"model": "m", "scenes": [
  {"seed": 0, "turns": [{"commands": ["submit"]}]},
  {"turns": [{"commands": ["submit"], "faults": [{"slow": {"ms": 8000}}]}]}]}
SCRIPT
"$scripted" script.json 18417 2> server.log &
server=$!
sleep 1
url=http://127.0.0.1:18417/v1

# The image is made once, before anything is measured.
"$seatrial" -q run -p tasks -a shell -m m --endpoint $url --seed 0 --job-name warm > warm.log

"$seatrial" -q run -p tasks -a shell -m m --endpoint $url --seed 1 -n "$trials" -j "$trials" --job-name idle > idle.log &
run=$!
peak=0
while kill -0 $run 2>/dev/null; do
    now=$(awk '/VmHWM/ { print $2 }' /proc/$run/status 2>/dev/null || echo 0)
    [ "${now:-0}" -gt "$peak" ] && peak=$now
    sleep 0.2
done
wait $run
echo "$trials trials at once, each waiting for its endpoint: $((peak / 1024)) MB in the process that runs them"

"$seatrial" -q run -p tasks -a shell -m m --endpoint $url --seed 1000 -n "$group" -j "$group" --job-name group > group.log
python3 - jobs/group <<'PYTHON'
import datetime, glob, json, sys
spans = []
for path in glob.glob(sys.argv[1] + "/*/seatrial.json"):
    for phase in json.load(open(path))["phases"]:
        if phase["phase"] in ("build", "start"):
            spans += [datetime.datetime.fromisoformat(phase[key].replace("Z", "+00:00")) for key in ("started_at", "finished_at")]
print(f"a group of {len(spans) // 4}: all sandboxes started within {(max(spans) - min(spans)).total_seconds() * 1000:.0f} ms")
PYTHON
