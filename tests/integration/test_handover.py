"""test_handover.py - SIGUSR2: another binary takes over, and nobody notices"""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import descriptors
import pytest
from admin_client import read_answer
from daemons import base_config
from h2client import h2_tunnel
from handover import Load, Upgradable, ask, stream
from harness import FINGERPRINT, KEYHOLE, PATIENCE, SECRET, Tunnel, Wire, finish, until
from sandboxes import add, admin
from test_listen import start as start_with_tcp

ROOT = os.geteuid() == 0
USER = 4711


class Ordinary(Upgradable):
    """Of an ordinary user, started by root."""

    identity = {"user": USER, "group": USER, "extra_groups": []}

    def spawn(self):
        for folder, _, files in os.walk(self.folder):
            os.chown(folder, USER, USER)
            for name in files:
                os.chown(os.path.join(folder, name), USER, USER)
        return super().spawn()


def uids(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return re.search(r"^Uid:\s+(\d+)", file.read(), re.M).group(1)


# --- it goes on -----------------------------------------------------------------------------------


def test_who_may_read_the_journal_does_not_hinder_a_handover(upgradable):
    """Nor does a killed handover's file, which has the journal's mode."""
    one = upgradable()
    with open(one.journal_path + ".handover", "wb") as left, open(one.journal_path, "rb") as journal:
        os.fchmod(left.fileno(), 0o640)
        with open(left.name, "rb") as reader:
            fcntl.flock(reader, fcntl.LOCK_SH)
            fcntl.lockf(journal, fcntl.LOCK_SH | fcntl.LOCK_NB, 0, 1 << 20)  # flock() of it is the daemon's
            assert ask(one).status == 200
            one.install()
            one.hand_over()
            one.last_ended()
    assert ask(one).status == 200
    assert os.path.exists(one.journal_path + ".lock")
    one.stop()
    assert not os.path.exists(one.journal_path + ".lock")


@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
def test_another_users_file_of_the_next_segments_name_stops_no_handover(upgradable):
    """As anybody can make it where the folder is sticky."""
    one = upgradable()
    folder, left = os.path.dirname(one.journal_path), one.journal_path + ".handover"
    os.chmod(folder, 0o1777)
    with open(left, "wb"):
        os.chown(left, USER, USER)
    assert ask(one).status == 200
    one.install()
    one.hand_over()
    one.last_ended()
    assert ask(one).status == 200
    assert f"belongs to uid {USER}" in one.stderr()
    assert os.stat(left).st_uid == USER
    assert not [name for name in os.listdir(folder) if ".handover-" in name]
    os.unlink(left)


def leave_names_of_the_segment_before(one):
    """All that another user can guess: the numbers of the lines that come next."""
    names = [f"{one.journal_path}.{n:012}" for n in range(1, 64)]
    for name in names:
        with open(name, "wb"):
            os.chown(name, USER, USER)
    return names


@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
def test_another_users_file_of_the_name_of_the_segment_before_stops_no_handover(upgradable):
    one = upgradable()
    os.chmod(os.path.dirname(one.journal_path), 0o1777)
    assert ask(one).status == 200
    names = leave_names_of_the_segment_before(one)
    one.install()
    one.hand_over()
    assert ask(one).status == 200
    assert "there is another file of that name" in one.stderr()
    before = [name for name in names if os.path.exists(name + ".2")]
    assert len(before) == 1
    for name in names:
        assert os.stat(name).st_uid == USER and os.stat(name).st_size == 0
        os.unlink(name)
    os.rename(before[0] + ".2", before[0])
    one.last_ended()


def test_no_request_fails_over_several_handovers(upgradable):
    one = upgradable()
    load = Load(one)
    pids = {one.process.pid}
    for _ in range(4):
        load.more()
        one.install()
        one.hand_over()
        pids.add(one.process.pid)
        load.more()
        one.last_ended()
    answers = load.stop()
    assert len(pids) == 5
    one.stop()
    assert one.check_ends() == answers
    assert len(one.segments()) == 5
    print(f"{answers} answers over 4 handovers")


def test_the_new_process_runs_the_new_file(upgradable):
    one = upgradable()
    before = os.stat(one.binary).st_ino
    assert os.stat(f"/proc/{one.process.pid}/exe").st_ino == before
    one.install()
    fresh = os.stat(one.binary).st_ino
    assert fresh != before
    one.hand_over()
    assert os.stat(f"/proc/{one.process.pid}/exe").st_ino == fresh
    worker = until("a worker", one.worker_pid)
    if ROOT:
        assert os.stat(f"/proc/{worker}/exe").st_ino == fresh
    assert ask(one).status == 200


@pytest.mark.skipif(not ROOT, reason="starts daemons of two users")
@pytest.mark.parametrize("who", ["as-root", "as-user"])
def test_the_worker_is_locked_in_as_before(upgradable, mock, who):
    if who == "as-root":
        one = upgradable()
    else:
        config = base_config(mock)
        one = Ordinary(config, start=False)
        upgradable.daemons.append(one)
        shutil.copy(config["upstream"]["ca_file"], os.path.join(one.folder, "extra.pem"))
        config["upstream"]["ca_file"] = "extra.pem"
        one.write(config)
        one.start()
    keeper, worker = uids(one.process.pid), uids(one.worker_pid())
    assert keeper == ("0" if who == "as-root" else str(USER))
    assert worker == ("64951" if who == "as-root" else str(USER))
    load = Load(one, clients=2)
    for _ in range(2):
        one.install()
        load.more(5)
        one.hand_over()
        load.more(5)
        one.last_ended()
    load.stop()
    assert (uids(one.process.pid), uids(one.worker_pid())) == (keeper, worker)
    with open(f"/proc/{one.worker_pid()}/status", encoding="ascii") as file:
        status = file.read()
    assert re.search(r"^Seccomp:\s+2$", status, re.M)
    assert re.search(r"^NoNewPrivs:\s+1$", status, re.M)
    assert re.search(r"^CapEff:\s+0+$", status, re.M)


def ask_until_the_new_one_serves(one):
    """For a moment both accept. Return: how many were asked; the last of them is the new one's."""
    asked = 0

    def is_served():
        nonlocal asked
        before = one.segments()[-1][1].count("open")
        asked += 1
        assert ask(one).status == 200
        return one.segments()[-1][1].count("open") > before

    until("the new process serves", is_served)
    return asked


@pytest.mark.skipif(not ROOT, reason="takes another process's descriptors")
def test_after_a_handover_the_old_worker_stops_nobodys_sandboxes(upgradable, tmp_path):
    """It has the same open sockets until it ends: what it does to them is put right every second, and once more at its end."""
    one = start_with_tcp(upgradable, "127.0.0.1", tmp_path, **admin())
    added = add(one, "sb-1")["listener"]
    held = descriptors.listeners(one.worker_pid())
    tunnel, head = stream(one, 80, 50)
    old = one.hand_over()
    for each in held:
        each.setblocking(True)
        if each.family == socket.AF_INET:
            assert descriptors.LIBC.connect(each.fileno(), bytes(16), 16) == 0
    until("none of them blocks", lambda: not any(os.get_blocking(e.fileno()) for e in held if e.family == socket.AF_UNIX), 3)

    def listens():
        with socket.socket() as client:
            return client.connect_ex(one.tcp_address) == 0

    until("the port is listened on", listens, 3)
    assert old.poll() is None, "the old process still lives"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(added)
    assert b"".join(tunnel.pieces(head)).count(b"data:") == 80
    tunnel.close()
    for each in held:
        each.close()
    one.last_ended()
    assert ask(one).status == 200


def test_what_runs_ends_in_the_old_process(upgradable):
    """A stream to its last event, a download to its last byte; both are in the old segment."""
    one = upgradable()
    tunnel, head = stream(one, 10, 200)
    slow = Tunnel(one, "open.test")
    slow.start("GET", "/test/bytes?n=3000000")
    answer = slow.read_head()
    old = one.hand_over()
    asked = ask_until_the_new_one_serves(one)
    assert old.poll() is None
    body = b"".join(tunnel.pieces(head))
    assert body.count(b"data:") == 10
    assert sum(len(piece) for piece in slow.pieces(answer)) == 3000000
    tunnel.close()
    slow.close()
    one.last_ended()
    assert one.check_ends() == 2 + asked
    (_, first), (_, second) = one.segments()
    assert first.count("close") + second.count("close") == 2 + asked
    assert first.count("close") >= 2 and second.count("close") >= 1


def test_a_connection_that_is_kept_is_told_with_its_next_answer(upgradable):
    one = upgradable()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").get("connection") is None
        old = one.hand_over()
        answer = tunnel.ask("GET", "/test/echo")
        assert answer.status == 200
        assert answer.get("connection") == "close"
        assert tunnel.is_closed()
    assert finish(old) == 0


def test_a_connection_that_stays_idle_is_closed_in_seconds(upgradable):
    one = upgradable()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        began = time.monotonic()
        one.hand_over()
        assert tunnel.is_closed()
        assert 3 < time.monotonic() - began < 10
    one.last_ended()


def test_kept_connections_of_http2_move_to_the_new_process(upgradable, mock):
    """What runs goes on in the old one; what begins behind the goodbye does not begin there."""
    one = upgradable()
    with h2_tunnel(one, "api.test") as client, h2_tunnel(one, "api.test") as idle:
        assert idle.ask("GET", "/test/echo").status == 200
        mark = mock.mark()
        stream = client.start("GET", "/test/hold")
        until("it is upstream", lambda: mock.requests(since=mark))
        old = one.hand_over()
        assert idle.until_goaway() == 0 and idle.until_closed()
        assert client.until_last() == stream
        late = client.start("GET", "/test/echo")
        client.round_trips()
        assert not client.streams[late].response and client.streams[stream].reset is None
        assert len(mock.requests(since=mark)) == 1 and old.poll() is None
    one.last_ended()


def test_connections_that_queue_are_served(upgradable):
    """Made while the old worker is stopped, taken by the new one."""
    one = upgradable()
    inode = os.stat(one.socket_path).st_ino
    old = one.process
    since = one.mark()
    one.usr2()
    one.said("has taken over", since)  # its worker retires
    wires = [Wire(one.socket_path) for _ in range(50)]
    for wire in wires:
        wire.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    for wire in wires:
        with wire:
            assert wire.read_head().status == 200
    one.taken_over(since)
    assert finish(old) == 0
    assert os.stat(one.socket_path).st_ino == inode


def test_no_connect_is_refused(upgradable):
    one = upgradable()
    over, refused, made = threading.Event(), [], [0]

    def knock():
        while not over.is_set():
            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(one.socket_path)
                made[0] += 1
            except OSError as failure:
                refused.append(failure)

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        for _ in range(3):
            one.hand_over()
            one.last_ended()
    finally:
        over.set()
        thread.join()
    assert not refused
    assert made[0] > 100


# --- secrets --------------------------------------------------------------------------------------


def env_config():
    return {"credentials": {"main": {"value": {"file": None, "env": "THE_KEY"}}}}


def key_seen(answer):
    return [v for n, v in answer.json()["fields"] if n.lower() == "x-api-key"]


def test_a_secret_from_a_variable_is_handed_over_and_shown_nowhere(upgradable):
    one = upgradable(env_config(), env={"THE_KEY": SECRET, "OTHER": "stays"}, secret="-")
    for _ in range(3):
        assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]
        one.install()
        one.hand_over()
        pids = [one.process.pid, one.worker_pid(), one.before[-1].pid]
        for pid in pids:
            for name in ("environ", "cmdline"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        content = file.read()
                except OSError:
                    continue  # not root: not even to be looked at; or it has ended
                assert SECRET.encode() not in content
                if name == "environ" and pid == one.process.pid and content:
                    assert b"THE_KEY=\0" in content
                    assert b"OTHER=stays\0" in content
        one.last_ended()
    assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]


@pytest.mark.skipif(not ROOT, reason="looks into another process's memory")
def test_a_secret_that_was_handed_over_is_in_no_readable_memory(upgradable):
    one = upgradable(env_config(), env={"THE_KEY": SECRET}, secret="-")
    one.hand_over()
    assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]
    for pid in (one.process.pid, one.worker_pid()):
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
            for line in maps:
                span, mode = line.split()[:2]
                if "r" not in mode or "[v" in line:
                    continue
                start, end = (int(x, 16) for x in span.split("-"))
                mem.seek(start)
                try:
                    assert SECRET.encode() not in mem.read(end - start), line
                except OSError:
                    continue


def test_a_reload_after_a_handover_keeps_what_was_handed_over(upgradable):
    one = upgradable(env_config(), env={"THE_KEY": SECRET}, secret="-")
    one.hand_over()
    since = one.mark()
    one.process.send_signal(signal.SIGHUP)
    one.said("new configuration is in force", since)
    assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]


def test_a_commands_own_secret_is_handed_over(upgradable):
    config = {"credentials": {"main": {"value": {"file": None, "exec": ["sh", "-c", "echo $THE_STORE"],
                                                 "environment": ["THE_STORE"]}}}}  # fmt: skip
    one = upgradable(config, env={"THE_STORE": SECRET}, secret="-")
    assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]
    one.hand_over()
    until("the new one's command has run", lambda: ask(one).status == 200)
    assert key_seen(ask(one)) == ["sha256:" + FINGERPRINT]


# --- what is new, what is gone --------------------------------------------------------------------


def test_the_new_process_reads_the_configuration_anew(upgradable):
    one = upgradable()
    os.mkdir(os.path.join(one.folder, "e"))
    config = json.loads(json.dumps(one.config))
    config["listen"] = [{"unix": "e/s", "tenant": "acme"}]
    config["tenants"]["acme"]["rules"] = [{"allow": "https://open.test"}]
    one.write(config)
    one.hand_over()
    assert not os.path.exists(one.socket_path), "nobody listens there any more"
    one.socket_path = os.path.join(one.folder, "e", "s")
    assert ask(one, "open.test").status == 200
    assert ask(one).status == 403
    one.last_ended()


def test_the_journal_is_locked_by_the_new_process(upgradable):
    one = upgradable()
    one.hand_over()
    one.last_ended()
    folder = os.path.join(one.folder, "second")
    os.mkdir(folder)
    path = os.path.join(folder, "k.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**one.config, "audit": {"file": one.journal_path}}, file)
    second = subprocess.run([KEYHOLE, "proxy", "-c", path], capture_output=True, text=True,
                            timeout=PATIENCE, check=False)  # fmt: skip
    assert second.returncode == 1
    assert re.search(rf"journal .*process {one.process.pid}\b", second.stderr), second.stderr


def test_a_restart_goes_on_with_the_last_segment(upgradable):
    one = upgradable()
    one.hand_over()
    assert ask(one).status == 200
    one.last_ended()
    one.stop()
    assert not os.path.exists(one.socket_path)
    one.start()
    assert ask(one).status == 200
    one.stop()
    (_, first), (_, second) = one.segments()
    assert first.count("start") == 1
    assert second.count("start") == 2


def test_systemd_is_told_the_new_main_process(upgradable, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(10)
        manager.bind(str(tmp_path / "n"))
        one = upgradable(env={"NOTIFY_SOCKET": str(tmp_path / "n")})
        assert manager.recv(4096) == b"READY=1"
        one.hand_over()
        assert f"MAINPID={one.process.pid}\n".encode() in manager.recv(4096)
        one.last_ended()
        one.install(script="#!/bin/sh\nexit 7\n")
        one.usr2()
        assert b"STATUS=serving; a handover failed: the new process" in manager.recv(4096)
        one.process.send_signal(signal.SIGHUP)
        assert manager.recv(4096).startswith(b"RELOADING=1")
        assert manager.recv(4096) == b"READY=1"
        one.stop()
        assert manager.recv(4096) == b"STOPPING=1"


ASK = b"GET /v1/sandboxes HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("how", ["taken over", "ended"])
def test_who_is_connected_to_the_admin_socket_but_was_not_heard_yet_is_answered(upgradable, how):
    one = upgradable(admin())
    with socket.socket(socket.AF_UNIX) as sock, socket.socket(socket.AF_UNIX) as silent:
        for each in (sock, silent):
            each.settimeout(PATIENCE)
            each.connect(os.path.join(one.folder, "adm", "s"))
        sock.sendall(ASK)
        assert read_answer(sock)[0] == 200, "both are accepted"
        with socket.socket(socket.AF_UNIX) as late:
            late.settimeout(PATIENCE)
            late.connect(os.path.join(one.folder, "adm", "s"))
            if how == "taken over":
                since = one.mark()
                one.usr2()
                old = one.taken_over(since)
            else:
                old = one.process
                one.process.terminate()
                assert sock.recv(1) == b"", "it is told to end: who was answered is cut off at once"
            late.sendall(ASK)
            assert read_answer(late)[0] == 200
        assert silent.recv(1) == b"", "who says nothing holds nobody up for long"
    assert old.wait(PATIENCE) == 0
