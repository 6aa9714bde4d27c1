"""Restores the test surface of a workspace and runs its suite. verify.py decides what the run is worth."""

import fnmatch
import hashlib
import json
import os
import pwd
import secrets
import select
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections import deque

from seatrial_verdict import MAX_REPORT_BYTES, Fault

KEPT_LOG_HEAD = 8 << 20
KEPT_LOG_TAIL = 2 << 20
MAX_OUTPUT_BYTES = 128 << 20  # more of a log is not graded
GRACE_SECONDS = 5.0
ENDING_SECONDS = 20.0  # within which everything that a suite started has to be gone

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


# Frameworks that print under Node.js, and those whose runner says by itself that it came to its end.
NODE_FRAMEWORKS = ("jest", "mocha", "node", "tap", "vitest")
ENDING_FRAMEWORKS = ("jest", "mocha", "node")


class Launch:
    """How one suite is started: command, environment, and what the runner is told through the ticket."""

    def __init__(self, config, private, began):
        self.config, self.private, self.began = config, private, began
        self.framework = config["framework"]
        self.command = list(config["command"])
        self.programs = os.path.join(private, "programs")  # where test programs of Go leave their end files
        self.search = None  # the PYTHONPATH that the suite asks for
        self.python = find_interpreter(config) if self.framework in ("pytest", "unittest") else None
        self.env = {"LANG": "C.UTF-8", "HOME": os.path.join(private, "home")}
        getattr(self, "start_" + self.framework, self.start_plain)()

    def plugin(self, name):
        return os.path.join(self.private, "plugin", name)

    def set_python(self):
        path = os.path.dirname(self.python) + ":" + SYSTEM_PATH
        own = self.config.get("env", {})
        self.env["PATH"] = path
        self.env.update(own)
        if own.get("PATH", path) != path:
            self.env["PATH"] = os.path.dirname(self.python) + ":" + own["PATH"]
        self.env["PYTHONNOUSERSITE"] = "1"
        self.env["PYTHONDONTWRITEBYTECODE"] = "1"
        self.search = self.env.pop("PYTHONPATH", None)

    def start_pytest(self):
        self.set_python()
        runner, words = self.plugin("seatrial_report.py"), self.command
        name = os.path.basename(words[0])
        if name in ("pytest", "py.test"):
            self.command = [self.python, runner, "script"] + words[1:]
        elif name in ("python", "python3") and words[1:3] == ["-m", "pytest"]:
            self.command = [self.python, runner, "module"] + words[3:]
        else:  # something else starts pytest, which loads the plugin by `-p`
            if name in ("python", "python3"):
                self.command = [self.python] + words[1:]
            plugins = os.path.dirname(runner)
            self.env["PYTHONPATH"] = plugins + (":" + self.search if self.search else "")
            self.env["PYTEST_ADDOPTS"] = ("-p seatrial_report " + self.env.get("PYTEST_ADDOPTS", "")).strip()

    def start_unittest(self):
        self.set_python()
        words = self.command[1:]
        mode, rest = ("unittest-module", words[1:]) if words[:1] == ["-m"] else ("unittest-file", words)
        self.command = [self.python, self.plugin("seatrial_report.py"), mode] + rest

    def start_go(self):
        """Asks for events, and has every test program write a profile, which `testing` does when it came to its end."""
        home = user_home()
        defaults = {"GOENV": "off", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
        places = {
            "GOMODCACHE": ["/go/pkg/mod", os.path.join(home, "go/pkg/mod")],
            "GOCACHE": [os.path.join(home, ".cache/go-build")],
        }
        self.set_tools(["/usr/local/go/bin", "/usr/lib/go/bin", "/go/bin"], places, defaults)
        os.mkdir(self.programs)
        wrapper = self.plugin("program")
        with open(wrapper, "w") as out:
            out.write(GO_PROGRAM % self.programs)
        os.chmod(wrapper, 0o700)
        self.command[2:2] = ["-json", "-count=1", "-exec", wrapper]

    def start_cargo(self):
        home = user_home()
        places = {
            "CARGO_HOME": ["/usr/local/cargo", os.path.join(home, ".cargo")],
            "RUSTUP_HOME": ["/usr/local/rustup", os.path.join(home, ".rustup")],
        }
        folders = ["/usr/local/cargo/bin", os.path.join(home, ".cargo/bin")]
        self.set_tools(folders, places, {"CARGO_NET_OFFLINE": "true"})

    def start_surefire(self):
        """Keeps Maven off the network. Its repository lies in the user's own home, whatever HOME says."""
        places = {"MAVEN_USER_HOME": [os.path.join(user_home(), ".m2")]}
        self.set_tools(["/opt/java/openjdk/bin", "/usr/share/maven/bin"], places, {})
        self.command[1:1] = ["-o"]

    def start_node(self):
        self.set_node()
        reporter = self.plugin("seatrial_end.cjs")
        self.command[1:1] = [
            "--test-reporter=spec",
            "--test-reporter-destination=stdout",
            "--test-reporter=" + reporter,
            "--test-reporter-destination=" + os.path.join(self.private, "report"),
        ]

    def start_mocha(self):
        self.set_node()
        options = "--require " + self.plugin("seatrial_end.cjs")
        self.env["NODE_OPTIONS"] = (options + " " + self.env.get("NODE_OPTIONS", "")).strip()

    start_jest = start_mocha

    def start_plain(self):
        self.set_node()

    def set_node(self):
        places = {"COREPACK_HOME": [os.path.join(user_home(), ".cache/node/corepack")]}
        self.set_tools([], places, {"npm_config_update_notifier": "false"})

    def set_tools(self, folders, places, defaults):
        """Sets the environment of a suite that Python does not run: fixed places, then what the task says."""
        self.env["PATH"] = ":".join([folder for folder in folders if os.path.isdir(folder)] + [SYSTEM_PATH])
        self.env["TMPDIR"] = os.path.join(self.private, "tmp")
        self.env.update(defaults)
        for name, found in places.items():
            self.env.update([(name, place) for place in found if os.path.isdir(place)][:1])
        self.env.update(self.config.get("env", {}))
        trusted = os.path.join(self.private, "bin")
        os.mkdir(trusted)
        name_trusted_programs(self.env["PATH"].split(":"), self.began, trusted)
        self.env["PATH"] = trusted + ":" + self.env["PATH"]

    def finished_packages(self):
        """Gives the packages of Go whose test programs came to their end."""
        finished = set()
        for name in os.listdir(self.programs):
            place = os.path.join(self.programs, name)
            try:
                with open(os.path.join(place, "folder"), encoding="utf-8", errors="replace") as handle:
                    folder = handle.read().rstrip("\n")
                if os.path.getsize(os.path.join(place, "end")):
                    finished.add(go_package(folder))
            except OSError:
                continue
        return finished

    def changed_package(self, workdir):
        """Gives an installed package of the suite that was changed after the sandbox began; None when there is none.

        What was built of the workspace before, and of files that are gone now, is removed on the way.
        """
        own = remove_built_by_maven(workdir) if self.framework == "surefire" else None
        if self.began is None:
            return None
        if self.framework in NODE_FRAMEWORKS:
            return changed_in_node_modules(workdir, self.began)
        if self.framework == "go" and "GOMODCACHE" in self.env:
            return changed_below(self.env["GOMODCACHE"], self.began, lambda name: name == "cache")
        if self.framework == "surefire":
            return changed_artifact(self.maven_repository(), own, self.began)
        return None

    def maven_repository(self):
        """Gives the folder that Maven takes artifacts from."""
        words = self.env.get("MAVEN_OPTS", "").split() + self.command
        option = "-Dmaven.repo.local="
        named = [word[len(option) :] for word in words if word.startswith(option)]
        return named[-1] if named else os.path.join(user_home(), ".m2", "repository")


# Starts a test program of Go. Its folder tells the package; the profile is written by `testing` at the very end.
GO_PROGRAM = """#!/bin/sh
place=$(mktemp -d '%s/XXXXXXXXXXXX') || exit 97
pwd >"$place/folder"
program=$1
shift
exec "$program" "-test.memprofile=$place/end" "$@"
"""


def go_package(folder):
    """Gives the import path of a folder: the module's path and the way down from its go.mod."""
    module = folder
    while not os.path.isfile(os.path.join(module, "go.mod")):
        if module in ("/", ""):
            return None
        module = os.path.dirname(module)
    with open(os.path.join(module, "go.mod"), encoding="utf-8", errors="replace") as handle:
        names = [line.split("//")[0].split() for line in handle if line.startswith("module")]
    name = names[0][1].strip('"`') if names and len(names[0]) == 2 else None
    inside = os.path.relpath(folder, module)
    return name if inside == "." or name is None else name + "/" + inside


def user_home():
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/root"


def sandbox_began():
    """Gives the time at which process 1 started, in seconds since 1970; None where the system does not tell.

    What an image holds was there before. File times of status changes are the kernel's, nobody sets them. The start is told in
    whole ticks, rounded down, so that no change is too early to be seen.
    """
    try:
        with open("/proc/1/stat", "rb") as handle:
            ticks = int(handle.read().rsplit(b")", 1)[1].split()[19])
        booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        return booted + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def is_changed(path, began):
    try:
        return os.lstat(path).st_ctime > began
    except OSError:
        return False


def name_trusted_programs(folders, began, into):
    """Names in `into` every program that was there when the sandbox began and that a later one hides."""
    found = {}
    for folder in folders if began is not None else []:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            found.setdefault(name, []).append(os.path.join(folder, name))
    for name, paths in found.items():
        if is_changed(paths[0], began):
            for path in paths[1:]:
                if not is_changed(path, began):
                    os.symlink(path, os.path.join(into, name))
                    break


def changed_below(root, began, is_left_out):
    """Gives a file below `root` that was changed after the sandbox began, but for what is left out of `root` itself."""
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        if folder == root:
            folders[:] = [name for name in folders if not is_left_out(name)]
            files = [name for name in files if not is_left_out(name)]
        for name in files + links:
            if is_changed(os.path.join(folder, name), began):
                return os.path.join(folder, name)
    return None


def changed_in_node_modules(workdir, began):
    """Looks for changed packages in every `node_modules`, and removes the caches of transpilers in them."""
    for folder, folders, _ in os.walk(workdir):
        if "node_modules" in folders:
            folders.remove("node_modules")
            root = os.path.join(folder, "node_modules")
            for name in os.listdir(root) if not os.path.islink(root) else []:
                if name in NODE_CACHES:
                    remove(os.path.join(root, name))
            # Package managers note their own state there under names with a dot.
            own = lambda name: name.startswith(".") and name not in (".bin", ".pnpm")
            found = root if os.path.islink(root) and is_changed(root, began) else changed_below(root, began, own)
            if found is not None:
                return os.path.relpath(found, workdir)
        folders[:] = [name for name in folders if name not in (".git", ".hg", ".svn")]
    return None


def remove_built_by_maven(workdir):
    """Removes what is built in the folders with a pom.xml; gives the names of the artifacts that are made there."""
    from xml.etree import ElementTree  # no other suite has XML

    names = set()
    for folder, folders, files in os.walk(workdir):
        folders[:] = [name for name in folders if name not in (".git", ".hg", ".svn", "node_modules", "target")]
        if "pom.xml" not in files:
            continue
        remove(os.path.join(folder, "target"))
        try:
            project = ElementTree.parse(os.path.join(folder, "pom.xml")).getroot()
        except (OSError, ElementTree.ParseError):
            continue  # Maven says what is wrong with it
        names.update(part.text.strip() for part in project if part.tag.endswith("artifactId") and part.text)
    return names


def changed_artifact(repository, own, began):
    """Gives an artifact of Maven that was changed after the sandbox began; who builds a project may install its own."""
    for folder, folders, files in os.walk(repository):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in files + links:
            path = os.path.join(folder, name)
            if (name.endswith((".jar", ".pom")) or name in links) and is_changed(path, began):
                if os.path.basename(os.path.dirname(folder)) not in own:
                    return path
    return None


NODE_CACHES = (".cache", ".vite", ".vite-temp", ".vitest")


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


PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans():
    """Makes every orphan below this process its child, so that no session and no double fork leads out of the family."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # a Python without ctypes ends the process group alone


def descendants():
    """Gives the processes below this one."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as handle:
                    parent = int(handle.read().rsplit(b")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.pop(waiting.pop(), [])
        found += below
        waiting += below
    return found


def end_family():
    """Ends every process below this one; says whether none is left.

    As orphans become its children, a process without children has no descendants, however fast they forked.
    """
    deadline = time.monotonic() + ENDING_SECONDS
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        if time.monotonic() >= deadline:
            return False
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(0.001)


class Kept:
    """Keeps what is written up to a limit and one byte more, which tells that there was more."""

    def __init__(self, limit):
        self.room, self.chunks = limit + 1, []

    def write(self, chunk):
        if self.room > 0:
            self.chunks.append(chunk[: self.room])
            self.room -= len(self.chunks[-1])

    def bytes(self):
        return b"".join(self.chunks)


class Ran:
    """What a suite left: exit status (None when the limit was reached), report, output, nonce, seconds, and whether all of
    its processes are gone."""

    def __init__(self, exit_status, report, output, nonce, seconds, is_over):
        self.exit_status, self.report, self.output = exit_status, report, output
        self.nonce, self.seconds, self.is_over = nonce, seconds, is_over


def run_suite(launch, workdir, log_path):
    """Runs the suite to its end or its limit."""
    nonce = secrets.token_hex(16)
    pipe = os.path.join(launch.private, "report")
    ticket = os.path.join(launch.private, "ticket")
    os.mkfifo(pipe, 0o600)
    with open(ticket, "w") as out:
        json.dump({"nonce": nonce, "pipe": pipe, "pythonpath": launch.search}, out)
    launch.env["SEATRIAL_TICKET"] = ticket
    report_end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    log = BoundedLog(log_path)
    report, output = Kept(MAX_REPORT_BYTES), Kept(0 if launch.python else MAX_OUTPUT_BYTES)
    adopt_orphans()
    started = time.monotonic()
    deadline = started + launch.config["timeout_sec"]
    try:
        process = subprocess.Popen(
            launch.command,
            cwd=workdir,
            env=launch.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Fault("no_runner", "%s: %s; install it in the image" % (launch.command[0], error.strerror))
    output_end = process.stdout.fileno()
    os.set_blocking(output_end, False)

    def take(descriptor):
        try:
            chunk = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return False
        if descriptor == output_end:
            log.write(chunk)
            output.write(chunk)
        else:
            report.write(chunk)
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
    seconds = time.monotonic() - started
    is_over = end_family()
    grace = time.monotonic() + GRACE_SECONDS
    for descriptor in (output_end, report_end):
        while time.monotonic() < grace and take(descriptor):
            pass
    log.close()
    os.close(report_end)
    process.stdout.close()
    return Ran(None if timed_out else exit_status, report.bytes(), output.bytes(), nonce, seconds, is_over)
