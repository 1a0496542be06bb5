"""What an idle daemon costs."""

import os

import pytest
from h2client import H2Client
from harness import Tunnel

CEILING_MIB = 12


@pytest.mark.skipif(os.getuid() != 0, reason="the worker is not dumpable: its PSS can be read by root only")
def test_idle_memory_of_keeper_and_worker(daemon, mock, capsys):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    one.settle([mock])
    keeper, worker = (one.memory_kib(pid) / 1024 for pid in (one.process.pid, one.worker_pid()))
    with capsys.disabled():
        print(f"\n  idle: keeper {keeper:.1f} MiB + worker {worker:.1f} MiB = {keeper + worker:.1f} MiB PSS")
    assert keeper + worker < CEILING_MIB


@pytest.mark.skipif(os.getuid() != 0, reason="the worker is not dumpable: its PSS can be read by root only")
def test_idle_memory_of_a_tunnel_in_each_version(daemon, mock, capsys):
    """After a request, with TLS: HTTP/2 keeps its tables and streams, which have to stay small."""
    cost = {}
    for version, ceiling in (("http/1.1", 48), ("h2", 64)):
        one = daemon({"worker": {"threads": 1}})
        held = []
        for n in range(310):
            if n == 10:  # what the first ones brought with them is not theirs
                before = one.memory_kib(one.worker_pid())
            tunnel = Tunnel(one, "open.test", alpn=(version,))
            client = H2Client(tunnel) if version == "h2" else tunnel
            assert client.ask("GET", "/test/status?code=204").status == 204
            held.append(tunnel)
        cost[version] = (one.memory_kib(one.worker_pid()) - before) / 300
        for tunnel in held:
            tunnel.close()
        assert cost[version] < ceiling, cost
    with capsys.disabled():
        print(f"\n  an idle tunnel: {cost['http/1.1']:.1f} KiB in HTTP/1.1, {cost['h2']:.1f} KiB in HTTP/2")
