"""A sandbox learns nothing by trying values: a refusal is the same whether one was right or not."""

import base64
import copy
import json
import os
import re
import statistics
import subprocess
import time

import pytest
from common import until
from daemons import Daemons, base_config
from h2client import StreamWire, h2_plain, h2_tunnel
from harness import SECRET, Tunnel, Wire

from test_base_url import origin_form
from test_check import KEYHOLE
from tunnels import Direct, Socks, SocksRefused, hello_bytes

WRONG = SECRET[:-30] + SECRET[-30:][::-1]  # of the same kind, and not the value
EASY = "48151623"
LOGIN = "svc-deploy:Winter2044"
STRONG_LOGIN = "svc-deploy:u8Xw3RqL0vTz5NbKd7Ys"
KEY_ID, KEY, TOKEN = "AKIAQ7WX3ZP5JH2VKD6R", "hT5wq9ZbQ7xKmR2vLs8Yd1Gf4Jn6Pc0Ae3Ui/Ko+", "FwoGZXq7Lk9vW2xR8tB4nM1cZ6pD3sH5jG0fQ"
HMAC_KEY = bytes.fromhex("9f3c7a15e8d2460bb1f4835e6ca79d20c4817be9530fad62")
LINES = [base64.b64encode(os.urandom(48)).decode() for _ in range(3)]
PEM = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(LINES) + "\n-----END PRIVATE KEY-----\n"


@pytest.fixture(scope="module")
def many(standin):
    """A daemon with credentials of many kinds, and a sandbox for each few tests."""
    config = base_config(standin)
    config["listen"] = [{"unix": f"s{n}/s", "tenant": "acme", "sandbox": f"box{n}"} for n in range(40)]
    hosts = ["other.test"]
    config["credentials"].update({
        "easy": {"value": {"file": "easy"}, "bearer": True, "hosts": hosts},
        "login": {"value": {"file": "login"}, "basic": {}, "hosts": hosts},
        "strong-login": {"value": {"file": "strong-login"}, "basic": {}, "hosts": hosts},
        "aws": {"value": {"file": "aws"}, "aws_sigv4": {"region": "eu-west-1", "service": "sqs"}, "hosts": hosts},
        "signed": {"value": {"file": "signed"}, "hosts": hosts,
                   "hmac": {"key": "base64", "sign": "{method}{path}", "header": {"x-signature": "{signature}"}}},
        "pem": {"value": {"file": "pem"}, "bearer": True, "hosts": hosts},
    })  # fmt: skip
    files = {
        "easy": EASY, "login": LOGIN, "strong-login": STRONG_LOGIN,
        "aws": json.dumps({"AccessKeyId": KEY_ID, "SecretAccessKey": KEY, "SessionToken": TOKEN}),
        "signed": base64.b64encode(HMAC_KEY).decode(), "pem": PEM.replace("\n", "\\n"),
    }  # fmt: skip
    with Daemons([standin]) as daemons:
        daemon = daemons(config=config, start=False)
        for name, value in files.items():
            with open(os.path.join(daemon.folder, name), "w", encoding="ascii") as file:
                file.write(value)
            os.chmod(os.path.join(daemon.folder, name), 0o600)
        daemon.start()
        yield daemon


def box(daemon, n):
    one = copy.copy(daemon)
    one.socket_path = f"{daemon.folder}/s{n}/s"
    return one


def plain(text):
    """What a sandbox sees of an answer, but for what differs between any two."""
    return re.sub(r"x[0-9a-f]{16}", "ID", text.replace(SECRET, "V").replace(WRONG, "V"))


def seen(answer):
    return answer.status, getattr(answer, "reason", ""), [(n, plain(v)) for n, v in answer.fields], plain(answer.text())


def ask(daemon, how, value):
    """One request with the value in it. Returns what is seen of it, and of a request behind it."""
    percent = "".join(f"%{ord(c):02X}" for c in value)
    targets = {"path": f"/{value}/x", "percent": f"/{percent}", "query": f"/?note={value}"}
    fields = {
        "field": [("X-Note", value)], "name": [(f"x-{value}", "1")], "authorization": [("Authorization", "Bearer " + value)],
        "basic": [("X-Note", "Basic " + base64.b64encode(f"u:{value}".encode()).decode())],
        "websocket": [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                      ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("Sec-WebSocket-Protocol", value)],
        "malformed": [("X-Note", value), ("Host", "elsewhere.test")],
    }.get(how, [])  # fmt: skip
    method = value if how == "method" else "GET"
    target = targets.get(how, "/")
    if how == "plain":
        with Wire(daemon.socket_path) as wire:
            return seen(wire.ask("GET", f"http://nobody.test/{value}", host="nobody.test"))
    if how == "connect":
        with Wire(daemon.socket_path) as wire:
            wire.send(f"CONNECT nobody.test:443 HTTP/1.1\r\nHost: nobody.test:443\r\nX-Note: {value}\r\n\r\n".encode())
            return seen(wire.read_head())
    if how == "why":
        with Wire(daemon.socket_path) as wire:
            return seen(wire.ask("GET", f"http://keyhole.internal/why?url=https://nobody.test/{value}", host="keyhole.internal"))
    if how == "h2":
        with h2_tunnel(daemon, "nobody.test") as client:
            return seen(client.ask("GET", "/", [("x-note", value)]))
    with Tunnel(daemon, "nobody.test") as tunnel:
        return seen(tunnel.ask(method, target, fields)), seen(tunnel.ask("GET", "/after"))


WAYS = ["field", "name", "authorization", "basic", "method", "path", "percent", "query", "websocket", "plain", "h2",
        "connect", "why"]  # fmt: skip


@pytest.mark.parametrize("how", WAYS)
def test_a_refusal_does_not_tell_whether_a_value_was_right(many, how):
    sandbox = box(many, WAYS.index(how))
    wrong = ask(sandbox, how, WRONG)
    since = len(many.journal())
    right = ask(sandbox, how, SECRET)
    assert right == wrong
    assert "real credential" not in repr(right)
    if how != "connect":  # whose fields go nowhere
        until("the journal says so", lambda: any(r.get("reason") == "exfiltration" for r in many.journal()[since:]))
        assert SECRET not in json.dumps(many.journal()[since:])


def test_a_refusal_of_the_whole_request_does_not_tell_either(many):
    """One that is refused before any rule is asked."""
    answers = []
    for value in (WRONG, SECRET):
        with Wire(many.folder + "/s20/s") as wire:
            answers.append(seen(wire.ask("GET", f"/{value}", [("X-Note", value)], host="nobody.test")))
    assert answers[0] == answers[1] and answers[0][0] == 400


@pytest.mark.alone
def test_a_refusal_takes_as_long_with_a_right_value_as_with_a_wrong_one(many):
    took = {SECRET: [], WRONG: []}
    with Tunnel(box(many, 21), "nobody.test") as tunnel:
        for n in range(600):
            value = (SECRET, WRONG)[n % 2]
            begin = time.perf_counter()
            tunnel.ask("GET", "/", [("X-Note", value)])
            took[value].append(time.perf_counter() - begin)
    right, wrong = (statistics.median(took[value]) for value in (SECRET, WRONG))
    assert abs(right - wrong) < max(0.25 * wrong, 60e-6), (right, wrong)


def test_a_sandbox_may_show_so_many_real_values_and_then_nothing_of_it_leaves(many, standin):
    one, other = box(many, 22), box(many, 23)
    with Tunnel(one, "nobody.test") as tunnel:
        for _ in range(80):  # what is refused anyway counts for nothing: nobody saw it
            assert "no_rule" in tunnel.ask("GET", "/", [("X-Note", SECRET)]).text()
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        for _ in range(32):
            answer = tunnel.ask("GET", "/test/echo", [("X-Note", SECRET)])
            assert answer.status == 403 and "real credential" in answer.text()
        begin, before = time.monotonic(), standin.mark()
        wrong, right = (seen(tunnel.ask("GET", "/test/echo", [("X-Note", value)])) for value in (WRONG, SECRET))
        if time.monotonic() - begin < 3:
            assert right == wrong and right[0] == 403 and "sandbox_held" in right[3]
            assert not standin.requests(since=before)
        with Tunnel(other, "open.test") as others:
            assert others.ask("GET", "/test/echo").status == 200
        until("something leaves again", lambda: tunnel.ask("GET", "/test/echo").status == 200, 15)


def test_a_value_that_is_easy_to_guess_is_not_looked_for_and_is_named(many):
    """An oracle for 8 digits would give them away in minutes, whatever it is bounded by."""
    with Tunnel(box(many, 24), "open.test") as tunnel:
        for value in (EASY, LOGIN, "Winter2044", base64.b64encode(LOGIN.encode()).decode()):
            assert tunnel.ask("GET", "/test/echo", [("X-Note", value)]).status == 200
    for name in ("easy", "login"):
        assert f"credential {name}: its value is easy to guess" in many.stderr()
    assert "credential main: its value is easy" not in many.stderr()
    done = subprocess.run([KEYHOLE, "check", "-c", many.folder + "/keyhole.yaml"], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    named = re.findall(r"credentials\.([a-z-]+): its value is easy to guess", done.stderr)
    assert sorted(named) == ["easy", "login"], done.stderr


PARTS = {
    "an account's key": KEY, "an account's key id": KEY_ID, "an account's session token": TOKEN,
    "a password": STRONG_LOGIN.partition(":")[2], "a line of a private key": LINES[1],
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_value_is_known_as_the_whole_is(many, standin, name):
    before = standin.mark()
    with Tunnel(box(many, 25), "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("X-Note", "a " + PARTS[name] + " b")])
        assert answer.status == 403 and "real credential" in answer.text()
    assert not standin.requests(since=before)


HMAC_TEXTS = {
    "raw": "".join(f"%{b:02x}" for b in HMAC_KEY), "hex": HMAC_KEY.hex(), "HEX": HMAC_KEY.hex().upper(),
    "base32": base64.b32encode(HMAC_KEY).decode(), "base64": base64.b64encode(b"k" + HMAC_KEY).decode().rstrip("="),
}  # fmt: skip


@pytest.mark.parametrize("how", HMAC_TEXTS)
def test_the_bytes_of_an_hmac_key_are_known_however_they_are_written(many, how):
    with Tunnel(box(many, 26), "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo?x=" + HMAC_TEXTS[how].replace("+", "%2B").replace("/", "%2F"))
        assert answer.status == 403 and "real credential" in answer.text()


ENCODED = {
    "hex": SECRET.encode().hex(), "HEX": SECRET.encode().hex().upper(), "base32": base64.b32encode(b"ab" + SECRET.encode()).decode(),
    "utf-16": "".join(f"%{b:02x}" for b in SECRET.encode("utf-16-le")), "utf-16-be": "".join(f"%{b:02x}" for b in SECRET.encode("utf-16-be")),
    "base64 of utf-16": base64.urlsafe_b64encode(SECRET.encode("utf-16-le")).decode(),
    "json": "".join(f"\\u{ord(c):04x}\\u0000" for c in SECRET),
}  # fmt: skip


@pytest.mark.parametrize("how", ENCODED)
@pytest.mark.parametrize("where", ["field", "query"])
def test_hex_base32_and_utf16_are_looked_into(many, how, where):
    text = ENCODED[how]
    with Tunnel(box(many, 27), "open.test") as tunnel:
        if where == "field":
            answer = tunnel.ask("GET", "/test/echo", [("X-Note", text)])
        else:
            answer = tunnel.ask("GET", "/test/echo?note=" + text.replace("\\", "%5C").replace("=", "%3D"))
        assert answer.status == 403 and "real credential" in answer.text()


# --- in a host ------------------------------------------------------------------------------------

HOSTED = "Tok-9fQ2xZ7Lk0aWm8RtQ3vB"
OTHER = "Tok-9fQ2xZ7Lk0aWm8RtQ3vC"


@pytest.fixture(scope="module")
def hosted(standin):
    """A value that a name can hold, and names of which any goes on."""
    config = base_config(standin)
    config["credentials"]["hosted"] = {"value": {"file": "hosted"}, "bearer": True, "hosts": ["other.test"]}
    config["tenants"]["acme"]["rules"] = [
        {"allow": "https://*.passed.test", "tls": "passthrough"},
        {"allow": "tcp://*.raw.test:443"},
        {"allow": "https://*.open.test"},
        {"allow": "POST https://open.test", "models": ["good"]},
    ]
    with Daemons([standin]) as daemons:
        daemon = daemons(config=config, start=False)
        path = os.path.join(daemon.folder, "hosted")
        with open(path, "w", encoding="ascii") as file:
            file.write(HOSTED)
        os.chmod(path, 0o600)
        daemon.start()
        yield daemon


def spelled(value, how):
    return {"large": value.upper(), "split": f"{value[:9]}.{value[9:]}"}.get(how, value.lower())


def reach(daemon, way, host):
    """What the sandbox sees of it."""
    try:
        if way == "plain":
            with Wire(daemon.socket_path) as wire:
                return seen(wire.ask("GET", f"http://{host}/", host=host))
        if way == "base url":
            return seen(origin_form(daemon, f"/to/{host}/x"))
        if way == "connect":
            with Wire(daemon.socket_path) as wire:
                wire.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
                head = wire.read_head()
                if head.status != 200:
                    return seen(head)
                wire.send(hello_bytes(host))
                return head.status, wire.take(7)
        if way == "mismatch":
            with Wire(daemon.socket_path) as wire:
                wire.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n".encode())
                return seen(wire.read_head())
        if way == "socks":
            with Socks(daemon, host) as wire:
                wire.send(hello_bytes(host))
                return wire.take(7)
        if way == "sni":
            with Wire(daemon.socket_path) as wire:
                wire.send(hello_bytes(host))
                return wire.take(7)
        if way == "stream":
            with h2_plain(daemon) as client:
                wire = StreamWire(client, host + ":443").accept()
                wire.send(hello_bytes(host))
                return wire.take(7)
        with (Direct if way == "inside, sni" else Tunnel)(daemon, host) as tunnel:
            return seen(tunnel.ask("GET", "/"))
    except (SocksRefused, OSError, AssertionError) as why:
        return type(why).__name__


WAYS_OF_HOSTS = [("plain", "nobody.test"), ("base url", "nobody.test"), ("connect", "nobody.test"), ("socks", "nobody.test"),
                 ("mismatch", "nobody.test"), ("sni", "nobody.test"), ("connect", "passed.test"), ("socks", "passed.test"),
                 ("sni", "passed.test"), ("stream", "passed.test"), ("connect", "raw.test"), ("socks", "raw.test"),
                 ("inside", "open.test"), ("inside, sni", "open.test")]  # fmt: skip


@pytest.mark.parametrize("how", ["small", "large", "split"])
@pytest.mark.parametrize("way, parent", WAYS_OF_HOSTS)
def test_a_value_in_a_host_goes_nowhere_and_is_in_no_record(hosted, way, parent, how):
    if way == "sni" and how == "large":
        how = "small"
    before = len(hosted.journal())
    answer = reach(hosted, way, spelled(HOSTED, how) + "." + parent)
    records = until("it is in the journal", lambda: hosted.journal()[before:])
    assert [r["event"] for r in records] == ["deny"], records
    assert records[0]["reason"] == "exfiltration", records
    text = json.dumps(hosted.journal()) + hosted.stderr()
    for held in (HOSTED, spelled(HOSTED, "split")):
        assert held.lower() not in text.lower()
    if parent == "nobody.test":  # refused anyway: it tells nothing
        other = reach(hosted, way, spelled(OTHER, how) + "." + parent)
        until("its record too", lambda: len(hosted.journal()) == before + 2)
        shown = [re.sub(f"(?i){spelled(v, how)}", "V", repr(a)) for v, a in ((HOSTED, answer), (OTHER, other))]
        assert shown[0] == shown[1]


def test_a_value_in_a_model_is_in_no_record(hosted):
    for value, shown in ((OTHER, OTHER), (HOSTED, "(hidden)")):
        body = json.dumps({"model": value}).encode()
        before = len(hosted.journal())
        with Tunnel(hosted, "open.test") as tunnel:
            assert tunnel.ask("POST", "/test/echo", [("Content-Type", "application/json")], body).status == 403
        record = until("it is in the journal", lambda since=before: hosted.journal()[since:])[0]
        assert record["gen_ai.request.model"] == shown, record
