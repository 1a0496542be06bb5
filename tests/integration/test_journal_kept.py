"""The journal's past, with a worker that writes it and is not trusted: what the keeper lends, remembers and does."""

import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time

from common import KEYHOLE
from harness import PATIENCE, Tunnel, until

RULES = {"acme": {"rules": [{"allow": "https://open.test"}]}}


def ask(one, path="/test/echo"):
    with Tunnel(one, "open.test") as tunnel:
        return tunnel.ask("GET", path).status


def verify(path):
    done = subprocess.run([KEYHOLE, "audit", "verify", path], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def kill_worker(one):
    """With another one serving when it returns."""
    old = one.worker_pid()
    os.kill(old, 9)
    until("another worker serves", lambda: one.worker_pid() not in (None, old) and ask(one) == 200)


def journal_descriptors(one):
    """Flags of each descriptor of the worker that leads to the journal."""
    folder = f"/proc/{one.worker_pid()}"
    out = []
    for fd in os.listdir(folder + "/fd"):
        with contextlib.suppress(FileNotFoundError):  # a connection that ends meanwhile
            if os.readlink(f"{folder}/fd/{fd}") == one.journal_path:
                with open(f"{folder}/fdinfo/{fd}", encoding="ascii") as file:
                    out.append(int(re.search(r"^flags:\s*(\d+)", file.read(), re.M).group(1), 8))
    return out


def test_the_worker_holds_the_journal_for_appending_and_for_reading_apart(daemon):
    one = daemon()
    assert ask(one) == 200
    flags = sorted(f & (os.O_ACCMODE | os.O_APPEND) for f in journal_descriptors(one))
    assert flags == sorted([os.O_RDONLY, os.O_WRONLY | os.O_APPEND])


def test_what_a_worker_set_at_its_descriptors_of_the_journal_is_not_the_next_ones(daemon):
    """Each opens the file anew: with flags that were shared, the next worker would write over its beginning."""
    one = daemon()
    assert ask(one) == 200
    until("both its records", lambda: records(one.journal_path)[-1]["event"] == "close")
    pid, folder = one.worker_pid(), f"/proc/{one.worker_pid()}/fd"
    for fd in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"{folder}/{fd}") == one.journal_path:
                copy = stolen(pid, int(fd))
                # The lock-in refuses both; the keeper does not rely on it.
                fcntl.fcntl(copy, fcntl.F_SETFL, 0)
                os.lseek(copy, 0, os.SEEK_SET)
                os.close(copy)
    assert all(not f & os.O_APPEND for f in journal_descriptors(one))
    checkpointed(one)
    kill_worker(one)
    flags = sorted(f & (os.O_ACCMODE | os.O_APPEND) for f in journal_descriptors(one))
    assert flags == sorted([os.O_RDONLY, os.O_WRONLY | os.O_APPEND])
    assert segments(one) == []
    assert verify(one.journal_path)[0] == 0


def checkpointed(one):
    """Long enough that the keeper was told of every record that is there."""
    size = os.path.getsize(one.journal_path)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(1.2)  # a checkpoint follows within a second; there is nothing else to see of it
        if os.path.getsize(one.journal_path) == size:
            return
        size = os.path.getsize(one.journal_path)


def segments(one):
    folder, name = os.path.split(one.journal_path)
    return sorted(f for f in os.listdir(folder) if re.fullmatch(re.escape(name) + r"\.\d{12,}", f))


def changed_behind_the_keepers_back(one, change):
    """The journal changed between two workers. Return: the segment that was set aside, and the new one's first record."""
    for n in range(5):
        assert ask(one, f"/test/echo/{n}") == 200
    checkpointed(one)
    change(one.journal_path)
    kill_worker(one)
    (old,) = segments(one)
    with open(one.journal_path, encoding="utf-8") as file:
        first = json.loads(file.readline())
    one.checked = False
    return os.path.join(os.path.dirname(one.journal_path), old), first


def test_a_journal_that_was_rewritten_is_set_aside_and_the_next_segment_tells(daemon):
    """All hashes made anew: the file alone would verify."""
    def rewrite(path):
        with open(path, encoding="utf-8") as file:
            lines, prev = file.read().splitlines(), "0" * 64
        with open(path, "r+", encoding="utf-8") as file:
            for line in lines:
                body = re.sub(r',"prev":"\w{64}","hash":"\w{64}"\}$', "", line).replace("/test/echo", "/nice/echo")
                body += f',"prev":"{prev}"'
                prev = hashlib.sha256(body.encode()).hexdigest()
                file.write(body + f',"hash":"{prev}"}}\n')
        assert verify(path)[0] == 0

    one = daemon()
    old, first = changed_behind_the_keepers_back(one, rewrite)
    assert first["event"] == "start" and first["continues"] == first["seq"] - 1
    assert "is not there any more: the file was changed" in one.stderr()
    status, said = verify(one.journal_path)
    assert status != 0, said
    assert os.path.basename(old).endswith(f"{first['continues']:012}")


def test_lines_that_do_not_continue_what_the_keeper_knows_of_are_set_aside(daemon):
    """Each of them is sound by itself: a worker that was taken over has appended them."""
    def append(path):
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        body = re.sub(r',"seq":\d+,"prev":"\w{64}","hash":"\w{64}"\}$', "", lines[-1])
        body += f',"seq":{len(lines)},"prev":"{"a" * 64}"'
        with open(path, "a", encoding="utf-8") as file:
            file.write(body + f',"hash":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n')

    one = daemon()
    old, first = changed_behind_the_keepers_back(one, append)
    assert "does not continue the line before it" in one.stderr()
    assert first["event"] == "start" and first["continues"] == first["seq"] - 1
    assert os.path.basename(old).endswith(f"{first['continues']:012}")


def test_a_journal_that_was_cut_is_set_aside_and_the_next_segment_tells(daemon):
    def cut(path):
        with open(path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        os.truncate(path, sum(map(len, lines[:-3])))

    one = daemon()
    _, first = changed_behind_the_keepers_back(one, cut)
    assert first["event"] == "start" and first["continues"] == first["seq"] - 1
    status, said = verify(one.journal_path)
    assert status != 0, said


def test_a_worker_that_leaves_what_can_not_be_continued_does_not_end_the_service(daemon):
    """A tail of 48 GB without a newline: nobody reads it, and the chain goes on beside it."""
    one = daemon()
    assert ask(one) == 200
    checkpointed(one)
    os.truncate(one.journal_path, os.path.getsize(one.journal_path) + 48 * 10**9)
    began = time.monotonic()
    kill_worker(one)
    assert time.monotonic() - began < PATIENCE
    (old,) = segments(one)
    assert os.path.getsize(one.journal_path) < 10**6
    with open(one.journal_path, encoding="utf-8") as file:
        first = json.loads(file.readline())
    assert (first["event"], first["continues"]) == ("start", int(old.rsplit(".", 1)[1]))
    kill_worker(one)
    assert len(segments(one)) == 1
    one.checked = False


def test_a_death_of_the_worker_alone_makes_no_segment(daemon):
    one = daemon()
    for _ in range(3):
        assert ask(one) == 200
        kill_worker(one)
    assert segments(one) == []
    assert verify(one.journal_path)[0] == 0


def test_a_worker_that_outlives_its_keeper_keeps_the_journal(daemon):
    """Its lock stands on a byte of its own, as an open file's."""
    one = daemon(start=False)
    with open(one.journal_path, "ab") as journal:
        lock = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0)
        fcntl.fcntl(journal, fcntl.F_OFD_SETLK, lock)
        began = time.monotonic()
        assert not one.spawn() and time.monotonic() - began > 1.9
        assert "another process writes it already" in one.stderr()
        one.process.wait()
    one.start()
    assert ask(one) == 200


def stolen(pid, fd):
    """A descriptor of another process (pidfd_open, pidfd_getfd), as code in it would have it."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = libc.syscall(434, pid, 0)
    assert process >= 0, os.strerror(ctypes.get_errno())
    try:
        copy = libc.syscall(438, process, fd, 0)
        assert copy >= 0, os.strerror(ctypes.get_errno())
        return copy
    finally:
        os.close(process)


CHECKPOINT = 9  # include/keyhole/base/worker_messages.h


def say_checkpoint(one, seq, end, head=b"\x11" * 32):
    with socket.socket(fileno=stolen(one.worker_pid(), 3)) as channel:
        channel.send(struct.pack("!IIQI", CHECKPOINT, 0, seq, len(head)) + head + struct.pack("!Q", end))


def append(one, data):
    pid = one.worker_pid()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
                flags = int(re.search(r"^flags:\s*(\d+)", file.read(), re.M).group(1), 8)
            if os.readlink(f"/proc/{pid}/fd/{fd}") == one.journal_path and flags & os.O_APPEND:
                copy = stolen(pid, int(fd))
                assert os.write(copy, data) == len(data)
                os.close(copy)
                return
    raise AssertionError("no descriptor of the worker appends to the journal")


def records(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith('{"event":')]


def sealed(event, seq, prev, detail=None):
    more = f',"detail":"{detail}"' if detail else ""
    body = f'{{"event":"{event}","time":"2026-01-01T00:00:00.000Z"{more},"seq":{seq},"prev":"{prev}"'
    return f'{body},"hash":"{hashlib.sha256(body.encode()).hexdigest()}"}}\n'.encode()


def proc(pid, name, field):
    with open(f"/proc/{pid}/{name}", encoding="ascii") as file:
        return int(re.search(rf"^{field}:\s*(\d+)", file.read(), re.M).group(1))


def test_a_worker_reads_the_journal_before_it_only_when_it_is_locked_in(daemon):
    """Bytes that a worker which was taken over chose meet a parser; it has no more power than that one had."""
    one = daemon()
    assert ask(one) == 200
    checkpointed(one)
    old = one.worker_pid()
    os.kill(old, signal.SIGSTOP)  # from here on the test is the worker
    last, lines = records(one.journal_path)[-1], []
    seq, head = last["seq"], last["hash"]
    for _ in range(5000):
        seq += 1
        lines.append(sealed("drain", seq, head, "x" * 7000))
        head = hashlib.sha256(lines[-1][: lines[-1].index(b',"hash"')]).hexdigest()
    before = os.path.getsize(one.journal_path)
    append(one, b"".join(lines))
    os.kill(old, signal.SIGKILL)
    seen = {0: 0, 2: 0}  # by the mode of seccomp: the most that had been read
    end = time.monotonic() + PATIENCE
    while max(seen.values()) < 30 << 20 and time.monotonic() < end:
        with open(f"/proc/{one.process.pid}/task/{one.process.pid}/children", encoding="ascii") as file:
            for pid in set(map(int, file.read().split())) - {old}:
                with contextlib.suppress(OSError, AttributeError):
                    was = proc(pid, "io", "rchar")  # read before the mode is
                    mode = proc(pid, "status", "Seccomp")
                    seen[mode] = max(seen[mode], was)
    assert seen[2] >= 30 << 20, f"it was not seen reading: {seen}, {os.path.getsize(one.journal_path) - before}"
    assert seen[0] < 1 << 20, seen
    until("another worker serves", lambda: one.worker_pid() not in (None, old) and ask(one) == 200)
    assert segments(one) == []
    one.checked = False  # no daemon writes such records


def restart(one):
    one.process.terminate()
    one.process.wait(PATIENCE)
    one.start()
    until("it serves", lambda: ask(one) == 200)


def served_with_honest_numbers(one):
    """Now, after the worker's death and after the daemon's restart."""
    kill_worker(one)
    restart(one)
    kill_worker(one)
    assert records(one.journal_path)[-1]["seq"] < 100000
    assert "a message that it may not send" not in one.stderr()


def test_a_checkpoint_with_any_number_ends_no_service(daemon):
    """Also one that many honest lines would follow: 2^63-1 was taken, and nobody could go on behind it."""
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    for seq, end in ((2**63 - 1, 2**62), (2**64 - 1, 2**64 - 1), (2**62, 1), (10**6, os.path.getsize(one.journal_path))):
        say_checkpoint(one, seq, end)
        kill_worker(one)
    served_with_honest_numbers(one)


def test_a_checkpoint_of_a_line_that_is_there_with_another_number_ends_no_service(daemon):
    """Its hash and its end are right, so that it holds: the next worker's honest number is lower."""
    one = daemon()
    one.checked = False
    for _ in range(5):
        assert ask(one) == 200
    checkpointed(one)
    assert ask(one, "/test/echo/more") == 200
    until("both its records", lambda: records(one.journal_path)[-1]["event"] == "close")
    last = records(one.journal_path)[-1]
    end = os.path.getsize(one.journal_path)
    say_checkpoint(one, last["seq"] + 3, end, bytes.fromhex(last["hash"]))
    for _ in range(3):
        kill_worker(one)
    served_with_honest_numbers(one)


def test_a_last_line_with_any_number_ends_no_service(daemon):
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    checkpointed(one)
    for seq in (2**63 - 1, 2**64 - 1, 2**62, 10**6):
        append(one, sealed("stop", seq, records(one.journal_path)[-1]["hash"]))
        kill_worker(one)
    served_with_honest_numbers(one)


def test_a_daemon_that_finds_an_impossible_number_comes_up_and_tells(daemon):
    """Nothing is known of the file but what is in it: the new segment names the last line up to which it holds."""
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    one.process.terminate()
    one.process.wait(PATIENCE)
    last = records(one.journal_path)[-1]
    with open(one.journal_path, "ab") as file:
        file.write(sealed("stop", 2**63 - 1, last["hash"]))
    one.start()
    assert ask(one) == 200
    begun = records(one.journal_path)[0]
    assert (begun["event"], begun["continues"], begun["prev"]) == ("start", last["seq"], last["hash"])
    assert segments(one) == [f"audit.jsonl.{last['seq']:012}"]
    status, said = verify(one.journal_path)
    assert status != 0 and f"{2**63 - 1}" in said, said
    served_with_honest_numbers(one)


def ended(one):
    one.checked = False
    assert ask(one, "/test/echo/before") == 200
    one.process.terminate()
    one.process.wait(PATIENCE)
    return records(one.journal_path)


def forked(seq, *events):
    """Lines of which each continues the one before, but the first of them nothing."""
    out, prev = b"", "ab" * 32
    for event in events:
        out += sealed(event, seq, prev)
        prev = json.loads(out.splitlines()[-1])["hash"]
        seq += 1
    return out


def test_no_daemon_goes_on_behind_a_line_that_continues_nothing(daemon):
    """As its last act a worker that was taken over appends it; another forges what stands after it, and `recovered`."""
    one = daemon()
    for events in (("stop",), ("stop", "start"), ("deny", "start", "stop", "start", "stop")):
        lines = ended(one)
        with open(one.journal_path, "ab") as file:
            file.write(forked(lines[-1]["seq"] + 1, *events))
        one.start()
        assert ask(one, "/test/echo/honest") == 200
        assert "does not continue the line before it" in one.stderr()
        # The honest record is in a file that holds by itself, behind nothing that does not.
        begun = records(one.journal_path)
        assert (begun[0]["event"], begun[0]["set_aside"]) == ("start", True)
        assert [line["url.path"] for line in begun if line["event"] == "open"] == ["/test/echo/honest"]
        old = segments(one)[-1]
        status, said = verify(one.journal_path)
        assert status == 1 and f"{one.journal_path}: ok" in said and f"{old}: BROKEN" in said, said
        kill_worker(one)
        restart(one)
        assert segments(one)[-1] == old


def test_a_last_line_without_a_valid_hash_keeps_no_daemon_from_starting(daemon):
    one = daemon()
    for end in (b'{"event":"x"}\n', b"no record\n", b"\n", sealed("stop", 9, "ab" * 32)[:-1]):
        last = ended(one)[-1]
        with open(one.journal_path, "ab") as file:
            file.write(end)
        one.start()
        assert ask(one) == 200
        # What is before it is protected by the new segment; what is left behind it is said.
        begun = records(one.journal_path)[0]
        assert (begun["event"], begun["continues"], begun["prev"]) == ("start", last["seq"], last["hash"])
        assert f"the last {len(end)} bytes continue nothing" in one.stderr()
        assert verify(one.journal_path)[0] == 1
    served_with_honest_numbers(one)


def test_a_file_that_is_no_journal_is_neither_renamed_nor_written(daemon):
    """Somebody named it by mistake."""
    one = daemon(start=False)
    text = b"dear diary\n" * 9
    with open(one.journal_path, "wb") as file:
        file.write(text)
    assert not one.spawn()
    one.process.wait(PATIENCE)
    with open(one.journal_path, "rb") as file:
        assert file.read() == text
    assert segments(one) == []
    one.checked = False


def test_a_journal_that_is_too_long_to_be_followed_goes_on_in_a_new_file(daemon):
    """256 MiB: no start takes longer for a longer one, and none goes on behind what it has not followed."""
    one = daemon()
    last = ended(one)[-1]
    seq, head, detail = last["seq"], last["hash"], "x" * 7900
    with open(one.journal_path, "ab") as file:
        for _ in range(34000):
            seq += 1
            line = sealed("drain", seq, head, detail)
            head = line[-67:-3].decode()
            file.write(line)
        file.write(b'{"event":"op')
    assert os.path.getsize(one.journal_path) > 256 << 20
    began = time.monotonic()
    one.start()
    assert time.monotonic() - began < PATIENCE
    assert ask(one) == 200
    begun = records(one.journal_path)
    assert begun[0]["event"] == "start" and "set_aside" not in begun[0]
    assert (begun[1]["event"], begun[1]["last_seq"]) == ("joined", begun[0]["continues"])
    status, said = verify(one.journal_path)
    assert status == 0 and said.count(": ok: ") == 2, said
    (old,) = segments(one)
    size = os.path.getsize(os.path.join(os.path.dirname(one.journal_path), old))
    restart(one)
    assert segments(one) == [old]
    assert os.path.getsize(os.path.join(os.path.dirname(one.journal_path), old)) == size


def test_a_segment_that_is_spoiled_at_once_is_set_aside_as_well(daemon):
    """Twice behind the same line, for the keeper has been told of no other: the second gets a name of its own."""
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    checkpointed(one)
    line = records(one.journal_path)[-1]
    folder = os.path.dirname(one.journal_path)
    taken = f"{one.journal_path}.{line['seq']:012}"
    with open(taken, "w", encoding="utf-8"):
        pass
    append(one, b'{"event":"x"}\n')
    kill_worker(one)
    assert os.path.basename(taken) + ".2" in os.listdir(folder)
    served_with_honest_numbers(one)


def audit(verb, *files, data=None):
    done = subprocess.run([KEYHOLE, "audit", verb, *files], input=data, capture_output=True, timeout=20, check=False)
    return done.returncode, (done.stdout + done.stderr).decode()


def test_a_fifo_in_a_journals_place_holds_nobody_up(daemon, tmp_path):
    one = daemon()
    one.checked = False  # it is ended here
    assert ask(one) == 200
    fifo = str(tmp_path / "audit.jsonl")
    os.mkfifo(fifo)
    for verb in ("verify", "show"):
        status, said = audit(verb, fifo)
        assert status == 2 and "not a regular file" in said, said
    one.process.terminate()
    one.process.wait(PATIENCE)
    with open(one.journal_path, "rb") as file:
        journal = file.read()
    # What is meant to be a stream is read as one.
    for verb in ("verify", "show"):
        assert audit(verb, "-", data=journal)[0] == 0
        assert audit(verb, "/dev/stdin", data=journal)[0] == 0


def test_a_fifo_in_the_place_of_the_segment_before_holds_nobody_up(daemon):
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    checkpointed(one)
    append(one, b'{"event":"x"}\n')
    kill_worker(one)
    (old,) = segments(one)
    before = os.path.join(os.path.dirname(one.journal_path), old)
    os.unlink(before)
    os.mkfifo(before)
    status, said = audit("verify", one.journal_path)
    assert status == 2 and f"{before}: not a regular file" in said, said


def test_a_journal_that_was_set_aside_is_never_called_ok(daemon):
    """Each line of it is sound, and without the last ones it still is: neither says what the worker wrote in the end."""
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    checkpointed(one)
    assert ask(one, "/test/echo/last") == 200
    until("it is in the journal", lambda: records(one.journal_path)[-1]["event"] == "close")
    say_checkpoint(one, 1, 1)  # below the last one: the keeper doubts this worker
    kill_worker(one)
    (old,) = segments(one)
    old = os.path.join(os.path.dirname(one.journal_path), old)
    line = records(one.journal_path)[0]["continues"]
    assert records(old)[-1]["seq"] > line
    said = f"{old}: BROKEN: set aside: nothing protects what is after line {line}\n"
    for whole in (True, False):
        if not whole:
            with open(old, "rb") as file:
                kept = [text for text in file if json.loads(text)["seq"] <= line]
            with open(old, "wb") as file:
                file.writelines(kept)
        status, out = verify(one.journal_path)
        assert status == 1 and said in out, out
        assert f"{one.journal_path}: ok: " in out and "(which was set aside)" in out, out


def test_a_line_that_is_no_record_is_set_aside_though_the_worker_went_on_behind_it(daemon):
    """The worker told of later lines, and ended them well: what it told is not what the file is judged by."""
    one = daemon()
    one.checked = False
    assert ask(one) == 200
    kill_worker(one)
    checkpointed(one)
    os.kill(one.worker_pid(), signal.SIGSTOP)  # from here on the test is the worker
    last = records(one.journal_path)[-1]
    append(one, b'{"event":"open","time":"2026-11-23T06:00:00.000Z","id":"x00000000000000ff","no":"record"}\n')
    goes_on = sealed("stop", last["seq"] + 1, last["hash"])
    append(one, goes_on)
    size = os.path.getsize(one.journal_path)
    head = bytes.fromhex(json.loads(goes_on)["hash"])
    say_checkpoint(one, last["seq"] + 1, os.path.getsize(one.journal_path), head)
    kill_worker(one)
    (old,) = segments(one)
    first = records(one.journal_path)[0]
    assert (first["event"], first["set_aside"]) == ("start", True)
    assert os.path.basename(old).endswith(f"{first['continues']:012}")
    assert (first["continues"], first["prev"]) == (last["seq"], last["hash"])
    assert os.path.getsize(os.path.join(os.path.dirname(one.journal_path), old)) == size
    assert "does not continue the line before it, and no record explains it" in one.stderr()
    # What clean workers write from now on can be checked, and is continued.
    kill_worker(one)
    assert segments(one) == [old]
    done = subprocess.run([KEYHOLE, "audit", "verify", "--json", one.journal_path], capture_output=True, text=True, check=False)
    now, before = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 1 and now["ok"] and not before["ok"]
    assert before["parts"][-1]["last_seq"] >= first["continues"]


def opened_twice(tmp_path):
    path, prev, seq = str(tmp_path / "twice.jsonl"), "0" * 64, 0
    with open(path, "w", encoding="utf-8") as file:
        for event, rest in (
            ("start", '"format":1'),
            ("open", '"id":"x00000000000000aa","http.request.method":"POST","url.scheme":"https","server.address":"first.test","server.port":443,"url.path":"/"'),
            ("open", '"id":"x00000000000000aa","http.request.method":"GET","url.scheme":"https","server.address":"second.test","server.port":443,"url.path":"/"'),
            ("close", '"id":"x00000000000000aa","http.response.status_code":200,"complete":true'),
            ("aborted", '"count":1'),
        ):
            seq += 1
            body = f'{{"event":"{event}","time":"2026-01-01T00:00:00.000Z",{rest},"seq":{seq},"prev":"{prev}"'
            prev = hashlib.sha256(body.encode()).hexdigest()
            file.write(f'{body},"hash":"{prev}"}}\n')
    return path


def test_no_record_hides_an_exchange_that_was_opened_before_it(tmp_path):
    path = opened_twice(tmp_path)
    status, said = audit("show", path)
    assert status == 0 and "second.test" in said
    (line,) = [line for line in said.splitlines() if "first.test" in line]
    assert "OPENED AGAIN" in line
    status, said = audit("show", "--json", path)
    (first,) = [json.loads(line) for line in said.splitlines() if "first.test" in line]
    assert first["opened_again"] is True
    status, said = audit("verify", path)
    assert status == 1 and "line 3: opens an exchange under an id that is open already" in said
