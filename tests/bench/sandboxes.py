"""sandboxes.py - 10,000 sandboxes on one daemon (or what its descriptors allow): added, used once, removed

One client on one connection of the admin socket, one request after the other; each add and each removal is timed
from its first byte out to the last byte of its answer. Then all of it once more: what a second time leaves behind
beyond the first would be a leak. Memory is PSS of both processes; the kernel's own (sockets, folders) is not in it.
The folders stand on a tmpfs, as /run is one: on a disk's file system binding a socket takes the most of the time.
"""

import json
import os
import re
import resource
import shutil
import socket
import statistics
import tempfile
import time

import peers

# One tenant gets three quarters of the room, and each sandbox is two descriptors to the daemon.
COUNT = min(10000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 9 // 20)
ADD_US = 1000


class KeyholeSandboxes(peers.Keyhole):
    name = f"keyhole, {COUNT:,} sandboxes"
    folders = None

    def configure(self):
        command = super().configure()
        if self.folders is None:
            self.folders = tempfile.mkdtemp(prefix="keyhole-bench.", dir="/dev/shm")
        with open(self.at("keyhole.yaml"), "a", encoding="utf-8") as file:
            file.write(f"admin: {{ unix: adm/s, sandboxes: {self.folders} }}\n")
        return command

    def cpu_us(self):
        return self.cpu_ns() / 1e3


class Client:
    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.file = self.sock.makefile("rb")

    def call(self, method, path, content=b""):
        """Return: status, content and microseconds."""
        began = time.perf_counter()
        self.sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.file.readline()
        answer = self.file.read(int(re.search(rb"content-length: (\d+)", head)[1]))
        return int(head.split()[1]), answer, (time.perf_counter() - began) * 1e6

    def close(self):
        self.file.close()
        self.sock.close()


def use(path):
    """One request from inside, which keyhole answers itself."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(path)
        sock.sendall(b"GET http://keyhole.internal/ HTTP/1.1\r\nHost: keyhole.internal\r\nConnection: close\r\n\r\n")
        answer = b""
        while piece := sock.recv(65536):
            answer += piece
    return answer.startswith(b"HTTP/1.1 200 ")


def descriptors(peer):
    return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in peers.children_of(peer.process.pid))


def spread(times):
    ordered = sorted(times)
    return {"mean": statistics.fmean(times), "p50": ordered[len(ordered) // 2], "p99": ordered[len(ordered) * 99 // 100],
            "first": statistics.median(times[:1000]), "last": statistics.median(times[-1000:])}  # fmt: skip


def settled(peer):
    """PSS when it no longer falls: what is given back is given back within some seconds."""
    least = peer.pss_kib()
    for _ in range(10):
        time.sleep(0.5)
        now = peer.pss_kib()
        if least is None or now >= least:
            return now
        least = now
    return least


def add_all(client):
    added, paths = [], []
    for i in range(COUNT):
        status, answer, us = client.call("POST", "/v1/sandboxes", b'{"tenant":"bench","id":"s%d"}' % i)
        if status != 201:
            raise RuntimeError(f"sandbox {i}: {status} {answer}")
        added.append(us)
        paths.append(json.loads(answer)["listener"])
    return added, paths


def once(peer, client):
    before, open_before = settled(peer), descriptors(peer)
    removed, found = [], {}
    cpu = peer.cpu_us()
    added, paths = add_all(client)
    found["add_cpu"] = (peer.cpu_us() - cpu) / COUNT
    found["kib"] = (settled(peer) - before) / COUNT
    found["used"] = sum(use(path) for path in paths)
    for i in range(COUNT):
        status, answer, us = client.call("DELETE", f"/v1/sandboxes/bench/s{i}")
        if status != 200:
            raise RuntimeError(f"sandbox {i}: {status} {answer}")
        removed.append(us)
    found["left_kib"] = settled(peer) - before
    found["left_descriptors"] = descriptors(peer) - open_before
    found["left_files"] = sum(len(folders) + len(files) for _, folders, files in os.walk(peer.folders))
    return {**found, "add": spread(added), "remove": spread(removed)}


def measure(bench, cores):
    peer = KeyholeSandboxes(bench.folder, bench)
    peer.start(cores)
    try:
        client = Client(peer.at("adm/s"))
        report, cpu = bench.drive(peer, ["--connections", "32"], 400, 1000)
        alone = cpu / 1e3 / max(report["requests"], 1)
        # What that leaves is not theirs.
        peer.stop()
        client.close()
        peer.start(cores)
        client = Client(peer.at("adm/s"))
        first, second = once(peer, client), once(peer, client)
        peer.load[1] = add_all(client)[1][-1]
        client.close()
        report, cpu = bench.drive(peer, ["--connections", "32"], 400, 1000)
        return {"first": first, "second": second, "alone": alone,
                "cpu": cpu / 1e3 / max(report["requests"], 1)}
    finally:
        peer.stop()
        shutil.rmtree(peer.folders, ignore_errors=True)


def lines(found):
    first, second = found["first"], found["second"]
    add, remove = first["add"], first["remove"]
    yield (f"{COUNT:,} sandboxes: adding one takes {add['mean']:.0f} µs (p50 {add['p50']:.0f}, p99 {add['p99']:.0f}; the first "
           f"thousand {add['first']:.0f}, the last {add['last']:.0f}; {first['add_cpu']:.0f} of CPU), removing one {remove['mean']:.0f} (p50 "
           f"{remove['p50']:.0f}, p99 {remove['p99']:.0f}); {first['kib']:.1f} KiB each; {first['used']:,} of them used; CPU a "
           f"request through one of them {found['cpu']:.1f} µs, through a daemon's only one {found['alone']:.1f}")  # fmt: skip
    yield (f"  left when all are removed: {first['left_descriptors']} descriptors, {first['left_files']} files and folders, "
           f"{first['left_kib'] / 1024:.1f} MiB that malloc keeps; a second time another {second['left_kib'] / 1024:.1f}")
    reached = "reached" if add["mean"] < ADD_US else "MISSED "
    yield f"{reached} adding one of {COUNT:,} sandboxes: {add['mean']:.0f} µs (< {ADD_US})"
    clean = first["left_descriptors"] <= 0 and first["left_files"] == 0 and first["used"] == COUNT
    yield f"{'reached' if clean else 'MISSED '} removing {COUNT:,} sandboxes leaves no descriptor, file or folder"
