"""Tunnels in the streams of one HTTP/2 connection with prior knowledge (RFC 9113 §8.5)."""

import json
import time

import pytest
from h2client import H2Client, Reset, StreamWire, h2_plain
from harness import FINGERPRINT, Refused, Wire, until


def https_in(client, daemon, host, alpn=("http/1.1",)):
    return StreamWire(client, f"{host}:443").accept().start_tls(daemon, host, alpn)


def ask(wire, path):
    wire.send(f"GET {path} HTTP/1.1\r\nHost: {wire.host}\r\n\r\n")
    return Wire.response(wire)


def test_a_connect_stream_is_a_tunnel(shared):
    with h2_plain(shared) as client:
        tunnel = https_in(client, shared, "api.test")
        for n in range(3):
            answer = ask(tunnel, f"/test/echo?case=stream-tunnel-{n}")
            assert answer.status == 200 and FINGERPRINT in json.dumps(answer.json())
        tunnel.close()


def test_tunnels_of_several_hosts_share_a_connection(shared):
    with h2_plain(shared) as client:
        tunnels = [https_in(client, shared, h) for h in ("api.test", "open.test", "auth.test")]
        for tunnel in tunnels + tunnels:
            assert ask(tunnel, "/test/echo").status == 200
        for tunnel in tunnels:
            tunnel.close()


def test_http2_runs_inside_a_tunnel_in_a_stream(shared):
    with h2_plain(shared) as outer:
        tunnel = https_in(outer, shared, "api.test", alpn=("h2",))
        assert tunnel.tls.selected_alpn_protocol() == "h2"
        inner = H2Client(tunnel, authority="api.test")
        streams = [inner.start("GET", f"/test/bytes?n={n * 1000}") for n in range(20)]
        for n, stream in enumerate(streams):
            assert len(inner.wait(stream).body) == n * 1000
        tunnel.close()


def test_no_tunnel_inside_a_tunnel(shared):
    with h2_plain(shared) as outer:
        tunnel = StreamWire(outer, "open.test:80").accept()
        inner = H2Client(tunnel, authority="open.test", scheme="http")
        nested = inner.start_head([(":method", "CONNECT"), (":authority", "api.test:443")], end=False)
        assert inner.wait(nested).status == 400
        tunnel.close()
        h1 = https_in(outer, shared, "open.test")
        h1.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        assert Wire.response(h1).status == 400


@pytest.mark.parametrize("authority", ["open.test", "open.test:0", "open.test:99999", ":443",
                                       "u@open.test:443", "open.test:443/x", ""])  # fmt: skip
def test_a_connect_that_names_nothing_is_refused_alone(shared, authority):
    with h2_plain(shared) as client:
        tunnel = StreamWire(client, authority)
        try:
            with pytest.raises(Refused) as refused:
                tunnel.accept()
            assert refused.value.response.status == 400
        except Reset as reset:
            assert reset.code == 1
        assert ask(https_in(client, shared, "open.test"), "/test/echo").status == 200


def test_what_no_rule_knows_is_refused_inside_where_it_can_be_read(shared):
    with h2_plain(shared) as client:
        tunnel = https_in(client, shared, "other.test")
        assert ask(tunnel, "/test/echo").status == 403
        tunnel.close()


def test_half_closes_pass_both_ways(shared):
    with h2_plain(shared) as client:
        tunnel = StreamWire(client, "open.test:80").accept()
        tunnel.send("GET / HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\n\r\n")
        tunnel.shutdown()
        assert Wire.response(tunnel).status == 403
        while tunnel.more():
            pass
        assert client.streams[tunnel.stream].ended


def test_large_content_passes_through_tunnels_at_once(shared):
    with h2_plain(shared) as client:
        tunnels = [https_in(client, shared, "open.test") for _ in range(8)]
        for tunnel in tunnels:
            tunnel.send("GET /test/bytes?n=2000000 HTTP/1.1\r\nHost: open.test\r\n\r\n")
        for tunnel in tunnels:
            assert len(Wire.response(tunnel).body) == 2000000
        body = b"x" * 1000000
        for tunnel in tunnels:
            tunnel.send(f"POST /test/echo HTTP/1.1\r\nHost: open.test\r\nContent-Length: {len(body)}\r\n\r\n")
            tunnel.send(body)
            assert Wire.response(tunnel).json()["body_bytes"] == len(body)


def test_a_tunnel_that_is_not_read_holds_up_no_other(shared):
    with h2_plain(shared, window=65535, acknowledge=False) as client:
        client.h2.increment_flow_control_window(2**24)
        client.flush()
        stuck = StreamWire(client, "open.test:443").accept()
        client.acknowledge = True
        stuck.start_tls(shared, "open.test")
        free = https_in(client, shared, "open.test")
        client.acknowledge = False
        stuck.send("GET /test/bytes?n=50000000 HTTP/1.1\r\nHost: open.test\r\n\r\n")
        until_full = time.monotonic() + 1
        while time.monotonic() < until_full and client.streams[stuck.stream]:
            free.client.acknowledge = False
            got = sum(map(len, client.streams[stuck.stream].parts))
            if got > 60000:
                break
            client.pump()
        for _ in range(5):
            assert ask(free, "/test/echo").status == 200


def test_the_end_of_the_connection_ends_what_is_inside(shared, mock):
    mark = mock.mark()
    with h2_plain(shared) as client:
        tunnel = https_in(client, shared, "open.test")
        tunnel.send("GET /test/hold HTTP/1.1\r\nHost: open.test\r\n\r\n")
        until("it is upstream", lambda: mock.requests(since=mark))
    until("it has ended there", lambda: mock.events("end", since=mark))


def test_tunnels_count_as_connections_of_the_sandbox(daemon):
    d = daemon({"limits": {"connections": 4}})
    with h2_plain(d) as client:
        held = [StreamWire(client, "open.test:443").accept() for _ in range(3)]
        with pytest.raises(Refused) as refused:
            StreamWire(client, "open.test:443").accept()
        assert refused.value.response.status == 429
        held[0].close()

        def again():
            try:
                return StreamWire(client, "open.test:443").accept()
            except Refused:
                return None

        until("its place is free", again)


def test_two_thousand_tunnels_on_one_connection(daemon, mock):
    """All open at a time; then each serves a request, in any order."""
    d = daemon()
    with h2_plain(d) as client:
        client.h2.increment_flow_control_window(2**26)
        client.flush()
        pid = d.worker_pid()
        tunnels = [StreamWire(client, "open.test:443") for _ in range(2000)]
        for tunnel in tunnels:
            tunnel.accept()
        before = d.memory_kib(pid)
        some = tunnels[::10]
        for tunnel in some:
            tunnel.start_tls(d, "open.test")
        for tunnel in some:
            tunnel.send("GET /test/echo HTTP/1.1\r\nHost: open.test\r\n\r\n")
        for tunnel in reversed(some):
            assert Wire.response(tunnel).status == 200
        print("KiB a TLS tunnel:", (d.memory_kib(pid) - before) / len(some))
        for tunnel in tunnels:
            tunnel.shutdown()
        until("all have ended", lambda: client.pump() or all(
            client.streams[t.stream].ended or client.streams[t.stream].reset is not None
            for t in tunnels))  # fmt: skip
        assert ask(https_in(client, d, "open.test"), "/test/echo").status == 200


def test_a_thousand_tunnels_may_be_given_up_at_once(shared):
    """As when a program with many connections dies: the other tunnels of its machine live on."""
    with h2_plain(shared) as client:
        stays = https_in(client, shared, "open.test")
        tunnels = [StreamWire(client, "open.test:443") for _ in range(1000)]
        for tunnel in tunnels:
            tunnel.accept()
        for tunnel in tunnels:
            tunnel.close()
        for _ in range(3):
            assert ask(stays, "/test/echo").status == 200


def test_a_drain_ends_tunnels_and_then_the_connection(daemon):
    d = daemon()
    d.checked = False
    with h2_plain(d) as client:
        tunnel = https_in(client, d, "open.test")
        tunnel.send("GET /test/sse?n=5&ms=100 HTTP/1.1\r\nHost: open.test\r\n\r\n")
        tunnel.take_until(b"data: ")
        d.process.terminate()
        tunnel.buffer = b""
        while tunnel.more():
            pass
        assert b'"n": 4' in tunnel.buffer
        assert client.until_closed()
    assert d.process.wait(20) == 0
