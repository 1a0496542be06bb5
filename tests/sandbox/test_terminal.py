"""A terminal inside that is not the caller's, but behaves as if it were."""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import select
import signal
import struct
import subprocess
import termios
import time
import tty

import pytest
from conftest import PATIENCE, USER
from test_run import Run
from tmux import RESET


class Terminal:
    """The caller's terminal, with the launcher on it as its foreground job."""

    def __init__(self, sandbox, *command, size=(33, 101), stderr=None, stdin=True, stdout=True,
                 **options):  # fmt: skip
        self.master, self.slave = os.openpty()
        self.resize(*size)
        if sandbox.identity == "user" and os.geteuid() == 0:
            os.fchown(self.slave, USER, USER)
        self.before = termios.tcgetattr(self.slave)
        slave = self.slave

        def own():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        env = sandbox.environment(TERM="xterm-256color", COLORTERM="truecolor")
        self.process = subprocess.Popen(
            sandbox.command(*command, **options), env=env, preexec_fn=own,
            stdin=slave if stdin else subprocess.DEVNULL,
            stdout=slave if stdout else subprocess.PIPE, stderr=stderr or slave,
        )  # fmt: skip
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            assert left > 0, f"waited for {pattern!r}, saw {self.seen!r}"
            if select.select([self.master], [], [], min(left, 0.1))[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.master, 65536)
            elif self.process.poll() is not None and not re.search(pattern, self.seen):
                raise AssertionError(f"ended before {pattern!r}: {self.seen!r}")
        self.seen = self.seen[found.end() :]
        return found

    def end(self):
        status = self.process.wait(PATIENCE)
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                self.seen += os.read(self.master, 65536)
            except OSError:
                break
        return status

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(sandbox):
    made = []

    def make(*command, **options):
        made.append(Terminal(sandbox, *command, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_size_name_and_signals_pass(sandbox, terminal):
    script = (
        "trap 'stty size' WINCH; echo $TERM $COLORTERM; tty; stty size; test -t 0 && test -t 1 && "
        "test -t 2 && echo three; while :; do sleep 0.05; done"
    )
    t = terminal("sh", "-c", script)
    # gVisor's kernel has no name for one that comes from outside of it; ours is a link.
    name = b"/dev/tty" if sandbox.engine == "gvisor" else b"/dev/pts/0"
    t.wait_for(rb"xterm-256color truecolor\r\n" + name + rb"\r\n33 101\r\nthree\r\n")
    t.resize(44, 120)
    t.wait_for(rb"44 120\r\n")
    t.type(b"\x03")
    assert t.end() == 128 + signal.SIGINT
    assert termios.tcgetattr(t.slave) == t.before


def test_keys_are_echoed_by_the_inner_terminal_and_reach_the_command(terminal):
    t = terminal("sh", "-c", "read line; echo got:$line; read -r rest || echo end")
    t.type(b"hello\n")
    t.wait_for(rb"hello\r\ngot:hello\r\n")
    t.type(b"\x04")
    t.wait_for(rb"end\r\n")
    assert t.end() == 0


def test_what_has_other_standard_descriptors_finds_the_terminal_by_its_name(terminal):
    """As a pager does, and whoever asks for a password."""
    script = "read x </dev/tty; echo got:$x >/dev/tty; test -t 9 9<>/dev/tty && stty size </dev/tty >/dev/tty"
    t = terminal("sh", "-c", f"echo up; sh -c '{script}' </dev/null >/dev/null 2>&1; echo end:$?")
    t.wait_for(rb"up\r\n")
    t.type(b"hello\n")
    t.wait_for(rb"hello\r\ngot:hello\r\n33 101\r\nend:0\r\n")
    assert t.end() == 0


def test_a_shell_has_job_control(terminal):
    t = terminal("bash", "--norc", "-i")
    t.wait_for(rb"\$ ")
    # It starts nothing: a shell that stands in vfork while its child is stopped does not stop.
    t.type(b"sh -c 'echo up; read line'\n")
    t.wait_for(rb"[\r\n]up\r\n")
    t.type(b"\x1a")
    t.wait_for(rb"Stopped")
    # fg waits for the job's end. wait would not: a job counts as stopped until its end is seen,
    # and bash does not exit beside a stopped job.
    t.type(b"kill %1; fg; echo done-$((40+2))\n")
    t.wait_for(rb"[\r\n]done-42")
    t.type(b"exit 5\n")
    assert t.end() == 5


def test_much_output_arrives_whole(terminal):
    t = terminal("/usr/bin/python3", "-I", "-c", "print('x' * 300000, end='END')")
    t.wait_for(rb"x{300000}END")
    assert t.end() == 0


def test_what_was_said_last_is_seen(terminal):
    for _ in range(5):
        t = terminal("sh", "-c", "echo last words")
        status = t.end()
        assert status == 0 and b"last words" in t.seen, t.seen


@pytest.mark.parametrize("signo", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_outer_terminal_is_as_it_was_after_a_signal(terminal, signo):
    t = terminal("sh", "-c", "echo up; exec sleep 300")
    t.wait_for(rb"up\r\n")
    assert termios.tcgetattr(t.slave) != t.before
    t.process.send_signal(signo)
    assert t.end() == 128 + signo
    assert termios.tcgetattr(t.slave) == t.before


def test_the_outer_terminal_is_as_it_was_when_the_command_is_not_there(terminal):
    t = terminal("no-such-command")
    assert t.end() == 127
    assert termios.tcgetattr(t.slave) == t.before
    assert b"no-such-command" in t.seen


def test_a_command_that_writes_without_end_is_ended_when_its_time_is_up(terminal):
    """Also where killing the engine's program does not end the container (docker)."""
    t = terminal("sh", "-c", "trap '' TERM; echo up; while :; do yes; done", timeout_ms=3000)
    end = time.monotonic() + PATIENCE
    while t.process.poll() is None and time.monotonic() < end:
        if select.select([t.master], [], [], 0.1)[0]:
            os.read(t.master, 65536)
    assert t.process.poll() == 124
    assert termios.tcgetattr(t.slave) == t.before


@pytest.mark.parametrize("signo", [None, signal.SIGTERM])
def test_a_terminal_that_nobody_reads_holds_up_neither_the_clock_nor_signals(terminal, signo):
    t = terminal("sh", "-c", "echo up; exec yes", stderr=subprocess.PIPE, timeout_ms=2000 if signo is None else 600000)
    t.wait_for(b"up")
    time.sleep(0.5)  # until all that lies between is full
    if signo:
        t.process.send_signal(signo)
    assert t.process.wait(PATIENCE) == (124 if signo is None else 128 + signo)


def test_standard_error_elsewhere_stays_elsewhere(terminal):
    t = terminal("sh", "-c", "echo out; echo err >&2; test -t 2 || echo no", stderr=subprocess.PIPE)
    t.wait_for(rb"out\r\nno\r\n")
    assert t.process.stderr.read() == b"err\n"
    assert t.end() == 0
    t.process.stderr.close()


def test_a_terminal_that_is_only_written_to_can_not_be_read_from(sandbox, terminal):
    """`keyhole run … <file`: what is typed is not the agent's."""
    code = (
        "import os, termios, fcntl\n"
        "out = []\n"
        "for f in (lambda: os.read(2, 1), lambda: fcntl.ioctl(2, termios.TIOCSTI, b'x'),\n"
        "          lambda: fcntl.ioctl(2, termios.TIOCSCTTY, 0)):\n"
        "    try: f(); out.append('done')\n"
        "    except OSError as e: out.append(e.errno)\n"
        "print(out)\n"
    )
    t = terminal("/usr/bin/python3", "-I", "-c", code, stdin=False, stdout=False)
    t.type(b"secret\n")
    out = t.process.stdout.read()
    assert t.end() == 0
    # To gVisor's kernel it is no terminal at all.
    last = errno.ENOTTY if sandbox.engine == "gvisor" else errno.EPERM
    assert out == b"[%d, %d, %d]\n" % (errno.EBADF, errno.EPERM, last), out
    t.process.stdout.close()


class Whole:
    """`keyhole run` in the launcher's place."""

    def __init__(self, sandbox):
        self.run, self.identity = Run(sandbox), sandbox.identity

    def command(self, *args):
        return self.run.command(*args, use=None)

    def environment(self, **more):
        return self.run.environment(**more)


@pytest.mark.before_the_engine
@pytest.mark.identity("user")
def test_a_window_that_was_made_narrower_breaks_no_row_of_keyholes(sandbox, workspace):
    """Where the command has the caller's terminal, it can set the size back to what it was, and nobody else knows better."""
    code = (
        "import fcntl, os, struct, subprocess, termios, time\n"
        "size = lambda: struct.unpack('HHHH', fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))[1]\n"
        "print('up', flush=True)\n"
        "while size() != 60: time.sleep(0.01)\n"
        "fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 101, 0, 0))\n"
        "subprocess.run(['git', 'init', '-q', 'dep'], check=True)\n"
        "open('dep/.git/config', 'a').write('[core]\\n\\tfsmonitor = touch x; false\\n')\n"
        "print('done', flush=True)\n"
    )
    t = Terminal(Whole(sandbox), "--workspace", workspace, "--", "/usr/bin/python3", "-I", "-c", code, stdin=False)
    try:
        t.wait_for(rb"up\r\n")
        t.resize(33, 60)
        t.wait_for(rb"done\r\n")
        assert t.end() == 0
        rows = ("keyhole: " + t.seen.decode().split("keyhole: ", 1)[1]).splitlines()
        assert "fsmonitor" in "".join(rows) and len(rows) > 5, t.seen
        # The terminal itself breaks the line of the journal.
        assert all(len(row) <= 40 or row.startswith("keyhole: 0 requests") for row in rows), rows
        size = fcntl.ioctl(t.slave, termios.TIOCGWINSZ, bytes(8))
        assert struct.unpack("HHHH", size)[:2] == (33, 101)
    finally:
        t.close()



def test_nothing_can_be_typed_into_the_outer_terminal(sandbox, terminal):
    # gVisor's kernel opens no /dev/tty for a terminal that comes from outside of it.
    more = "" if sandbox.engine == "gvisor" else ", os.open('/dev/tty', os.O_RDWR)"
    code = (
        "import fcntl, termios, os\n"
        f"for fd in (0, 1, 2{more}):\n"
        "    for request, data in ((termios.TIOCSTI, b'x'), (0x541C, b'\\2')):\n"
        "        try: fcntl.ioctl(fd, request, data); print('done')\n"
        "        except OSError as e: print(e.errno)\n"
    )
    t = terminal("/usr/bin/python3", "-I", "-c", code)
    assert t.end() == 0
    assert t.seen.removesuffix(RESET).split() == [b"%d" % errno.EPERM] * (8 if more else 6)


def test_what_a_command_did_not_read_is_not_left_for_the_shell(terminal):
    """Such as what the terminal answered to it."""
    t = terminal("sh", "-c", "stty raw -echo; echo ready; sleep 2")
    t.wait_for(rb"ready")
    os.set_blocking(t.master, False)
    with contextlib.suppress(BlockingIOError):
        for _ in range(1024):
            t.type(b"\x1b[?62;4c" * 64)
    assert t.end() == 0
    tty.setraw(t.slave, termios.TCSANOW)
    os.set_blocking(t.slave, False)
    with pytest.raises(BlockingIOError):
        os.read(t.slave, 65536)


# --- programs that fill the screen ----------------------------------------------------------------


def test_vim_writes_a_file(sandbox, terminal, workspace):
    """Real keys, from its first screen to the file on the host."""
    if not (vim := shutil.which("vim.tiny") or shutil.which("vim")):
        pytest.skip("vim is not installed")
    t = terminal(vim, "-u", "NONE", "-i", "NONE", "-n", "new.txt", workspace=workspace)
    t.wait_for(rb"new\.txt")
    t.type(b"ihello from inside\x1b")
    t.wait_for(rb"hello from inside")
    t.type(b":wq\r")
    assert t.end() == 0
    with open(os.path.join(workspace, "new.txt"), encoding="ascii") as file:
        assert file.read() == "hello from inside\n"
    assert termios.tcgetattr(t.slave) == t.before


def test_htop_draws_and_quits(terminal):
    """In colours, and at the size that there is."""
    if not (htop := shutil.which("htop")):
        pytest.skip("htop is not installed")
    t = terminal(htop)
    t.wait_for(rb"\x1b\[[0-9;]*m.*(?s:.)*F10")
    t.type(b"q")
    assert t.end() == 0
    assert termios.tcgetattr(t.slave) == t.before


def test_the_launcher_killed_ends_the_sandbox(terminal):
    t = terminal("sh", "-c", "echo up; exec sleep 302.5")
    t.wait_for(rb"up\r\n")
    t.process.kill()
    t.process.wait(PATIENCE)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        lines = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
                lines.append(file.read())
        if b"sleep\x00302.5\x00" not in lines:
            return
        time.sleep(0.02)
    raise AssertionError("it lives on")
