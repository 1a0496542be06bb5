"""WebSocket in a stream of HTTP/2 (RFC 8441), from the sandbox to an upstream that speaks HTTP/1.1."""

import pytest
from clients import Closed
from common import PLACEHOLDER
from daemons import Daemons
from h2client import H2Client, Reset, h2_tunnel
from wspeer import (  # noqa: F401 (origin and ours are fixtures)
    BINARY, CLOSE, PING, PONG, TEXT, Frames, close_payload, closed, frame, has_real_key, origin, ours,
)  # fmt: skip

EXTENDED_CONNECT = 8


class WsStream(Frames):
    """A stream that Extended CONNECT opened; several may share a connection."""

    masks = True

    def __init__(self, client, path="/echo", fields=(), version="13", protocol="websocket", **how):
        self.client = client
        head = client.head("CONNECT", path)
        head.insert(1, (":protocol", protocol))
        head += [("sec-websocket-version", version)] if version else []
        self.stream = client.start_head([*head, *fields], **{"end": False, **how})
        self.taken = 0

    @property
    def one(self):
        return self.client.streams[self.stream]

    def open(self):
        answer = self.client.wait_head(self.stream)
        assert answer.status == 200, answer
        assert answer.get("sec-websocket-accept") is None and answer.get("upgrade") is None
        return answer

    def send(self, data):
        self.client.put(self.stream, data)

    def take(self, count):
        while True:
            have = b"".join(self.one.parts)
            if len(have) - self.taken >= count:
                self.taken += count
                return have[self.taken - count : self.taken]
            if self.one.ended or self.one.reset is not None:
                raise Closed("the stream ended")
            self.client.pump()

    def ended(self):
        """The stream ends. Return: orderly."""
        while not self.one.ended and self.one.reset is None:
            self.client.pump()
        return self.one.ended


@pytest.fixture
def client(ours):
    with h2_tunnel(ours, "api.test") as client:
        until_settings(client)
        yield client


def until_settings(client: H2Client):
    while not client.settings_seen:
        client.pump()


def test_it_is_offered(client):
    assert client.h2.remote_settings[EXTENDED_CONNECT] == 1


def test_the_upstream_sees_an_upgrade_with_the_credential(ours, origin, client):
    origin.on("/h2/one", lambda peer: (peer.accept(protocol="realtime"), peer.echo()))
    ws = WsStream(client, "/h2/one", [
        ("authorization", "Bearer " + PLACEHOLDER),
        ("sec-websocket-protocol", "realtime, openai-insecure-api-key.x"),
        ("sec-websocket-extensions", "permessage-deflate")])  # fmt: skip
    assert ws.open().get("sec-websocket-protocol") == "realtime"
    peer = origin.last()
    assert peer.line == "GET /h2/one HTTP/1.1" and has_real_key(peer)
    assert peer.all("sec-websocket-protocol") == ["realtime"]
    assert not peer.all("authorization") and not peer.all("sec-websocket-extensions")
    for message in ("hello", "x" * 100000):
        ws.put(TEXT, message)
        assert ws.message() == (TEXT, message.encode())
    ws.put(PING, "p")
    assert ws.get() == (True, PONG, b"p")
    ws.put(CLOSE, close_payload(1000))
    ws.expect_close(1000)
    assert ws.ended()
    record = closed(ours, "/h2/one")
    assert record["websocket.up.messages"] == record["websocket.down.messages"] == 2
    assert record["websocket.close.code"] == 1000 and record["complete"] is True
    assert ours.records_of("/h2/one")[0]["http.request.method"] == "GET"


def test_several_and_a_request_share_a_connection(origin, client):
    origin.on("/h2/plain", lambda peer: peer.send(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))  # fmt: skip
    streams = [WsStream(client, f"/h2/many/{n}") for n in range(8)]
    for ws in streams:
        ws.open()
    assert client.ask("GET", "/h2/plain").body == b"ok"
    for n, ws in enumerate(streams):
        ws.put(BINARY, bytes([n]) * 3000)
    for n, ws in reversed(list(enumerate(streams))):
        assert ws.message() == (BINARY, bytes([n]) * 3000)


def test_frames_before_the_answer_wait_for_it(origin, client):
    ws = WsStream(client, "/h2/early")
    ws.put(TEXT, "early")
    ws.open()
    assert ws.message() == (TEXT, b"early")


def test_another_answer_is_a_response(origin, client):
    origin.on("/h2/no", lambda peer: peer.send(
        b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"))  # fmt: skip
    ws = WsStream(client, "/h2/no")
    assert client.wait_head(ws.stream).status == 403


def test_a_200_that_opens_none_is_no_200(origin, client):
    """RFC 8441 section 5 would take it for an open WebSocket."""
    origin.on("/h2/plain-200", lambda peer: peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"))
    ws = WsStream(client, "/h2/plain-200")
    assert client.wait_head(ws.stream).status == 502


@pytest.mark.parametrize(("how", "status"), [
    ({"version": "8"}, 426), ({"version": None}, 426), ({"end": True}, 400),
    ({"protocol": "connect-udp"}, 501),
])  # fmt: skip
def test_what_is_none_goes_nowhere(origin, client, how, status):
    before = len(origin.seen)
    ws = WsStream(client, "/h2/none", **how)
    assert client.wait_head(ws.stream).status == status
    assert len(origin.seen) == before


def test_a_broken_frame_ends_its_stream_alone(ours, client):
    other = WsStream(client, "/h2/other")
    other.open()
    ws = WsStream(client, "/h2/broken")
    ws.open()
    ws.send(frame(TEXT, "a"))
    ws.expect_close(1002)
    ws.put(CLOSE, close_payload(1002))
    other.put(TEXT, "still")
    assert other.message() == (TEXT, b"still")
    ws.ended()
    assert closed(ours, "/h2/broken")["reason"] == "websocket_sandbox"


def test_an_upstream_that_goes_without_a_word_is_seen(ours, origin, client):
    origin.on("/h2/lost", lambda peer: (peer.accept(), peer.put(TEXT, "one")))
    ws = WsStream(client, "/h2/lost")
    ws.open()
    assert ws.message() == (TEXT, b"one")
    assert not ws.ended(), "an end that looks whole"
    assert closed(ours, "/h2/lost")["websocket.close.code"] == 1006


def test_a_stream_that_is_given_up(ours, origin, client):
    ws = WsStream(client, "/h2/given-up")
    ws.open()
    client.h2.reset_stream(ws.stream, 8)
    client.flush()
    record = closed(ours, "/h2/given-up")
    assert record["reason"] == "sandbox_closed" and record["websocket.close.code"] == 1006


def test_a_rule_may_refuse_them(origin):
    daemons = Daemons([origin])
    try:
        daemon = daemons(rules=[{"allow": "https://api.test", "websocket": False}])
        with h2_tunnel(daemon, "api.test") as client:
            ws = WsStream(client, "/x")
            assert client.wait_head(ws.stream).status == 426
    except Reset as reset:
        raise AssertionError("reset instead of an answer") from reset
    finally:
        daemons.end()
