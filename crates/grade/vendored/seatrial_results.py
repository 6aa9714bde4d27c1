"""Results of runners whose tests belong to something: a package, a program, a file, suites."""

import json

from seatrial_verdict import Run, Statuses, object_without_duplicates, refuse_constant

SEPARATOR = " > "
MAX_GROUP_BYTES = 1024
# White space as Unicode defines it; Python's own idea of it holds four characters more.
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
DARK = "[^%s]" % WHITE


MOST = (1 << 64) - 1


def group(*parts):
    """Joins the parts of a group; nothing when the whole is too long to be one."""
    joined = SEPARATOR.join(part for part in parts if part)
    return joined if len(joined.encode("utf-8", "surrogatepass")) <= MAX_GROUP_BYTES else ""


class Results:
    """The results of one log, by group and name, before they are put under their names."""

    def __init__(self):
        self.tests = {}  # (group, name) -> Statuses under one key; no status yet for a test that was only announced
        self.placed_skips = 0
        self.spoilt = None  # completion and detail: why the log does not count

    def announce(self, place, name):
        return self.tests.setdefault((place, name), Statuses())

    def record(self, place, name, status):
        self.announce(place, name).record("", status)

    def rerun(self, place, name):
        self.announce(place, name).rerun("")

    def has(self, place, name):
        return (place, name) in self.tests and bool(self.tests[place, name].map)

    def spoil(self, completion, detail):
        self.spoilt = self.spoilt or (completion, detail)

    def run(self):
        run = Run()
        run.placed_skips = self.placed_skips
        announced = set()
        for (place, name), statuses in self.tests.items():
            shown = name or place
            if statuses.map:
                run.statuses.namesake(shown, statuses.map[""])
            else:
                announced.add(shown)
            if statuses.flaky:
                run.statuses.rerun(shown)
        run.unresolved = sorted(name for name in announced if name not in run.statuses.map)
        if self.spoilt:
            run.completion, run.detail = self.spoilt
        return run


def read_event(line):
    """Reads a line that may be a JSON object; None when it is none."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line, object_pairs_hook=object_without_duplicates, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def number(digits, otherwise):
    """Reads a count; one that no runner would print is `otherwise`."""
    digits = digits.lstrip("0") or "0"
    return int(digits) if len(digits) < 20 else otherwise


def before(pattern, text):
    found = pattern.search(text)
    return text[: found.start()] if found else text
