#!/usr/bin/python3
"""bench.py - keyhole and its peers on the same work, one table

    tests/bench/bench.py [--quick] [--rounds N] [--only NAME,NAME…] [--figures NAME,NAME…] [--json FILE] [--add]

The proxy has one core for itself, the load generator and the origin have another. Each figure is taken in
rounds, one proxy after the other in each, and is the median of its rounds; where they are further apart than a
quarter of the median the machine was too noisy for it, and the table says so (~). CPU is that of all of a
proxy's processes and threads, memory is PSS. Loopback only. About 20 minutes; quick, 4 to 5.
"""

import argparse
import contextlib
import json
import os
import resource
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import launches
import peers
import sandboxes
from peers import BUILD, Absent

NOISY = 0.25
POLICY_P99_NS = 2000
MIB = 64 * 1024 * 1024
GB = 1e9

# name: what the load generator does, how many milliseconds at first don't count, how many count
WORK = {
    "keep": (["--connections", "32"], 400, 3000),
    "one": (["--connections", "1"], 200, 2000),
    "new": (["--new-tunnels", "--connections", "8"], 300, 3000),
    "down": (["--method", "GET", "--body", "0", "--path", f"/bytes/{MIB}", "--connections", "1"], 300, 3000),
    "up": (["--path", "/sink", "--body", str(MIB), "--connections", "1"], 300, 3000),
    "sse": (["--method", "GET", "--body", "0", "--path", "/sse/1000000/50", "--connections", "100", "--events"],
            1500, 3000),  # fmt: skip
    "ws": (["--websocket", "--path", "/ws", "--connections", "32"], 400, 3000),
    "sixteen": (["--connections", "16"], 400, 3000),
    "h2h1": (["--h2", "32"], 400, 3000),
    "h2": (["--to", "h2.test:443", "--h2", "32"], 400, 3000),
    "h2bulk": (["--to", "h2.test:443", "--h2", "1", "--method", "GET", "--body", "0", "--path", f"/bytes/{MIB}"],
               300, 3000),
    "grpc": (["--to", "h2.test:443", "--h2", "32", "--grpc"], 400, 3000),
    "socks": (["--socks", "--new-tunnels", "--connections", "8"], 300, 3000),
}  # fmt: skip

# Whom these are measured with; the others do all the rest.
ONLY = {
    "sixteen": ("direct", "keyhole"),
    "h2h1": ("keyhole",),
    "h2": ("direct", "keyhole", "nghttpx"),
    "h2bulk": ("direct", "keyhole", "nghttpx"),
    "grpc": ("direct", "keyhole", "nghttpx"),
    "socks": ("keyhole",),
}

# Figure, unit, the work that it comes from, how it is computed from (report, CPU ns), whether less is better.
FIGURES = {
    "keep-alive, 32 connections": ("requests/s", "keep", lambda r, cpu: r["per_second"], False),
    "  p50": ("µs", "keep", lambda r, cpu: r["p50_us"], True),
    "  p99": ("µs", "keep", lambda r, cpu: r["p99_us"], True),
    "  CPU a request": ("µs", "keep", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "one connection, p50": ("µs", "one", lambda r, cpu: r["p50_us"], True),
    "new tunnels": ("tunnels/s", "new", lambda r, cpu: r["per_second"], False),
    "  CPU a tunnel": ("µs", "new", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "64 MiB down": ("MB/s", "down", lambda r, cpu: r["bytes"] / 1e6 / r["seconds"], False),
    "  CPU a GB": ("ms", "down", lambda r, cpu: cpu / 1e6 / (r["bytes"] / GB), True),
    "64 MiB up": ("MB/s", "up", lambda r, cpu: r["sent_bytes"] / 1e6 / r["seconds"], False),
    "  CPU a GB up": ("ms", "up", lambda r, cpu: cpu / 1e6 / (r["sent_bytes"] / GB), True),
    "100 SSE streams, event p50": ("µs", "sse", lambda r, cpu: r["event_p50_us"], True),
    "  event p99": ("µs", "sse", lambda r, cpu: r["event_p99_us"], True),
    "  CPU an event": ("µs", "sse", lambda r, cpu: cpu / 1e3 / r["events"], True),
    "WebSocket echo, 32 connections": ("messages/s", "ws", lambda r, cpu: r["per_second"], False),
    "  CPU a message": ("µs", "ws", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "HTTP/1.1, 16 connections": ("requests/s", "sixteen", lambda r, cpu: r["per_second"], False),
    "  CPU a request of 16": ("µs", "sixteen", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "HTTP/2, 32 streams, upstream HTTP/1.1": ("requests/s", "h2h1", lambda r, cpu: r["per_second"], False),
    "  CPU a request, h2 to h1": ("µs", "h2h1", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "HTTP/2, 32 streams": ("requests/s", "h2", lambda r, cpu: r["per_second"], False),
    "  p99 of 32 streams": ("µs", "h2", lambda r, cpu: r["p99_us"], True),
    "  CPU a request, h2 to h2": ("µs", "h2", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "64 MiB down, h2 to h2": ("MB/s", "h2bulk", lambda r, cpu: r["bytes"] / 1e6 / r["seconds"], False),
    "  CPU a GB, h2 to h2": ("ms", "h2bulk", lambda r, cpu: cpu / 1e6 / (r["bytes"] / GB), True),
    "gRPC unary, 32 streams": ("calls/s", "grpc", lambda r, cpu: r["per_second"], False),
    "  CPU a call": ("µs", "grpc", lambda r, cpu: cpu / 1e3 / r["requests"], True),
    "new tunnels by SOCKS5": ("tunnels/s", "socks", lambda r, cpu: r["per_second"], False),
    "  CPU a tunnel by SOCKS5": ("µs", "socks", lambda r, cpu: cpu / 1e3 / r["requests"], True),
}

# What the table is held against: figure, peer, and the bound of keyhole ÷ peer.
TARGETS = (
    ("  CPU a request", "haproxy", "<=", 1.0),
    ("keep-alive, 32 connections", "sandbox-runtime", ">=", 10.0),
    ("keep-alive, 32 connections", "mitmproxy", ">=", 50.0),
    ("one connection, p50", "haproxy", "<=", 1.0),
    ("  CPU a tunnel", "haproxy", "<=", 1.0),
    ("  CPU a GB", "haproxy", "<=", 1.0),
    ("  CPU a GB up", "haproxy", "<=", 1.0),
    ("100 SSE streams, event p50", "haproxy", "<=", 1.0),
    ("  event p99", "haproxy", "<=", 1.0),
    ("  CPU a request, h2 to h2", "nghttpx", "<=", 1.0),
)
# … and against another figure of its own.
OWN_TARGETS = (
    ("  CPU a message", "  CPU a request", "<=", 1.2),
    ("HTTP/2, 32 streams, upstream HTTP/1.1", "HTTP/1.1, 16 connections", ">=", 1.0),
    ("HTTP/2, 32 streams", "HTTP/1.1, 16 connections", ">=", 1.0),
)
IDLE_KIB = 17


def say(text):
    print(text, file=sys.stderr, flush=True)


class Values(list):
    """What the rounds gave for one figure and one proxy."""

    def median(self):
        return statistics.median(self)

    def noisy(self):
        middle = self.median()
        return len(self) > 1 and middle > 0 and (max(self) - min(self)) / middle > NOISY


class Bench:
    def __init__(self, folder, quick, rounds=0):
        self.folder, self.quick, self.n_rounds = folder, quick, rounds or (3 if quick else 5)
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            sys.exit("bench: two cores are needed: one for the proxy, one for the load")
        self.proxy_cores, self.load_cores, self.origin_cores = {cores[-1]}, {cores[0]}, {cores[0]}
        self.two_cores, self.shared = {cores[-1], cores[-2]}, len(cores) < 4
        if not self.shared:
            self.origin_cores = {cores[1]}
        self.certificates = peers.Certificates(folder, ["localhost", "api.test", "h2.test"])
        self.values, self.faults, self.absent, self.memory, self.sandboxes, self.launches = {}, {}, {}, {}, None, None
        self.failed = []
        self.origin, self.port, self.origin_ca = None, 0, os.path.join(folder, "origin-ca.pem")

    # --- the two ends

    @staticmethod
    def place(cores):
        """On these cores, and before whatever else wants them: the delay of an event is not to be that of the one who
        looks at it. Where this is not allowed (not root) the figures are noisier, for all alike."""
        os.sched_setaffinity(0, cores)
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))

    def start_origin(self):
        self.origin = subprocess.Popen(
            [os.path.join(BUILD, "bench", "origin"), "--name", "localhost", "--name", "api.test", "--h2-name",
             "h2.test", "--ca-out", self.origin_ca], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: self.place(self.origin_cores))  # fmt: skip
        self.port = json.loads(self.origin.stdout.readline())["port"]

    def spawn_load(self, peer, arguments):
        return subprocess.Popen(
            [os.path.join(BUILD, "bench", "load"), *peer.load, "--ca", peer.ca, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, preexec_fn=lambda: self.place(self.load_cores))  # fmt: skip

    def probe(self, peer):
        """One request is answered. It ends by itself, however the proxy behaves."""
        if not os.path.exists(peer.ca):
            return False
        load = self.spawn_load(peer, ["--requests", "1", "--milliseconds", "1000", *peer.probe])
        text = load.communicate(timeout=30)[0]
        return bool(text) and json.loads(text)["statuses"] == {"200": 1}

    def drive(self, peer, arguments, warm_ms, ms):
        """Return: the generator's report, and the CPU that the proxy took while it counted."""
        load = self.spawn_load(peer, [*arguments, "--mark", "--warmup-ms", str(warm_ms), "--milliseconds", str(ms)])
        guard = threading.Timer((warm_ms + ms) / 1000 + 30, load.kill)
        guard.start()
        try:
            peer.pids = peers.children_of(peer.process.pid) if peer.process else []
            load.stdout.readline()
            before = peer.cpu_ns()
            text = load.stdout.readline()
            cpu = peer.cpu_ns() - before
        finally:
            load.communicate()
            guard.cancel()
        if not text:
            raise ValueError("the load generator hung")
        return json.loads(text), cpu

    # --- figures

    def measure(self, peer, work):
        arguments, warm, ms = WORK[work]
        report, cpu = self.drive(peer, arguments, warm * peer.warm_up, ms // 4 if self.quick else ms)
        bad = {code: n for code, n in report["statuses"].items() if code != "200"}
        if bad or report["errors"]:
            self.faults.setdefault((peer.name, work), []).append({**bad, **report["errors"]})
        for name, (_, source, compute, _) in FIGURES.items():
            if source != work:
                continue
            try:
                value = compute(report, cpu)
            except ZeroDivisionError:  # nothing came through, or nobody was there whose CPU to divide
                continue
            if value > 0:
                self.values.setdefault(name, {}).setdefault(peer.name, Values()).append(value)

    def rounds(self, all_peers, wanted):
        count = self.n_rounds
        for work in WORK:
            if work not in wanted:
                continue
            for number in range(count):
                say(f"bench: {work}, round {number + 1} of {count}")
                for peer in all_peers:
                    if peer.name in ONLY.get(work, (peer.name,)) and peer.does(work):
                        self.measure(peer, work)

    def hold(self, peer, count, *more):
        """Return: PSS in KiB with so many idle tunnels, or None when it can't hold them."""
        seconds = 30 if count <= 1000 else 90
        load = self.spawn_load(peer, ["--hold", "--method", "GET", "--body", "0", "--path", "/bytes/100",
                                      "--connections", str(count), "--milliseconds", str(seconds * 1000 + 5000),
                                      *more])  # fmt: skip
        try:
            ready = select.select([load.stdout], [], [], seconds)[0]
            if not ready or '"held"' not in load.stdout.readline():
                return None
            time.sleep(1)
            return peer.pss_kib()
        finally:
            load.terminate()
            load.communicate()

    def measure_memory(self, peer):
        counts = [0, 1000] if self.quick else [0, 1000, 10000]
        found = self.memory.setdefault(peer.name, {})
        for count in counts:
            if count > peer.most_idle or (count and found.get(0) is None):
                continue
            # From the start each time: what a heap keeps from before is not what the tunnels take.
            peer.stop()
            peer.start(self.proxy_cores)
            found[count] = self.hold(peer, count) if count else peer.pss_kib()
            say(f"bench: {peer.name}, {count} idle tunnels: {found[count]} KiB")
        if peer.name == "keyhole":
            peer.stop()
            peer.start(self.proxy_cores)
            found["h2"] = self.hold(peer, 1000, "--h2", "1")

    def measure_listeners(self):
        peer = peers.KeyholeThousandListeners(self.folder, self)
        began = time.monotonic()
        peer.start(self.proxy_cores)
        try:
            took = time.monotonic() - began
            self.memory[peer.name] = {0: peer.pss_kib(), "start": took}
            report, cpu = self.drive(peer, *WORK["keep"][:2], 1000)
            self.memory[peer.name]["cpu"] = cpu / 1e3 / max(report["requests"], 1)
        finally:
            peer.stop()

    def measure_threads(self, one):
        """One thread on one core and two on two, in turns."""
        two = peers.KeyholeTwoThreads(self.folder, self)
        two.start(self.two_cores)
        found = {}
        try:
            for _ in range(3):
                for peer in (one, two):
                    report, cpu = self.drive(peer, *WORK["keep"][:2], 1000)
                    row = found.setdefault(peer.name, (Values(), Values()))
                    row[0].append(report["per_second"])
                    row[1].append(cpu / 1e3 / max(report["requests"], 1))
        finally:
            two.stop()
        return found[one.name], found[two.name]

    # --- peers

    def sandbox_runtime(self):
        """The folder of the npm package, fetched once where npm is there."""
        name = "@anthropic-ai/sandbox-runtime"
        given = os.environ.get("SANDBOX_RUNTIME")
        prefix = os.path.join(BUILD, "bench", "npm")
        folder = given or os.path.join(prefix, "node_modules", name)
        if not os.path.isdir(folder) and not given:
            npm = shutil.which("npm")
            if not npm:
                raise Absent("no npm here")
            os.makedirs(prefix, exist_ok=True)
            try:
                subprocess.run([npm, "install", "--prefix", prefix, "--no-audit", "--no-fund", "--ignore-scripts", name],
                               check=True, capture_output=True, timeout=120)  # fmt: skip
            except (subprocess.SubprocessError, OSError) as error:
                raise Absent("npm could not fetch it") from error
        if not os.path.isdir(folder):
            raise Absent("not installed")
        return folder

    def alone(self, what, running, measure):
        """One that fails is said to, and loses nothing of what was measured before it."""
        for one in running[1:]:
            one.stop()
        try:
            return measure()
        except (RuntimeError, OSError, subprocess.SubprocessError) as why:
            say(f"bench: MISSED {what}: {why}")
            self.failed.append(what)
            return None

    def run(self, names, works):
        self.start_origin()
        keyhole, running = peers.Keyhole(self.folder, self), []
        try:
            keyhole.start(self.proxy_cores)
            running = [peers.Direct(self.folder, self), keyhole]
            running[0].start(None)
            for kind in peers.PEERS:
                if names and kind.name not in names:
                    continue
                one = kind(self.folder, self)
                try:
                    one.start(self.proxy_cores)
                    running.append(one)
                except Absent as why:
                    self.absent[kind.name] = str(why)
                    say(f"bench: without {kind.name}: {why}")
            self.rounds(running, works)
            threads = self.measure_threads(keyhole) if "threads" in works else None
            if "memory" in works:
                for one in running[1:]:
                    self.measure_memory(one)
                    one.stop()
                self.measure_listeners()
            if "sandboxes" in works:
                self.sandboxes = self.alone("sandboxes", running, lambda: sandboxes.measure(self, self.proxy_cores))
            if "launches" in works:
                self.launches = self.alone("launches", running, lambda: launches.measure(self))
            return [one.name for one in running], threads
        finally:
            for one in [keyhole, *running]:
                one.stop()
            self.origin.terminate()
            self.origin.wait()


# --- the table


def number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(bench, names):
    """Lines of Markdown; ×N is keyhole's figure divided by that peer's."""
    columns = ["keyhole"] + [name for name in names if name not in ("keyhole", "direct")] + ["direct"]
    rows = [["", *columns], ["---"] + ["---:"] * len(columns)]

    def row(title, cells):
        ours = cells.get("keyhole", (None, False))[0]
        line = [title]
        for name in columns:
            value, noisy = cells.get(name, (None, False))
            text = number(value) + ("~" if noisy else "")
            if value and ours and name not in ("keyhole", "direct"):
                text += f" (×{ours / value:.2f})"
            line.append(text)
        rows.append(line)

    for figure, (unit, *_) in FIGURES.items():
        if figure in bench.values:
            row(f"{figure.replace('  ', '&nbsp;&nbsp;')}, {unit}",
                {name: (values.median(), values.noisy()) for name, values in bench.values[figure].items()})  # fmt: skip
    for count in (0, 1000, 10000):
        cells = {name: (found[count] / 1024, False) for name, found in bench.memory.items() if found.get(count)}
        if cells:
            row(f"memory, {count:,} idle tunnels, MiB", cells)
    for count in (1000, 10000):
        cells = {name: ((found[count] - found[0]) / count, False)
                 for name, found in bench.memory.items() if found.get(count) and found.get(0)}  # fmt: skip
        if cells:
            row(f"&nbsp;&nbsp;each of {count:,}, KiB", cells)
    return ["| " + " | ".join(line) + " |" for line in rows]


def remarks(bench, threads):
    for name, why in sorted(bench.absent.items()):
        yield f"not measured: {name}: {why}"
    noisy = [f"{name}: {figure.strip()}" for figure, by_name in bench.values.items()
             for name, values in by_name.items() if values.noisy()]  # fmt: skip
    if noisy:
        yield f"too noisy (rounds further apart than {NOISY:.0%}, marked ~): " + "; ".join(noisy)
    for (name, work), faults in sorted(bench.faults.items()):
        yield f"went wrong: {name}, {work}: {faults}"
    for name, found in sorted(bench.memory.items()):
        if found.get(0, 0) is None:
            yield f"{name}: memory can be read by root only"
        yield from (f"{name}: can't hold {count:,} tunnels" for count, kib in found.items()
                    if isinstance(count, int) and count and kib is None)  # fmt: skip
    ours = bench.memory.get("keyhole", {})
    if ours.get("h2") and ours.get(0):
        yield f"an idle tunnel with an HTTP/2 connection in it, of 1,000: {(ours['h2'] - ours[0]) / 1000:.1f} KiB"
    many = bench.memory.get(peers.KeyholeThousandListeners.name)
    if many:
        yield (f"1,000 listeners: {number(many[0] / 1024) if many[0] else '–'} MiB, ready in {many['start']:.2f} s, "
               f"CPU a request {many['cpu']:.1f} µs")  # fmt: skip
    if threads:
        (rate_one, cpu_one), (rate_two, cpu_two) = threads
        yield (f"threads: {number(rate_one.median())} requests/s with one, {number(rate_two.median())} with two "
               f"(×{rate_two.median() / rate_one.median():.2f}); CPU a request {cpu_one.median():.1f} and "
               f"{cpu_two.median():.1f} µs")  # fmt: skip
        if bench.shared:
            yield ("  with fewer than four cores the second thread shares its core with the generator and the origin: "
                   "the rates say nothing about scaling; that the CPU a request stays the same does")  # fmt: skip


def verdicts(bench):
    for figure, name, sign, bound in TARGETS:
        by_name = bench.values.get(figure, {})
        if "keyhole" not in by_name or name not in by_name:
            continue
        ratio = by_name["keyhole"].median() / by_name[name].median()
        reached = ratio <= bound if sign == "<=" else ratio >= bound
        yield f"{'reached' if reached else 'MISSED '} {figure.strip()}, keyhole ÷ {name}: {ratio:.2f} ({sign} {bound:g})"
    for figure, other, sign, bound in OWN_TARGETS:
        ours, than = (bench.values.get(name, {}).get("keyhole") for name in (figure, other))
        if not ours or not than:
            continue
        ratio = ours.median() / than.median()
        reached = ratio <= bound if sign == "<=" else ratio >= bound
        yield f"{'reached' if reached else 'MISSED '} {figure.strip()} ÷ {other.strip()}: {ratio:.2f} ({sign} {bound:g})"
    found = bench.memory.get("keyhole", {})
    for count in (10000, 1000):
        if found.get(count) and found.get(0):
            each = (found[count] - found[0]) / count
            reached = "reached" if each <= IDLE_KIB else "MISSED "
            yield f"{reached} each of {count:,} idle tunnels: {each:.1f} KiB (<= {IDLE_KIB})"
            return


def policy():
    """A million rules in one policy: build/bench/policy by itself on a core."""
    command = [os.path.join(BUILD, "bench", "policy")]
    core = max(os.sched_getaffinity(0))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else None


def policy_lines(found):
    if not found:
        yield "went wrong: policy"
        return
    worker = found["decode_seconds"] + found["compile_seconds"]
    yield (f"policy: {found['rules']:,} rules in 10,000 tenants: a decision takes {found['p50_ns'] / 1e3:.2f} µs at p50, "
           f"{found['p99_ns'] / 1e3:.2f} at p99, and allocates {found['allocated_bytes']} bytes; {found['rule_bytes']:.0f} "
           f"bytes a rule in the worker, {found['index_rule_bytes']:.0f} of them the index; read in "
           f"{found['parse_seconds']:.1f} s, handed to the worker in {found['encode_seconds'] + worker:.1f}")  # fmt: skip
    reached = "reached" if found["p99_ns"] < POLICY_P99_NS else "MISSED "
    yield f"{reached} a decision among a million rules, p99: {found['p99_ns'] / 1e3:.2f} µs (< {POLICY_P99_NS / 1e3:g})"


def raise_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in ((65536, max(hard, 65536)), (hard, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, wanted)
            return
        except (ValueError, OSError):
            continue
    say(f"bench: only {soft} descriptors a process: 10,000 tunnels may not fit")


def save(path, bench, threads, decided):
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"figures": bench.values, "memory": bench.memory, "absent": bench.absent, "threads": threads,
                   "faults": [[*key, found] for key, found in bench.faults.items()], "policy": decided,
                   "sandboxes": bench.sandboxes, "launches": bench.launches},
                  out, indent=1)  # fmt: skip


def add(path, bench, threads, decided):
    """To what was measured now comes what an earlier run left in the file. Return: `threads` and `decided`."""
    with open(path, encoding="utf-8") as file:
        before = json.load(file)
    for figure, by_name in before["figures"].items():
        for name, values in by_name.items():
            bench.values.setdefault(figure, {}).setdefault(name, Values(values))
    for name, found in before["memory"].items():
        bench.memory.setdefault(name, {int(key) if key.isdigit() else key: value for key, value in found.items()})
    for name, work, found in before["faults"]:
        bench.faults.setdefault((name, work), found)
    for name, why in before["absent"].items():
        bench.absent.setdefault(name, why)
    bench.sandboxes = bench.sandboxes or before.get("sandboxes")
    bench.launches = bench.launches or before.get("launches")
    earlier = before["threads"] and [[Values(row) for row in pair] for pair in before["threads"]]
    return threads or earlier, decided or before["policy"]


def main():
    parser = argparse.ArgumentParser(description="keyhole and its peers on the same work")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("BENCH") == "quick")
    parser.add_argument("--only", default="", help="peers, with commas between them")
    parser.add_argument("--figures", default="", help=", ".join([*WORK, "threads", "memory", "sandboxes", "launches", "policy"]))
    parser.add_argument("--rounds", type=int, default=0, help="of each figure (5; quick: 3)")
    parser.add_argument("--json", default=os.path.join(BUILD, "bench", "results.json"))
    parser.add_argument("--add", action="store_true", help="to what an earlier run has left in that file: one table")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name]
    works = [name for name in options.figures.split(",") if name] or [*WORK, "threads", "memory", "sandboxes", "launches", "policy"]
    raise_limit()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="keyhole-bench.") as folder:
        os.chmod(folder, 0o755)
        bench = Bench(folder, options.quick, options.rounds)
        running, threads = bench.run(names, works)
    decided = policy() if "policy" in works else None
    if options.add and os.path.exists(options.json):
        threads, decided = add(options.json, bench, threads, decided)
        running += [kind.name for kind in peers.PEERS if kind.name not in running and kind.name not in bench.absent
                    and any(kind.name in by_name for by_name in bench.values.values())]  # fmt: skip
    print("\n".join(table(bench, running)))
    for line in [*remarks(bench, threads), *verdicts(bench), *(policy_lines(decided) if decided or "policy" in works else [])]:
        print(line)
    for line in sandboxes.lines(bench.sandboxes) if bench.sandboxes else []:
        print(line)
    for line in launches.lines(bench.launches) if bench.launches else []:
        print(line)
    load = os.getloadavg()
    print(f"{len(os.sched_getaffinity(0))} cores, load {load[0]:.1f}, {time.monotonic() - began:.0f} s, "
          f"{'quick' if options.quick else 'full'}")  # fmt: skip
    save(options.json, bench, threads, decided)
    if bench.failed:
        sys.exit("bench: not measured: " + ", ".join(bench.failed))


if __name__ == "__main__":
    main()
