"""A WebSocket in a stream of HTTP/2 towards an upstream (RFC 8441)."""

import contextlib
import os
import shutil
import subprocess

import h2.errors
import h2.exceptions
import h2.settings
import pytest
from common import HERE, PLACEHOLDER, SECRET, mock_module, until
from daemons import NAMES
from h2client import h2_tunnel
from h2upstream import Connection, H2Upstream, make_daemon  # noqa: F401 (daemon is a fixture)
from harness import Tunnel
from test_websocket_h2 import WsStream, until_settings
from wspeer import BINARY, CLOSE, PING, PONG, TEXT, Frames, WsClient, close_payload, frame, xor

EXTENDED_CONNECT = h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL


class WsConnection(Connection):
    """Echoes what comes in streams of Extended CONNECT; else as its parent."""

    def __init__(self, server, sock, number):
        super().__init__(server, sock, number)
        self.h2.config.validate_inbound_headers = False
        values = {k: v for k, v in self.h2.local_settings.items() if k != EXTENDED_CONNECT}
        self.h2.local_settings = h2.settings.Settings(
            client=False, initial_values={**values, EXTENDED_CONNECT: int(server.takes_websockets)})
        self.sockets = {}

    def on_event(self, event):
        stream = getattr(event, "stream_id", None)
        if isinstance(event, h2.events.RequestReceived) and dict(event.headers)[":method"] == "CONNECT":
            self.open_socket(stream, event.headers)
        elif stream in self.sockets and isinstance(event, h2.events.DataReceived):
            self.sockets[stream] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, stream)
            self.echo(stream)
        elif stream in self.sockets and isinstance(event, h2.events.StreamEnded):
            self.server.note("ws-end", stream=stream)
            with contextlib.suppress(h2.exceptions.ProtocolError):  # it may be reset by now
                self.h2.end_stream(stream)
        else:
            super().on_event(event)

    def open_socket(self, stream, headers):
        fields = dict(headers)
        self.server.note("ws", conn=self.number, fields=headers)
        mode = fields[":path"].rpartition("/")[2]
        if mode == "refused":
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
        elif mode == "denied":
            self.reply(stream, 403, b"not here")
        elif mode == "extension":
            self.head(stream, [(":status", "200"), ("sec-websocket-extensions", "permessage-deflate")])
        else:
            offered = fields.get("sec-websocket-protocol", "")
            self.head(stream, [(":status", "200"), *([("sec-websocket-protocol", offered.split(",")[0])] if offered else [])])
            self.sockets[stream] = b""

    def echo(self, stream):
        """All whole frames."""
        while len(data := self.sockets[stream]) >= 6:
            length, at = data[1] & 127, 2
            if length >= 126:
                at = 4 if length == 126 else 10
                length = int.from_bytes(data[2:at], "big")
            if len(data) < at + 4 + length:
                return
            assert data[1] & 0x80, "frames of a client are masked"
            payload = xor(data[at + 4 : at + 4 + length], data[at : at + 4])
            self.sockets[stream] = data[at + 4 + length :]
            kind = data[0] & 15
            if payload == b"reset":
                self.h2.reset_stream(stream)
                return
            answer = frame(PONG if kind == PING else kind, payload, fin=bool(data[0] & 0x80))
            self.pending[stream] = self.pending.get(stream, b"") + answer
            self.push(stream)
            if kind == CLOSE:
                self.h2.end_stream(stream)

    def push(self, stream):
        if stream not in self.sockets:
            super().push(stream)
            return
        body = self.pending.get(stream, b"")
        while body and (room := min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)) > 0:
            self.h2.send_data(stream, body[:room])
            body = body[room:]
            self.flush()
        self.pending[stream] = body


class WsUpstream(H2Upstream):
    connection = WsConnection
    takes_websockets = True


@pytest.fixture(name="up")
def make_up(tmp_path):
    upstream = WsUpstream(str(tmp_path / "up"), NAMES)
    yield upstream
    upstream.stop()


class Stream(WsStream):
    def __init__(self, daemon, path, fields=(), host="api.test"):
        client = h2_tunnel(daemon, host)
        until_settings(client)
        super().__init__(client, path, fields)

    def close(self):
        self.client.wire.close()


def open_h1(daemon, path, fields=(), host="api.test"):
    ws = WsClient(daemon, host)
    ws.open(path, fields)
    return ws


def open_h2(daemon, path, fields=(), host="api.test"):
    ws = Stream(daemon, path, fields, host)
    ws.open()
    return ws


both = pytest.mark.parametrize("open_", [open_h1, open_h2], ids=["from-h1", "from-h2"])


def closes(daemon, count=1):
    return until("it is written", lambda: len(r := daemon.journal(event="close")) >= count and r)


@both
def test_where_only_http2_is_spoken_it_is_an_extended_connect(daemon, up, open_):
    d = daemon()
    ws = open_(d, "/chat?x=1", [("authorization", "Bearer " + PLACEHOLDER), ("sec-websocket-protocol", "realtime")])
    for message in ("hello", "x" * 100_000):
        ws.put(TEXT, message)
        assert ws.message() == (TEXT, message.encode())
    ws.put(PING, b"there?")
    assert ws.get() == (True, PONG, b"there?")
    ws.put(CLOSE, close_payload(1000, "done"))
    assert ws.expect_close(1000) == "done"
    ws.close()
    (asked,) = up.of("ws")
    fields = dict(asked["fields"])
    assert (fields[":method"], fields[":protocol"], fields[":path"]) == ("CONNECT", "websocket", "/chat?x=1")
    assert (fields[":scheme"], fields[":authority"]) == ("https", "api.test")
    assert fields["sec-websocket-version"] == "13" and fields["sec-websocket-protocol"] == "realtime"
    assert fields["x-api-key"] == SECRET
    assert not {"authorization", "upgrade", "connection", "sec-websocket-key"} & set(fields)
    (record,) = closes(d)
    assert record["websocket.close.code"] == 1000 and record["websocket.up.messages"] == 2
    assert record["websocket.close.by"] == "sandbox" and record["complete"]
    until("our side has ended", lambda: up.of("ws-end") or up.of("reset"))


@both
def test_where_only_http2_is_spoken_http11_is_tried_once(daemon, up, open_):
    d = daemon()
    tried = []
    for n in range(3):
        before = up.connections
        ws = open_(d, "/chat")
        ws.put(CLOSE, close_payload(1000, ""))
        ws.expect_close(1000)
        ws.close()
        tried.append(up.connections - before)
        closes(d, n + 1)
        up.close_idle()  # no connection says any more what is taken there
    assert tried == [2, 1, 1]


@both
def test_it_goes_onto_a_connection_that_takes_them(daemon, up, open_):
    d = daemon()
    with Tunnel(d, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").json()["conn"] == 1
    sockets = [open_(d, "/chat", host="open.test") for _ in range(3)]
    for ws in sockets:
        ws.put(BINARY, b"one connection")
        assert ws.message() == (BINARY, b"one connection")
    assert {e["conn"] for e in up.of("ws")} == {1} and up.connections == 1
    for ws in sockets:
        ws.close()
    assert [r["reason"] for r in closes(d, 4)[1:]] == ["sandbox_closed"] * 3


@both
def test_http11_is_taken_where_it_is_spoken(daemon, tmp_path, open_):
    both_spoken = WsUpstream(str(tmp_path / "both"), NAMES, alpn=("h2", "http/1.1"))
    try:
        d = daemon(upstream=both_spoken)
        with pytest.raises(AssertionError, match="502"):
            open_(d, "/chat")  # its HTTP/1.1 is none
        assert [e["alpn"] for e in both_spoken.of("open")] == ["http/1.1"]
    finally:
        both_spoken.stop()


@both
def test_an_upstream_that_takes_none_is_426(daemon, up, open_):
    up.takes_websockets = False
    d = daemon()
    for _ in range(2):
        with pytest.raises(AssertionError, match="426"):
            open_(d, "/chat")
    assert not up.of("ws")
    with Tunnel(d, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


@both
def test_another_answer_is_a_response_like_any_other(daemon, up, open_):
    d = daemon()
    with pytest.raises(AssertionError, match="403"):
        open_(d, "/denied")
    with pytest.raises(AssertionError, match="502"):
        open_(d, "/extension")


@both
def test_a_stream_that_is_refused_is_asked_for_a_few_times(daemon, up, open_):
    d = daemon()
    with pytest.raises(AssertionError, match="502"):
        open_(d, "/refused")
    assert 1 < len(up.of("ws")) <= 4


@both
def test_a_stream_that_is_reset_ends_without_a_close_frame(daemon, open_):
    d = daemon()
    ws = open_(d, "/chat")
    ws.put(TEXT, "reset")
    (record,) = closes(d)
    assert record["websocket.close.code"] == 1006 and record["websocket.close.by"] == "upstream"
    ws.close()


@both
def test_who_does_not_read_makes_the_other_wait(daemon, up, open_):
    d = daemon()
    ws = open_(d, "/chat")
    pid = d.worker_pid()
    before = d.resident_kib(pid)
    data = b"x" * 1_000_000
    ws.put(BINARY, data)
    ws.put(BINARY, data)
    assert d.resident_kib(pid) - before < 4096
    assert ws.message() == (BINARY, data) and ws.message() == (BINARY, data)
    ws.close()


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
@pytest.mark.parametrize("takes", [True, False])
@both
def test_node(daemon, tmp_path, open_, takes):
    """Ends the handshake with an alert where HTTP/1.1 alone is offered."""
    folder = str(tmp_path / "node")
    os.makedirs(folder)
    authority = mock_module.make_ca(folder)
    cert, key = mock_module.make_leaf(folder, authority, NAMES)
    node = subprocess.Popen(["node", os.path.join(HERE, "ws_h2_origin.js"), cert, key, *([] if takes else ["no"])],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        port = int(node.stdout.readline())
        d = daemon({"upstream": {"ca_file": authority[0], "resolve": {"open.test": f"127.0.0.1:{port}"}}})
        if not takes:
            with pytest.raises(AssertionError, match="426"):
                open_(d, "/chat", host="open.test")
            return
        for _ in range(2):
            ws = open_(d, "/chat", host="open.test")
            ws.put(TEXT, "hello")
            assert Frames.message(ws) == (TEXT, b"hello")
            ws.put(CLOSE, close_payload(1000))
            assert ws.expect_close(1000) == ""
            ws.close()
        assert {r.get("retries") for r in closes(d, 2)} == {None}
    finally:
        node.stdin.close()
        node.wait(10)
