"""test_reload_in_force.py - that a configuration is in force is said when the worker works by it, and not before."""

import contextlib
import copy
import ctypes
import json
import os
import select
import signal
import socket
import time

import pytest
from admin_client import admin, connect, read_answer, status
from harness import PATIENCE, Tunnel, finish, until
from test_reload import IN_FORCE, REFUSED, only, reload

ALLOWED = ({"allow": "https://open.test"},)
DENIED = ({"deny": "https://open.test/test/echo"}, *ALLOWED)
A_WHILE_S = 0.4
IN_CLOSE_NOWRITE = 0x10


class Manager:
    """What systemd hears."""

    def __init__(self, path):
        self.path = path
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.settimeout(10)
        self.sock.bind(path)

    def next(self):
        return self.sock.recv(4096).split(b"\n")[0].decode()

    def hears_nothing(self):
        self.sock.settimeout(A_WHILE_S)
        with pytest.raises(TimeoutError):
            self.next()
        self.sock.settimeout(10)
        return True


@pytest.fixture
def manager(tmp_path):
    one = Manager(str(tmp_path / "n"))
    yield one
    one.sock.close()


@pytest.fixture
def told(daemon, manager):
    """A daemon that has told systemd that it serves."""

    def make(*overrides):
        one = daemon(*overrides, env={"NOTIFY_SOCKET": manager.path})
        assert manager.next() == "READY=1"
        return one

    return make


@contextlib.contextmanager
def held(one):
    """The worker does nothing meanwhile."""
    worker = one.worker_pid()
    os.kill(worker, signal.SIGSTOP)
    try:
        yield worker
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)


@contextlib.contextmanager
def read(path):
    """Somebody has opened the file meanwhile, and closed it again."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_CLOEXEC)
    assert fd >= 0 and libc.inotify_add_watch(fd, path.encode(), IN_CLOSE_NOWRITE) >= 0, os.strerror(ctypes.get_errno())
    try:
        yield
        assert select.select([fd], [], [], PATIENCE)[0], f"nobody has read {path}"
    finally:
        os.close(fd)


def begin(one, manager, *rules):
    """A reload with these rules, which the keeper has begun: it has read them. No rules: with the same file."""
    config = copy.deepcopy(one.config)
    if rules:
        only(*rules)(config)
        # As a whole, so that nobody reads half of it.
        one.config, path = config, one.config_path + ".new"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.replace(path, one.config_path)
    with read(one.config_path):
        one.process.send_signal(signal.SIGHUP)
        assert manager.next() == "RELOADING=1"


def told_once(one, manager):
    assert manager.next() == "READY=1"
    assert one.stderr().count(IN_FORCE) == 1


def asked(tunnel):
    return tunnel.ask("GET", "/test/echo").status


def test_it_is_said_when_the_worker_works_by_it(told, manager):
    one = told()
    with Tunnel(one, "open.test") as tunnel:
        assert asked(tunnel) == 200
        with held(one):
            begin(one, manager, *DENIED)
            assert manager.hears_nothing()
            assert IN_FORCE not in one.stderr()
        told_once(one, manager)
        assert asked(tunnel) == 403, "the first request after that"
        assert manager.hears_nothing()
    assert one.stderr().count(IN_FORCE) == 1


def test_what_comes_after_it_was_said_is_judged_by_the_new_rules_in_all_threads(daemon):
    one = daemon({"worker": {"threads": 8}})
    with contextlib.ExitStack() as stack:
        tunnels = [stack.enter_context(Tunnel(one, "open.test")) for _ in range(16)]
        for rules, expected in 10 * [(DENIED, 403), (ALLOWED, 200)]:
            reload(one, only(*rules))
            assert [asked(tunnel) for tunnel in tunnels] == len(tunnels) * [expected]


def test_a_configuration_that_has_not_changed_is_confirmed_too(told, manager):
    one = told()
    with held(one):
        begin(one, manager)
        assert manager.hears_nothing()
    told_once(one, manager)


def test_of_two_in_a_row_the_last_is_said_when_it_is_in_force(told, manager):
    one = told(admin())
    with held(one):
        begin(one, manager, *DENIED)
        begin(one, manager, *ALLOWED, {"deny": "https://auth.test"})
        assert manager.hears_nothing()
    told_once(one, manager)
    with Tunnel(one, "open.test") as tunnel:
        assert asked(tunnel) == 200
    assert manager.hears_nothing()
    until("both are noted", lambda: status(one)["reloads"] == {"ok": 2, "failed": 0, "last_failure": None})


def test_one_that_fails_meanwhile_says_nothing_of_the_one_before_and_stays_noted(told, manager):
    one = told(admin())
    with held(one):
        begin(one, manager, *DENIED)
        begin(one, manager, {"allow": "https://*.co.uk"})
        until("it is refused", lambda: REFUSED in one.stderr())
        assert manager.hears_nothing()
        assert IN_FORCE not in one.stderr()
    told_once(one, manager)
    with Tunnel(one, "open.test") as tunnel:
        assert asked(tunnel) == 403
    until("the one before is noted", lambda: status(one)["reloads"]["ok"] == 1)
    assert status(one)["reloads"]["failed"] == 1 and "co.uk" in status(one)["reloads"]["last_failure"]["error"]


def test_a_worker_that_dies_meanwhile_is_followed_by_one_that_works_by_it(told, manager):
    one = told()
    with held(one) as worker:
        begin(one, manager, *DENIED)
        assert manager.hears_nothing()
        os.kill(worker, signal.SIGKILL)
        told_once(one, manager)
    assert one.worker_pid() != worker
    said = one.stderr()
    assert said.index(f"worker {worker} was killed") < said.index(IN_FORCE)
    with Tunnel(one, "open.test") as tunnel:
        assert asked(tunnel) == 403


def test_a_drain_meanwhile_does_not_say_ready(told, manager):
    one = told()
    with held(one):
        begin(one, manager, *DENIED)
        one.process.send_signal(signal.SIGTERM)
        assert manager.next() == "STOPPING=1"
        assert manager.hears_nothing()
        assert IN_FORCE not in one.stderr()
    assert finish(one.process) == 0
    one.process = None
    assert manager.hears_nothing()
    assert one.stderr().count(IN_FORCE) == 1


def test_a_handover_that_is_asked_for_meanwhile_comes_after_it(upgradable, manager):
    one = upgradable(env={"NOTIFY_SOCKET": manager.path})
    assert manager.next() == "READY=1"
    since = one.mark()
    with held(one):
        begin(one, manager, {"allow": "https://open.test"})
        one.usr2()
        assert manager.hears_nothing()
    old = one.taken_over(since)
    assert finish(old) == 0
    said = one.stderr()[since:]
    assert "not now" not in said
    assert said.index(IN_FORCE) < said.index("is started")
    assert manager.next() == "READY=1" and manager.next() == f"MAINPID={one.process.pid}"
    one.last_ended()


def test_whoever_asked_hears_it_when_it_is_in_force(told, manager):
    one = told(admin())
    one.write({**one.config, "tenants": {"acme": {"rules": list(DENIED)}}})
    with connect(one) as sock, Tunnel(one, "open.test") as tunnel:
        assert asked(tunnel) == 200
        one.process.send_signal(signal.SIGSTOP)
        try:
            sock.sendall(b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            time.sleep(A_WHILE_S)  # for the worker to ask the keeper
            with held(one):
                one.process.send_signal(signal.SIGCONT)
                assert manager.next() == "RELOADING=1"
                assert manager.hears_nothing()
        finally:
            one.process.send_signal(signal.SIGCONT)
        answer, content = read_answer(sock)
        assert asked(tunnel) == 403
        assert answer == 200 and b'"ok":true' in content.replace(b" ", b"")
    told_once(one, manager)
    assert status(one)["reloads"]["ok"] == 1
