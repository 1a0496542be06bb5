"""A digest of the request, made with the key on the host, as APIs of several makes ask for it."""

import base64
import hashlib
import hmac
import json
import os

import pytest
from clients import Tunnel
from common import SECRET
from h2client import h2_tunnel

KEY = base64.b64encode(os.urandom(48)).decode()
KINDS = {
    "exchange": {  # a crypto exchange: key in base64, over time, method, target and content
        "key": "base64", "encoding": "base64", "timestamp": "s", "sign": "{timestamp}{method}{target}{body}",
        "header": {"cb-access-sign": "{signature}", "cb-access-timestamp": "{timestamp}", "cb-access-key": "my-key-id"},
    },
    "webhook": {"sign": "{timestamp}.{body}", "timestamp": "ms",
                "header": {"Webhook-Signature": "t={timestamp},v1={signature}"}},
    "cloud": {  # a cloud's configuration store: over a date, the host and a hash of the content
        "key": "base64", "encoding": "base64", "timestamp": "http",
        "sign": "{method}\n{target}\n{timestamp};{host};{body_sha256_base64}",
        "header": {
            "x-ms-date": "{timestamp}", "x-ms-content-sha256": "{body_sha256_base64}",
            "Authorization": "HMAC-SHA256 Credential=my-id&SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature={signature}",
        },
    },
    "head": {"algorithm": "sha512", "sign": "{nonce}|{path}|{query}", "header": {"X-Nonce": "{nonce}", "X-Sign": "{signature}"}},
}  # fmt: skip


def digest(name, text, key=KEY):
    kind = KINDS[name]
    key = base64.b64decode(key) if kind.get("key") == "base64" else key.encode()
    made = hmac.new(key, text, getattr(hashlib, kind.get("algorithm", "sha256"))).digest()
    return base64.b64encode(made).decode() if kind.get("encoding") == "base64" else made.hex()


def expected(name, method, target, host, body, found):
    """From what arrived, what the signature has to be, and what of it arrived."""
    path, _, query = target.partition("?")
    sha = base64.b64encode(hashlib.sha256(body).digest()).decode()
    if name == "exchange":
        return digest(name, (found["cb-access-timestamp"] + method + target).encode() + body), found["cb-access-sign"]
    if name == "webhook":
        time, _, sign = found["webhook-signature"].partition(",v1=")
        return digest(name, time[2:].encode() + b"." + body), sign
    if name == "cloud":
        assert found["x-ms-content-sha256"] == sha
        return (digest(name, f"{method}\n{target}\n{found['x-ms-date']};{host};{sha}".encode()),
                found["authorization"].rpartition("Signature=")[2])
    return digest(name, f"{found['x-nonce']}|{path}|{query}".encode()), found["x-sign"]


@pytest.fixture
def start(daemon):
    def run(name, value=KEY, **more):
        return daemon({"credentials": {"main": {"value": {"file": "secret"}, "header": None, "hmac": KINDS[name],
                                                "hosts": ["api.test"]}}, **more}, secret=value)  # fmt: skip

    return run


def look(what, name, method, target, body):
    found = {n.lower(): v for n, v in what["fields"]}
    assert what["line"] == f"{method} {target} HTTP/1.1"
    want, got = expected(name, method, target, "api.test", body, found)
    assert got == want
    return found


@pytest.mark.parametrize("name", KINDS)
def test_what_arrives_is_signed_as_the_template_says(start, name):
    one = start(name)
    target = "/test/echo?a=1&b=%20c&d"
    with Tunnel(one, "api.test") as tunnel:
        for method, body in [("POST", os.urandom(30_000)), ("GET", b""), ("PUT", b"x")]:
            answer = tunnel.ask(method, target, [], body if body else None)
            assert answer.status == 200, answer
            look(answer.json(), name, method, target, body)
    with h2_tunnel(one, "api.test") as client:
        answer = client.ask("POST", target, [], b"hello")
        assert answer.status == 200
        look(json.loads(answer.body), name, "POST", target, b"hello")


@pytest.mark.parametrize("name", ["exchange", "cloud"])
def test_content_of_unknown_length_is_held_and_signed(start, name):
    body = os.urandom(100_000)
    with Tunnel(start(name), "api.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked")])
        for at in range(0, len(body), 10_000):
            tunnel.send(b"2710\r\n" + body[at : at + 10_000] + b"\r\n")
        tunnel.send(b"0\r\n\r\n")
        look(tunnel.response().json(), name, "POST", "/test/echo", body)


def test_content_that_nothing_is_said_of_streams(start):
    """It is not held, so a bound on what is held is none for it."""
    one = start("head", limits={"held_content": "64KiB"})
    with Tunnel(one, "api.test") as tunnel:
        what = tunnel.ask("POST", "/test/echo", [], b"x" * 300_000).json()
    assert what["body_bytes"] == 300_000


def test_content_that_is_too_large_to_hold_is_413(start, mock):
    one = start("webhook", limits={"held_content": "64KiB"})
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("POST", "/test/echo", [("X-Test-Id", "hmac large")], b"x" * 65537)
    assert answer.status == 413
    mock.never("hmac large")


def test_nothing_of_the_clients_own_stays(start):
    mine = [("CB-ACCESS-SIGN", "attackers-own"), ("cb_access_sign", "attackers-own"), ("Cb-Access-Key", "attackers-own"),
            ("Authorization", "attackers-own"), ("X-Api-Key", "attackers-own")]  # fmt: skip
    with Tunnel(start("exchange"), "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo?key=attackers-own&a=1", mine)
    assert "attackers-own" not in answer.text()
    found = look(answer.json(), "exchange", "GET", "/test/echo?a=1", b"")
    assert found["cb-access-key"] == "my-key-id"


def test_a_value_that_is_no_such_key_lets_nothing_out(start, mock):
    one = start("exchange", value="#no base64 at all#")
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("X-Test-Id", "hmac key")])
    assert answer.status == 503 and "base64" in answer.text()
    assert "#no" not in answer.text() + one.stderr()
    mock.never("hmac key")


def test_two_requests_have_two_nonces(start):
    with Tunnel(start("head"), "api.test") as tunnel:
        seen = {look(tunnel.ask("GET", "/test/echo").json(), "head", "GET", "/test/echo", b"")["x-nonce"] for _ in range(5)}
    assert len(seen) == 5 and SECRET not in seen
