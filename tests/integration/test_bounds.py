"""What one sandbox, one reader or one server may cost the others: memory, descriptors, lines in the log."""

import socket
import threading
import time

import pytest
from harness import Closed, Tunnel, Wire, until
from test_path import MIB, Rss
from upstream import PATTERN

GIB = 1024 * MIB
GET = "GET http://plain.test/test/echo?n=%d HTTP/1.1\r\nHost: plain.test\r\n\r\n"


@pytest.fixture
def plain(daemon, plain_mock):
    return daemon({"upstream": {"resolve": {"plain.test": plain_mock.address}}},
                  rules=[{"allow": "http://plain.test/test/**"}, {"allow": "https://api.test"}])  # fmt: skip


# --- memory ---------------------------------------------------------------------------------------


def test_a_reader_at_1_kib_a_second_behind_a_huge_download(shared, mock):
    target = f"/test/bytes?n={4 * GIB}"
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.ask("GET", "/test/echo")
        with Rss(shared) as rss:
            tunnel.start("GET", target)
            assert tunnel.read_head().status == 200
            for _ in range(16):
                tunnel.take(256)
                time.sleep(0.25)
            assert not mock.events("done", mark, target=target)
    assert rss.growth_mib < 4, f"the worker grew by {rss.growth_mib:.1f} MiB"
    until("the upstream is let go at once", lambda: mock.events("end", mark), 2)


class SlowServer:
    """Takes one request's head and then its content, 1 KiB at a time."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(20)
        self.taken = 0
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def run(self):
        sock, _ = self.listener.accept()
        with sock:
            sock.settimeout(20)
            while not self.stop.wait(0.05):
                self.taken += len(sock.recv(1024))

    def close(self):
        self.stop.set()
        self.thread.join()
        self.listener.close()


def test_an_upload_to_a_server_that_reads_1_kib_at_a_time(daemon):
    server = SlowServer()
    try:
        one = daemon({"upstream": {"resolve": {"slow.test": server.address}}},
                     rules=[{"allow": "http://slow.test"}])  # fmt: skip
        with Wire(one.socket_path) as wire, Rss(one) as rss:
            wire.send(f"POST http://slow.test/ HTTP/1.1\r\nHost: slow.test\r\nContent-Length: {GIB}\r\n\r\n")
            wire.sock.setblocking(False)
            sent, end = 0, time.monotonic() + 2
            while time.monotonic() < end:
                try:
                    sent += wire.sock.send(PATTERN)
                except BlockingIOError:
                    time.sleep(0.01)
        assert server.taken > 1024, "it flows"
        assert sent < 16 * MIB, "the sandbox is held back"
        assert rss.growth_mib < 4, f"the worker grew by {rss.growth_mib:.1f} MiB"
    finally:
        server.close()


# --- connections ----------------------------------------------------------------------------------


def test_descriptors_run_out_and_come_back(daemon):
    """Who was let in is served, though each needs a second descriptor; who was not comes in later."""
    one = daemon(nofile=128)
    wires = []
    try:
        for _ in range(150):
            wires.append(Wire(one.socket_path))
        until("it says so", lambda: "of the 128 descriptors (RLIMIT_NOFILE)" in one.stderr(), 10)
        served = 0
        for wire in wires[:3]:
            wire.send("GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
            served += wire.response().status == 403
        assert served == 3
    finally:
        for wire in wires:
            wire.close()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert one.stderr().count("RLIMIT_NOFILE") < 130, "and does not fill the log with it"


def test_a_sandbox_has_so_many_connections_at_a_time(daemon):
    one = daemon({"worker": {"threads": 1}, "limits": {"connections": 5}})
    wires = [Wire(one.socket_path) for _ in range(5)]
    try:
        for wire in wires:  # they are taken
            wire.send("GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n")
            assert wire.response().status == 403
        with Wire(one.socket_path) as sixth:
            assert sixth.is_closed()
        assert "more than 5 connections at a time" in one.stderr()
    finally:
        for wire in wires:
            wire.close()
    time.sleep(0.1)
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_a_connection_has_so_many_exchanges(daemon):
    one = daemon({"limits": {"exchanges": 4}})
    with Tunnel(one, "api.test") as tunnel:  # the CONNECT is the first
        answers = [tunnel.ask("GET", "/test/echo") for _ in range(3)]
        assert [a.status for a in answers] == [200] * 3
        assert [a.get("connection") for a in answers] == [None, None, "close"]
        with pytest.raises((Closed, OSError)):
            tunnel.ask("GET", "/test/echo")


# --- the end of what a client says ----------------------------------------------------------------


def test_all_pipelined_requests_before_a_half_close_are_answered(plain):
    with Wire(plain.socket_path) as wire:
        wire.send("".join(GET % n for n in range(5)))
        wire.shutdown()
        answers = [wire.response() for _ in range(5)]
        assert [a.json()["line"].split("n=")[1][0] for a in answers] == list("01234")
        # The last one may have been answered before the half-close came.
        assert [a.get("connection") for a in answers[:4]] == [None] * 4
        assert answers[4].get("connection") in (None, "close")
        assert wire.is_closed()


def test_content_before_a_half_close_is_taken(plain):
    with Wire(plain.socket_path) as wire:
        body = "x" * 20_000
        wire.send("POST http://plain.test/test/echo HTTP/1.1\r\nHost: plain.test\r\n"
                  f"Content-Length: {len(body)}\r\n\r\n{body}" + GET % 7)  # fmt: skip
        wire.shutdown()
        assert wire.response().json()["body_bytes"] == len(body)
        assert "n=7" in wire.response().json()["line"]
        assert wire.is_closed()


@pytest.mark.parametrize("cut", [GET[:20], GET[:-2], "POST http://plain.test/test/echo HTTP/1.1\r\n"
                                 "Host: plain.test\r\nContent-Length: 9\r\n\r\nshort"],
                         ids=["line", "head", "content"])  # fmt: skip
def test_a_request_that_a_half_close_cuts_off_is_none(plain, plain_mock, cut):
    mark = plain_mock.mark()
    with Wire(plain.socket_path) as wire:
        wire.send(GET % 1 + cut)
        wire.shutdown()
        assert "n=1" in wire.response().json()["line"]
        assert wire.is_closed()
    until("the first is done", lambda: plain_mock.events("done", mark))
    assert len(plain_mock.events("done", mark)) == 1


@pytest.mark.parametrize("how", ["at once", "behind another request", "after a half-close"])
def test_a_client_that_closes_outright_cancels_what_it_asked_for(plain, plain_mock, how):
    """A half-close says "that was all"; who is shut both ways waits for nothing."""
    mark = plain_mock.mark()
    with Wire(plain.socket_path) as wire:
        wire.send("GET http://plain.test/test/hold HTTP/1.1\r\nHost: plain.test\r\n\r\n")
        until("the request", lambda: plain_mock.events("request", mark))
        if how == "behind another request":
            wire.send(GET % 1)
        elif how == "after a half-close":
            wire.shutdown()
            time.sleep(1)
            assert not plain_mock.events("end", mark), "it may still read the answer"
    until("the upstream is let go", lambda: plain_mock.events("end", mark), 5)
    closed = until("the record", lambda: plain.journal(event="close"))
    assert [r["reason"] for r in closed] == ["sandbox_closed"]


def test_a_client_that_goes_while_nobody_takes_its_content_is_noticed(daemon):
    """Its end lies behind bytes that there is no room for."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = daemon({"upstream": {"resolve": {"deaf.test": "127.0.0.1:%d" % server.getsockname()[1]}}},
                     rules=[{"allow": "http://deaf.test"}])  # fmt: skip
        with Wire(one.socket_path) as wire:
            wire.send(f"POST http://deaf.test/ HTTP/1.1\r\nHost: deaf.test\r\nContent-Length: {GIB}\r\n\r\n")
            wire.sock.settimeout(1)
            with pytest.raises(TimeoutError):
                while True:
                    wire.send(PATTERN)
        closed = until("the record", lambda: one.journal(event="close"), 5)
        assert [r["reason"] for r in closed] == ["sandbox_closed"]


# --- the operator's log ---------------------------------------------------------------------------


def test_a_flood_of_refusals_does_not_fill_the_log(daemon):
    one = daemon({"worker": {"threads": 1}})
    for _ in range(600):
        with Wire(one.socket_path) as wire:
            wire.send("nonsense\r\n\r\n")
            assert wire.response().status == 400
    assert len(one.journal(event="deny")) == 600

    def lines(mark):
        return [line for line in one.stderr().splitlines() if mark in line]

    def left_out():
        return sum(int(line.split(": ")[4].split()[0]) for line in lines("lines like these"))

    until("the rest is counted", lambda: left_out() + len(lines("refused: request")) == 600, 12)
    assert len(lines("refused: request")) < 250
