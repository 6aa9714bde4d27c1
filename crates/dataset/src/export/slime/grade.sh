( set -eu
root=$(mktemp -d); trap 'rm -rf "$root"' EXIT
mkdir -p "$root/tests" "$(dirname "$root@WORKDIR@")"; ln -s '@WORKDIR@' "$root@WORKDIR@"
printf %s '@TESTS@' | base64 -d | tar -xzf - -C "$root/tests"
named=; [ ! -f "$root/tests/interpreter" ] || read -r named < "$root/tests/interpreter" || :
for python in "$named" /usr/bin/python3 /usr/local/bin/python3 /opt/miniconda3/envs/testbed/bin/python3 /opt/miniconda3/bin/python3 /opt/conda/bin/python3 "$(command -v python3)"; do
[ -x "$python" ] && "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' && break; done
env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$python" -I -S -B "$root/tests/verify.py" --root "$root" < /dev/null
[ "$(cat "$root/logs/verifier/reward.txt")" = 1 ] )
