"""clients.py - clients by hand: connections to the sandbox's socket, byte by byte

Whatever a client here receives is searched for the real key as it arrives: a leak fails the test in
which it happens.
"""

import contextlib
import json
import socket
import ssl
import threading

from common import PATIENCE, SECRET


class Closed(Exception):
    """The connection ended where an answer was expected."""


class Response:
    def __init__(self, status, reason, fields):
        self.status = status
        self.reason = reason
        self.fields = fields
        self.body = b""
        self.trailers = []
        self.interim = []
        self.complete = True

    def get(self, name):
        return next((v for n, v in self.fields if n.lower() == name.lower()), None)

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def json(self):
        return json.loads(self.body)

    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"<{self.status} {self.fields} {self.body[:400]!r}>"


class Wire:
    """A connection to the sandbox's socket, byte by byte under a test's control."""

    def __init__(self, path, timeout=PATIENCE):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(timeout)
        self.sock.connect(path)
        self.buffer = b""
        self.tail = b""
        self.ended = False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def shutdown(self):
        self.sock.shutdown(socket.SHUT_WR)

    def more(self):
        """Reads once. Return: there was something."""
        try:
            piece = self.sock.recv(262144)
        except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError, BrokenPipeError):
            piece = b""
        if not piece:
            self.ended = True
            return False
        seen = self.tail + piece
        assert SECRET.encode() not in seen, "the sandbox has received the real key"
        self.tail = seen[-len(SECRET) :]
        self.buffer += piece
        return True

    def take_until(self, mark):
        while mark not in self.buffer:
            if not self.more():
                raise Closed(f"ended after {self.buffer!r}")
        piece, self.buffer = self.buffer.split(mark, 1)
        return piece

    def take(self, count):
        while len(self.buffer) < count:
            if not self.more():
                raise Closed(f"ended {count - len(self.buffer)} bytes too early")
        piece, self.buffer = self.buffer[:count], self.buffer[count:]
        return piece

    def rest(self):
        """All that comes until the end."""
        while self.more():
            pass
        piece, self.buffer = self.buffer, b""
        return piece

    def is_closed(self):
        """The other side ends the connection (within patience), and says nothing more."""
        return self.rest() == b""

    def read_head(self):
        lines = self.take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *reason = lines[0].split(" ", 2)
        assert version in ("HTTP/1.1", "HTTP/1.0"), lines[0]
        fields = []
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields.append((name, value.strip()))
        return Response(int(status), " ".join(reason), fields)

    def pieces(self, response, method="GET"):
        """The content as it arrives."""
        if method == "HEAD" or response.status in (204, 304) or response.status < 200:
            return
        if (response.get("transfer-encoding") or "").lower() == "chunked":
            while size := int(self.take_until(b"\r\n").split(b";")[0], 16):
                yield self.take(size)
                assert self.take(2) == b"\r\n"
            while line := self.take_until(b"\r\n"):
                name, _, value = line.decode("latin-1").partition(":")
                response.trailers.append((name, value.strip()))
            return
        length = response.get("content-length")
        rest = None if length is None else int(length)
        while rest is None or rest:
            if not self.buffer and not self.more():
                if rest is None:
                    return
                raise Closed(f"ended {rest} bytes too early")
            piece = self.buffer if rest is None else self.buffer[:rest]
            self.buffer = self.buffer[len(piece) :]
            rest = None if rest is None else rest - len(piece)
            yield piece

    def response(self, method="GET", partial=False):
        """The next final response, whole; `partial` takes what there is of one that is cut off."""
        interim = []
        while (response := self.read_head()).status < 200 and response.status != 101:
            interim.append(response)
        response.interim = interim
        parts = []
        try:
            for piece in self.pieces(response, method):
                parts.append(piece)
        except Closed:
            if not partial:
                raise
            response.complete = False
        response.body = b"".join(parts)
        return response

    def start(self, method, target, fields=(), body=None, host=None):
        """Sends a request that is well-formed as far as the caller lets it be."""
        lines = [f"{method} {target} HTTP/1.1"]
        names = {n.lower() for n, _ in fields}
        if "host" not in names:
            lines.append(f"Host: {host if host is not None else self.host}")
        lines += [f"{n}: {v}" for n, v in fields]
        if body is not None and not names & {"content-length", "transfer-encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        self.send("\r\n".join(lines) + "\r\n\r\n")
        if body:
            self.send(body)

    def ask(self, method, target, fields=(), body=None, host=None, **kind):
        self.start(method, target, fields, body, host)
        return self.response(method, **kind)


class Tunnel(Wire):
    """CONNECT, then TLS under the daemon's CA."""

    def __init__(self, daemon, host, port=443, sni=None, authority=None, timeout=PATIENCE, **tls):
        super().__init__(daemon.socket_path, timeout)
        self.host = host
        authority = authority or f"{host}:{port}"
        self.connect_response = None
        self.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
        answer = self.read_head()
        self.connect_response = answer
        if answer.status != 200:
            for piece in self.pieces(answer):
                answer.body += piece
            raise Refused(answer)
        assert not self.buffer, "bytes behind the answer to CONNECT"
        self.start_tls(daemon, sni if sni is not None else host, **tls)

    def start_tls(self, daemon, sni, alpn=("http/1.1",), context=None):
        context = context or client_context(daemon.ca, alpn)
        self.sock = context.wrap_socket(
            self.sock, server_hostname=sni or None, suppress_ragged_eofs=False
        )


class Refused(Exception):
    def __init__(self, response):
        super().__init__(f"CONNECT was refused: {response!r}")
        self.response = response


def client_context(cafile, alpn=("http/1.1",), check=True):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cafile)
    context.check_hostname = check
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


class Relay:
    """A loopback port in front of the sandbox's socket, for clients that can only do TCP.

    Half-closes are kept. What keyhole-init does inside a sandbox, in a few threads.
    """

    def __init__(self, path):
        self.path = path
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                down, _ = self.listener.accept()
            except OSError:
                return
            up = socket.socket(socket.AF_UNIX)
            try:
                up.connect(self.path)
            except OSError:
                down.close()
                continue
            both = [threading.Thread(target=self.pump, args=pair, daemon=True)
                    for pair in ((down, up), (up, down))]  # fmt: skip
            for thread in both:
                thread.start()
            threading.Thread(target=self.end, args=(both, down, up), daemon=True).start()

    @staticmethod
    def pump(source, sink):
        try:
            while piece := source.recv(65536):
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for sock in (source, sink):
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def end(threads, *socks):
        for thread in threads:
            thread.join()
        for sock in socks:
            sock.close()

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
