"""Reads the logs of pytest and unittest, and of runners whose lines begin with a status."""

import re

from seatrial_verdict import Run

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


def parse_pytest(lines):
    """Reads pytest's verbose output, its -rA summary and pytest-xdist's lines."""
    run = Run()
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


def parse_unittest(lines):
    """Reads unittest's verbose output, `name (class) ... word`.

    Other output may stand between the dots and the word; the word then has a line of its own. A docstring moves the
    dots to the line after the name. A subtest's line counts for its test.
    """
    run = Run()
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


def parse_lines(lines):
    """Reads status-first lines with free names, `PASSED name` or `[ok]: name (12 ms)`; run times are cut off."""
    run = Run()
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
