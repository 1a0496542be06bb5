"""test_events.py - `keyhole ctl events` and /v1/events: each decision as it falls, to those who may see it."""

import contextlib
import json
import os
import select
import socket
import subprocess
import time
from types import SimpleNamespace

from admin_client import AS_ROOT, GRANTED, STRANGER, TWO_TENANTS, admin, ask, ask_as, connect, ctl, serves
import pytest
from harness import KEYHOLE, ROOT, SECRET, Tunnel, until


def socket_of(one):
    return os.path.join(one.folder, "adm", "s")


class Watch:
    """`keyhole ctl events`, and the lines that it has said."""

    def __init__(self, one, *args, user=None):
        extra = {} if user is None else {"user": user, "group": user, "extra_groups": [], "cwd": "/"}
        self.process = subprocess.Popen(
            [KEYHOLE, "ctl", "--socket", socket_of(one), "events", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **extra,
        )  # fmt: skip
        self.text = b""
        self.one = one

    def read(self, seconds=0.0):
        while select.select([self.process.stdout], [], [], seconds)[0]:
            piece = os.read(self.process.stdout.fileno(), 65536)
            if not piece:
                break
            self.text += piece
        return self.text.decode()

    def lines(self):
        return self.read().splitlines()

    def until(self, what, found):
        return until(what, lambda: found(self.read()) and self.text.decode())

    def ready(self, ask_something):
        """It watches when something that was asked has been shown."""
        for _ in range(100):
            ask_something()
            if len(self.read(0.1).splitlines()) > (0 if b"TIME" not in self.text else 1):
                return self
        raise AssertionError("nothing was shown: " + self.end())

    def end(self):
        self.process.terminate()
        out, err = self.process.communicate(timeout=20)
        self.text += out
        return err.decode()


@pytest.fixture(name="watch")
def watches():
    started = []

    def start(*args, **more):
        started.append(Watch(*args, **more))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.end()
        one.process.stdout.close()
        one.process.stderr.close()


def refused(one, path="/admin/keys?token=abc"):
    with Tunnel(one, "open.test") as tunnel:
        return tunnel.ask("GET", path).status


def by(one, listener, path="/test/echo"):
    """Out of the sandbox of that listener."""
    sandbox = SimpleNamespace(socket_path=os.path.join(one.folder, listener), ca=one.ca)
    with Tunnel(sandbox, "open.test") as tunnel:
        return tunnel.ask("GET", path).status


RULES = {"tenants": {"acme": {"rules": [{"deny": "* https://open.test/admin/**"}, {"allow": "https://open.test"}]}}}


def test_each_decision_is_a_line_for_people(daemon, watch):
    one = daemon({**admin(), **RULES})
    seen = watch(one).ready(lambda: serves(one))
    assert seen.lines()[0].split() == ["TIME", "DECISION", "TENANT", "SANDBOX", "METHOD", "URL"]
    assert refused(one) == 403
    text = seen.until("the refusal is shown", lambda t: "DENY" in t)
    allowed = [line for line in text.splitlines() if "allow" in line]
    assert allowed and all("https://open.test/test/echo" in line and "acme" in line for line in allowed)
    denied = next(line for line in text.splitlines() if "DENY" in line)
    assert "https://open.test/admin/keys?token" in denied and "denied_by_rule" in denied
    assert "abc" not in text, "no value of a query"


def test_each_decision_is_an_object_of_the_journals_words(daemon, watch):
    one = daemon({**admin(), **RULES})
    seen = watch(one, "--json").ready(lambda: serves(one))
    assert refused(one) == 403
    seen.until("the refusal is shown", lambda t: '"deny"' in t)
    shown = [json.loads(line) for line in seen.lines()]
    assert {event["event"] for event in shown} == {"open", "deny"}
    with open(one.journal_path, encoding="utf-8") as file:
        journal = {(r["event"], r.get("id")): r for r in map(json.loads, file)}
    for event in shown:
        record = journal[event["event"], event["id"]]
        assert event == {k: v for k, v in record.items() if k not in ("seq", "prev", "hash")}


def test_no_secret_and_nothing_that_moves_a_terminal_is_shown(daemon, watch):
    one = daemon({**admin(), **RULES})
    plain, objects = watch(one), watch(one, "--json")
    plain.ready(lambda: serves(one))
    objects.ready(lambda: serves(one))
    with Tunnel(one, "open.test") as tunnel:
        tunnel.ask("GET", "/admin/%1b[31m\x7f?" + SECRET + "&q=" + SECRET)
    with Tunnel(one, "open.test") as tunnel:
        tunnel.ask("GET", "/admin/%1b%5b31m?key=" + SECRET)
    for seen in (plain, objects):
        text = seen.until("both are shown", lambda t: t.lower().count("deny") + t.count("malformed") >= 2)
        assert SECRET not in text
        assert not any(ord(c) < 32 and c != "\n" or ord(c) == 127 for c in text)


def test_a_refusal_behind_its_open_record_is_shown_as_one(daemon, fake_dns, watch):
    """An address is judged when the name has been resolved: the request was open already."""
    fake_dns.names["inside.test"] = ["10.0.0.1"]
    one = daemon({**admin(), "upstream": {"nameservers": [fake_dns.address], "resolve": None}},
                 rules=[{"allow": "https://inside.test"}])  # fmt: skip

    def try_inside():
        with Tunnel(one, "inside.test") as tunnel:
            return tunnel.ask("GET", "/").status

    seen = watch(one, "--json", "--denied").ready(try_inside)
    assert try_inside() == 403
    events = [json.loads(line) for line in seen.lines()]
    assert {e["event"] for e in events} == {"deny"}
    assert events[0]["reason"] == "address_prohibited" and events[0]["tenant"] == "acme"


def test_filters_leave_out_what_was_not_asked_for(daemon, watch):
    one = daemon({**admin(), **TWO_TENANTS})
    one.checked = False

    def both():
        for listener in ("d/s", "e/s"):
            by(one, listener)
            by(one, listener, "/a/../b")

    watching = {args: watch(one, "--json", *args) for args in
                ((), ("--tenant", "dev"), ("--sandbox", "dev-1"), ("--denied",), ("--tenant", "acme", "--denied"))}  # fmt: skip
    for seen in watching.values():
        seen.ready(both)
    both()
    watching[()].until("both are shown", lambda t: '"dev"' in t and '"acme"' in t and '"deny"' in t)
    time.sleep(0.2)
    found = {args: [json.loads(line) for line in seen.lines()] for args, seen in watching.items()}
    assert {e["tenant"] for e in found["--tenant", "dev"]} == {"dev"}
    assert {e["sandbox"] for e in found["--sandbox", "dev-1"]} == {"dev-1"}
    assert {e["event"] for e in found[("--denied",)]} == {"deny"}
    assert {e["tenant"] for e in found[("--denied",)]} == {"acme", "dev"}
    last = found["--tenant", "acme", "--denied"]
    assert {(e["tenant"], e["event"]) for e in last} == {("acme", "deny")}


@AS_ROOT
def test_a_user_sees_the_decisions_of_his_tenants_alone(daemon, watch):
    one = daemon({**admin(allow=[{"user": GRANTED, "tenants": ["dev"]}]), **TWO_TENANTS})
    os.chmod(one.folder, 0o755)

    def both():
        for listener in ("d/s", "e/s"):
            by(one, listener)

    everything = watch(one, "--json")
    seen = watch(one, "--json", user=GRANTED).ready(both)
    both()
    everything.until("root sees both", lambda t: '"acme"' in t and '"dev"' in t)
    time.sleep(0.2)
    assert "acme" not in seen.read() and seen.lines()
    assert ask_as(one, GRANTED, "/v1/events?tenant=acme")[0] == 404
    hidden, missing = (ask_as(one, GRANTED, f"/v1/events?tenant={name}")[1] for name in ("acme", "nobody"))
    assert hidden == missing, "one that is hidden and one that is not there are the same"
    assert ask_as(one, STRANGER, "/v1/events")[0] == 403
    # What he may see is asked anew after a reload.
    one.config["admin"]["allow"] = [{"user": STRANGER, "tenants": ["dev"]}]
    one.write(one.config)
    ctl(one, "reload")
    before = len(seen.lines())
    both()
    everything.until("root sees more", lambda t: t.count('"dev"') > before)
    time.sleep(0.2)
    assert len(seen.lines()) == before


def test_what_is_asked_wrongly_is_said(daemon):
    one = daemon(admin())
    for query in ("tenant", "tenant=", "x=y", "denied=yes", "tenant=%zz", "tenant=a%00", "tenant=acme&tenant=acme", "%"):
        answer, content = ask(one, "/v1/events?" + query)
        assert (answer, b"tenant=NAME" in content) == (400, True), query
    assert ask(one, "/v1/events", "POST")[0] == 405
    assert "no tenant of that name" in ctl(one, "events", "--tenant", "nobody", expected=1).stderr
    done = subprocess.run([KEYHOLE, "ctl", "status", "--denied"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and "takes no --denied" in done.stderr


def begin(one, rcvbuf=None):
    sock = connect(one)
    if rcvbuf:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    sock.sendall(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n")
    head = b""
    while b"\r\n\r\n" not in head:
        piece = sock.recv(1)
        if not piece:
            break
        head += piece
    return sock, head


def test_so_many_may_watch_and_no_more(daemon):
    one = daemon(admin())
    held = [begin(one) for _ in range(8)]
    assert all(b" 200 " in head and b"chunked" in head for _, head in held)
    assert ask(one, "/v1/events")[0] == 503
    assert ask(one, "/healthz")[0] == 200
    held.pop()[0].close()

    def takes_one_more():
        sock, head = begin(one)
        held.append((sock, head))
        return b" 200 " in head

    until("a place is free again", takes_one_more)
    for sock, _ in held:
        sock.close()
    assert serves(one)


def test_a_reader_that_does_not_read_costs_so_much_and_is_told_what_it_missed(daemon):
    """Refusals until its place is full, with nobody waiting for it; then it reads, and is told."""
    one = daemon({**admin(), **RULES})
    sock, _ = begin(one, rcvbuf=4096)
    path = "/admin/" + "x" * 900
    n = 3000
    with Tunnel(one, "open.test") as tunnel:
        slowest = 0.0
        for _ in range(n):
            began = time.monotonic()
            assert tunnel.ask("GET", path).status == 403
            slowest = max(slowest, time.monotonic() - began)
    assert slowest < 5, "nobody waited for the reader"
    sock.settimeout(5)
    text = b""
    shown = lost = 0
    while shown + lost < n:
        piece = sock.recv(65536)
        assert piece, "it was let go"
        text += piece
        lines = text.split(b"\n")
        text = lines.pop()
        for line in lines:
            line = line.strip()
            if not line.startswith(b"{"):
                continue  # the length of a chunk
            event = json.loads(line)
            if event["event"] == "lost":
                lost += event["count"]
            else:
                shown += 1
    assert (shown + lost, lost > 0, shown > 500) == (n, True, True)
    sock.close()


def test_a_reader_that_says_something_or_goes_away_leaves_nothing(daemon):
    one = daemon(admin())
    for last in (b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"):
        sock, _ = begin(one)
        with contextlib.suppress(OSError):
            sock.sendall(last) if last else sock.shutdown(socket.SHUT_WR)
        sock.settimeout(10)
        with contextlib.suppress(ConnectionResetError):
            while sock.recv(65536):
                pass
        sock.close()
    assert serves(one)


def test_what_is_watched_goes_on_with_the_next_worker(daemon, watch):
    one = daemon(admin())
    seen = watch(one, "--json").ready(lambda: serves(one))
    pid = one.worker_pid()
    os.kill(pid, 9)
    until("a new worker", lambda: one.worker_pid() not in (None, pid))
    before = len(seen.lines())

    def more():
        serves(one)
        return len(seen.lines()) > before

    until("the new one's decisions are shown", more)
    one.baseline = one.descriptors()


def test_when_the_daemon_has_ended_so_does_it(daemon, watch):
    one = daemon(admin())
    one.checked = False
    seen = watch(one, "--json").ready(lambda: serves(one))
    ctl(one, "drain")
    assert one.process.wait(20) == 0
    assert seen.process.wait(20) == 1
    assert b"the daemon has ended" in seen.process.stderr.read()


def test_the_description_of_the_api_holds_for_each_line(daemon, watch):
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(ROOT, "docs", "admin.openapi.yaml"), encoding="utf-8") as file:
        components = yaml.safe_load(file)["components"]
    schema = {"components": components, **components["schemas"]["event"]}
    one = daemon({**admin(), **RULES})
    seen = watch(one, "--json").ready(lambda: serves(one))
    assert refused(one) == 403
    seen.until("the refusal is shown", lambda t: '"deny"' in t)
    for line in [*seen.lines(), '{"event":"lost","count":12}', '{"event":"lost","count":null}']:
        jsonschema.validate(json.loads(line), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"event": "lost"}, schema)
