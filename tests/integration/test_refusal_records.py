"""Refusals have a record each within a budget, and are counted beyond it: none is lost, none fills the disk."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest
from common import until
from harness import KEYHOLE, Tunnel, Wire
from test_faults import tiny_disk  # noqa: F401 (a fixture)

LONG = "/" + "%F0%9F%98%80" * 85 + "?" + "&".join("%sn%d=1" % ("a" * 20, i) for i in range(30))
REFUSED = f"GET http://nope.test{LONG} HTTP/1.1\r\nHost: nope.test\r\n\r\n".encode()


def refuse(one, times):
    """Return: all of them were answered with 403, which was read."""
    with Wire(one.socket_path) as wire:
        for _ in range(times):
            wire.send(REFUSED)
            assert wire.response().status == 403


def recorded(one):
    records = one.journal()
    return (sum(r["event"] == "deny" for r in records),
            sum(r["count"] for r in records if r["event"] == "denials"))  # fmt: skip


def audit(one, verb, *options):
    done = subprocess.run([KEYHOLE, "audit", verb, *options, one.journal_path], capture_output=True,
                          text=True, timeout=30, check=True)  # fmt: skip
    return done.stdout


def test_a_flood_of_refusals_is_counted_and_none_is_lost(daemon):
    one = daemon({"limits": {"refusals": 1, "refusals_burst": 20}})
    began = time.time()
    for _ in range(10):
        refuse(one, 40)
    # The first one that is only counted is in the journal before its answer is read.
    singly, counted = recorded(one)
    assert 20 <= singly <= 20 + time.time() - began + 1
    assert counted > 0
    one.checked = False
    one.stop()
    singly, counted = recorded(one)
    assert singly + counted == 400
    records = one.journal(event="denials")
    assert {(r["tenant"], r["sandbox"]) for r in records} == {("acme", "acme")}
    assert all(r["since"] <= r["until"] <= r["time"] for r in records)
    assert sum(int(r["reasons"].removeprefix("no_rule ")) for r in records) == counted
    assert f"{singly} refused, {counted} refused and only counted" in audit(one, "verify")
    assert json.loads(audit(one, "verify", "--json"))["counted"] == counted
    shown = audit(one, "show", "--denied")
    assert sum(int(line.split("DENIED ")[1].split()[0]) for line in shown.splitlines() if "only counted" in line) == counted


def test_a_worker_that_dies_leaves_the_word_that_refusals_were_counted(daemon):
    one = daemon({"limits": {"refusals": 1, "refusals_burst": 5}, "worker": {"threads": 1}})
    refuse(one, 50)
    os.kill(one.worker_pid(), signal.SIGKILL)
    until("the next worker begins", lambda: len(one.journal(event="start")) == 2)
    singly, counted = recorded(one)
    assert singly >= 5 and counted >= 1
    one.verify()


def test_refusals_by_one_connection_fill_no_disk(daemon):
    """51 MB/s at the worst, from one connection of a tenant that may ask ten times a minute."""
    one = daemon({"tenants": {"acme": {"limits": {"requests": "10/min", "connections": 4}}}, "worker": {"threads": 1}})
    before = os.path.getsize(one.journal_path)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(one.socket_path)

    def read():
        with contextlib.suppress(OSError):
            while sock.recv(1 << 20):
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    sent, end = 0, time.monotonic() + 2
    while time.monotonic() < end:
        sock.sendall(REFUSED * 50)
        sent += 50
    sock.shutdown(socket.SHUT_RDWR)
    reader.join()
    sock.close()
    assert sent > 2000
    # The burst, the rate and a margin, of the largest record that these make.
    assert os.path.getsize(one.journal_path) - before < (1000 + 10 * 4) * 6000
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo/after").status == 200
    assert len(one.records_of("/test/echo/after")) == 2, "what is forwarded is never only counted"


def test_many_sandboxes_of_one_tenant_have_one_share_of_the_journal(daemon, tmp_path):
    listen = [{"unix": f"d{n}/s", "tenant": "acme", "sandbox": f"a{n}"} for n in range(3)]
    one = daemon({"listen": [{"unix": "d/s", "tenant": "acme"}, *listen],
                  "limits": {"refusals": 100000, "refusals_burst": 1000000}})  # fmt: skip
    # Without a budget of its own, what a tenant's sandboxes write is still bounded: 64 MiB shared out.
    before = os.path.getsize(one.journal_path)

    def flood(n):
        end = time.monotonic() + 90
        with Wire(os.path.join(one.folder, f"d{n}", "s")) as wire:
            sent = 0
            while sent < 9000 and time.monotonic() < end:
                wire.send(REFUSED * 10)
                for _ in range(10):
                    assert wire.response().status == 403
                sent += 10

    threads = [threading.Thread(target=flood, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    grown = os.path.getsize(one.journal_path) - before
    assert grown < 64 << 20
    one.checked = False
    one.stop()
    assert recorded(one)[1] > 0


@pytest.mark.usefixtures("tiny_disk")
def test_refusals_never_take_the_disk_that_allowed_requests_need(tiny_disk, daemon):  # noqa: F811
    one = daemon({"audit": {"file": tiny_disk + "/audit.jsonl"}, "worker": {"threads": 1}}, start=False)
    one.journal_path = tiny_disk + "/audit.jsonl"
    one.start()
    with open(tiny_disk + "/ballast", "wb", buffering=0) as file:
        while os.statvfs(tiny_disk).f_bavail * 4096 > 26 * 1024:  # a tenth of 256 KiB
            file.write(b"x" * 4096)
    until("it says that space is short", lambda: "audit.reserve" in one.stderr())
    refuse(one, 100)
    for n in range(5):
        with Tunnel(one, "open.test") as tunnel:
            assert tunnel.ask("GET", f"/test/echo/{n}").status == 200
    assert recorded(one)[0] == 0
    os.unlink(tiny_disk + "/ballast")
    until("it says that there is space", lambda: "left again" in one.stderr())
    refuse(one, 1)
    assert recorded(one)[0] == 1
    one.checked = False
    one.stop()
    assert recorded(one)[1] == 100


def test_requests_to_keyhole_internal_have_the_same_budget(daemon):
    one = daemon({"limits": {"refusals": 1, "refusals_burst": 10}, "worker": {"threads": 1}})
    with Wire(one.socket_path) as wire:
        answers = [wire.ask("GET", "http://keyhole.internal/", host="keyhole.internal").status for _ in range(40)]
    assert answers[:10] == [200] * 10
    assert set(answers[15:]) == {429}
    one.checked = False
    one.stop()
    assert sum(recorded(one)) == answers.count(429)
