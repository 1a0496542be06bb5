"""tunnels.py - other ways into the sandbox's socket than CONNECT, byte by byte"""

import ipaddress
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
