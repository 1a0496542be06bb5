"""h2client.py - an HTTP/2 client by hand, on the sandbox's socket or inside a tunnel

Python's h2 keeps the protocol's state; what it would refuse to send goes out as bare frames
(hyperframe) instead. Whatever arrives is searched for the real key after it was decoded, too.
"""

import ssl

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from clients import Closed, Refused, Response, Tunnel, Wire
from common import PATIENCE, SECRET


class Reset(Exception):
    """The stream ended by RST_STREAM."""

    def __init__(self, code, response):
        super().__init__(f"RST_STREAM({code!s}), so far: {response!r}")
        self.code = int(code)
        self.response = response


class Goaway(Exception):
    """The connection ended by GOAWAY."""

    def __init__(self, code):
        super().__init__(f"GOAWAY({code!s})")
        self.code = int(code)


class Stream:
    def __init__(self):
        self.response = None
        self.interim = []
        self.parts = []
        self.trailers = []
        self.ended = False
        self.reset = None

    def whole(self):
        response = self.response
        response.body = b"".join(self.parts)
        response.interim = self.interim
        response.trailers = self.trailers
        response.complete = self.ended
        return response


class H2Client:
    """HTTP/2 on a connection that is there already (a Wire)."""

    def __init__(self, wire, authority=None, scheme="https", window=2**20, acknowledge=True):
        self.wire = wire
        self.authority = authority or getattr(wire, "host", None)
        self.scheme = scheme
        config = h2.config.H2Configuration(
            client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False,
            validate_inbound_headers=True, header_encoding="latin-1",
        )  # fmt: skip
        self.h2 = h2.connection.H2Connection(config)
        self.h2.max_inbound_frame_size = 2**14
        codes = h2.settings.SettingCodes
        self.h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={codes.INITIAL_WINDOW_SIZE: window, codes.ENABLE_PUSH: 0,
                            codes.MAX_HEADER_LIST_SIZE: 2**20},
        )  # fmt: skip
        self.h2.initiate_connection()
        if window > 65535:
            self.h2.increment_flow_control_window(window)
        self.acknowledge = acknowledge
        self.streams = {}
        self.goaway = None
        self.last_streams = []  # as each GOAWAY said
        self.pongs = 0
        self.pending = b""
        self.settings_seen = False
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.wire.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.wire.send(data)

    def raw(self, *frames):
        """Frames that h2 would not send."""
        self.flush()
        self.wire.send(b"".join(f if isinstance(f, bytes) else f.serialize() for f in frames))

    # --- requests

    def head(self, method, path, fields=(), authority=None):
        return [(":method", method), (":scheme", self.scheme),
                (":authority", authority or self.authority), (":path", path), *fields]  # fmt: skip

    def start(self, method, path, fields=(), authority=None, end=True):
        return self.start_head(self.head(method, path, fields, authority), end)

    def start_head(self, head, end=True):
        stream = self.h2.get_next_available_stream_id()
        self.streams[stream] = Stream()
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    def put(self, stream, data, end=False):
        """Content, as the windows allow."""
        view = memoryview(data)
        while len(view):
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                if self.streams[stream].reset is not None or self.streams[stream].ended:
                    return
                self.pump()
                continue
            self.h2.send_data(stream, bytes(view[:room]))
            view = view[room:]
            self.flush()
        if end:
            self.end(stream)

    def put_raw(self, stream, data):
        """The same to a stream whose answer is whole; it may be reset meanwhile."""
        at = 0
        while at < len(data) and self.streams[stream].reset is None:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                self.pump()
                continue
            self.h2.send_data(stream, data[at : at + room])
            at += room
            self.flush()

    def end(self, stream, trailers=None):
        if trailers:
            self.h2.send_headers(stream, trailers, end_stream=True)
        else:
            self.h2.end_stream(stream)
        self.flush()

    # --- what comes

    def pump(self):
        """Reads once and takes what came."""
        if not self.wire.buffer and not self.wire.more():
            if self.goaway is not None:
                raise Goaway(self.goaway)
            raise Closed("the connection ended")
        self.pending += self.wire.buffer
        self.wire.buffer = b""
        # A frame at a time: what comes behind a GOAWAY in one read is taken too.
        while len(self.pending) >= 9 + int.from_bytes(self.pending[:3], "big"):
            size = 9 + int.from_bytes(self.pending[:3], "big")
            frame, self.pending = self.pending[:size], self.pending[size:]
            for event in self.h2.receive_data(frame):
                self.take(event)
        self.flush()

    def take(self, event):
        assert SECRET not in str(getattr(event, "headers", "")), "the sandbox has the real key"
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.RemoteSettingsChanged):
            self.settings_seen = True
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = event.error_code
            self.last_streams.append(event.last_stream_id)
            # h2 takes it for the end, and what is under way still comes.
            self.h2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1
        elif stream is None:
            return
        elif isinstance(event, h2.events.InformationalResponseReceived):
            stream.interim.append(self.as_response(event.headers))
        elif isinstance(event, h2.events.ResponseReceived):
            stream.response = self.as_response(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            stream.parts.append(event.data)
            if self.acknowledge:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            stream.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset):
            stream.reset = event.error_code

    @staticmethod
    def as_response(headers):
        return Response(int(dict(headers)[":status"]), "",
                        [(n, v) for n, v in headers if not n.startswith(":")])  # fmt: skip

    def wait_head(self, stream):
        one = self.streams[stream]
        while one.response is None:
            if one.reset is not None:
                raise Reset(one.reset, one.response)
            self.pump()
        return one.response

    def wait(self, stream):
        one = self.streams[stream]
        while not one.ended:
            if one.reset is not None:
                raise Reset(one.reset, one.response)
            self.pump()
        return one.whole()

    def ask(self, method, path, fields=(), body=None, authority=None):
        stream = self.start(method, path, fields, authority, end=body is None)
        if body is not None:
            self.put(stream, body, end=True)
        return self.wait(stream)

    def until_goaway(self):
        """Return: its code. Raises Closed when the connection ends without one."""
        while self.goaway is None:
            self.pump()
        return int(self.goaway)

    def until_last(self):
        """Behind the first GOAWAY, which only says what is coming, one more names the last stream. Return: that."""
        while len(self.last_streams) < 2:
            self.pump()
        return self.last_streams[-1]

    def round_trips(self, count=2):
        """With the second one, what was sent before the first has been taken, and what it leads to has begun."""
        for _ in range(count):
            goal = self.pongs + 1
            self.h2.ping(b"trip %3d" % (goal % 1000))
            self.flush()
            while self.pongs < goal:
                self.pump()

    def until_closed(self):
        try:
            while True:
                self.pump()
        except (Closed, Goaway):
            return True


def h2_tunnel(daemon, host, **options):
    """HTTP/2 inside CONNECT and TLS."""
    tunnel = Tunnel(daemon, host, alpn=("h2",))
    assert tunnel.sock.selected_alpn_protocol() == "h2"
    return H2Client(tunnel, authority=host, **options)


def h2_plain(daemon, **options):
    """HTTP/2 with prior knowledge on the socket itself."""
    return H2Client(Wire(daemon.socket_path), scheme="http", **options)


class StreamWire(Wire):
    """A tunnel in one stream of an HTTP/2 connection, for who wants the bytes inside.

    Reading pumps the whole connection: what comes for other streams waits in theirs.
    """

    def __init__(self, client, authority):
        # A socket of its own is not there: Wire's other parts are used.
        self.client = client
        self.host = authority.rsplit(":", 1)[0]
        self.buffer = b""
        self.tail = b""
        self.ended = False
        self.stream = client.start_head(
            [(":method", "CONNECT"), (":authority", authority)], end=False
        )
        self.taken = 0
        self.tls = None

    def accept(self):
        answer = self.client.wait_head(self.stream)
        if answer.status != 200:
            raise Refused(self.client.wait(self.stream))
        return self

    def raw_send(self, data):
        self.client.put(self.stream, data)

    def raw_read(self):
        one = self.client.streams[self.stream]
        while self.taken == len(one.parts):
            if one.ended or one.reset is not None:
                return b""
            self.client.pump()
        piece = b"".join(one.parts[self.taken :])
        self.taken = len(one.parts)
        return piece

    def start_tls(self, daemon, sni, alpn=("http/1.1",)):
        from clients import client_context

        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client_context(daemon.ca, alpn).wrap_bio(
            self.incoming, self.outgoing, server_hostname=sni
        )
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush_tls()
                self.feed_tls()
                continue
            self.flush_tls()
            self.tls = tls
            return self

    def flush_tls(self):
        if data := self.outgoing.read():
            self.raw_send(data)

    def feed_tls(self):
        piece = self.raw_read()
        if piece:
            self.incoming.write(piece)
        else:
            self.incoming.write_eof()

    def send(self, data):
        data = data.encode("latin-1") if isinstance(data, str) else data
        if not self.tls:
            self.raw_send(data)
            return
        self.tls.write(data)
        self.flush_tls()

    def more(self):
        if not self.tls:
            piece = self.raw_read()
        else:
            piece = self.read_tls()
        if not piece:
            self.ended = True
            return False
        assert SECRET.encode() not in self.tail + piece, "the sandbox has received the real key"
        self.tail = (self.tail + piece)[-len(SECRET) :]
        self.buffer += piece
        return True

    def read_tls(self):
        while True:
            try:
                return self.tls.read(262144)
            except ssl.SSLWantReadError:
                self.feed_tls()
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return b""

    def shutdown(self):
        self.client.end(self.stream)

    def close(self):
        self.client.h2.reset_stream(self.stream, 8)
        self.client.flush()


__all__ = ["PATIENCE", "Goaway", "H2Client", "Reset", "StreamWire", "h2_plain", "h2_tunnel"]
