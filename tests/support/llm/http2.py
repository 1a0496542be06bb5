"""http2.py - the mock's HTTP/2: a stream is to the server's `answer` what a connection is in HTTP/1.1

One thread reads and writes the socket, since two may not use one object of TLS at a time. Each request is answered
by a thread of its own, which waits for the windows. There are no WebSockets here (RFC 8441), so those use HTTP/1.1.
"""

import contextlib
import select
import socket
import ssl
import threading

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
from mock_upstream import IDLE_SECONDS, KEEP_BODY, Connection, Gone, Request

# Fields that belong to a connection of HTTP/1.1.
OF_HTTP1 = {"connection", "transfer-encoding", "keep-alive", "upgrade"}


class Stream(Connection):
    """One request, and the methods that its answer is written with."""

    def __init__(self, http2, number, head):
        super().__init__(http2.server, None, http2.connection.number)
        self.http2, self.stream, self.sni, self.sent = http2, number, http2.connection.sni, 0
        named = dict(head)
        fields = [("host", named.get(":authority") or named.get("host", "")),
                  *((n, v) for n, v in head if not n.startswith(":") and n not in ("host", "expect"))]  # fmt: skip
        self.request = Request(f"{named.get(':method')} {named.get(':path')} HTTP/2", fields, b"")

    def read_body(self, request):
        """It is read before the answer begins."""

    def got(self, piece):
        self.request.body_digest.update(piece)
        self.request.body_bytes += len(piece)
        if len(self.request.body) < KEEP_BODY:
            self.request.body += piece

    def head(self, status, fields, reason=None):
        named = [(str(n).lower(), str(v)) for n, v in fields]
        self.http2.write(lambda h: h.send_headers(self.stream, [(":status", str(status)),
                                                                *(f for f in named if f[0] not in OF_HTTP1)]))  # fmt: skip

    def send(self, data):
        while data:
            with self.http2.lock:
                size = self.http2.room(self.stream)
                self.http2.write(lambda h, piece=data[:size]: h.send_data(self.stream, piece))
            data = data[size:]

    def chunk(self, data):
        self.sent += len(data)
        self.send(data)

    def last_chunk(self, trailers=()):
        """`run` ends the stream."""

    def break_off(self):
        self.http2.break_off()

    def run(self):
        with contextlib.suppress(Gone):
            self.server.log_request(self, self.request)
            self.server.answer(self, self.request)
            self.http2.write(lambda h: h.end_stream(self.stream))
            self.server.log(event="done", conn=self.number, target=self.request.target,
                            body_bytes=self.request.body_bytes, sent=self.sent)  # fmt: skip


class Http2:
    def __init__(self, connection):
        self.connection, self.server, self.sock = connection, connection.server, connection.sock
        self.lock = threading.Condition(threading.RLock())  # of what follows
        self.state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        self.streams, self.over, self.broken = {}, False, False
        self.heard, self.wake = socket.socketpair()

    # for the threads that answer

    def write(self, how):
        with self.lock:
            if self.over:
                raise Gone("the connection is over")
            try:
                how(self.state)
            except h2.exceptions.ProtocolError as why:
                raise Gone(str(why)) from None
            self.wake.send(b"x")

    def room(self, stream):
        """Waits for both windows. Return: how much may be sent."""
        while not self.over:
            try:
                size = min(self.state.local_flow_control_window(stream), self.state.max_outbound_frame_size)
            except h2.exceptions.ProtocolError as why:
                raise Gone(str(why)) from None
            if size > 0:
                return size
            if not self.lock.wait(IDLE_SECONDS):
                break
        raise Gone("no window")

    def break_off(self):
        """The connection ends with a TCP reset."""
        with self.lock:
            self.broken = True
            self.wake.send(b"x")

    # for the thread of the connection

    def run(self):
        try:
            self.state.initiate_connection()
            while True:
                self.flush()
                if not self.sock.pending() and not select.select([self.sock, self.heard], [], [], IDLE_SECONDS)[0]:
                    return
                for event in self.state_after(self.receive()):
                    self.take(event)
        finally:
            with self.lock:
                self.over = True
                self.lock.notify_all()
                self.heard.close()
                self.wake.close()

    def flush(self):
        with self.lock:
            data = self.state.data_to_send()
            broken = self.broken
        if data:
            self.sock.settimeout(IDLE_SECONDS)
            self.sock.sendall(data)
        if broken:
            self.connection.break_off()
            raise Gone("reset, as asked")

    def receive(self):
        with contextlib.suppress(BlockingIOError):
            self.heard.recv(65536, socket.MSG_DONTWAIT)
        self.sock.settimeout(0)
        try:
            data = self.sock.recv(65536)
        except ssl.SSLWantReadError:
            return b""
        if not data:
            raise Gone("end of stream")
        return data

    def state_after(self, data):
        with self.lock:
            try:
                events = self.state.receive_data(data) if data else []
            except h2.exceptions.ProtocolError as why:
                self.flush()
                raise Gone(str(why)) from None
            self.lock.notify_all()  # a window may be larger
            return events

    def take(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.connection.count += 1
            self.streams[event.stream_id] = Stream(self, event.stream_id, event.headers)
        elif isinstance(event, h2.events.DataReceived):
            self.streams[event.stream_id].got(event.data)
            with self.lock, contextlib.suppress(h2.exceptions.ProtocolError):
                self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            threading.Thread(target=self.streams.pop(event.stream_id).run, daemon=True).start()
        elif isinstance(event, h2.events.StreamReset):
            self.streams.pop(event.stream_id, None)
        elif isinstance(event, h2.events.ConnectionTerminated):
            raise Gone("GOAWAY")
