"""Reports every test outcome of a pytest session as JSON lines, for verify.py to read.

The file has two uses:

* run as a program it starts pytest (6.0 or newer) with itself as a plugin. Pytest and this plugin are imported
  while only the interpreter's own directories are on sys.path; the workspace and PYTHONPATH join afterwards, so a
  file of the workspace cannot stand in for pytest, for this plugin or for a standard module they use;
* named with `-p seatrial_report` it reports from a session that something else started.

verify.py leaves a ticket: a JSON file, named by SEATRIAL_TICKET, that holds the nonce of the run and the path of a
pipe. The first process that loads this file takes the ticket and deletes it; later ones (pytest-xdist workers, the
children of tests) find none and stay silent. The nonce is kept in a closure, never in the environment. What has
been written to the pipe cannot be taken back.

What this does not stop: the code under test runs in the same process, and code that looks for the nonce or
replaces pytest's own functions can lie. A few functions are compared at the end with what they were at the
start; that is a trip-wire, not a wall. The wall is a suite that does not import the code under test.

Lines: {"nonce", "n", "kind", ...}, n counting from 0 without gaps.
    start    {"schema", "pytest", "python"}
    test     {"id", "when", "status"}   setup call teardown subtest; passed failed error skipped xfail xpass rerun
    collect  {"id", "status"}           error or skipped, for a file or class that was not collected
    end      {"exit", "counts"}         counts of the statuses above, and what pytest is about to exit with
"""

import json
import os
import sys

SCHEMA = "seatrial.report/1"
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


def make_plugin(ticket):
    """Opens the pipe, writes the start line and returns the plugin object."""
    import pytest

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

    class Plugin(Reporter):
        @pytest.hookimpl(hookwrapper=True, tryfirst=True)
        def pytest_sessionfinish(self, session):
            yield  # other plugins may still change the exit status
            self.finish(session)

    emit("start", {"schema": SCHEMA, "pytest": pytest.__version__, "python": sys.version.split()[0]})
    return Plugin(emit, watched_functions())


def run(mode, arguments):
    """Starts pytest as `python -m pytest` (mode "module") or as the `pytest` program (mode "script") would."""
    try:
        import pytest
    except ImportError as error:
        sys.stderr.write("seatrial_report: pytest is not importable: %s\n" % error)
        return NO_RUNNER
    ticket = take_ticket()
    plugins = [] if ticket is None else [make_plugin(ticket)]
    search = (ticket or {}).get("pythonpath")
    extra = []
    if search is not None:
        os.environ["PYTHONPATH"] = search
        for entry in search.split(os.pathsep):
            entry = os.path.abspath(entry)
            if entry not in extra:
                extra.append(entry)
    first = os.getcwd() if mode == "module" else os.path.dirname(sys.executable)
    sys.path[:] = [first] + extra + [entry for entry in sys.path[1:] if entry not in extra]
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), "pytest")] + arguments
    return pytest.main(arguments, plugins=plugins)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))

if __name__ == "seatrial_report":
    TICKET = take_ticket()
    PLUGIN = None if TICKET is None else make_plugin(TICKET)
    TICKET = None

    def pytest_configure(config):
        if PLUGIN is not None:
            config.pluginmanager.register(PLUGIN, "seatrial_reporter")
