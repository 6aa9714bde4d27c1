"""Grades one task: restores the test surface, runs the suite, writes exactly one reward or none.

    verify.py                                    grade /tests/config.json, write /logs/verifier/{reward.txt,report.json}
    verify.py --root DIR                         the same below DIR (DIR/tests, DIR/logs/verifier, DIR/<workdir>)
    verify.py --grade-log LOG --config FILE      grade a recorded log, print JSON; [--exit N] [--framework NAME]
                                                 [--begin MARK --end MARK]
    verify.py --grade-report FILE --config FILE --nonce N [--exit N]    the same for a recorded report

One file, Python 3.8 or newer, standard library only. Grading follows the same written rules as the Rust crate
`grade`; tests hold the two together. The parts, in order: statuses, log parsers, report reader, verdict, test
surface, suite, command line.

The verdict, by the first row that applies:

    what is seen                                                     outcome     reason              reward
    fail_to_pass is empty (and the task does not say p2p_only)       invalid     f2p_empty           none
    the suite reached its time limit                                 invalid     timeout             0
    the report or log was tampered with (nonce, order, counts,       invalid     forged              0
      lines after the end, repeated marks, replaced pytest parts)
    pytest ended with 2 / 3 / 4                                      invalid     interrupted /       0
                                                                                 internal_error /
                                                                                 usage_error
    ended with 5, or complete and not one test was collected         invalid     nothing_collected   0
    ended with another status than 0 or 1, or by a signal            invalid     abnormal_exit       0
    no end record or end mark                                        invalid     incomplete          0
    ended with 0 while a test failed, or with 1 while none did,      invalid     contradiction       0
      or the end record names another status than the process
    all that is wrong are ids off by a blank, a quote or a cut       invalid     id_mismatch         none
    every F2P test passed, no P2P test regressed                     resolved    -                   1
    otherwise                                                        unresolved  -                   0
    harness: no interpreter, no pytest, no report at all, surface    (no report) see `fault`         none, exit 3
      not restorable, config unreadable, a defect of this file

    required test is    passed  xpass  skipped  xfail  failed  error  missing
    fail_to_pass        good    good   bad      bad    bad     bad    bad
    pass_to_pass        good    good   good     bad    bad     bad    bad

Whatever the tree under test can bring about is 0; only what is the task's or the machine's fault gives no reward.

What this file cannot do, and whoever runs it has to: end the processes an agent left behind (one of them could
write reward.txt later), undo changes outside the workspace (an agent that is root can replace the interpreter or
pytest itself), and tell a suite that ran out of memory from one that was killed. A fresh sandbox that takes over
nothing but the workspace does all three. Code under test shares a process with pytest: see seatrial_report.py.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import secrets
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import deque

CONFIG_SCHEMA = "seatrial.verifier/1"
REPORT_SCHEMA = "seatrial.report/1"
VERDICT_SCHEMA = "seatrial.verdict/1"

MAX_REPORT_BYTES = 64 << 20
MAX_LOG_BYTES = 256 << 20
MAX_ID_CHARS = 16384
MAX_LINE_CHARS = 32768  # no result is reported on a longer line
KEPT_LOG_HEAD = 8 << 20
KEPT_LOG_TAIL = 2 << 20
GRACE_SECONDS = 5.0
EXIT_NO_REWARD = 3
NO_RUNNER = 97  # seatrial_report.py: pytest is not importable


class Fault(Exception):
    """The harness, not the tree under test, is at fault: no reward is written."""

    def __init__(self, name, detail):
        super().__init__(detail)
        self.name = name


# ---------------------------------------------------------------------------------------------------------------
# Statuses. When a test has several, the worst counts; a passed or failed test whose teardown errs is an error.
# A failing subtest fails its test. Other disagreement (passed and failed, skipped and passed, ...), and every
# rerun, marks the test as flaky.

SEVERITY = {"passed": 0, "xpass": 1, "xfail": 2, "skipped": 3, "failed": 4, "error": 5}


class Statuses:
    """Test id -> status, with the ids whose results disagreed."""

    def __init__(self):
        self.map = {}
        self.flaky = set()
        self.failed_parts = set()

    def record(self, test_id, status):
        before = self.map.setdefault(test_id, status)
        if before == status:
            return
        if "error" not in (before, status) and test_id not in self.failed_parts:
            self.flaky.add(test_id)
        if SEVERITY[status] > SEVERITY[before]:
            self.map[test_id] = status

    def fail_part(self, test_id):
        self.failed_parts.add(test_id)
        self.record(test_id, "failed")

    def rerun(self, test_id):
        self.flaky.add(test_id)


class Run:
    """What one suite run showed: statuses, skips that name only a place, names without a status, how it ended."""

    def __init__(self):
        self.statuses = Statuses()
        self.placed_skips = 0
        self.unresolved = []
        self.completion = "complete"  # complete, incomplete, timed_out, forged
        self.detail = None
        self.end_exit = None  # status the end record names


# ---------------------------------------------------------------------------------------------------------------
# Log parsers, for recorded logs. The verifier itself reads the report, never the log.

ANSI = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
WORDS = {
    "PASSED": "passed",
    "FAILED": "failed",
    "ERROR": "error",
    "SKIPPED": "skipped",
    "XFAIL": "xfail",
    "XPASS": "xpass",
    "RERUN": "rerun",
}
WORD = "PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS|RERUN"
PROGRESS = re.compile(r"(?:^| ) *\[ *[0-9]+(?:%|/[0-9]+)\] *$")
GLUED = re.compile(r"(%s)([A-Za-z0-9_./-]+\.py::)" % WORD)
XDIST = re.compile(r"^\[gw[0-9]+\] (?:\[ *[0-9]+%%\] )?(%s) (.+)$" % WORD)
SUMMARY = re.compile(r"^(%s) ([^ ].*)$" % WORD)
SUB_SUMMARY = re.compile(
    r"^(?:\[gw[0-9]+\] (?:\[ *[0-9]+%\] )?)?(?:\[[^\]]*\] )?(?:\([^)]*\) )?"
    r"SUBFAIL(?:ED)?(?:\[[^\]]*\])?(?: \([^)]*\))? ([^ ].*)$"
)
SUB_LINE = re.compile(
    r"^ (?:\[[^\]]*\] )?(?:\([^)]*\) )?"
    r"(SUBFAIL|SUBFAILED|SUBPASS|SUBPASSED|SUBSKIP|SUBSKIPPED)(?:\[| |\(|$)"
)
PLACE = re.compile(r"^\[[0-9]+\] [^ ].*$")
TAIL_WORD = re.compile(r"^(.*)(%s)$" % WORD, re.DOTALL)
REASON_WORD = re.compile(r"^(.*?) (SKIPPED|XFAIL|XPASS) \(.*\)$", re.DOTALL)


def lines_between_marks(text, marks):
    """Gives the lines between the marks and how complete they are; without marks, all lines."""
    lines = [line.rstrip("\r") for line in ANSI.sub("", text).split("\n")]
    lines = [line for line in lines if len(line) <= MAX_LINE_CHARS]
    if marks is None:
        return lines, "complete"

    def is_mark(line, mark):
        # A shell that traces its commands shows `: 'MARK'` as `+ : 'MARK'`.
        return line.strip(" \t") in (mark, "+ : '%s'" % mark)

    begins = [i for i, line in enumerate(lines) if is_mark(line, marks[0])]
    ends = [i for i, line in enumerate(lines) if is_mark(line, marks[1])]
    if not begins:
        return [], "incomplete"
    if len(begins) > 1 or len(ends) > 1:
        return lines[begins[0] + 1 :], "forged"
    if not ends or ends[0] < begins[0]:
        return lines[begins[0] + 1 :], "incomplete"
    return lines[begins[0] + 1 : ends[0]], "complete"


def starts_with_id(text):
    """Says whether a line begins with `path::name`, the path without blanks."""
    at = text.find("::")
    blank = text.find(" ")
    return at > 0 and (blank == -1 or at < blank) and len(text) > at + 2


def split_id(text):
    """Splits `id rest`: the id ends at the first blank outside its square brackets."""
    bracket = text.find("[")
    blank = text.find(" ")
    if blank == -1:
        return text, ""
    if bracket == -1 or blank < bracket:
        return text[:blank], text[blank + 1 :]
    depth = 0
    last = -1
    for at in range(bracket, len(text)):
        if text[at] == "[":
            depth += 1
        elif text[at] == "]":
            depth -= 1
            if at + 1 == len(text) or text[at + 1] == " ":
                if depth == 0:
                    return text[: at + 1], text[at + 2 :]
                last = at
    if last == -1:
        return text, ""
    return text[: last + 1], text[last + 2 :]


def whole_id(text):
    """Gives the id in the text before a status word: whole, unless printed text follows a Python name."""
    if " " not in text or text.endswith("]") and "[" in text:
        return text
    found, rest = split_id(text)
    if not rest:
        return found
    return found if ".py::" in found else text


def summary_id(rest, known):
    """Gives the id of a summary line, `id - reason`; None when the text names no test.

    A cut that gives an id already known is preferred; else the reason begins at the first ` - ` outside brackets.
    """
    if rest in known:
        return rest
    dash = rest.find(" - ")
    at = dash
    while at != -1:
        if rest[:at] in known:
            return rest[:at]
        at = rest.find(" - ", at + 1)
    bracket = rest.find("[")
    if dash != -1:
        if bracket == -1 or dash < bracket:
            rest = rest[:dash]
        else:
            close = rest.find("] - ")
            if close != -1:
                rest = rest[: close + 1]
            elif not rest.endswith("]"):
                rest = rest[:dash]
    return rest if starts_with_id(rest) else None


def parse_pytest(text, marks):
    """Reads pytest's verbose output, its -rA summary and pytest-xdist's lines."""
    run = Run()
    lines, run.completion = lines_between_marks(text, marks)
    pending = []
    named = []

    def record(test_id, word):
        if word == "RERUN":
            run.statuses.rerun(test_id)
        else:
            run.statuses.record(test_id, WORDS[word])

    for line in (part for whole in lines for part in GLUED.sub("\\1\n\\2", whole).split("\n")):
        found = XDIST.match(line)
        if found:
            test_id = found.group(2)
            test_id = test_id[:-1] if test_id.endswith(" ") else test_id
            if starts_with_id(test_id):
                record(test_id, found.group(1))
            continue
        found = SUB_SUMMARY.match(line)
        if found:
            test_id = summary_id(found.group(1), run.statuses.map)
            if test_id is not None:
                run.statuses.fail_part(test_id[:-1] if test_id.endswith(" ") else test_id)
            continue
        progress = PROGRESS.search(line)
        body = line[: progress.start()] if progress else line
        bare = body.strip(" ")
        if bare in WORDS:
            if pending:
                record(pending.pop(), bare)
            continue
        found = SUMMARY.match(line)
        if found:
            word, rest = found.groups()
            if word == "SKIPPED" and PLACE.match(rest):
                run.placed_skips += 1
                continue
            if word == "XPASS":  # before pytest 8 nothing but a blank stands between id and reason
                rest = split_id(rest)[0]
            test_id = summary_id(rest, run.statuses.map)
            if test_id is None and word == "ERROR":
                first = rest.split(" - ")[0]
                if " " not in first and first.endswith(".py"):
                    test_id = first
            if test_id is not None:
                record(test_id, word)
            continue
        if not starts_with_id(body):
            found = TAIL_WORD.match(body.rstrip(" ")) if progress else None
            if found and pending:
                record(pending.pop(), found.group(2))
            continue
        body_end = body.rstrip(" ")
        found = TAIL_WORD.match(body_end)
        if found and found.group(1).endswith(" "):
            record(whole_id(found.group(1)[:-1]), found.group(2))
            continue
        reason = REASON_WORD.match(body_end)
        if reason:
            record(whole_id(reason.group(1)), reason.group(2))
            continue
        if found and split_id(found.group(1))[1]:
            record(split_id(found.group(1))[0], found.group(2))
            continue
        test_id, rest = split_id(body)
        sub = SUB_LINE.match(" " + rest)
        if sub and sub.group(1).startswith("SUBFAIL"):
            run.statuses.fail_part(test_id)
        if not sub:
            pending = [test_id]
            named.append(test_id)
    run.unresolved = sorted({name for name in named if name not in run.statuses.map})
    return run


UNITTEST_NAME = re.compile(r"^ *([A-Za-z_][A-Za-z0-9_]* \([A-Za-z0-9_.<>]+\))(.*)$")
UNITTEST_WORD = re.compile(r"^(ok|FAIL|ERROR|skipped|expected failure|unexpected success)(?: ['\"].*)?$")
UNITTEST_WORDS = {
    "ok": "passed",
    "FAIL": "failed",
    "ERROR": "error",
    "skipped": "skipped",
    "expected failure": "xfail",
    "unexpected success": "xpass",
}


def parse_unittest(text, marks):
    """Reads unittest's verbose output, `name (class) ... word`.

    Other output may stand between the dots and the word; the word then has a line of its own. A docstring moves the
    dots to the line after the name. A subtest's line counts for its test.
    """
    run = Run()
    lines, run.completion = lines_between_marks(text, marks)
    pending = None  # the dots were seen, the word not yet
    described = None  # the name was seen, the dots not yet
    named = []
    for line in lines:
        found = UNITTEST_NAME.match(line)
        if found:
            name, rest = found.groups()
            if rest == "":
                described = name
                continue
            dots = 0 if rest.startswith(" ... ") else rest.rfind(" ... ")
            if dots == -1 or dots != 0 and not rest.startswith((" [", " (")):
                continue
            pending, described, word = name, None, rest[dots + 5 :]
            named.append(name)
        elif described is not None and " ... " in line:
            pending, described, word = described, None, line[line.rfind(" ... ") + 5 :]
            named.append(pending)
        else:
            word = line
        status = UNITTEST_WORD.match(word.rstrip(" "))
        if pending is not None and status:
            run.statuses.record(pending, UNITTEST_WORDS[status.group(1)])
            pending = None
    run.unresolved = sorted({name for name in named if name not in run.statuses.map})
    return run


LINE_NAME = re.compile(r"^(?:(%s) |\[(ok|fail|skip)\]: )([^ \[].*)$" % WORD)
TIMING = re.compile(r" \([0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\)$")
BRACKET_WORDS = {"ok": "passed", "fail": "failed", "skip": "skipped"}


def parse_lines(text, marks):
    """Reads status-first lines with free names, `PASSED name` or `[ok]: name (12 ms)`; run times are cut off."""
    run = Run()
    lines, run.completion = lines_between_marks(text, marks)
    for line in lines:
        found = LINE_NAME.match(line)
        if not found:
            continue
        word, mark, name = found.groups()
        name = TIMING.sub("", name)
        if word == "RERUN":
            run.statuses.rerun(name)
        else:
            run.statuses.record(name, WORDS[word] if word else BRACKET_WORDS[mark])
    return run


PARSERS = {"pytest": parse_pytest, "unittest": parse_unittest, "lines": parse_lines}

# ---------------------------------------------------------------------------------------------------------------
# The report: JSON lines from seatrial_report.py. Read strictly; anything that does not fit is forged.

LINE_KEYS = {
    "start": {"nonce", "n", "kind", "schema", "pytest", "python"},
    "test": {"nonce", "n", "kind", "id", "when", "status"},
    "collect": {"nonce", "n", "kind", "id", "status"},
    "tamper": {"nonce", "n", "kind"},
    "end": {"nonce", "n", "kind", "exit", "counts"},
}


def object_without_duplicates(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found


def refuse_constant(name):
    raise ValueError("constant %s" % name)


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


class Forged(Exception):
    """A report line that the plugin cannot have written."""


def parse_report_line(raw, number, nonce):
    try:
        line = json.loads(
            raw.decode("utf-8"), object_pairs_hook=object_without_duplicates, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError):
        raise Forged("line %d is not JSON" % number)
    kind = line.get("kind") if isinstance(line, dict) else None
    if not isinstance(kind, str) or kind not in LINE_KEYS or set(line) != LINE_KEYS[kind]:
        raise Forged("line %d has an unknown shape" % number)
    texts = [line[key] for key in ("nonce", "schema", "pytest", "python", "id", "when", "status") if key in line]
    if not all(isinstance(text, str) for text in texts) or not is_int(line["n"]):
        raise Forged("line %d has an unknown shape" % number)
    if line["nonce"] != nonce:
        raise Forged("line %d has another nonce" % number)
    if line["n"] != number:
        raise Forged("line %d is out of order" % number)
    if (number == 0) != (kind == "start"):
        raise Forged("line %d is out of order" % number)
    return line


def read_report(data, nonce):
    """Reads the report; returns None when nothing was written at all."""
    if not data:
        return None
    run = Run()
    run.completion = "incomplete"
    counts = {}
    try:
        if len(data) > MAX_REPORT_BYTES:
            raise Forged("the report is larger than %d bytes" % MAX_REPORT_BYTES)
        raw_lines = data.split(b"\n")
        cut = raw_lines.pop()  # empty when the last line is whole
        tampered = False
        for number, raw in enumerate(raw_lines):
            if run.completion == "complete":
                raise Forged("line %d follows the end" % number)
            line = parse_report_line(raw, number, nonce)
            if line["kind"] == "start":
                if line["schema"] != REPORT_SCHEMA:
                    raise Forged("line 0 names schema another than %s" % REPORT_SCHEMA)
            elif line["kind"] == "tamper":
                tampered = True
            elif line["kind"] == "end":
                if not is_int(line["exit"]) or not isinstance(line["counts"], dict):
                    raise Forged("line %d has an unknown shape" % number)
                if line["counts"] != counts or not all(is_int(value) for value in line["counts"].values()):
                    raise Forged("the counts of the end record do not agree with the lines")
                run.completion = "complete"
                run.end_exit = line["exit"]
            else:
                status = line["status"]
                if len(line["id"]) > MAX_ID_CHARS or status not in SEVERITY and status != "rerun":
                    raise Forged("line %d has an unknown shape" % number)
                counts[status] = counts.get(status, 0) + 1
                if status == "rerun":
                    run.statuses.rerun(line["id"])
                elif status == "failed" and line.get("when") == "subtest":
                    run.statuses.fail_part(line["id"])
                elif line["kind"] == "collect" and status == "skipped":
                    run.placed_skips += 1
                else:
                    run.statuses.record(line["id"], status)
        if cut and run.completion == "complete":
            raise Forged("text follows the end")
        if tampered:
            raise Forged("parts of pytest were replaced during the run")
    except Forged as error:
        run.completion = "forged"
        run.detail = str(error)
    return run


# ---------------------------------------------------------------------------------------------------------------
# The verdict: pure.

GOOD = {"fail_to_pass": {"passed", "xpass"}, "pass_to_pass": {"passed", "xpass", "skipped"}}
TALLY_KEYS = ("passed", "failed", "error", "skipped", "xfail", "xpass", "missing")
EXIT_REASONS = {2: "interrupted", 3: "internal_error", 4: "usage_error", 5: "nothing_collected"}
TRAILING = " \t'\""


def near_name(required, statuses):
    """Finds the id a required one probably means: equal up to trailing blanks and quotes, or cut at a blank."""
    plain = required.rstrip(TRAILING)
    for test_id in sorted(statuses):
        if test_id != required and test_id.rstrip(TRAILING) == plain:
            return test_id
    cut = [test_id for test_id in statuses if test_id.startswith(required + " ")]
    return cut[0] if len(cut) == 1 else None


def tally(required, statuses):
    found = {key: [] for key in TALLY_KEYS}
    for test_id in sorted(set(required)):
        found[statuses.get(test_id, "missing")].append(test_id)
    return found


def invalid_reason(config, run, exit_status, statuses):
    if not config["fail_to_pass"] and not config.get("p2p_only", False):
        return "f2p_empty"
    if not config["fail_to_pass"] and not config["pass_to_pass"]:
        return "f2p_empty"
    if run.completion == "timed_out":
        return "timeout"
    if run.completion == "forged":
        return "forged"
    if exit_status is not None and exit_status not in (0, 1):
        return EXIT_REASONS.get(exit_status, "abnormal_exit")
    if run.completion == "incomplete":
        return "incomplete"
    if not statuses and not run.placed_skips:
        return "nothing_collected"
    if run.end_exit is not None and exit_status is not None and run.end_exit != exit_status:
        return "contradiction"
    failures = any(status in ("failed", "error") for status in statuses.values())
    if exit_status is not None and failures != (exit_status == 1):
        return "contradiction"
    return None


def decide(config, run, exit_status):
    """Gives the verdict on one run. `exit_status` is None when it was not recorded; a signal is negative."""
    statuses = run.statuses.map
    required = {"fail_to_pass": config["fail_to_pass"], "pass_to_pass": config["pass_to_pass"]}
    tallies = {name: tally(ids, statuses) for name, ids in required.items()}
    bad = {
        test_id
        for name, found in tallies.items()
        for key in TALLY_KEYS
        if key not in GOOD[name]
        for test_id in found[key]
    }
    missing = sorted(set(tallies["fail_to_pass"]["missing"]) | set(tallies["pass_to_pass"]["missing"]))
    near = {}
    for test_id in missing:
        other = near_name(test_id, statuses)
        if other is not None:
            near[test_id] = other
    reason = invalid_reason(config, run, exit_status, statuses)
    if reason is None and bad and bad == set(near):
        reason = "id_mismatch"
    if reason is not None:
        outcome = "invalid"
        reward = None if reason in ("f2p_empty", "id_mismatch") else 0
    else:
        outcome = "unresolved" if bad else "resolved"
        reward = 0 if bad else 1
    wanted = set(required["fail_to_pass"]) | set(required["pass_to_pass"])
    return {
        "schema": VERDICT_SCHEMA,
        "outcome": outcome,
        "reason": reason,
        "detail": run.detail,
        "reward": reward,
        "exit_status": exit_status,
        "fail_to_pass": tallies["fail_to_pass"],
        "pass_to_pass": tallies["pass_to_pass"],
        "near_names": near,
        "flaky": sorted(wanted & run.statuses.flaky),
    }


# ---------------------------------------------------------------------------------------------------------------
# The test surface: files that decide what the suite checks. The archive holds them as the task froze them.


class Patterns:
    """Matches workspace paths against the surface patterns.

    `name` matches a file name at any depth, `dir/` everything below a folder of that name at any depth (and a link
    or file of that name); a pattern with a slash at the start or inside is anchored at the workspace root. `*`, `?`
    and `[...]` stay within one path component.
    """

    def __init__(self, patterns):
        self.names, self.folders, self.anchored = [], [], []
        for pattern in patterns:
            folder = pattern.endswith("/")
            parts = pattern.strip("/").split("/")
            if pattern.startswith("/") or len(parts) > 1:
                self.anchored.append((parts, folder))
            elif folder:
                self.folders.append(parts[0])
            else:
                self.names.append(parts[0])

    def match(self, path):
        parts = path.split("/")
        if any(fnmatch.fnmatchcase(parts[-1], name) for name in self.names):
            return True
        if any(fnmatch.fnmatchcase(part, folder) for folder in self.folders for part in parts):
            return True
        for pattern, folder in self.anchored:
            if len(parts) == len(pattern) or folder and len(parts) > len(pattern):
                if all(fnmatch.fnmatchcase(part, wanted) for part, wanted in zip(parts, pattern)):
                    return True
        return False


# Compiled files may not belong to their sources, and pytest's cache may choose which tests run.
CACHE_FOLDERS = ("__pycache__", ".pytest_cache")
MAX_REMOVED_NAMES = 1000  # how many names of removed files the report lists


def remove(path):
    """Removes whatever is at the path, never what a link points to."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        shutil.rmtree(path)
    else:
        os.unlink(path)
    return True


def registers_pytest_plugins(path):
    """Says whether a file is packaging metadata that makes pytest load a plugin by itself."""
    if os.path.basename(path) != "entry_points.txt" or os.path.islink(path):
        return False
    try:
        with open(path, "rb") as handle:
            return b"pytest11" in handle.read(1 << 20)
    except OSError:
        return True


def archive_members(archive):
    """Reads the archive's members; refuses names that leave the workspace and kinds other than file and link."""
    members = {}
    for member in archive:
        name = os.path.normpath(member.name)
        if member.isdir():
            continue
        if name.startswith(("/", "../")) or name in (".", "..") or not (member.isfile() or member.issym()):
            raise Fault("surface_unrestorable", "archive member %r is not a plain file or link inside" % member.name)
        members[name] = member
    return members


def make_folders(workdir, relative):
    """Makes the folders above a path real folders, removing links and files in the way."""
    current = workdir
    for part in relative.split("/")[:-1]:
        current = os.path.join(current, part)
        if os.path.islink(current) or os.path.lexists(current) and not os.path.isdir(current):
            os.unlink(current)
        if not os.path.lexists(current):
            os.mkdir(current)


def refuse_error(error):
    raise error


def restore_surface(config, tests, workdir, top):
    """Puts every archived file back byte for byte and removes what the agent added to the surface."""
    surface = config["surface"]
    archive_path = os.path.join(tests, surface["archive"])
    expected = surface.get("sha256")
    if expected is not None:
        with open(archive_path, "rb") as handle:
            if hashlib.sha256(handle.read()).hexdigest() != expected:
                raise Fault("surface_unrestorable", "the archive is not the one the task was frozen with")
    patterns = Patterns(surface["patterns"])
    kept_folders = set(surface.get("keep_folders", []))
    removed = []
    with tarfile.open(archive_path, "r:") as archive:
        members = archive_members(archive)
        for folder, folders, files in os.walk(workdir, topdown=True, onerror=refuse_error):
            relative = os.path.relpath(folder, workdir)
            prefix = "" if relative == "." else relative.replace(os.sep, "/") + "/"
            for name in list(folders):
                path = os.path.join(folder, name)
                if os.path.islink(path):
                    files.append(name)
                    folders.remove(name)
                elif name in kept_folders:
                    folders.remove(name)
                elif name in CACHE_FOLDERS:
                    remove(path)
                    folders.remove(name)
            for name in files:
                path = os.path.join(folder, name)
                inside = prefix + name
                if inside in members:
                    continue
                if patterns.match(inside) or not surface.get("tree_plugins") and registers_pytest_plugins(path):
                    remove(path)
                    removed.append(inside)
        for name in sorted(members):
            member = members[name]
            target = os.path.join(workdir, name)
            make_folders(workdir, name)
            remove(target)
            if member.issym():
                os.symlink(member.linkname, target)
                continue
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(target, flags, 0o600), "wb") as out:
                shutil.copyfileobj(archive.extractfile(member), out)
                os.fchmod(out.fileno(), member.mode & 0o777)
    # Pytest looks for its settings in the folders above the workspace, too.
    above = os.path.dirname(workdir)
    while workdir != top and (above == top or above.startswith(top.rstrip("/") + "/")):
        for name in surface.get("ancestor_files", []):
            if os.path.isfile(os.path.join(above, name)) or os.path.islink(os.path.join(above, name)):
                remove(os.path.join(above, name))
                removed.append(os.path.join(above, name))
        if above == top:
            break
        above = os.path.dirname(above)
    return {"restored": len(members), "removed": sorted(removed)[:MAX_REMOVED_NAMES], "removed_count": len(removed)}


# ---------------------------------------------------------------------------------------------------------------
# The suite: one process group, a fixed environment, a time limit, bounded output.

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_interpreter(config):
    """Gives the interpreter the suite runs with; a script in its place is refused."""
    python = config.get("python") or sys.executable
    try:
        with open(python, "rb") as handle:
            magic = handle.read(4)
    except OSError as error:
        raise Fault("no_python", "%s: %s" % (python, error.strerror))
    if magic != b"\x7fELF" or not os.access(python, os.X_OK):
        raise Fault("no_python", "%s is not a compiled program" % python)
    return python


def suite_command(config, python, runner):
    """Gives the argument list, and whether our own program starts pytest (else pytest loads us by `-p`)."""
    command = list(config["command"])
    name = os.path.basename(command[0])
    if name in ("pytest", "py.test"):
        return [python, runner, "script"] + command[1:], True
    if name in ("python", "python3"):
        if command[1:3] == ["-m", "pytest"]:
            return [python, runner, "module"] + command[3:], True
        return [python] + command[1:], False
    return command, False


def suite_environment(config, python, private, launched):
    env = {
        "PATH": os.path.dirname(python) + ":" + SYSTEM_PATH,
        "LANG": "C.UTF-8",
        "HOME": os.path.join(private, "home"),
    }
    path = env["PATH"]
    env.update(config.get("env", {}))
    if env["PATH"] != path:
        env["PATH"] = os.path.dirname(python) + ":" + env["PATH"]
    env["PYTHONNOUSERSITE"] = "1"
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    search = env.pop("PYTHONPATH", None)
    if not launched:
        env["PYTHONPATH"] = os.path.join(private, "plugin") + (":" + search if search else "")
        env["PYTEST_ADDOPTS"] = ("-p seatrial_report " + env.get("PYTEST_ADDOPTS", "")).strip()
    return env, search


class BoundedLog:
    """Keeps the head and the tail of the output and the true size."""

    def __init__(self, path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        self.out = os.fdopen(os.open(path, flags, 0o644), "wb")
        self.size, self.kept, self.tail, self.tail_size = 0, 0, deque(), 0

    def write(self, chunk):
        self.size += len(chunk)
        head = chunk[: max(0, KEPT_LOG_HEAD - self.kept)]
        self.out.write(head)
        self.kept += len(head)
        rest = chunk[len(head) :]
        if rest:
            self.tail.append(rest)
            self.tail_size += len(rest)
            while self.tail_size - len(self.tail[0]) >= KEPT_LOG_TAIL:
                self.tail_size -= len(self.tail.popleft())

    def close(self):
        dropped = self.size - self.kept - self.tail_size
        if dropped:
            self.out.write(b"\n[... %d bytes left out of %d ...]\n" % (dropped, self.size))
        for chunk in self.tail:
            self.out.write(chunk)
        self.out.close()


def kill_group(group):
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def run_suite(config, workdir, private, python, log_path):
    """Runs the suite; returns exit status (None when the limit was reached), report bytes, nonce and seconds."""
    nonce = secrets.token_hex(16)
    runner = os.path.join(private, "plugin", "seatrial_report.py")
    command, launched = suite_command(config, python, runner)
    env, search = suite_environment(config, python, private, launched)
    pipe = os.path.join(private, "report")
    ticket = os.path.join(private, "ticket")
    os.mkfifo(pipe, 0o600)
    with open(ticket, "w") as out:
        json.dump({"nonce": nonce, "pipe": pipe, "pythonpath": search}, out)
    env["SEATRIAL_TICKET"] = ticket
    report_end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    log = BoundedLog(log_path)
    report, report_size = [], 0
    started = time.monotonic()
    deadline = started + config["timeout_sec"]
    try:
        process = subprocess.Popen(
            command,
            cwd=workdir,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Fault("no_runner", "%s: %s" % (command[0], error.strerror))
    output_end = process.stdout.fileno()
    os.set_blocking(output_end, False)

    def take(descriptor):
        nonlocal report_size
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        if descriptor == output_end:
            log.write(chunk)
        elif report_size <= MAX_REPORT_BYTES:
            report_size += len(chunk)
            report.append(chunk)
        return bool(chunk)

    # A pipe that nobody writes to any more is always readable, so it is looked at only while it gives something.
    timed_out = False
    output_open = True
    while process.poll() is None:
        if time.monotonic() >= deadline:
            timed_out = True
            break
        poller = select.poll()
        poller.register(report_end, select.POLLIN)
        if output_open:
            poller.register(output_end, select.POLLIN)
        events = poller.poll(50)
        for descriptor, event in events:
            got = event & select.POLLIN and take(descriptor)
            if descriptor == output_end and not got and event & select.POLLHUP:
                output_open = False
        if events and not any(event & select.POLLIN for _, event in events):
            time.sleep(0.005)
    kill_group(process.pid)
    exit_status = process.wait()
    grace = time.monotonic() + GRACE_SECONDS
    for descriptor in (output_end, report_end):
        while time.monotonic() < grace and take(descriptor):
            pass
    seconds = time.monotonic() - started
    log.close()
    os.close(report_end)
    process.stdout.close()
    return (None if timed_out else exit_status), b"".join(report), nonce, seconds


def grade(config, tests, logs, workdir, top):
    """Restores, runs and decides; returns what report.json holds."""
    python = find_interpreter(config)
    if not os.path.isdir(workdir):
        raise Fault("surface_unrestorable", "%s is not a folder" % workdir)
    try:
        surface = restore_surface(config, tests, workdir, top)
    except (OSError, tarfile.TarError) as error:
        raise Fault("surface_unrestorable", str(error))
    private = tempfile.mkdtemp(prefix="seatrial-")
    try:
        os.mkdir(os.path.join(private, "home"))
        os.mkdir(os.path.join(private, "plugin"))
        shutil.copyfile(
            os.path.join(tests, "seatrial_report.py"), os.path.join(private, "plugin", "seatrial_report.py")
        )
        exit_status, data, nonce, seconds = run_suite(
            config, workdir, private, python, os.path.join(logs, "suite.log")
        )
    finally:
        shutil.rmtree(private, ignore_errors=True)
    run = read_report(data, nonce)
    if exit_status is None:
        run = run or Run()
        run.completion = "timed_out"
    elif run is None:
        if exit_status == NO_RUNNER:
            raise Fault("no_runner", "pytest is not importable by %s; see suite.log" % python)
        raise Fault("report_missing", "the suite ended with %d before the first report line" % exit_status)
    return {
        "schema": VERDICT_SCHEMA,
        "instance_id": config["instance_id"],
        "source": "report",
        "suite_seconds": round(seconds, 3),
        "surface": surface,
        "verdict": decide(config, run, exit_status),
    }


# ---------------------------------------------------------------------------------------------------------------
# Command line.


def read_config(path):
    try:
        with open(path, "rb") as handle:
            config = json.loads(handle.read().decode("utf-8"), object_pairs_hook=object_without_duplicates)
        if config["schema"] != CONFIG_SCHEMA:
            raise ValueError("schema %r, wanted %r" % (config["schema"], CONFIG_SCHEMA))
        if config["framework"] not in PARSERS:
            raise ValueError("framework %r is not known" % config["framework"])
        for key in ("fail_to_pass", "pass_to_pass", "command"):
            if not isinstance(config[key], list) or not all(isinstance(item, str) for item in config[key]):
                raise ValueError("%s is not a list of strings" % key)
        if not config["command"] or not config["timeout_sec"] > 0:
            raise ValueError("command or timeout_sec is empty")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Fault("config_unreadable", "%s: %s" % (path, error))
    return config


def write_atomically(path, text):
    temporary = "%s.%s.tmp" % (path, secrets.token_hex(4))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o644), "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.rename(temporary, path)


def to_json(value):
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def verify(root):
    top = os.path.realpath(root)
    tests, logs = os.path.join(top, "tests"), os.path.join(top, "logs", "verifier")
    try:
        if os.path.islink(logs):
            os.unlink(logs)
        os.makedirs(logs, exist_ok=True)
        for name in ("reward.txt", "reward.json", "report.json", "suite.log"):
            remove(os.path.join(logs, name))
        config = read_config(os.path.join(tests, "config.json"))
        if config["framework"] != "pytest":
            raise Fault("config_unreadable", "framework %r can only grade recorded logs" % config["framework"])
        workdir = os.path.realpath(os.path.join(top, config["workdir"].lstrip("/")))
        report = grade(config, tests, logs, workdir, top)
    except Exception as error:  # whatever went wrong here, it is no result of the task
        known = error if isinstance(error, Fault) else Fault("internal", "%s: %s" % (type(error).__name__, error))
        sys.stderr.write("verifier: %s: %s\n" % (known.name, known))
        fault = {"schema": VERDICT_SCHEMA, "fault": known.name, "detail": str(known)}
        try:
            write_atomically(os.path.join(logs, "report.json"), to_json(fault))
        except OSError:
            pass
        return EXIT_NO_REWARD
    verdict = report["verdict"]
    write_atomically(os.path.join(logs, "report.json"), to_json(report))
    reason = " (%s)" % verdict["reason"] if verdict["reason"] else ""
    sys.stdout.write("verifier: %s%s\n" % (verdict["outcome"], reason))
    if verdict["reward"] is None:
        return EXIT_NO_REWARD
    write_atomically(os.path.join(logs, "reward.txt"), "%d\n" % verdict["reward"])
    return 0


def read_bounded(path, limit):
    with open(path, "rb") as handle:
        data = handle.read(limit + 1)
    if len(data) > limit:
        raise Fault("config_unreadable", "%s is larger than %d bytes" % (path, limit))
    return data


def grade_recorded(options):
    config = read_config(options.config)
    if options.grade_report:
        run = read_report(read_bounded(options.grade_report, MAX_REPORT_BYTES), options.nonce)
        if run is None:
            raise Fault("report_missing", "the report is empty")
    else:
        text = read_bounded(options.grade_log, MAX_LOG_BYTES).decode("utf-8", "replace")
        marks = (options.begin, options.end) if options.begin and options.end else None
        run = PARSERS[options.framework or config["framework"]](text, marks)
    return {
        "statuses": run.statuses.map,
        "flaky": sorted(run.statuses.flaky),
        "placed_skips": run.placed_skips,
        "unresolved": run.unresolved,
        "completion": run.completion,
        "verdict": decide(config, run, options.exit),
    }


def main(arguments):
    parser = argparse.ArgumentParser(description="grades one task")
    parser.add_argument("--root", default="/")
    parser.add_argument("--grade-log")
    parser.add_argument("--grade-report")
    parser.add_argument("--config")
    parser.add_argument("--framework", choices=sorted(PARSERS))
    parser.add_argument("--exit", type=int)
    parser.add_argument("--nonce")
    parser.add_argument("--begin")
    parser.add_argument("--end")
    options = parser.parse_args(arguments)
    if options.grade_log or options.grade_report:
        try:
            sys.stdout.write(to_json(grade_recorded(options)))
        except (Fault, OSError) as error:
            sys.stderr.write("verifier: %s\n" % error)
            return EXIT_NO_REWARD
        return 0
    return verify(options.root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
