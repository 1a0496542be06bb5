"""What an idle daemon costs."""

import os

import pytest
from harness import Tunnel, until

CEILING_MIB = 12


@pytest.mark.skipif(os.getuid() != 0, reason="the worker is not dumpable: its PSS can be read by root only")
def test_idle_memory_of_keeper_and_worker(daemon, standin, capsys):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    standin.close_idle()
    until("rest", lambda: one.descriptors() <= one.baseline)
    keeper, worker = (one.memory_kib(pid) / 1024 for pid in (one.process.pid, one.worker_pid()))
    with capsys.disabled():
        print(f"\n  idle: keeper {keeper:.1f} MiB + worker {worker:.1f} MiB = {keeper + worker:.1f} MiB PSS")
    assert keeper + worker < CEILING_MIB
