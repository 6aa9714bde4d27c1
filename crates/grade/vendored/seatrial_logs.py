"""Reads the logs of test runners; the Rust crate `grade` has the same parsers, and tests hold the two together.

`parse(framework, text, marks)` gives a Run. A log is text that the code under test can write to as well. So verify.py
trusts one only beside the exit status and, where the runner can be asked, beside what seatrial_end.cjs or the end
files of Go's test programs say.

Names are those of the public collections: what the runner prints on the line of the result. Several tests may share
one; the worst of their statuses then counts.
"""

import re

from seatrial_results import DARK, MOST, WHITE, Results, group, number, read_event

MAX_LINE_CHARS = 32768  # no result is reported on a longer line

ANSI = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")


def lines_between_marks(text, marks):
    """Gives the lines between the marks and how complete they are; without marks, all lines."""
    lines = [line.rstrip("\r") for line in ANSI.sub("", text).split("\n")]
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


def short(lines):
    """Leaves out lines that are too long to be results."""
    return [line for line in lines if len(line) <= MAX_LINE_CHARS]


def visible(lines):
    """Gives what a terminal would show at the end of each line: the last text that a carriage return did not wipe."""

    def last(line):
        return ([part for part in line.split("\r") if part] or [""])[-1] if "\r" in line else line

    return short([last(line) for line in lines])


# ---------------------------------------------------------------------------------------------------------------
# Go.

GO_RUN = re.compile(r"^=== RUN +(%s+)$" % DARK)
GO_RESULT = re.compile(r"^(.*?)--- (PASS|FAIL|SKIP): (%s+) \([0-9]+(?:\.[0-9]+)?s\)$" % DARK)
GO_BUILD_FAILED = re.compile(r"^FAIL\t(%s+) \[(?:build|setup) failed\]$" % DARK)
GO_PACKAGE = re.compile(r"^(ok  |FAIL|\?   |---)\t([^%s\[]+)(?:[\t ].*)?$" % WHITE)
GO_WORDS = {"PASS": "passed", "SKIP": "skipped", "FAIL": "failed"}
GO_ACTIONS = {
    "start", "run", "pause", "cont", "pass", "bench", "fail", "output", "skip", "build-output", "build-fail"
}  # fmt: skip
GO_KEYS = ("Action", "Package", "Test", "ImportPath")


def read_go_event(line):
    event = read_event(line)
    if event is None or event.get("Action") not in GO_ACTIONS:
        return None
    texts = [event.get(key, "") for key in GO_KEYS]
    return texts if all(isinstance(text, str) for text in texts) else None


def parse_go(lines):
    """Reads the text of `go test -v`, or the events of `go test -json` as soon as one line is such an event."""
    events = [event for event in map(read_go_event, lines) if event is not None]
    if not events:
        return parse_go_text(lines)
    results = parse_go_events(events)
    for line in lines:
        found = GO_BUILD_FAILED.match(line)
        if found:
            results.record(group(found.group(1)), "", "error")
    return results


def parse_go_text(lines):
    results = Results()
    announces = any(GO_RUN.match(line) for line in lines)
    announced, shown = set(), []

    def settle(package, failed):
        if failed and not any(status == "failed" for _, status in shown):
            results.record(package, "", "error")
        for name in announced:
            results.announce(package, name)
        for name, status in shown:
            results.record(package, name, status)
        announced.clear()
        shown.clear()

    for line in lines:
        found = GO_RUN.match(line)
        if found:
            announced.add(found.group(1))
            continue
        found = GO_RESULT.match(line)
        if found:
            before, word, name = found.groups()
            if name in announced or not announces and not before.strip(WHITE):
                shown.append((name, GO_WORDS[word]))
            continue
        found = GO_PACKAGE.match(line)
        if found:
            settle(group(found.group(2)), found.group(1) == "FAIL")
    settle("", False)
    return results


def parse_go_events(events):
    results = Results()
    failing, running = set(), set()
    for action, package, test, import_path in events:
        place = group(package)
        if action == "run":
            running.add((package, test))
        elif test and (package, test) not in running:
            continue
        if test:
            if action == "run":
                results.announce(place, test)
            elif action in ("pass", "skip", "fail"):
                results.record(place, test, GO_WORDS[action.upper()])
                if action == "fail":
                    failing.add(package)
        elif action == "fail" and package and package not in failing:
            results.record(place, "", "error")
        if action == "build-fail" and import_path:
            results.record(group(import_path), "", "error")
    return results


# ---------------------------------------------------------------------------------------------------------------
# Cargo.

CARGO_BINARY = re.compile(
    r"^ *Running (?:[^`(]*\(|`)?[^ ()`]*deps/([^ /()`]+?)(?:-[0-9a-f]{16})?(?:\.exe)?(?:[ `)].*)?$"
)
CARGO_DOC_TESTS = re.compile(r"^ *Doc-tests (%s+)$" % DARK)
CARGO_TEST = re.compile(r"^test (.+?) \.\.\. ?(.*)$")
CARGO_WORD = re.compile(r"^(ok|FAILED|ignored)(?:, .*| <[0-9.]+s>)?$")
CARGO_SUMMARY = re.compile(r"^test result: (?:ok|FAILED)\. ([0-9]+) passed; ([0-9]+) failed; ([0-9]+) ignored;")
CARGO_WORDS = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
CARGO_EVENTS = {"ok": "passed", "failed": "failed", "ignored": "skipped"}
LIBTEST_TRY = re.compile(r"#[0-9]+$")


def cargo_status(text):
    found = CARGO_WORD.match(text.rstrip(" "))
    return CARGO_WORDS[found.group(1)] if found else None


def cargo_binary(line):
    found = CARGO_DOC_TESTS.match(line) or CARGO_BINARY.match(line)
    return found.group(1) if found else None


def parse_cargo(lines):
    """Reads libtest's lines, or its JSON events. A program that shows more passes than it counts is forged."""
    results = parse_libtest(lines)
    if results is not None:
        return results
    results = Results()
    binary, passes, waiting = "", 0, set()
    for line in lines:
        found = CARGO_TEST.match(line)
        if found:
            name, rest = found.groups()
            results.announce(binary, name)
            status = cargo_status(rest)
            if status is None:
                waiting.add(name)
                continue
        else:
            status = cargo_status(line)
            if status is not None and len(waiting) != 1:
                continue
            name = waiting.pop() if status is not None else None
        if status is not None:
            passes += status == "passed"
            results.record(binary, name, status)
            continue
        found = CARGO_SUMMARY.match(line)
        if found:
            counted = number(found.group(1), MOST)
            if passes > counted:
                who = binary or "the binary"
                results.spoil("forged", "%d passes are shown where %s counts %d" % (passes, who, counted))
            passes, waiting = 0, set()
            continue
        named = cargo_binary(line)
        if named is not None:
            binary, passes, waiting = group(named), 0, set()
    return results


def read_libtest_event(line):
    event = read_event(line)
    if event is None or event.get("type") not in ("suite", "test") or not isinstance(event.get("event"), str):
        return None
    name, passed = event.get("name"), event.get("passed")
    if name is not None and not isinstance(name, str):
        return None
    if passed is not None and (not isinstance(passed, int) or isinstance(passed, bool) or not 0 <= passed <= MOST):
        return None
    return event


def parse_libtest(lines):
    """Reads libtest's events; None when no line is one."""
    results, binary, passes, is_any = Results(), "", None, False

    def end(shown, counted):
        if shown is not None and counted is None:
            results.spoil("incomplete", "a suite has no end among its events")
        elif shown is not None and shown > counted:
            results.spoil("forged", "%d passes are shown where the suite counts %d" % (shown, counted))

    for line in lines:
        event = read_libtest_event(line)
        if event is None:
            named = cargo_binary(line)
            binary = binary if named is None else group(named)
            continue
        is_any = True
        if event["type"] == "test":
            name = event.get("name")
            if name is None:
                continue
            again = None
            if "$" in name:  # `shop::it$till::adds#2`, the second try of a test of the program `shop::it`
                name = name.split("$", 1)[1]
                again = LIBTEST_TRY.search(name)
            if again:
                name = name[: again.start()]
                results.rerun(binary, name)
            status = CARGO_EVENTS.get(event["event"])
            if status is None:
                results.announce(binary, name)
            else:
                results.record(binary, name, status)
            if passes is not None:
                passes += status == "passed"
        elif event["event"] == "started":
            end(passes, None)
            passes = 0
        else:
            end(passes, event.get("passed"))
            passes = None
    end(passes, None)
    return results if is_any else None


# ---------------------------------------------------------------------------------------------------------------
# Maven Surefire.

JAVA_FIRST, JAVA_NEXT = "[A-Za-z_$\x80-\U0010ffff]", "[0-9A-Za-z_$\x80-\U0010ffff]"
SUREFIRE_LEVEL = re.compile(r"^\[(?:INFO|ERROR|WARNING)\] +")
SUREFIRE_RESULT = re.compile(
    r"^(%s.*?)(?: --|  ?) ?Time elapsed: [0-9.,]+ (?:s|sec|ms)(?: *<<< (FAILURE|ERROR)!)?[%s]*$" % (DARK, WHITE)
)
SUREFIRE_SKIPPED = re.compile(
    r"^((?:{0}{1}*\.)+{0}{1}*|{1}+\((?:{1}|\.)+\)) +(?:skipped|SKIPPED)(?:[ :].*)?$".format(JAVA_FIRST, JAVA_NEXT)
)
SUREFIRE_TURNED = re.compile(r"^([^().]*(?:\[.*\])?)\(((?:{0}+\.)*[A-Z$_]{0}*)\)$".format(JAVA_NEXT))
SUREFIRE_WORDS = {None: "passed", "FAILURE": "failed", "ERROR": "error"}


def parse_surefire(lines):
    """Reads lines with a run time, and those of skipped tests. `method(class)` becomes `class.method`."""
    results = Results()
    for line in lines:
        text = SUREFIRE_LEVEL.sub("", line)
        if text.startswith("Tests run:"):
            continue
        found = SUREFIRE_RESULT.match(text)
        status = SUREFIRE_WORDS[found.group(2)] if found else "skipped"
        found = found or SUREFIRE_SKIPPED.match(text)
        if found:
            turned = SUREFIRE_TURNED.match(found.group(1))
            name = "%s.%s" % (turned.group(2), turned.group(1)) if turned else found.group(1)
            results.record("", name, status)
    return results


PARSERS = {"cargo": parse_cargo, "go": parse_go, "surefire": parse_surefire}


def parser_of(framework):
    """Gives the function that reads a framework's logs, with everything that it needs read in.

    It takes the text, the marks around it if there are any, and `trusted`: passes of a group for which that does not hold
    are errors.
    """
    if framework in ("pytest", "unittest", "lines"):
        from seatrial_logs_python import PARSERS as python_parsers

        python_parser = python_parsers[framework]

        def parse_python(text, marks=None, trusted=None):
            lines, completion = lines_between_marks(text, marks)
            run = python_parser(short(lines))
            run.completion = completion
            return run

        return parse_python
    parser = PARSERS.get(framework)
    if parser is None:
        from seatrial_logs_javascript import PARSERS as javascript_parsers

        parser = javascript_parsers[framework]

    def parse(text, marks=None, trusted=None):
        lines, completion = lines_between_marks(text, marks)
        results = parser(visible(lines))
        for (place, _), statuses in results.tests.items():
            if trusted is not None and place and statuses.map.get("") == "passed" and not trusted(place):
                statuses.map[""] = "error"
        run = results.run()
        if completion != "complete":
            run.completion, run.detail = completion, None
        return run

    return parse
