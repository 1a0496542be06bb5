"""Standard descriptors: what the command is handed of the caller's, what is relayed, and what is refused."""

import contextlib
import ctypes
import errno
import fcntl
import os
import pty
import select
import signal
import socket
import stat
import struct
import subprocess
import termios
import threading

import pytest
from conftest import PATIENCE, PYTHON, USER


@pytest.fixture
def run(sandbox):
    """With these three; gives back the status and what keyhole itself said, where standard error is not given."""

    def start(*args, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options):
        done = subprocess.run(
            sandbox.command(*args, **options), stdin=stdin, stdout=stdout, stderr=stderr, timeout=PATIENCE,
            env=sandbox.environment(), cwd="/", check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    return start


def tcp_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
    return ours, theirs


# In the sandbox: the other direction of what it was given, and of all else that it holds.
OTHER_WAY = """
import os
for fd in range(64):
    for flags, act in ((os.O_WRONLY, lambda f: os.write(f, b'of the agent\\n')), (os.O_RDONLY, lambda f: os.read(f, 100))):
        try:
            f = os.open('/proc/self/fd/%d' % fd, flags | os.O_NONBLOCK)
            act(f)
        except OSError:
            pass
"""


@pytest.mark.identity("root", "user")
def test_the_other_end_of_a_callers_pipe_is_out_of_reach(sandbox, run):
    """Whoever writes to the pipe that a shell reads its script from writes what the shell runs next."""
    script, out, err = os.pipe(), os.pipe(), os.pipe()
    try:
        os.write(out[1], b"another writer's\n")
        run(PYTHON, "-I", "-c", OTHER_WAY, stdin=script[0], stdout=out[1], stderr=err[1])
        os.set_blocking(script[0], False)
        with pytest.raises(BlockingIOError):
            assert os.read(script[0], 100) == b"", "the agent wrote to standard input"
        os.set_blocking(out[0], False)
        assert b"another writer's\n" in os.read(out[0], 1000), "the agent read from standard output"
    finally:
        for fd in (*script, *out, *err):
            os.close(fd)


# In the sandbox: would this socket lead somewhere else?
ELSEWHERE = """
import ctypes, os, socket, stat, sys
kinds = [stat.S_IFMT(os.fstat(fd).st_mode) for fd in (0, 1, 2)]
libc, out = ctypes.CDLL(None, use_errno=True), []
for fd in (0, 1, 2):
    unspec = ctypes.create_string_buffer(16)
    out.append(libc.connect(fd, unspec, 16))
data = sys.stdin.buffer.read()
sys.stdout.write(repr((sorted(set(kinds)), out, data)))
sys.stderr.write('said')
"""


@pytest.mark.parametrize("make", [tcp_pair, socket.socketpair], ids=["tcp", "unix"])
def test_a_socket_is_relayed_and_never_the_commands(run, make):
    """connect(AF_UNSPEC) and then anywhere: a TCP socket of the host's network leads into it."""
    pairs = [make() for _ in range(3)]
    try:
        pairs[0][0].sendall(b"hello")
        pairs[0][0].shutdown(socket.SHUT_WR)
        status, _ = run(PYTHON, "-I", "-c", ELSEWHERE, stdin=pairs[0][1], stdout=pairs[1][1], stderr=pairs[2][1])
        for _, theirs in pairs:
            theirs.close()
        said = [pairs[i][0].makefile("rb").read() for i in (1, 2)]
    finally:
        for ours, theirs in pairs:
            ours.close()
            theirs.close()
    assert status == 0
    assert said == [repr(([stat.S_IFIFO], [-1, -1, -1], b"hello")).encode(), b"said"]


@pytest.mark.before_the_engine
def test_one_socket_can_be_all_three(run):
    """As a server starts it for a client (inetd, a harness of an agent)."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"a line\n")
        status, _ = run("sh", "-c", "read line; echo got $line; echo and >&2", stdin=theirs, stdout=theirs, stderr=theirs)
        theirs.close()
        assert (status, ours.makefile("rb").read()) == (0, b"got a line\nand\n")


@pytest.mark.before_the_engine
def test_a_slow_reader_of_a_socket_gets_all_of_it(run):
    ours, theirs = socket.socketpair()
    got = bytearray()

    def read():
        # Nothing is read before the command has long ended its writing and waits for room.
        select.select([ours], [], [], PATIENCE)
        while chunk := ours.recv(1000):
            got.extend(chunk)

    reader = threading.Thread(target=read)
    reader.start()
    with ours, theirs:
        status, _ = run(PYTHON, "-I", "-c", "print('x' * 2_000_000, end='END')", stdout=theirs)
        theirs.close()
        reader.join(PATIENCE)
    assert (status, len(got), bytes(got[-3:])) == (0, 2_000_003, b"END")


@contextlib.contextmanager
def refused(kind, place):
    """A descriptor that is more than bytes."""
    with contextlib.ExitStack() as stack:
        if kind == "folder":
            fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        elif kind == "place":
            fd = os.open(place, os.O_PATH)
        elif kind == "epoll":
            fd = stack.enter_context(select.epoll()).fileno()
        elif kind == "eventfd":
            fd = os.eventfd(1)
        elif kind == "pidfd":
            fd = os.pidfd_open(os.getpid())
        elif kind == "datagrams":
            fd = stack.enter_context(socket.socketpair(type=socket.SOCK_DGRAM)[0]).fileno()
        elif kind == "listener":
            fd = stack.enter_context(socket.create_server(("127.0.0.1", 0))).fileno()
        elif kind == "master":
            fd, slave = pty.openpty()
            stack.callback(os.close, slave)
        else:
            fd = os.open("/dev/net/tun" if os.path.exists("/dev/net/tun") else "/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
        fd = os.dup(fd)
        stack.callback(os.close, fd)
        yield fd


@pytest.mark.before_the_engine
@pytest.mark.parametrize("kind", ["folder", "place", "epoll", "eventfd", "pidfd", "datagrams", "listener", "master", "device"])
def test_what_is_more_than_bytes_is_refused_by_name(run, sandbox, kind):
    with refused(kind, sandbox.place) as fd:
        status, said = run("true", stdin=fd)
        assert status == 125
        assert said.startswith(b"keyhole: standard input is ") and b"(give it a pipe, a file" in said
        assert said.count(b"\n") == 1
        assert run("true", stdout=fd)[0] == 125


@pytest.mark.before_the_engine
def test_a_file_is_relayed_and_can_not_be_touched(run, sandbox):
    """Opened both ways, and of the sandbox's own uid: it can be written to, cut off and given another mode."""
    path = sandbox.file(os.path.join(sandbox.place, "input"), "content\n", 0o640)
    log = sandbox.file(os.path.join(sandbox.place, "log"), "before\n", 0o640)
    code = """
import os, sys
out = []
for f in (lambda: os.fchmod(0, 0o777), lambda: os.fchmod(1, 0o777), lambda: os.write(0, b'x'), lambda: os.ftruncate(0, 0),
          lambda: os.ftruncate(1, 0), lambda: os.pwrite(1, b'x', 0), lambda: os.pread(1, 1, 0),
          lambda: os.lseek(1, 0, 0), lambda: os.utime(1, (1, 1))):
    try: f()
    except OSError: pass
print(sys.stdin.read().strip(), flush=True)
sys.stderr.write('second\\n')
sys.stderr.flush()
print('third')
"""
    with open(path, "r+b") as given, open(log, "ab") as appended:
        before = os.stat(path), os.stat(log)
        status, _ = run(PYTHON, "-I", "-c", code, stdin=given, stdout=appended, stderr=appended)
    after = os.stat(path), os.stat(log)
    assert status == 0
    assert [s.st_mode for s in after] == [s.st_mode for s in before]
    assert after[0].st_mtime_ns == before[0].st_mtime_ns and after[1].st_mtime > 1
    with open(path, encoding="ascii") as file:
        assert file.read() == "content\n"
    with open(log, encoding="ascii") as file:
        assert file.read() == "before\ncontent\nsecond\nthird\n"


@pytest.mark.before_the_engine
def test_where_nothing_runs_the_input_is_still_there(run, sandbox):
    """Another engine may come next, or a shell that reads on."""
    path = sandbox.file(os.path.join(sandbox.place, "input"), "first\n")
    with open(path, "rb") as given:
        assert run("no-such-command", stdin=given)[0] == 127
        assert os.lseek(given.fileno(), 0, os.SEEK_CUR) == 0


@pytest.mark.before_the_engine
def test_a_pipe_is_handed_in_and_comes_back_as_it_was(run):
    read, write = os.pipe()
    code = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK); print('out')"
    try:
        assert run(PYTHON, "-I", "-c", code, stdout=write)[0] == 0
        assert not fcntl.fcntl(write, fcntl.F_GETFL) & os.O_NONBLOCK
        assert os.read(read, 10) == b"out\n"
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.before_the_engine
@pytest.mark.parametrize("which", ["stdin", "stdout", "stderr"])
def test_a_terminal_on_one_descriptor_is_as_it_was_afterwards(run, sandbox, which):
    """The command may set its modes for itself; what a shell finds there later are its own. One that is no session's does not
    become the command's, which would open it for writing too."""
    master, slave = os.openpty()
    if sandbox.identity == "user" and os.geteuid() == 0:
        os.fchown(slave, USER, USER)
    code = f"""
import fcntl, os, struct, termios, tty
fd = {["stdin", "stdout", "stderr"].index(which)}
out = []
for request, arg in ((termios.TIOCSCTTY, 0), (termios.TIOCSETD, struct.pack('i', 3)), (termios.TIOCEXCL, 0)):
    try: fcntl.ioctl(fd, request, arg); out.append(0)
    except OSError as e: out.append(e.errno)
try: os.open('/dev/tty', os.O_RDWR); out.append(0)
except OSError: pass
tty.setraw(fd, termios.TCSANOW)
mode = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
os._exit(7 if out == [{errno.EPERM}] * 3 and mode == {os.O_RDONLY if which == "stdin" else os.O_WRONLY} else 1)
"""
    before = termios.tcgetattr(slave)
    try:
        assert run(PYTHON, "-I", "-c", code, **{which: slave})[0] == 7
        assert termios.tcgetattr(slave) == before
        os.close(os.open(os.ttyname(slave), os.O_RDWR | os.O_NOCTTY))
    finally:
        os.close(master)
        os.close(slave)


# In the sandbox: whatever its owner may do to the file of a terminal, by descriptor and by name.
OPEN_TO_ALL = """
import os, sys
for fd in range(64):
    for act in (lambda: os.fchmod(fd, 0o666), lambda: os.chmod('/proc/self/fd/%d' % fd, 0o666),
                lambda: os.fchown(fd, -1, os.getgid())):
        try: act()
        except OSError: pass
print('\\n%o' % (os.fstat(fd_given).st_mode & 0o777), file=sys.stderr if fd_given != 2 else sys.stdout)
"""


@pytest.mark.parametrize("which", ["stdin", "stdout", "stderr"])
def test_a_terminal_is_not_opened_to_other_users(run, sandbox, which):
    """Whoever may open it reads what is typed there, in this run and after it."""
    master, slave = os.openpty()
    if sandbox.identity == "user" and os.geteuid() == 0:
        os.fchown(slave, USER, USER)
    os.fchmod(slave, 0o600)
    before, told = os.fstat(slave), os.pipe()
    other = "stdout" if which == "stderr" else "stderr"
    number = ["stdin", "stdout", "stderr"].index(which)
    try:
        status, _ = run(PYTHON, "-I", "-c", f"fd_given = {number}\n{OPEN_TO_ALL}", **{which: slave, other: told[1]})
        after = os.fstat(slave)
        assert status == 0
        assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
        os.close(told[1])
        inside = os.read(told[0], 1000).split()[-1]
        if sandbox.engine in ("process", "container"):
            assert inside == b"600", "during the run"
    finally:
        os.close(master)
        os.close(slave)
        os.close(told[0])


def without_landlock():
    """As on a kernel that has none: the call does not exist for what is started here."""
    code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | errno.ENOSYS), (0x06, 0, 0, 0x7FFF0000)]
    lines = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in code))
    program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(lines))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_without_landlock_a_terminal_for_output_is_relayed(sandbox):
    """Else it can be opened anew by /proc/self/fd, for reading."""
    master, slave = os.openpty()
    os.fchown(slave, USER, USER)
    script = "test -t 1 || echo no terminal; cat /proc/self/fd/1 & sleep 1; kill $!"
    try:
        os.write(master, b"typed\n")
        done = subprocess.run(
            sandbox.command("sh", "-c", script), stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE,
            timeout=PATIENCE, env=sandbox.environment(), cwd="/", preexec_fn=without_landlock, check=False,
        )  # fmt: skip
        said = os.read(master, 1000)
        assert b"no Landlock" in done.stderr, done.stderr
        assert b"no terminal" in said and said.count(b"typed") == 1, said
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_a_terminal_of_another_user_is_relayed(run):
    """As below su: it can't be opened anew for one direction, so nothing of it is handed in."""
    master, slave = os.openpty()
    os.fchmod(slave, 0o600)
    try:
        assert run("sh", "-c", "test -t 1 || echo no terminal", stdout=slave)[0] == 0
        said = os.read(master, 1000)
        while select.select([master], [], [], 0.2)[0]:
            said += os.read(master, 1000)
        said = said.partition(b"no terminal\r\n")
        assert said[1] and said[2].endswith(b"\x1b[J"), "what it left in the terminal is reset after its last output"
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.before_the_engine
def test_a_command_that_is_ended_while_it_reads_a_socket_leaves_nothing(sandbox):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            sandbox.command("sh", "-c", "echo up; exec cat"), stdin=theirs, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=sandbox.environment(), cwd="/",
        )  # fmt: skip
        theirs.close()
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
        assert process.returncode == 128 + signal.SIGTERM
        assert ours.recv(1) == b"", "somebody still holds the other end"
