"""A value lives in secret pages and nowhere else: every readable page of both processes is searched.

One daemon has a credential of each kind, towards upstreams of both versions of HTTP, and is searched
while it sends them all. What is on its way lies in pages that nobody reads from outside (hidden.h), so
that there is no moment at which it may be found.
"""

import base64
import contextlib
import datetime
import json
import os
import secrets
import socket
import ssl
import subprocess
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
import sigv4
from aws_origin import AwsOrigin
from clients import Tunnel
from common import HERE, until
from daemons import Daemons
from harness import Wire
from memory_search import bare, forms, found, may_read
from test_mtls import make_ca, make_client, read
from token_endpoints import HOST as LOGIN
from token_endpoints import Endpoint

# What all values have in common. The second is for places in which it has to be escaped.
CORE = secrets.token_hex(4) + "KeyholeCore" + secrets.token_hex(8)
ODD = CORE[:8] + '"x\\y/z+%&=' + CORE[8:]
ROUNDS = 4


def value(kind):
    return {"query": f"q-{ODD}-q", "json": f"j-{ODD}-j", "form": f"f-{ODD}-f", "aws": (CORE + "x" * 40)[:40],
            "basic": f"{CORE}:{CORE}"}.get(kind, f"{kind}-{CORE}-{kind}")  # fmt: skip


PLACEMENTS = {
    "header": {"header": {"x-api-key": "{}", "x-other": "Key {}!"}},
    "bearer": {"bearer": True},
    "basic": {"basic": {}},
    "git": {"basic": {"username": "x-access-token"}},
    "azure": {"azure": True},
    "query": {"query": "api_key"},
    "cookie": {"cookie": "session"},
    "json": {"body": {"json": "/auth/key"}},
    "form": {"body": {"form": "client_secret"}},
    "hmac": {"hmac": {"sign": "{timestamp}.{body}", "header": {"x-sign": "{signature}", "x-time": "{timestamp}"}}},
    "aws": {"aws_sigv4": {"region": "eu-west-1", "service": "sqs"}},
    "oauth2": {"oauth2": {"grant": "client_credentials", "token_url": f"https://{LOGIN}/token", "client_auth": "body",
                          "client_id": "the-client:id", "scopes": ["read", "write"]}},
    "refresh": {"oauth2": {"grant": "refresh_token", "token_url": f"https://{LOGIN}/token", "client_id": "the-client:id",
                           "state": "refresh.state"}},
    "gcp": {"gcp_service_account": {"scopes": ["https://a", "https://b"]}},
    "github": {"github_app": {"app_id": 12345, "api_url": f"https://{LOGIN}", "installation_id": 77}},
    "mtls": {"mtls": {}},
}  # fmt: skip
# The fields that a credential of each kind is in; the others' is no field's.
FIELDS = {kind: ["authorization"] for kind in ("bearer", "basic", "git", "oauth2", "refresh", "gcp", "github")}
FIELDS |= {"header": ["x-api-key", "x-other"], "azure": ["api-key"], "query": [":path"], "cookie": ["cookie"]}
VERSIONS = ("1.1", "2")
SILENT = "silent.of-"


def host(kind, version):
    return f"{kind}.of-{version[0]}.test"


class Origin(AwsOrigin):
    """Notes whose credential came; to one that showed a certificate it says goodbye, so that the next one shakes hands."""

    def __init__(self, folder, client_ca, version):
        names = [host(kind, version) for kind in PLACEMENTS]
        super().__init__(folder, names, {}, alpn=("h2",) if version == "2" else ("http/1.1",))
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.context.load_verify_locations(client_ca)
        self.came, self.never_indexed = {}, {}

    def judge(self, seen):
        kind = seen.get("host").split(".")[0]
        self.came[kind] = seen
        return 200, b"{}"

    def answer_h2(self, conn, pending, stream, headers, body):
        super().answer_h2(conn, pending, stream, headers, body)
        kind = dict(headers)[":authority"].split(".")[0]
        # RFC 7541 section 6.2.3: what its peers are told never to index, in whichever table.
        self.never_indexed[kind] = sorted(field[0] for field in headers if not field.indexable)

    def serve_h1(self, tls):
        if tls.getpeercert():
            tls = OneAnswer(tls)
        super().serve_h1(tls)


class OneAnswer:
    def __init__(self, tls):
        self.tls = tls

    def makefile(self, mode):
        return self.tls.makefile(mode)

    def sendall(self, data):
        self.tls.sendall(data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))


class Login(Endpoint):
    """Its tokens hold what is searched for, and last so short a time that the load meets many of them."""

    def __init__(self, folder):
        super().__init__(folder)
        self.lifetime = 4
        self.client = ("the-client:id", value("oauth2"))
        self.refresh = value("refresh")

    def answer(self, request, body):
        if "grant_type=refresh_token" not in body:
            return super().answer(request, body)
        with self.lock:
            form = {name: values[0] for name, values in parse_qs(body).items()}
            if form["refresh_token"] != self.refresh:
                return 400, {"error": "invalid_grant"}
            self.refresh = f"refresh-{CORE}-{len(self.asked)}"
        return 200, {**self.token()[1], "refresh_token": self.refresh}

    def token(self):
        status, answer = super().token()
        return status, {**answer, "access_token": f"token-{CORE}-{self.count}"}

    def github(self, request, body):
        status, answer = super().github(request, body)
        return status, {**answer, "token": f"ghs_{CORE}_{self.count}"} if "token" in answer else answer


# --- private keys -----------------------------------------------------------------------------------


def numbers(der):
    """The long ones in a private key (PKCS#8, PKCS#1 or SEC 1), however deep; those of its public half are not asked for."""
    at = 0
    while at + 2 <= len(der):
        tag, size, at = der[at], der[at + 1], at + 2
        if size > 0x80:
            size, at = int.from_bytes(der[at : at + size - 0x80], "big"), at + size - 0x80
        part, at = der[at : at + size], at + size
        if tag in (0x30, 0x04) and part[:1] in (b"\x30", b"\x02", b"\x04") and tag != 0x04 or (tag == 0x04 and part[:1] == b"\x30"):
            yield from numbers(part)
        elif tag in (0x02, 0x04) and len(part) >= 32:
            yield part.lstrip(b"\0")


def key_needles(name, pem, public):
    """Its text, and each of its numbers that is not in its public half."""
    lines = pem.strip().splitlines()[1:-1]
    yield f"{name}'s PEM", lines[len(lines) // 2].encode()
    der = base64.b64decode("".join(lines))
    for i, number in enumerate(n for n in numbers(der) if n not in public):
        yield from bare(f"{name}'s number {i}", number[: len(number) // 2] if len(number) > 64 else number)


def public_half(path):
    done = subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-outform", "DER"], capture_output=True, check=True)
    return done.stdout


# --- the daemon -------------------------------------------------------------------------------------


class Scene:
    """Upstreams, endpoint, daemon; what to search for."""

    def __init__(self, folder):
        self.folder = folder
        self.ca = make_ca(folder, "client-ca")
        self.clients = {"1.1": make_client(folder, self.ca, "first"),
                        "2": make_client(folder, self.ca, "second", kind=("rsa:2048",))}  # fmt: skip
        self.origins = {v: Origin(os.path.join(folder, v), self.ca[0], v) for v in VERSIONS}
        self.login = Login(folder)
        self.silent = socket.create_server(("127.0.0.1", 0))
        self.silent.settimeout(60)
        self.keys = {"jwt": self.login.make_key("jwt")}
        self.needles = [*forms(CORE.encode()), *((f"odd: {name}", n) for name, n in forms(ODD.encode()))]
        self.needles += key_needles("jwt", self.keys["jwt"], public_half(os.path.join(folder, "jwt.key")))
        day = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d")
        key = ("AWS4" + value("aws")).encode()
        for part in (day, "eu-west-1", "sqs", "aws4_request"):
            key = sigv4.mac(key, part)
            self.needles += bare(f"AWS, {part}", key)
        self.mtls_needles = [n for v, pair in self.clients.items()
                             for n in key_needles(f"mtls {v}", read(pair[1]), public_half(pair[1]))]  # fmt: skip

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def value_of(self, kind, version):
        """As a source, and a variable that holds it."""
        if kind == "aws":
            text = json.dumps({"Version": 1, "AccessKeyId": "AKIAREALREALREALREAL", "SecretAccessKey": value(kind),
                               "SessionToken": f"session-{CORE}"})  # fmt: skip
        elif kind == "gcp":
            text = json.dumps({"type": "service_account", "client_email": "robot@project.test", "private_key": self.keys["jwt"],
                               "private_key_id": "1", "token_uri": f"https://{LOGIN}/token"}, indent=2)  # fmt: skip
        elif kind == "github":
            text = self.keys["jwt"]
        elif kind == "mtls":
            text = read(self.clients[version][1])
        elif kind == "json":
            return {"exec": ["cat", self.file("json", value(kind))]}, {}
        else:
            name = f"VALUE_{kind.upper()}"
            return {"env": name}, {name: value(kind)}
        return {"file": self.file(f"{kind}{version}", text)}, {}

    def config(self):
        credentials, rules, env = {}, [], {}
        for kind, placement in PLACEMENTS.items():
            for version in VERSIONS if kind == "mtls" else VERSIONS[:1]:
                source, variables = self.value_of(kind, version)
                name = kind + version[0]
                hosts = [host(kind, v) for v in VERSIONS] if kind != "mtls" else [host(kind, version), f"{SILENT}{version[0]}.test"]
                credentials[name] = {"value": source, "hosts": hosts, **json.loads(json.dumps(placement))}
                env |= variables
                rules += [{"allow": f"https://{h}", "credential": name} for h in hosts]
                if kind == "mtls":
                    credentials[name]["mtls"]["certificate"] = self.clients[version][0]
        resolve = {name: origin.address for origin in self.origins.values() for name in origin.names}
        resolve |= {f"{SILENT}{v[0]}.test": "127.0.0.1:%d" % self.silent.getsockname()[1] for v in VERSIONS}
        roots = "".join(read(path) for path in (self.login.ca, *(origin.ca for origin in self.origins.values())))
        return {
            "version": 1,
            "authority": {"certificate": "ca.pem", "key": "ca.key"},
            "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
            "upstream": {"ca_file": self.file("roots.pem", roots), "resolve": {**resolve, LOGIN: self.login.address}},
            "audit": {"file": "audit.jsonl"},
            "credentials": credentials,
            "tenants": {"acme": {"rules": rules}},
        }, env

    def stop(self):
        for origin in self.origins.values():
            origin.stop()
        self.login.stop()
        self.silent.close()


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    made = Scene(str(tmp_path_factory.mktemp("scene")))
    yield made
    made.stop()


def ask(tunnel, kind, name):
    headers, body, method = [], None, "GET"
    if kind == "json":
        method, headers, body = "POST", [("Content-Type", "application/json")], b'{"a": [1], "auth": {"key": "none"}}'
    elif kind == "form":
        method, headers, body = "POST", [("Content-Type", "application/x-www-form-urlencoded")], b"a=b&client_secret=none&c=d"
    elif kind == "aws":
        signer = sigv4.Signer("AKIAPLACEHOLDER00000", "standinstandinstandinstandinstandin12345", "eu-west-1", "sqs")
        headers = [(n, v) for n, v in signer.header("GET", name, "/path?a=b", [], sigv4.EMPTY) if n != "Host"]
    answer = tunnel.ask(method, "/path?a=b", headers, body)
    assert answer.status == 200, (kind, name, answer, answer.body)


class Load:
    """All kinds, both versions, over and over, on connections that stay."""

    def __init__(self, daemon, threads=4):
        self.daemon, self.over, self.problems, self.count = daemon, threading.Event(), [], 0
        pairs = [(kind, version) for kind in PLACEMENTS for version in VERSIONS]
        self.threads = [threading.Thread(target=self.run, args=(pairs[i::threads],)) for i in range(threads)]

    def run(self, pairs):
        try:
            with contextlib.ExitStack() as stack:
                tunnels = [(kind, host(kind, v), stack.enter_context(Tunnel(self.daemon, host(kind, v)))) for kind, v in pairs]
                while not self.over.is_set():
                    for kind, name, tunnel in tunnels:
                        ask(tunnel, kind, name)
                        self.count += 1
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(problem)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.problems and self.count > 0, self.problems


def search(pids, needles, rounds):
    """By a program of its own: this one is busy. Return: what it found, a list a round."""
    order = {"pids": pids, "needles": [(form, needle.hex()) for form, needle in needles]}
    done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "memory_search.py"), str(rounds)],
                          input=json.dumps(order), capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_that_all_came(origins):
    """What is searched for had been there: each upstream was shown it."""
    for version, origin in origins.items():
        assert set(origin.came) == set(PLACEMENTS), version
        for kind, seen in origin.came.items():
            text = " ".join([seen.target, seen.body.decode(), *(v for _, v in seen.headers)])
            expected = {"query": "api_key=" + dict(forms(f"q-{ODD}-q".encode()))["quoted"].decode(), "aws": "Signature=",
                        "json": json.dumps(value(kind)), "basic": base64.b64encode(value(kind).encode()).decode(),
                        "git": base64.b64encode(f"x-access-token:{value(kind)}".encode()).decode(),
                        "hmac": "", "mtls": "", "form": CORE[8:],
                        "gcp": f"token-{CORE}", "oauth2": f"token-{CORE}", "refresh": f"token-{CORE}",
                        "github": f"ghs_{CORE}"}.get(kind, value(kind))  # fmt: skip
            assert expected in text, (kind, version, seen.target, seen.headers, seen.body)
        assert origin.came["hmac"].get("x-sign") and urlsplit(origin.came["form"].target).path == "/path"


def check_that_none_is_indexed(origin):
    for kind in PLACEMENTS:
        hidden = origin.never_indexed[kind]
        if kind in FIELDS:
            assert hidden == FIELDS[kind], kind
        elif kind in ("json", "form", "mtls"):
            assert not hidden, kind
        else:  # signatures, and a session's token
            assert {"hmac": "x-sign", "aws": "x-amz-security-token"}[kind] in hidden, (kind, hidden)


def test_nobody_finds_it_in_memory(scene, tmp_path):
    config, env = scene.config()
    with Daemons(list(scene.origins.values())) as daemons:
        daemon = daemons(config=config, env=env)
        pids = {"keeper": daemon.process.pid, "worker": daemon.worker_pid()}
        if not all(may_read(pid) for pid in pids.values()):
            pytest.skip("this user may not read the memory of what is not dumpable")
        # The search finds what is there: half a request, which waits for its other half.
        decoy = secrets.token_hex(20)
        with Wire(daemon.socket_path) as wire:
            wire.send(f"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX-Decoy: {decoy}\r\n")
            until("it is found", lambda: found(pids["worker"], list(forms(decoy.encode()))), 60)
        ca_key = os.path.join(daemon.folder, "ca.key")
        with open(ca_key, encoding="ascii") as file:
            ca_needles = list(key_needles("the CA", file.read(), public_half(ca_key)))
        assert len(ca_needles) >= 4, "its text, and its private number in three forms"
        everything = scene.needles + scene.mtls_needles + ca_needles
        assert search(pids, everything, 1) == [[]], "before it was ever used"
        with Load(daemon):
            rounds = search(pids, everything, ROUNDS)
        check_that_all_came(scene.origins)
        check_that_none_is_indexed(scene.origins["2"])
        assert not any(rounds), "under load"
        assert search(pids, everything, 1) == [[]], "after the load"
        # A key is in OpenSSL's hands from the beginning of a handshake to its end.
        with contextlib.ExitStack() as stack:
            for version in VERSIONS:
                tunnel = stack.enter_context(Tunnel(daemon, f"{SILENT}{version[0]}.test"))
                tunnel.start("GET", "/")
                tunnel.send(b"")
                shaking = stack.enter_context(scene.silent.accept()[0])
                assert shaking.recv(1) == b"\x16", "its ClientHello"
            assert search(pids, scene.mtls_needles, 1) == [[]], "while hands are shaken"
