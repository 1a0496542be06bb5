"""What leaves together leaves as one TLS record, on both sides."""

import socket
import threading
import types

import pytest
from common import shut
from harness import Tunnel

APPLICATION_DATA = 23
CLOSE_NOTIFY = 2 + 1 + 16  # an alert, its kind and its tag


class Recorder:
    """Stands in front of an address, passes bytes on, and keeps them."""

    def __init__(self, listener, connect):
        self.listener, self.connect = listener, connect
        self.there, self.back = bytearray(), bytearray()  # towards the address, and from it
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = self.connect()
            for source, sink, kept in ((near, far, self.there), (far, near, self.back)):
                threading.Thread(target=self.pump, args=(source, sink, kept), daemon=True).start()

    @staticmethod
    def pump(source, sink, kept):
        try:
            while piece := source.recv(65536):
                kept += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def records(stream):
    """The lengths of the application data records, in order; what is plain in front is skipped."""
    data = bytes(stream)
    if data[:1].isalpha():
        data = data.partition(b"\r\n\r\n")[2]
    found = []
    while len(data) >= 5:
        kind, length = data[0], int.from_bytes(data[3:5], "big")
        if kind == APPLICATION_DATA:
            found.append(length)
        data = data[5 + length :]
    assert not data, "half a record"
    return found


@pytest.fixture
def recorded(daemon, mock, tmp_path):
    """A daemon between two recorders. Return: a mock of it towards clients, and both."""
    host, port = mock.address.rsplit(":", 1)
    up = Recorder(socket.create_server(("127.0.0.1", 0)), lambda: socket.create_connection((host, int(port))))
    running = daemon({"upstream": {"resolve": {"api.test": f"127.0.0.1:{up.listener.getsockname()[1]}"}}})
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "recorded"))
    listener.listen()

    def connect():
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(running.socket_path)
        return sock

    down = Recorder(listener, connect)
    yield types.SimpleNamespace(socket_path=str(tmp_path / "recorded"), ca=running.ca), down, up
    shut(listener)
    shut(up.listener)


def post(tunnel, size):
    """Head and content in one write, so that they come as one record."""
    tunnel.send(b"POST /test/whole?n=%d HTTP/1.1\r\nHost: api.test\r\nContent-Length: %d\r\n\r\n" % (size, size)
                + b"x" * size)  # fmt: skip
    return tunnel.response("POST")


@pytest.mark.parametrize("size", [0, 1, 1024, 6000])
def test_head_and_content_leave_as_one_record(recorded, size):
    acceptor, down, up = recorded
    with Tunnel(acceptor, "api.test") as tunnel:
        assert tunnel.ask("POST", "/test/echo", body=b"warm").status == 200
        before = [records(stream) for stream in (up.there, up.back, down.back)]
        assert post(tunnel, size).status == 200
        asked, answered, given = (records(stream)[len(old):] for stream, old in
                                  zip((up.there, up.back, down.back), before))  # fmt: skip
    assert len(asked) == 1 and asked[0] > size, "the request, upstream"
    assert len(answered) == 1 and len(given) == 1 and given[0] > size, "the response, to the sandbox"


def test_an_answer_of_our_own_is_one_record(recorded):
    acceptor, down, _ = recorded
    with Tunnel(acceptor, "api.test") as tunnel:
        assert tunnel.ask("POST", "/test/echo", body=b"warm").status == 200
        before = len(records(down.back))
        assert tunnel.ask("GET", "/test/../echo").status == 400
        given = records(down.back)[before:]
        assert given[0] > 100 and given[1:] in ([], [CLOSE_NOTIFY]), given
