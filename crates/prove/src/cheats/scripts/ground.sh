#!/bin/sh
# What every cheat begins with: where the workspace is and what it is written in. Nothing here is fitted to one task.
set -u
exec </dev/null

leave() {
    echo "nothing to attack: $1"
    exit 0
}

ground=$(pwd)
if [ "$ground" = / ]; then
    ground=
    for place in /testbed /app /workspace /repo /src; do
        if [ -d "$place" ]; then
            ground=$place
            break
        fi
    done
fi
[ -n "$ground" ] && cd "$ground" 2>/dev/null || leave 'there is no workspace'

python=
for name in python3 python; do
    if command -v "$name" >/dev/null 2>&1; then
        python=$name
        break
    fi
done

# Files with one ending, vendored and derived folders left out, in a stable order.
files() {
    find . -type f -name "*.$1" -size -2000k \
        ! -path '*/.git/*' ! -path '*/node_modules/*' ! -path '*/.venv/*' ! -path '*/venv/*' ! -path '*/.tox/*' \
        ! -path '*/site-packages/*' 2>/dev/null | LC_ALL=C sort | head -n 3000
}

# Those that hold tests.
tests() {
    files "$1" | grep -E '/(tests?|__tests__|spec)/|/(test_|conftest)[^/]*$|(_test|[.]test|[.]spec|_spec)[.][a-z]+$'
}

# Those of the product.
sources() {
    files "$1" | grep -v -E '/(tests?|__tests__|spec)/|/(test_|conftest|setup[.]py)[^/]*$|(_test|[.]test|[.]spec|_spec)[.][a-z]+$'
}

# Names of the tests that the workspace shows, as pytest writes them.
names() {
    tests py | while IFS= read -r file; do
        sed -n 's/^ *\(async  *\)\{0,1\}def  *\(test[A-Za-z0-9_]*\).*/\2/p' "$file" 2>/dev/null |
            while IFS= read -r name; do printf '%s::%s\n' "${file#./}" "$name"; done
    done | head -n 5000
}
