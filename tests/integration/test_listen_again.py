"""Listening sockets that a worker shut down: the next worker's connections come all the same."""

import os
import signal
import socket

import descriptors
import pytest
from admin_client import admin, status
from descriptors import LIBC
from harness import Closed, Tunnel, until
from test_listen import GOOD, TcpWire
from test_listen import start as start_with_tcp

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="takes another process's descriptors")


@pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_RDWR])
def test_a_socket_that_a_dying_worker_shut_down_is_listened_on_anew(daemon, how):
    one = daemon()
    old = one.worker_pid()
    listeners = descriptors.listeners(old)
    assert listeners
    for each in listeners:
        each.shutdown(how)
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(one.socket_path)
    os.kill(old, signal.SIGKILL)

    def serves():
        try:
            with Tunnel(one, "open.test") as tunnel:
                return tunnel.ask("GET", "/test/echo").status == 200
        except (OSError, Closed):
            return False

    until("the next worker serves", serves)
    assert "was shut down by a worker: it is listened on anew" in one.stderr()
    # What was shut down gets nobody's connections.
    for each in listeners:
        each.setblocking(False)
        with pytest.raises(OSError):
            each.accept()
        each.close()


def test_a_socket_that_a_worker_made_blocking_holds_nobody_up(daemon):
    one = daemon()
    old = one.worker_pid()
    for each in descriptors.listeners(old):
        each.setblocking(True)
        each.close()
    os.kill(old, signal.SIGKILL)
    until("another worker is there", lambda: one.worker_pid() not in (None, old))
    for each in descriptors.listeners(one.worker_pid()):
        assert not os.get_blocking(each.fileno())
        each.close()


UNSPEC = bytes(16)


def serves(one):
    try:
        with Tunnel(one, "open.test") as tunnel:
            return tunnel.ask("GET", "/test/echo").status == 200
    except (OSError, Closed):
        return False


def serves_tcp(one):
    try:
        with TcpWire(one) as wire:
            return wire.connect("api.test:443", GOOD[0]).status == 200
    except (OSError, Closed):
        return False


def port_of(one):
    """The socket that it listens on, disconnected: it listens no more."""
    for each in descriptors.listeners(one.worker_pid()):
        if each.family == socket.AF_INET:
            assert LIBC.connect(each.fileno(), UNSPEC, len(UNSPEC)) == 0
            return each
        each.close()
    raise AssertionError("it listens on no port")


def test_a_port_that_a_worker_made_a_connection_of_is_free_again_at_once(daemon, tmp_path):
    one = start_with_tcp(daemon, "127.0.0.1", tmp_path)
    old = one.worker_pid()
    with socket.socket() as far, port_of(one) as port:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        far.bind(("127.0.0.1", 0))
        far.listen(1)
        # What the lock-in refuses; the keeper does not rely on it.
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        port.settimeout(5)
        port.connect(far.getsockname())
        reader, _ = far.accept()
        port.setblocking(False)
        with pytest.raises(BlockingIOError):
            while True:
                port.send(bytes(65536))
    # The far end neither reads nor closes: without a reset the connection would go on.
    with reader:
        os.kill(old, signal.SIGKILL)
        until("the next worker serves", lambda: serves(one), 5)
        until("on the port, too", lambda: serves_tcp(one), 5)
    assert one.stderr().count("was shut down by a worker: it is listened on anew") == 1


LEFT = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL), (socket.IPPROTO_TCP, socket.TCP_KEEPCNT)]  # fmt: skip


def ports_of(worker):
    return [each for each in descriptors.listeners(worker) if each.family == socket.AF_INET]


def test_options_that_a_worker_left_on_a_port_are_gone_for_the_next(daemon, tmp_path):
    one = start_with_tcp(daemon, "127.0.0.1", tmp_path)
    old = one.worker_pid()
    with socket.socket() as fresh:
        usual = [fresh.getsockopt(*option) for option in LEFT]
    [port] = ports_of(old)
    with port:
        for option in LEFT:
            port.setsockopt(*option, 1)
        assert all(port.getsockopt(*option) for option in LEFT)
        os.kill(old, signal.SIGKILL)
        until("the next worker serves", lambda: serves_tcp(one), 5)
        assert [port.getsockopt(*option) for option in LEFT] == usual


def test_a_port_that_can_not_be_bound_stops_none_of_the_others(daemon, tmp_path):
    one = start_with_tcp(daemon, "127.0.0.1", tmp_path, **admin())
    old = one.worker_pid()
    assert status(one)["listeners_down"] == 0
    with socket.socket() as squatter:
        with port_of(one):
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.bind(one.tcp_address)
            squatter.listen(1)
        os.kill(old, signal.SIGKILL)
        until("the next worker serves", lambda: serves(one), 5)
        assert status(one)["listeners_down"] == 1
        assert one.stderr().count("it is tried again every second") == 1
        # Another one knows as much.
        second = one.worker_pid()
        os.kill(second, signal.SIGKILL)
        until("another one serves", lambda: one.worker_pid() not in (None, second) and serves(one), 5)
        assert status(one)["listeners_down"] == 1
    until("the port is listened on", lambda: serves_tcp(one), 5)
    assert serves(one) and status(one)["listeners_down"] == 0
    assert one.stderr().count("it is tried again every second") == 1
