"""leftovers.py - what sandboxes may leave on a host, counted before and after

    with Leftovers(folder, …) as left:
        …
        left.check()

Processes are those below the one that counts: for that time orphans fall to it and not to the host's init, so nothing gets
away by losing its parent. Namespaces live as long as a process is in them or a mount holds them, and both are counted. Others
may be at work on the host: what is not of the named folders is only counted when it bears keyhole's name, and when it stays.
"""

import contextlib
import ctypes
import os
import time

import docker_daemon

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 60

# Of `keyhole run`'s state these stay, as they should. What a run notes about a workspace is in a folder of its own below, and does not.
STAY = (".jsonl", "/keyhole", "/keyhole/audit", "/keyhole/placeholder.key", "/keyhole/names", "/keyhole/workspaces", "/keyhole/workspaces/lock")


def below(pid):
    """All that came of a process, as (number, time of its start); without those that have ended."""
    found = set()
    for child in children(pid):
        stat = stat_of(child)
        if stat and stat[0] != "Z":
            found.add((child, stat[19]))
        found |= below(child)
    return found


def what_they_do(pid):
    """For a message: each of them, the process itself first, with its state and what of the kernel it waits in."""
    said = []
    for one in [pid, *sorted(other for other, _ in below(pid))]:
        with contextlib.suppress(OSError):
            words = open(f"/proc/{one}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace")[:80]
            where = open(f"/proc/{one}/wchan", encoding="ascii").read()
            stat = stat_of(one) or ["gone", 0]
            said.append(f"{one} (of {stat[1]}) {stat[0]} in {where}: {words}")
    return "\n".join(said)


def children(pid):
    found = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
        except OSError:
            continue
    return found


def stat_of(pid):
    """From the state on."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def lines(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def descriptors(pid):
    """What its descriptors lead to."""
    found = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
            except OSError:
                continue
    except OSError:
        pass
    return found


def loops():
    """Files that lie behind a loop device."""
    if not os.path.isdir("/sys/block"):
        return []
    return [line for name in os.listdir("/sys/block") for line in lines(f"/sys/block/{name}/loop/backing_file")]


class Leftovers:
    def __init__(self, *folders, daemon=None, but=()):
        """`daemon`: a process that stays; of its Unix sockets, and those of all below it, none may. `but`: endings of
        files that are there for good."""
        self.folders, self.before, self.daemon = [os.path.realpath(folder) for folder in folders], {}, daemon
        self.but = tuple(but)

    def ours(self, text):
        return "keyhole" in text or any(folder in text for folder in self.folders)

    def sockets(self):
        """By name where it is of our folders, by holder where it is the daemon's."""
        held = set()
        for pid in [self.daemon, *(pid for pid, _ in below(self.daemon))] if self.daemon else []:
            held |= descriptors(pid)
        found = set()
        for line in lines("/proc/net/unix")[1:]:
            words = line.split(maxsplit=7)
            if f"socket:[{words[6]}]" in held or (len(words) == 8 and any(folder in words[7] for folder in self.folders)):
                found.add(line)
        return found

    def look(self):
        files = {os.path.join(path, name) for folder in self.folders
                 for path, folders, names in os.walk(folder) for name in folders + names}  # fmt: skip
        mounts = {line for line in lines("/proc/self/mountinfo") if self.ours(line) or " - nsfs " in line}
        # An engine that is being tried has its mark there as well, and who tries it need not be ours.
        named = {f"{place}/{name}" for place in ("/tmp", "/run", "/dev/shm") if os.path.isdir(place)
                 for name in os.listdir(place) if name.startswith("keyhole") and "trial" not in name}  # fmt: skip
        return {
            "processes": below(os.getpid()),
            "mounts": mounts,
            "control groups": {path for path, _, _ in os.walk("/sys/fs/cgroup")
                               if "/keyhole-" in path or f"/{docker_daemon.group()}/" in path},
            "sockets": self.sockets(),
            "files": files | named,
            "images": {line for line in loops() if self.ours(line)},
            "network interfaces": set(os.listdir("/sys/class/net")),
            "docker's": docker_daemon.kept(),
        }  # fmt: skip

    def new(self):
        now = self.look()
        # The lock of all runs' records stays for the next one, in the folders that lead to it.
        lock = {path for path in now["files"] if path.endswith("/keyhole/workspaces/lock")}
        stays = {path for path in now["files"] if any(at == path or at.startswith(path + "/") for at in lock)}
        now["files"] = {path for path in now["files"] - stays if not path.endswith(self.but)}
        return {kind: found - self.before[kind] for kind, found in now.items()}

    def left(self, patience=PATIENCE):
        """What stays, by kind; what another has made meanwhile goes again."""
        stayed, end = self.new(), time.monotonic() + patience
        while any(stayed.values()) and time.monotonic() < end:
            time.sleep(0.02)
            self.reap()
            now = self.new()
            stayed = {kind: found & now[kind] for kind, found in stayed.items()}
        return {kind: found for kind, found in stayed.items() if found}

    def check(self):
        left = self.left()
        assert not left, left

    @staticmethod
    def reap():
        """Orphans that fell to us and have ended. Whoever was started here is waited for by who started it, and has been."""
        for pid in children(os.getpid()):
            stat = stat_of(pid)
            if stat and stat[0] == "Z":
                try:
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    continue

    def __enter__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.before = self.look()
        return self

    def __exit__(self, *_):
        self.reap()
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
