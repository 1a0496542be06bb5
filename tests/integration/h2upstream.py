"""h2upstream.py - an upstream that speaks HTTP/2, with paths that a test asks for

A thread a connection, in the test's own process; Python's h2 keeps the protocol's state. What it
would refuse to send goes out as bare frames. Paths, below /test/:

  echo                 what came in, as JSON (the real key replaced by its fingerprint)
  bytes?n=             n bytes of a known pattern, as the windows allow
  trailers             content with trailers
  interim?n=           n times 103 before the final answer
  status?code=         that status and nothing else
  redirect             308 to echo, with the query as it came
  announced?code=      a HEAD's or a 304's length without content
  early                413 before the content has been read, then RST_STREAM(NO_ERROR)
  refuse?times=        REFUSED_STREAM that many times, once if it is not said; then as echo. At the
                       head; with late=1 when all of the content is there
  goaway               GOAWAY that excludes this stream, the first time; then as echo
  last                 GOAWAY that includes this stream, then the answer
  reset?code=          RST_STREAM without a head; with head=1 behind half an answer
  cut                  half an answer, then the connection's end; nothing=1: no answer at all
  sse?n=&ms=           n events
  hold                 no answer
  fields?kind=         a head that none may be, see BAD_HEADS
  frame?kind=          a frame that breaks the connection, see BAD_FRAMES
  continue             100 before the content; then as echo

A connection whose number is in `mute` hears everything and says nothing any more; one in `unsettled`
has not even said its settings; one in `no_pong` answers no PING.
"""

import contextlib
import hashlib
import json
import os
import socket
import ssl
import threading
import time
from urllib.parse import parse_qs, unquote, urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack
import hyperframe.frame as frames
import pytest
from clients import Tunnel
from common import FINGERPRINT, SECRET, shut, mock_module
from daemons import NAMES, Daemons, base_config, merge
from h2client import h2_tunnel
from upstream import SPELLED

PATTERN = bytes(range(256)) * 256

OK = (":status", "200")
BAD_HEADS = {
    "no-status": [("server", "x")],
    "two-statuses": [OK, OK],
    "status-text": [(":status", "abc")],
    "status-101": [(":status", "101")],
    "status-600": [(":status", "600")],
    "late-pseudo": [("server", "x"), OK],
    "request-pseudo": [OK, (":path", "/")],
    "upper-case": [OK, ("X-Upper", "1")],
    "crlf": [OK, ("x", "a\r\nset-cookie: b")],
    "nul": [OK, ("x", "a\0b")],
    "blank": [OK, ("x", " a")],
    "connection": [OK, ("connection", "close")],
    "transfer-encoding": [OK, ("transfer-encoding", "chunked")],
    "disguised-coding": [OK, ("transfer_encoding", "chunked")],
    "disguised-length": [OK, ("content_length", "3")],
    "two-lengths": [OK, ("content-length", "1"), ("content-length", "1")],
    "length-text": [OK, ("content-length", "x")],
    "length-without-content": [OK, ("content-length", "5")],
    "huge": [OK, *[(f"x-{i}", "y" * 1000) for i in range(100)]],
    "many": [OK, *[(f"x-{i}", "y") for i in range(200)]],
}
BAD_FRAMES = {
    "push": lambda s: frames.PushPromiseFrame(s, promised_stream_id=2, data=b"\x82",
                                              flags=["END_HEADERS"]).serialize(),
    "data-before-head": lambda s: frames.DataFrame(s, data=b"x").serialize(),
    "unknown-stream": lambda s: frames.HeadersFrame(s + 100, data=b"\x88",
                                                    flags=["END_HEADERS"]).serialize(),
    "bad-hpack": lambda s: frames.HeadersFrame(s, data=b"\xff" * 9, flags=["END_HEADERS"]).serialize(),
    "huge-frame": lambda s: b"\x01\x00\x01\x00\x00" + s.to_bytes(4, "big") + b"x" * 65537,
    "http1": lambda s: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "ping-flood": lambda s: frames.PingFrame(0, b"12345678").serialize() * 5000,
    "settings-flood": lambda _: frames.SettingsFrame(0).serialize() * 5000,
    "window-flood": lambda _: frames.WindowUpdateFrame(0, window_increment=1).serialize() * 5000,
    "priority-flood": lambda s: frames.PriorityFrame(s, stream_weight=1).serialize() * 5000,
    "reset-flood": lambda s: frames.RstStreamFrame(s + 2, 8).serialize() * 5000,
    "continuation": lambda s: frames.HeadersFrame(s, data=b"").serialize()
    + frames.ContinuationFrame(s, data=b"").serialize() * 50,
}  # fmt: skip


class Request:
    def __init__(self, headers):
        self.headers = headers
        self.path = dict(headers).get(":path", "")
        parts = urlsplit(self.path)
        self.mode = parts.path.rpartition("/")[2]
        self.arguments = {n: v[0] for n, v in parse_qs(parts.query).items()}
        self.body = hashlib.sha256()
        self.body_bytes = 0
        self.beginning = b""
        self.trailers = []


def without_pings(data):
    kept = b""
    while data:
        size = 9 + int.from_bytes(data[:3], "big")
        kept += data[:size] if data[3] != frames.PingFrame.type else b""
        data = data[size:]
    return kept


class Connection:
    def __init__(self, server, sock, number):
        self.server, self.sock, self.number = server, sock, number
        config = h2.config.H2Configuration(
            client_side=False, header_encoding="latin-1", validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )  # fmt: skip
        self.h2 = h2.connection.H2Connection(config)
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: server.max_streams,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: server.window,
            },
        )
        self.requests = {}
        self.pending = {}  # stream: content that windows do not take yet
        self.open = 0

    def flush(self):
        data = self.h2.data_to_send()
        if self.number in self.server.no_pong:
            data = without_pings(data)
        if data:
            self.sock.sendall(data)

    def run(self):
        if self.number not in self.server.unsettled:
            self.h2.initiate_connection()
            self.flush()
        while data := self.sock.recv(65536):
            if self.number in self.server.mute | self.server.unsettled:
                continue
            if self.server.pace:
                time.sleep(self.server.pace)
            for event in self.h2.receive_data(data):
                self.on_event(event)
            self.flush()
            # Python's h2 gives windows back by our word only.
        self.server.note("end", conn=self.number)

    def on_event(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.open += 1
            self.server.most_open = max(self.server.most_open, self.open)
            request = self.requests[event.stream_id] = Request(event.headers)
            self.server.note("head", conn=self.number, stream=event.stream_id, path=request.path)
            if request.mode == "early":
                self.early(event.stream_id)
            elif request.mode == "refuse" and not request.arguments.get("late"):
                self.refuse(event.stream_id, request)
            elif request.mode == "continue":
                self.h2.send_headers(event.stream_id, [(":status", "100")])
        elif isinstance(event, h2.events.DataReceived):
            request = self.requests[event.stream_id]
            request.body.update(event.data)
            request.body_bytes += len(event.data)
            request.beginning = (request.beginning + event.data)[:1000]
            if request.mode != "deaf":
                with contextlib.suppress(h2.exceptions.ProtocolError):
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            self.requests[event.stream_id].trailers = event.headers
        elif isinstance(event, h2.events.StreamEnded):
            self.answer(event.stream_id, self.requests[event.stream_id])
        elif isinstance(event, h2.events.StreamReset):
            self.server.note("reset", conn=self.number, stream=event.stream_id, code=event.error_code)
            self.pending.pop(event.stream_id, None)
        elif isinstance(event, h2.events.WindowUpdated):
            for stream in list(self.pending):
                self.push(stream)
        elif isinstance(event, h2.events.PingReceived):
            self.server.note("ping", conn=self.number)

    # --- answers

    def head(self, stream, fields, end=False):
        self.h2.send_headers(stream, [(str(n), str(v)) for n, v in fields], end_stream=end)
        if end:
            self.open -= 1

    def reply(self, stream, status, body=b"", fields=()):
        self.head(stream, [(":status", status), ("content-length", len(body)), *fields])
        self.pending[stream] = body
        self.push(stream)

    def push(self, stream):
        body = self.pending[stream]
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room <= 0:
                break
            self.h2.send_data(stream, body[:room])
            body = body[room:]
            self.flush()
        self.pending[stream] = body
        if not body:
            self.h2.end_stream(stream)
            self.open -= 1
            del self.pending[stream]

    def raw(self, data):
        self.flush()
        self.sock.sendall(data)

    def raw_head(self, stream, fields, end=True):
        block = hpack.Encoder().encode([(n.encode("latin-1"), v.encode("latin-1"), True) for n, v in fields])
        pieces = [block[i : i + 16384] for i in range(0, len(block), 16384)]
        out = b""
        for n, piece in enumerate(pieces):
            frame = (frames.HeadersFrame if n == 0 else frames.ContinuationFrame)(stream, data=piece)
            if n == 0 and end:
                frame.flags.add("END_STREAM")
            if n == len(pieces) - 1:
                frame.flags.add("END_HEADERS")
            out += frame.serialize()
        self.raw(out)

    def answer(self, stream, request):
        self.server.note("request", conn=self.number, stream=stream, path=request.path,
                         fields=request.headers, body_bytes=request.body_bytes,
                         trailers=request.trailers)  # fmt: skip
        getattr(self, "test_" + request.mode.replace("-", "_"), self.test_echo)(stream, request)

    def hide(self, text):
        return text.replace(SECRET, "sha256:" + FINGERPRINT)

    def test_echo(self, stream, request):
        what = {
            "fields": [[n, self.hide(v)] for n, v in request.headers],
            "body_bytes": request.body_bytes,
            "body_sha256": request.body.hexdigest(),
            "body": self.hide(request.beginning.decode("latin-1")),
            "trailers": [list(t) for t in request.trailers],
            "conn": self.number,
            "stream": stream,
        }
        self.reply(stream, 200, json.dumps(what).encode(), [("content-type", "application/json")])

    def test_bytes(self, stream, request):
        n = int(request.arguments["n"])
        self.reply(stream, 200, (PATTERN * (n // len(PATTERN) + 1))[:n])

    def test_trailers(self, stream, _request):
        self.head(stream, [OK, ("content-type", "application/grpc")])
        self.h2.send_data(stream, b"one two")
        self.head(stream, [("grpc-status", "0"), ("x-sum", "7")], end=True)

    def test_interim(self, stream, request):
        for _ in range(int(request.arguments.get("n", "1"))):
            self.h2.send_headers(stream, [(":status", "103"), ("link", "</a.css>; rel=preload")])
        self.reply(stream, 200, b"done")

    def test_status(self, stream, request):
        self.head(stream, [(":status", request.arguments["code"])], end=True)

    def test_login(self, stream, request):
        query = request.path.partition("?")[2]
        how, _, key = query.removeprefix("how=").partition("&key=")
        where = "/login?next=%2Fa%3Fkey%3D" + SPELLED[how](unquote(key)) + "&b=1"
        self.reply(stream, 302, fields=[("location", where)])

    def test_redirect(self, stream, request):
        where = "https://api.test" + request.path.replace("redirect", "echo")
        self.reply(stream, 308, fields=[("location", where), ("link", f"<{where}>; rel=x")])

    def test_announced(self, stream, request):
        self.head(stream, [(":status", request.arguments.get("code", "200")),
                           ("content-length", "500")], end=True)  # fmt: skip

    def early(self, stream):
        self.head(stream, [(":status", "413")])
        self.h2.send_data(stream, b"too much", end_stream=True)
        self.flush()
        self.h2.reset_stream(stream, h2.errors.ErrorCodes.NO_ERROR)

    def test_early(self, stream, request):
        pass

    def refuse(self, stream, request):
        request.refused = self.server.count(request.path) <= int(request.arguments.get("times", "1"))
        if request.refused:
            self.h2.reset_stream(stream, h2.errors.ErrorCodes.REFUSED_STREAM)
            self.open -= 1

    def test_refuse(self, stream, request):
        if request.arguments.get("late"):
            self.refuse(stream, request)
        if not request.refused:
            self.test_echo(stream, request)

    def test_goaway(self, stream, request):
        if self.server.first_time(request.path):
            self.raw(frames.GoAwayFrame(0, last_stream_id=max(0, stream - 2)).serialize())
        else:
            self.test_echo(stream, request)

    def test_last(self, stream, request):
        self.raw(frames.GoAwayFrame(0, last_stream_id=stream).serialize())
        self.test_echo(stream, request)

    def test_reset(self, stream, request):
        if request.arguments.get("head"):
            self.head(stream, [OK])
            self.h2.send_data(stream, b"half of")
            self.flush()
            time.sleep(0.2)
        self.h2.reset_stream(stream, int(request.arguments.get("code", "2")))

    def test_cut(self, stream, request):
        if not request.arguments.get("nothing"):
            self.head(stream, [OK, ("content-length", "1000")])
            self.h2.send_data(stream, b"half of")
            self.flush()
            time.sleep(0.2)
        self.sock.close()
        raise OSError("cut, as asked")

    def test_sse(self, stream, request):
        self.head(stream, [OK, ("content-type", "text/event-stream")])
        for n in range(int(request.arguments["n"])):
            self.h2.send_data(stream, b"data: " + json.dumps({"n": n, "sent": time.monotonic()}).encode() + b"\n\n")
            self.flush()
            time.sleep(int(request.arguments["ms"]) / 1000)
        self.h2.end_stream(stream)

    def test_hold(self, stream, request):
        pass

    test_deaf = test_hold

    def test_fields(self, stream, request):
        self.raw_head(stream, BAD_HEADS[request.arguments["kind"]])

    def test_frame(self, stream, request):
        self.raw(BAD_FRAMES[request.arguments["kind"]](stream))


class H2Upstream:
    connection = Connection

    def __init__(self, folder, names, alpn=("h2",), max_streams=100, window=65535):
        os.makedirs(folder, exist_ok=True)
        authority = mock_module.make_ca(folder)
        cert, key = mock_module.make_leaf(folder, authority, names)
        self.ca = authority[0]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.context.set_alpn_protocols(list(alpn))
        self.max_streams, self.window, self.pace = max_streams, window, 0
        self.delay = 0  # before the handshake
        self.events = []
        self.seen = set()
        self.counts = {}
        self.mute, self.unsettled, self.no_pong = set(), set(), set()
        self.most_open = 0
        self.connections = 0
        self.socks = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self.serve, args=(sock, self.connections), daemon=True).start()

    def serve(self, sock, number):
        with contextlib.suppress(OSError, h2.exceptions.ProtocolError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            time.sleep(self.delay)
            tls = self.context.wrap_socket(sock, server_side=True)
            self.note("open", conn=number, alpn=tls.selected_alpn_protocol())
            self.socks.append(tls)
            with tls:
                self.connection(self, tls, number).run()

    def note(self, kind, **what):
        self.events.append({"event": kind, **what})

    def of(self, kind, **match):
        return [e for e in self.events if e["event"] == kind and all(e.get(k) == v for k, v in match.items())]

    def first_time(self, path):
        if path in self.seen:
            return False
        self.seen.add(path)
        return True

    def count(self, path):
        self.counts[path] = self.counts.get(path, 0) + 1
        return self.counts[path]

    def close_idle(self):
        """Ends every connection that there is."""
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.socks.clear()

    def check_forbidden(self):
        pass

    def stop(self):
        shut(self.listener)
        self.close_idle()


# --- for test files: daemons in front of one, and clients; a file imports what it uses ---------------


@pytest.fixture(name="up")
def make_up(tmp_path_factory):
    upstream = H2Upstream(str(tmp_path_factory.mktemp("h2up")), NAMES)
    yield upstream
    upstream.stop()


@pytest.fixture(name="daemon")
def make_daemon(up):
    with Daemons([up]) as daemons:

        def start(overrides=None, upstream=up):
            # Connections are an event thread's own: with one, a test knows which it is.
            one = {"worker": {"threads": 1}}
            return daemons(config=merge(merge(base_config(upstream), one), overrides or {}))

        yield start


def ask_h1(daemon, path, method="GET", fields=(), body=None, host="open.test"):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask(method, path, fields=fields, body=body) if body is not None else tunnel.ask(
            method, path, fields=fields)  # fmt: skip


def ask_h2(daemon, path, method="GET", fields=(), body=None, host="open.test"):
    with h2_tunnel(daemon, host) as client:
        return client.ask(method, path, fields, body)


both = pytest.mark.parametrize("ask", [ask_h1, ask_h2], ids=["from-h1", "from-h2"])
