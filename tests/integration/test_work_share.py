"""test_work_share.py - what one sandbox's connections ask for is done in shares, between which all others have their turn

The worker stands still while the sandbox's connections are filled, and behind them comes one request of another
tenant. When that has its answer the worker stands still again: what it did until then is counted."""

import contextlib
import itertools
import os
import signal
import socket
import ssl
import subprocess
import time

import pytest
from common import may_have
from harness import PATIENCE, Tunnel, Wire, until
from hyperframe.frame import DataFrame, SettingsFrame
from sandboxes import inside
from test_h2_hostile import headers

CONNECTIONS = 150
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SettingsFrame(0).serialize()
OTHERS = "GET http://none.test/ HTTP/1.1\r\nHost: none.test\r\n\r\n"

DENIED = b"GET http://none.test/ HTTP/1.1\r\nHost: none.test\r\n\r\n"
QUERY = b"a&" * 7800
COSTLY = b"GET http://free.test/x?" + QUERY + b"token=1 HTTP/1.1\r\nHost: free.test\r\n\r\n"
H2_GET = [(":method", "GET"), (":scheme", "http"), (":authority", "none.test"), (":path", "/")]
H2_DENIED = b"".join(headers(2 * n + 1, *H2_GET).serialize() for n in range(200))
CHUNKED = b"POST http://sink.test/ HTTP/1.1\r\nHost: sink.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
H2_POST = [(":method", "POST"), (":scheme", "http"), (":authority", "sink.test"), (":path", "/")]
H2_GET_SINK = [(":method", "GET"), *H2_POST[1:]]
H2_CONTENT = PREFACE + headers(1, *H2_POST, flags=["END_HEADERS"]).serialize()
H2_PIECE = DataFrame(1, b"a").serialize()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def drain(sock):
    got = b""
    with contextlib.suppress(BlockingIOError):
        while more := sock.recv(1 << 20):
            got += more
    return got


def h2_answers(got):
    n = at = 0
    while at + 9 <= len(got):
        n += got[at + 3] == 1
        at += 9 + int.from_bytes(got[at : at + 3], "big")
    return n


class Crowd:
    """All connections of one sandbox."""

    def __init__(self, one, connections=CONNECTIONS):
        self.one, self.socks, self.cpu_s = one, [], None
        self.join(connections)

    def join(self, more):
        path = inside(self.one, os.path.join(self.one.folder, "e", "s")).socket_path
        for _ in range(more):
            self.socks.append(socket.socket(socket.AF_UNIX))
            self.socks[-1].settimeout(PATIENCE)
            self.socks[-1].connect(path)

    def say(self, text, answered=True):
        for sock in self.socks:
            sock.sendall(text)
        for sock in self.socks if answered else []:
            assert sock.recv(1 << 16)

    def fill(self, text, once=False):
        """Each says it, or what is its own of a list."""
        texts = text if isinstance(text, list) else itertools.repeat(text)
        for sock, said in zip(self.socks, texts, strict=False):
            sock.setblocking(False)
            at = 0
            with contextlib.suppress(BlockingIOError, ssl.SSLWantWriteError):
                while at < len(said):
                    at += sock.send(memoryview(said)[at:])
                    at = at if once else at % len(said)

    @contextlib.contextmanager
    def until_another_is_answered(self, wire, text, once=False):
        worker = self.one.worker_pid()
        os.kill(worker, signal.SIGSTOP)
        try:
            if callable(text):
                text()
            else:
                self.fill(text, once)
            wire.send(OTHERS)
            before = cpu_s(worker)
            os.kill(worker, signal.SIGCONT)
            assert wire.response().status == 403
            os.kill(worker, signal.SIGSTOP)
            self.cpu_s = cpu_s(worker) - before
            yield
        finally:
            os.kill(worker, signal.SIGCONT)

    def close(self):
        for sock in self.socks:
            sock.close()


@pytest.fixture(name="start")
def starter(daemon):
    with contextlib.ExitStack() as stack:

        def start(**more):
            one = daemon(
                {
                    "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "globex"}],
                    "tenants": {"globex": {"rules": [{"allow": "http://sink.test"}, {"allow": "http://free.test"}]}},
                    "worker": {"threads": 1},
                    **more,
                }
            )
            wire = stack.enter_context(Wire(one.socket_path))
            wire.send(OTHERS)
            assert wire.response().status == 403
            crowd = Crowd(one)
            stack.callback(crowd.close)
            return crowd, wire

        yield start


HEADS = {
    "HTTP/1": (DENIED, DENIED * 1000, False, lambda got: got.count(b"HTTP/1.1 403")),
    "HTTP/2": (PREFACE, H2_DENIED, True, h2_answers),
}


@pytest.mark.alone
@pytest.mark.parametrize("how", HEADS)
def test_another_tenants_request_does_not_wait_for_all_refusals_of_a_crowd(start, how):
    crowd, wire = start()
    first, text, once, answers = HEADS[how]
    crowd.say(first)
    with crowd.until_another_is_answered(wire, text, once):
        assert sum(answers(drain(sock)) for sock in crowd.socks) < 50 * CONNECTIONS


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_queries_of_many_parameters(start):
    crowd, wire = start()
    crowd.say(DENIED)
    with crowd.until_another_is_answered(wire, COSTLY * 4):
        assert crowd.cpu_s < 0.3


def test_what_waits_in_line_is_answered_in_order(start):
    """Three shares, of one connection, while a crowd is in line elsewhere."""
    crowd, wire = start()
    crowd.say(DENIED)
    crowd.fill(DENIED * 1000)
    page = "GET http://keyhole.internal/ HTTP/1.1\r\nHost: keyhole.internal\r\n\r\n"
    expected = [200 if n * n % 7 == 2 else 403 for n in range(350)]
    wire.send("".join(page if status == 200 else OTHERS for status in expected))
    assert [wire.response().status for _ in expected] == expected


PIECES = {"chunks": (CHUNKED, b"1\r\na\r\n" * 20000), "DATA": (H2_CONTENT + H2_PIECE, H2_PIECE * 20000)}


@pytest.mark.alone
@pytest.mark.parametrize("how", PIECES)
def test_another_tenants_request_does_not_wait_for_content_in_pieces_of_a_byte(start, how):
    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as listener:
        listener.settimeout(PATIENCE)
        crowd, wire = start(upstream={"resolve": {"sink.test": f"127.0.0.1:{listener.getsockname()[1]}"}})
        begin, text = PIECES[how]
        crowd.say(begin, answered=False)
        sinks = [listener.accept()[0] for _ in range(CONNECTIONS)]
        for sink in sinks:
            sink.settimeout(PATIENCE)
            got = b""
            while b"\r\n\r\n1\r\na\r\n" not in got:
                got += sink.recv(65536)
            sink.setblocking(False)
        with crowd.until_another_is_answered(wire, text):
            pieces = sum(drain(sink).count(b"1\r\na\r\n") for sink in sinks)
            assert pieces < 5000 * CONNECTIONS
        for sink in sinks:
            sink.close()


@pytest.mark.alone
def test_another_tenants_request_does_not_wait_for_the_ends_of_a_crowds_exchanges(start):
    """All their connections close at one moment. In the journal the denial of the other's request is before most ends."""
    connections, streams = 20, 50
    may_have(8192)
    with socket.create_server(("127.0.0.1", 0), backlog=connections * streams) as listener:  # which nobody accepts
        crowd, wire = start(upstream={"resolve": {"sink.test": f"127.0.0.1:{listener.getsockname()[1]}"}})
        while len(crowd.socks) > connections:
            crowd.socks.pop().close()
        gets = [headers(2 * n + 1, *H2_GET_SINK).serialize() for n in range(streams)]
        crowd.say(PREFACE + b"".join(gets))
        one = crowd.one
        until("all exchanges to be open", lambda: len(one.journal(event="open")) == connections * streams)
        with crowd.until_another_is_answered(wire, crowd.close):
            pass
        until("all exchanges to end", lambda: len(one.journal(event="close")) == connections * streams)
        events = [record["event"] for record in one.journal() if record["event"] in ("close", "deny")]
        ends = events[: len(events) - events[::-1].index("deny")].count("close")
        assert ends < connections * streams * 2 // 3


def test_a_tls_connection_is_read_while_others_of_its_sandbox_are_always_in_the_line(daemon):
    """Its bytes are still in the socket when it takes its place, and it has no turn outside of the line."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
        server.settimeout(PATIENCE)
        port = server.getsockname()[1]
        one = daemon({
            "upstream": {"resolve": {"mine.test": f"127.0.0.1:{port}"}},
            "tenants": {"acme": {"rules": [{"allow": "http://mine.test"}, {"allow": "https://api.test"}]}},
            "worker": {"threads": 1},
        })  # fmt: skip
        tunnel = stack.enter_context(Tunnel(one, "api.test"))
        tunnel.send("GET /v1/models HTTP/1.1\r\nHost: api.test\r\n\r\n")
        status = tunnel.response().status
        for _ in range(12):
            wire = stack.enter_context(Wire(one.socket_path))
            wire.send("GET http://mine.test/ HTTP/1.1\r\nHost: mine.test\r\n\r\n")
            peer = stack.enter_context(server.accept()[0])
            peer.recv(4096)
            peer.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            peer.settimeout(None)
            wire.sock.settimeout(None)
            for command, ends in ((["cat"], {"stdin": wire.sock, "stdout": subprocess.DEVNULL}), (["yes", "1\r\na\r"], {"stdout": peer})):
                process = subprocess.Popen(command, **ends)
                stack.callback(process.wait)
                stack.callback(process.kill)
        time.sleep(1)
        for _ in range(5):
            tunnel.send("GET /v1/models HTTP/1.1\r\nHost: api.test\r\n\r\n")
            assert tunnel.response().status == status
