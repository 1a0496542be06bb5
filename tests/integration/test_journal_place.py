"""The journal's file: whose it is, and whether it is still where its name leads."""

import contextlib
import os
import signal
import subprocess
import time

import pytest
from admin_client import admin, ask
from harness import KEYHOLE, Tunnel, finish, free_port, until


def status(daemon):
    with Tunnel(daemon, "open.test") as tunnel:
        return tunnel.ask("GET", "/test/echo").status


def refused(daemon):
    """What it says instead of starting."""
    assert not daemon.spawn()
    daemon.process.wait(timeout=30)
    daemon.checked = False  # it has no journal
    return daemon.stderr()


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
def test_a_journal_that_is_no_longer_in_its_place_stops_all_forwarding(daemon, mock, how):
    port = free_port()
    one = daemon(admin(port))
    assert status(one) == 200 and ask(one, "/readyz", port=port)[0] == 200
    aside = one.journal_path + ".aside"
    os.rename(one.journal_path, aside)
    if how == "deleted":
        os.unlink(aside)
    if how == "replaced":
        with open(one.journal_path, "w", encoding="ascii"):
            pass
    began = time.monotonic()
    until("nothing is forwarded", lambda: status(one) == 503, 5)
    assert time.monotonic() - began < 2.5, "it looks twice a second"
    mark = mock.mark()
    assert status(one) == 503
    assert mock.requests(since=mark) == []
    assert "was moved, deleted or replaced" in one.stderr()
    answer, content = ask(one, "/readyz", port=port)
    assert answer == 503 and b"was moved, deleted or replaced" in content, content
    one.checked = False
    if how == "deleted":
        return
    os.rename(aside, one.journal_path)
    until("it is forwarded again", lambda: status(one) == 200, 5)
    assert "it is back in its place" in one.stderr()
    until("it is ready again", lambda: ask(one, "/readyz", port=port)[0] == 200, 5)


def test_a_worker_that_starts_while_the_journal_is_gone_forwards_nothing(daemon, mock):
    one = daemon()
    assert status(one) == 200
    os.rename(one.journal_path, one.journal_path + ".aside")
    until("nothing is forwarded", lambda: status(one) == 503, 5)
    one.checked = False
    mark = mock.mark()
    for _ in range(3):
        before = one.worker_pid()
        os.kill(before, signal.SIGKILL)
        until("another worker", lambda before=before: one.worker_pid() not in (None, before))
        for _ in range(5):
            assert status(one) == 503
    assert mock.requests(since=mark) == []


def test_a_journal_that_was_cut_stops_all_forwarding(daemon):
    one = daemon()
    assert status(one) == 200
    time.sleep(1.2)  # the worker tells within a second what it has written
    os.truncate(one.journal_path, 100)
    one.checked = False
    until("nothing is forwarded", lambda: status(one) == 503, 5)


# Its record is written when its content was looked into, which may be long after the drain has begun.
RULES = {"tenants": {"acme": {"rules": [{"allow": "GET https://open.test/**"},
                                        {"allow": "POST https://open.test/test/echo", "models": ["m-*"]}]}}}  # fmt: skip


class Begun:
    """Requests that have begun. The worker may hear a moment after the log that the journal is gone, or back: so there
    are several, and the last one counts, which ends a while after the others."""

    def __init__(self, stack, daemon):
        self.tunnels = [stack.enter_context(Tunnel(daemon, "open.test")) for _ in range(4)]
        for tunnel in self.tunnels:
            tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: open.test\r\nContent-Type: application/json\r\n"
                        b"Content-Length: 15\r\n\r\n{\"model")
        # A connection on which nothing was read when a drain begins is closed by it. Later requests are read after these.
        for _ in range(4):
            assert status(daemon) == 200

    def end(self, mock):
        """The status of the last one. What was not answered 200 did not get to the upstream."""
        mark, statuses = mock.mark(), []
        for tunnel in self.tunnels:
            if tunnel is self.tunnels[-1]:
                time.sleep(0.5)
            tunnel.send(b'":"m-1"}')
            statuses.append(tunnel.response("POST").status)
        assert len(mock.requests(since=mark)) == statuses.count(200)
        return statuses[-1]


def drain(daemon):
    daemon.process.send_signal(signal.SIGTERM)
    until("it drains", lambda: not os.path.exists(daemon.socket_path))


@pytest.mark.parametrize("how", ["moved", "cut"])
def test_a_journal_that_leaves_its_place_in_a_drain_stops_all_forwarding(daemon, mock, how):
    one = daemon(RULES)
    assert status(one) == 200
    one.checked = False
    with contextlib.ExitStack() as stack:
        begun = Begun(stack, one)
        if how == "cut":
            time.sleep(1.2)  # the worker tells within a second what it has written
        drain(one)
        if how == "moved":
            os.rename(one.journal_path, one.journal_path + ".aside")
        else:
            os.truncate(one.journal_path, 100)
        until("it is noticed", lambda: "moved, deleted, replaced or cut" in one.stderr(), 5)
        assert begun.end(mock) == 503
    assert finish(one.process) == 0, "it ends all the same"


def test_a_journal_that_comes_back_in_a_drain_is_forwarded_by_again(daemon, mock):
    one = daemon(RULES)
    one.checked = False  # it ends
    with contextlib.ExitStack() as stack:
        begun = Begun(stack, one)
        drain(one)
        os.rename(one.journal_path, one.journal_path + ".aside")
        until("it is noticed", lambda: "moved, deleted, replaced or cut" in one.stderr(), 5)
        os.rename(one.journal_path + ".aside", one.journal_path)
        until("it is back", lambda: "it is back in its place" in one.stderr(), 5)
        assert begun.end(mock) == 200
    assert finish(one.process) == 0


@pytest.mark.parametrize("how", ["stays", "moved"])
def test_the_process_before_looks_after_its_journal_until_it_ends(upgradable, mock, how):
    one = upgradable(RULES)
    with Tunnel(one, "open.test") as held, contextlib.ExitStack() as stack:
        held.start("GET", "/test/sse?n=60&ms=50", host="open.test")  # it keeps the old process
        assert held.read_head().status == 200
        begun = Begun(stack, one)
        old = one.hand_over()
        (segment,) = set(one.segment_paths()) - {one.journal_path}
        aside = os.path.join(one.folder, "aside")
        if how == "moved":
            os.rename(segment, aside)
            until("it is noticed", lambda: f"{segment}: it was moved, deleted" in one.stderr(), 5)
        else:
            time.sleep(0.7)  # it has looked in this time
            assert "moved, deleted" not in one.stderr()
        assert begun.end(mock) == (503 if how == "moved" else 200)
        assert status(one) == 200, "the new process has a journal of its own"
        if how == "moved":
            os.rename(aside, segment)
            until("it is back", lambda: "it is back in its place" in one.stderr(), 5)
    assert finish(old) == 0
    one.last_ended()


def test_a_journal_that_is_a_symbolic_link_is_refused(daemon):
    one = daemon(start=False)
    target = os.path.join(one.folder, "elsewhere")
    os.symlink(target, one.journal_path)
    assert "it is a symbolic link" in refused(one)
    assert not os.path.exists(target)


def test_a_journal_with_another_name_is_refused(daemon):
    one = daemon(start=False)
    with open(one.journal_path, "w", encoding="ascii"):
        os.chmod(one.journal_path, 0o600)
    os.link(one.journal_path, os.path.join(one.folder, "other"))
    assert "2 names (hard links)" in refused(one)
    # What a handover leaves behind that was killed is no reason.
    os.rename(os.path.join(one.folder, "other"), one.journal_path + ".000000000007")
    one.start()
    one.checked = True
    assert status(one) == 200


def test_a_journal_that_others_may_write_to_is_refused(daemon):
    one = daemon(start=False)
    with open(one.journal_path, "w", encoding="ascii"):
        os.chmod(one.journal_path, 0o620)
    assert "others may write to it" in refused(one)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_journal_of_another_user_is_refused(daemon):
    one = daemon(start=False)
    with open(one.journal_path, "w", encoding="ascii"):
        os.chmod(one.journal_path, 0o600)
    os.chown(one.journal_path, 12345, 12345)
    assert "belongs to uid 12345" in refused(one)


def checked(daemon):
    """What `keyhole check` says of the journal."""
    done = subprocess.run([KEYHOLE, "check", "-c", daemon.config_path], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stdout + done.stderr


def own_folder(daemon, mode, uid=None, gid=None):
    """A folder for the journal, as others made it."""
    folder = os.path.join(daemon.folder, "journal")
    os.mkdir(folder)
    os.chown(folder, -1 if uid is None else uid, -1 if gid is None else gid)
    os.chmod(folder, mode)
    return {"audit": {"file": os.path.join(folder, "audit.jsonl")}}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mode, uid, gid, words", [
    (0o777, None, None, "the daemon would not start"),
    (0o2777, None, 12345, "the daemon would not start"),  # an emptyDir of Kubernetes with fsGroup
    (0o775, None, 12345, "a daemon of root's would not start"),
    (0o700, 12345, None, "a daemon of root's would not start"),
    (0o1777, 12345, None, "a daemon of root's would not start"),
])  # fmt: skip
def test_a_journal_whose_folder_lets_others_replace_it_is_refused(daemon, mode, uid, gid, words):
    one = daemon(start=False)
    one.write({**one.config, **own_folder(one, mode, uid, gid)})
    said = refused(one)
    assert "others may rename files in its folder" in said and "chmod go-w" in said
    assert not os.listdir(os.path.join(one.folder, "journal"))
    _, text = checked(one)
    assert "others may rename files in its folder" in text and words in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_journal_below_another_users_folder_is_refused(daemon):
    """That user could rename the folder of the journal, and put an older one in its place."""
    one = daemon(start=False)
    below = own_folder(one, 0o755, uid=12345)["audit"]["file"].replace("audit.jsonl", "own/audit.jsonl")
    os.mkdir(os.path.dirname(below), 0o700)
    one.write({**one.config, "audit": {"file": below}})
    said = refused(one)
    assert "belongs to uid 12345" in said and "chown it" in said
    assert not os.listdir(os.path.dirname(below))
    _, text = checked(one)
    assert "belongs to uid 12345" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_journal_below_a_folder_for_all_is_taken_and_warned_of(daemon):
    """As in an emptyDir of Kubernetes."""
    one = daemon(start=False)
    below = own_folder(one, 0o777)["audit"]["file"].replace("audit.jsonl", "own/audit.jsonl")
    one.write({**one.config, "audit": {"file": below}})
    code, text = checked(one)
    assert code == 0 and "others may write to the folder" in text
    assert one.spawn(), one.stderr()
    one.checked = False
    assert status(one) == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("mode, gid", [(0o1777, None), (0o775, None), (0o755, 12345)])
def test_a_journal_in_a_folder_where_only_its_owner_renames_it_is_taken(daemon, mode, gid):
    """As /tmp is, where a run may be told to put it (--audit)."""
    one = daemon(start=False)
    one.write({**one.config, **own_folder(one, mode, gid=gid)})
    code, text = checked(one)
    assert code == 0 and "rename files" not in text
    assert one.spawn(), one.stderr()
    one.checked = False
    assert status(one) == 200
