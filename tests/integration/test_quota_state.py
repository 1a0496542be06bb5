"""What is used of limits survives a reload, a worker's death, a handover, a restart, and no damage."""

import copy
import mmap
import os
import signal
import struct
import time

import descriptors
import pytest
from harness import Tunnel, until
from test_quota import ask, is_served, limits
from test_reload import reload


def state_of(daemon):
    return daemon.journal_path + ".limits"


def statuses(daemon, n, target="/test/status?code=204"):
    return [ask(daemon, target).status for _ in range(n)]


def changed(daemon):
    """With what stands in daemon.config now; every thread has taken it."""
    reload(daemon, lambda config: None)
    time.sleep(0.3)


def restart(daemon):
    daemon.stop()
    daemon.start()


def test_a_restart_finds_again_what_is_used(daemon):
    one = daemon(limits(tenant={"requests": "5/day", "bytes_down": "2000B/day"}, site={"requests": "100/day"}))
    assert statuses(one, 3) == [204] * 3
    assert ask(one, "/test/bytes?n=1500").status == 200
    restart(one)
    assert os.stat(state_of(one)).st_mode & 0o777 == 0o600
    assert statuses(one, 2) == [204, 403]
    answer = ask(one, "/test/echo", fields=[("Accept", "application/json")])
    assert answer.json()["keyhole"]["limit"]["used"] == 5
    one.config["tenants"]["acme"]["limits"].pop("requests")
    one.write(one.config)
    restart(one)
    # 500 bytes are left, and one more each 43 seconds.
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=600", host="open.test")
        answer = tunnel.response(partial=True)
        assert answer.status == 403 or 500 <= len(answer.body) < 510


def test_what_is_not_limited_by_a_period_leaves_no_file(daemon):
    one = daemon(limits(tenant={"concurrency": 5, "max_body": "1MiB"}))
    assert statuses(one, 2) == [204] * 2
    one.stop()
    assert not os.path.exists(state_of(one))
    one.start()


def test_kill_9_loses_a_second_at_most(daemon):
    one = daemon(limits(tenant={"requests": "5/day"}))
    assert statuses(one, 4) == [204] * 4
    before = until("it is written", lambda: os.path.exists(state_of(one)) and os.stat(state_of(one)))
    assert statuses(one, 1) == [204]
    until("it is written again", lambda: os.stat(state_of(one)).st_ino != before.st_ino)
    one.kill()
    one.start()
    assert statuses(one, 1) == [403]


def test_an_idle_daemon_writes_nothing(daemon):
    one = daemon(limits(tenant={"requests": "5/day"}))
    statuses(one, 1)
    first = until("it is written", lambda: os.path.exists(state_of(one)) and os.stat(state_of(one)))
    with pytest.raises(AssertionError):
        until("it is written again", lambda: os.stat(state_of(one)).st_ino != first.st_ino, 2.5)


def test_a_worker_that_dies_takes_its_places_with_it_and_nothing_else(daemon):
    one = daemon(limits(tenant={"requests": "5/day", "concurrency": 2, "connections": 2}))
    one.checked = False  # exchanges are aborted
    with Tunnel(one, "open.test") as a, Tunnel(one, "open.test") as b:
        for held in a, b:
            held.start("GET", "/test/hold", host="open.test")
        until("both run", lambda: len(one.journal(event="open")) == 2)
        os.kill(one.worker_pid(), signal.SIGKILL)
    until("another one serves", lambda: is_served(one))
    assert statuses(one, 3) == [204, 204, 403]


def test_a_reload_keeps_what_is_used_and_takes_another_amount(daemon):
    one = daemon(limits(tenant={"requests": "5/day"}))
    assert statuses(one, 4) == [204] * 4
    changed(one)
    assert statuses(one, 2) == [204, 403]
    # As a number, not as a share: two more.
    one.config["tenants"]["acme"]["limits"] = {"requests": "7/day"}
    changed(one)
    assert statuses(one, 3) == [204, 204, 403]
    one.config["tenants"]["acme"]["limits"] = {"requests": "6/day"}
    changed(one)
    assert statuses(one, 1) == [403]
    one.config["tenants"]["acme"].pop("limits")
    changed(one)
    assert statuses(one, 1) == [204]
    # Nobody is forgiven for being taken out for a moment.
    one.config["tenants"]["acme"]["limits"] = {"requests": "6/day"}
    changed(one)
    assert statuses(one, 1) == [403]


def test_what_runs_goes_over_to_new_limits(daemon):
    one = daemon(limits(tenant={"concurrency": 1}))
    with Tunnel(one, "open.test") as held:
        held.start("GET", "/test/hold", host="open.test")
        until("it runs", lambda: len(one.journal(event="open")) == 1)
        one.config["tenants"]["acme"]["limits"] = {"concurrency": 2}
        one.config["site"] = {"limits": {"concurrency": 1}}
        changed(one)
        answer = ask(one)
        assert answer.status == 429 and "the site" in answer.text()
        one.config["site"] = {"limits": {"concurrency": 3}}
        changed(one)
        assert ask(one).status == 204
        with Tunnel(one, "open.test") as other:
            other.start("GET", "/test/hold", host="open.test")
            until("it runs", lambda: len(one.journal(event="open")) == 3)
            assert ask(one).status == 429
    until("all places are free", lambda: is_served(one))


def test_bytes_of_what_runs_are_counted_by_the_new_limit(daemon):
    one = daemon({})
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=100&ms=50", host="open.test")
        until("it runs", lambda: one.journal(event="open"))
        one.config["tenants"]["acme"]["limits"] = {"bytes_down": "200B/day"}
        changed(one)
        assert tunnel.response(partial=True).status == 200
    (record,) = until("its end", lambda: one.journal(event="close"))
    assert record["limit"] == "tenant acme: bytes_down 200B/day"


@pytest.mark.parametrize("damage", ["a bit", "the end", "all", "nothing is left", "another version"])
def test_a_damaged_file_counts_as_all_used(daemon, damage):
    one = daemon(limits(tenant={"requests": "5/day"}, site={"requests": "600/min"}))
    assert statuses(one, 1) == [204]
    one.stop()
    with open(state_of(one), "rb") as file:
        data = file.read()
    bad = {"a bit": data[:20] + bytes([data[20] ^ 1]) + data[21:], "the end": data[:-1], "all": b"x" * 500,
           "nothing is left": b"", "another version": b"KHL9" + data[4:]}[damage]  # fmt: skip
    with open(state_of(one), "wb") as file:
        file.write(bad)
    one.start()
    assert statuses(one, 1) == [403]
    assert "counts as used up" in one.stderr()
    assert open(state_of(one) + ".damaged", "rb").read() == bad
    # It is written anew, and that one is good.
    one.stop()
    one.start()
    assert one.stderr().count("counts as used up") == 1
    assert statuses(one, 1) == [403]


def test_a_damaged_file_counts_as_all_used_after_a_start_that_failed(daemon):
    one = daemon(limits(tenant={"requests": "2/day"}))
    one.checked = False
    assert statuses(one, 1) == [204]
    one.stop()
    with open(state_of(one), "wb") as file:
        file.write(b"x" * 100)
    good = copy.deepcopy(one.config)
    one.config["listen"].append({"unix": "/proc/none/s", "tenant": "acme"})
    one.write(one.config)
    with pytest.raises(AssertionError):
        one.start()
    one.write(good)
    one.start()
    assert statuses(one, 1) == [403]


def test_without_the_file_all_limits_begin_anew(daemon):
    one = daemon(limits(tenant={"requests": "2/day"}))
    assert statuses(one, 3) == [204, 204, 403]
    one.stop()
    os.unlink(state_of(one))
    one.start()
    assert statuses(one, 1) == [204]


def test_a_file_that_cant_be_written_is_said_once(daemon):
    one = daemon(limits(tenant={"requests": "4/day"}))
    os.mkdir(state_of(one))
    assert statuses(one, 2) == [204] * 2
    until("it is said", lambda: "can't be written" in one.stderr())
    assert statuses(one, 3) == [204, 204, 403]
    os.rmdir(state_of(one))
    until("it is written", lambda: "can be written again" in one.stderr())
    assert one.stderr().count("can't be written, and would be lost") == 1


def test_a_handover_loses_and_doubles_nothing(upgradable):
    opens = 4
    one = upgradable({"tenants": {"acme": {"limits": {"requests": "7/day", "concurrency": 2}}}})
    assert statuses(one, 3) == [204] * 3
    with Tunnel(one, "open.test") as held:
        held.start("GET", "/test/hold", host="open.test")
        until("it runs", lambda: one.segments()[-1][1].count("open") == opens)
        old = one.hand_over()
        # In the new process, while the old one still has its own.
        assert statuses(one, 1) == [204]
        with Tunnel(one, "open.test") as other:
            other.start("GET", "/test/hold", host="open.test")
            until("it runs", lambda: one.segments()[-1][1].count("open") == 2)
            answer = ask(one)
            assert answer.status == 429 and "concurrency 2 (2 at this moment)" in answer.text()
    assert old.wait(20) == 0
    assert statuses(one, 2) == [204, 403], "six were used"


def test_places_of_an_old_process_that_is_killed_are_free(upgradable):
    opens = 1
    one = upgradable({"tenants": {"acme": {"limits": {"concurrency": 1}}}})
    with Tunnel(one, "open.test") as held:
        held.start("GET", "/test/hold", host="open.test")
        until("it runs", lambda: one.segments()[-1][1].count("open") == opens)
        old = one.hand_over()
        assert ask(one).status == 429
        old.kill()
        old.wait()
        until("its place is free", lambda: is_served(one))


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another process's descriptors")
@pytest.mark.parametrize("limit", [{"requests": "600/s"}, {"concurrency": 5}, {"connections": 5}])
@pytest.mark.parametrize("number", [2**63 - 1, 5 << 32 | 5, 2**64 - 1])
def test_what_a_worker_wrote_into_the_ledger_locks_nobody_out(daemon, limit, number):
    one = daemon(limits(tenant=limit))
    assert is_served(one)
    # The same pages that the worker has for writing.
    fd = descriptors.named(one.process.pid, "memfd:keyhole-quota-ledger")
    with mmap.mmap(fd, 4096) as ledger:
        struct.pack_into("=504Q", ledger, 64, *[number] * 504)
    os.close(fd)
    os.kill(one.worker_pid(), signal.SIGKILL)
    until("another one serves, within the limit's own second", lambda: is_served(one), 5)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
@pytest.mark.parametrize("trick, why", [("owner", "it belongs to user"), ("mode", "others may write to it"), ("link", "it is a link"), ("name", "it has another name")])
def test_what_somebody_else_says_is_used_is_not_believed(daemon, trick, why):
    one = daemon(limits(tenant={"requests": "2/day"}))
    assert statuses(one, 1) == [204]
    one.stop()
    path = state_of(one)
    kept = path + ".kept"
    if trick == "owner":
        os.chown(path, 4711, -1)
    elif trick == "mode":
        os.chmod(path, 0o660)
    elif trick == "link":
        os.rename(path, kept)
        os.symlink(kept, path)
    else:
        os.link(path, kept)
    assert not one.spawn()
    one.process.wait()
    said = one.stderr()
    assert "what is used of limits" in said and why in said and path in said
    # Once it is as it was, what was used is used still.
    if trick == "owner":
        os.chown(path, 0, -1)
    elif trick == "mode":
        os.chmod(path, 0o600)
    elif trick == "link":
        os.rename(kept, path)
    else:
        os.unlink(kept)
    one.start()
    assert statuses(one, 2) == [204, 403]
