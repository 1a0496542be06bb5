"""tcp_origins.py - small servers for bytes that nobody reads: echo, one that speaks first, TLS"""

import contextlib
import socket
import ssl
import threading


class TcpOrigin:
    """A loopback server; each connection runs `serve(origin, sock)` in a thread."""

    def __init__(self, serve, tls=None):
        self.serve = serve
        self.tls = tls
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        self.seen = []  # what serve puts there
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.run, args=(sock,), daemon=True).start()

    def run(self, sock):
        with contextlib.suppress(OSError), sock:
            if self.tls:
                with self.tls.wrap_socket(sock, server_side=True) as inner:
                    self.serve(self, inner)
            else:
                self.serve(self, sock)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def echo(origin, sock):
    """Sends back what comes; then the end, as soon as it comes."""
    while piece := sock.recv(65536):
        sock.sendall(piece)
    with contextlib.suppress(OSError, ssl.SSLError):
        sock.shutdown(socket.SHUT_WR)


def greeter(origin, sock):
    """Says who it is before it is asked, as SSH, SMTP and databases do."""
    sock.sendall(b"SSH-2.0-mock\r\n")
    echo(origin, sock)


def after_the_end(origin, sock):
    """Answers only when the client has ended its side: a half-close must come through."""
    data = b""
    while piece := sock.recv(65536):
        data += piece
    origin.seen.append(data)
    sock.sendall(b"%d bytes, thank you" % len(data))


def first_to_end(origin, sock):
    """Ends its side at once, and goes on reading."""
    sock.sendall(b"that is all")
    sock.shutdown(socket.SHUT_WR)
    data = b""
    while piece := sock.recv(65536):
        data += piece
    origin.seen.append(data)


def deaf(origin, sock):
    """Takes nothing until the test lets it."""
    origin.gate.wait(30)
    total = 0
    while piece := sock.recv(65536):
        total += len(piece)
    origin.seen.append(total)


def fountain(origin, sock):
    """Sends for ever, and notes how far it got."""
    origin.sent = 0
    while True:
        origin.sent += sock.send(b"x" * 65536)
