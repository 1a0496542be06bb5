"""A kept connection to an upstream that speaks HTTP/1 is looked at before a request goes onto it.

A POST that went onto a dead one would be lost: it may not be sent twice (RFC 9110 §9.2.2).
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import ssl
import struct
import termios
import threading

import pytest
from common import shut, mock_module, until
from daemons import NAMES
from harness import Tunnel

RESET = struct.pack("ii", 1, 0)


def unacknowledged(sock):
    """Bytes, and the end counts as one."""
    return struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4))[0]


def has_connection(port, to):
    with open("/proc/net/tcp", encoding="ascii") as file:
        lines = [line.split() for line in file]
    return any(l[1].endswith(f":{port:04X}") and l[2].endswith(f":{to:04X}") for l in lines[1:])


class Server:
    """Answers each request whole, keeps each connection, and ends it in the way that a test asks."""

    def __init__(self, folder):
        os.makedirs(folder, exist_ok=True)
        authority = mock_module.make_ca(folder)
        self.ca = authority[0]
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(*mock_module.make_leaf(folder, authority, NAMES))
        self.conns = []
        self.served = []  # (connection, content)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError, ValueError):
            tls = self.context.wrap_socket(sock, server_side=True, suppress_ragged_eofs=False)
            orders, mine = socket.socketpair()
            number = len(self.conns)
            self.conns.append(orders)
            data = b""
            while True:
                while b"\r\n\r\n" not in data:
                    if mine in select.select([tls, mine], [], [])[0]:
                        self.do(mine.recv(100).decode(), tls)
                        mine.sendall(b".")
                        mine.recv(1)  # until the test is over
                        return
                    data += tls.recv(65536)
                head, data = data.split(b"\r\n\r\n", 1)
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                while len(data) < length:
                    data += tls.recv(65536)
                self.served.append((number, data[:length]))
                data = data[length:]
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    def end(self, how):
        """Returns when it is done."""
        self.conns[-1].sendall(how.encode())
        self.conns[-1].recv(1)

    def do(self, how, tls):
        """Until the peer's kernel has it: on a busy machine the loopback carries it later."""
        pair = (tls.getpeername()[1], tls.getsockname()[1])
        self.act(how, tls)
        if how == "reset":
            until("the peer has no connection", lambda: not has_connection(*pair))
        else:
            until("the peer has it all", lambda: unacknowledged(tls) == 0)

    @staticmethod
    def act(how, tls):
        if how == "close_notify":  # and the connection stays
            tls.settimeout(0)
            with contextlib.suppress(ssl.SSLError, OSError):
                tls._sslobj.shutdown()
        elif how == "fin":
            tls.shutdown(socket.SHUT_WR)
        elif how == "reset":
            tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            os.close(tls.detach())
        elif how == "half-a-record":
            os.write(tls.fileno(), b"\x15\x03\x03")
        else:
            tls.sendall(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")

    def close_idle(self):
        for orders in self.conns:
            orders.close()

    def stop(self):
        shut(self.listener)
        self.close_idle()


@pytest.fixture(name="server")
def make_server(tmp_path):
    server = Server(str(tmp_path))
    yield server
    server.stop()


def is_stopped(pid):
    """All its threads."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            if file.read().rsplit(")", 1)[1].split()[0] != "T":
                return False
    return True


@contextlib.contextmanager
def frozen(daemon):
    """The worker sees all that happens meanwhile at once."""
    pid = daemon.worker_pid()
    os.kill(pid, signal.SIGSTOP)
    until("it has stopped", lambda: is_stopped(pid))
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("how", ["close_notify", "fin", "reset", "half-a-record", "an-answer"])
@pytest.mark.parametrize("first", ["the-request", "the-end"])
def test_a_connection_that_ended_unseen_takes_no_post(daemon, server, how, first):
    one = daemon({"upstream": {"ca_file": server.ca, "resolve": {"open.test": server.address}},
                  "worker": {"threads": 1}})  # fmt: skip
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("POST", "/one", body=b"one").status == 200
        with frozen(one):
            if first == "the-end":
                server.end(how)
            tunnel.start("POST", "/two", body=b"two")
            if first != "the-end":
                server.end(how)
        answer = tunnel.response("POST")
        assert answer.status == 200, answer
    assert server.served == [(0, b"one"), (1, b"two")]
    until("it is written", lambda: len(one.journal(event="close")) == 2)
    assert not one.journal(event="close")[1].get("reused")
