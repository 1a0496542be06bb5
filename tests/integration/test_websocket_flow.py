"""WebSockets under load: slow readers, large messages, many that idle, and what they cost."""

import contextlib
import hashlib
import os
import threading
import time

import pytest
from clients import Closed
from common import until
from wspeer import (  # noqa: F401 (origin and start are fixtures)
    BINARY, CLOSE, PING, PONG, TEXT, WsClient, close_payload, closed, frame, origin, start, xor,
)  # fmt: skip

PIECE = bytes(range(256)) * 256  # 64 KiB
MIB = 1024


def resident(daemon):
    return daemon.resident_kib(daemon.worker_pid())


def take_message(end, digest):
    """A message by its pieces, hashed. Return: its bytes, and its frames."""
    total = frames = 0
    while True:
        fin, _, payload = end.get()
        digest.update(payload)
        total += len(payload)
        frames += 1
        if fin:
            return total, frames


def test_64_mib_in_one_frame_stream_through(start, origin):
    """Both ways; nobody gathers it: the worker grows by a fraction of it."""
    count = 1024  # pieces
    want = hashlib.sha256(PIECE * count).hexdigest()
    seen = []

    def script(peer):
        peer.accept()
        digest = hashlib.sha256()
        seen.append((*take_message(peer, digest), digest.hexdigest()))
        peer.send(frame(BINARY, length=len(PIECE) * count))
        for _ in range(count):
            peer.send(PIECE)
        peer.expect_close(1000)

    origin.on("/large", script)
    daemon = start()
    before = resident(daemon)
    with WsClient(daemon) as client:
        client.open("/large")
        key = os.urandom(4)
        client.send(frame(BINARY, mask=True, length=len(PIECE) * count)[:-4] + key)
        masked = xor(PIECE, key)
        for _ in range(count):
            client.send(masked)
        digest = hashlib.sha256()
        total, frames = take_message(client, digest)
        assert (total, digest.hexdigest()) == (len(PIECE) * count, want)
        assert frames == total // 16384
        assert seen[0] == (total, frames, want)
        client.put(CLOSE, close_payload(1000))
    assert resident(daemon) - before < 8 * MIB


@pytest.mark.parametrize("slow", ["upstream", "sandbox"])
def test_who_does_not_read_makes_the_other_wait(start, origin, slow):
    """The writer comes to a stop long before it has sent all; then everything arrives."""
    count = 1024
    go = threading.Event()
    sent = []

    def write(end):
        for n in range(count):
            end.send(frame(BINARY, PIECE, mask=end.masks))
            sent.append(n)

    def read(end):
        assert go.wait(30)
        for _ in range(count):
            digest = hashlib.sha256()
            assert take_message(end, digest)[0] == len(PIECE)

    path = "/slow/" + slow
    first, second = (read, write) if slow == "upstream" else (write, read)
    origin.on(path, lambda peer: (peer.accept(), first(peer), peer.expect_close(1000)))
    daemon = start()
    before = resident(daemon)
    with WsClient(daemon, timeout=60) as client:
        client.open(path)
        worker = threading.Thread(target=second, args=(client,))
        worker.start()
        last = -1
        while len(sent) != last or not sent:  # until it stands still
            last = len(sent)
            time.sleep(0.5)
        assert len(sent) < count // 4, "somebody buffers"
        assert resident(daemon) - before < 8 * MIB
        go.set()
        worker.join(60)
        assert not worker.is_alive() and len(sent) == count
        client.put(CLOSE, close_payload(1000))
        until("the end", lambda: daemon.journal(event="close"))


def test_who_goes_while_nobody_reads_is_noticed(start, origin):
    """The end lies behind messages that there is no room for."""
    gone = threading.Event()

    def deaf(peer):
        peer.accept()
        assert gone.wait(60)

    origin.on("/deaf", deaf)
    daemon = start()
    with WsClient(daemon, timeout=1) as client:
        client.open("/deaf")
        with contextlib.suppress(TimeoutError):
            while True:
                client.send(frame(BINARY, PIECE, mask=True))
    assert closed(daemon, "/deaf")["reason"] == "sandbox_closed"
    gone.set()


def test_a_flood_of_fragments_and_empty_messages_passes(start, origin):
    """2 bytes each cost what they cost, and nothing is lost."""
    daemon = start()
    with WsClient(daemon) as client:
        client.open()
        client.send(b"".join([frame(TEXT, "a", fin=False, mask=True),
                              *(frame(0, "b", fin=False, mask=True) for _ in range(5000)),
                              frame(0, "c", mask=True)]))  # fmt: skip
        assert client.message() == (TEXT, b"a" + b"b" * 5000 + b"c")
        client.send(frame(TEXT, "", mask=True) * 5000)
        for _ in range(5000):
            assert client.message() == (TEXT, b"")


def test_a_rule_bounds_each_message(start, origin):
    daemon = start(rules=[{"allow": "https://api.test", "credential": "main", "max_body": "4KiB", "websocket": True}])
    with WsClient(daemon) as client:
        client.open("/bounded")
        for _ in range(4):
            client.put(TEXT, "x" * 4096)
            assert client.message() == (TEXT, b"x" * 4096)
        client.put(TEXT, "x" * 4000, fin=False)
        client.put(0, "x" * 97)
        client.expect_close(1009)
        client.put(CLOSE, close_payload(1009))
        client.gone()
    record = until("the end", lambda: daemon.records_of("/bounded")[1:])[0]
    assert record["websocket.close.code"] == 1009 and record["websocket.up.messages"] == 4


@pytest.mark.parametrize("kind", [PING, PONG, CLOSE])
@pytest.mark.parametrize("way", ["up", "down"])
def test_the_payload_of_control_frames_counts(start, origin, way, kind):
    """Towards the limits of bytes and in the journal; else they would carry content past both."""
    daemon = start({"tenants": {"acme": {"limits": {f"bytes_{way}": "1KiB/day"}}}})
    payload = close_payload(1000) + b"x" * 98 if kind == CLOSE else b"x" * 100

    def script(peer):
        peer.accept()
        if way == "down":
            peer.put(TEXT, "y" * 1000)
            peer.put(kind, payload)
        with contextlib.suppress(OSError, Closed):
            while True:
                peer.get()

    origin.on("/counted", script)
    with WsClient(daemon) as client:
        client.open("/counted")
        if way == "up":
            client.put(TEXT, "y" * 1000)
            client.put(kind, payload)
        client.put(TEXT, "")
        client.expect_close(1008)
    record = closed(daemon, "/counted")
    assert record["reason"] == "limit_spent"
    assert record[f"websocket.{way}.messages"] == 1


def test_the_journal_has_the_payload_of_control_frames(start, origin):
    daemon = start()
    with WsClient(daemon) as client:
        client.open("/said")
        for _ in range(10):
            client.put(PING, "p" * 100)
            assert client.get() == (True, PONG, b"p" * 100)
        client.put(CLOSE, close_payload(1000, "bye"))
        client.expect_close(1000)
    record = closed(daemon, "/said")
    assert record["http.request.body.size"] == record["http.response.body.size"] == 1005
    assert record.get("websocket.up.messages", 0) == 0


def test_many_that_idle_cost_little(start, origin):
    """Two TLS connections each, and no buffer. (KH_MANY=1000: as many as docs/websocket.md says.)"""
    count = int(os.environ.get("KH_MANY", "300"))
    daemon = start({"worker": {"threads": 1}})
    with WsClient(daemon) as client:  # what is made once is made
        client.open()
    before = resident(daemon)
    clients = []
    try:
        for _ in range(count):
            client = WsClient(daemon)
            client.open()
            client.put(TEXT, "hello")
            assert client.message() == (TEXT, b"hello")
            clients.append(client)
        each = (resident(daemon) - before) / count
        print(f"\nan idle WebSocket: {each:.1f} KiB")
        assert each < 64
        # They still work, each of them.
        for client in clients:
            client.put(TEXT, "still there")
            assert client.message() == (TEXT, b"still there")
    finally:
        for client in clients:
            client.close()
