"""A small hub of data sets in memory, for tests: repositories, commits, the store of large files, and faults on demand.

It follows the protocol that `huggingface_hub` speaks, which check_hub.py holds it against. Usage:

    hub_server.py [--parts BYTES] [--fail N] [--lose-commit]

The token that writes need is in HUB_TOKEN. The first line that is printed is the address. Large files are those of 4 KiB and more, and
those that are no text. The store has an address of its own, where a token must never be sent.

    --parts BYTES     large files are sent in parts of so many bytes
    --fail N          every N-th request that writes is answered with 503 the first time
    --lose-commit     the first commit is made, and its answer lost
"""

import argparse
import base64
import hashlib
import json
import os
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

LARGE = 4096
EMPTY = "0" * 40


class State:
    """Everything that the hub knows."""

    def __init__(self, options):
        self.options = options
        self.lock = threading.RLock()
        self.token = os.environ["HUB_TOKEN"]
        self.repos = {}  # name -> {"private", "head", "commits": {oid: {path: (digest or None, content)}}}
        self.store = {}  # digest -> content
        self.parts = {}  # digest -> {number: content}
        self.writes = 0
        self.failed = set()
        self.lost = False
        self.counts = {"commits": 0, "stored": 0}
        self.hub = self.store_address = ""

    def repo(self, name):
        return self.repos.get(name)

    def files(self, repo, revision):
        oid = repo["head"] if revision == "main" else revision
        return oid, repo["commits"].get(oid)


def blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(sample, size):
    return size >= LARGE or b"\0" in sample


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    @property
    def state(self):
        return self.server.state

    def say(self, status, body=b"", headers=None):
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = {"Content-Type": "application/json"} | (headers or {})
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, str(value))
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def missing(self, code):
        self.say(404, {"error": "not found"}, {"X-Error-Code": code, "X-Error-Message": "not found"})

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def may_write(self, body):
        """Whether a write is allowed and no fault is due; says so otherwise."""
        state = self.state
        if self.headers.get("Authorization") != f"Bearer {state.token}":
            self.say(401, {"error": "a token is needed"}, {"X-Error-Message": "a token is needed"})
            return False
        return not self.faulty(body)

    def faulty(self, body):
        state = self.state
        with state.lock:
            state.writes += 1
            key = (self.path, hashlib.sha256(body).digest())
            due = state.options.fail and state.writes % state.options.fail == 0 and key not in state.failed
            state.failed.add(key)
        if due:
            self.say(503, {"error": "busy"})
        return due


class Hub(Handler):
    def do_GET(self):
        url = urlsplit(self.path)
        state = self.state
        with state.lock:
            if url.path == "/counts":
                return self.say(200, state.counts | {"private": {name: repo["private"] for name, repo in state.repos.items()}})
            found = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", url.path)
            if found:
                name, what, revision = found[1], found[2] or "revision", unquote(found[3] or "main")
                repo = state.repo(name)
                if repo is None:
                    return self.missing("RepoNotFound")
                oid, files = state.files(repo, revision)
                if files is None:
                    return self.missing("RevisionNotFound")
                if what == "tree":
                    return self.say(200, [entry(path, file) for path, file in sorted(files.items())])
                siblings = [{"rfilename": path} for path in sorted(files)]
                return self.say(200, {"id": name, "_id": name, "sha": oid, "private": repo["private"], "tags": [], "downloads": 0, "siblings": siblings})
            found = re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", url.path)
            if not found or (repo := state.repo(found[1])) is None:
                return self.missing("RepoNotFound")
            oid, files = state.files(repo, unquote(found[2]))
            if files is None:
                return self.missing("RevisionNotFound")
            file = files.get(unquote(found[3]))
            if file is None:
                return self.missing("EntryNotFound")
            digest, content = file
        tag = digest or blob(content)
        headers = {"X-Repo-Commit": oid, "ETag": f'"{tag}"', "Accept-Ranges": "bytes"}
        if digest:
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": len(content)}
        status, range_ = 200, re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if range_:
            begin, end = int(range_[1]), int(range_[2] or len(content) - 1)
            headers["Content-Range"] = f"bytes {begin}-{min(end, len(content) - 1)}/{len(content)}"
            status, content = 206, content[begin : end + 1]
        headers["Content-Length"] = len(content)
        return self.say(status, content, headers)

    do_HEAD = do_GET

    def do_POST(self):
        body = self.body()
        state = self.state
        path = urlsplit(self.path).path
        if path.startswith("/complete/"):  # has the rights that its address gives
            return None if self.faulty(body) else self.complete(path.removeprefix("/complete/"), json.loads(body))
        if path == "/api/validate-yaml":
            return self.say(200, {"errors": [], "warnings": []})
        if not self.may_write(body):
            return None
        with state.lock:
            if path == "/api/repos/create":
                return self.create(json.loads(body))
            if path.startswith("/verify/"):
                known = len(state.store.get(path.removeprefix("/verify/"), b"")) == json.loads(body)["size"]
                return self.say(200 if known else 404, {})
            found = re.fullmatch(r"/datasets/([^/]+/[^/]+)\.git/info/lfs/objects/batch", path)
            if found and state.repo(found[1]) is not None:
                return self.batch(json.loads(body))
            found = re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/(preupload|commit)/([^/]+)", path)
            repo = state.repo(found[1]) if found else None
            if repo is None:
                return self.missing("RepoNotFound")
            if found[2] == "preupload":
                return self.preupload(json.loads(body))
            return self.commit(found[1], repo, [json.loads(line) for line in body.splitlines()])

    def create(self, wanted):
        name = "/".join(filter(None, [wanted.get("organization") or "user", wanted["name"]]))
        if name in self.state.repos:
            return self.say(409, {"error": "exists", "url": f"{self.state.hub}/datasets/{name}"})
        private = wanted.get("private", wanted.get("visibility") == "private")
        first = hashlib.sha1(name.encode()).hexdigest()
        files = {".gitattributes": (None, b"*.parquet filter=lfs\n")}
        self.state.repos[name] = {"private": bool(private), "head": first, "commits": {first: files}}
        return self.say(200, {"url": f"{self.state.hub}/datasets/{name}", "name": name, "id": name})

    def preupload(self, wanted):
        def mode(file):
            sample = base64.b64decode(file["sample"])
            kind = "lfs" if is_large(sample, file["size"]) else "regular"
            return {"path": file["path"], "uploadMode": kind, "shouldIgnore": False, "oid": None}

        return self.say(200, {"files": [mode(file) for file in wanted["files"]]})

    def batch(self, wanted):
        state = self.state

        def answer(wanted):
            digest, size = wanted["oid"], wanted["size"]
            if digest in state.store:
                return {"oid": digest, "size": size}
            upload = {"href": f"{state.store_address}/{digest}", "header": {}}
            if (part := state.options.parts) and size > part:
                count = -(-size // part)
                header = {str(n): f"{state.store_address}/{digest}?part={n}" for n in range(1, count + 1)}
                upload = {"href": f"{state.hub}/complete/{digest}", "header": header | {"chunk_size": str(part)}}
            verify = {"href": f"{state.hub}/verify/{digest}", "header": {}}
            return {"oid": digest, "size": size, "actions": {"upload": upload, "verify": verify}}

        return self.say(200, {"transfer": "basic", "objects": [answer(object) for object in wanted["objects"]]})

    def complete(self, digest, wanted):
        with self.state.lock:
            parts = self.state.parts.get(digest, {})
            tags = [(part["partNumber"], part["etag"]) for part in wanted["parts"]]
            expected = [(number, f'"{hashlib.md5(content).hexdigest()}"') for number, content in sorted(parts.items())]
            content = b"".join(content for _, content in sorted(parts.items()))
            if tags != expected or hashlib.sha256(content).hexdigest() != digest:
                return self.say(400, {"error": "these parts do not make up the file"})
            self.state.store[digest] = content
            self.state.counts["stored"] += 1
        return self.say(200, {})

    def commit(self, name, repo, lines):
        state = self.state
        head, *operations = lines
        parent = head["value"].get("parentCommit")
        if parent not in (None, repo["head"]):
            return self.say(412, {"error": "the branch has moved"}, {"X-Error-Message": "the branch has moved"})
        files = dict(repo["commits"][repo["head"]])
        for operation in operations:
            value = operation["value"]
            if operation["key"] == "file":
                content = base64.b64decode(value["content"])
                if is_large(content[:512], len(content)):
                    return self.say(400, {"error": f"{value['path']} belongs into the store"})
                files[value["path"]] = (None, content)
            elif operation["key"] == "lfsFile":
                if value["oid"] not in state.store:
                    return self.say(400, {"error": f"{value['path']} is not in the store"})
                files[value["path"]] = (value["oid"], state.store[value["oid"]])
            elif operation["key"] == "deletedFile":
                del files[value["path"]]
            else:
                return self.say(400, {"error": f"unknown operation {operation['key']}"})
        listing = json.dumps([repo["head"], [[path, blob(content)] for path, (_, content) in sorted(files.items())]])
        oid = hashlib.sha1(listing.encode()).hexdigest()
        repo["commits"][oid], repo["head"] = files, oid
        state.counts["commits"] += 1
        if state.options.lose_commit and not state.lost:
            state.lost = True
            self.close_connection = True
            return self.connection.close()
        answer = {"success": True, "commitOid": oid, "commitUrl": f"{state.hub}/datasets/{name}/commit/{oid}", "hookOutput": "", "pullRequestUrl": None}
        return self.say(200, answer)


class Store(Handler):
    """Where large files are sent to."""

    def do_PUT(self):
        body = self.body()
        if self.headers.get("Authorization"):
            return self.say(400, {"error": "a token has no business here"})
        if self.faulty(body):
            return None
        url = urlsplit(self.path)
        digest, part = url.path.removeprefix("/"), parse_qs(url.query).get("part")
        with self.state.lock:
            if part:
                self.state.parts.setdefault(digest, {})[int(part[0])] = body
            elif hashlib.sha256(body).hexdigest() != digest:
                return self.say(400, {"error": "another content than was announced"})
            else:
                self.state.store[digest] = body
                self.state.counts["stored"] += 1
        return self.say(200, b"", {"ETag": f'"{hashlib.md5(body).hexdigest()}"'})


def entry(path, file):
    digest, content = file
    listed = {"type": "file", "path": path, "size": len(content), "oid": blob(content)}
    return listed | ({"lfs": {"oid": digest, "size": len(content), "pointerSize": 130}} if digest else {})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", type=int)
    parser.add_argument("--fail", type=int)
    parser.add_argument("--lose-commit", action="store_true")
    state = State(parser.parse_args())
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Hub, Store)]
    state.hub, state.store_address = (f"http://127.0.0.1:{server.server_port}" for server in servers)
    for server in servers:
        server.daemon_threads = True
        server.state = state
    threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    print(state.hub, flush=True)
    servers[0].serve_forever()


if __name__ == "__main__":
    main()
