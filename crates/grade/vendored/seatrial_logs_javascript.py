"""Reads the logs of Mocha, `node --test`, Jest, Vitest and TAP: trees of suites, and tests two blanks deeper."""

import re

from seatrial_results import DARK, SEPARATOR, WHITE, Results, before, group, number

MAX_TITLE_BYTES = 400
MAX_DEPTH = 24
TIMINGS = re.compile(r"(?: \([0-9]+(?:\.[0-9]+)? ?(?:ms|s|m|h)\))+$")


def without_timing(title):
    """Cuts run times off, however many: a title may end like one, whether or not the runner adds its own."""
    return before(TIMINGS, title)


def indentation(line):
    rest = line.lstrip(" ")
    return len(line) - len(rest), rest


class Tree:
    """The suites above a line. A line becomes a suite only when a result stands right below it, one level deeper."""

    def __init__(self):
        self.suites, self.waiting = [], []

    def suite(self, indent, title):
        depth = indent // 2
        size = len(title.encode("utf-8", "surrogatepass"))
        if indent % 2 == 0 and 1 <= depth <= MAX_DEPTH and 1 <= size <= MAX_TITLE_BYTES:
            self.waiting.append((depth, title))

    def group(self, file, indent):
        depth = min(max(indent // 2 - 1, 0), MAX_DEPTH)
        new = []
        for at, title in reversed(self.waiting):
            if at + len(new) == depth:
                new.append(title)
        self.waiting = []
        kept = depth - len(new)
        if kept < len(self.suites) or new:
            self.suites = self.suites[:kept] + new[::-1]
        return group(file, *self.suites)


def after_mark(text, marks):
    """Gives the title behind one of the marks; None when there is none."""
    for mark in marks:
        if text.startswith(mark):
            return text[len(mark) :] if text[len(mark) :].strip(WHITE) else None
    return None


# ---------------------------------------------------------------------------------------------------------------
# Mocha and `node --test`: the `spec` reporters.

MOCHA_SUMMARY = re.compile(r"^[0-9]+ passing \(.*\)$")
MOCHA_NUMBERED = re.compile(r"^\+?([0-9]+)\) (.*)$")
NODE_MARKS = (("\u2714 ", "passed"), ("\u2716 ", "failed"), ("\ufe63 ", "skipped"))
NODE_DIRECTIVES = (") # SKIP", ") # TODO")


def parse_mocha(lines):
    """Reads Mocha's tree. Failures count only under their next number, and nothing below the summary is read."""
    results, tree, failures, is_over = Results(), Tree(), 0, False
    for line in lines:
        indent, text = indentation(line)
        title = after_mark(text, ("\u2714 ", "\u2713 ", "\u221a "))
        if title is not None:
            is_over = False
            results.record(tree.group("", indent), without_timing(title), "passed")
        elif MOCHA_SUMMARY.match(text):
            is_over, failures, tree = True, 0, Tree()
        elif is_over or indent < 2:
            continue  # differences below the tree, and what tests print
        else:
            crossed, skipped = after_mark(text, ("\u2716 ", "\u00d7 ")), after_mark(text, ("- ",))
            numbered = MOCHA_NUMBERED.match(text)
            if crossed is not None:
                results.record(tree.group("", indent), without_timing(crossed), "failed")
            elif numbered and number(numbered.group(1), 0) == failures + 1 and numbered.group(2).strip(WHITE):
                failures += 1
                title = without_timing(numbered.group(2))
                is_hook = title.startswith(('"before ', '"after '))
                results.record(tree.group("", indent), title, "error" if is_hook else "failed")
            elif skipped is not None:
                results.record(tree.group("", indent), skipped, "skipped")
            else:
                tree.suite(indent, text)
    return results


def node_title(text):
    """Gives the title of `title (1.5ms)` or `title (1.5ms) # SKIP`; None without a run time, which every result has."""
    for directive in NODE_DIRECTIVES:
        at = text.rfind(directive)
        if at != -1:
            text = text[: at + 1]
            break
    title = without_timing(text)
    return title if len(title) < len(text) else None


def parse_node(lines):
    results, tree, is_over = Results(), Tree(), False
    for line in lines:
        indent, text = indentation(line)
        depth = indent + 2  # tests of the top stand at the margin here
        if text == "\u2716 failing tests:":
            is_over = True
        elif text.startswith("\u25b6 "):
            is_over = False
            suite = text[2:]
            title = node_title(suite)
            tree.suite(depth, suite if title is None else title)
        elif not is_over:  # below, failures are told again without what they belong to
            for mark, status in NODE_MARKS:
                title = node_title(text[len(mark) :]) if text.startswith(mark) else None
                if title is None:
                    continue
                if status == "passed" and (text.endswith(" # SKIP") or ") # SKIP " in text):
                    status = "skipped"
                results.record(tree.group("", depth), title, status)
                break
    return results


# ---------------------------------------------------------------------------------------------------------------
# Jest.

JEST_HEADING = re.compile(
    r"^ ?(PASS|FAIL) +(?:%s+ +)??(%s+\.[A-Za-z]+)(?: \([0-9.]+ ?m?s\))?(?: +\([0-9.]+ [kKMG]B heap size\))? *$"
    % (DARK, DARK)
)
JEST_SKIPPED = re.compile(r"^\u25cb skipped ([0-9]+) tests?$")
JEST_MARKS = {"\u2713": "passed", "\u221a": "passed", "\u2715": "failed", "\u00d7": "failed"}
JEST_LEFT_OUT = {"\u25cb": "skipped ", "\u270e": "todo "}
JEST_MESSAGES = (
    "Console",
    "Test suite failed to run",
    "Cannot log after tests are done",
    "process.exit called with",
    "Deprecation Warning",
    "Validation ",
)


class Jest:
    """Reads the tree behind each heading `PASS file`, up to the first empty line or message."""

    def __init__(self):
        self.results, self.tree, self.file, self.failed = Results(), Tree(), "", False
        self.part = "outside"  # outside, heading, tree, messages (with a tree before them), only_messages

    def line(self, line):
        found = JEST_HEADING.match(line)
        if found:
            self.file, self.failed = found.group(2), found.group(1) == "FAIL"
            self.part, self.tree = "heading", Tree()
            return
        indent, text = indentation(line)
        if indent == 0 and text.startswith("Tests: "):
            self.file, self.failed, self.part = "", False, "outside"
        elif text.startswith("\u25cf "):
            self.message(text[2:])
        elif self.part in ("heading", "tree"):
            if not text:
                self.enter_messages()
            elif indent >= 2 and self.result(indent, text):
                self.part = "tree"
            else:
                self.tree.suite(indent, text)

    def enter_messages(self):
        self.part = {"heading": "only_messages", "tree": "messages"}.get(self.part, self.part)

    def result(self, indent, text):
        found = JEST_SKIPPED.match(text)
        if found:
            self.results.placed_skips += number(found.group(1), 0)
            return True
        mark, blank, title = text.partition(" ")
        if not blank:
            return False
        if mark in JEST_LEFT_OUT:
            word, status = JEST_LEFT_OUT[mark], "skipped"
            title = title[len(word) :] if title.startswith(word) else title
        elif mark in JEST_MARKS:
            status = JEST_MARKS[mark]
        else:
            return False
        title = without_timing(title)
        if not title:
            return False
        self.results.record(self.tree.group(self.file, indent), title, status)
        return True

    def message(self, heading):
        self.enter_messages()
        if not self.file:
            return
        if heading == "Test suite failed to run":
            self.results.record(group(self.file), "", "error")
        elif self.failed and self.part == "only_messages" and not heading.startswith(JEST_MESSAGES):
            *suites, title = heading.split(" \u203a ")
            place = group(self.file, *suites)
            if title and not self.results.has(place, title):
                self.results.record(place, title, "failed")


def parse_jest(lines):
    jest = Jest()
    for line in lines:
        jest.line(line)
    return jest.results


# ---------------------------------------------------------------------------------------------------------------
# Vitest.

VITEST_TIMINGS = re.compile(
    r"(?: \(?[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\)?| \((?:retry|repeat) x[0-9]+\)| [0-9]+ MB heap used| \[skipped\])+$"
)
VITEST_COUNT = re.compile(r"^(.+?) \([0-9]+(?: tests?)?(?: \| [^()]*)?\)$")
VITEST_PROJECT = re.compile(r"^\|[^|]+\| +")
VITEST_BROKEN = re.compile(r"^(%s+) \[ %s+ \]$" % (DARK, DARK))
VITEST_MARKS = {
    "\u2713": "passed", "\u221a": "passed",
    "\u00d7": "failed", "\u2717": "failed", "\u2716": "failed", "\u276f": "failed",
    "\u2193": "skipped", "\u25cb": "skipped", "\u25a1": "skipped",
}  # fmt: skip


def parse_vitest(lines):
    """Reads Vitest's default and verbose reporters; a file counts under its own name as well."""
    results, tree, file = Results(), Tree(), ""
    for line in lines:
        indent, text = indentation(line)
        if text.startswith("FAIL  "):
            heading = VITEST_PROJECT.sub("", text[6:], count=1)
            broken = VITEST_BROKEN.match(heading)
            name = before(VITEST_TIMINGS, heading)
            if broken:
                results.record(group(broken.group(1)), "", "error")
            elif SEPARATOR in heading and not results.has("", name):
                results.record("", name, "failed")
            continue
        if text.startswith(("stdout | ", "stderr | ")):
            file = ""  # what a test printed follows
            continue
        mark, blank, title = text.partition(" ")
        status = VITEST_MARKS.get(mark)
        if not blank or status is None:
            continue
        title = before(VITEST_TIMINGS, VITEST_PROJECT.sub("", title.lstrip(WHITE), count=1))
        found = VITEST_COUNT.match(title)
        counted = found.group(1) if found else None
        # A top line stands at the margin or one blank deep, what belongs to a file three or more.
        if counted is not None and indent < 2 and SEPARATOR not in counted:
            file, tree = counted, Tree()
            results.record(group(counted), "", status)
        elif counted is not None and mark == "\u276f" and file:
            tree.suite(max(indent - 1, 0), counted)
        elif mark == "\u276f" or not title:
            continue
        elif indent < 2:
            results.record("", title, status)
        elif file:
            # Behind the title of a slow test stands a blank more.
            title = before(VITEST_TIMINGS, title.rstrip(" "))
            results.record("", tree.group(file, indent - 1) + SEPARATOR + title, status)
    return results


# ---------------------------------------------------------------------------------------------------------------
# The Test Anything Protocol.

TAP_RESULT = re.compile(
    r"^(ok|not ok)(?: [0-9]+)?(?: - | )(%s.*?)(?: # ((?i:SKIP|TODO))(?:PED|:|[%s].*)?)?$" % (DARK, WHITE)
)


def parse_tap(lines):
    """Reads results, directives and subtests, which are indented by four blanks; `Bail out!` ends the run."""
    results, tree = Results(), Tree()
    for line in lines:
        indent, text = indentation(line)
        if indent % 4:
            continue
        depth = indent // 2 + 2
        found = TAP_RESULT.match(text)
        if text.startswith("# Subtest: "):
            tree.suite(depth, text[len("# Subtest: ") :])
        elif indent == 0 and text.startswith("Bail out!"):
            results.spoil("incomplete", text)
        elif found:
            word, title, directive = found.groups()
            if directive and directive.upper() == "SKIP":
                status = "skipped"
            elif directive:
                status = "xpass" if word == "ok" else "xfail"
            else:
                status = "passed" if word == "ok" else "failed"
            results.record("" if indent == 0 else tree.group("", depth), title, status)
    return results


PARSERS = {
    "jest": parse_jest,
    "mocha": parse_mocha,
    "node": parse_node,
    "tap": parse_tap,
    "vitest": parse_vitest,
}
