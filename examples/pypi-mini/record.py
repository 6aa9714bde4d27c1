#!/usr/bin/env python3
"""Makes the data of this example from its sources: the bugs, their statements, and what the test suites say.

Sources, written by hand:

    projects.toml      the projects: source distribution, digest, how the suite runs
    bugs.toml          the bugs: project, pool, evidence, and what is odd about the refused ones
    bugs/NAME.diff     a patch that introduces the bug into the unpacked source distribution
    bugs/NAME.md       the problem statement

Results, written by this script: instances.jsonl, profiles.json, trajectories.jsonl, reward-means.jsonl and lists/.

Each suite runs twice on the clean tree and twice with each bug. A test is FAIL_TO_PASS when it passes in both clean
runs and fails in both buggy ones, PASS_TO_PASS when it passes in all four; a test that is neither is in no list. Needs
git, Python 3.11 or later, and pytest for the interpreter that runs the suites. The source distributions are not part
of the example: put the files that projects.toml names into one directory and pass it as --sdists.
"""

import argparse
import base64
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTEST = "python3 -m pytest -p no:cacheprovider --rootdir=. -q"
TIMEOUT_SEC = 60
MODELS = {
    "gpt-4o": "gpt-4o-2024-08-06",
    "claude-3.5": "claude-3-5-sonnet-20241022",
    "claude-3.7": "claude-3-7-sonnet-20250219",
}

# A pytest plugin that writes {test id: outcome}. Ids come from pytest itself, so blanks inside parameters survive;
# parsing the terminal output would lose them.
PLUGIN = '''
import json, os

outcomes = {}
RANK = ["passed", "xfailed", "skipped", "failed"]

def pytest_runtest_logreport(report):
    outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
    known = outcomes.get(report.nodeid, "passed")
    outcomes[report.nodeid] = max(known, outcome, key=RANK.index)

def pytest_sessionfinish():
    with open(os.environ["RECORD_OUTCOMES"], "w", encoding="utf-8") as file:
        json.dump(outcomes, file)
'''


class Project:
    """One source distribution and the way its suite runs."""

    def __init__(self, key, row):
        self.key = key
        self.row = row
        self.slug = f"{row['owner']}__{row['name']}.{row['sha256'][:8]}"
        self.repo = f"swesmith/{self.slug}"
        image = f"swebench/swesmith.x86_64.{row['owner']}_1776_{row['name']}.{row['sha256'][:8]}"
        self.image_name = image.lower()
        self.test_cmd = f"{PYTEST} {row['tests']}"
        self.env = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": row["pythonpath"]}

    def profile(self):
        return {
            "repo": self.repo,
            "package": self.row["package"],
            "version": self.row["version"],
            "sdist": self.row["sdist"],
            "sha256": self.row["sha256"],
            "test_cmd": self.test_cmd,
            "env": self.env,
            "test_files": self.row["test_files"],
            "timeout_sec": TIMEOUT_SEC,
        }

    def unpack(self, sdists, into):
        """Unpacks the source distribution and returns its root; refuses a file with another digest."""
        archive = sdists / self.row["sdist"]
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != self.row["sha256"]:
            sys.exit(f"{archive}: sha256 is {digest}, projects.toml says {self.row['sha256']}")
        with tarfile.open(archive) as tar:
            # The digest above says what is inside; the filter is for the newer Pythons that ask for one.
            tar.extractall(into, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        (root,) = into.iterdir()
        return root


class Bug:
    """One bug: the patch, the statement and the row of bugs.toml."""

    def __init__(self, name, row, project):
        self.name = name
        self.row = row
        self.project = project
        self.patch = (HERE / "bugs" / f"{name}.diff").read_text(encoding="utf-8")
        self.statement = (HERE / "bugs" / f"{name}.md").read_text(encoding="utf-8").strip()
        self.instance_id = f"{project.slug}.{row['kind']}__{short_hash(self.patch)}"


def short_hash(text):
    """Eight characters of [a-z2-7], in the place of SWE-smith's random ones."""
    return base64.b32encode(hashlib.sha256(text.encode()).digest()).decode()[:8].lower()


def run_suite(project, root, python, extra_env):
    """Runs the suite once and returns {test id: outcome}."""
    with tempfile.TemporaryDirectory(prefix="record-") as scratch:
        plugin = Path(scratch, "record_outcomes.py")
        plugin.write_text(PLUGIN, encoding="utf-8")
        report = Path(scratch, "outcomes.json")
        argv = shlex.split(project.test_cmd)
        argv[0] = python
        argv[3:3] = ["-p", "record_outcomes"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **project.env, **extra_env}
        env["PYTHONPATH"] += os.pathsep + scratch
        env["RECORD_OUTCOMES"] = str(report)
        subprocess.run(
            argv, cwd=root, env=env, timeout=TIMEOUT_SEC,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        # A suite that stops before its end (a usage error, a crash) leaves no report: nothing passed.
        return json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}


def observe(project, sdists, python, repeat, patch=None, extra_env=None):
    """Runs the suite `repeat` times, each in a fresh tree; returns the outcomes, or None when the patch does not apply."""
    runs = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory(prefix="record-") as scratch:
            root = project.unpack(sdists, Path(scratch))
            if patch is not None:
                # GIT_DIR points nowhere, so that a repository around the scratch directory has no say.
                applied = subprocess.run(
                    ["git", "apply", "-"], cwd=root, input=patch.encode(), stderr=subprocess.DEVNULL,
                    env={**os.environ, "GIT_DIR": str(Path(scratch, "no-repository"))},
                )
                if applied.returncode != 0:
                    return None
            runs.append(run_suite(project, root, python, extra_env or {}))
    return runs


def always(outcome, runs):
    """The tests that have this outcome in every run."""
    return {test for test in runs[0] if all(run.get(test) == outcome for run in runs)}


def record(bug, sdists, python, repeat):
    """Returns (FAIL_TO_PASS, PASS_TO_PASS) as seen, before any list of bugs.toml takes their place."""
    extra_env = bug.row.get("record_env", {})
    clean = observe(bug.project, sdists, python, repeat, extra_env=extra_env)
    passing = always("passed", clean) - set(bug.project.row.get("unlisted", []))
    buggy = observe(bug.project, sdists, python, repeat, bug.patch, extra_env)
    if buggy is None:
        return [], sorted(passing)
    return sorted(passing & always("failed", buggy)), sorted(passing & always("passed", buggy))


def instance(bug, seen):
    """The instance row, keys in SWE-smith's order. A refused bug may bring its own FAIL_TO_PASS list."""
    fail_to_pass, pass_to_pass = seen
    fail_to_pass = sorted(bug.row.get("fail_to_pass", fail_to_pass))
    return {
        "instance_id": bug.instance_id,
        "patch": bug.patch,
        "FAIL_TO_PASS": fail_to_pass,
        "PASS_TO_PASS": [test for test in pass_to_pass if test not in fail_to_pass],
        "image_name": bug.project.image_name,
        "repo": bug.project.repo,
        "problem_statement": bug.statement,
    }


def trajectories(bug):
    """The evidence rows of one bug. A run is "MODEL resolved" or "MODEL failed"; "twice" repeats the row, as the
    public data does when it holds one trajectory in several encodings."""
    for number, run in enumerate(bug.row.get("runs", [])):
        model, result, *repeated = run.split()
        suffix = short_hash(f"{bug.instance_id} {number} {model}")
        row = {
            "instance_id": bug.instance_id,
            "model": MODELS[model],
            "resolved": {"resolved": True, "failed": False}[result],
            "traj_id": f"{bug.instance_id}.{suffix}",
        }
        yield from [row] * (1 + len(repeated))


def load():
    projects = {key: Project(key, row) for key, row in read_toml("projects.toml").items()}
    rows = read_toml("bugs.toml")
    bugs = [Bug(name, row, projects[row["project"]]) for name, row in rows["bug"].items()]
    return projects, sorted(bugs, key=lambda bug: bug.instance_id), rows["stray"]


def read_toml(name):
    with open(HERE / name, "rb") as file:
        return tomllib.load(file)


def jsonl(rows):
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def results(projects, bugs, stray, seen):
    """Every file this script writes, as {path: text}."""
    evidence = [row for bug in bugs for row in trajectories(bug)]
    rewards = [(bug.instance_id, bug.row["reward"]) for bug in bugs if "reward" in bug.row]
    ids = lambda keep: "".join(f"{bug.instance_id}\n" for bug in bugs if keep(bug.row))
    by_key = lambda rows, key: sorted(rows, key=lambda row: row[key])
    return {
        "instances.jsonl": jsonl(instance(bug, seen[bug.name]) for bug in bugs),
        "profiles.json": json.dumps(by_key((p.profile() for p in projects.values()), "repo"), indent=1) + "\n",
        "trajectories.jsonl": jsonl(by_key([*evidence, *stray["trajectories"]], "traj_id")),
        "reward-means.jsonl": jsonl(
            {"instance_id_or_commit_hash": key, "reward_mean": mean}
            for key, mean in sorted([*rewards, *stray["reward_means"].items()])
        ),
        "lists/filter-pro.txt": ids(lambda row: row["pool"] == "filter_pro"),
        "lists/retained.txt": ids(lambda row: row.get("retained", False)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sdists", type=Path, required=True, help="directory of the source distributions")
    parser.add_argument("--python", default="/usr/bin/python3", help="interpreter that runs the suites [%(default)s]")
    parser.add_argument("--repeat", type=int, default=2, help="runs of each tree, clean and buggy [%(default)s]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="bugs recorded at a time [%(default)s]")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file on disk differs")
    args = parser.parse_args()

    projects, bugs, stray = load()
    with ThreadPoolExecutor(args.jobs) as pool:
        lists = pool.map(lambda bug: record(bug, args.sdists, args.python, args.repeat), bugs)
        seen = {bug.name: lists for bug, lists in zip(bugs, lists)}
    for bug in bugs:
        fail_to_pass, pass_to_pass = seen[bug.name]
        print(f"{bug.name:36} {len(fail_to_pass):3} fail to pass, {len(pass_to_pass):3} pass to pass")

    differing = []
    for path, text in results(projects, bugs, stray, seen).items():
        target = HERE / path
        if args.check:
            if not target.exists() or target.read_text(encoding="utf-8") != text:
                differing.append(path)
        else:
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
    if differing:
        sys.exit(f"differ from what was recorded now: {', '.join(differing)}")


if __name__ == "__main__":
    main()
