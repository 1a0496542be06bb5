"""handover.py - a daemon whose binary can be replaced, and what is asked of it at a handover"""

import collections
import contextlib
import ctypes
import glob
import json
import operator
import os
import re
import shutil
import signal
import subprocess
import threading
import time

from clients import Tunnel
from common import KEYHOLE, PATIENCE, until
from harness import Daemon, as_record

SUBREAPER = 36


def become_subreaper(on):
    """Whose parent has ended becomes a child of ours, so that it can be waited for."""
    assert ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, int(on), 0, 0, 0) == 0


class Heir:
    """The process that took over, with the face of a Popen."""

    def __init__(self, pid):
        self.pid = pid
        self.args = ["keyhole (after a handover)"]
        self.returncode = None

    def poll(self):
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:  # the one before still lives, and is its parent
                return None if os.path.exists(f"/proc/{self.pid}") else 0
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def wait(self, timeout=PATIENCE):
        end = time.monotonic() + (timeout or PATIENCE)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def accepts(pid):
    """Does the process wait at a Unix socket for connections? (It may hold one that it no longer waits at.)"""
    with open("/proc/net/unix", encoding="ascii", errors="replace") as file:
        listening = {f"socket:[{words[6]}]" for words in map(str.split, file) if words[3] == "00010000"}
    listeners, waited_at = set(), set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                link = os.readlink(f"/proc/{pid}/fd/{number}")
                if link in listening:
                    listeners.add(number)
                if "eventpoll" in link:
                    with open(f"/proc/{pid}/fdinfo/{number}", encoding="ascii") as file:
                        waited_at.update(re.findall(r"^tfd:\s+(\d+)", file.read(), re.M))
    return bool(listeners & waited_at)


class Upgradable(Daemon):
    """It runs a copy of the binary that tests replace."""

    def __init__(self, config, start=True, **options):
        super().__init__(config, start=False, **options)
        self.binary = os.path.join(self.folder, "bin", "keyhole")
        os.mkdir(os.path.dirname(self.binary))
        self.install(KEYHOLE)
        self.before = []
        if start:
            self.start()

    def install(self, source=KEYHOLE, script=None):
        """Another file of the same name, as a package manager puts it there."""
        fresh = self.binary + ".fresh"
        if script is None:
            shutil.copy(source, fresh)
        else:
            with open(fresh, "w", encoding="ascii") as file:
                file.write(script)
            os.chmod(fresh, 0o755)
        os.rename(fresh, self.binary)

    def usr2(self):
        self.process.send_signal(signal.SIGUSR2)

    def said(self, text, since=0):
        return until(f"the log says {text!r}", lambda: re.search(text, self.stderr()[since:]))

    def mark(self):
        return len(self.stderr())

    def hand_over(self):
        """Return: the process before, which may still have something to finish."""
        since, worker = self.mark(), self.worker_pid()
        assert accepts(worker)
        self.usr2()
        old = self.taken_over(since)
        # For a moment both accept.
        until("the process before accepts nothing", lambda: not accepts(worker))
        return old

    def taken_over(self, since):
        pid = int(self.said(r"process (\d+) has taken over", since).group(1))
        old, self.process = self.process, Heir(pid)
        self.before.append(old)
        return old

    def last_ended(self):
        """Who was before has ended, and the journal says how."""
        assert self.before[-1].wait(PATIENCE) == 0
        until("the segments are joined", lambda: self.segments()[-1][1].count("joined"))

    # the journal

    def segment_paths(self):
        return sorted(glob.glob(self.journal_path + ".0*")) + [self.journal_path]

    def segments(self):
        """Each with its events, the chain checked by other means than the product's own."""
        found = []
        seen = {}
        for path in self.segment_paths():
            events = []
            with open(path, "rb") as file:
                for line in file:
                    record = as_record(line)
                    if record is None and path == self.journal_path and not line.endswith(b"\n"):
                        break
                    assert record, f"{path}: {line[:100]!r}"
                    if events:
                        assert (record["seq"], record["prev"]) == (last["seq"] + 1, last["hash"])
                    elif found:
                        assert record["event"] == "start"
                        assert record["continues"] == record["seq"] - 1
                        assert record["prev"] == seen[record["continues"], path_before]
                    else:
                        assert (record["seq"], record["prev"]) == (1, "0" * 64)
                    if record["event"] == "joined":
                        assert (record["last_seq"], record["head"]) == last_before
                    last = record
                    seen[record["seq"], path] = record["hash"]
                    events.append(record["event"])
            found.append((path, events))
            path_before, last_before = path, (last["seq"], last["hash"])
        return found

    def all_records(self):
        records = []
        for path in self.segment_paths():
            with open(path, encoding="ascii") as file:
                records += [json.loads(line) for line in file if line.endswith("\n")]
        return records

    def opened_and_ended(self):
        opens, ends = collections.Counter(), collections.Counter()
        for record in self.all_records():
            if record["event"] == "open":
                opens[record["id"]] += 1
            elif record["event"] in ("close", "aborted"):
                ends[record["id"]] += 1
        return opens, ends

    def check_ends(self):
        """Each exchange was opened once and ended once. The end of the last one is written behind its
        answer, so a client may be here first."""
        with contextlib.suppress(AssertionError):
            until("each has its end", lambda: operator.eq(*self.opened_and_ended()))
        opens, ends = self.opened_and_ended()
        assert opens == ends
        assert set(opens.values()) <= {1}
        return len(opens)

    def remove(self):
        for process in self.before:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                if process.poll() is None:
                    process.kill()
                    process.wait(5)
        super().remove()


class Load:
    """Clients that keep asking on connections that they keep; an answer that does not come is a failure."""

    def __init__(self, daemon, host="api.test", clients=6):
        self.daemon, self.host = daemon, host
        self.failures = []
        self.answers = 0
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(clients)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        while not self.over.is_set():
            try:
                with Tunnel(self.daemon, self.host) as tunnel:
                    for _ in range(50 if number % 2 else 3):
                        answer = tunnel.ask("POST", "/test/echo", body=b"x" * 500)
                        assert answer.status == 200, answer
                        self.answers += 1
                        if self.over.is_set() or answer.get("connection") == "close":
                            break
            except Exception as failure:  # every kind counts
                self.failures.append(repr(failure))
                return

    def more(self, count=30):
        """That many answers more have come."""
        goal = self.answers + count
        until("answers", lambda: self.failures or self.answers >= goal)

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        assert not self.failures, self.failures
        return self.answers


def ask(daemon, host="api.test", path="/test/echo"):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask("GET", path)


def stream(daemon, n, ms):
    """A stream of events that has begun."""
    tunnel = Tunnel(daemon, "api.test")
    tunnel.start("GET", f"/test/sse?n={n}&ms={ms}")
    head = tunnel.read_head()
    assert head.status == 200
    return tunnel, head
