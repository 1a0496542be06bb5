"""An attacker, held to a share of the CPU, uses up each resource; another tenant fails nothing and waits no longer.

KEYHOLE_SATURATE=30 (`make saturate`) makes each attack last 30 seconds instead of 5.
"""

import contextlib
import copy
import os
import statistics
import subprocess
import sys
import time

import pytest
from clients import client_context
from common import HERE, may_have
from fakedns import SILENCE
from harness import Tunnel, Upstream, Wire

pytestmark = pytest.mark.alone
SECONDS = float(os.environ.get("KEYHOLE_SATURATE") or 5)
ROUNDS = 5
BOXES = 4  # of the attacker's tenant
CPU_SHARE = 0.25  # of one core, for all its processes


# --- a control group -------------------------------------------------------------------------------


def group_places():
    """Version 1's folder for CPU, then version 2's; what is written there for the share."""
    period = 100000
    quota = int(period * CPU_SHARE)
    yield "/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
    yield "/sys/fs/cgroup/cpu,cpuacct", {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota}
    yield "/sys/fs/cgroup", {"cpu.max": f"{quota} {period}"}


@pytest.fixture
def share_of_cpu():
    """The file that a process id is written into."""
    why = "there is no controller for CPU"
    for top, values in group_places():
        if not os.path.isdir(top) or ("cpu.max" in values and not os.path.exists(top + "/cgroup.controllers")):
            continue
        folder = f"{top}/keyhole-saturate-{os.getpid()}"
        try:
            os.mkdir(folder)
        except OSError as err:
            why = str(err)
            continue
        try:
            for name, value in values.items():
                with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                    file.write(str(value))
        except OSError as err:
            why = str(err)
            os.rmdir(folder)
            continue
        try:
            yield folder + "/cgroup.procs"
        finally:
            with open(folder + "/cgroup.procs", encoding="ascii") as left, contextlib.suppress(OSError):
                for pid in left.read().split():
                    with open(top + "/cgroup.procs", "w", encoding="ascii") as file:
                        file.write(pid)
            end = time.monotonic() + 10
            while True:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
                    break
                assert time.monotonic() < end, f"{folder} is still in use"
                time.sleep(0.02)
        return
    pytest.skip(f"the attacker can't be held to a share of the CPU: no control group can be made here: {why}")


@contextlib.contextmanager
def attack(resource, share_of_cpu, paths):
    process = subprocess.Popen([sys.executable, os.path.join(HERE, "saturate_attack.py"), resource, *paths],
                               stdin=subprocess.PIPE)  # fmt: skip
    try:
        with open(share_of_cpu, "w", encoding="ascii") as file:
            file.write(str(process.pid))
        process.stdin.write(b"!")
        process.stdin.flush()
        yield process
        assert process.poll() is None, "the attacker ended by itself"
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


# --- the other tenant ------------------------------------------------------------------------------


class Victim:
    """Asks on new connections: a plain request, one for a name that was never asked for, and one in a tunnel whose leaf
    is not there yet, in turn. Anything but the expected answer is a failure."""

    def __init__(self, one):
        self.one = one
        self.context = client_context(one.ca)
        self.n = 0

    def plain(self, host, expected=200):
        with Wire(self.one.socket_path, timeout=5) as wire:
            status = wire.ask("GET", f"http://{host}/test/echo", host=host).status
        assert status == expected, f"{host}: {status}"

    def ask(self):
        self.n += 1
        kind = self.n % 3
        if kind == 0:
            self.plain("plain.test")
        elif kind == 1:
            self.plain(f"v{self.n}.ok.test:{self.port}")
        else:
            with Tunnel(self.one, f"v{self.n}.leaf.test", timeout=5) as tunnel:
                assert tunnel.ask("GET", "/").status == 403  # which the leaf is needed for

    def p99s(self, seconds):
        """Milliseconds, of each of five rounds."""
        found = []
        for _ in range(ROUNDS):
            times = []
            end = time.monotonic() + seconds / ROUNDS
            while time.monotonic() < end or len(times) < 20:
                began = time.monotonic()
                self.ask()
                times.append((time.monotonic() - began) * 1000)
                time.sleep(0.002)
            times.sort()
            found.append(times[min(len(times) - 1, int(len(times) * 0.99))])
        return found


@pytest.fixture(scope="module")
def loot(tmp_path_factory):
    """The attacker's own upstream, which goes into its control group."""
    upstream = Upstream(str(tmp_path_factory.mktemp("loot")), plain=True)
    yield upstream
    upstream.stop()


# So that the attack uses up this one, and no other before it: the worker's memory and its descriptors.
BOUNDS = {"memory": ("32MiB", 2048), "streams": ("16MiB", 2048), "lookups": ("1GiB", 20000)}


@pytest.mark.parametrize("resource", ["memory", "descriptors", "lookups", "streams", "signatures", "journal"])
def test_an_attacker_that_saturates_one_resource_costs_another_tenant_nothing(
    resource, share_of_cpu, daemon, fake_dns, plain_mock, loot
):
    class Names(dict):
        def get(self, key, default=None):
            if key.endswith(".ok.test"):
                return ["127.0.0.1"]
            return SILENCE if key.endswith(".evil.test") else dict.get(self, key, default)

    fake_dns.names = Names()
    port = int(plain_mock.address.split(":")[1])
    memory, descriptors = BOUNDS.get(resource, ("64MiB", 1024))
    may_have(descriptors)
    # One tenant alone may not have descriptors for all the lookups that there are.
    tenants = ("acme", "other") if resource == "lookups" else ("acme",)
    boxes = [{"unix": f"d{n}/s", "tenant": tenants[n % len(tenants)], "sandbox": f"a{n}"} for n in range(BOXES)]
    one = daemon({
        "listen": [*boxes, {"unix": "e/s", "tenant": "dev", "sandbox": "two"}],
        "worker": {"threads": 1, "memory": memory},
        "limits": {"leaves": 1000},
        "timeouts": {"resolve": "60s"},
        "upstream": {"nameservers": [fake_dns.address],
                     "resolve": {"plain.test": plain_mock.address, "loot.test": loot.address},
                     "allow_addresses": ["127.0.0.0/8"]},
        "tenants": {**dict.fromkeys(tenants, {"rules": [{"allow": "http://*.evil.test"}, {"allow": "http://loot.test"}]}),
                    "dev": {"rules": [{"allow": f"http://*.ok.test:{port}"}, {"allow": "http://plain.test"}]}},
    }, nofile=descriptors)  # fmt: skip
    two = copy.copy(one)
    two.socket_path = os.path.join(one.folder, "e", "s")
    with open(share_of_cpu, "w", encoding="ascii") as file:
        file.write(str(loot.process.pid))
    victim = Victim(two)
    victim.port = port
    before = statistics.median(victim.p99s(SECONDS / 5))
    with attack(resource, share_of_cpu, [os.path.join(one.folder, box["unix"]) for box in boxes]):
        busy = victim.p99s(SECONDS)
    # What else this machine does is not the attacker's doing: it may have begun after the first look.
    quiet = max(before, statistics.median(victim.p99s(SECONDS / 5)))
    most = max(3 * quiet, 50)
    assert statistics.median(busy) < most, f"p99 in ms: {busy}, quiet {quiet:.1f}"
