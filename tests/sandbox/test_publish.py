"""Ports of the host's loopback that lead to a server in the sandbox, in every engine."""

import contextlib
import hashlib
import os
import select
import signal
import socket
import subprocess
import threading
import time

import pytest
from conftest import PATIENCE, PYTHON, read_all
from test_capture import inside, mock  # noqa: F401
from test_engines import below

SERVER = """
import socket, sys, threading
family = {'4': socket.AF_INET, '6': socket.AF_INET6}[sys.argv[1]]
server = socket.socket(family)
server.bind(({'4': '127.0.0.1', '6': '::1'}[sys.argv[1]], 3000))
server.listen(1000)
print('up', flush=True)
def one(s):
    with s:
        data = bytearray()
        while chunk := s.recv(65536):
            data += chunk
        s.sendall(b'%d:' % len(data) + data)
while True:
    threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextlib.contextmanager
def published(sandbox, code=SERVER, args=("4",), ports=None):
    port = free_port()
    running = sandbox.start(PYTHON, "-I", "-c", code, *args, publish=ports or f"{port}:3000", stdin=subprocess.PIPE)
    try:
        line = running.stdout.readline()
        assert line == b"up\n", (line, running.stderr.read() if not line else "")
        yield port, running
    finally:
        running.send_signal(signal.SIGTERM)
        try:
            running.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            running.kill()
            raise


def ask(port, data, host="127.0.0.1"):
    with socket.create_connection((host, port), timeout=PATIENCE) as s:
        thread = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        thread.start()
        got = bytearray()
        while chunk := s.recv(65536):
            got += chunk
        thread.join()
        return bytes(got)


@pytest.mark.parametrize("family", ["4", "6"])
def test_a_server_inside_is_reached_from_the_hosts_loopback(sandbox, family):
    """Also one that listens on ::1 only, as dev servers do."""
    with published(sandbox, args=(family,)) as (port, _):
        assert ask(port, b"hello") == b"5:hello"


def test_much_goes_both_ways_and_each_half_ends_by_itself(sandbox):
    data = os.urandom(5_000_000)
    with published(sandbox) as (port, _):
        got = ask(port, data)
        assert hashlib.sha256(got).digest() == hashlib.sha256(b"%d:" % len(data) + data).digest()


def test_many_at_a_time(sandbox):
    """More than are let through at once: the others wait."""
    with published(sandbox) as (port, _):
        answers = []
        threads = [threading.Thread(target=lambda i=i: answers.append(ask(port, b"x" * i))) for i in range(300)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(answers) == sorted(b"%d:" % i + b"x" * i for i in range(300))


ONE = """
import os, socket, sys
server = socket.create_server(('127.0.0.1', 3000))
print('up', flush=True)
s, _ = server.accept()
s.recv(1)
"""


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    client.sendall(b"?")
    return client


def line_of(running):
    """One, if it comes."""
    assert select.select([running.stdout], [], [], PATIENCE)[0], "it says nothing"
    return running.stdout.readline()


def who_listens(port, among):
    with open("/proc/net/tcp", encoding="ascii") as file:
        fields = [line.split() for line in file.readlines()[1:]]
    found = {f"socket:[{f[9]}]" for f in fields if f[1].endswith(f":{port:04X}") and f[3] == "0A"}
    for pid in among:
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                if os.readlink(f"/proc/{pid}/fd/{fd}") in found:
                    return pid
    return None


@contextlib.contextmanager
def stopped_until_the_sandbox_has_ended(sandbox, running, port):
    """Whoever carries the bytes between the clients and the sandbox goes on when all else is gone."""
    carrier = who_listens(port, below(running.pid))
    # The launcher, who carries, who relays the three descriptors, and who removes the container.
    others = 5 + (sandbox.engine == "docker")
    os.kill(carrier, signal.SIGSTOP)
    try:
        yield
        end = time.monotonic() + PATIENCE
        while len(below(running.pid)) > others:
            assert time.monotonic() < end, "more than these live on"
            time.sleep(0.01)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(carrier, signal.SIGCONT)


def read_to_the_reset(client):
    """How much came before it. A clean end is what must not be."""
    got = 0
    with pytest.raises(ConnectionResetError):
        while chunk := client.recv(65536):
            got += len(chunk)
    return got


def test_what_was_written_last_is_not_lost_with_the_sandbox(sandbox):
    """Whoever carries it is late: all else has ended by the time that it goes on."""
    code = ONE + "print('asked', flush=True); sys.stdin.read(1); s.sendall(b'x' * 50_000); os._exit(7)"
    with published(sandbox, code=code) as (port, running), connect(port) as client:
        assert line_of(running) == b"asked\n"
        with stopped_until_the_sandbox_has_ended(sandbox, running, port):
            running.stdin.write(b"!")
            running.stdin.flush()
        assert running.wait(PATIENCE) == 7
        assert read_all(client) == b"x" * 50_000


def test_what_was_written_last_is_read_when_the_sandbox_has_ended(sandbox):
    code = ONE + "s.sendall(b'x' * 50_000); os._exit(7)"
    with published(sandbox, code=code) as (port, running), connect(port) as client:
        assert running.wait(PATIENCE) == 7
        assert read_all(client) == b"x" * 50_000


def test_a_client_that_takes_nothing_does_not_hold_up_the_end(sandbox):
    code = ONE + """
s.setblocking(False)
try:
    while True:
        s.send(b'x' * 65536)
except BlockingIOError:
    os._exit(7)
"""
    with published(sandbox, code=code) as (port, running), connect(port):
        assert running.wait(PATIENCE) == 7


def test_what_a_client_has_not_taken_at_the_end_does_not_look_whole(sandbox):
    code = ONE + """
s.setblocking(False)
sent = 0
try:
    while True:
        sent += s.send(b'x' * 65536)
except BlockingIOError:
    print(sent, flush=True)
    os._exit(7)
"""
    with published(sandbox, code=code) as (port, running), socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(b"?")
        sent = int(line_of(running))
        assert running.wait(PATIENCE) == 7
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(65536):
                got += len(chunk)
            assert got == sent


def test_what_is_cut_off_inside_does_not_look_whole(sandbox):
    """keyhole-init gives up, since nothing is taken; and then all that is left is taken at once."""
    code = ONE + """
print('asked', flush=True)
sys.stdin.read(1)
s.setblocking(False)
sent = 0
try:
    while True:
        sent += s.send(b'x' * 65536)
except BlockingIOError:
    print(sent, flush=True)
    os._exit(7)
"""
    with published(sandbox, code=code) as (port, running), connect(port) as client:
        assert line_of(running) == b"asked\n"
        with stopped_until_the_sandbox_has_ended(sandbox, running, port):
            running.stdin.write(b"!")
            running.stdin.flush()
            sent = int(line_of(running))
        assert read_to_the_reset(client) < sent
        assert running.wait(PATIENCE) == 7


PART = ONE + "s.sendall(b'x' * 50_000); print('sent', flush=True); import time; time.sleep(1000)"


def test_what_is_cut_off_by_the_launchers_death_does_not_look_whole(sandbox):
    with published(sandbox, code=PART) as (port, running), connect(port) as client:
        assert line_of(running) == b"sent\n"
        running.kill()
        read_to_the_reset(client)


def test_what_is_cut_off_by_a_kill_of_all_in_the_sandbox_does_not_look_whole(sandbox):
    """All of it that the host shows under the launcher, at once."""
    with published(sandbox, code=PART) as (port, running), connect(port) as client:
        assert line_of(running) == b"sent\n"
        carrier = who_listens(port, below(running.pid))
        for pid in below(running.pid):
            if pid not in (running.pid, carrier):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        read_to_the_reset(client)


def test_an_answer_of_a_server_that_ends_with_the_command_does_not_look_whole(sandbox):
    """The kernel ends its connection as if the server itself had."""
    code = PART.replace("server =", "end = os.pipe()\nif os.fork(): os.read(end[0], 1); os._exit(7)\nserver =", 1)
    code = code.replace("time.sleep(1000)", "os.write(end[1], b'!'); time.sleep(1000)")
    with published(sandbox, code=code) as (port, running), connect(port) as client:
        assert running.wait(PATIENCE) == 7
        assert read_to_the_reset(client) == 50_000


def test_an_answer_that_ended_before_the_command_is_whole_whoever_else_is_killed(sandbox):
    code = ONE.replace("server =", "import time\nif not os.fork(): time.sleep(1000)\nserver =", 1)
    with published(sandbox, code=code + "s.sendall(b'x' * 50_000); os._exit(7)") as (port, running), connect(port) as client:
        assert running.wait(PATIENCE) == 7
        assert read_all(client) == b"x" * 50_000


def fill(client):
    """As much as goes in where nobody reads."""
    while select.select([], [client], [], 0.5)[1]:
        client.send(b"y" * 1000)


@pytest.mark.parametrize("sends", ["nothing", "more"])
def test_an_answer_that_the_server_resets_does_not_look_whole(sandbox, sends):
    abort = "s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b'\\1\\0\\0\\0\\0\\0\\0\\0'); s.close(); "
    code = ONE + "s.sendall(b'x' * 50_000); sys.stdin.read(1); " + abort + "print('reset', flush=True); sys.stdin.read()"
    with published(sandbox, code=code) as (port, running), connect(port) as client:
        got = 0
        while got < 50_000:
            got += len(client.recv(65536))
        if sends == "more":
            fill(client)
        running.stdin.write(b"!")
        running.stdin.flush()
        assert line_of(running) == b"reset\n"
        assert read_to_the_reset(client) == 0


def test_an_answer_that_came_early_is_read_by_a_client_that_goes_on_sending(sandbox):
    """The server leaves what it is sent unread, which resets its connection."""
    code = ONE + "s.sendall(b'x' * 50_000); s.close(); sys.stdin.read()"
    with published(sandbox, code=code) as (port, _), connect(port) as client:

        def send():
            with contextlib.suppress(OSError):
                while True:
                    client.sendall(b"y" * 65536)

        thread = threading.Thread(target=send)
        thread.start()
        got = bytearray()
        with contextlib.suppress(ConnectionResetError):
            while chunk := client.recv(65536):
                got += chunk
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        thread.join()
        assert bytes(got) == b"x" * 50_000


def test_a_server_is_told_that_its_client_has_gone(sandbox):
    code = ONE + """
try:
    while True:
        s.sendall(b'x' * 65536)
except OSError:
    print('told', flush=True)
sys.stdin.read()
"""
    with published(sandbox, code=code) as (port, running):
        with connect(port) as client:
            assert client.recv(1) == b"x"
        assert line_of(running) == b"told\n"


def test_only_the_loopback_of_the_host_listens(sandbox):
    with published(sandbox) as (port, _):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("192.0.2.1", 9))
                own = probe.getsockname()[0]
            except OSError:
                own = "127.0.0.2"
        with pytest.raises(ConnectionRefusedError):
            ask(port, b"", host=own)


def test_where_nobody_listens_inside_the_connection_ends(sandbox):
    code = "import sys; print('up', flush=True); sys.stdin.read()"
    with published(sandbox, code=code, args=()) as (port, _):
        assert ask(port, b"") == b""


def test_the_port_is_free_again_at_the_end(sandbox):
    with published(sandbox) as (port, _):
        pass
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_and_after_a_kill(sandbox):
    with published(sandbox) as (port, running):
        running.kill()
        running.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                socket.create_server(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.02)
        else:
            pytest.fail("the port is still taken")


def test_a_port_that_is_taken_is_said_before_anything_runs(sandbox):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = sandbox.run("echo", "ran", publish=f"{port}:3000", check=125)
    assert done.stdout == b"" and b"--publish: 127.0.0.1:%d of the host: Address already in use" % port in done.stderr


def test_the_proxy_is_not_published(sandbox):
    done = sandbox.run("true", publish=f"{free_port()}:3128", check=125)
    assert b"port 3128 inside is the proxy's" in done.stderr


def test_what_was_handed_in_leads_nowhere_else(sandbox):
    """The command has no descriptor of it, and the channel is not its own."""
    code = SERVER.replace("print('up'", "import os; fds = sorted(os.listdir('/proc/self/fd')); print('up'")
    code = code.replace("b'%d:' % len(data) + data", "repr(fds).encode()")
    with published(sandbox, code=code) as (port, _):
        assert ask(port, b"") == b"['0', '1', '2', '3', '4']"  # the server, and the folder that is read


@pytest.mark.parametrize("said", ["", "x", "0:1", "1:0", "65536", "1:2:3", "80:", ":80", "127.0.0.1:80:80"])
def test_a_wrong_port_is_one_line(inside, said):  # noqa: F811
    done = inside("true", options=["--publish", said], check=125)
    assert done.stderr.startswith("keyhole: --publish ") and done.stderr.count("\n") == 1


def test_run_publishes(inside):  # noqa: F811
    port = free_port()
    answers = []

    def client():
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                answers.append(ask(port, b"hi"))
                if answers[-1]:
                    with contextlib.suppress(OSError):
                        ask(port, b"")  # it was seen, so the server may end
                    return
            except OSError:
                pass
            time.sleep(0.02)

    thread = threading.Thread(target=client)
    thread.start()
    once = SERVER.replace("while True:\n    threading.Thread(target=one, args=(server.accept()[0],), daemon=True).start()",
                          "one(server.accept()[0]); server.accept()")  # fmt: skip
    inside(PYTHON, "-I", "-c", once, "4", options=["--publish", f"{port}:3000"])
    thread.join()
    assert answers[-1] == b"2:hi"
