"""HTTP/2 clients that mean harm: each is answered as RFC 9113 says, and nothing reaches an upstream."""

import struct
import time

import pytest
from h2client import h2_plain, h2_tunnel
from harness import Closed, Tunnel, Wire, until
from hyperframe.frame import (
    ContinuationFrame, DataFrame, Frame, HeadersFrame, PingFrame, PriorityFrame, RstStreamFrame, SettingsFrame,
    WindowUpdateFrame,
)  # fmt: skip

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED = 0, 1, 3, 5
FRAME_SIZE_ERROR, REFUSED_STREAM, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 6, 7, 9, 11


def literal(name, value):
    """A field as a literal without indexing, whatever its bytes are (no Huffman, no checks)."""
    name, value = (x.encode("latin-1") if isinstance(x, str) else x for x in (name, value))

    def text(data):
        if len(data) < 127:
            return bytes([len(data)]) + data
        rest, out = len(data) - 127, b"\x7f"
        while rest >= 128:
            out += bytes([rest % 128 + 128])
            rest //= 128
        return out + bytes([rest]) + data

    return b"\x00" + text(name) + text(value)


def block(*fields):
    return b"".join(literal(n, v) for n, v in fields)


GET = [(":method", "GET"), (":scheme", "https"), (":authority", "open.test"), (":path", "/test/echo")]


def headers(stream, *fields, flags=("END_HEADERS", "END_STREAM"), data=None):
    return HeadersFrame(stream, block(*fields) if data is None else data, flags=list(flags))


def raw_stream(client, *fields, end=True, more=()):
    """Sends a head byte by byte as it stands here. Return: the stream."""
    stream = client.start_head(client.head("GET", "/test/echo?first=1"), end=True)
    client.wait(stream)  # h2 has begun; now its next number is taken behind its back
    number = client.h2.get_next_available_stream_id()
    flags = ("END_HEADERS", "END_STREAM") if end else ("END_HEADERS",)
    client.raw(headers(number, *fields, flags=flags), *more)
    return number


def outcome(client, number):
    """What became of it: ("status", n), ("reset", code) or ("goaway", code)."""
    wire = client.wire
    decoder = client.h2.decoder
    while True:
        try:
            head = wire.take(9)
        except Closed:
            return ("closed", None)
        frame, length = Frame.parse_frame_header(memoryview(head))
        frame.parse_body(memoryview(wire.take(length)))
        if frame.type == 1:
            fields = decoder.decode(frame.data)
            if frame.stream_id == number:
                return ("status", int(dict((n, v) for n, v in fields)[":status"]))
        elif frame.type == 3 and frame.stream_id == number:
            return ("reset", frame.error_code)
        elif frame.type == 7:
            return ("goaway", frame.error_code)


def is_alive(daemon):
    with h2_tunnel(daemon, "open.test") as client:
        return client.ask("GET", "/test/status?code=204").status == 204


MALFORMED = {
    "upper-case": [*GET, ("X-Upper", "1")],
    "pseudo-late": [GET[0], GET[1], GET[2], ("x-a", "1"), GET[3]],
    "pseudo-twice": [*GET, (":path", "/other")],
    "authority-twice": [*GET, (":authority", "open.test")],
    "pseudo-unknown": [*GET[:3], (":proto", "x"), GET[3]],
    "status-in-a-request": [*GET, (":status", "200")],
    "no-method": GET[1:],
    "no-scheme": [GET[0], *GET[2:]],
    "no-path": GET[:3],
    "empty-path": [*GET[:3], (":path", "")],
    "path-without-slash": [*GET[:3], (":path", "test/echo")],
    "absolute-path": [*GET[:3], (":path", "https://open.test/test/echo")],
    "connection": [*GET, ("connection", "close")],
    "keep-alive": [*GET, ("keep-alive", "1")],
    "proxy-connection": [*GET, ("proxy-connection", "x")],
    "transfer-encoding": [*GET, ("transfer-encoding", "chunked")],
    "upgrade": [*GET, ("upgrade", "websocket")],
    "te-gzip": [*GET, ("te", "gzip")],
    "host-differs": [*GET, ("host", "other.test")],
    "cr-in-a-value": [*GET, ("x-a", "1\rx-b: 2")],
    "lf-in-a-value": [*GET, ("x-a", "1\nx-b: 2")],
    "crlf-in-a-value": [*GET, ("x-a", "1\r\nx-b: 2")],
    "nul-in-a-value": [*GET, ("x-a", "1\x002")],
    "blank-before-a-value": [*GET, ("x-a", " 1")],
    "blank-behind-a-value": [*GET, ("x-a", "1 ")],
    "crlf-in-a-name": [*GET, ("x-a\r\nx-b", "1")],
    "colon-in-a-name": [*GET, ("x:a", "1")],
    "blank-in-a-name": [*GET, ("x a", "1")],
    "empty-name": [*GET, ("", "1")],
    "crlf-in-the-path": [*GET[:3], (":path", "/test/echo HTTP/1.1\r\nx-b: 1\r\n\r\n")],
    "blank-in-the-path": [*GET[:3], (":path", "/test/echo x")],
    "nul-in-the-path": [*GET[:3], (":path", "/test/\x00echo")],
    "crlf-in-the-method": [(":method", "GET / HTTP/1.1\r\nx: y\r\n\r\nGET"), *GET[1:]],
    "crlf-in-the-authority": [*GET[:2], (":authority", "open.test\r\nx-b: 1"), GET[3]],
    "user-in-the-authority": [*GET[:2], (":authority", "u:p@open.test"), GET[3]],
    "length-that-is-none": [*GET, ("content-length", "x")],
    "length-negative": [*GET, ("content-length", "-1")],
    "length-plus": [*GET, ("content-length", "+0")],
    "length-list": [*GET, ("content-length", "0, 0")],
    "length-twice": [*GET, ("content-length", "0"), ("content-length", "0")],
    "length-and-no-data": [*GET, ("content-length", "5")],
    "connect-with-a-path": [(":method", "CONNECT"), *GET[1:]],
    "protocol-that-is-unknown": [(":method", "CONNECT"), (":protocol", "x"), *GET[1:]],
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_is_malformed_ends_its_stream_and_goes_nowhere(shared, mock, kind):
    with h2_tunnel(shared, "open.test") as client:
        mark = mock.mark()
        number = raw_stream(client, *MALFORMED[kind])
        what, code = outcome(client, number)
        assert (what, code) == ("reset", PROTOCOL_ERROR) or (what == "status" and (400 <= code < 500 or code == 501)), (
            what, code)  # fmt: skip
        assert len(mock.requests(since=mark)) == 1, "only the good one before it came through"
    assert is_alive(shared)


@pytest.mark.parametrize("data, length", [(b"abc", 5), (b"abcdefg", 5), (b"", 5)])
def test_a_length_that_data_disagrees_with(shared, mock, data, length):
    """Its head may be upstream by then; that it is whole, no upstream is told."""
    path = f"/test/echo/disagrees-{len(data)}-{length}"
    with h2_tunnel(shared, "open.test") as client:
        head = [(":method", "POST"), *GET[1:3], (":path", path), ("content-length", str(length))]
        number = raw_stream(client, *head, end=False)
        client.raw(DataFrame(number, data, flags=["END_STREAM"]))
        assert outcome(client, number) == ("reset", PROTOCOL_ERROR)
    last = until("its end", lambda: [r for r in shared.records_of(path) if r["event"] != "open"])[0]
    assert last["reason"] == "malformed_request" and not last.get("complete")
    assert last.get("http.request.body.size", 0) < length
    assert is_alive(shared)


def test_unknown_frames_and_flags_are_ignored(shared):
    with h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        client.raw(*[b"\x00\x00\x02\xee\xff\x00\x00\x00\x00xx"] * 100)
        assert client.ask("GET", "/test/echo").status == 200


def test_a_head_past_the_cap_is_answered_431(shared, mock):
    mark = mock.mark()
    with h2_tunnel(shared, "open.test") as client:
        fields = [(f"x-{n}", "y" * 1000) for n in range(100)]
        assert client.ask("GET", "/test/echo", fields).status == 431
        assert client.ask("GET", "/test/echo", [(f"x-{n}", "") for n in range(129)]).status == 431
        assert client.ask("GET", "/test/echo").status == 200
    assert len(mock.requests(since=mark)) == 1


def test_an_hpack_bomb_ends_the_connection(shared):
    """One long field in the table, and a byte for each time that it is named."""
    with h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        bomb = b"\x40\x03x-a" + b"\x7f\xc1\x1e" + b"y" * 4032 + b"\xbe" * 12000
        number = client.h2.get_next_available_stream_id()
        client.raw(headers(number, data=block(*GET) + bomb))
        what, code = outcome(client, number)
        assert what == "goaway" or (what, code) == ("status", 431), (what, code)
    assert is_alive(shared)


def test_continuations_without_end_end_the_connection(shared):
    with h2_tunnel(shared, "open.test") as client:
        pid = shared.worker_pid()
        before = shared.resident_kib(pid)
        number = client.h2.get_next_available_stream_id()
        client.raw(headers(number, data=block(*GET), flags=()))
        with pytest.raises((OSError, Closed)):
            for _ in range(20000):
                client.raw(ContinuationFrame(number, block(("x-a", "y" * 200))))
            assert outcome(client, number)[0] in ("goaway", "closed")
            raise Closed
        assert shared.resident_kib(pid) - before < 2048
    assert is_alive(shared)


def flood(client, frames, count=20000):
    """Sends until the other side has had enough. Return: the code of its GOAWAY, or None."""
    client.wire.sock.settimeout(5)
    try:
        for n in range(count):
            client.raw(*frames(n))
    except (OSError, Closed):
        pass
    what, code = outcome(client, -1)
    return code if what == "goaway" else what


FLOODS = {
    "ping": lambda n: [PingFrame(0, struct.pack(">Q", n))] * 16,
    "settings": lambda n: [SettingsFrame(0, {4: 65535})] * 16,
    "priority": lambda n: [PriorityFrame(2 * n + 101, depends_on=0, stream_weight=1)] * 16,
    "window-updates": lambda n: [WindowUpdateFrame(0, 1)] * 16,
    "rapid-reset": lambda n: [headers(2 * n + 101, *GET[:3], (":path", "/test/hold")),
                              RstStreamFrame(2 * n + 101, 8)],
    "heads-that-are-malformed": lambda n: [headers(2 * n + 101, *GET, ("X-U", "1"))],
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_the_connection_and_disturbs_nobody(shared, mock, kind):
    with h2_tunnel(shared, "open.test") as bystander, h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        mark = mock.mark()
        pid = shared.worker_pid()
        before = shared.resident_kib(pid)
        assert flood(client, FLOODS[kind]) in (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, "closed")
        assert bystander.ask("GET", "/test/echo").status == 200
        assert shared.resident_kib(pid) - before < 8192
        assert len(mock.requests(since=mark)) < 1000, "what a rapid reset gets through is bounded"
    assert is_alive(shared)


def test_empty_data_frames_without_end(shared):
    with h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        number = client.h2.get_next_available_stream_id()
        client.raw(headers(number, (":method", "POST"), *GET[1:], flags=("END_HEADERS",)))
        code = flood(client, lambda n: [DataFrame(number, b"")] * 16)
        assert code in (ENHANCE_YOUR_CALM, "closed")
    assert is_alive(shared)


CONNECTION_ERRORS = {
    "data-on-stream-0": (b"\x00\x00\x01\x00\x01\x00\x00\x00\x00x", PROTOCOL_ERROR),
    "headers-on-stream-0": (b"\x00\x00\x01\x01\x05\x00\x00\x00\x00\x82", PROTOCOL_ERROR),
    "even-stream": (b"\x00\x00\x01\x01\x05\x00\x00\x00\x02\x82", PROTOCOL_ERROR),
    "push-promise": (b"\x00\x00\x05\x05\x04\x00\x00\x00\x01\x00\x00\x00\x02\x82", PROTOCOL_ERROR),
    "settings-of-7-bytes": (b"\x00\x00\x07\x04\x00\x00\x00\x00\x00" + b"x" * 7, FRAME_SIZE_ERROR),
    "ping-of-7-bytes": (b"\x00\x00\x07\x06\x00\x00\x00\x00\x00" + b"x" * 7, FRAME_SIZE_ERROR),
    "window-overflow": (b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff", FLOW_CONTROL_ERROR),
    "a-frame-of-16-mib": (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", FRAME_SIZE_ERROR),
    "hpack-index-0": (b"\x00\x00\x01\x01\x05\x00\x00\x00\x65\x80", COMPRESSION_ERROR),
    "continuation-of-nothing": (b"\x00\x00\x01\x09\x04\x00\x00\x00\x65\x82", PROTOCOL_ERROR),
    "data-on-an-idle-stream": (b"\x00\x00\x01\x00\x01\x00\x00\x00\x65x", PROTOCOL_ERROR),
}


@pytest.mark.parametrize("kind", CONNECTION_ERRORS)
def test_connection_errors_end_in_goaway(shared, kind):
    data, code = CONNECTION_ERRORS[kind]
    with h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        client.raw(data)
        assert outcome(client, -1) == ("goaway", code)
        assert client.wire.is_closed()
    assert is_alive(shared)


def test_more_streams_than_offered_are_refused(shared, mock):
    with h2_tunnel(shared, "open.test") as client:
        client.ask("GET", "/test/echo")
        most = client.h2.remote_settings.max_concurrent_streams
        assert 100 <= most <= 1000
        first = client.h2.get_next_available_stream_id()
        for n in range(most + 5):
            client.raw(headers(first + 2 * n, *GET[:3], (":path", "/test/hold")))
        assert outcome(client, first + 2 * most) in (("reset", REFUSED_STREAM), ("goaway", PROTOCOL_ERROR))
    assert is_alive(shared)


def test_a_preface_that_breaks_off_or_is_another(shared):
    for start in (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n", b"PRI * HTTP/1.1\r\nHost: a\r\n\r\n"):
        with Wire(shared.socket_path) as wire:
            wire.send(start)
            wire.shutdown()
            rest = wire.rest()
            assert rest == b"" or rest.startswith(b"HTTP/1.1 4") or rest.startswith(b"HTTP/1.1 5"), rest
    assert is_alive(shared)


def test_an_h2c_offer_is_not_passed_on(shared, mock):
    """RFC 9113 §3.1 took it out; passed on, it would carry requests that nobody has decided."""
    mark = mock.mark()
    with Tunnel(shared, "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("Connection", "Upgrade, HTTP2-Settings"),
                                                  ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")])  # fmt: skip
        assert answer.status == 200
    fields = mock.requests(since=mark)[0]["fields"]
    assert not {"upgrade", "http2-settings", "connection"} & {name.lower() for name in fields}, fields
    mark = mock.mark()
    with Tunnel(shared, "open.test") as tunnel:  # without the option of Connection
        assert tunnel.ask("GET", "/test/echo", [("HTTP2-Settings", "AAMAAABk")]).status == 200
    assert "http2-settings" not in {name.lower() for name in mock.requests(since=mark)[0]["fields"]}


def test_no_preface_after_tls_without_alpn(shared):
    with Tunnel(shared, "open.test", alpn=()) as tunnel:
        tunnel.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
        assert tunnel.read_head().status in (400, 505)


def test_a_connection_that_sends_nothing_after_its_preface_ends(daemon):
    d = daemon({"timeouts": {"idle_down": "300ms", "header": "300ms"}})
    with h2_plain(d) as client:
        assert client.until_closed()
    with Wire(d.socket_path) as wire:
        wire.send(b"PRI * HTTP")
        assert wire.rest()[:12] in (b"", b"HTTP/1.1 408")
    until("it serves", lambda: is_alive(d))


def test_limits_a_connection_are_said_by_goaway(daemon):
    d = daemon({"limits": {"exchanges": 5}})
    with h2_tunnel(d, "open.test") as client:
        for _ in range(4):  # the tunnel's CONNECT was the first
            assert client.ask("GET", "/test/echo").status == 200
        assert client.until_goaway() == NO_ERROR
        assert client.until_closed()
