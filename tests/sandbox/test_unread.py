"""Nobody reads what keyhole says, or the terminal is stopped: what must be done after a run is done all the same."""

import errno
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from conftest import PATIENCE, PYTHON, USER
from test_run import Run
from test_set_aside import EVIL

pytestmark = [pytest.mark.identity("user"), pytest.mark.before_the_engine]
DEPENDENCIES = ["one", "two", "three"]


class Unread:
    """A run whose messages nobody reads: `kind` is what standard error is."""

    def __init__(self, sandbox, kind):
        self.run, self.kind = Run(sandbox), kind
        self.work = sandbox.folder("work")
        if kind == "pipe":
            self.ours, self.theirs = os.pipe()
            fcntl.fcntl(self.theirs, fcntl.F_SETPIPE_SZ, 4096)
        else:
            self.ours, self.theirs = os.openpty()
            if os.geteuid() == 0:
                os.fchown(self.theirs, USER, USER)
        config = EVIL.format(canary="/nonexistent/canary")
        script = "".join(f"git init -q {name}; cat > {name}/.git/config <<'END'\n{config}END\n" for name in DEPENDENCIES)
        self.process = subprocess.Popen(
            self.run.command("-q", "--workspace", self.work, "--", "sh", "-ec", script + "touch ready; while ! [ -e go ]; do sleep 0.1; done"),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.theirs, env=self.run.environment(), cwd="/",
        )  # fmt: skip
        self.until(lambda: os.path.exists(os.path.join(self.work, "ready")))

    @staticmethod
    def until(true):
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, "it took too long"
            time.sleep(0.02)

    def stop(self):
        """From here on whoever writes there waits."""
        if self.kind == "terminal":
            os.write(self.ours, b"\x13")
            self.until(lambda: not select.select([], [self.theirs], [], 0)[1])
        else:
            while select.select([], [self.theirs], [], 0)[1]:
                os.write(self.theirs, b"\n" * 4096)

    def is_harmless(self):
        for name in DEPENDENCIES:
            try:
                with open(os.path.join(self.work, name, ".git/config"), encoding="ascii") as file:
                    if "fsmonitor" in file.read():
                        return False
            except FileNotFoundError:  # between what is set aside and what takes its place
                return False
        return True

    def read(self):
        if self.kind == "terminal":
            os.write(self.ours, b"\x11")
        seen = b""
        while self.process.poll() is None or select.select([self.ours], [], [], 0.1)[0]:
            if select.select([self.ours], [], [], 0.1)[0]:
                seen += os.read(self.ours, 65536)
        return seen.decode()

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def unread(sandbox):
    made = []

    def make(kind):
        made.append(Unread(sandbox, kind))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_a_survey_waits_for_nobody_who_reads(sandbox, unread, kind):
    one = unread(kind)
    one.stop()
    sandbox.file(os.path.join(one.work, "go"))
    one.until(one.is_harmless)
    # Nor does anybody else who has to look after a workspace.
    other = sandbox.folder("other")
    one.run("-q", "--workspace", other, "--", "touch", "done", check=0)
    assert os.listdir(other) == ["done"] and one.process.poll() is None
    seen = one.read()
    assert one.process.wait(PATIENCE) == 0 and seen.count("was set aside") == len(DEPENDENCIES), seen


@pytest.mark.parametrize("kind", ["pipe", "terminal"])
def test_a_run_that_waits_for_a_reader_can_be_ended(sandbox, unread, kind):
    one = unread(kind)
    one.stop()
    sandbox.file(os.path.join(one.work, "go"))
    one.until(lambda: one.is_harmless() and not one.run.folders())
    one.process.send_signal(signal.SIGTERM)
    assert one.process.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.parametrize("left", [(1, 1), (33, 1000), (500, 101)], ids=str)
def test_a_terminal_that_a_command_had_stopped_goes_on_and_has_its_size(sandbox, left):
    """The key that the user types next must not stop it, and keyhole breaks lines for the width that there is."""
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
    if os.geteuid() == 0:
        os.fchown(slave, USER, USER)
    code = f"""
import fcntl, os, struct, sys, termios, time
modes = termios.tcgetattr(1)
modes[0] |= termios.IXON
modes[6][termios.VSTOP] = b'a'
termios.tcsetattr(1, termios.TCSANOW, modes)
fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', *{left}, 0, 0))
try:
    termios.tcflow(1, termios.TCOOFF)
    os._exit(1)
except termios.error as e:
    assert e.args[0] == {errno.EPERM}
sys.stdin.read()
"""
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(sandbox.command(PYTHON, "-I", "-c", code), stdin=subprocess.PIPE, stdout=slave,
                               stderr=subprocess.DEVNULL, env=sandbox.environment())  # fmt: skip
    try:
        Unread.until(lambda: termios.tcgetattr(slave)[6][termios.VSTOP] == b"a")
        os.write(master, b"a")
        Unread.until(lambda: not select.select([], [slave], [], 0)[1])
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
        assert select.select([], [slave], [], 0)[1] and termios.tcgetattr(slave) == before
        assert struct.unpack("HHHH", fcntl.ioctl(slave, termios.TIOCGWINSZ, b"\0" * 8))[:2] == (33, 101)
    finally:
        process.kill()
        process.wait()
        os.close(master)
        os.close(slave)
