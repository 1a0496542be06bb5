"""test_handover_killed.py - a daemon that is killed between a handover and the record that says how the segment before ended"""

import contextlib
import fcntl
import os
import signal

from common import has_ended
from handover import ask
from harness import PATIENCE, Tunnel, until
from test_handover_faults import verify
from test_journal_kept import records, sealed


def kill(process, worker):
    """Keeper and worker at once: neither writes another record, nor listens when this returns."""
    os.kill(process.pid, signal.SIGSTOP)
    for pid in (worker, process.pid):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        process.wait(PATIENCE)
    until("its worker has ended", lambda: has_ended(worker))


def last(one):
    return one.segments()[-1][1]


def killed_in_time(one):
    """Both processes, while the old one still finishes an exchange."""
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/hold")
        until("it is under way", lambda: "open" in last(one))
        worker = one.worker_pid()
        old = one.hand_over()
        assert ask(one).status == 200
        kill(one.process, one.worker_pid())
        kill(old, worker)
    assert "joined" not in last(one)


def test_a_daemon_that_was_killed_before_the_segments_were_joined_leaves_an_honest_journal(upgradable):
    one = upgradable()
    killed_in_time(one)
    for starts in (2, 3):
        one.start()
        assert ask(one).status == 200
        status, said = verify(one.journal_path)
        assert status == 0 and said.count(": ok") == 2, said
        assert last(one).count("start") == starts
        kill(one.process, one.worker_pid())
    # What was killed with the old one has its end, and the end of that segment is protected.
    assert one.segments()[0][1].count("aborted") == 1
    one.start()
    one.check_ends()
    one.stop()
    path = one.segment_paths()[0]
    with open(path, "rb") as file:
        lines = file.readlines()
    with open(path, "wb") as file:
        file.writelines(lines[:-1])
    assert verify(one.journal_path)[0] == 1
    with open(path, "wb") as file:
        file.writelines(lines)


def test_a_segment_that_was_not_joined_and_is_too_long_to_be_followed_is_joined_in_the_next(upgradable):
    """256 MiB: the next daemon goes on in a third file, and says there how the first one ended."""
    one = upgradable()
    killed_in_time(one)
    line = records(one.journal_path)[-1]
    seq, head, detail = line["seq"], line["hash"], "x" * 7900
    with open(one.journal_path, "ab") as file:
        for _ in range(34000):
            seq += 1
            text = sealed("drain", seq, head, detail)
            head = text[-67:-3].decode()
            file.write(text)
    one.checked = False  # by the harness, which knows of no such record
    one.start()
    assert ask(one).status == 200
    first, second, third = one.segment_paths()
    begun = [(line["event"], line.get("segment")) for line in records(third)[:3]]
    cuts = [int(path.rsplit(".", 1)[1]) for path in (first, second)]
    assert begun == [("start", None), ("joined", cuts[1]), ("joined", cuts[0])]
    status, said = verify(one.journal_path)
    assert status == 0 and said.count(": ok") == 3, said
    one.stop()
    # It protects the end of the first one.
    with open(first, "rb") as file:
        lines = file.readlines()
    with open(first, "wb") as file:
        file.writelines(lines[:-1])
    status, said = verify(one.journal_path)
    assert status == 1 and f"{first}: BROKEN: it ends at seq" in said, said


def test_a_segment_that_another_process_still_writes_is_joined_at_the_next_start(upgradable):
    """Sockets that systemd has passed let a daemon start while the one before still finishes."""
    one = upgradable()
    one.hand_over()
    one.last_ended()
    one.stop()
    joined = last(one).count("joined")
    with open(one.segment_paths()[0], "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 1, 0, os.SEEK_SET)  # as a keeper does
        one.start()
        one.said("can't be written before the next start: .* writes it already")
        assert ask(one).status == 200
        one.stop()
        assert last(one).count("joined") == joined
    one.start()
    assert ask(one).status == 200
    one.stop()
    assert last(one).count("joined") == joined + 1


def test_a_false_joined_record_of_a_killed_daemon_is_found_out(upgradable):
    """The worker that wrote it was taken over, and the daemon was killed before another one could say it again."""
    one = upgradable()
    one.hand_over()
    one.last_ended()
    one.checked = False
    kill(one.process, one.worker_pid())
    path = one.segment_paths()[0]
    with open(path, "rb") as file:
        lines = file.readlines()
    # As if it had named the line before, and somebody will cut the last one off later.
    one.start()
    assert verify(one.journal_path)[0] == 0
    one.stop()
    with open(path, "wb") as file:
        file.writelines(lines[:-1])
    one.start()
    one.stop()
    status, said = verify(one.journal_path)
    assert status == 1 and "names another end of the segment before than an earlier line" in said, said
