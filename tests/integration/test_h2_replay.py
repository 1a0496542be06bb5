"""What an HTTP/2 upstream has not looked at is sent again, content and all (RFC 9113 §8.7)."""

import hashlib
import os
import time

import pytest
from clients import Closed
from common import until
from h2client import h2_tunnel
from harness import Tunnel
from test_h2_up import ask_h1, ask_h2, both, make_daemon, make_up  # noqa: F401 - fixtures
from test_kept_connections import frozen

HELD = 16 * 1024


def closes(daemon, count=1):
    return until("it is written", lambda: len(r := daemon.journal(event="close")) >= count and r)


@both
@pytest.mark.parametrize("late", ["", "&late=1"], ids=["at-the-head", "behind-the-content"])
@pytest.mark.parametrize("size", [1, 1000, HELD])
def test_small_content_goes_once_more(daemon, up, ask, size, late):
    body = os.urandom(size)
    d = daemon()
    path = f"/test/refuse?size={size}{late}"
    answer = ask(d, path, "POST", body=body)
    assert answer.status == 200, answer
    assert answer.json()["body_sha256"] == hashlib.sha256(body).hexdigest()
    assert answer.json()["conn"] == 2 and len(up.of("head", path=path)) == 2
    (record,) = closes(d)
    assert record["retries"] == 1 and record["http.request.body.size"] == size


@both
def test_goaway_that_excludes_it_sends_content_once_more(daemon, ask):
    body = os.urandom(5000)
    answer = ask(daemon(), "/test/goaway", "POST", body=body)
    assert answer.json()["body_sha256"] == hashlib.sha256(body).hexdigest()


@both
def test_content_that_is_not_held_is_not_sent_again(daemon, up, ask):
    d = daemon()
    path = "/test/refuse?late=1"
    assert ask(d, path, "POST", body=b"x" * (HELD + 1)).status == 502
    assert len(up.of("head", path=path)) == 1
    assert "retries" not in closes(d)[0]


@both
def test_an_upstream_that_refuses_each_time_is_not_asked_for_ever(daemon, up, ask):
    d = daemon()
    assert ask(d, "/test/refuse?times=100", "POST", body=b"x").status == 502
    assert len(up.of("head")) == 4
    assert closes(d)[0]["retries"] == 3
    assert ask(d, "/test/echo").status == 200


def test_chunks_without_content_end_on_the_second_try_too(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        tunnel.send("POST /test/refuse?late=1 HTTP/1.1\r\nHost: open.test\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")  # fmt: skip
        assert tunnel.response("POST").json()["body_bytes"] == 3


def test_trailers_of_a_request_are_not_held(daemon, up):
    with Tunnel(daemon(), "open.test") as tunnel:
        tunnel.send("POST /test/refuse?late=1 HTTP/1.1\r\nHost: open.test\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n")  # fmt: skip
        assert tunnel.response("POST").status == 502
    assert len(up.of("head")) == 1


@pytest.mark.parametrize("by", ["h1", "h2"])
def test_content_that_is_still_coming_waits_for_the_new_connection(daemon, up, by):
    """The refusal comes in the middle of it: what went is repeated, the rest follows."""
    parts = [os.urandom(3000) for _ in range(60)]
    d = daemon()
    up.delay = 0.3  # of each handshake
    if by == "h1":
        with Tunnel(d, "open.test") as tunnel:
            tunnel.start("POST", "/test/refuse", [("Content-Length", sum(map(len, parts)))])
            tunnel.send(parts[0])
            until("it is refused", lambda: up.connections == 2)
            for part in parts[1:]:
                tunnel.send(part)
            answer = tunnel.response("POST")
    else:
        with h2_tunnel(d, "open.test") as client:
            stream = client.start("POST", "/test/refuse", end=False)
            client.put(stream, parts[0])
            until("it is refused", lambda: up.connections == 2)
            client.put(stream, b"".join(parts[1:]), end=True)
            answer = client.wait(stream)
    assert answer.status == 200, answer
    assert answer.json()["body_sha256"] == hashlib.sha256(b"".join(parts)).hexdigest()


# --- a connection that ended while nothing ran on it ------------------------------------------------


@pytest.mark.parametrize("turn", range(5))
@both
def test_a_connection_that_ended_unseen_takes_no_post(daemon, up, ask, turn):
    d = daemon()
    tunnel = Tunnel(d, "open.test") if ask is ask_h1 else None
    client = None if tunnel else h2_tunnel(d, "open.test")
    one = tunnel or client
    try:
        assert one.ask("POST", "/test/echo", body=b"warm").status == 200
        closes(d)  # the client has all its bytes before the stream's end is there
        with frozen(d):
            if tunnel:
                tunnel.start("POST", "/test/echo", body=b"x")
            else:
                stream = client.start("POST", "/test/echo", end=False)
                client.put(stream, b"x", end=True)
            up.close_idle()
            time.sleep(0.02 * turn)
        answer = tunnel.response("POST") if tunnel else client.wait(stream)
        assert answer.status == 200 and answer.json()["conn"] == 2
    except Closed:
        pytest.fail("the connection ended")
    finally:
        (tunnel or client.wire).close()


def test_half_a_record_on_an_idle_connection_costs_nothing(daemon, up):
    """It can't be read before the rest comes, and nobody turns in circles for that."""
    d = daemon()
    with Tunnel(d, "open.test") as tunnel:
        assert tunnel.ask("POST", "/test/echo", body=b"warm").status == 200
        os.write(up.socks[-1].fileno(), b"\x17\x03\x03")
        tunnel.start("POST", "/test/hold", body=b"x")
        before = cpu_seconds(d.worker_pid())
        time.sleep(1)
        assert cpu_seconds(d.worker_pid()) - before < 0.3
        d.checked = False


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
