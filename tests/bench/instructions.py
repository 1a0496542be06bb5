#!/usr/bin/python3
"""instructions.py - what a request costs in instructions and system calls, keyhole's and its peers'

    tests/bench/instructions.py [--only NAME,NAME…] [--json FILE]

Figures that repeat on a busy machine: user-space instructions by callgrind, system calls by strace. Each is the
difference between a long run and a short one, divided by the requests between them, so neither the start nor the
connection's making counts (except in "new tunnel", of which they are the work). callgrind knows no SHA instructions
and no AVX-512, so OpenSSL takes its slower ways, here as in the peers. A locked-in worker can't be counted:
keyhole runs without the lock-in (build/bench/keyhole-no-lockin); what seccomp costs is the kernel's.
"""

import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import peers
from peers import BUILD, Absent

# name: (what the generator does, requests of the short run, of the long one, who does it)
JSON = ["--field", "content-type: application/json"]  # as agents send it; without a type it could be a form
WORK = {
    "HTTP/1, kept alive": ([*JSON, "--connections", "1"], 50, 450),
    "HTTP/2, 8 streams": ([*JSON, "--to", "h2.test:443", "--h2", "8", "--connections", "1"], 80, 880),
    "new tunnel": ([*JSON, "--new-tunnels", "--connections", "1"], 4, 24),
}
WHO = {
    "HTTP/1, kept alive": ("keyhole", "haproxy", "nginx"),
    "HTTP/2, 8 streams": ("keyhole", "nghttpx"),
    "new tunnel": ("keyhole", "haproxy", "nginx"),
}
# What keyhole's own figures may be (tests/build/test_instructions.py): 3 % above what was measured. How often it
# waits is the scheduler's doing (an answer that comes in two pieces is waited for twice): "works" is without these calls.
BUDGET = {
    "HTTP/1, kept alive": {"instructions": 157000, "works": 9.3},
    "HTTP/2, 8 streams": {"instructions": 151000, "works": 2.96},
    "new tunnel": {"instructions": 3100000, "works": 31.5},
}
RUN_SECONDS = 120  # one run of the generator


def say(text):
    print(text, file=sys.stderr, flush=True)


class Bench:
    """The two ends, without places of their own: nothing is timed."""

    def __init__(self, folder):
        self.folder = folder
        self.certificates = peers.Certificates(folder, ["localhost", "api.test", "h2.test"])
        self.origin_ca = os.path.join(folder, "origin-ca.pem")
        self.origin = subprocess.Popen(
            [os.path.join(BUILD, "bench", "origin"), "--name", "localhost", "--name", "api.test", "--h2-name",
             "h2.test", "--ca-out", self.origin_ca], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        self.port = json.loads(self.origin.stdout.readline())["port"]

    def load(self, peer, arguments, requests):
        """So many requests, each of which must be answered with 200."""
        command = [os.path.join(BUILD, "bench", "load"), *peer.load, "--ca", peer.ca, *arguments, "--timeout",
                   str(RUN_SECONDS), "--requests", str(requests), "--milliseconds", str(RUN_SECONDS * 1000)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS + 30)
        return json.loads(done.stdout)["statuses"] == {"200": requests} if done.stdout else False

    def probe(self, peer):
        return os.path.exists(peer.ca) and self.load(peer, peer.probe, 1)

    def stop(self):
        self.origin.terminate()
        self.origin.wait()


def watched(kind, prefix):
    """The same peer, started by another program."""

    class Watched(kind):
        def configure(self):
            command = super().configure()
            if kind is peers.Keyhole:
                command[0] = os.path.join(BUILD, "bench", "keyhole-no-lockin")
            return [*prefix(self), *command]

    return Watched


def spent(peer, bench, arguments, requests):
    """The instructions of all its processes for so many requests."""
    for old in glob.glob(peer.at("counts.*")):
        os.unlink(old)
    pids = [str(pid) for pid in peers.children_of(peer.process.pid)]
    subprocess.run(["callgrind_control", "--zero", *pids], capture_output=True, timeout=60)
    if not bench.load(peer, arguments, requests):
        raise ValueError(f"{peer.name}: not all of {requests} requests were answered")
    subprocess.run(["callgrind_control", "--dump", *pids], capture_output=True, timeout=60)
    total = 0
    for name in glob.glob(peer.at("counts.*")):
        with open(name, encoding="utf-8", errors="replace") as counts:
            total += sum(int(found) for found in re.findall(r"^(?:summary|totals): (\d+)$", counts.read(), re.M)[:1])
    return total


def instructions(kind, bench, work):
    prefix = lambda peer: ["valgrind", "-q", "--tool=callgrind", "--trace-children=yes",
                           "--callgrind-out-file=" + peer.at("counts.%p")]  # noqa: E731 # fmt: skip
    arguments, short, long = WORK[work]
    peer = watched(kind, prefix)(tempfile.mkdtemp(dir=bench.folder), bench)
    peer.start(os.sched_getaffinity(0))
    try:
        bench.load(peer, arguments, short)  # what comes once
        less = spent(peer, bench, arguments, short)
        more = spent(peer, bench, arguments, long)
    finally:
        peer.stop()
    return (more - less) / (long - short)


def calls(kind, bench, work):
    arguments, short, long = WORK[work]
    peer = kind(tempfile.mkdtemp(dir=bench.folder), bench)
    peer.start(os.sched_getaffinity(0))
    found = []
    try:
        bench.load(peer, arguments, short)
        for requests in (short, long):
            pids = [part for pid in peers.children_of(peer.process.pid) for part in ("-p", str(pid))]
            out = peer.at(f"calls-{requests}")
            tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out, *pids], stderr=subprocess.PIPE, text=True)
            for _ in range(len(pids) // 2):
                tracer.stderr.readline()  # "Process N attached"
            answered = bench.load(peer, arguments, requests)
            tracer.send_signal(2)
            tracer.communicate(timeout=30)
            if not answered:
                raise ValueError(f"{peer.name}: not all of {requests} requests were answered")
            with open(out, encoding="utf-8") as text:
                found.append(counted(text.read()))
    finally:
        peer.stop()
    return {name: (found[1][name] - found[0][name]) / (long - short) for name in found[0]}


def counted(summary):
    """What `strace -c` wrote. "calls" are all of them, "works" those that wait for nothing."""
    rows = re.findall(r"^\s*\d+\.\d+\s+\S+\s+\S*\s+(\d+)(?:\s+\d+)?\s+(\w+)$", summary, re.M)
    by_name = {name: int(count) for count, name in rows}
    calls = by_name.pop("total")
    assert calls == sum(by_name.values()), summary
    waits = sum(by_name.get(name, 0) for name in ("epoll_wait", "epoll_pwait", "poll", "ppoll"))
    return {"calls": calls, "works": calls - waits}


def measure(names=(), works=WORK):
    """Return: {work: {peer: {"instructions": N, "calls": N, "works": N}}}, what is absent left out."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="keyhole-count.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(folder)
        try:
            for work in works:
                for kind in (peers.Keyhole, peers.Haproxy, peers.Nginx, peers.Nghttpx):
                    if kind.name not in WHO[work] or (names and kind.name not in names):
                        continue
                    say(f"instructions: {work}: {kind.name}")
                    try:
                        row = {"instructions": instructions(kind, bench, work), **calls(kind, bench, work)}
                    except Absent as why:
                        say(f"instructions: without {kind.name}: {why}")
                        continue
                    found.setdefault(work, {})[kind.name] = row
        finally:
            bench.stop()
    return found


def table(found):
    lines = ["| work | proxy | instructions | ÷ keyhole's | system calls |", "|---|---|---:|---:|---:|"]
    for work, rows in found.items():
        own = rows.get("keyhole", {}).get("instructions")
        for name, row in rows.items():
            ratio = f"{row['instructions'] / own:.2f}" if own else ""
            lines.append(f"| {work} | {name} | {row['instructions']:,.0f} | {ratio} | {row['calls']:.1f} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="instructions and system calls a request, keyhole and its peers")
    parser.add_argument("--only", default="", help="these proxies")
    parser.add_argument("--json", help="the figures, into this file")
    options = parser.parse_args()
    began = time.monotonic()
    found = measure([name for name in options.only.split(",") if name])
    if options.json:
        with open(options.json, "w", encoding="utf-8") as out:
            json.dump(found, out, indent=1)
    print(table(found))
    say(f"instructions: {time.monotonic() - began:.0f} seconds")


if __name__ == "__main__":
    main()
