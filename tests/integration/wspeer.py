"""wspeer.py - WebSocket peers by hand: frames bit by bit, a client in a tunnel, an origin with scripts"""

import base64
import contextlib
import hashlib
import os
import socket
import ssl
import threading

import pytest
from clients import Closed, Tunnel
from common import PATIENCE, SECRET, mock_module, until
from daemons import NAMES, Daemons

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_for(key):
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def xor(data, key):
    count = len(data)
    mask = (key * (count // 4 + 1))[:count]
    return (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(count, "big")


def frame(opcode, payload=b"", fin=True, mask=False, rsv=0, length=None, width=None):
    """A frame whose head says what it is told to say."""
    payload = payload.encode() if isinstance(payload, str) else payload
    length = len(payload) if length is None else length
    if width is None:
        width = 0 if length < 126 else 2 if length < 65536 else 8
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    head += bytes([(0x80 if mask else 0) | {0: length & 127, 2: 126, 8: 127}[width]])
    head += length.to_bytes(width, "big") if width else b""
    if not mask:
        return head + payload
    key = os.urandom(4)
    return head + key + xor(payload, key)


def close_payload(code, reason=""):
    return code.to_bytes(2, "big") + reason.encode()


class Frames:
    """What both ends by hand have: needs send(), take() and `masks` (do we mask?)."""

    masks = False

    def put(self, opcode, payload=b"", **how):
        how.setdefault("mask", self.masks)
        self.send(frame(opcode, payload, **how))

    def get(self):
        """The next frame: (fin, opcode, payload). The other end's masks are held to the rule."""
        first, second = self.take(2)
        assert not first & 0x70, "a reserved bit is set"
        assert bool(second & 0x80) != self.masks, "masked by the wrong side"
        length = second & 127
        if length >= 126:
            length = int.from_bytes(self.take(2 if length == 126 else 8), "big")
        key = self.take(4) if second & 0x80 else None
        payload = self.take(length)
        self.last_key = key
        return bool(first & 0x80), first & 15, xor(payload, key) if key else payload

    def message(self):
        """The next message, joined; control frames in between are kept in `controls`."""
        parts, kind = [], None
        while True:
            fin, opcode, payload = self.get()
            if opcode >= 8:
                self.controls = [*getattr(self, "controls", []), (opcode, payload)]
                continue
            kind = opcode or kind
            parts.append(payload)
            if fin:
                return kind, b"".join(parts)

    def expect_close(self, code):
        """The next control frame is a close with that code (None: empty)."""
        while True:
            _, opcode, payload = self.get()
            if opcode == CLOSE:
                break
        said = int.from_bytes(payload[:2], "big") if payload else None
        assert said == code, f"close {said} {payload[2:]!r}, not {code}"
        return payload[2:].decode()


class WsClient(Tunnel, Frames):
    """Inside the sandbox, in a tunnel of its own."""

    masks = True

    def __init__(self, daemon, host="api.test", **options):
        super().__init__(daemon, host, **options)

    def ask_for(self, path="/echo", fields=(), key=KEY, version="13", **how):
        wanted = [("Upgrade", "websocket"), ("Connection", "Upgrade")]
        wanted += [("Sec-WebSocket-Key", key)] if key is not None else []
        wanted += [("Sec-WebSocket-Version", version)] if version is not None else []
        return self.ask("GET", path, [*wanted, *fields], **how)

    def open(self, path="/echo", fields=(), **how):
        answer = self.ask_for(path, fields, **how)
        assert answer.status == 101, answer
        assert answer.get("sec-websocket-accept") == accept_for(KEY)
        assert answer.get("upgrade") == "websocket" and answer.get("connection") == "Upgrade"
        return answer

    def gone(self):
        """The connection ends, without another frame."""
        return self.is_closed()


class Peer(Frames):
    """One connection at the origin."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(6 * PATIENCE)  # some idle
        self.buffer = b""

    def send(self, data):
        self.sock.sendall(data)

    def take(self, count):
        while len(self.buffer) < count:
            piece = self.sock.recv(262144)
            if not piece:
                raise Closed("the proxy closed")
            self.buffer += piece
        piece, self.buffer = self.buffer[:count], self.buffer[count:]
        return piece

    def read_head(self):
        while b"\r\n\r\n" not in self.buffer:
            piece = self.sock.recv(65536)
            if not piece:
                raise Closed("the proxy closed")
            self.buffer += piece
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        self.line = lines[0]
        self.fields = [(n, v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
        self.path = self.line.split(" ")[1]

    def all(self, name):
        return [v for n, v in self.fields if n.lower() == name.lower()]

    def accept(self, *fields, accept=None, protocol=None, status="101 Switching Protocols"):
        accept = accept_for(self.all("sec-websocket-key")[0]) if accept is None else accept
        wanted = [("Upgrade", "websocket"), ("Connection", "Upgrade"),
                  ("Sec-WebSocket-Accept", accept), ("Sec-WebSocket-Protocol", protocol),
                  *fields]  # fmt: skip
        lines = [f"{n}: {v}" for n, v in wanted if v]
        self.send("\r\n".join([f"HTTP/1.1 {status}", *lines]).encode() + b"\r\n\r\n")

    def echo(self):
        """Gives every frame back as it came, until a close frame."""
        while True:
            fin, opcode, payload = self.get()
            self.put(PONG if opcode == PING else opcode, payload, fin=fin)
            if opcode == CLOSE:
                return


class Origin:
    """A TLS server (or a plain one) whose answers are a test's scripts, by path."""

    def __init__(self, folder, names, plain=False):
        os.makedirs(folder, exist_ok=True)
        ca = mock_module.make_ca(folder)
        cert, key = mock_module.make_leaf(folder, ca, names)
        self.ca = ca[0]
        self.context = None
        if not plain:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(cert, key)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.scripts = {}
        self.seen = []
        self.failed = []
        threading.Thread(target=self.serve, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def on(self, path, script):
        self.scripts[path] = script

    def serve(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.run, args=(sock,), daemon=True).start()

    def run(self, sock):
        with sock, contextlib.suppress(OSError, Closed):
            if self.context:
                sock = self.context.wrap_socket(sock, server_side=True)
            with sock:
                peer = Peer(sock)
                peer.read_head()
                self.seen.append(peer)
                script = self.scripts.get(peer.path.split("?")[0])
                try:
                    if script:
                        script(peer)
                    else:
                        peer.accept()
                        peer.echo()
                except AssertionError as error:
                    self.failed.append(error)

    def last(self):
        return self.seen[-1]

    # what a daemon's end looks at
    def close_idle(self):
        pass

    def check_forbidden(self):
        failed, self.failed = self.failed, []
        assert not failed, failed

    def stop(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def has_real_key(peer):
    return peer.all("x-api-key") == [SECRET]


# --- fixtures; a test file imports those that it uses -----------------------------------------------


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    origin = Origin(str(tmp_path_factory.mktemp("origin")), NAMES)
    yield origin
    origin.stop()


@pytest.fixture
def start(origin):
    """start(overrides, rules=…): a daemon of the test's own."""
    with Daemons([origin]) as daemons:
        yield daemons


@pytest.fixture(scope="module")
def ours(origin):
    """A daemon with the base configuration, one for the module."""
    with Daemons([origin]) as daemons:
        yield daemons()


def closed(daemon, path):
    """The close record of the exchange with this path, once it is there."""

    def there():
        return [r for r in daemon.records_of(path) if r["event"] == "close"]

    return until("the close record", there)[0]
