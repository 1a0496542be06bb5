#!/usr/bin/python3
"""registries.py - the public registries, each by its host: npm, Python's index, crates.io, Debian, Go's proxy

    registries.py LOG CERT KEY

One package in each, called `sample`, in the form that the client asks for. As origin_python.py otherwise.
"""

import base64
import gzip
import hashlib
import io
import json
import sys
import tarfile
import zipfile

from origin_python import Handler, Log, run_http_server

JSON = [("content-type", "application/json")]
HTML = [("content-type", "text/html")]
BYTES = [("content-type", "application/octet-stream")]


def packed(files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(data.getvalue(), mtime=0)


def zipped(files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return data.getvalue()


def wheel():
    info = "sample-1.0.dist-info/"
    files = {
        "sample.py": "answer = 42\n",
        info + "METADATA": "Metadata-Version: 2.1\nName: sample\nVersion: 1.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip('=')},{len(text)}\n"
        for name, text in files.items()
    )
    files[info + "RECORD"] = record + info + "RECORD,,\n"
    return zipped(files)


TARBALL = packed({"package/package.json": '{"name":"sample","version":"1.0.0"}', "package/index.js": "module.exports = 42;\n"})
CRATE = packed({"sample-1.0.0/Cargo.toml": '[package]\nname = "sample"\nversion = "1.0.0"\nedition = "2021"\n',
                "sample-1.0.0/src/lib.rs": "pub const ANSWER: u32 = 42;\n"})  # fmt: skip
WHEEL = wheel()
GO_MOD = "module example.test/sample\n\ngo 1.19\n"
GO_ZIP = zipped({"example.test/sample@v1.0.0/go.mod": GO_MOD,
                 "example.test/sample@v1.0.0/sample.go": "package sample\n\nconst Answer = 42\n"})  # fmt: skip
GO_INFO = b'{"Version":"v1.0.0","Time":"2025-11-01T00:00:00Z"}'
INTEGRITY = "sha512-" + base64.b64encode(hashlib.sha512(TARBALL).digest()).decode()

PACKAGES = b"Package: sample\nVersion: 1.0\nArchitecture: all\nFilename: ./sample_1.0_all.deb\nSize: 4\nDescription: d\n\n"
RELEASE = ("Date: Sat, 01 Nov 2025 00:00:00 UTC\nSuite: stable\nComponents: main\nArchitectures: amd64\nSHA256:\n"
           f" {hashlib.sha256(PACKAGES).hexdigest()} {len(PACKAGES)} main/binary-amd64/Packages\n").encode()  # fmt: skip

ANSWERS = {
    "GET https://deb.debian.org/debian/dists/stable/Release": (BYTES, RELEASE),
    "GET https://deb.debian.org/debian/dists/stable/main/binary-amd64/Packages": (BYTES, PACKAGES),
    "GET https://registry.npmjs.org/sample": (JSON, json.dumps({
        "name": "sample", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "sample", "version": "1.0.0",
            "dist": {"tarball": "https://registry.npmjs.org/sample/-/sample-1.0.0.tgz", "integrity": INTEGRITY}}}}).encode()),
    "GET https://registry.npmjs.org/sample/-/sample-1.0.0.tgz": (BYTES, TARBALL),
    "POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk": (JSON, b"{}"),
    "GET https://pypi.org/simple/sample/": (HTML, (
        "<!DOCTYPE html><html><body><a href=\"https://files.pythonhosted.org/packages/sample-1.0-py3-none-any.whl"
        f"#sha256={hashlib.sha256(WHEEL).hexdigest()}\">sample-1.0-py3-none-any.whl</a></body></html>").encode()),
    "GET https://files.pythonhosted.org/packages/sample-1.0-py3-none-any.whl": (BYTES, WHEEL),
    "GET https://index.crates.io/config.json": (JSON, b'{"dl":"https://static.crates.io/crates","api":"https://crates.io"}'),
    "GET https://index.crates.io/sa/mp/sample": (BYTES, json.dumps({
        "name": "sample", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(CRATE).hexdigest(), "features": {},
        "yanked": False}).encode() + b"\n"),
    "GET https://static.crates.io/crates/sample/1.0.0/download": (BYTES, CRATE),
    "GET https://proxy.golang.org/example.test/sample/@v/list": (BYTES, b"v1.0.0\n"),
    "GET https://proxy.golang.org/example.test/sample/@v/v1.0.0.info": (JSON, GO_INFO),
    "GET https://proxy.golang.org/example.test/sample/@v/v1.0.0.mod": (BYTES, GO_MOD.encode()),
    "GET https://proxy.golang.org/example.test/sample/@v/v1.0.0.zip": (BYTES, GO_ZIP),
}  # fmt: skip


class Registries(Handler):
    def answer(self):
        self.content()
        asked = f"{self.command} https://{self.headers['host']}{self.path}"
        self.server.log.note(case=None, method=self.command, target=asked, complete=True,
                             auth=bool(self.headers["authorization"]))  # fmt: skip
        fields, body = ANSWERS.get(asked, (HTML, b"nothing"))
        self.send_response(200 if asked in ANSWERS else 404)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


if __name__ == "__main__":
    run_http_server(Log(sys.argv[1]), sys.argv[2], sys.argv[3], Registries)
