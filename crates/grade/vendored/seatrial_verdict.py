"""Decides what a run is worth: statuses, the runner's report, the verdict. No file and no process is touched here.

Follows the same written rules as the Rust crate `grade`; tests hold the two together. verify.py tells the rules.
"""

import json

REPORT_SCHEMA = "seatrial.report/2"
VERDICT_SCHEMA = "seatrial.verdict/1"

MAX_REPORT_BYTES = 64 << 20
MAX_ID_CHARS = 16384


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

    def namesake(self, test_id, status):
        """Records one of several tests that share a name: the worst counts, and differing is no flakiness."""
        if SEVERITY[status] >= SEVERITY[self.map.setdefault(test_id, status)]:
            self.map[test_id] = status


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
# The report: JSON lines from seatrial_report.py. Read strictly; anything that does not fit is forged.

LINE_KEYS = {
    "start": {"nonce", "n", "kind", "schema", "runner", "python"},
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
    texts = [line[key] for key in ("nonce", "schema", "runner", "python", "id", "when", "status") if key in line]
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
            raise Forged("parts of the runner were replaced during the run")
    except Forged as error:
        run.completion = "forged"
        run.detail = str(error)
    return run


# ---------------------------------------------------------------------------------------------------------------
# Ends: JSON lines from seatrial_end.cjs, one for each run of a runner whose results are read from the log.

END_KEYS = {"nonce", "kind", "runner", "passed", "failed"}


def read_end(raw, number, nonce):
    try:
        line = json.loads(raw.decode("utf-8"), object_pairs_hook=object_without_duplicates)
    except (ValueError, RecursionError):
        raise Forged("line %d is not JSON" % number)
    if not isinstance(line, dict) or set(line) != END_KEYS or not is_int(line["passed"]) or not is_int(line["failed"]):
        raise Forged("line %d has an unknown shape" % number)
    if line["nonce"] != nonce or line["kind"] != "end":
        raise Forged("line %d has another nonce" % number)
    return line


def compare_with_ends(run, data, nonce):
    """Holds what a log shows against what the runner counted at its end; code under test can print, too."""
    try:
        ends = [read_end(raw, number, nonce) for number, raw in enumerate(data.splitlines())]
        passed, failed = (sum(line[key] for line in ends) for key in ("passed", "failed"))
        shown = list(run.statuses.map.values())
        if not ends:
            run.completion, run.detail = "incomplete", "the runner did not say that it came to its end"
        elif shown.count("passed") > passed:
            raise Forged("the log shows %d passing tests where the runner counts %d" % (shown.count("passed"), passed))
        elif failed and not any(status in ("failed", "error") for status in shown):
            raise Forged("the log shows no failing test where the runner counts %d" % failed)
    except Forged as error:
        run.completion, run.detail = "forged", str(error)


# ---------------------------------------------------------------------------------------------------------------
# The verdict: pure.

GOOD = {"fail_to_pass": {"passed", "xpass"}, "pass_to_pass": {"passed", "xpass", "skipped"}}
TALLY_KEYS = ("passed", "failed", "error", "skipped", "xfail", "xpass", "missing")
# What runners say with an exit status, in pytest's words: 0 all passed, 1 some failed, 5 nothing ran. Cargo ends
# with 101 when tests fail, Mocha with the number of failures, Go with 2 when a package cannot be built.
FAILING_EXITS = {"cargo": {101}, "go": {2}, "mocha": set(range(1, 126))}


def suite_exit(framework, exit_status):
    return 1 if exit_status in FAILING_EXITS.get(framework, ()) else exit_status


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
