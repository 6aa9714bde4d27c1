import base64
import io
import os
import subprocess
import sys
import tarfile
import tempfile

TESTS = "@TESTS@"
WORKDIR = "@WORKDIR@"

with tempfile.TemporaryDirectory() as root:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(TESTS))) as tests:
        tests.extractall(os.path.join(root, "tests"))
    workspace = root + WORKDIR
    os.makedirs(os.path.dirname(workspace), exist_ok=True)
    os.symlink(WORKDIR, workspace)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    verifier = [sys.executable, "-I", "-S", "-B", os.path.join(root, "tests", "verify.py"), "--root", root]
    subprocess.run(verifier, env=environment, stdin=subprocess.DEVNULL, check=False)
    try:
        with open(os.path.join(root, "logs", "verifier", "reward.txt")) as reward:
            solved = reward.read().strip() == "1"
    except FileNotFoundError:
        solved = False
sys.exit(0 if solved else 1)
