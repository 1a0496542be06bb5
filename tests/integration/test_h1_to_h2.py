"""Clients of HTTP/1 in front of an upstream that speaks HTTP/2: what one version has and the other has not."""

import pytest
from common import until
from h2client import h2_tunnel
from h2upstream import PATTERN, make_daemon, make_up  # noqa: F401 (daemon and up are fixtures)
from harness import Closed, Tunnel


def send(tunnel, *lines, body=""):
    tunnel.send("\r\n".join(lines) + "\r\n\r\n" + body)


def test_pipelined_requests_are_answered_in_their_order(daemon, up):
    with Tunnel(daemon(), "open.test") as tunnel:
        for n in (50_000, 0, 3):
            send(tunnel, f"GET /test/bytes?n={n} HTTP/1.1", "Host: open.test")
        send(tunnel, "POST /test/echo HTTP/1.1", "Host: open.test", "Content-Length: 4", body="four")
        assert [len(tunnel.response().body) for _ in range(3)] == [50_000, 0, 3]
        assert tunnel.response().json()["body_bytes"] == 4
    assert up.connections == 1


def test_one_connection_of_a_client_after_the_other_shares_the_upstreams(daemon, up):
    d = daemon()
    for _ in range(3):
        with Tunnel(d, "open.test") as tunnel:
            for _ in range(5):
                assert tunnel.ask("GET", "/test/echo").json()["conn"] == 1
    assert up.connections == 1


def test_content_without_a_length_is_chunked(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/trailers")
        assert answer.get("transfer-encoding") == "chunked" and answer.get("content-length") is None
        assert answer.body == b"one two" and ("x-sum", "7") in [(n.lower(), v) for n, v in answer.trailers]
        assert tunnel.ask("GET", "/test/echo").status == 200, "the connection goes on"


def test_a_client_of_http_1_0_gets_it_until_the_connections_end(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        send(tunnel, "GET /test/trailers HTTP/1.0", "Host: open.test")
        head = tunnel.read_head()
        assert head.status == 200 and head.get("transfer-encoding") is None
        assert tunnel.rest() == b"one two"


def test_expect_100_continue(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        send(tunnel, "POST /test/continue HTTP/1.1", "Host: open.test", "Content-Length: 5", "Expect: 100-continue")
        assert tunnel.read_head().status == 100
        tunnel.send(b"hello")
        assert tunnel.response().json()["body_bytes"] == 5


def test_names_are_in_lower_case_and_values_as_they_were(daemon):
    fields = [("X-Mixed-Case", "Va Lue"), ("x-twice", "1"), ("X-Twice", "2"), ("X-Empty", "")]
    with Tunnel(daemon(), "open.test") as tunnel:
        seen = tunnel.ask("GET", "/test/echo", fields=fields).json()["fields"]
    ours = [f for f in seen if f[0].startswith("x-")]
    assert ours == [["x-mixed-case", "Va Lue"], ["x-twice", "1"], ["x-twice", "2"], ["x-empty", ""]]


def test_a_request_that_breaks_off_is_cancelled_and_the_connection_lives(daemon, up):
    d = daemon()
    with Tunnel(d, "open.test") as tunnel:
        send(tunnel, "POST /test/echo HTTP/1.1", "Host: open.test", "Content-Length: 100", body="half")
        until("it has begun", lambda: up.of("head", path="/test/echo"))
    until("it is cancelled", lambda: up.of("reset", code=8))
    assert not up.of("request"), "it never looked whole"
    with Tunnel(d, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").json()["conn"] == 1


def test_chunks_that_are_none_never_look_whole(daemon, up):
    with Tunnel(daemon(), "open.test") as tunnel:
        send(tunnel, "POST /test/echo HTTP/1.1", "Host: open.test", "Transfer-Encoding: chunked",
             body="5\r\nhello\r\n")  # fmt: skip
        until("it has begun", lambda: up.of("head", path="/test/echo"))
        tunnel.send("xyz\r\n")
        assert tunnel.response().status == 400
    until("it is cancelled", lambda: up.of("reset", code=8))
    assert not up.of("request")


def test_an_answer_that_is_cut_is_seen_to_be(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        tunnel.start("GET", "/test/reset?head=1")
        assert not tunnel.response(partial=True).complete
        with pytest.raises(Closed):
            tunnel.ask("GET", "/test/echo")


def test_a_slow_client_of_http1_holds_no_other_up(daemon, up):
    d = daemon()
    with Tunnel(d, "open.test") as slow, h2_tunnel(d, "open.test") as client:
        slow.start("GET", "/test/bytes?n=20000000")
        assert slow.read_head().status == 200
        for _ in range(5):
            assert len(client.ask("GET", "/test/bytes?n=100000").body) == 100_000
        left = 20_000_000 - len(slow.buffer)
        slow.buffer, first = b"", slow.buffer
        assert first == (PATTERN * 400)[: len(first)]
        slow.take(left)
    assert up.connections == 1
