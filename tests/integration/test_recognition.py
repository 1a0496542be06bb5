"""A sandbox learns nothing by trying values: a refusal is the same whether one was right or not."""

import base64
import copy
import hashlib
import json
import os
import re
import secrets
import signal
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
def many(mock):
    """A daemon with credentials of many kinds, and a sandbox for each few tests."""
    config = base_config(mock)
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
    with Daemons([mock]) as daemons:
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


@pytest.mark.alone
def test_a_refusal_takes_as_long_with_many_that_nearly_are_the_value(many):
    """Who saw by time which of his texts agree with a fingerprint in its first bytes could read it bit by bit."""
    near = [SECRET[:-1] + ("A" if SECRET[-1] != "A" else "B"), ("A" if SECRET[0] != "A" else "B") + SECRET[1:]]
    far = [text[:20] + text[20:-2][::-1] + text[-2:] for text in near]
    texts = {"none": far * 30, "one": far * 29 + [near[0], far[1]], "many": near * 30}
    took = {how: [] for how in texts}
    with Tunnel(box(many, 28), "nobody.test") as tunnel:
        for n in range(600):
            how = list(texts)[n % 3]
            begin = time.perf_counter()
            assert tunnel.ask("GET", "/", [("X-Note", " ".join(texts[how]) + "%25252525")]).status == 403
            took[how].append(time.perf_counter() - begin)
    medians = {how: statistics.median(times) for how, times in took.items()}
    assert max(medians.values()) - min(medians.values()) < max(0.1 * medians["none"], 60e-6), medians


def test_a_sandbox_may_show_so_many_real_values_and_then_nothing_of_it_leaves(many, mock):
    one, other = box(many, 22), box(many, 23)
    with Tunnel(one, "nobody.test") as tunnel:
        for _ in range(80):  # what is refused anyway counts for nothing: nobody saw it
            assert "no_rule" in tunnel.ask("GET", "/", [("X-Note", SECRET)]).text()
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        for _ in range(32):
            answer = tunnel.ask("GET", "/test/echo", [("X-Note", SECRET)])
            assert answer.status == 403 and "real credential" in answer.text()
        begin, before = time.monotonic(), mock.mark()
        wrong, right = (seen(tunnel.ask("GET", "/test/echo", [("X-Note", value)])) for value in (WRONG, SECRET))
        if time.monotonic() - begin < 3:
            assert right == wrong and right[0] == 403 and "sandbox_held" in right[3]
            assert not mock.requests(since=before)
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
def test_a_part_of_a_value_is_known_as_the_whole_is(many, mock, name):
    before = mock.mark()
    with Tunnel(box(many, 25), "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("X-Note", "a " + PARTS[name] + " b")])
        assert answer.status == 403 and "real credential" in answer.text()
    assert not mock.requests(since=before)


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
# Easy to guess in lower case, and not as it is: a host in lower case is not searched for it.
MIXED = "aAbBaAbBcCdDaAbB"


@pytest.fixture(scope="module")
def hosted(mock):
    """A value that a name can hold, and names of which any goes on."""
    config = base_config(mock)
    values = {"hosted": HOSTED, "mixed": MIXED}
    for name in values:
        config["credentials"][name] = {"value": {"file": name}, "bearer": True, "hosts": ["other.test"]}
    config["tenants"]["acme"]["rules"] = [
        {"allow": "https://*.passed.test", "tls": "passthrough"},
        {"allow": "tcp://*.raw.test:443"},
        {"allow": "https://*.open.test"},
        {"allow": "POST https://open.test", "models": ["good"]},
    ]
    with Daemons([mock]) as daemons:
        daemon = daemons(config=config, start=False)
        for name, value in values.items():
            path = os.path.join(daemon.folder, name)
            with open(path, "w", encoding="ascii") as file:
                file.write(value)
            os.chmod(path, 0o600)
        daemon.start()
        yield daemon


def spelled(value, how):
    if how == "base64":
        return base64.urlsafe_b64encode(value.encode()).decode().rstrip("=")
    if how == "base64 split":
        encoded = spelled(value, "base64")
        return f"{encoded[:13]}.{encoded[13:]}".lower()
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


@pytest.mark.parametrize("how", ["small", "large", "split", "base64", "base64 split"])
@pytest.mark.parametrize("way, parent", WAYS_OF_HOSTS)
def test_a_value_in_a_host_goes_nowhere_and_is_in_no_record(hosted, way, parent, how):
    if way == "sni" and how == "large":
        how = "small"
    sent = spelled(HOSTED, how)
    before = len(hosted.journal())
    answer = reach(hosted, way, sent + "." + parent)
    records = until("it is in the journal", lambda: hosted.journal()[before:])
    assert [r["event"] for r in records] == ["deny"], records
    assert records[0]["reason"] == "exfiltration", records
    text = json.dumps(hosted.journal()) + hosted.stderr()
    for held in (HOSTED, spelled(HOSTED, "split"), sent):
        assert held.lower() not in text.lower()
    if parent == "nobody.test":  # refused anyway: it tells nothing
        other = reach(hosted, way, spelled(OTHER, how) + "." + parent)
        until("its record too", lambda: len(hosted.journal()) == before + 2)
        shown = [re.sub(f"(?i){spelled(v, how)}", "V", repr(a)) for v, a in ((HOSTED, answer), (OTHER, other))]
        assert shown[0] == shown[1]


@pytest.mark.parametrize("way, parent", [("plain", "nobody.test"), ("base url", "nobody.test"), ("inside", "open.test")])
def test_a_host_is_hidden_where_only_what_it_was_made_of_holds_a_value(hosted, way, parent):
    before = len(hosted.journal())
    reach(hosted, way, f"{MIXED}.{parent}")
    record = until("it is in the journal", lambda: hosted.journal()[before:])[0]
    assert (record["event"], record["reason"], record["server.address"]) == ("deny", "exfiltration", "(hidden)"), record
    assert MIXED.lower() not in (json.dumps(hosted.journal()[before:]) + hosted.stderr()).lower()


def test_a_value_in_a_path_does_not_hide_the_host(hosted):
    before = len(hosted.journal())
    for way in ("plain", "base url"):
        with Wire(hosted.socket_path) as wire:
            target = f"http://nobody.test/{HOSTED}" if way == "plain" else f"/to/nobody.test/{HOSTED}"
            wire.ask("GET", target, host="nobody.test" if way == "plain" else "keyhole.internal")
    records = until("they are in the journal", lambda: len(hosted.journal()) == before + 2 and hosted.journal()[before:])
    for record in records:
        assert (record["server.address"], record["url.path"]) == ("nobody.test", "/(hidden)"), record


def test_a_value_in_a_model_is_in_no_record(hosted):
    for value, shown in ((OTHER, OTHER), (HOSTED, "(hidden)")):
        body = json.dumps({"model": value}).encode()
        before = len(hosted.journal())
        with Tunnel(hosted, "open.test") as tunnel:
            assert tunnel.ask("POST", "/test/echo", [("Content-Type", "application/json")], body).status == 403
        record = until("it is in the journal", lambda since=before: hosted.journal()[since:])[0]
        assert record["gen_ai.request.model"] == shown, record


# --- what else keyhole keeps ----------------------------------------------------------------------

KEPT = {name: secrets.token_urlsafe(30) for name in ("printed", "vault", "client", "grant", "today", "first", "second", "third")}


@pytest.fixture
def keeping(mock, tmp_path):
    """A daemon with one secret of each kind."""

    def put(name, value):
        (tmp_path / name).write_text(value)
        os.chmod(tmp_path / name, 0o600)
        return {"file": str(tmp_path / name)}

    config = base_config(mock)
    put("state", state_of(KEPT["today"]))
    hosts = ["other.test"]
    config["credentials"].update({
        "command": {"value": {"exec": ["printf", "%s", KEPT["printed"]], "environment": ["VAULT_TOKEN"]}, "bearer": True, "hosts": hosts},
        "rotated": {"value": put("rotated", KEPT["first"]), "bearer": True, "hosts": hosts},
        "granted": {"value": put("granted", KEPT["grant"]), "hosts": hosts,
                    "oauth2": {"grant": "refresh_token", "token_url": "https://login.test/token", "client_id": "c",
                               "client_secret": put("client", KEPT["client"]), "state": str(tmp_path / "state")}},
    })  # fmt: skip
    with Daemons([mock]) as daemons:
        daemon = daemons(config=config, env={"VAULT_TOKEN": KEPT["vault"]})
        daemon.put = put
        yield daemon


def state_of(refresh_token):
    return f"{hashlib.sha256(KEPT['grant'].encode()).hexdigest()}\n{refresh_token}\n"


def leaves(daemon, value):
    with Tunnel(daemon, "open.test") as tunnel:
        return tunnel.ask("GET", "/test/echo", [("X-Note", value)]).status == 200


def rotate(daemon, value):
    had = daemon.stderr().count("rotated has another value now")
    daemon.put("rotated", value)
    until("it is read", lambda: daemon.stderr().count("rotated has another value now") > had)
    until("the worker knows it", lambda: not leaves(daemon, value))


@pytest.mark.parametrize("name", ["printed", "vault", "client", "grant", "today", "first"])
def test_every_kind_of_secret_that_is_kept_is_known(keeping, name):
    until("the command has run", lambda: not leaves(keeping, KEPT["printed"]))
    assert not leaves(keeping, KEPT[name])
    assert leaves(keeping, KEPT["second"])  # nobody's


def test_a_refresh_token_that_replaced_another_is_known_and_so_is_that(keeping):
    assert not leaves(keeping, KEPT["today"])
    keeping.put("state", state_of(KEPT["third"]))
    rotate(keeping, KEPT["second"])  # the state is read whenever a value has changed
    assert not leaves(keeping, KEPT["third"])
    assert not leaves(keeping, KEPT["today"])


def test_a_former_value_is_known_also_after_a_reload_without_its_credential(keeping):
    rotate(keeping, KEPT["second"])
    assert not leaves(keeping, KEPT["first"])
    config = copy.deepcopy(keeping.config)
    del config["credentials"]["rotated"]
    keeping.write(config)
    keeping.process.send_signal(signal.SIGHUP)
    until("it is in force", lambda: "the new configuration is in force" in keeping.stderr())
    for name in ("first", "second", "today", "vault", "client"):
        assert not leaves(keeping, KEPT[name]), name
    assert leaves(keeping, KEPT["third"])


def test_lines_of_one_tenants_keys_push_out_no_value_of_another(mock, tmp_path):
    """Its four files stand before the other's value, and hold as many lines as a value may have bytes for."""
    config = base_config(mock)
    files = {f"key{n}": tmp_path / f"key{n}" for n in range(4)}
    for path in files.values():
        lines = "".join("\\n" + base64.b64encode(os.urandom(24)).decode() for _ in range(1900))
        path.write_text("-----BEGIN PRIVATE KEY-----" + lines)
        path.chmod(0o600)
    keys = {name: {"value": {"file": str(path)}, "bearer": True, "hosts": ["other.test"]} for name, path in files.items()}
    config["credentials"] = {**keys, **config["credentials"]}
    pem = tmp_path / "pem"
    pem.write_text(PEM.replace("\n", "\\n"))
    pem.chmod(0o600)
    config["credentials"]["pem"] = {"value": {"file": str(pem)}, "bearer": True, "hosts": ["other.test"]}
    with Daemons([mock]) as daemons:
        daemon = daemons(config=config)
        assert not leaves(daemon, SECRET)
        assert not leaves(daemon, LINES[1]), "a line of a key that comes after them"
        assert leaves(daemon, WRONG)
