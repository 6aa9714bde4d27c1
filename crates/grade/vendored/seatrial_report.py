"""Reports every test outcome of a pytest or unittest run as JSON lines, for verify.py to read.

The file has two uses:

* run as a program it starts pytest (6.0 or newer) with itself as a plugin, or a program that runs unittest. The runner
  and this file are imported while only the interpreter's own directories are on sys.path; the workspace and PYTHONPATH
  join afterwards, so a file of the workspace cannot stand in for the runner, for this file or for a standard module;
* named with `-p seatrial_report` it reports from a pytest session that something else started.

verify.py leaves a ticket: a JSON file, named by SEATRIAL_TICKET, that holds the nonce of the run and the path of a
pipe. The first process that loads this file takes the ticket and deletes it; later ones (pytest-xdist workers, the
children of tests) find none and stay silent. The nonce is kept in a closure, never in the environment. What has
been written to the pipe cannot be taken back.

What this does not stop: the code under test runs in the same process, and code that looks for the nonce or
replaces the runner's own functions can lie. A few functions are compared at the end with what they were at the
start; that is a trip-wire, not a wall. The wall is a suite that does not import the code under test.

Lines: {"nonce", "n", "kind", ...}, n counting from 0 without gaps.
    start    {"schema", "runner", "python"}
    test     {"id", "when", "status"}   setup call teardown subtest; passed failed error skipped xfail xpass rerun
    collect  {"id", "status"}           error or skipped, for a file or class that was not collected
    end      {"exit", "counts"}         counts of the statuses above, and what the runner is about to exit with
"""

import json
import os
import sys

SCHEMA = "seatrial.report/2"
NO_RUNNER = 97  # exit status of this program when pytest is not importable


def take_ticket():
    """Reads and deletes the ticket; None when there is none for this process."""
    path = os.environ.pop("SEATRIAL_TICKET", None)
    if not path:
        return None
    try:
        with open(path, "rb") as handle:
            ticket = json.loads(handle.read().decode("utf-8"))
        os.unlink(path)
    except (OSError, ValueError):
        return None
    return ticket


def is_subtest(report):
    """Says whether a report is of a subtest, by pytest 9 or by pytest-subtests."""
    return type(report).__name__.lower() == "subtestreport"


def status_of(report):
    """Gives the status a report stands for, by the words of pytest's verbose output; None when it has none."""
    if is_subtest(report):
        return "failed" if report.outcome == "failed" else None  # only a failing one says something of its test
    if report.outcome == "rerun":
        return "rerun"
    expected_to_fail = hasattr(report, "wasxfail")
    if report.outcome == "skipped":
        return "xfail" if expected_to_fail else "skipped"
    if report.when in ("setup", "teardown"):
        return "error" if report.outcome == "failed" else None
    if report.outcome == "passed":
        return "xpass" if expected_to_fail else "passed"
    return "failed"  # the body, or a worker of pytest-xdist that died in it


def watched_functions():
    """Lists functions that decide outcomes and that no honest code under test replaces."""
    import _pytest.python
    import _pytest.reports
    import _pytest.runner
    import _pytest.unittest

    found = [
        status_of,
        Reporter.pytest_runtest_logreport,
        getattr(_pytest.python, "pytest_pyfunc_call", None),
        getattr(_pytest.python.Function, "runtest", None),
        getattr(_pytest.reports.TestReport, "from_item_and_call", None),
        getattr(_pytest.runner, "call_and_report", None),
        getattr(_pytest.runner, "pytest_runtest_makereport", None),
        getattr(_pytest.runner, "runtestprotocol", None),
        getattr(_pytest.runner.CallInfo, "from_call", None),
        getattr(_pytest.unittest.TestCaseFunction, "runtest", None),
    ]
    functions = [getattr(item, "__func__", item) for item in found]
    return [(id(item), getattr(item, "__code__", None)) for item in functions]


class Reporter:
    """The plugin: turns reports into lines. `emit(kind, fields)` writes one; `watch()` is what it started from."""

    def __init__(self, emit, watched):
        def count(status):
            counts[status] = counts.get(status, 0) + 1

        counts = {}
        self._emit, self._count, self._counts, self._watched = emit, count, counts, watched

    def pytest_runtest_logreport(self, report):
        status = status_of(report)
        if status is not None:
            self._count(status)
            when = "subtest" if is_subtest(report) else report.when
            self._emit("test", {"id": report.nodeid, "when": when, "status": status})

    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            status = "skipped" if report.outcome == "skipped" else "error"
            self._count(status)
            self._emit("collect", {"id": report.nodeid, "status": status})

    def finish(self, session):
        if watched_functions() != self._watched:
            self._emit("tamper", {})
        self._emit("end", {"exit": int(session.exitstatus), "counts": self._counts})


def make_emitter(ticket, runner):
    """Opens the pipe, writes the start line and returns the function that writes further lines."""
    descriptor = os.open(ticket["pipe"], os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    nonce = ticket["nonce"]
    owner = os.getpid()
    number = [0]

    def emit(kind, fields):
        if os.getpid() != owner:
            return  # a forked child of a test does not speak for the session
        line = {"nonce": nonce, "n": number[0], "kind": kind}
        line.update(fields)
        number[0] += 1
        if "id" in line:  # an id may hold lone surrogates, which strict JSON readers refuse
            line["id"] = line["id"].encode("utf-8", "backslashreplace").decode("utf-8")
        data = json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n"
        while data:
            data = data[os.write(descriptor, data) :]

    emit("start", {"schema": SCHEMA, "runner": runner, "python": sys.version.split()[0]})
    return emit


def make_plugin(ticket):
    """Gives the plugin object that reports by the ticket."""
    import pytest

    emit = make_emitter(ticket, "pytest " + pytest.__version__)

    class Plugin(Reporter):
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_sessionfinish(self, session):
            yield  # other plugins may still change the exit status
            self.finish(session)

    return Plugin(emit, watched_functions())


class UnittestReporter:
    """Reports what unittest books with its result object, by wrapping the methods that all result objects share."""

    METHODS = {
        "addSuccess": "passed",
        "addError": "error",
        "addFailure": "failed",
        "addSkip": "skipped",
        "addExpectedFailure": "xfail",
        "addUnexpectedSuccess": "xpass",
    }

    def __init__(self, emit):
        import unittest

        self._emit, self._counts, self._unittest = emit, {}, unittest
        for method, status in self.METHODS.items():
            self._wrap(method, status)
        booked = unittest.TestResult.addSubTest

        def add_subtest(result, test, subtest, error):
            if error is not None:
                self._book(test, "subtest", "failed")
            return booked(result, test, subtest, error)

        unittest.TestResult.addSubTest = add_subtest
        self._watched = self._watch()

    def _wrap(self, method, status):
        booked = getattr(self._unittest.TestResult, method)

        def add(result, test, *rest):
            self._book(test, "call", status)
            return booked(result, test, *rest)

        setattr(self._unittest.TestResult, method, add)

    def _book(self, test, when, status):
        self._counts[status] = self._counts.get(status, 0) + 1
        self._emit("test", {"id": str(test).split("\n")[0], "when": when, "status": status})

    def _watch(self):
        case, result = self._unittest.TestCase, self._unittest.TestResult
        found = [getattr(result, method) for method in self.METHODS] + [
            result.addSubTest,
            case.run,
            getattr(case, "_callTestMethod", None),
            self._unittest.TestSuite.run,
            self._unittest.TextTestRunner.run,
        ]
        return [(id(item), getattr(item, "__code__", None)) for item in found]

    def finish(self, exit_status):
        if self._watch() != self._watched:
            self._emit("tamper", {})
        self._emit("end", {"exit": exit_status, "counts": self._counts})


def run_unittest(mode, arguments):
    """Runs a program or module that runs unittest, as `python PROGRAM` or `python -m MODULE` would."""
    import runpy
    import unittest  # noqa: F401

    ticket = take_ticket()
    reporter = UnittestReporter(make_emitter(ticket, "unittest"))
    name = arguments[0]
    first = os.getcwd() if mode == "unittest-module" else os.path.dirname(os.path.abspath(name))
    join_search_path(first, ticket["pythonpath"])
    sys.argv[:] = arguments
    status = 0
    try:
        if mode == "unittest-module":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        status = int(status) & 255
    reporter.finish(status)
    return status


def join_search_path(first, search=None):
    """Puts the workspace and PYTHONPATH in front of the interpreter's own directories."""
    extra = []
    if search is not None:
        os.environ["PYTHONPATH"] = search
        for entry in search.split(os.pathsep):
            entry = os.path.abspath(entry)
            if entry not in extra:
                extra.append(entry)
    sys.path[:] = [first] + extra + [entry for entry in sys.path[1:] if entry not in extra]


def run(mode, arguments):
    """Starts pytest as `python -m pytest` (mode "module") or as the `pytest` program (mode "script") would."""
    try:
        import pytest
    except ImportError as error:
        sys.stderr.write("seatrial_report: pytest is not importable: %s\n" % error)
        return NO_RUNNER
    ticket = take_ticket()
    plugins = [] if ticket is None else [make_plugin(ticket)]
    first = os.getcwd() if mode == "module" else os.path.dirname(sys.executable)
    join_search_path(first, (ticket or {}).get("pythonpath"))
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "pytest")] + arguments
    return pytest.main(arguments, plugins=plugins)


if __name__ == "__main__":
    sys.exit((run_unittest if sys.argv[1].startswith("unittest") else run)(sys.argv[1], sys.argv[2:]))

if __name__ == "seatrial_report":
    TICKET = take_ticket()
    PLUGIN = None if TICKET is None else make_plugin(TICKET)
    TICKET = None

    def pytest_configure(config):
        if PLUGIN is not None:
            config.pluginmanager.register(PLUGIN, "seatrial_reporter")
