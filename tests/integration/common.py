"""common.py - what harness.py and clients.py share: paths, the real key of this run, waiting"""

import contextlib
import os
import resource
import secrets
import socket
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
KEYHOLE = os.path.abspath(os.environ.get("KEYHOLE") or os.path.join(ROOT, "build", "keyhole"))
sys.path[:0] = [HERE, os.path.join(ROOT, "deploy", "demo")]
import mock_upstream as mock_module  # noqa: E402

PATIENCE = 60  # for what a quiet machine does in a moment
SECRET = "sk-ant-api03-" + secrets.token_urlsafe(60)
FINGERPRINT = mock_module.fingerprint(SECRET.encode())
PLACEHOLDER = "sk-ant-api03-PLACEHOLDER" + "x" * (len(SECRET) - 24)


def without_values(errors):
    """What `keyhole check` said, without the values of credentials that this machine has not."""
    absent = (" is not set; ", " is not there (")
    return "".join(line for line in errors.splitlines(True) if not any(text in line for text in absent))


def until(what, condition, seconds=PATIENCE, pause=0.005):
    """Waits for a condition that has no descriptor to wait on. Return: its last value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds} s in vain for: {what}")
        time.sleep(pause)
    return value


def has_ended(pid):
    """It may wait to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def may_have(descriptors):
    """Skips where a daemon can't be given so many."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < descriptors:
        pytest.skip(f"needs a hard limit of {descriptors} descriptors: here it is {hard}")


def finish(process, seconds=PATIENCE):
    """The exit status of a process that is about to end; it is killed where it does not."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise AssertionError(f"process {process.args[0]} did not end in {seconds} s") from None


def shut(listener):
    """Ends a listener that a thread accepts from. Closed alone it would leave the thread in accept(), by the
    descriptor's number, which the next listener gets: a connection of that one could end up here."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
