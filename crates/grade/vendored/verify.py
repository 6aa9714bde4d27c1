"""Grades one task: restores the test surface, runs the suite, writes exactly one reward or none.

    verify.py                                    grade /tests/config.json, write /logs/verifier/{reward.txt,report.json}
    verify.py --root DIR                         the same below DIR (DIR/tests, DIR/logs/verifier, DIR/<workdir>)
    verify.py --grade-log LOG --config FILE      grade a recorded log, print JSON; [--exit N] [--framework NAME]
                                                 [--begin MARK --end MARK]
    verify.py --grade-report FILE --config FILE --nonce N [--exit N]    the same for a recorded report

Python 3.8 or newer, standard library only. Beside this file lie seatrial_suite.py (restores and runs), seatrial_logs.py
with the parsers of each language (reads logs), seatrial_verdict.py (decides), and what is brought into runners:
seatrial_report.py for Python, seatrial_end.cjs for Node.js. Grading follows the same written rules as the Rust crate
`grade`; tests hold the two together.

    framework               results are read from        and the end of the run is known by
    pytest, unittest        the plugin's report          the report's end record
    go                      the events of `go test`      a file that `testing` writes at the end of each test program
    mocha, jest, node       the log                      what the runner counted, told through a pipe
    cargo, surefire,        the log                      the exit status alone
    tap, vitest

The verdict, by the first row that applies:

    what is seen                                                     outcome     reason              reward
    fail_to_pass is empty (and the task does not say p2p_only)       invalid     f2p_empty           none
    the suite reached its time limit                                 invalid     timeout             0
    the report or log was tampered with (nonce, order, counts,       invalid     forged              0
      lines after the end, repeated marks, replaced parts of the
      runner, installed packages changed in the sandbox,
      processes that cannot be ended)
    the suite ended with 2 / 3 / 4                                   invalid     interrupted /       0
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
    harness: no interpreter, no runner, no report at all, surface    (no report) see `fault`         none, exit 3
      not restorable, config unreadable, a defect of this file

    required test is    passed  xpass  skipped  xfail  failed  error  missing
    fail_to_pass        good    good   bad      bad    bad     bad    bad
    pass_to_pass        good    good   good     bad    bad     bad    bad

The statuses are those of pytest; statuses of other runners that mean the same are translated first (`suite_exit`).
Whatever the tree under test can bring about is 0; only what is the task's or the machine's fault gives no reward.

Exit status: 0 with a reward, 3 without one. Code under test can kill this process and leave a reward of its own, so
a reward counts only together with exit status 0.

What the verifier cannot do, and whoever runs it has to: look at that exit status, end the processes an agent left
behind (one of them could write reward.txt later), undo changes outside the workspace (an agent that is root can
replace the interpreter or the runner itself), and tell a suite that ran out of memory from one that was killed. A fresh sandbox that takes over
nothing but the workspace does all three. Code under test shares a process with its runner: see seatrial_report.py.
"""

import argparse
import json
import os
import secrets
import shutil
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(HERE)  # behind the interpreter's own folders: nothing here can stand in for a standard module

import seatrial_suite  # noqa: E402
from seatrial_suite import remove  # noqa: E402
from seatrial_verdict import (  # noqa: E402
    MAX_REPORT_BYTES,
    VERDICT_SCHEMA,
    Fault,
    Run,
    compare_with_ends,
    decide,
    object_without_duplicates,
    read_report,
    suite_exit,
)

CONFIG_SCHEMA = "seatrial.verifier/1"
FRAMEWORKS = ("cargo", "go", "jest", "lines", "mocha", "node", "pytest", "surefire", "tap", "unittest", "vitest")
REPORTING = ("pytest", "unittest")

MAX_LOG_BYTES = 256 << 20
EXIT_NO_REWARD = 3
NO_RUNNER = 97  # seatrial_report.py: pytest is not importable


def grade(config, tests, logs, workdir, top):
    """Restores, runs and decides; returns what report.json holds."""
    if not os.path.isdir(workdir):
        raise Fault("surface_unrestorable", "%s is not a folder" % workdir)
    private = tempfile.mkdtemp(prefix="seatrial-")
    try:
        for name in ("home", "plugin", "tmp"):
            os.mkdir(os.path.join(private, name))
        for name in ("seatrial_report.py", "seatrial_end.cjs"):
            shutil.copyfile(os.path.join(tests, name), os.path.join(private, "plugin", name))
        launch = seatrial_suite.Launch(config, private, seatrial_suite.sandbox_began() if top == "/" else None)
        try:
            surface = seatrial_suite.restore_surface(config, tests, workdir, top)
            changed = launch.changed_package(workdir)
        except (OSError, tarfile.TarError) as error:
            raise Fault("surface_unrestorable", str(error))
        if changed is None:
            if launch.framework not in REPORTING:
                log_parser(launch.framework)  # read in now: a suite may write over the files beside this one
            ran = seatrial_suite.run_suite(launch, workdir, os.path.join(logs, "suite.log"))
            run, exit_status, seconds = read_run(launch, ran), ran.exit_status, ran.seconds
        else:
            run, exit_status, seconds = Run(), None, 0.0
            run.completion = "forged"
            run.detail = "the installed package file %s was changed after the sandbox began" % changed
    finally:
        shutil.rmtree(private, ignore_errors=True)
    return {
        "schema": VERDICT_SCHEMA,
        "instance_id": config["instance_id"],
        "source": "report" if config["framework"] in REPORTING else "log",
        "suite_seconds": round(seconds, 3),
        "surface": surface,
        "verdict": decide(config, run, suite_exit(config["framework"], exit_status)),
    }


def read_run(launch, ran):
    """Reads what a suite showed."""
    if launch.framework in REPORTING:
        run = read_report(ran.report, ran.nonce)
        if run is None and ran.exit_status == NO_RUNNER:
            raise Fault("no_runner", "pytest is not importable by %s; see suite.log" % launch.python)
        if run is None and ran.exit_status is not None:
            detail = "the suite ended with %d before the first report line" % ran.exit_status
            raise Fault("report_missing", detail)
        run = run or Run()
    else:
        run = read_output(launch, ran)
    if ran.exit_status is None:
        run.completion = "timed_out"
    if not ran.is_over:
        run.completion, run.detail = "forged", "the suite left processes that cannot be ended"
    return run


def log_parser(framework):
    """Gives the function that reads a log; its patterns take longer to compile than a report takes to read."""
    from seatrial_logs import parser_of

    return parser_of(framework)


def read_output(launch, ran):
    output, trusted = ran.output, None
    if launch.framework == "go":
        output = b"\n".join(line for line in output.split(b"\n") if b'"Action":"output"' not in line)
        trusted = launch.finished_packages().__contains__
    run = log_parser(launch.framework)(output.decode("utf-8", "replace"), None, trusted)
    if launch.framework in seatrial_suite.ENDING_FRAMEWORKS:
        compare_with_ends(run, ran.report, ran.nonce)
    if len(ran.output) > seatrial_suite.MAX_OUTPUT_BYTES:
        run.completion = "incomplete"
        run.detail = "the suite wrote more than %d bytes" % seatrial_suite.MAX_OUTPUT_BYTES
    return run


# ---------------------------------------------------------------------------------------------------------------
# Command line.


def read_config(path):
    try:
        with open(path, "rb") as handle:
            config = json.loads(handle.read().decode("utf-8"), object_pairs_hook=object_without_duplicates)
        if config["schema"] != CONFIG_SCHEMA:
            raise ValueError("schema %r, wanted %r" % (config["schema"], CONFIG_SCHEMA))
        if config["framework"] not in FRAMEWORKS:
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


ANSWERS = ("reward.txt", "reward.json", "report.json")


def clear(logs, names):
    """Makes the folder of the logs a real one without anything of these names."""
    if os.path.islink(logs) or os.path.lexists(logs) and not os.path.isdir(logs):
        os.unlink(logs)
    os.makedirs(logs, exist_ok=True)
    for name in names:
        remove(os.path.join(logs, name))


def verify(root):
    top = os.path.realpath(root)
    tests, logs = os.path.join(top, "tests"), os.path.join(top, "logs", "verifier")
    try:
        clear(logs, ANSWERS + ("suite.log",))
        config = read_config(os.path.join(tests, "config.json"))
        if config["framework"] == "lines":
            raise Fault("config_unreadable", "framework 'lines' can only grade recorded logs")
        workdir = os.path.realpath(os.path.join(top, config["workdir"].lstrip("/")))
        report = grade(config, tests, logs, workdir, top)
        clear(logs, ANSWERS)  # what the suite wrote there is no answer
    except Exception as error:  # whatever went wrong here, it is no result of the task
        known = error if isinstance(error, Fault) else Fault("internal", "%s: %s" % (type(error).__name__, error))
        sys.stderr.write("verifier: %s: %s\n" % (known.name, known))
        fault = {"schema": VERDICT_SCHEMA, "fault": known.name, "detail": str(known)}
        try:
            clear(logs, ANSWERS)
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
    framework = options.framework or config["framework"]
    if options.grade_report:
        run = read_report(read_bounded(options.grade_report, MAX_REPORT_BYTES), options.nonce)
        if run is None:
            raise Fault("report_missing", "the report is empty")
    else:
        text = read_bounded(options.grade_log, MAX_LOG_BYTES).decode("utf-8", "replace")
        marks = (options.begin, options.end) if options.begin and options.end else None
        run = log_parser(framework)(text, marks)
    return {
        "statuses": run.statuses.map,
        "flaky": sorted(run.statuses.flaky),
        "placed_skips": run.placed_skips,
        "unresolved": run.unresolved,
        "completion": run.completion,
        "verdict": decide(config, run, suite_exit(framework, options.exit)),
    }


def main(arguments):
    parser = argparse.ArgumentParser(description="grades one task")
    parser.add_argument("--root", default="/")
    parser.add_argument("--grade-log")
    parser.add_argument("--grade-report")
    parser.add_argument("--config")
    parser.add_argument("--framework", choices=FRAMEWORKS)
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
