"""test_kept_upstream_share.py - what an upstream sends on HTTP/2 connections that nobody uses is one share of a turn"""

import contextlib
import os
import signal
import ssl

import pytest
from common import may_have
from daemons import NAMES
from h2upstream import H2Upstream, make_daemon, make_up  # noqa: F401 (daemon and up)
from harness import PATIENCE, Wire, until
from hyperframe.frame import DataFrame
from test_work_share import OTHERS, cpu_s

KEPT = 250
OVER = DataFrame(1, b"a").serialize() * 1600  # of a stream that is over
HOLD = "GET https://open.test/test/hold HTTP/1.1\r\nHost: open.test\r\n\r\n"


@pytest.fixture(name="kept")
def connections_that_are_kept(daemon, tmp_path):
    """A daemon, the server, and its connections: one for each request, and all requests are over."""
    may_have(8192)
    up = H2Upstream(str(tmp_path / "up"), NAMES, max_streams=1)
    one = daemon(upstream=up)
    try:
        with contextlib.ExitStack() as stack:
            for _ in range(KEPT):
                stack.enter_context(Wire(one.socket_path)).send(HOLD)
            until("all requests are there", lambda: len(up.of("request")) == KEPT)
        until("all have ended", lambda: len(one.journal(event="close")) == KEPT)
        yield one, up
    finally:
        up.stop()


def fill(socks):
    """More than is read of each in a turn. Return: those that are gone."""
    gone = []
    for sock in socks:
        try:
            sock.settimeout(0)
            for _ in range(8):
                sock.sendall(OVER)
        except (ssl.SSLWantWriteError, BlockingIOError):
            pass
        except OSError:
            gone.append(sock)
    return gone


@pytest.mark.alone
def test_another_request_does_not_wait_for_what_comes_on_connections_that_nobody_uses(kept):
    one, up = kept
    worker = one.worker_pid()
    with Wire(one.socket_path) as wire:
        wire.send(OTHERS)
        assert wire.response().status == 403
        os.kill(worker, signal.SIGSTOP)
        try:
            assert len(up.socks) == KEPT and not fill(up.socks)
            wire.send(OTHERS)
            before = cpu_s(worker)
        finally:
            os.kill(worker, signal.SIGCONT)
        assert wire.response().status == 403
        assert cpu_s(worker) - before < 0.1


def test_a_connection_that_nobody_uses_ends_when_content_comes_on_it(kept):
    """What was under way when the request ended is less."""
    one, up = kept
    sock = up.socks[0]
    sock.settimeout(PATIENCE)
    sock.sendall(OVER)
    until("the next request is answered", lambda: asks(one) == 200)
    assert len(up.of("end")) == 0, "so much is taken"

    def is_gone():
        return fill([sock])

    until("it has ended", is_gone)


def asks(one):
    with Wire(one.socket_path) as wire:
        wire.send(HOLD.replace("/test/hold", "/test/echo"))
        return wire.response().status
