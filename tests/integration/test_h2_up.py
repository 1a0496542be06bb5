"""HTTP/2 towards upstreams: mixes of both versions, what fails and is said again, hostile upstreams."""

import hashlib
import threading

import pytest
from common import FINGERPRINT, until
from daemons import NAMES
from h2client import Reset, h2_tunnel
from h2upstream import (  # noqa: F401 (daemon and up are fixtures)
    BAD_FRAMES, BAD_HEADS, PATTERN, H2Upstream, ask_h1, ask_h2, both, make_daemon, make_up,
)  # fmt: skip
from harness import PLACEHOLDER, Tunnel


@both
def test_a_request_goes_up_by_http2(daemon, up, ask):
    d = daemon()
    answer = ask(d, "/test/echo?x=1", fields=[("x-own", "1")])
    assert answer.status == 200
    seen = answer.json()
    fields = dict(map(tuple, seen["fields"]))
    assert fields[":method"] == "GET" and fields[":scheme"] == "https"
    assert fields[":authority"] == "open.test" and fields[":path"] == "/test/echo?x=1"
    assert fields["x-own"] == "1" and "host" not in fields
    assert up.of("open")[0]["alpn"] == "h2"


@both
@pytest.mark.parametrize("size", [0, 1, 100_000, 3_000_000])
def test_content_goes_up_whole(daemon, ask, size):
    body = (PATTERN * (size // len(PATTERN) + 1))[:size]
    seen = ask(daemon(), "/test/echo", "POST", body=body).json()
    assert seen["body_bytes"] == size
    assert seen["body_sha256"] == hashlib.sha256(body).hexdigest()


@both
@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_content_comes_down_whole(daemon, ask, size):
    answer = ask(daemon(), f"/test/bytes?n={size}")
    assert answer.status == 200 and answer.complete
    assert answer.body == (PATTERN * (size // len(PATTERN) + 1))[:size]


def test_chunks_become_data_and_trailers_stay(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        tunnel.send("POST /test/echo HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")  # fmt: skip
        seen = tunnel.response("POST").json()
    assert seen["body_bytes"] == 5 and ["x-sum", "7"] in seen["trailers"]
    fields = dict(map(tuple, seen["fields"]))
    assert "transfer-encoding" not in fields and "content-length" not in fields


@both
def test_trailers_come_down(daemon, ask):
    answer = ask(daemon(), "/test/trailers", "POST", [("te", "trailers"), ("connection", "te")]
                 if ask is ask_h1 else [("te", "trailers")], b"x")  # fmt: skip
    assert answer.body == b"one two"
    trailers = {n.lower(): v for n, v in answer.trailers}
    assert trailers["grpc-status"] == "0" and trailers["x-sum"] == "7"


@both
def test_te_trailers_is_kept_and_nothing_else_of_the_connection(daemon, ask):
    fields = [("te", "trailers")]
    if ask is ask_h1:
        fields = [("TE", "gzip, trailers"), ("Connection", "TE, X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "5")]
    seen = dict(map(tuple, ask(daemon(), "/test/echo", fields=fields).json()["fields"]))
    assert seen["te"] == "trailers"
    assert not {"connection", "x-hop", "keep-alive"} & set(seen)


@both
def test_interim_answers(daemon, ask):
    answer = ask(daemon(), "/test/interim?n=2")
    assert answer.status == 200 and answer.body == b"done"
    assert [i.status for i in answer.interim] == [103, 103]


@both
@pytest.mark.parametrize("code", [204, 304, 404, 500])
def test_status_without_content(daemon, ask, code):
    answer = ask(daemon(), f"/test/status?code={code}")
    assert answer.status == code and answer.body == b""


@both
def test_head_says_what_a_get_would_bring(daemon, ask):
    answer = ask(daemon(), "/test/announced", "HEAD")
    assert answer.status == 200 and answer.get("content-length") == "500" and answer.body == b""


@both
def test_the_credential_goes_in_and_the_clients_own_goes_out(daemon, up, ask):
    d = daemon()
    seen = ask(d, "/test/echo?key=mine", fields=[("x-api-key", PLACEHOLDER), ("authorization", "Bearer x"),
                                                 ("cookie", "a=1")], host="api.test").json()  # fmt: skip
    fields = dict(map(tuple, seen["fields"]))
    assert fields["x-api-key"] == "sha256:" + FINGERPRINT
    assert not {"authorization", "cookie"} & set(fields)
    assert fields[":path"] == "/test/echo"


@both
def test_early_answer_to_a_large_request(daemon, ask):
    answer = ask(daemon(), "/test/early", "POST", body=b"x" * 2_000_000)
    assert answer.status == 413 and answer.body == b"too much"


@both
@pytest.mark.parametrize("mode", ["refuse", "goaway"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_was_not_processed_is_sent_again(daemon, up, ask, mode, method):
    """RFC 9113 8.7: whatever the method."""
    d = daemon()
    answer = ask(d, f"/test/{mode}", method)
    assert answer.status == 200
    assert len(up.of("head", path=f"/test/{mode}")) == 2
    until("it is written", lambda: d.journal(event="close"))
    assert [r.get("retries") for r in d.journal(event="close")] == [1]


@both
def test_goaway_behind_an_answer_moves_on(daemon, up, ask):
    d = daemon()
    first = ask(d, "/test/last").json()
    second = ask(d, "/test/echo").json()
    assert first["conn"] != second["conn"]


def test_a_stream_that_is_reset_is_502_and_the_others_live(daemon, up):
    with h2_tunnel(daemon(), "open.test") as client:
        held = client.start("GET", "/test/sse?n=5&ms=100")
        assert client.ask("GET", "/test/reset").status == 502
        with pytest.raises(Reset):
            client.ask("GET", "/test/reset?head=1")
        assert client.wait(held).body.count(b"data:") == 5
    assert {e["conn"] for e in up.of("head")} == {1}


@both
def test_a_connection_that_dies_fails_what_is_on_it(daemon, up, ask):
    d = daemon()
    assert ask(d, "/test/cut?nothing=1", "POST", body=b"x").status == 502
    until("it is written", lambda: d.journal(event="close", reason="upstream_closed"))
    if ask is ask_h2:
        with pytest.raises(Reset):
            ask(d, "/test/cut")
    else:
        with Tunnel(d, "open.test") as tunnel:
            tunnel.start("GET", "/test/cut")
            assert not tunnel.response(partial=True).complete
    assert ask(d, "/test/echo").status == 200


def test_one_connection_carries_many(daemon, up):
    d = daemon()
    with h2_tunnel(d, "open.test") as client:
        streams = [client.start("GET", f"/test/echo?n={n}") for n in range(50)]
        answers = [client.wait(s) for s in streams]
    assert all(a.status == 200 for a in answers)
    assert up.connections == 1


def test_from_many_connections_to_one(daemon, up):
    d = daemon()
    results = []

    def run():
        results.append(ask_h1(d, "/test/echo").status)

    threads = [threading.Thread(target=run) for _ in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [200] * 20
    # A connection an event thread at most.
    assert up.connections <= 4


def test_more_than_the_peer_allows_goes_to_another_connection(daemon, tmp_path):
    few = H2Upstream(str(tmp_path / "few"), NAMES, max_streams=4)
    try:
        d = daemon(upstream=few)
        with h2_tunnel(d, "open.test") as client:
            assert client.ask("GET", "/test/echo").status == 200
            held = [client.start("GET", "/test/hold") for _ in range(10)]
            until("all are there", lambda: len(few.of("head", path="/test/hold")) == 10)
            assert few.most_open <= 4
            assert few.connections == 3
            assert client.ask("GET", "/test/echo").status == 200
            assert held
    finally:
        few.stop()


def test_what_the_client_gives_up_is_given_up_upstream(daemon, up):
    with h2_tunnel(daemon(), "open.test") as client:
        stream = client.start("GET", "/test/hold")
        until("it is there", lambda: up.of("head", path="/test/hold"))
        client.h2.reset_stream(stream, 8)
        client.flush()
        until("it is reset there", lambda: up.of("reset", code=8))
        assert client.ask("GET", "/test/echo").json()["conn"] == 1


@pytest.mark.parametrize("kind", sorted(BAD_HEADS))
@both
def test_a_malformed_answer_is_502_and_the_connection_lives(daemon, up, ask, kind):
    d = daemon()
    assert ask(d, f"/test/fields?kind={kind}").status == 502
    assert ask(d, "/test/echo").json()["conn"] == 1
    wanted = {"malformed_response", "response_head_size"}
    until("it is written", lambda: wanted & {r.get("reason") for r in d.journal(event="close")})


@pytest.mark.parametrize("kind", sorted(BAD_FRAMES))
def test_a_broken_connection_is_502_for_what_is_on_it(daemon, up, kind):
    d = daemon()
    assert ask_h1(d, f"/test/frame?kind={kind}", "POST").status == 502
    assert ask_h1(d, "/test/echo").json()["conn"] == 2


def test_events_leave_as_they_come(daemon):
    with Tunnel(daemon(), "open.test") as tunnel:
        tunnel.send("GET /test/sse?n=5&ms=100 HTTP/1.1\r\nHost: open.test\r\n\r\n")
        response = tunnel.read_head()
        pieces = list(tunnel.pieces(response))
    assert len(pieces) == 5


def test_a_slow_reader_makes_the_upstream_wait(daemon, up):
    """Flow control end to end: what is not read is not fetched."""
    d = daemon()
    with h2_tunnel(d, "open.test", window=65535, acknowledge=False) as client:
        stream = client.start("GET", "/test/bytes?n=30000000")
        client.wait_head(stream)
        before = d.resident_kib(d.worker_pid())
        until("it has sent what it may", lambda: client.ask("GET", "/test/status?code=204").status == 204)
        assert d.resident_kib(d.worker_pid()) - before < 4096


def test_a_deaf_upstream_makes_the_client_wait(daemon, up):
    d = daemon({"timeouts": {"stall": "2s"}})
    with h2_tunnel(d, "open.test") as client:
        stream = client.start("POST", "/test/deaf", end=False)
        until("it is there", lambda: up.of("head", path="/test/deaf"))
        sent = 0
        while client.h2.local_flow_control_window(stream) > 0 and sent < 2_000_000:
            room = min(16384, client.h2.local_flow_control_window(stream))
            client.h2.send_data(stream, b"x" * room)
            client.flush()
            sent += room
        assert sent < 1_000_000
        assert client.wait(stream).status == 408


def test_http2_can_be_switched_off(daemon, tmp_path):
    h1_too = H2Upstream(str(tmp_path / "both"), NAMES, alpn=("h2", "http/1.1"))
    try:
        d = daemon({"upstream": {"http2": False}}, upstream=h1_too)
        ask_h1(d, "/test/echo")
        assert h1_too.of("open")[0]["alpn"] == "http/1.1"
    finally:
        h1_too.stop()


def test_a_drain_waits_for_streams(daemon, up):
    d = daemon()
    with h2_tunnel(d, "open.test") as client:
        stream = client.start("GET", "/test/sse?n=5&ms=100")
        client.wait_head(stream)
        d.process.terminate()
        assert client.wait(stream).body.count(b"data:") == 5
    assert d.process.wait(10) == 0
    d.checked = False
