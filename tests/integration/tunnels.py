"""tunnels.py - other ways into the sandbox's socket than CONNECT, byte by byte"""

import ipaddress
import os
import socket

from clients import PATIENCE, Tunnel, Wire


def socks_address(host):
    """ATYP and DST.ADDR of RFC 1928."""
    try:
        packed = ipaddress.ip_address(host).packed
    except ValueError:
        raw = host.encode() if isinstance(host, str) else host
        return b"\x03" + bytes([len(raw) & 255]) + raw
    return (b"\x01" if len(packed) == 4 else b"\x04") + packed


class SocksRefused(Exception):
    def __init__(self, code):
        super().__init__(f"SOCKS5 answered {code}")
        self.code = code


class Socks(Tunnel):
    """SOCKS5, up to the answer to its request; `tls()` goes on as Tunnel does."""

    def __init__(self, daemon, host, port=443, methods=b"\x00", login=None, timeout=PATIENCE):
        Wire.__init__(self, daemon.socket_path, timeout)
        self.host = host
        self.daemon = daemon
        self.send(b"\x05" + bytes([len(methods)]) + methods)
        answer = self.take(2)
        assert answer[0] == 5
        if answer[1] == 0xFF:
            raise SocksRefused(0xFF)
        if login:
            user, password = (part.encode() for part in login)
            self.send(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
            if verdict := self.take(2)[1]:
                raise SocksRefused(("login", verdict))
        self.send(b"\x05\x01\x00" + socks_address(host) + port.to_bytes(2, "big"))
        reply = self.take(10)
        assert reply[0] == 5 and reply[2:] == b"\0\x01\0\0\0\0\0\0"
        if reply[1]:
            raise SocksRefused(reply[1])

    def tls(self, sni=None, **options):
        self.start_tls(self.daemon, sni if sni is not None else self.host, **options)
        return self


class TcpWire(Wire):
    """The same over TCP."""

    def __init__(self, address, timeout=PATIENCE):  # noqa: super's opens a Unix socket
        self.sock = socket.create_connection(address, timeout)
        self.buffer = b""
        self.tail = b""
        self.ended = False


class Direct(Tunnel):
    """TLS as the first thing that is said."""

    def __init__(self, daemon, host, timeout=PATIENCE, **tls):
        Wire.__init__(self, daemon.socket_path, timeout)
        self.host = host
        self.start_tls(daemon, host, **tls)


def hello_bytes(sni, ech=False, twice=False, record=None):
    """A ClientHello of TLS 1.3 with what a test wants in it, in records of `record` bytes."""

    def vector(data, width):
        return len(data).to_bytes(width, "big") + data

    def extension(kind, data):
        return kind.to_bytes(2, "big") + vector(data, 2)

    extensions = b""
    if sni is not None:
        name = sni.encode() if isinstance(sni, str) else sni
        extensions += extension(0, vector(b"\0" + vector(name, 2), 2)) * (2 if twice else 1)
    key = os.urandom(32)  # any is one, of X25519
    extensions += extension(43, vector(b"\x03\x04", 1))
    extensions += extension(10, vector(b"\x00\x1d", 2))
    extensions += extension(13, vector(b"\x04\x03\x08\x04", 2))
    extensions += extension(51, vector(b"\x00\x1d" + vector(key, 2), 2))
    if ech:
        extensions += extension(0xFE0D, b"\0\0\x01\0\x01\x07" + vector(key, 2) + vector(os.urandom(200), 2))
    body = b"\x03\x03" + os.urandom(32) + vector(os.urandom(32), 1) + vector(b"\x13\x01\x13\x02", 2)
    body += vector(b"\0", 1) + vector(extensions, 2)
    message = b"\x01" + vector(body, 3)
    size = record or len(message)
    pieces = [message[i : i + size] for i in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + vector(piece, 2) for piece in pieces)


def alert_of(data):
    """The description in a fatal alert record that is all there is."""
    assert len(data) == 7 and data[:6] == b"\x15\x03\x03\x00\x02\x02", data
    return data[6]
