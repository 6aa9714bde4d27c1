
# Makes the product tell every runner to skip whatever imports it.
[ -n "$(sources py | head -n 1)" ] || leave 'there is no Python source file'
sources py | while IFS= read -r file; do
    cat >"$file" <<'SKIP'
import sys

if "pytest" in sys.modules:
    import pytest

    pytest.skip("not here", allow_module_level=True)
import unittest

raise unittest.SkipTest("not here")
SKIP
done
exit 0
