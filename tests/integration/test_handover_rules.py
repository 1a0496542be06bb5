"""test_handover_rules.py - whose rules hold after a handover: never those of the process before, once others are in force"""

import contextlib
import json
import os
import signal

import pytest
from clients import Closed, Tunnel
from common import has_ended, until
from h2client import Goaway, Reset, StreamWire, h2_plain, h2_tunnel
from handover import stream
from wspeer import TEXT, Origin, WsClient

ENDED = (OSError, Closed, Goaway, Reset, EOFError, ValueError)


@pytest.fixture
def sockets(tmp_path):
    one = Origin(str(tmp_path), ["ws.test"])
    yield one
    one.stop()


def with_sockets(mock, sockets, folder):
    """Beside the mock there is an origin of WebSockets."""
    bundle = os.path.join(folder, "both.pem")
    with open(bundle, "w", encoding="ascii") as out:
        for path in (mock.ca, sockets.ca):
            with open(path, encoding="ascii") as file:
                out.write(file.read())
    return {
        "upstream": {"ca_file": bundle, "resolve": {"ws.test": sockets.address}},
        "tenants": {"acme": {"rules": [
            {"allow": "https://api.test", "credential": "main"},
            {"allow": "https://ws.test", "credential": "main", "websocket": True},
            {"allow": "https://open.test", "models": ["mini"]},
        ]}},
        "credentials": {"main": {"hosts": ["api.test", "ws.test"]}},
    }  # fmt: skip


def deny(one):
    config = json.loads(json.dumps(one.config))
    config["tenants"]["acme"]["rules"] = [{"deny": "https://**"}]
    one.write(config)


def reload(one):
    since = one.mark()
    one.process.send_signal(signal.SIGHUP)
    one.said("new configuration is in force", since)


class Kept:
    """What a sandbox can have in the old process, to go on with when other rules are in force."""

    def __init__(self, one, origin):
        self.origin = origin
        self.h2 = h2_tunnel(one, "api.test")
        self.h2.start("GET", "/test/hold")
        self.outer = h2_plain(one)
        self.inner = StreamWire(self.outer, "api.test:443").accept().start_tls(one, "api.test")
        assert self.inner.ask("GET", "/test/echo").status == 200
        self.h1 = Tunnel(one, "api.test")
        assert self.h1.ask("GET", "/test/echo").status == 200
        self.half = Tunnel(one, "api.test")
        self.half.send("GET /test/echo HTTP/1.1\r\nHost: api.test\r\n")
        self.held = Tunnel(one, "open.test")
        self.held.send("POST /test/echo HTTP/1.1\r\nHost: open.test\r\nContent-Type: application/json\r\n"
                       'Content-Length: 16\r\n\r\n{"model"')  # fmt: skip
        self.upload = Tunnel(one, "api.test")
        self.upload.send("POST /test/echo HTTP/1.1\r\nHost: api.test\r\nContent-Length: 200000\r\n\r\n" + "x" * 199000)
        if origin:
            self.ws = WsClient(one, "ws.test")
            self.ws.open()
            self.ws.put(TEXT, "before")
            assert self.ws.message() == (TEXT, b"before")

    def go_on(self):
        """Each tries, as a client that minds nothing that it is told. Return: who got an answer."""
        served = []
        for name, ask in {
            "a request over HTTP/2": lambda: self.h2.ask("GET", "/test/echo").status == 200,
            "a request over HTTP/1": lambda: self.h1.ask("GET", "/test/echo").status == 200,
            "a request in a tunnel of HTTP/2": lambda: self.inner.ask("GET", "/test/echo").status == 200,
            "a new tunnel of HTTP/2": lambda: StreamWire(self.outer, "open.test:443").accept(),
            "the rest of a head": lambda: self.finish(self.half, "\r\n"),
            "the rest of what is held": lambda: self.finish(self.held, ':"mini"}'),
            "the rest of content": lambda: self.finish(self.upload, "x" * 1000),
            "a message of a WebSocket": self.says,
        }.items():
            with contextlib.suppress(*ENDED):
                if ask():
                    served.append(name)
        return served

    @staticmethod
    def finish(tunnel, rest):
        with contextlib.suppress(OSError):
            tunnel.send(rest)
        return tunnel.response().status == 200

    def says(self):
        if not self.origin:
            return False
        with contextlib.suppress(OSError):
            self.ws.put(TEXT, "after")
        while True:
            opcode, payload = self.ws.message()
            if payload == b"after":
                return True

    def close(self):
        for each in (self.h2.wire, self.outer.wire, self.h1, self.half, self.held, self.upload):
            each.close()
        if self.origin:
            self.ws.close()


@contextlib.contextmanager
def kept(one, origin=None):
    what = Kept(one, origin)
    try:
        yield what
    finally:
        what.close()


def test_a_reload_is_in_force_when_the_process_before_has_ended_what_it_had(upgradable, mock, sockets, tmp_path):
    """Whatever a sandbox has kept there, nothing of it goes up by rules that hold no more."""
    one = upgradable(with_sockets(mock, sockets, str(tmp_path)))
    worker = one.worker_pid()
    with kept(one, sockets) as what:
        until("the upload is upstream", lambda: len(one.opened_and_ended()[0]) >= 5)
        old = one.hand_over()
        assert old.poll() is None
        deny(one)
        reload(one)
        assert has_ended(worker), "its worker lives, and a reload is said to be in force"
        mark = mock.mark()
        assert what.go_on() == []
        assert not mock.requests(since=mark)
    one.last_ended()
    one.check_ends()
    ends = [r for r in one.all_records() if r["event"] == "close" and r.get("reason") == "draining"]
    assert any("its rules apply now" in json.dumps(r) for r in ends), ends


def test_a_handover_to_other_rules_ends_what_the_process_before_has(upgradable, mock):
    one = upgradable()
    worker = one.worker_pid()
    with kept(one) as what:
        deny(one)
        one.hand_over()
        until("its worker has ended", lambda: has_ended(worker), 3)
        mark = mock.mark()
        assert what.go_on() == []
        assert not mock.requests(since=mark)
    one.last_ended()


def test_a_process_before_that_does_not_answer_is_killed_for_a_reload(upgradable, mock):
    """Under the same rules it goes on with what it has; under others it must not, whatever has become of it."""
    one = upgradable()
    worker = one.worker_pid()
    tunnel, head = stream(one, 400, 50)
    with tunnel:
        old = one.hand_over()
        assert next(iter(tunnel.pieces(head))), "unchanged rules: it goes on"
        old.send_signal(signal.SIGSTOP)
        deny(one)
        reload(one)
        assert has_ended(worker)
        assert old.wait(3) == -signal.SIGKILL
    until("the segments are joined", lambda: one.segments()[-1][1].count("joined"))
