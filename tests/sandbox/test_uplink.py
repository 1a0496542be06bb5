"""The engine gvisor, whose kernel opens no socket of the host's: keyhole's connections are handed in."""

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import threading
import time

import pytest
from conftest import PATIENCE, PYTHON, SANDBOX_HOST_UID, USER, below, echo_at_end
from test_terminal import terminal  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(not shutil.which("runsc"), reason="engine gvisor: runsc is not installed")

# One line of JSON for each line that comes; `dial(path)` and `ask(path, word)` for what it is to do.
HEAD = """
import json, os, socket, sys
def dial(path):
    out = []
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as s:
            try:
                s.connect(path)
                out.append('reached')
            except OSError as e:
                out.append(e.errno)
    return out
def ask(path, word):
    try:
        s = socket.create_connection(('127.0.0.1', 3128)) if path == 'tcp' else socket.socket(socket.AF_UNIX)
        if path != 'tcp':
            s.connect(path)
        with s:
            s.sendall(word.encode())
            s.shutdown(socket.SHUT_WR)
            return b''.join(iter(lambda: s.recv(100), b'')).decode()
    except OSError as e:
        return e.errno
def tried(what):
    try:
        what()
        return 'done'
    except OSError as e:
        return e.errno
def ways(word):
    return [ask('tcp', word), ask('/run/keyhole/s', word)]
print('up')
for line in sys.stdin:
    print(json.dumps(eval(line)))
    sys.stdout.flush()
"""
ANSWERS = ["2:hi", "2:hi"]


class Inside:
    def __init__(self, sandbox, **options):
        self.process = sandbox.start(PYTHON, "-I", "-u", "-c", HEAD, engine="gvisor",
                                     stdin=subprocess.PIPE, **options)  # fmt: skip
        assert self.process.stdout.readline() == b"up\n", self.process.stderr.read()

    def __call__(self, expression):
        self.process.stdin.write(expression.encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else self.process.stderr.read()

    def end(self):
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture
def inside(sandbox):
    made = []

    def make(**options):
        made.append(Inside(sandbox, **options))
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate(timeout=PATIENCE)


def test_a_host_socket_made_after_the_start_can_not_be_dialled_in_gvisor(sandbox, workspace, inside):
    """Whoever may write to it, by whichever name, and whatever has been mounted; keyhole's own way works all along."""
    trees = {"workspace": workspace, "home": sandbox.folder("home"), "ro": sandbox.folder("tools")}
    one = inside(**trees)
    assert one("ways('hi')") == ANSWERS
    servers, names = [], []
    for option, path in trees.items():
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            server = socket.socket(socket.AF_UNIX, kind)
            name = f"later-{kind}"
            server.bind(os.path.join(path, name))
            os.chmod(os.path.join(path, name), 0o777)
            if kind != socket.SOCK_DGRAM:
                server.listen()
            servers.append(server)
            names.append(os.path.join("/home/agent" if option == "home" else path, name))
    os.link(os.path.join(workspace, "later-1"), os.path.join(workspace, "second"))
    os.symlink("later-1", os.path.join(workspace, "link"))
    names += [os.path.join(workspace, name) for name in ("second", "link")]
    # They are there, and the host's own programs reach them.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(os.path.join(workspace, "link"))
    seen = {name: one(f"dial({name!r})") for name in names}
    assert one("ways('hi')") == ANSWERS
    for server in servers:
        server.close()
    reached = [why for answers in seen.values() for why in answers]
    assert set(reached) <= {errno.EPERM, errno.ECONNREFUSED}, seen
    assert one.end() == 0


def start_again(peer):
    """At the same place."""
    peer.sock = socket.socket(socket.AF_UNIX)
    peer.sock.bind(peer.path)
    os.chmod(peer.path, 0o666)
    peer.sock.listen(64)
    peer.thread = threading.Thread(target=peer.accept, daemon=True)
    peer.thread.start()


def test_a_proxy_that_was_started_again_is_reached_again_in_gvisor(sandbox, inside):
    """Each connection is dialled anew; while nobody is there the client is told so, and nothing else ends."""
    one, peer = inside(), sandbox.peers[0]
    assert one("ways('hi')") == ANSWERS
    for there in (True, False):  # a name that nobody listens at, and none
        peer.close()
        if not there:
            os.unlink(peer.path)
        assert set(one("ways('hi')")) <= {errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN, ""}
    start_again(peer)
    assert one("ways('hi')") == ANSWERS
    assert one.end() == 0


def test_the_proxys_socket_is_not_in_gvisors_sandbox_and_its_own_stays(sandbox, inside):
    """What lies at /run/keyhole/s is keyhole-init's, and not the command's to take away."""
    one = inside()
    of_host = os.stat(os.path.join(sandbox.socket_dir, "s"))
    assert one("os.stat('/run/keyhole/s').st_ino") != of_host.st_ino
    tries = ("os.unlink('/run/keyhole/s')", "os.chmod('/run/keyhole/s', 0)", "open('/run/keyhole/new', 'w')",
             "os.chmod('/run/keyhole', 0o777)", "os.rename('/run/keyhole/s', '/tmp/s')")  # fmt: skip
    for expression in tries:
        assert one(f"tried(lambda: {expression})") in (errno.EACCES, errno.EPERM, errno.EXDEV, errno.EBUSY), expression
    assert one("ways('hi')") == ANSWERS
    assert one.end() == 0


def test_who_dials_for_gvisor_is_the_sandboxs_uid_and_ends_with_it(sandbox, inside):
    """It holds nothing but its few descriptors, and without it there is no sandbox."""
    seen = []

    def serve(connection):
        seen.append(struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))
        echo_at_end(connection)

    sandbox.peer(serve)
    one = inside()
    assert one("ways('hi')") == ANSWERS
    pids, uids = {pid for pid, _, _ in seen}, {uid for _, uid, _ in seen}
    assert uids == {os.geteuid() if os.geteuid() else SANDBOX_HOST_UID if sandbox.identity == "root" else USER}
    (pid,) = pids
    everything = [os.pidfd_open(other) for other in below(one.process.pid)]
    kinds = []
    end = time.monotonic() + PATIENCE
    while kinds != ["anon_inode", "socket"] and time.monotonic() < end:  # the last connection may not be closed yet
        with contextlib.suppress(FileNotFoundError):
            kinds = sorted(os.readlink(f"/proc/{pid}/fd/{fd}").partition(":")[0] for fd in os.listdir(f"/proc/{pid}/fd"))
    assert kinds == ["anon_inode", "socket"]
    os.kill(pid, signal.SIGKILL)
    for fd in everything:
        assert select.select([fd], [], [], PATIENCE)[0], "a process lives on"
        os.close(fd)
    one.process.wait(PATIENCE)
    assert b"ended from outside" in one.process.stderr.read()


def test_a_terminal_and_the_way_to_the_proxy_come_together_in_gvisor(sandbox, terminal):  # noqa: F811
    code = HEAD.partition("print(")[0] + "print(ways('hi'), sorted(os.listdir('/proc/self/fd')))"
    script = 'test -t 0 && test -t 1 && stty size; "$0" -I -c "$1"; read -r word; echo "got $word"'
    t = terminal("sh", "-c", script, PYTHON, code, engine="gvisor")
    t.wait_for(rb"33 101\r\n")
    t.wait_for(rb"\['2:hi', '2:hi'\] \['0', '1', '2', '3'\]")
    t.type(b"well\r")
    t.wait_for(rb"got well")
    assert t.end() == 0
    assert termios.tcgetattr(t.slave) == t.before
