"""Images, registries and measurements of mirror.sh."""

import gzip
import hashlib
import http.client
import io
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

SHARDS, ENVIRONMENTS, TASKS = 4, 8, 5
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """A docker-registry of its own that logs what it was asked."""

    def __init__(self, directory):
        self.directory, self.child = directory, None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.host = "127.0.0.1:%d" % free.getsockname()[1]

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        config = os.path.join(self.directory, "config.yml")
        with open(config, "w") as file:
            json.dump({"version": 0.1, "log": {"level": "error"}, "http": {"addr": self.host},
                       "storage": {"filesystem": {"rootdirectory": os.path.join(self.directory, "data")}}}, file)
        self.log = os.path.join(self.directory, "access.log")
        self.child = subprocess.Popen(["docker-registry", "serve", config], stdout=open(self.log, "w"),
                                      stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(self.host.rsplit(":", 1)).close()
                return
            except OSError:
                time.sleep(0.02)

    def stop(self):
        if self.child:
            self.child.kill()
            self.child.wait()

    def wipe(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.start()

    def processor(self):
        with open(f"/proc/{self.child.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def requests(self):
        """Method, path and bytes of all requests so far."""
        line = re.compile(r'"(\w+) (\S+) HTTP[^"]*" (\d+) (\d+)')
        with open(self.log) as file:
            return [(m[1], m[2], int(m[3]), int(m[4])) for m in map(line.search, file) if m]

    def ask(self, method, path, body=b"", kind="application/octet-stream"):
        connection = http.client.HTTPConnection(self.host)
        connection.request(method, path, body, {"Content-Type": kind})
        answer = connection.getresponse()
        answer.read()
        return answer

    def push_blob(self, repository, data):
        if self.ask("HEAD", f"/v2/{repository}/blobs/{digest(data)}").status == 200:
            return
        place = self.ask("POST", f"/v2/{repository}/blobs/uploads/").headers["Location"]
        path = place.split(self.host, 1)[-1]
        assert self.ask("PUT", f"{path}&digest={digest(data)}", data).status == 201


def layer(name, size):
    """A compressed archive with one file, half of it random."""
    noise = random.Random(name)
    data = noise.randbytes(size // 2) + bytes(size - size // 2)
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", compresslevel=1, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w") as tar:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def generate(source):
    """Puts the images into the source; returns key, reference and digest of each, and the bytes of all blobs together."""
    size = random.Random("sizes")
    base = layer("base", 50 << 20)
    images, unique = [], {digest(base): len(base)}
    describe = lambda kind, data: {"mediaType": kind, "digest": digest(data), "size": len(data)}
    for environment in range(ENVIRONMENTS):
        middle = layer(f"environment-{environment}", size.randrange(30 << 20, 65 << 20))
        for task in range(TASKS):
            key = f"task-{environment}-{task}"
            top = layer(key, size.randrange(1 << 18, 9 << 20))
            config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"is": key}},
                                 "rootfs": {"type": "layers", "diff_ids": [digest(base), digest(middle), digest(top)]}})
            config = config.encode()
            repository = f"src/{key}"
            for data in (base, middle, top, config):
                unique[digest(data)] = len(data)
                source.push_blob(repository, data)
            manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": describe(CONFIG, config),
                                   "layers": [describe(LAYER, data) for data in (base, middle, top)]}).encode()
            assert source.ask("PUT", f"/v2/{repository}/manifests/1", manifest, MANIFEST).status == 201
            images.append((key, f"{source.host}/{repository}:1", digest(manifest)))
    return sorted(images), sum(unique.values()), len(unique)


def plan(images, target):
    """The plan of the images for empty shards, by the rule of the formats page."""
    config = {"registry": target.host, "namespace": "shard", "shard_template": "task-{:02}", "shards": SHARDS,
              "tag_limit": 100, "placement": "hash", "overflow": "fail", "create_repositories": True,
              "overwrite": False, "hash_version": "v1"}
    items, shards = [], [0] * SHARDS
    for key, reference, name in images:
        number = int.from_bytes(hashlib.sha256(f"task/v1\0{key}".encode()).digest()[:8], "big") % SHARDS
        shards[number] += 1
        items.append({"kind": "task", "key": key, "source": reference, "digest": name, "media_type": MANIFEST,
                      "repository": f"{target.host}/shard/task-{number:02}", "tag": key, "action": "copy",
                      "reason": "home"})
    shards = [{"name": f"task-{number:02}", "live": 0, "foreign": 0, "pending": count, "projected": count}
              for number, count in enumerate(shards)]
    gate = {"ok": True, "limit": 100, "worst": max(shard["projected"] for shard in shards), "over": [],
            "rehome_moves": None}
    return {"schema": "seatrial.images/1", "config": config, "inputs": {}, "shards": shards, "items": items,
            "missing": [], "duplicates": [], "gate": gate, "hub_budget": {"counted_gets": 0, "window_sec": 21600}}


def project(seatrial, directory, target, document):
    subprocess.run([seatrial, "-q", "init", directory], check=True)
    recipe = os.path.join(directory, "seatrial.toml")
    with open(recipe) as file:
        text = file.read()
    images = (f'[images]\nregistry = "{target.host}"\nnamespace = "shard"\nshards = {SHARDS}\ntag_limit = 100\n'
              "create_repositories = true\n\n[prove]")
    with open(recipe, "w") as file:
        file.write(text.replace("[prove]", images, 1))
    with open(os.path.join(directory, "images.json"), "w") as file:
        json.dump(document, file, sort_keys=True)


# A new process counts the memory of the one that made it, so a small one stands between.
RUNNER = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""


def run(name, command, source, target):
    """Runs a command and counts what it asked for."""
    seen = len(source.requests()), len(target.requests())
    busy = source.processor() + target.processor()
    begun = time.perf_counter()
    child = subprocess.run([sys.executable, "-c", RUNNER, *command], capture_output=True)
    wall = time.perf_counter() - begun
    assert child.returncode == 0, f"{name} failed: {child.stderr.decode(errors='replace')[-2000:]}"
    client, memory = map(float, child.stdout.split())
    # The servers write their last lines after their answers.
    time.sleep(0.3)
    busy = source.processor() + target.processor() - busy
    asked, written = source.requests()[seen[0]:], target.requests()[seen[1]:]
    count = lambda method, part, status=None: sum(
        1 for m, path, s, _ in written if m == method and part in path and status in (None, s))
    return {
        "name": name, "wall": wall, "client": client, "servers": busy,
        "memory": memory / 1024, "from": sum(size for _, path, _, size in asked if "/blobs/" in path),
        "requests": f"{len(asked)} + {len(written)}", "uploads": count("PUT", "/blobs/uploads/"),
        "mounts": count("POST", "mount=", 201), "heads": count("HEAD", "/blobs/"),
    }


def main():
    seatrial, rounds = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    work = tempfile.mkdtemp()
    source, target = Registry(os.path.join(work, "source")), Registry(os.path.join(work, "target"))
    try:
        source.start()
        target.start()
        images, unique, blobs = generate(source)
        document = plan(images, target)
        pairs = [(item["source"], f"{item['repository']}:{item['tag']}") for item in document["items"]]
        with open(os.path.join(work, "pairs"), "w") as file:
            file.writelines(f"docker://{from_} docker://{to}\n" for from_, to in pairs)
        copy = ("skopeo --insecure-policy copy --quiet --all --preserve-digests --src-tls-verify=false"
                " --dest-tls-verify=false")
        # Each with a cache of its own, which a new run begins without.
        alone = "mount -t tmpfs tmpfs /var/lib/containers && "
        loop = f"while read -r from to; do {copy} $from $to || exit 1; done < {work}/pairs"
        once = ["unshare", "-m", "sh", "-ec", alone + loop]
        four = ["unshare", "-m", "sh", "-ec", alone + f"xargs -P4 -L1 {copy} < {work}/pairs"]
        os.makedirs("/var/lib/containers", exist_ok=True)
        results = {}
        tags = lambda: sorted(
            (path, open(path, "rb").read())
            for path in (os.path.join(where, name) for where, _, names in os.walk(target.directory) for name in names)
            if "/_manifests/tags/" in path)
        reached = []
        for number in range(rounds):
            rows = []
            for name, command in (("skopeo copy, one after the other", once), ("skopeo copy, four at once", four)):
                target.wipe()
                rows.append(run(name, command, source, target))
                reached.append(tags())
            rows.append(run("skopeo copy, all there", once, source, target))
            for jobs in (1, 4):
                target.wipe()
                directory = os.path.join(work, f"project-{number}-{jobs}")
                project(seatrial, directory, target, document)
                command = [seatrial, "-C", directory, "images", "mirror", "-j", str(jobs)]
                rows.append(run(f"seatrial images mirror -j {jobs}", command, source, target))
                reached.append(tags())
            rows.append(run("seatrial images mirror, all there", command, source, target))
            for row in rows:
                results.setdefault(row["name"], []).append(row)
        assert all(state == reached[0] and len(state) > len(images) for state in reached), "the registries differ"
        print(f"{len(images)} images, {blobs} blobs of {unique / 1e6:.1f} MB; medians of {rounds}; the results are the same")
        print(f"{'':36}{'from source':>18}{'requests':>12}{'uploads':>9}{'mounts':>8}{'heads':>7}{'client s':>10}"
              f"{'servers s':>11}{'memory MiB':>12}{'wall s':>8}")
        for name, rows in results.items():
            middle = lambda what: statistics.median(row[what] for row in rows)
            last = rows[-1]
            print(f"{name:36}{middle('from') / 1e6:9.1f} MB {middle('from') / unique:4.2f}x {last['requests']:>11}"
                  f"{last['uploads']:9}{last['mounts']:8}{last['heads']:7}{middle('client'):10.2f}{middle('servers'):11.2f}"
                  f"{max(row['memory'] for row in rows):12.0f}{middle('wall'):8.2f}")
        wall = lambda name: statistics.median(row["wall"] for row in results[name])
        client = lambda name: statistics.median(row["client"] for row in results[name])
        ours = "seatrial images mirror -j 4"
        for name in ("skopeo copy, one after the other", "skopeo copy, four at once"):
            print(f"ratio to {name}: wall {wall(name) / wall(ours):.2f}, client {client(name) / client(ours):.2f}")
    finally:
        source.stop()
        target.stop()
        shutil.rmtree(work, ignore_errors=True)


main()
