"""aws_origin.py - an upstream that answers nothing but what is well signed (sigv4.py), by HTTP/1 and HTTP/2

A thread a connection, in the test's own process. A request that is signed as it should is answered 200
with what was found; any other 403 with the reason. `seen` has them all, in order: nothing may come here
that was not meant to.
"""

import contextlib
import json
import os
import socket
import ssl
import threading
import urllib.parse

import h2.config
import h2.connection
import h2.events
import sigv4
from common import shut, mock_module


class Seen:
    def __init__(self, version, method, target, headers, body):
        self.version, self.method, self.target = version, method, target
        self.headers, self.body = headers, body
        self.signed = self.wrong = None

    def get(self, name):
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)


class AwsOrigin:
    def __init__(self, folder, names, keys, alpn=("h2", "http/1.1"), clock=0):
        os.makedirs(folder, exist_ok=True)
        self.keys, self.seen, self.clock, self.received = keys, [], clock, 0
        ca = mock_module.make_ca(folder)
        cert, key = mock_module.make_leaf(folder, ca, list(names))
        self.ca, self.names = ca[0], names
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        self.context.set_alpn_protocols(list(alpn))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections = set()
        self.local = threading.local()  # the connection of this thread
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError, ssl.SSLError):
            with self.context.wrap_socket(sock, server_side=True) as tls:
                self.connections.add(tls)
                self.local.tls = tls
                try:
                    (self.serve_h2 if tls.selected_alpn_protocol() == "h2" else self.serve_h1)(tls)
                finally:
                    self.connections.discard(tls)

    def judge(self, seen):
        """Return: status, content."""
        self.seen.append(seen)
        try:
            seen.signed = sigv4.verify(self.keys, seen.method, seen.target, seen.headers, seen.body)
        except (sigv4.Wrong, ValueError, KeyError) as why:
            seen.wrong = str(why) or type(why).__name__
            return 403, json.dumps({"wrong": seen.wrong}).encode()
        s = seen.signed
        return 200, json.dumps({
            "form": s.form, "id": s.id, "scope": s.scope, "payload": s.payload, "names": s.names,
            "bytes": len(s.content), "sha256": sigv4.sha(s.content), "trailer": s.trailer.decode(),
            "version": seen.version, "expires": s.expires, "target": seen.target,
        }).encode()  # fmt: skip

    def date(self):
        import email.utils
        import time

        return email.utils.formatdate(time.time() + self.clock, usegmt=True)

    @staticmethod
    def more(target):
        """What a server adds that sends everybody to a login, and from there back."""
        if not target.startswith("/login"):
            return []
        return [("location", target), ("x-next", "/?next=" + urllib.parse.quote(target, safe=""))]

    # --- HTTP/1

    def serve_h1(self, tls):
        file = tls.makefile("rb")
        while line := file.readline():
            method, target, _ = line.decode("latin-1").split()
            headers = []
            while (line := file.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode("latin-1").partition(":")
                headers.append((name, value.strip()))
            found = {n.lower(): v for n, v in headers}
            if "100-continue" in found.get("expect", ""):
                tls.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            body = self.read_body(file, found)
            if body is None:
                return
            status, content = self.judge(Seen("1.1", method, target, headers, body))
            lines = [f"HTTP/1.1 {status} X", f"Date: {self.date()}", "Content-Type: application/json"]
            lines += [f"{name}: {value}" for name, value in self.more(target)] + [f"Content-Length: {len(content)}"]
            head = "\r\n".join(lines) + "\r\n\r\n"
            tls.sendall(head.encode() + (b"" if method == "HEAD" else content))

    def read_body(self, file, found):
        """Return: None: it was cut off."""
        if found.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                line = file.readline()
                if not line:
                    return None
                size = int(line.split(b";")[0], 16)
                data = file.read(size + 2)
                if len(data) < size + 2:
                    return None
                body += data[:-2]
                if not size:
                    return body
        length, body = int(found.get("content-length", 0)), b""
        while len(body) < length and (piece := file.read1(length - len(body))):
            body += piece
            self.received += len(piece)
        return body if len(body) == length else None

    # --- HTTP/2

    def serve_h2(self, tls):
        conn = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, header_encoding="latin-1", validate_outbound_headers=False))  # fmt: skip
        streams, pending = {}, {}
        conn.initiate_connection()
        tls.sendall(conn.data_to_send())
        while data := tls.recv(65536):
            for event in conn.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    streams[event.stream_id] = (event.headers, [])
                elif isinstance(event, h2.events.DataReceived):
                    streams[event.stream_id][1].append(event.data)
                    conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamReset):
                    streams.pop(event.stream_id, None)
                elif isinstance(event, h2.events.StreamEnded):
                    headers, parts = streams.pop(event.stream_id)
                    self.answer_h2(conn, pending, event.stream_id, headers, b"".join(parts))
            for stream in list(pending):
                self.send_h2(conn, pending, stream)
            tls.sendall(conn.data_to_send())

    def answer_h2(self, conn, pending, stream, headers, body):
        pseudo = {n: v for n, v in headers if n.startswith(":")}
        plain = [("host", pseudo[":authority"]), *[(n, v) for n, v in headers if not n.startswith(":")]]
        seen = Seen("2", pseudo[":method"], pseudo[":path"], plain, body)
        status, content = self.judge(seen)
        conn.send_headers(stream, [(":status", str(status)), ("date", self.date()),
                                   ("content-type", "application/json"), *self.more(seen.target)])  # fmt: skip
        pending[stream] = b"" if seen.method == "HEAD" else content

    @staticmethod
    def send_h2(conn, pending, stream):
        content = pending[stream]
        room = min(conn.local_flow_control_window(stream), conn.max_outbound_frame_size)
        piece, pending[stream] = content[:room], content[room:]
        done = not pending[stream]
        if piece or done:
            conn.send_data(stream, piece, end_stream=done)
        if done:
            del pending[stream]

    # --- what a daemon's end looks at

    def close_idle(self):
        for tls in list(self.connections):
            with contextlib.suppress(OSError):
                tls.shutdown(socket.SHUT_RDWR)

    def check_forbidden(self):
        pass

    def stop(self):
        shut(self.listener)
        self.close_idle()
