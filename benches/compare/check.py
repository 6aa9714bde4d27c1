"""Five of the static rules as a Python program would have them: unknown keys, CRLF in scripts, a verifier that needs
the network, answers in the image by content, hidden tests in the workspace.

Usage: check.py DIRECTORY PROCESSES OUT    writes `rule task` lines in order of task and rule
"""

import json
import multiprocessing
import os
import re
import sys
import tarfile
import tomllib

KNOWN = {
    "": {"schema_version", "version", "source", "multi_step_reward_strategy", "artifacts", "steps", "metadata", "task",
         "agent", "verifier", "environment", "solution"},
    "task": {"name", "version", "description", "authors", "keywords"},
    "agent": {"timeout_sec", "user", "network_mode", "allowed_hosts"},
    "verifier": {"timeout_sec", "env", "user", "environment_mode", "environment", "collect", "network_mode", "allowed_hosts"},
    "environment": {"build_timeout_sec", "docker_image", "os", "cpus", "memory_mb", "storage_mb", "gpus", "gpu_types",
                    "tpu", "mcp_servers", "env", "skills_dir", "healthcheck", "workdir", "network_mode", "allowed_hosts"},
    "solution": {"env"},
}
NETWORK = re.compile(r"^\s*(?:sudo\s+)?(?:(?:python3? -m )?pip3? install|apt(?:-get)? (?:-y )?(?:install|update)|uvx|curl .*https?://|wget .*https?://)", re.M)


def plain(content):
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return content
    return "\n".join(line for line in (line.rstrip() for line in text.splitlines()) if line)


def members(path):
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile():
                yield member.name.removeprefix("./"), tar.extractfile(member).read()


def check(directory):
    found = set()
    files = {}
    for above, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(above, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, directory)] = file.read()
    settings = tomllib.loads(files["task.toml"].decode())
    for name, keys in KNOWN.items():
        table = settings if not name else settings.get(name, {})
        if set(table) - keys:
            found.add("config-key-unknown")
    scripts = {path: text for path, text in files.items() if path.endswith(".sh") and path.startswith(("tests/", "solution/"))}
    if any(b"\r\n" in text for text in scripts.values()):
        found.add("script-crlf")
    if any(NETWORK.search(text.decode()) for path, text in scripts.items() if path.startswith("tests/")):
        found.add("verifier-network")
    secrets = {plain(text) for path, text in files.items()
               if path.startswith(("tests/", "solution/")) and not path.endswith(".tar") and len(text) >= 64}
    config = json.loads(files["tests/config.json"])
    hidden = {test.split("::")[0] for test in config["fail_to_pass"]}
    tests = {plain(text) for name, text in members(os.path.join(directory, "tests/surface.tar")) if name in hidden}
    for path in files:
        if path.startswith("environment/") and path.endswith(".tar"):
            for name, text in members(os.path.join(directory, path)):
                text = plain(text)
                if text in secrets:
                    found.add("answer-in-image")
                if text in tests or any(name == file or name.endswith("/" + file) for file in hidden):
                    found.add("hidden-test-in-workspace")
    return sorted(f"{rule} {os.path.basename(directory)}" for rule in found)


if __name__ == "__main__":
    directories = sorted(os.path.join(sys.argv[1], name) for name in os.listdir(sys.argv[1]))
    with multiprocessing.Pool(int(sys.argv[2])) as pool, open(sys.argv[3], "w") as out:
        for lines in pool.imap(check, directories, chunksize=8):
            out.writelines(line + "\n" for line in lines)
