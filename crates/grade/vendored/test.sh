#!/bin/sh
# Starts the verifier with an interpreter at a fixed place and an empty environment.
#
# The agent may have changed PATH, exported variables or put programs of its own in front, so nothing is looked
# up by name: only the absolute places below are tried, and only a compiled program is accepted (a script in
# place of an interpreter is refused). The first place is the one the task names in /tests/interpreter, if any.
# Reward files left by somebody else are removed before anything else happens. The verifier decides the reward;
# when no interpreter is found there is none: the report says so, and the exit status is 3. Suites in other
# languages are graded by the same verifier, so their images need a Python, too.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
rm -rf -- /logs/verifier/reward.txt /logs/verifier/reward.json /logs/verifier/report.json

named=
if [ -f /tests/interpreter ]; then
    IFS= read -r named < /tests/interpreter || :
fi

for python in \
    "$named" \
    /usr/bin/python3 \
    /usr/local/bin/python3 \
    /opt/miniconda3/envs/testbed/bin/python3 \
    /opt/miniconda3/bin/python3 \
    /opt/conda/bin/python3 \
    /opt/venv/bin/python3 \
    /opt/python/bin/python3
do
    case "$python" in /*) ;; *) continue ;; esac
    [ -f "$python" ] && [ -x "$python" ] || continue
    # The first bytes of a compiled program are 7f 45 4c 46.
    IFS= read -r magic < "$python" 2>/dev/null || :
    case "$magic" in ?ELF*) ;; *) continue ;; esac
    env -i "$python" -I -S -B -c 'import sys; sys.exit(sys.version_info < (3, 8))' < /dev/null || continue
    exec env -i PATH="$PATH" LANG=C.UTF-8 "$python" -I -S -B /tests/verify.py < /dev/null
done

why='the image has no python3 (3.8 or newer) at a known place, which the verifier needs'
why="$why; install python3 in the image, or name its place in tests/interpreter"
echo "verifier: $why" >&2
mkdir -p /logs/verifier
printf '{"schema": "seatrial.verdict/1", "fault": "no_python", "detail": "%s"}\n' "$why" > /logs/verifier/report.json
exit 3
