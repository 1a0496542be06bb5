"""thief.py - what an agent that wants the key would try, within a few seconds.

Looks at its environment, at every process it can see (environment, arguments, memory), at every
file that it can read, and at what PID 1 and the sockets say. Prints each thing that has the shape of
an Anthropic key, with where it stood and its fingerprint (the first 8 hex digits of its SHA-256),
then what was searched. It is not told which key to look for. With `--environment` it is content with
its own environment: a host's processes and files are nobody's to search.
"""

import hashlib
import os
import re
import sys
import time

KEY = re.compile(rb"sk-ant-[A-Za-z0-9]+-[A-Za-z0-9_-]{24,}")
BUDGET_SECONDS = 3.0
MOST_OF_A_FILE = 4 << 20
# Where keys are kept comes first; /usr is large and comes last.
FOLDERS = ["/etc", "/home", "/root", "/run", "/tmp", "/var", "/work", "/mnt", "/opt", "/srv", "/"]
SKIP = ("/proc", "/sys", "/dev")

found = {}
counts = {"variables": 0, "processes": 0, "MiB of memory": 0, "files": 0, "MiB of files": 0}
memory_bytes = file_bytes = 0
end = time.monotonic() + BUDGET_SECONDS


def look(where, data):
    for match in KEY.findall(data):
        found.setdefault(match, []).append(where)


def read(path, most=MOST_OF_A_FILE):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        return os.read(fd, most)
    except OSError:
        return b""
    finally:
        os.close(fd)


def memory(pid):
    global memory_bytes
    try:
        maps = open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace")
        mem = open(f"/proc/{pid}/mem", "rb", buffering=0)
    except OSError:
        return
    with maps, mem:
        for line in maps:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            for at in range(low, min(high, low + (64 << 20)), 1 << 20):
                if time.monotonic() > end:
                    return
                try:
                    mem.seek(at)
                    piece = mem.read(min((1 << 20) + 256, high - at))
                except (OSError, ValueError, OverflowError):
                    break
                memory_bytes += len(piece)
                look(f"memory of process {pid}", piece)


for name, value in os.environb.items():
    counts["variables"] += 1
    look("variable " + name.decode("latin-1"), value)

if "--environment" in sys.argv:
    FOLDERS = pids = []
else:
    pids = sorted(int(name) for name in os.listdir("/proc") if name.isdigit())
for pid in pids:
    counts["processes"] += 1
    for part in ("environ", "cmdline", "auxv"):
        look(f"/proc/{pid}/{part}", read(f"/proc/{pid}/{part}"))
    if pid != os.getpid():  # its own holds what it has just found
        memory(pid)

seen = set()
for top in FOLDERS:
    for folder, folders, files in os.walk(top):
        if folder in seen or folder.startswith(SKIP) or time.monotonic() > end:
            folders.clear()
            continue
        seen.add(folder)
        for name in files:
            path = os.path.join(folder, name)
            data = read(path)
            if data:
                counts["files"] += 1
                file_bytes += len(data)
                look(path, data)
            if time.monotonic() > end:
                break

counts["MiB of memory"] = memory_bytes >> 20
counts["MiB of files"] = file_bytes >> 20
for match, places in sorted(found.items()):
    text = match.decode("latin-1")
    more = "" if len(places) == 1 else f" (and {len(places) - 1} more)"
    print(f"found {text[:18]}…, fingerprint {hashlib.sha256(match).hexdigest()[:8]}, in {places[0]}{more}")
print("searched " + ", ".join(f"{n} {what}" for what, n in counts.items() if n))
