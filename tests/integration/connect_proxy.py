"""connect_proxy.py - an HTTP CONNECT proxy for tests, as a company has one, and as it should not be"""

import contextlib
import socket
import threading

from common import PATIENCE

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
# Answers that are no way to open a tunnel; the connection ends behind them.
BAD_ANSWERS = {
    "text": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "bare-lf": b"HTTP/1.1 200 OK\n\n",
    "http2": b"HTTP/2 200\r\n\r\n",
    "status-text": b"HTTP/1.1 abc OK\r\n\r\n",
    "obs-fold": b"HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n\r\n",
    "nul": b"HTTP/1.1 200 OK\r\nX-A: a\0b\r\n\r\n",
    "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    "huge-head": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"y" * 30000 + b"\r\n" + b"X-B: y\r\n" * 20000 + b"\r\n",
    "endless-line": b"HTTP/1.1 200 " + b"y" * 300000,
    "interim-for-ever": b"HTTP/1.1 102 Processing\r\n\r\n" * 64 + ESTABLISHED,
    "behind": ESTABLISHED + b"bytes that nobody asked for",
    "behind-tls": ESTABLISHED + b"\x16\x03\x03\x00\x7a",
    "nothing": b"",
    "half": b"HTTP/1.1 200 Conn",
}


class ConnectProxy:
    """One thread a connection. `answer` may be bytes, or a function of (socket, head)."""

    def __init__(self, routes, credentials=None, family=socket.AF_INET):
        self.routes = routes  # "name:port" or "*" to an address
        self.credentials = credentials  # what Proxy-Authorization must be
        self.answer = None
        self.heads = []
        self.heard = b""  # every byte that clients sent before a tunnel stood
        host = "127.0.0.1" if family == socket.AF_INET else "::1"
        self.listener = socket.create_server((host, 0), family=family, backlog=64)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://{host if family == socket.AF_INET else '[::1]'}:{self.port}"
        self.lock = threading.Lock()
        self.open = set()
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def targets(self):
        return [head.split(b" ", 2)[1].decode() for head in self.heads]

    def fields(self, index=-1):
        lines = self.heads[index].decode("latin-1").split("\r\n")[1:]
        return [tuple(line.split(": ", 1)) for line in lines if line]

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.open.add(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            sock.settimeout(PATIENCE)
            self.talk(sock)
        self.open.discard(sock)

    def talk(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = sock.recv(65536)
            if not piece:
                return
            head += piece
            self.heard += piece
        with self.lock:
            self.heads.append(head.split(b"\r\n\r\n")[0])
        if callable(self.answer):
            if not self.answer(sock, head):
                return
        elif self.answer is not None:
            sock.sendall(self.answer)
            return
        elif self.credentials is not None and self.credentials not in [
            v for n, v in self.fields() if n.lower() == "proxy-authorization"
        ]:
            sock.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n"
                         b'Proxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')  # fmt: skip
            return
        target = head.split(b" ", 2)[1].decode()
        address = self.routes.get(target) or self.routes.get("*")
        if address is None:
            sock.sendall(b"HTTP/1.1 502 No such host\r\nContent-Length: 0\r\n\r\n")
            return
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), PATIENCE) as up:
            if not callable(self.answer):
                sock.sendall(ESTABLISHED)
            back = threading.Thread(target=self.pump, args=(up, sock), daemon=True)
            back.start()
            self.pump(sock, up)
            back.join(PATIENCE)

    @staticmethod
    def pump(source, sink):
        source.settimeout(None)
        with contextlib.suppress(OSError):
            while piece := source.recv(65536):
                sink.sendall(piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        for sock in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.listener.close()
