"""keyhole-init: PID 1, and the relay from 127.0.0.1:3128 to the one socket."""

import errno
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest
from conftest import PATIENCE, read_all

SMALL_STACK = "import threading; threading.stack_size(256 * 1024)\n"


def rss_kib(pid=None, command=b"/run/keyhole-init"):
    """Of the sandbox's init, seen from the host."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                line = file.read()
            if not line.startswith(command) or (pid and pid not in line):
                continue
            with open(f"/proc/{entry}/status", encoding="ascii") as file:
                return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1])
        except (OSError, TypeError):
            pass
    return None


# --- the relay ------------------------------------------------------------------------------------


def test_each_half_ends_by_itself(sandbox):
    """The peer answers after our end has come; we read after having sent all of it."""
    seen = sandbox.python(
        """
        import socket, hashlib, os
        data = os.urandom(3_000_000)
        s = socket.create_connection(('127.0.0.1', 3128))
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        got = bytearray()
        while chunk := s.recv(65536):
            got += chunk
        say(bytes(got) == b'%d:' % len(data) + data)
        """
    )
    assert seen is True


def test_the_other_half_ends_by_itself_too(sandbox):
    """The peer ends its half at once and still hears everything."""
    heard = []

    def serve(connection):
        connection.sendall(b"hello")
        connection.shutdown(socket.SHUT_WR)
        heard.append(read_all(connection))

    peer = sandbox.peer(serve)
    sandbox.python(
        """
        import socket
        s = socket.create_connection(('127.0.0.1', 3128))
        got = b''
        while chunk := s.recv(100):
            got += chunk
        assert got == b'hello', got
        for _ in range(300):
            s.sendall(b'x' * 1000)
        s.close()
        say(1)
        """
    )
    end = time.monotonic() + PATIENCE
    while not heard and time.monotonic() < end:
        time.sleep(0.01)
    assert heard == [b"x" * 300_000]
    peer.close()


def test_an_early_answer_arrives_though_nobody_listens_any_more(sandbox):
    """The peer answers in the middle of an upload and goes away."""

    def serve(connection):
        connection.recv(1000)
        connection.sendall(b"413 too large" + b"." * 100_000)

    sandbox.peer(serve)
    seen = sandbox.python(
        """
        import socket, threading
        s = socket.create_connection(('127.0.0.1', 3128))
        def send():
            try:
                for _ in range(2000):
                    s.sendall(b'x' * 10000)
            except OSError:
                pass
        t = threading.Thread(target=send, daemon=True)
        t.start()
        got = b''
        try:
            while chunk := s.recv(65536):
                got += chunk
        except ConnectionResetError:
            pass
        say([len(got), got[:13].decode()])
        """
    )
    assert seen == [100_013, "413 too large"]


def test_a_peer_that_is_not_there_is_a_reset_and_not_an_end(sandbox):
    sandbox.peers[-1].close()
    os.unlink(sandbox.peers[-1].path)
    seen = sandbox.python(
        """
        import socket
        s = socket.create_connection(('127.0.0.1', 3128))
        try:
            say(s.recv(1).hex())
        except OSError as e:
            say(e.errno)
        """
    )
    assert seen == errno.ECONNRESET


def test_a_client_that_goes_away_lets_the_peer_go(sandbox):
    ended = threading.Event()

    def serve(connection):
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            ended.set()

    sandbox.peer(serve)
    sandbox.python(
        """
        import socket, struct
        s = socket.create_connection(('127.0.0.1', 3128))
        s.recv(1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        s.close()
        import time
        time.sleep(1)
        say(1)
        """
    )
    assert ended.wait(PATIENCE)


def test_two_thousand_connections_at_a_time_in_the_memory_of_one(sandbox):
    """All open at once, each with bytes under way in both directions that nobody takes."""
    waiting = threading.Barrier(2)

    def serve(connection):
        connection.sendall(b"y" * 100_000)  # more than the sockets hold is not sent yet
        connection.sendall(read_all(connection)[:10])

    sandbox.peer(serve)
    with socket.socket() as gate:
        gate.close()
    code = SMALL_STACK + (
        "import socket, resource, time, os\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 5000), hard))\n"
        "n = 2000\n"
        "socks = []\n"
        "for i in range(n):\n"
        "    s = socket.create_connection(('127.0.0.1', 3128), 60)\n"
        "    s.sendall(b'%08d' % i)\n"
        "    socks.append(s)\n"
        "print('open', flush=True)\n"
        "sys.stdin.readline()\n"
        "bad = 0\n"
        "for i, s in enumerate(socks):\n"
        "    s.shutdown(socket.SHUT_WR)\n"
        "    got = bytearray()\n"
        "    while chunk := s.recv(1 << 18):\n"
        "        got += chunk\n"
        "    bad += bytes(got) != b'y' * 100_000 + b'%08d' % i\n"
        "    s.close()\n"
        "print('bad', bad, flush=True)\n"
    )
    process = subprocess.Popen(
        sandbox.command("/usr/bin/python3", "-I", "-c", "import sys\n" + code),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=sandbox.environment(),
    )  # fmt: skip
    try:
        assert process.stdout.readline() == b"open\n", process.stderr.read()
        grown = rss_kib(os.path.basename(sandbox.socket_dir).encode()) or rss_kib()
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"bad 0\n"
    finally:
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        process.stdout.close()
        process.stderr.close()
    assert grown and grown < 4096, f"{grown} KiB"
    del waiting


def test_a_slow_reader_costs_no_memory_and_no_time(sandbox):
    """The peer sends without end to one that does not read: the init must neither store nor spin."""

    def serve(connection):
        connection.settimeout(2)
        sent = 0
        try:
            while True:
                sent += connection.send(b"z" * 65536)
        except OSError:
            pass
        connection.settimeout(None)
        connection.recv(1)

    sandbox.peer(serve)
    seen = sandbox.python(
        """
        import socket, time
        s = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(20)]
        time.sleep(1)
        def ticks():
            f = open('/proc/1/stat').read().rsplit(')', 1)[1].split()
            return int(f[11]) + int(f[12]), int(f[21])
        before, _ = ticks()
        time.sleep(1)
        after, pages = ticks()
        say([after - before, pages * 4])
        """
    )
    assert seen[0] <= 5, "the init spins"
    assert seen[1] < 4096


def test_more_than_it_may_hold_wait_and_none_is_lost(sandbox):
    """With few descriptors allowed the relay holds few at a time; the others wait their turn."""

    def serve(connection):
        connection.sendall(b"ok")

    sandbox.peer(serve)
    command = sandbox.command(
        "/usr/bin/python3", "-I", "-c",
        "import socket, threading\n"
        "ok = []\n"
        "def one():\n"
        "    s = socket.create_connection(('127.0.0.1', 3128), 60)\n"
        "    ok.append(s.recv(10))\n"
        "    s.recv(1)\n"
        "    s.close()\n"
        "def some():\n"
        "    for _ in range(10): one()\n"
        "ts = [threading.Thread(target=some) for _ in range(40)]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print(ok.count(b'ok'))",
    )  # fmt: skip
    done = subprocess.run(
        ["prlimit", "--nofile=96:96", *command], capture_output=True, timeout=PATIENCE,
        env=sandbox.environment(), check=False,
    )  # fmt: skip
    assert done.stdout == b"400\n", (done.stdout, done.stderr)


def test_a_full_backlog_of_the_proxy_is_waited_for(sandbox):
    """A proxy that is busy accepts late; nobody is turned away."""
    folder = os.path.join(sandbox.place, "late")
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(folder, "s"))
        os.chmod(os.path.join(folder, "s"), 0o666)
        server.listen(1)
        sandbox.socket_dir = folder
        process = sandbox.start(
            "/usr/bin/python3", "-I", "-c",
            "import socket\n"
            "s = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(50)]\n"
            "print('open', flush=True)\n"
            "print(sum(c.recv(2) == b'ok' for c in s))",
        )  # fmt: skip
        assert process.stdout.readline() == b"open\n"
        time.sleep(0.1)
        for _ in range(50):
            server.settimeout(PATIENCE)
            connection, _ = server.accept()
            connection.sendall(b"ok")
            connection.close()
        out, err = process.communicate(timeout=PATIENCE)
        assert out == b"50\n", err


# --- PID 1 ----------------------------------------------------------------------------------------


def test_orphans_are_reaped(sandbox):
    seen = sandbox.python(
        """
        import os, time
        for _ in range(50):
            if os.fork() == 0:
                if os.fork() == 0:
                    time.sleep(0.05)
                os._exit(0)
            os.wait()
        time.sleep(0.5)
        states = []
        for p in os.listdir('/proc'):
            if p.isdigit() and int(p) not in (1, os.getpid()):
                states.append(open(f'/proc/{p}/stat').read().split()[2])
        say(states)
        """
    )
    assert seen == []


def test_a_command_that_has_its_parent_trace_it_still_hears_signals(sandbox):
    """PID 1 is the parent of the command and of each orphan. A tracer that lets nobody go on would stop them for ever."""
    script = "import ctypes, os; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.execv('/bin/echo', ['echo', 'exec'])"
    assert sandbox.run("/usr/bin/python3", "-I", "-c", script, check=0).stdout == b"exec\n"
    code = ("import ctypes, signal, time; signal.signal(signal.SIGUSR1, lambda *_: print('heard', flush=True));"
            "ctypes.CDLL(None).ptrace(0, 0, 0, 0); signal.raise_signal(signal.SIGUSR1); time.sleep(100)")  # fmt: skip
    process = sandbox.start("/usr/bin/python3", "-I", "-c", code)
    assert process.stdout.readline() == b"heard\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("status", [0, 1, 3, 125, 126, 127, 137, 255])
def test_the_exit_status_is_the_commands(sandbox, status):
    assert sandbox.run("sh", "-c", f"exit {status}").returncode == status


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_signals_end_is_told_as_a_shell_does(sandbox, signo):
    assert sandbox.run("sh", "-c", f"kill -{int(signo)} $$").returncode == 128 + signo


def test_a_command_that_is_not_there_or_not_executable(sandbox, workspace):
    done = sandbox.run("no-such-command", check=127)
    assert done.stderr == b"keyhole: no-such-command: No such file or directory\n"
    sandbox.file(os.path.join(workspace, "plain"), "text", 0o644)
    done = sandbox.run("./plain", workspace=workspace, check=126)
    assert done.stderr == b"keyhole: ./plain: Permission denied\n"
    done = sandbox.run("/usr", check=126)
    assert done.stderr == b"keyhole: /usr: Permission denied\n"


@pytest.mark.parametrize(
    "signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1]
)
def test_signals_reach_the_command_and_its_children(sandbox, signo):
    # Blocked and waited for: a handler could come between a look and a pause.
    code = (
        "import os, signal, sys\n"
        "wanted = {int(sys.argv[1])}\n"
        "signal.signal(int(sys.argv[1]), signal.SIG_DFL)\n"  # nohup and shells leave some ignored
        "signal.pthread_sigmask(signal.SIG_BLOCK, wanted)\n"
        "child = os.fork()\n"
        "if not child: os.write(1, b'up\\n')\n"
        "signal.sigwait(wanted)\n"
        "if child: os.wait()\n"
        "os.write(1, b'parent\\n' if child else b'child\\n')\n"
        "os._exit(42 if child else 0)\n"
    )
    process = sandbox.start("/usr/bin/python3", "-I", "-c", code, str(int(signo)))
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signo)
    out, err = process.communicate(timeout=PATIENCE)
    assert sorted(out.split()) == [b"child", b"parent"], (out, err)
    assert process.returncode == 42


def test_what_was_started_in_the_background_ends_with_the_command(sandbox):
    out = sandbox.run("sh", "-c", "sleep 301.125 & echo done", check=0).stdout
    assert out == b"done\n"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                assert file.read() != b"sleep\x00301.125\x00"
        except OSError:
            pass


def test_the_limit_of_descriptors_is_three_quarters_of_the_callers(sandbox):
    """The kernel counts descriptors that are under way for all of a user: the init and the launcher may have more of them."""
    command = sandbox.command("sh", "-c", "ulimit -Sn; ulimit -Hn")
    done = subprocess.run(
        ["prlimit", "--nofile=256:1024", *command], capture_output=True, timeout=PATIENCE,
        env=sandbox.environment(), check=True,
    )  # fmt: skip
    assert done.stdout == b"256\n768\n"


def test_ignored_signals_stay_ignored(sandbox):
    """What nohup and a shell's `&` rely on."""
    process = subprocess.Popen(
        sandbox.command("sh", "-c", "echo up; sleep 1; echo lived"), stdout=subprocess.PIPE,
        env=sandbox.environment(), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    assert process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGHUP)
    out, _ = process.communicate(timeout=PATIENCE)
    assert out == b"lived\n"


# --- standard input, output, error ----------------------------------------------------------------


def test_bytes_pass_unchanged_and_the_streams_stay_apart(sandbox):
    data = bytes(range(256)) * 4000
    done = sandbox.run("/usr/bin/python3", "-I", "-c",
                       "import sys\nd = sys.stdin.buffer.read()\n"
                       "sys.stdout.buffer.write(d)\nsys.stderr.buffer.write(d)",
                       input=data, check=0)  # fmt: skip
    assert done.stdout == data and done.stderr == data


@pytest.mark.identity("root")
def test_pipes_of_roots_can_be_opened_by_name(sandbox):
    done = sandbox.run("sh", "-c", "cat /dev/stdin >/dev/stdout; echo x >/dev/stderr",
                       input=b"in", check=0)  # fmt: skip
    assert (done.stdout, done.stderr) == (b"in", b"x\n")


def test_the_end_of_input_is_seen_and_a_closed_output_is_felt(sandbox):
    assert sandbox.run("cat", input=b"", check=0).stdout == b""
    process = sandbox.start("yes")
    assert process.stdout.read(2) == b"y\n"
    process.stdout.close()
    process.stderr.close()
    assert process.wait(PATIENCE) == 128 + signal.SIGPIPE


def test_a_control_message_from_nobody_does_nothing(sandbox):
    """The agent can't reach the socket between launcher and init."""
    seen = sandbox.python(
        """
        import os
        out = []
        for fd in range(64):
            try:
                out.append(os.readlink(f'/proc/self/fd/{fd}'))
            except OSError:
                pass
        say([x for x in out if 'socket' in x])
        """
    )
    assert seen == []


def test_the_init_alone_in_a_plain_namespace(programs):
    """Without a launcher, for other engines: it says itself what went wrong."""
    init = os.path.join(programs, "keyhole-init")
    base = ["unshare", "-Urpfn", "--mount-proc", init, "--socket", "/nonexistent"]
    done = subprocess.run([*base, "--", "sh", "-c", "exit 7"], timeout=PATIENCE, check=False)
    assert done.returncode == 7
    done = subprocess.run([*base, "--", "nope"], capture_output=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (127, b"keyhole-init: nope: No such file or directory\n")
    done = subprocess.run([*base, "--what"], capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 125 and b"--what" in done.stderr


def test_the_init_is_one_static_file(programs):
    with open(os.path.join(programs, "keyhole-init"), "rb") as file:
        head = file.read(64)
        phoff, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(phoff)
        table = file.read(size * count)
    kinds = [struct.unpack_from("<I", table, i * size)[0] for i in range(count)]
    assert 3 not in kinds, "it asks for an interpreter"
