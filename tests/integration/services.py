#!/usr/bin/python3
"""services.py - what git and npm talk to: git's own smart-HTTP backend, and a small registry

    services.py ROOT LOG CERT KEY

/git/… and OWNER/NAME are served by `git http-backend` from ROOT, to whom shows the password of
$SERVICE_PASSWORD alone, or to anybody where that is empty; /npm/… is a registry of packages that
depend on each other. As origin_python.py otherwise.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import urllib.parse

from origin_python import Handler, run_http_server, Log

PACKAGES = 24
ROOT = sys.argv[1] if len(sys.argv) > 1 else ""
PASSWORD = os.environ.get("SERVICE_PASSWORD", "")


class Services(Handler):
    def answer(self):
        path, _, query = self.path.partition("?")
        body, _ = self.content()
        self.server.log.note(case=None, method=self.command, target=self.path, bytes=len(body),
                             complete=True, auth=bool(self.headers["authorization"]))  # fmt: skip
        if path.startswith("/git/"):
            self.git(path[4:], query, body)
        elif path.startswith("/npm/"):
            self.npm(urllib.parse.unquote(path[5:]))
        elif re.fullmatch(r"/[\w-]+/[\w-]+(\.git)?/(info/refs|git-(upload|receive)-pack)", path):
            self.git(path, query, body)
        else:
            self.say(404, b"nothing")

    def say(self, status, body, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def git(self, path, query, body):
        wanted = "Basic " + base64.b64encode(f"x-access-token:{PASSWORD}".encode()).decode()
        if PASSWORD and self.headers["authorization"] != wanted:
            self.say(401, b"", [("www-authenticate", 'Basic realm="git"')])
            return
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": ROOT,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers["content-type"] or "",
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers["git-protocol"] or "",
            "REMOTE_USER": "tester",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, timeout=60,
                              capture_output=True, check=False)  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [tuple(line.decode().split(": ", 1)) for line in head.split(b"\r\n")]
        status = next((v for n, v in fields if n == "Status"), "200 OK")
        self.say(int(status[:3]), content, [f for f in fields if f[0] != "Status"])

    def npm(self, path):
        name, _, file = path.partition("/-/")
        number = int(name.removeprefix("part-")) if name.startswith("part-") else -1
        if not 0 <= number < PACKAGES:
            self.say(404, b'{"error":"not found"}', [("content-type", "application/json")])
        elif file:
            self.say(200, package(number), [("content-type", "application/octet-stream")])
        else:
            host = self.headers["host"]
            self.say(200, json.dumps(packument(number, host)).encode(),
                     [("content-type", "application/json")])  # fmt: skip


def manifest(number):
    # A tree: each package needs two others.
    needs = {f"part-{n}": "1.0.0" for n in (2 * number + 1, 2 * number + 2) if n < PACKAGES}
    return {"name": f"part-{number}", "version": "1.0.0", "dependencies": needs}


def package(number):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
        for name, text in (("package.json", json.dumps(manifest(number))),
                           ("index.js", f"module.exports = {number};\n" + "// filler\n" * 2000)):  # fmt: skip
            member = tarfile.TarInfo("package/" + name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    data = bytearray(packed.getvalue())
    data[4:8] = bytes(4)  # gzip's clock: the same bytes each time
    return bytes(data)


def packument(number, host):
    digest = base64.b64encode(hashlib.sha512(package(number)).digest()).decode()
    name = f"part-{number}"
    version = {
        **manifest(number),
        "dist": {"tarball": f"https://{host}/npm/{name}/-/{name}-1.0.0.tgz", "integrity": "sha512-" + digest},
    }
    return {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}


if __name__ == "__main__":
    run_http_server(Log(sys.argv[2]), sys.argv[3], sys.argv[4], Services)
