"""test_life.py - keeper and worker: start, lock-in, death, replacement, end.

What looks into another process needs root; run by an ordinary user those tests say that they are
skipped. What must also hold for a daemon of an ordinary user is run as one too.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import pytest
from common import has_ended
from daemons import base_config
from harness import KEYHOLE, PATIENCE, SECRET, Daemon, Tunnel, Wire, finish, read_journal, until

ROOT = os.geteuid() == 0
USER = 4711
RESERVED_UID = 64951
needs_root = pytest.mark.skipif(not ROOT, reason="looks into another user's process")
BOTH = ["as-root", "as-user"] if ROOT else ["as-user"]


class UserDaemon(Daemon):
    """The daemon of an ordinary user, started by root."""

    def spawn(self):
        for folder, _, files in os.walk(self.folder):
            os.chown(folder, USER, USER)
            for name in files:
                os.chown(os.path.join(folder, name), USER, USER)
        binary = os.path.join(self.folder, "keyhole")  # the build may lie where the user can't look
        shutil.copy(KEYHOLE, binary)
        ready, theirs = os.pipe()
        with open(self.stderr_path, "ab") as stderr:
            self.process = subprocess.Popen(
                [binary, "proxy", "-c", self.config_path, "--ready-fd", str(theirs)],
                pass_fds=[theirs], stdin=subprocess.DEVNULL, stderr=stderr,
                env={"PATH": os.environ["PATH"], **self.env},
                user=USER, group=USER, extra_groups=[], preexec_fn=self.limit,
            )  # fmt: skip
        os.close(theirs)
        with os.fdopen(ready, "rb", buffering=0) as pipe:
            assert select.select([pipe], [], [], PATIENCE)[0], "neither yes nor no"
            return pipe.read(1) == b"\n"


@pytest.fixture(params=BOTH)
def each(request, daemon, mock):
    """A daemon with the base configuration, of root and of an ordinary user."""
    if request.param == "as-user" and ROOT:
        config = base_config(mock)
        one = UserDaemon(config, start=False)
        shutil.copy(config["upstream"]["ca_file"], os.path.join(one.folder, "extra.pem"))
        config["upstream"]["ca_file"] = "extra.pem"
        one.write(config)
        one.start()
        try:
            yield one
            one.stop()
        finally:
            one.remove()
    else:
        yield daemon()


def status_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return {k: v.strip() for k, v in (line.split(":", 1) for line in file if ":" in line)}


def new_worker(daemon, old, seconds=PATIENCE):
    return until("a new worker", lambda: (daemon.worker_pid() or old) != old and daemon.worker_pid(),
                 seconds)  # fmt: skip


def ask(daemon, path="/test/echo"):
    with Tunnel(daemon, "api.test") as tunnel:
        return tunnel.ask("GET", path)


# --- start ----------------------------------------------------------------------------------------


def test_the_ca_is_made_at_first_start_and_kept(daemon):
    one = daemon()
    key = os.path.join(one.folder, "ca.key")
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    with open(one.ca, "rb") as file:
        before = file.read()
    one.stop()
    one.start()
    with open(one.ca, "rb") as file:
        assert file.read() == before


def test_the_journal_is_nobody_elses_to_read(daemon):
    assert stat.S_IMODE(os.stat(daemon().journal_path).st_mode) == 0o600


def run_second(one, **changes):
    folder = tempfile.mkdtemp(prefix="kh.")
    try:
        config = {**json.loads(json.dumps(one.config)), **changes}
        path = os.path.join(folder, "keyhole.yaml")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return subprocess.run([KEYHOLE, "proxy", "-c", path], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)  # fmt: skip
    finally:
        shutil.rmtree(folder)


def test_a_second_daemon_on_the_journal_says_who_holds_it_and_stops(daemon):
    one = daemon()
    second = run_second(one, audit={"file": one.journal_path},
                        credentials={}, tenants={"acme": {"rules": []}})  # fmt: skip
    assert second.returncode == 1
    assert re.search(rf"journal .*process {one.process.pid}\b", second.stderr), second.stderr
    assert ask(one).status == 200


def lock_bytes(file, kind, start=0, count=0):
    """A record lock of the open file; a count of 0 is all of it."""
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", kind, os.SEEK_SET, start, count, 0))


@contextlib.contextmanager
def held_by_a_reader(path):
    """Every lock that the right to read allows, in a descriptor that can't write."""
    with open(path, "rb") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        lock_bytes(journal, fcntl.F_RDLCK)
        yield


def test_who_may_read_the_journal_does_not_keep_the_daemon_from_starting(daemon):
    one = daemon()
    one.stop()
    with held_by_a_reader(one.journal_path):
        one.start()
        assert ask(one).status == 200
        second = run_second(one, audit={"file": one.journal_path},
                            credentials={}, tenants={"acme": {"rules": []}})  # fmt: skip
        assert second.returncode == 1 and "writes it already" in second.stderr, second.stderr
        assert "holds a lock on it" in one.stderr()
        one.stop()
    assert not os.path.exists(one.journal_path + ".lock")
    one.start()


def test_a_lock_of_the_journal_that_another_could_hold_is_refused(daemon):
    one = daemon(start=False)
    with open(one.journal_path + ".lock", "wb") as lock:
        os.fchmod(lock.fileno(), 0o644)
    assert not one.spawn() and finish(one.process) == 1
    assert "is not a private file of this user" in one.stderr()
    os.unlink(one.journal_path + ".lock")
    one.start()


def test_daemons_exclude_each_other_where_the_locks_file_was_taken_away(daemon):
    one = daemon()
    os.unlink(one.journal_path + ".lock")
    second = run_second(one, audit={"file": one.journal_path},
                        credentials={}, tenants={"acme": {"rules": []}})  # fmt: skip
    assert second.returncode == 1
    assert re.search(rf"journal .*process {one.process.pid}\b", second.stderr), second.stderr


@pytest.mark.parametrize("seconds", [0.3, None])
def test_a_worker_that_outlives_its_keeper_is_waited_for_and_not_for_long(daemon, seconds):
    """Its lock is on the journal, and no keeper's beside it."""
    one = daemon(start=False)
    with open(one.journal_path, "ab") as journal:
        lock_bytes(journal, fcntl.F_WRLCK, 1, 1)
        if seconds:
            threading.Timer(seconds, lock_bytes, [journal, fcntl.F_UNLCK]).start()
            one.start()
            with Tunnel(one, "open.test") as tunnel:
                assert tunnel.ask("GET", "/test/echo").status == 200
        else:
            began = time.monotonic()
            assert not one.spawn() and 1.9 < time.monotonic() - began < PATIENCE
            assert "another process writes it already" in one.stderr()
            one.process.wait()
    if not seconds:
        one.start()


def test_a_second_daemon_on_the_socket_says_who_holds_it_and_stops(daemon):
    one = daemon()
    second = run_second(one, listen=[{"unix": one.socket_path, "tenant": "acme"}],
                        credentials={}, tenants={"acme": {"rules": []}})  # fmt: skip
    assert second.returncode == 1
    assert str(one.process.pid) in second.stderr, second.stderr
    assert ask(one).status == 200


def test_a_sandbox_that_locks_its_sockets_folder_does_not_stop_the_next_start(daemon):
    """To lock a folder takes no more than the right to open it, read-only mounts included."""
    one = daemon()
    one.stop()
    held = os.open(os.path.dirname(one.socket_path), os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        one.start()
    finally:
        os.close(held)
    assert ask(one).status == 200


def test_a_journal_that_was_changed_is_not_continued(daemon):
    one = daemon()
    one.stop()
    with open(one.journal_path, "rb+") as file:
        content = file.read()
        assert b'"event":"stop"' in content
        file.seek(0)
        file.write(content.replace(b'"event":"stop"', b'"event":"stap"'))
    one.start()
    assert f"set aside as {one.journal_path}.0" in one.stderr()
    one.stop()
    aside = [name for name in os.listdir(one.folder) if name.startswith("audit.jsonl.0")]
    assert len(aside) == 1
    with open(os.path.join(one.folder, aside[0]), encoding="utf-8") as file:
        assert '"event":"stap"' in file.read()
    with open(one.journal_path, encoding="utf-8") as file:
        assert "stap" not in file.read(), "nothing is written behind it"
    one.checked = False


@pytest.mark.parametrize("kib, serves, words", [
    (0, False, ["0 KiB of hidden pages are all that RLIMIT_MEMLOCK allows", "LimitMEMLOCK",
                "credential main: a secret can't be locked into memory", "starting the worker: a secret can't be locked"]),
    (8, False, ["0 KiB of hidden pages are all that RLIMIT_MEMLOCK allows", "starting the worker: ", "raise RLIMIT_MEMLOCK: "]),
    (64, True, ["16 KiB of hidden pages are all that RLIMIT_MEMLOCK allows", "can be swapped out"]),
    (4096, True, []),
])  # fmt: skip
def test_what_can_not_be_locked_into_memory_is_said(mock, kib, serves, words):
    """By a user's daemon: root may lock what it likes."""
    config = base_config(mock)
    one = (UserDaemon if ROOT else Daemon)(config, start=False)
    shutil.copy(config["upstream"]["ca_file"], os.path.join(one.folder, "extra.pem"))
    config["upstream"]["ca_file"] = "extra.pem"
    one.write(config)
    one.memlock = kib * 1024
    try:
        assert one.spawn() == serves
        said = one.stderr()
        if "secrets in memfd_secret" not in said and serves:
            pytest.skip("this kernel has no memfd_secret")
        assert all(word in said for word in words), said
        assert bool(words) == ("KiB of hidden pages" in said)
        (one.stop if serves else one.process.wait)()
    finally:
        one.remove()


def test_a_missing_secret_is_a_warning_and_503(daemon):
    one = daemon(secret=None)
    assert "credential main" in one.stderr()
    answer = ask(one)
    assert answer.status == 503
    one.write_secret(SECRET)
    # It is looked for again, at most once a second.
    until("the secret is found", lambda: ask(one).status == 200)


def test_a_secret_in_the_environment_is_gone_from_it(daemon):
    one = daemon({"credentials": {"main": {"value": {"file": None, "env": "KH_KEY"}}}},
                 env={"KH_KEY": SECRET, "OTHER": "stays"})  # fmt: skip
    assert ask(one).status == 200
    if ROOT:
        with open(f"/proc/{one.process.pid}/environ", "rb") as file:
            environment = file.read()
        assert SECRET.encode() not in environment
        assert b"OTHER=stays" in environment


# --- the lock-in -------------------------------------------------------------------------------------


def test_the_worker_keeps_no_power(each):
    status = status_of(each.worker_pid())
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(status[name], 16) == 0, name
    if isinstance(each, UserDaemon):
        assert set(status["Uid"].split()) == {str(USER)}
    elif ROOT:
        uids = set(status["Uid"].split())
        assert len(uids) == 1 and "0" not in uids
        assert not status["Groups"]
        assert int(status["CapBnd"], 16) == 0


def test_the_worker_goes_before_the_keeper_and_takes_no_more_than_its_tasks(each):
    def of(pid, name):
        with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
            return file.read()

    if not ROOT or isinstance(each, UserDaemon):
        pytest.skip("an ordinary user's daemon has the limits of that user")
    assert int(of(each.worker_pid(), "oom_score_adj")) > int(of(each.process.pid, "oom_score_adj"))
    tasks = next(line.split()[2:4] for line in of(each.worker_pid(), "limits").splitlines() if line.startswith("Max processes"))
    assert tasks == ["4096", "4096"]


def test_every_thread_of_the_worker_is_locked_in(each):
    pid = each.worker_pid()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
            text = file.read()
        assert "\nSeccomp:\t2\n" in text and "\nNoNewPrivs:\t1\n" in text


@needs_root
def test_the_workers_environment_holds_nothing_of_the_keepers(each):
    with open(f"/proc/{each.worker_pid()}/environ", "rb") as file:
        # With it, nothing is bound late, by code that would save a secret on the stack.
        assert file.read() == b"LD_BIND_NOW=1\0"
    with open(f"/proc/{each.worker_pid()}/cmdline", "rb") as file:
        assert file.read() == b"keyhole\0worker\0"


@needs_root
def test_the_worker_has_no_descriptor_but_its_own(each):
    pid = each.worker_pid()
    ask(each)

    def links():
        found = {}
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
        return found

    # The trust roots are closed when they are read.
    until("the roots are read", lambda: not any("cert" in x for x in links().values()))
    # What /metrics tells of it: how large it is, and how many descriptors it has.
    allowed = re.compile(
        r"(socket|pipe):\[\d+\]|anon_inode:\[(eventfd|eventpoll)\]|/proc/%d/(statm|fd)" % pid
    )
    for fd, link in sorted(links().items()):
        if fd <= 1:
            assert link == "/dev/null"
        elif fd == 2:
            # The user's daemon could not open a file of root's anew.
            assert link == each.stderr_path or (isinstance(each, UserDaemon) and link.startswith("pipe:"))
        else:
            assert allowed.fullmatch(link) or link == each.journal_path, f"{fd} → {link}"


def flags_of(pid, fd):
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
        return int(re.search(r"^flags:\s*(\d+)", file.read(), re.M).group(1), 8)


@needs_root
def test_the_worker_can_only_append_to_standard_error(daemon):
    one = daemon(start=False)
    for append in (True, False):  # as `2>>log` does, and `2>log`
        if one.process:
            one.stop()
        with open(one.stderr_path, "ab" if append else "r+b") as stderr:
            process = spawn_with(one, stderr)
        flags = flags_of(one.worker_pid(), 2)
        assert flags & os.O_ACCMODE == os.O_WRONLY
        assert flags & os.O_APPEND
        assert flags_of(process.pid, 2) & os.O_APPEND, "the keeper does not write over it"


@needs_root
def test_the_worker_has_no_part_of_the_terminal(daemon):
    one = daemon(start=False)
    far, near = os.openpty()
    process = spawn_with(one, near)
    os.close(near)
    worker = one.worker_pid()
    assert os.readlink(f"/proc/{process.pid}/fd/2").startswith("/dev/pts/")
    assert os.readlink(f"/proc/{worker}/fd/2").startswith("pipe:")
    assert flags_of(worker, 2) & os.O_ACCMODE == os.O_WRONLY
    # What a worker says is still told, behind nothing that a terminal obeys.
    with open(f"/proc/{worker}/fd/2", "wb", buffering=0) as theirs:
        theirs.write(b"\x1b[6n it said this\n")
    told = b""
    until("it is told", lambda: select.select([far], [], [], 5)[0])
    while b"said this" not in told:
        assert select.select([far], [], [], 10)[0], told
        told += os.read(far, 65536)
    assert b"\x1b" not in told
    assert b"keyhole: worker: ?[6n it said this" in told
    os.close(far)


def spawn_with(one, stderr):
    ready, theirs = os.pipe()
    one.process = subprocess.Popen(
        [KEYHOLE, "proxy", "-c", one.config_path, "--ready-fd", str(theirs)],
        pass_fds=[theirs], stdin=subprocess.DEVNULL, stderr=stderr, env={"PATH": os.environ["PATH"], **one.env},
    )  # fmt: skip
    os.close(theirs)
    with os.fdopen(ready, "rb", buffering=0) as pipe:
        assert select.select([pipe], [], [], PATIENCE)[0]
        assert pipe.read(1) == b"\n"
    one.baseline = one.descriptors_at_rest()
    return one.process


def readable_memory(pid):
    """Everything that root can read of a process, map by map."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            span, mode = line.split()[:2]
            begin, end = (int(x, 16) for x in span.split("-"))
            if mode[0] != "r" and "secret" not in line:
                continue
            if end - begin > 1 << 32:
                continue  # a sanitizer's shadow
            with contextlib.suppress(OSError, ValueError, OverflowError):
                mem.seek(begin)
                yield mem.read(end - begin)


@needs_root
def test_the_ca_key_is_in_no_readable_memory_of_either(each):
    ask(each)
    der = subprocess.run(["openssl", "ec", "-in", os.path.join(each.folder, "ca.key"), "-text",
                          "-noout"], capture_output=True, text=True, check=True).stdout  # fmt: skip
    scalar = bytes.fromhex(re.search(r"priv:\s*([0-9a-f:\s]+)pub:", der)[1].translate(
        {ord(c): None for c in ": \n"}))[-32:]  # fmt: skip
    with open(os.path.join(each.folder, "ca.key"), "rb") as file:
        line = file.read().splitlines()[1]
    public = bytes.fromhex(re.search(r"pub:\s*([0-9a-f:\s]+)ASN1", der)[1].translate(
        {ord(c): None for c in ": \n"}))  # fmt: skip
    needles = (scalar, scalar[::-1], line)
    # The keeper has the public half, so the search finds what is there.
    assert any(public in piece for piece in readable_memory(each.process.pid))
    pids = [each.worker_pid()]
    if "memfd_secret" in each.stderr():
        pids.append(each.process.pid)
    for pid in pids:
        assert not any(n in piece for piece in readable_memory(pid) for n in needles)


@needs_root
def test_a_secret_is_in_no_readable_memory_of_either(each):
    answer = ask(each)
    assert answer.status == 200
    for pid in (each.worker_pid(), each.process.pid):
        pieces = list(readable_memory(pid))
        assert any(b"keyhole" in piece for piece in pieces)
        assert not any(SECRET.encode() in piece for piece in pieces)


def attempts_from_outside(pid):
    """What another process of the same user gets out of it."""
    refused = []
    for name in ("environ", "mem", "maps", "fd", "stack", "auxv"):
        path = f"/proc/{pid}/{name}"
        try:
            if name == "fd":
                os.listdir(path)
            else:
                with open(path, "rb") as file:
                    file.read(1)
        except PermissionError:
            refused.append(name)
    libc = ctypes.CDLL(None, use_errno=True)
    attach = 16
    if libc.ptrace(attach, pid, 0, 0) == -1 and ctypes.get_errno() == 1:
        refused.append("ptrace")
    return refused


@pytest.mark.parametrize("who", ["worker", "keeper"])
def test_another_process_of_the_same_user_cannot_read_it(each, who):
    pid = each.worker_pid() if who == "worker" else each.process.pid
    uid = int(status_of(pid)["Uid"].split()[0])
    if uid == 0:
        pytest.skip("nobody is kept from root")
    result, ours = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            if ROOT:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            os.write(ours, ",".join(attempts_from_outside(pid)).encode())
        os._exit(0)
    os.close(ours)
    with os.fdopen(result, "rb") as file:
        refused = file.read().decode().split(",")
    os.waitpid(child, 0)
    assert {"environ", "mem", "fd", "ptrace"} <= set(refused), refused


# --- death and replacement ------------------------------------------------------------------------


def test_a_killed_worker_is_replaced_within_a_second(each):
    """The quickest of five: what else runs on the machine makes it only later."""
    assert ask(each).status == 200
    took = []
    while not took or (min(took) >= 1 and len(took) < 5):
        old = each.worker_pid()
        began = time.monotonic()
        os.kill(old, signal.SIGKILL)
        assert ask(each).status == 200
        took.append(time.monotonic() - began)
        assert each.worker_pid() != old
    assert min(took) < 1
    assert "signal 9" in each.stderr()


def test_the_sockets_stay_open_while_no_worker_is_there(daemon):
    """Connections that come before the new worker queue, and are served."""
    one = daemon()
    inode = os.stat(one.socket_path).st_ino
    os.kill(one.worker_pid(), signal.SIGKILL)
    wires = [Wire(one.socket_path) for _ in range(20)]  # connects at once, whoever accepts
    for wire in wires:
        wire.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    for wire in wires:
        with wire:
            assert wire.read_head().status == 200
    assert os.stat(one.socket_path).st_ino == inode


def test_a_worker_that_dies_again_and_again_is_always_replaced(daemon):
    one = daemon()
    for _ in range(8):
        pid = until("a worker", one.worker_pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        new_worker(one, pid)
    began = time.monotonic()
    assert ask(one).status == 200
    assert time.monotonic() - began < 10  # the pause between two is a second at most


def test_the_journal_goes_on_over_workers(daemon):
    one = daemon()
    for _ in range(3):
        assert ask(one).status == 200
        os.kill(one.worker_pid(), signal.SIGKILL)
    assert ask(one).status == 200
    records = read_journal(one.journal_path)
    assert len([r for r in records if r["event"] == "start"]) == 4
    assert len({r["process.pid"] for r in records if r["event"] == "start"}) == 4


def test_a_refused_system_call_is_said_to_be_one(daemon):
    one = daemon()
    old = one.worker_pid()
    os.kill(old, signal.SIGSYS)
    new_worker(one, old)
    until("the log says so", lambda: "system call that it may not make" in one.stderr())


@needs_root
def test_the_worker_does_not_outlive_the_keeper(each):
    worker = each.worker_pid()
    each.process.kill()
    each.process.wait()
    until("the worker is gone", lambda: has_ended(worker), 1)
    each.process = None  # nothing left to hold to anything
    each.checked = False


# --- the end --------------------------------------------------------------------------------------


def test_sigterm_finishes_what_runs_and_exits_0(each):
    with Tunnel(each, "api.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=5&ms=100")
        response = tunnel.read_head()
        assert response.status == 200
        each.process.send_signal(signal.SIGTERM)
        body = b"".join(tunnel.pieces(response))
    assert body.count(b"data:") == 5
    assert finish(each.process) == 0
    assert not os.path.exists(each.socket_path)
    records = read_journal(each.journal_path)
    assert records[-1]["event"] == "stop"
    assert records[-2]["event"] == "close"
    each.checked = False


def test_nobody_connects_while_it_drains(daemon):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=10&ms=100")
        response = tunnel.read_head()
        one.process.send_signal(signal.SIGTERM)
        until("the socket is gone", lambda: not os.path.exists(one.socket_path))
        with socket.socket(socket.AF_UNIX) as late, pytest.raises(OSError):
            late.connect(one.socket_path)
        assert b"".join(tunnel.pieces(response)).count(b"data:") == 10
    assert finish(one.process) == 0
    one.checked = False


def test_what_outlasts_the_drain_is_cut_off(daemon):
    one = daemon({"timeouts": {"drain": "1s"}})
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: one.journal(event="open"))
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert finish(one.process) == 0
        assert 0.9 < time.monotonic() - began < 15
    one.checked = False


def test_a_second_sigterm_ends_at_once(daemon):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: one.journal(event="open"))
        one.process.send_signal(signal.SIGTERM)
        until("it drains", lambda: not os.path.exists(one.socket_path))
        time.sleep(0.3)  # two signals in a moment are one request
        began = time.monotonic()
        one.process.send_signal(signal.SIGTERM)
        assert finish(one.process) == 0
        assert time.monotonic() - began < 15
    one.checked = False


def test_signals_to_the_worker_do_not_end_it(daemon):
    """A ^C in the terminal reaches both; the keeper decides."""
    one = daemon()
    worker = one.worker_pid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
        os.kill(worker, number)
    assert ask(one).status == 200
    assert one.worker_pid() == worker


# --- cost -----------------------------------------------------------------------------------------


@needs_root
def test_the_idle_daemon_is_small(daemon):
    one = daemon()
    worker = one.worker_pid()
    until("the roots are read", lambda: not any(
        "cert" in os.readlink(f"/proc/{worker}/fd/{fd}") for fd in os.listdir(f"/proc/{worker}/fd")))
    total = until("memory is given back",
                  lambda: (kib := one.memory_kib(worker) + one.memory_kib(one.process.pid)) < 12 * 1024
                  and kib, 5)  # fmt: skip
    print(f"idle: {total} KiB (PSS of both)")
