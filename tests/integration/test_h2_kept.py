"""What all HTTP/2 connections of a sandbox together may keep of the worker's memory."""

import contextlib
import socket
import threading

import pytest
from clients import Closed
from h2client import Goaway, Reset, h2_tunnel
from harness import Tunnel, until

MIB = 1 << 20
STREAMS = 256
MOST_MIB = 256


@pytest.fixture
def nowhere():
    """An address to which no connection is ever made: a full backlog."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        yield "127.0.0.1:%d" % full.getsockname()[1]


@pytest.fixture
def one(daemon, nowhere, mock):
    return daemon({
        "upstream": {"resolve": {"full.test": nowhere, "open.test": mock.address}},
        "timeouts": {"connect": "5m"},
    }, rules=[{"allow": "https://full.test"}, {"allow": "https://open.test"}])  # fmt: skip


def statuses(client):
    return [s.response.status for s in client.streams.values() if s.response]


def keep(one, content):
    """A connection with as many streams as it may have, each with content that nobody takes."""
    client = h2_tunnel(one, "full.test")
    while client.h2.outbound_flow_control_window <= 65535:
        client.pump()
    for _ in range(STREAMS):
        stream = client.start("POST", "/", end=not content)
        room = min(len(content), client.h2.local_flow_control_window(stream))
        for at in range(0, room, 16384):
            client.h2.send_data(stream, content[at : min(room, at + 16384)])
        client.flush()
    return client


def pump_all(clients):
    """What has come by now. Return: those that have been ended."""
    ended = []
    for client in clients:
        client.wire.sock.settimeout(0.01)
        try:
            while True:
                client.pump()
        except TimeoutError:
            pass
        except (Closed, Goaway, OSError):
            ended.append(client)
    return ended


@pytest.mark.parametrize("content", [b"", b"x" * 65535], ids=["exchanges", "content"])
def test_a_sandbox_that_opens_many_is_bounded_and_nobody_else_suffers(one, mock, content):
    pid = one.worker_pid()
    before = one.resident_kib(pid) // 1024
    each_mib = STREAMS * (32 + 4 + (64 if content else 0)) // 1024
    clients, refused = [], 0
    try:
        for _ in range(MOST_MIB * 3 // 2 // each_mib):
            with contextlib.suppress(Closed, Goaway, Reset, OSError):
                clients.append(keep(one, content))
        ended = pump_all(clients)
        refused = sum(s == 429 for c in clients for s in statuses(c))
        assert refused or ended, "it may take all the memory there is"
        assert one.resident_kib(pid) // 1024 - before < MOST_MIB * 3 // 2
        # Whoever keeps little goes on.
        with Tunnel(one, "open.test") as tunnel:
            assert tunnel.ask("GET", "/test/echo").status == 200
        assert one.journal(reason="limit")
    finally:
        for client in clients:
            client.wire.close()
    until("all is given back", lambda: served(one))


def served(one):
    with h2_tunnel(one, "open.test") as client:
        return client.ask("GET", "/test/echo").status == 200


def test_what_was_kept_is_given_back(one):
    """Many more than may be kept at a time, one after the other; then the next is served."""
    for _ in range(3):
        clients = [keep(one, b"y" * 30000) for _ in range(8)]
        threads = [threading.Thread(target=c.wire.close) for c in clients]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert served(one)
