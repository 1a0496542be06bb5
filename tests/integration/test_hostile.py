"""Upstreams and sandboxes that mean harm: what they may do to themselves they must not do to others."""

import contextlib
import os
import signal
import socket
import ssl
import struct
import threading
import time

import pytest
from common import shut
from fakedns import SILENCE
from harness import Tunnel, Wire, client_context, until


class Origin:
    """An upstream without TLS that does what a test tells it, one function a connection."""

    def __init__(self, *turns):
        self.turns = list(turns)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.seen, self.taken = [], []
        threading.Thread(target=self.run, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def run(self):
        for turn in self.turns:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.taken.append(sock)
            threading.Thread(target=self.serve, args=(turn, sock), daemon=True).start()

    def serve(self, turn, sock):
        with contextlib.suppress(OSError), sock:
            turn(self, sock)

    def head(self, sock):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                return data
            data += piece
        self.seen.append(data)
        return data

    def close(self):
        shut(self.listener)
        for sock in self.taken:  # one that is kept idle would be a descriptor of the daemon's
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def origin(daemon):
    """origin(turn, …): the daemon in front of such an upstream, and the upstream."""
    origins = []

    def make(*turns, **overrides):
        one = Origin(*turns)
        origins.append(one)
        rules = overrides.pop("rules", [{"allow": "http://raw.test"}, {"allow": "https://open.test"}])
        config = {"upstream": {"resolve": {"raw.test": one.address}}, **overrides}
        return daemon(config, rules=rules), one

    yield make
    for one in origins:
        one.close()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- readers that take their time -----------------------------------------------------------------


def test_who_reads_slowly_gets_the_whole_of_a_last_answer(shared):
    with Tunnel(shared, "open.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=240000", [("Connection", "close")])
        time.sleep(4)
        assert len(tunnel.response().body) == 240000


def test_who_reads_slowly_gets_the_whole_of_an_answer_that_the_end_delimits(shared):
    with Tunnel(shared, "open.test") as tunnel:
        tunnel.send("GET /test/bytes?n=240000&chunked=1 HTTP/1.0\r\nHost: open.test\r\n\r\n")
        time.sleep(4)
        assert len(tunnel.rest().split(b"\r\n\r\n", 1)[1]) == 240000


def test_an_answer_that_the_end_delimits_and_nobody_reads_does_not_look_whole(daemon):
    slow = daemon({"timeouts": {"stall": "1s"}})
    context = client_context(slow.ca)
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)  # Python's default since 3.10
    with Tunnel(slow, "open.test", context=context) as tunnel:
        tunnel.send("GET /test/bytes?n=240000&chunked=1 HTTP/1.0\r\nHost: open.test\r\n\r\n")
        time.sleep(4)
        with pytest.raises(ssl.SSLError):
            while tunnel.sock.recv(65536):
                pass


def test_a_half_close_while_an_answer_is_read_slowly_does_not_cut_it(origin):
    def turn(_, sock):
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 240000\r\n\r\n" + b"x" * 240000)
        sock.recv(1)

    daemon, _ = origin(turn)
    with Wire(daemon.socket_path) as wire:
        wire.send("GET http://raw.test/ HTTP/1.1\r\nHost: raw.test\r\n\r\n")
        time.sleep(0.5)
        wire.shutdown()
        time.sleep(0.3)
        assert len(wire.response().body) == 240000


# --- upstreams ------------------------------------------------------------------------------------


def test_an_upstream_that_resets_behind_a_full_reader_makes_nobody_spin(origin):
    def turn(self, sock):
        self.head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                sock.sendall(b"x" * 65536)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    daemon, _ = origin(turn)
    with Wire(daemon.socket_path) as wire:
        wire.send("POST http://raw.test/ HTTP/1.1\r\nHost: raw.test\r\n"
                  "Content-Length: 100000000\r\n\r\n")  # fmt: skip
        wire.sock.settimeout(1)
        with contextlib.suppress(TimeoutError):
            while True:
                wire.sock.sendall(b"y" * 65536)
        time.sleep(4)
        before = cpu_seconds(daemon.worker_pid())
        time.sleep(1)
        assert cpu_seconds(daemon.worker_pid()) - before < 0.1


def test_a_request_that_is_sent_again_ends_again(origin):
    def stale(self, sock):
        self.head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.head(sock)

    def fresh(self, sock):
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            piece = sock.recv(65536)
            if not piece:
                return
            data += piece
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nagain")
        sock.recv(1)

    daemon, _ = origin(stale, fresh)
    with Wire(daemon.socket_path, timeout=5) as wire:
        wire.send("GET http://raw.test/ HTTP/1.1\r\nHost: raw.test\r\n\r\n")
        assert wire.response().status == 200
        wire.send("GET http://raw.test/ HTTP/1.1\r\nHost: raw.test\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n")  # fmt: skip
        assert wire.response().status in (200, 502)


@pytest.mark.parametrize("method, content, again", [
    ("GET", "", True), ("HEAD", "", True), ("OPTIONS", "", True), ("GET", "5", False), ("POST", "", False),
    ("POST", "0", False), ("PUT", "", False), ("DELETE", "", False), ("QUERY", "", False),
])  # fmt: skip
def test_only_a_safe_request_without_content_is_sent_again(origin, method, content, again):
    """The kept connection ends when it has read the request: it may have been acted upon."""

    def stale(self, sock):
        self.head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.head(sock)

    def fresh(self, sock):
        self.head(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        sock.recv(1)

    daemon, server = origin(stale, fresh)
    with Wire(daemon.socket_path) as wire:
        wire.send("GET http://raw.test/first HTTP/1.1\r\nHost: raw.test\r\n\r\n")
        assert wire.response().status == 200
        length = f"Content-Length: {content}\r\n" if content else ""
        wire.send(f"{method} http://raw.test/second HTTP/1.1\r\nHost: raw.test\r\n{length}\r\n" + "x" * int(content or 0))
        assert wire.response(method).status == (200 if again else 502)
    seconds = [head for head in server.seen if b"/second" in head]
    assert len(seconds) == (2 if again else 1)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 O"], ids=["new", "interim", "cut"])
def test_a_request_that_was_answered_or_not_kept_is_not_sent_again(origin, begun):
    def first(self, sock):
        if begun:
            self.head(sock)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        self.head(sock)
        sock.sendall(begun)

    def second(self, sock):
        self.head(sock)

    daemon, server = origin(first, second)
    with Wire(daemon.socket_path) as wire:
        for name in ("first", "second")[not begun :]:
            wire.send(f"GET http://raw.test/{name} HTTP/1.1\r\nHost: raw.test\r\n\r\n")
            answer = wire.response()
        assert answer.status == 502
    assert len([head for head in server.seen if b"/second" in head]) == 1


# --- what is written down -------------------------------------------------------------------------


@pytest.mark.parametrize("request_text", [
    "GET /p?api_key=hunter2secret|x HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET /p?api_key=hunter2secret%zz HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET /p?api_key=hunter2secret#f HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET https://open.test?api_key=hunter2secret HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET ftp://open.test/?api_key=hunter2secret HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET https://me:hunter2secret@open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "CONNECT me:hunter2secret@open.test:443 HTTP/1.1\r\nHost: open.test\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: me:hunter2secret@open.test\r\n\r\n",
    "GET /p HTTP/1.1\r\nHost: open.test\r\nExpect: hunter2secret\r\n\r\n",
])  # fmt: skip
def test_what_a_refused_request_held_is_not_written_down(shared, request_text):
    for tunnelled in (False, True):
        with Tunnel(shared, "open.test") if tunnelled else Wire(shared.socket_path) as wire:
            wire.send(request_text)
            assert wire.response().status >= 400
    with open(shared.journal_path, encoding="utf-8") as file:
        assert "hunter2secret" not in file.read()
    assert "hunter2secret" not in shared.stderr()


def test_trailers_bring_no_authentication(daemon, mock):
    strange = daemon({"credentials": {"main": {"header": {"x-strange": "{}"}}}})
    with Tunnel(strange, "api.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked")])
        tunnel.send(b"2\r\nhi\r\n0\r\nX-Strange: mine\r\nX-Honeycomb-Team: mine\r\nX-Sum: 7\r\n\r\n")
        answer = tunnel.response()
    assert answer.status == 200
    assert answer.json()["trailers"] == [["X-Sum", "7"]]


def test_a_flood_of_refusals_takes_no_record_from_anybody(daemon, mock):
    busy = daemon({"worker": {"threads": 1}})
    path = "/" + "q" * 1000
    query = "&".join(f"n{i:02}{'x' * 20}=" for i in range(30))
    flood = (f"HEAD http://nowhere.test{path}?{query} HTTP/1.1\r\nHost: nowhere.test\r\n\r\n").encode() * 30
    wires = [Wire(busy.socket_path) for _ in range(150)]
    sent = 0
    with Tunnel(busy, "open.test") as tunnel:
        os.kill(busy.worker_pid(), signal.SIGSTOP)
        for wire in wires:
            wire.send(flood)
            sent += 30
        tunnel.start("GET", "/test/echo")
        os.kill(busy.worker_pid(), signal.SIGCONT)
        assert tunnel.response().status == 200
    for wire in wires:
        for _ in range(30):
            assert wire.response("HEAD").status == 403
        wire.close()

    def recorded():
        counted = sum(record["count"] for record in busy.journal(event="denials"))
        return len(busy.journal(event="deny")) + counted

    until("each is written, or counted where its sandbox is over its budget", lambda: recorded() == sent, 20)


# --- names ----------------------------------------------------------------------------------------


def test_a_sandbox_that_asks_for_names_without_answers_leaves_others_theirs(daemon, fake_dns):
    fake_dns.names = {f"n{i}.slow.test": SILENCE for i in range(3000)}
    two = daemon(
        {
            "worker": {"threads": 1},
            "upstream": {"nameservers": [fake_dns.address]},
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "other"}],
            "tenants": {"other": {"rules": [{"allow": "http://nothing.test"}]}},
        },
        rules=[{"allow": "http://*.slow.test"}],
    )
    wires = []
    for i in range(3000):
        wires.append(Wire(two.socket_path))
        wires[-1].send(f"GET http://n{i}.slow.test/ HTTP/1.1\r\nHost: n{i}.slow.test\r\n\r\n")
    until("all are begun", lambda: len(two.journal(event="open")) == len(wires))
    with Wire(os.path.join(two.folder, "e", "s")) as wire:
        wire.send("GET http://nothing.test/ HTTP/1.1\r\nHost: nothing.test\r\n\r\n")
        answer = wire.response()
    assert (answer.status, b"no such name" in answer.body) == (502, True), answer
    refused = [r for r in two.journal(event="close") if r["http.response.status_code"] == 503]
    for wire in wires:
        wire.close()
    assert len(refused) < 1000, "a sandbox gets what npm needs"


def test_a_request_that_can_not_be_read_has_its_tunnels_host_in_the_journal(daemon):
    one = daemon()
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/a|b").status == 400
    record = one.journal(event="deny", reason="malformed_request")[-1]
    assert (record["server.address"], record["server.port"], record["url.scheme"]) == ("open.test", 443, "https")
