"""test_systemd.py - readiness, reload and stop are told; sockets that are handed over are used."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from harness import KEYHOLE, ROOT, Daemon, Tunnel, until

UNIT = os.path.join(ROOT, "deploy", "systemd", "keyhole.service")


@pytest.fixture
def manager(tmp_path):
    """What systemd listens with, under an ordinary and under an abstract name."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.settimeout(10)
    yield sock
    sock.close()


@pytest.mark.parametrize("abstract", [False, True])
def test_it_says_when_it_serves_reloads_and_stops(daemon, manager, tmp_path, abstract):
    name = f"keyhole-test-{os.getpid()}" if abstract else str(tmp_path / "n")
    manager.bind("\0" + name if abstract else name)
    one = daemon(env={"NOTIFY_SOCKET": "@" + name if abstract else name})
    assert manager.recv(4096) == b"READY=1"
    one.process.send_signal(signal.SIGHUP)
    assert manager.recv(4096).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
    assert manager.recv(4096) == b"READY=1"
    one.stop()
    assert manager.recv(4096) == b"STOPPING=1"
    one.process = None


ACTIVATE = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
os.environ["LISTEN_FDS"] = "1"
os.dup2(int(sys.argv[1]), 3)
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextlib.contextmanager
def activated(one, path, request, answer):
    """A daemon that is started as systemd does it: its socket is there before it, and so is whoever connected."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with socket.socket(socket.AF_UNIX) as held, socket.socket(socket.AF_UNIX) as early:
        held.bind(path)
        held.listen(16)
        early.connect(path)
        early.sendall(request)
        with open(one.stderr_path, "ab") as stderr:
            one.process = subprocess.Popen(
                [sys.executable, "-c", ACTIVATE, str(held.fileno()), KEYHOLE, "proxy", "-c", one.config_path],
                pass_fds=[held.fileno()], stderr=stderr,
            )  # fmt: skip
        one.baseline = None
        early.settimeout(20)
        assert early.recv(4096).startswith(answer)
        early.close()
        yield
        one.stop()
        one.process = None
        assert os.path.exists(path), "the name is systemd's"


def test_a_socket_that_systemd_holds_is_used_and_left_where_it_is(daemon, mock):
    one = daemon(start=False)
    request = b"GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\n\r\n"
    with activated(one, one.socket_path, request, b"HTTP/1.1 403 "), Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_the_admin_socket_may_be_systemds_too(daemon):
    one = daemon({"admin": {"unix": "adm/s"}}, start=False)
    path = os.path.join(one.folder, "adm", "s")
    with activated(one, path, b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", b"HTTP/1.1 200 "):
        pass


def test_a_foreign_listen_pid_is_not_believed(daemon):
    one = daemon(env={"LISTEN_PID": "1", "LISTEN_FDS": "5"})
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")
def test_the_units_exposure_is_under_2(tmp_path):
    """It needs the programs that the unit names, so they are put where it looks."""
    root = tmp_path / "root"
    (root / "usr/local/bin").mkdir(parents=True)
    (root / "bin").mkdir()
    (root / "etc/systemd/system").mkdir(parents=True)
    for name in ("usr/local/bin/keyhole", "bin/kill"):
        shutil.copy("/bin/true", root / name)
    unit = root / "etc/systemd/system/keyhole.service"
    with open(UNIT, encoding="utf-8") as file:
        unit.write_text(file.read().replace("@BINDIR@", "/usr/local/bin"))
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--root={root}", "keyhole.service"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    line = next((x for x in done.stdout.splitlines() if "Overall exposure" in x), done.stderr)
    assert float(line.split(":")[1].split()[0]) < 2.0, line
