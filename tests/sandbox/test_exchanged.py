"""A folder above the workspace or the home is exchanged for a symbolic link and back while runs begin and end."""

import os
import subprocess
import sys
import time

import pytest
from conftest import PATIENCE
from test_run import Run

pytestmark = pytest.mark.identity("user")

SECONDS = 1.5
# Until its input ends.
FLIPS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
first, second = (name.encode() for name in sys.argv[1:])
while not done.is_set():
    assert libc.renameat2(-100, first, -100, second, 2) == 0
"""
OWN = {".git/HEAD": "ref: refs/heads/main\n", ".git/hooks/pre-commit": "#!/bin/sh\n", ".vscode/tasks.json": "{}", "sub/.envrc": "true\n"}


@pytest.fixture
def run(sandbox):
    return Run(sandbox)


def content_of(top):
    return {os.path.relpath(os.path.join(at, name), top): open(os.path.join(at, name), encoding="utf-8").read() for at, _, names in os.walk(top) for name in names}  # noqa: SIM115


@pytest.mark.parametrize("option", ["--workspace", "--home"])
def test_no_other_folder_is_recorded_or_surveyed(run, sandbox, option):
    """Where the link leads lies what the user has made, of which a survey against other notes would move each file away."""
    sandbox.folder("above/work")
    private, link, above = sandbox.folder("private/work"), os.path.join(sandbox.place, "link"), os.path.join(sandbox.place, "above")
    for name, text in OWN.items():
        sandbox.file(os.path.join(private, name), text)
    os.symlink("private", link)
    sandbox.give(sandbox.place)
    flips = subprocess.Popen([sys.executable, "-I", "-c", FLIPS, above, link], stdin=subprocess.PIPE)
    said, end = [], time.monotonic() + SECONDS
    try:
        while time.monotonic() < end:
            said.append(run("-q", option, os.path.join(above, "work"), "--", "true", use=None))
    finally:
        flips.communicate(timeout=PATIENCE)
    assert flips.returncode == 0
    for done in said:
        assert "set aside" not in done.stderr, done.stderr
        # Which step finds it, and so what is said, depends on the moment.
        assert done.returncode == 0 or (done.returncode == 125 and done.stderr.startswith("keyhole: ")), done.stderr
    assert content_of(private) == OWN
