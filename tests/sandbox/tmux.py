"""tmux as the terminal that somebody sits at: what it shows is what its emulator makes of the bytes."""

import os
import shlex
import shutil
import subprocess
import time

import pytest
from conftest import PATIENCE

# What keyhole sends before lines of its own on a terminal (src/base/screen.c).
RESET = (b"\x18\x1b\\\x1b<\x1b[4i\x1b[?4i\x1b[0$}\x1b[0$~\x1b[0\"q\x1b[?2026l\x1b[<99u\x1b[=0u\x1b[?1047l\x1b[<99u\x1b[=0u"
         b"\x1b7\x1bP0;1|\x1b\\\x1b[?69l\x1b[r\x1b8\x1b[2l\x1b[4l\x1b[20l\x1b[?5l\x1b[?7h\x1b[?25h\x1b[?1l\x1b>"
         b"\x1b[?9;1000;1001;1002;1003;1004;1005;1006;1015;1016;2004l\x1b[?2031l\x1b[?2048l\x1b[?9001l\x1b[>m\x1b[>4m"
         b"\x1b[?5W\x1b[m\x1b(B\x0f\x1b%G\x1b]8;;\x1b\\\x1b]22;\x1b\\\x1b]7;\x1b\\\x1b[?67l\x1b#5\x1b[J")  # fmt: skip


class Tmux:
    """A shell in a window of 80 columns; `run` is a test_run.Run."""

    def __init__(self, sandbox, run, folder):
        if not shutil.which("tmux"):
            pytest.skip("tmux is not installed")
        self.sandbox, self.env = sandbox, {**run.environment(), "PS1": "$ ", "LC_ALL": "C.UTF-8"}
        self.socket = os.path.join(sandbox.folder("tmux"), "socket")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "40", "-c", folder, "exec sh")

    def tmux(self, *words):
        done = subprocess.run(self.sandbox.as_identity(["tmux", "-S", self.socket, *words]), env=self.env, cwd="/",
                              capture_output=True, text=True, timeout=PATIENCE, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def shell(self, *commands):
        """Types the commands, each a list of words, and waits until all have ended."""
        done = os.path.join(os.path.dirname(self.socket), "done")
        typed = "; ".join(shlex.join(words) for words in commands)
        self.tmux("send-keys", "-l", f"clear; {typed}; touch {done}")
        self.tmux("send-keys", "Enter")
        end = time.monotonic() + PATIENCE
        while not os.path.exists(done):
            assert time.monotonic() < end, self.shown()
            time.sleep(0.05)
        os.unlink(done)

    def shown(self, *how):
        return self.tmux("capture-pane", "-p", *how).splitlines()

    def close(self):
        self.tmux("kill-server")
