"""test_sandboxes_survive.py - added sandboxes, and what happens to the daemon around them."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys

from admin_client import TWO_TENANTS, ctl, read_answer
import pytest
from harness import Tunnel, until
from sandboxes import add, added, admin, asks, call, clear, files_below, inside, listed, refuses, remove

DEV = {"dev": {"rules": [{"allow": "https://open.test"}]}}


def base(one):
    return os.path.join(one.folder, "adm", "sandboxes")


def reload(one):
    return call(one, "POST", "/v1/reload")


def test_they_survive_their_workers_death(daemon):
    one = daemon(admin())
    made = add(one, "sb-1", narrow=[{"allow": "GET https://open.test"}], ttl="1h")
    before, shown = one.worker_pid(), listed(one)
    os.kill(before, signal.SIGKILL)
    until("another worker is there", lambda: one.worker_pid() not in (None, before))
    assert asks(one, made) == 200
    assert asks(one, made, method="POST") == 403
    shown = [{**s, "suspect": s["added"]} for s in shown]
    until("its connections have ended", lambda: listed(one) == shown)
    remove(one, "sb-1")
    assert refuses(made["listener"])


def test_one_that_a_worker_added_which_ended_unexpectedly_is_marked_as_suspect(daemon):
    one = daemon(admin())
    made = add(one, "before")
    remove(one, "before")
    made = add(one, "sb-1")
    shown = ctl(one, "sandbox", "ls").stdout
    assert "SUSPECT" not in shown
    before = one.worker_pid()
    os.kill(before, signal.SIGSEGV)
    until("another worker is there", lambda: one.worker_pid() not in (None, before))
    assert asks(one, made) == 200, "what runs goes on"
    add(one, "sb-2")
    assert {s["id"]: s["suspect"] for s in listed(one) if s["added"]} == {"sb-1": True, "sb-2": False}
    shown = ctl(one, "sandbox", "ls").stdout
    assert [line.split()[1] for line in shown.splitlines() if line.startswith("SUSPECT")] == ["sb-1"]
    said = one.stderr()
    for what in ("before of tenant acme: added for user 0", "before of tenant acme: removed for user 0",
                 "sb-1 of tenant acme: added for user 0", f"worker {before} had 1 sandbox added"):  # fmt: skip
        assert what in said, said
    clear(one)


def test_a_reload_changes_their_rules_and_takes_those_whose_tenant_is_gone(daemon):
    one = daemon({**admin(), "tenants": DEV})
    stays, goes = add(one, "stays"), add(one, "goes", "dev")
    with Tunnel(inside(one, stays), "open.test") as old, Tunnel(inside(one, goes), "open.test") as other:
        assert old.ask("GET", "/test/echo").status == other.ask("GET", "/test/echo").status == 200
        del one.config["tenants"]["dev"]
        # Another one in front: the index of the first is another one now.
        one.config["tenants"] = {
            "a-first": {"rules": []},
            "acme": {"rules": [{"deny": "https://open.test/no"}, {"allow": "https://open.test"}]},
        }
        one.write(one.config)
        assert reload(one)[0] == 200
        assert old.ask("GET", "/test/echo").status == 200
        assert old.ask("GET", "/no").status == 403
        with pytest.raises(Exception, match="."):
            other.ask("GET", "/test/echo")
    assert added(one) == ["stays"]
    assert refuses(goes["listener"])
    assert files_below(base(one)) == ["acme", "acme/stays", "acme/stays/s"]
    assert [r["tenant"] for r in one.journal(event="open", sandbox="stays")] == ["acme", "acme"]
    clear(one)


@pytest.mark.parametrize("ids, says", [
    (["s1"], "1 sandbox ended, because the file no longer has its tenant (the first: s1 of tenant dev)\n"),
    (["s1", "s2"], "2 sandboxes ended, because the file no longer has their tenants (the first: s1 of tenant dev)\n"),
])  # fmt: skip
def test_ctl_says_which_sandboxes_a_reload_has_ended(daemon, ids, says):
    one = daemon({**admin(), "tenants": DEV})
    add(one, "stays")
    for name in ids:
        add(one, name, "dev")
    del one.config["tenants"]["dev"]
    one.config["tenants"]["acme"] = {"rules": [{"allow": "https://open.test"}]}
    one.write(one.config)
    assert says + "the new configuration is in force\n" in ctl(one, "reload").stdout
    assert "ended" not in ctl(one, "reload").stdout
    assert added(one) == ["stays"]
    clear(one)


def test_a_reload_that_fails_leaves_them(daemon):
    one = daemon({**admin(), "tenants": DEV})
    made = add(one, "sb-1", "dev")
    del one.config["tenants"]["dev"]
    one.config["nonsense"] = 1
    one.write(one.config)
    assert reload(one)[0] == 422
    assert asks(one, made) == 200
    clear(one)


def test_the_end_of_the_daemon_is_theirs(daemon):
    one = daemon(admin())
    made = add(one, "sb-1")
    one.stop()
    assert files_below(base(one)) == []
    one.start()
    assert added(one) == []
    assert refuses(made["listener"])
    assert asks(one, add(one, "sb-1")) == 200
    clear(one)


def test_what_a_killed_daemon_leaves_is_cleared_away_and_nothing_else(daemon):
    one = daemon(admin())
    add(one, "sb-1")
    add(one, "sb-2")
    one.kill()
    theirs = os.path.join(base(one), "acme", "sb-2", "a file")
    with open(theirs, "w", encoding="ascii") as file:
        file.write("not ours")
    one.start()
    assert files_below(base(one)) == ["acme", "acme/sb-2", "acme/sb-2/a file"]
    assert "2 sandboxes" not in one.stderr() and "left alone" in one.stderr()
    assert "the folder can't be made" in add(one, "sb-2", expected=500)["error"]
    assert asks(one, add(one, "sb-1")) == 200
    clear(one)


def test_a_second_daemon_with_the_same_folder_takes_nothing_away(daemon):
    one = daemon(admin())
    made = add(one, "sb-1")
    two = daemon({**admin(), "admin": {"unix": "adm/s", "sandboxes": base(one)}})
    assert asks(one, made) == 200
    assert "left alone" in two.stderr()
    assert "the folder can't be made" in add(two, "sb-1", expected=500)["error"]
    assert asks(two, add(two, "sb-2")) == 200
    clear(one)
    clear(two)


def test_they_are_handed_over_with_their_time_and_their_holder(upgradable):
    one = upgradable(admin())
    made = add(one, "sb-1", narrow=[{"allow": "GET https://open.test"}])
    add(one, "short", ttl="6s")
    shown = listed(one)
    with Tunnel(inside(one, made), "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        one.hand_over()
        shown = [{**s, "connections": 0} for s in shown]
        until("the next one answers", lambda: listed(one) == shown)
        assert "a new one is started" not in one.stderr()
        assert asks(one, made) == 200
        assert asks(one, made, method="POST") == 403
        # What the process before still has of it goes as well, a moment later.
        remove(one, "sb-1")
        with pytest.raises(Exception, match="."):
            for _ in range(500):
                tunnel.ask("GET", "/test/echo")
    assert refuses(made["listener"])
    until("its time is over", lambda: added(one) == [], 10)
    assert files_below(base(one)) == []


def test_who_keeps_a_connection_to_the_old_process_is_sent_to_the_new_one(upgradable):
    """A scraper's and a platform's kept connections: else they would talk to the process before for as long as that lives."""
    one = upgradable(admin())
    made = add(one, "sb-1")
    with Tunnel(inside(one, made), "open.test") as tunnel, socket.socket(socket.AF_UNIX) as kept:
        tunnel.start("GET", "/test/sse?n=400&ms=50")
        assert tunnel.read_head().status == 200
        kept.settimeout(20)
        kept.connect(os.path.join(one.folder, "adm", "s"))
        kept.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(kept)[0] == 200
        before = one.process.pid
        one.hand_over()
        assert kept.recv(1) == b""
        assert os.path.exists(f"/proc/{before}"), "its stream is still there"
        add(one, "sb-2")
        clear(one)


HOLDER = (
    "import json,socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
    "b=json.dumps({'tenant':'acme','id':sys.argv[2],'hold':True}).encode()\n"
    "s.sendall(b'POST /v1/sandboxes HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n'%len(b)+b)\n"
    "print(s.recv(65536).decode().split()[1],flush=True)\ns.close()\nsys.stdin.read()\n"
)


@contextlib.contextmanager
def held(one, id="held"):
    """A process that holds a sandbox."""
    with subprocess.Popen(
        ["/usr/bin/python3", "-I", "-c", HOLDER, os.path.join(one.folder, "adm", "s"), id],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        try:
            assert holder.stdout.readline() == "201\n"
            yield holder
        finally:
            holder.kill()


def test_one_that_is_held_ends_with_the_process_that_asked(daemon):
    one = daemon(admin())
    with held(one) as holder:
        before = one.worker_pid()
        os.kill(before, signal.SIGKILL)
        until("another worker is there", lambda: one.worker_pid() not in (None, before))
        until("it is there", lambda: added(one) == ["held"])
        holder.kill()
    until("it is gone", lambda: added(one) == [])
    assert files_below(base(one)) == []


def left_behind(path):
    """A connection of a process that has ended; its number is its parent's until that waits for it."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(20)
    pid = os.fork()
    if pid == 0:
        try:
            sock.connect(path)
        finally:
            os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid, sock


@pytest.mark.parametrize("there", [True, False], ids=["number there", "number gone"])
def test_nothing_is_held_for_a_process_that_has_ended_and_no_number_is_told_of(daemon, there):
    one = daemon(admin())
    pid, sock = left_behind(os.path.join(one.folder, "adm", "s"))
    with sock:
        if not there:
            os.waitpid(pid, 0)
        body = json.dumps({"tenant": "acme", "id": "sb", "hold": True}).encode()
        sock.sendall(b"POST /v1/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while b"}\n" not in answer:
            more = sock.recv(65536)
            assert more, answer
            answer += more
    if there:
        os.waitpid(pid, 0)
    assert b" 422 " in answer.splitlines()[0], answer
    assert answer.endswith(b'{"error":"hold: the process that connected has ended"}\n'), answer
    assert added(one) == []


def test_a_holder_that_dies_in_a_handover_takes_its_sandbox_once_and_no_other(upgradable):
    one = upgradable(admin())
    with held(one, "stays"), held(one, "goes") as goes, held(one, "later") as later:
        since = one.mark()
        one.usr2()
        one.said(r"process \d+ is started", since)
        goes.kill()
        goes.wait()
        old = one.taken_over(since)
        until("it is gone", lambda: added(one) == ["stays", "later"])
        later.kill()
        until("the other is gone", lambda: added(one) == ["stays"])
        assert old.wait(20) == 0
        # Nor does what the process before still had bring one back.
        one.usr2()
        one.said(r"process \d+ has taken over[\s\S]*process \d+ has taken over", since)
        one.taken_over(one.stderr().rindex("handover: process"))
        until("the next one answers", lambda: added(one) == ["stays"])
        said = re.findall(r"sandbox (\S+) of tenant acme: removed, the process that held it", one.stderr())
        assert said == ["goes", "later"], one.stderr()
        assert files_below(base(one)) == ["acme", "acme/stays", "acme/stays/s"]
    until("all are gone", lambda: added(one) == [])


def test_a_tenant_that_goes_with_a_handover_takes_its_sandboxes(upgradable):
    one = upgradable({**admin(), "tenants": DEV})
    stays, goes = add(one, "stays"), add(one, "goes", "dev")
    with Tunnel(inside(one, goes), "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        del one.config["tenants"]["dev"]
        one.write(one.config)
        one.hand_over()
        until("the next one answers", lambda: added(one) == ["stays"])
        with pytest.raises(Exception, match="."):
            for _ in range(500):
                tunnel.ask("GET", "/test/echo")
    assert asks(one, stays) == 200
    assert refuses(goes["listener"])
    assert files_below(base(one)) == ["acme", "acme/stays", "acme/stays/s"]
    assert "a new one is started" not in one.stderr(), "the worker knew what it was told"
    clear(one)


def test_a_draining_daemon_adds_none(daemon):
    one = daemon(admin())
    one.checked = False
    made = add(one, "sb-1")
    with Tunnel(inside(one, made), "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        tunnel.start("GET", "/test/sse?n=40&ms=50")
        assert tunnel.read_head().status == 200
        one.process.terminate()
        until("the socket is gone", lambda: refuses(made["listener"]))
        assert files_below(base(one)) == []
        assert "drains" in add(one, "sb-2", expected=503)["error"]
        assert "drains" in remove(one, "sb-1", expected=503)["error"]
        tunnel.take_until(b'"n": 39')
    assert one.process.wait(20) == 0


def fill(one, tenant, most):
    """As many of that tenant's as there may be."""
    answers = [call(one, "POST", "/v1/sandboxes", {"tenant": tenant, "id": f"s{i}"}) for i in range(most + 20)]
    made = [answer for status, answer in answers if status == 201]
    assert len(made) == most
    assert {status for status, _ in answers[most:]} == {503}
    assert "RLIMIT_NOFILE" in answers[-1][1]["error"]
    return made


def test_as_many_as_descriptors_allow_and_not_one_more(daemon):
    one = daemon({**TWO_TENANTS, **admin(), "listen": None}, nofile=256)
    most = 256 * 5 // 8 - 64
    made = fill(one, "acme", most // 4 * 3) + fill(one, "dev", most - most // 4 * 3)
    assert asks(one, made[0]) == 200 == asks(one, made[-1])
    clear(one)
    assert asks(one, add(one, "again")) == 200
    clear(one)
