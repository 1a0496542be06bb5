"""launches.py - what a sandbox costs: to start, a request, in memory, and 200 of them at once

- start: `keyhole run --use anthropic -- true` with a daemon of its own: configuration, CA, keeper, worker, sandbox, journal,
  and the end of all of them. The median of 20.
- request: one connection from inside, by the socket itself and by keyhole-init's port in turns; the difference is the init's.
- at once: 200 sandboxes of one daemon, all up before each sends one request upstream; then all end, and what is left of
  them is counted. Memory is PSS: of all together, so what they share is counted once.
"""

import json
import os
import select
import statistics
import subprocess
import sys
import time

import peers
from peers import BUILD, ROOT

sys.path.append(os.path.join(ROOT, "tests", "sandbox"))
import docker_daemon  # noqa: E402
from leftovers import Leftovers  # noqa: E402

ENGINES = {"process": ["bwrap"], "container": ["crun", "runc"], "podman": ["podman"], "docker": ["docker"], "gvisor": ["runsc"]}
START_MS = {"process": 60, "container": 90, "gvisor": 400}
INIT_US = 60
# Where a kernel answers the calls of both, a request takes what its calls take: no bound for that one.
INIT_BOUND = ("process", "container", "podman", "docker")
STARTS, AT_ONCE = 20, {"process": 200, "container": 200, "podman": 20, "docker": 20, "gvisor": 20}
KEYHOLE = os.path.join(BUILD, "keyhole")
PATIENCE = 120

# What each of many runs: it says that it is up, waits for the word, sends one request, and ends when it is told.
MEMBER = """
printf 'up\\n'; read -r go || exit 3
curl -sS -o /dev/null -w '%{http_code}\\n' --max-time 100 "$1" || exit 4
read -r end || exit 5
"""
# Of a daemon that knows the origin; of any.
UPSTREAM, PAGE = "https://api.test/bytes/100", "http://keyhole.internal/"

LOADS = """
for round in 1 2 3 4 5 6 7; do
    for way in "--unix /run/keyhole/s" "--tcp 127.0.0.1:3128"; do
        "$1" $way --ca /etc/keyhole/ca.pem --to api.test:443 --connections 1 --milliseconds "$2" --warmup-ms 100 || exit 1
    done
done
"""


class KeyholeLauncher(peers.Keyhole):
    name = "keyhole, its launcher"

    def configure(self):
        command = super().configure()
        with open(self.at("keyhole.yaml"), "a", encoding="utf-8") as file:
            file.write("admin: { unix: adm/s }\n")
        for name in ("state", "runtime"):
            os.makedirs(self.at(name), mode=0o755, exist_ok=True)
        self.env.update(XDG_STATE_HOME=self.at("state"), XDG_RUNTIME_DIR=self.at("runtime"),
                        RUNTIME_DIRECTORY=self.at("runtime"), ANTHROPIC_API_KEY="sk-ant-api03-" + "x" * 95)  # fmt: skip
        return command

    def attached(self, engine):
        return [KEYHOLE, "run", "-q", "-c", self.at("keyhole.yaml"), "--engine", engine]

    def alone(self, engine):
        """With a daemon of its own."""
        return [KEYHOLE, "run", "-q", "--use", "anthropic", "--engine", engine]


def missing(engine):
    try:
        peers.find(*ENGINES[engine])
    except peers.Absent:
        return f"no {' or '.join(ENGINES[engine])} here"
    return docker_daemon.host()[1] if engine == "docker" else None


def of_docker():
    """The processes of a daemon that was started for this: containers are below it, and not below who asked for them."""
    return set(peers.children_of(docker_daemon.started().pid)) if docker_daemon.started() else set()


# --- one


def start_once(peer, engine):
    """Return: milliseconds."""
    began = time.perf_counter()
    done = subprocess.run([*peer.alone(engine), "--", "true"],
                          stdin=subprocess.DEVNULL, capture_output=True, env=peer.env, cwd=peer.folder, timeout=PATIENCE,
                          check=False, preexec_fn=lambda: peer.bench.place(peer.bench.two_cores))  # fmt: skip
    took = (time.perf_counter() - began) * 1e3
    if done.returncode != 0:
        raise RuntimeError(f"{engine}: {done.stderr.decode(errors='replace').strip()}")
    return took


def requests(peer, engine, quick):
    """Return: medians of the p50 of one connection in µs, by the socket and by the init."""
    done = subprocess.run(
        [*peer.attached(engine), "--ro", os.path.join(BUILD, "bench"), "--", "sh", "-c", LOADS, "sh",
         os.path.join(BUILD, "bench", "load"), "200" if quick else "600"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=peer.env, cwd=peer.folder, timeout=PATIENCE, check=False,
        preexec_fn=lambda: peer.bench.place(peer.bench.load_cores))  # fmt: skip
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or any(set(report["statuses"]) != {"200"} for report in reports):
        raise RuntimeError(f"{engine}: {done.stderr.strip()} {done.stdout[-300:]}")
    times = [report["p50_us"] for report in reports]
    return statistics.median(times[0::2]), statistics.median(times[1::2])


# --- many


def pss_kib(pids, line_of="Pss:"):
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
                total += sum(int(line.split()[1]) for line in rollup if line.startswith(line_of))
        except OSError:
            continue
    return total


def hear(processes, word, end):
    """Until each has said it. Return: how many have."""
    waiting, heard = {one.stdout.fileno(): one for one in processes}, 0
    while waiting and time.monotonic() < end:
        for fd in select.select(list(waiting), [], [], 1)[0]:
            heard += waiting.pop(fd).stdout.readline() == word
    return heard


def say(processes, word):
    for one in processes:
        try:
            one.stdin.write(word)
            one.stdin.flush()
        except OSError:
            continue


def at_once(peer, command, count, url=UPSTREAM):
    members, end = [], time.monotonic() + PATIENCE
    subprocess.run([*command, "--", "true"], stdin=subprocess.DEVNULL, env=peer.env, cwd=peer.folder,
                   timeout=PATIENCE, check=True)  # the first makes a folder that stays
    with open(peer.at("said"), "w+", encoding="utf-8", errors="replace") as said, \
         Leftovers(peer.at("adm"), peer.at("runtime"), daemon=peer.process.pid) as left:  # fmt: skip
        daemon, dockers, began = peers.children_of(peer.process.pid), of_docker(), time.perf_counter()
        before = pss_kib(daemon, "Pss_Anon:")  # of what it shares with launchers, more of them take more
        try:
            for _ in range(count):
                members.append(subprocess.Popen(
                    [*command, "--", "sh", "-c", MEMBER, "sh", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=said, env=peer.env, cwd=peer.folder, bufsize=0))  # fmt: skip
            found = {"count": count, "up": hear(members, b"up\n", end), "up_s": time.perf_counter() - began}
            below = [pid for one in members for pid in peers.children_of(one.pid)] + list(of_docker() - dockers)
            found.update(processes=len(below) / count, kib=pss_kib(below) / count, daemon_kib=(pss_kib(daemon, "Pss_Anon:") - before) / count)
            began = time.perf_counter()
            say(members, b"go\n")
            found.update(answered=hear(members, b"200\n", end), answered_s=time.perf_counter() - began)
            began = time.perf_counter()
            say(members, b"end\n")
            for one in members:
                one.communicate(timeout=max(1, end - time.monotonic()))
            found.update(ended=sum(one.returncode == 0 for one in members), ended_s=time.perf_counter() - began)
        finally:
            for one in members:
                if one.poll() is None:
                    one.kill()
                    one.communicate()
        stayed = left.left(10)
        said.seek(0)
        found["said"] = said.read(300).strip()
        found["left"] = {kind: sorted(map(str, things))[:5] for kind, things in stayed.items()}
        return found


# --- all of it


def measure(bench):
    peer = KeyholeLauncher(bench.folder, bench)
    peer.start(bench.proxy_cores)
    found = {}
    try:
        for engine in ENGINES:
            if why := missing(engine):
                found[engine] = {"absent": why}
                continue
            # It has no priority over what else runs: the kernel takes no such process into a container's control group.
            if engine == "docker" and docker_daemon.host()[0]:
                peer.env["DOCKER_HOST"] = docker_daemon.host()[0]
            start_once(peer, engine)
            starts = [start_once(peer, engine) for _ in range(STARTS)]
            direct, by_init = requests(peer, engine, bench.quick)
            found[engine] = {"start_ms": starts, "direct_us": direct, "by_init_us": by_init}
        for engine, one in found.items():
            if "absent" not in one:
                # A daemon of their own, that has all cores, as they have.
                peer.stop()
                peer.start(bench.two_cores)
                many = min(20, AT_ONCE[engine]) if bench.quick else AT_ONCE[engine]
                one["at_once"] = at_once(peer, peer.attached(engine), many)
                if engine == "process":
                    one["alone"] = at_once(peer, peer.alone(engine), many, PAGE)
        return found
    finally:
        peer.stop()


def verdict(reached, text):
    return f"{'reached' if reached else 'MISSED '} {text}"


def together(name, many):
    whole = many["up"] == many["answered"] == many["ended"] == many["count"] and not many["left"]
    return verdict(whole, f"{name}: {many['count']} sandboxes at once: {many['up']} up, {many['answered']} answered, {many['ended']} "
                          f"ended with 0, left behind: {many['left'] or 'nothing'} {many['said']}".rstrip())  # fmt: skip


def lines(found):
    for engine, one in found.items():
        if "absent" in one:
            yield f"not measured: engine {engine}: {one['absent']}"
            continue
        starts = sorted(one["start_ms"])
        middle, added, many = statistics.median(starts), one["by_init_us"] - one["direct_us"], one["at_once"]
        yield (f"engine {engine}: `keyhole run -- true` takes {middle:.0f} ms (median of {len(starts)}; {starts[0]:.0f} to "
               f"{starts[-1]:.0f}); a request {one['direct_us']:.0f} µs over the socket and {added:+.0f} through the init; of "
               f"{many['count']} at once each takes {many['kib'] / 1024:.1f} MiB in {many['processes']:.1f} processes and "
               f"{many['daemon_kib']:.0f} KiB of the daemon's; all are up after {many['up_s']:.1f} s, have each had an answer "
               f"{many['answered_s']:.1f} s later, and have ended after another {many['ended_s']:.1f}")  # fmt: skip
        if engine in START_MS:
            bound = START_MS[engine]
            yield verdict(middle < bound, f"{engine}: a start with the proxy included: {middle:.0f} ms (< {bound})")
        if engine in INIT_BOUND:
            yield verdict(added <= INIT_US, f"{engine}: a request through the init: {added:+.0f} µs (<= {INIT_US})")
        yield together(engine, many)
        if "alone" in one:
            many = one["alone"]
            yield (f"each with a daemon of its own: {many['kib'] / 1024:.1f} MiB in {many['processes']:.1f} processes; {many['count']} "
                   f"are up after {many['up_s']:.1f} s")  # fmt: skip
            yield together(f"{engine}, each with a daemon of its own", many)
