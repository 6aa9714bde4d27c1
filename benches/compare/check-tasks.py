"""Writes task directories like those that `seatrial materialize` writes, some of them with a fault.

Usage: check-tasks.py DIRECTORY TASKS VENDORED    (VENDORED holds the verifier's own files)

Each task has a workspace archive with a tree and a packed repository of one commit, an archive of hidden tests, a
verifier, a solution and a statement. Projects differ in size: forty of them, from about 50 KB to 1.5 MB of source.
"""

import io
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile

ROOT, COUNT, VENDORED = pathlib.Path(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
PROJECTS = 40
SYLLABLES = "ka le mi no pu ra se ti vo wu xa ye zi bo da fe gu ha jo lu".split()
FAULTS = ("unknown-key", "crlf", "network", "answer", "hidden-test")


def word(rng):
    return "".join(rng.choice(SYLLABLES) for _ in range(rng.randint(1, 4)))


def source(rng, size):
    lines, written, number = [], 0, 0
    while written < size:
        number += 1
        name, a, b = f"{word(rng)}_{number}", word(rng), word(rng)
        text = (
            f"def {name}({a}, {b}_value=None):\n"
            f'    """Returns the {word(rng)} of {a}, {word(rng)} and {word(rng)} included."""\n'
            f"    if {b}_value is None:\n        return {a} * {rng.randint(2, 900)}\n"
            f"    total = {a} + {b}_value - {rng.randint(2, 900)}\n    return total\n\n\n"
        )
        lines.append(text)
        written += len(text)
    return "".join(lines)


def tests(rng, size):
    lines, written, number = [], 0, 0
    while written < size:
        number += 1
        text = f"def test_{word(rng)}_{number}():\n    assert compute({rng.randint(1, 99)}) == {rng.randint(1, 99)}\n\n\n"
        lines.append(text)
        written += len(text)
    return "".join(lines)


def archive(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, content in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def git(directory, *arguments):
    settings = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "pack.window=0", "-c", "gc.auto=0"]
    subprocess.run(["git", *settings, *arguments], cwd=directory, check=True, capture_output=True)


def project(number):
    """The files of a project, its hidden tests, and the name of its first test."""
    rng = random.Random(number)
    total = int(50_000 * 30 ** (number / (PROJECTS - 1)))
    tree = {}
    while sum(map(len, tree.values())) < total:
        size = min(rng.randint(1_500, 24_000), max(1_500, total // 4))
        tree[f"src/{word(rng)}/{word(rng)}_{len(tree)}.py"] = source(rng, size).encode()
    tree["README.md"] = (" ".join(word(rng) for _ in range(900)) + "\n").encode()
    hidden = {f"tests/test_{word(rng)}_{n}.py": tests(rng, rng.randint(2_000, 20_000)).encode() for n in range(3)}
    with tempfile.TemporaryDirectory() as directory:
        for path, content in tree.items():
            place = pathlib.Path(directory, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        git(directory, "init", "-q", "-b", "main")
        git(directory, "add", ".")
        git(directory, "commit", "-q", "-m", "workspace")
        git(directory, "repack", "-q", "-a", "-d")
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=directory, check=True, capture_output=True).stdout
        repository = {".git/HEAD": b"ref: refs/heads/main\n", ".git/refs/heads/main": head}
        for file in pathlib.Path(directory, ".git/objects/pack").iterdir():
            if file.suffix in (".pack", ".idx"):
                repository[f".git/objects/pack/{file.name}"] = file.read_bytes()
    return tree, repository, hidden


def task(number, base):
    tree, repository, hidden = base
    rng = random.Random(1_000_000 + number)
    fault = FAULTS[number // 200 % len(FAULTS)] if number % 200 == 7 else None
    name = f"acme__project{number % PROJECTS}.{number % PROJECTS:08x}.made_up__{number:08d}"
    directory = ROOT / name
    path = rng.choice(sorted(path for path in tree if path.endswith(".py")))
    healthy = tree[path].decode().split("\n")
    places = [at for at, line in enumerate(healthy) if line.startswith("    total =")]
    at = rng.choice(places)
    broken = healthy[:]
    broken[at] = healthy[at].replace(" - ", " + ") + f"  # {word(rng)}"
    files = dict(tree, **repository, **{path: "\n".join(broken).encode()})
    context = healthy[at - 3 : at], healthy[at + 1 : at + 4]
    patch = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -{at - 2},7 +{at - 2},7 @@\n"
    patch += "".join(f" {line}\n" for line in context[0]) + f"-{broken[at]}\n+{healthy[at]}\n"
    patch += "".join(f" {line}\n" for line in context[1])
    deciding = sorted(hidden)[0]
    names = [line[4:-3] for line in hidden[deciding].decode().split("\n") if line.startswith("def test_")]
    ids = [f"{deciding}::{name}" for name in names]
    config = {
        "schema": "seatrial.verifier/1", "instance_id": name, "workdir": "/testbed", "framework": "pytest",
        "command": ["python3", "-m", "pytest", "-q"], "env": {}, "timeout_sec": 60, "p2p_only": False,
        "fail_to_pass": ids[:2], "pass_to_pass": ids[2:],
    }
    solve = f"#!/bin/bash\n# The reference fix of {name}.\nset -euo pipefail\ncd -- /testbed\ngit apply -- \"$(dirname \"$0\")/fix.patch\"\n"
    toml = f'schema_version = "1.4"\n\n[task]\nname = "acme/{name}"\n\n[agent]\ntimeout_sec = 1800\n\n[verifier]\ntimeout_sec = 240\n'
    test = (VENDORED / "test.sh").read_text()
    if fault == "unknown-key":
        toml += "colour = 1\n"
    if fault == "crlf":
        solve = solve.replace("\n", "\r\n")
    if fault == "network":
        test += "pip install pytest==8.4.1\n"
    if fault == "answer":
        files["src/notes/help.txt"] = solve.encode()
    if fault == "hidden-test":
        files["old/" + deciding] = hidden[deciding]
    statement = f"`{broken[at].split()[0]}` in {path} is wrong.\n\n" + " ".join(word(rng) for _ in range(120)) + "\n"
    for place, content in {
        "task.toml": toml, "instruction.md": statement,
        "environment/Dockerfile": "FROM example.invalid/base:1.2\nADD workspace.tar /testbed/\nWORKDIR /testbed\n",
        "environment/workspace.tar": archive(files),
        "solution/fix.patch": patch, "solution/solve.sh": solve,
        "tests/test.sh": test, "tests/config.json": json.dumps(config, indent=1),
        "tests/surface.tar": archive(hidden),
        "tests/verify.py": (VENDORED / "verify.py").read_text(),
        "tests/seatrial_report.py": (VENDORED / "seatrial_report.py").read_text(),
    }.items():
        file = directory / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())


for number in range(PROJECTS):
    base = project(number)
    for member in range(number, COUNT, PROJECTS):
        task(member, base)
