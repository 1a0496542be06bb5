"""How connections to upstreams that speak HTTP/2 live: silence, reloads, the site's own proxy."""

import concurrent.futures
import contextlib
import copy
import signal
import threading
import time

import pytest
from clients import Closed
from common import until
from connect_proxy import ConnectProxy
from daemons import NAMES
from h2client import h2_tunnel
from h2upstream import H2Upstream, ask_h1, ask_h2, make_daemon, make_up  # noqa: F401 (daemon and up)
from harness import Tunnel

SILENT_SECONDS, PONG_SECONDS, LOST_SECONDS = 15, 3, 20
IN_FORCE = "the new configuration is in force"


def reload(daemon, *rules):
    seen = daemon.stderr().count(IN_FORCE)
    config = copy.deepcopy(daemon.config)
    config["tenants"]["acme"]["rules"] = list(rules)
    daemon.write(config)
    daemon.process.send_signal(signal.SIGHUP)
    until("reloaded", lambda: daemon.stderr().count(IN_FORCE) > seen)


def test_a_connection_that_was_silent_is_asked_whether_it_lives(daemon, tmp_path):
    """Five connections at once, since the silence takes long. Behind it two still answer and two don't; one
    leaves PING without an answer and says other things."""
    cases = [("GET", True), ("POST", True), ("GET", False), ("POST", False)]
    ups = [H2Upstream(str(tmp_path / str(n)), NAMES) for n in range(len(cases) + 1)]
    results = [None] * len(cases)
    try:
        daemons = [daemon(upstream=up) for up in ups]
        for d in daemons:
            assert ask_h1(d, "/test/echo").json()["conn"] == 1
        time.sleep(SILENT_SECONDS + 0.5)

        def ask(n, method):
            began = time.monotonic()
            answer = ask_h2(daemons[n], "/test/echo", method, body=None if method == "GET" else b"x")
            results[n] = (answer.status, answer.json()["conn"], time.monotonic() - began)

        def read_events():
            with h2_tunnel(daemons[-1], "open.test") as client:
                events.append(client.ask("GET", f"/test/sse?n={PONG_SECONDS * 20}&ms=100"))

        events = []
        ups[-1].no_pong = {1}
        threads = [threading.Thread(target=read_events)]
        threads[0].start()
        for n, (method, lives) in enumerate(cases):
            if not lives:
                ups[n].mute = {1}
            threads.append(threading.Thread(target=ask, args=(n, method)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        for n, (method, lives) in enumerate(cases):
            status, conn, seconds = results[n]
            assert status == 200, (method, lives)
            # One that does not answer is let go, and the request is sent once more elsewhere.
            assert conn == (1 if lives else 2), (method, lives)
            assert lives or PONG_SECONDS - 0.5 <= seconds < PONG_SECONDS + 10
            assert len(ups[n].of("ping")) == (1 if lives else 0)
            assert len(daemons[n].journal(event="close")) == 2
            # What could not be said twice was not said to the dead one.
            assert len(ups[n].of("request")) == 2
        assert events and events[0].body.count(b"data:") == PONG_SECONDS * 20
        assert ups[-1].connections == 1 and ups[-1].of("ping")
    finally:
        for up in ups:
            up.stop()


def test_a_ping_without_an_answer_harms_nothing_that_ran_before(daemon, tmp_path):
    """Two upstreams that say nothing after the first event of a stream, and answer no PING: one goes on after seven
    seconds, one never does. What asks later goes to another connection at once."""
    ups = [H2Upstream(str(tmp_path / str(n)), NAMES) for n in range(2)]
    pauses = [SILENT_SECONDS + PONG_SECONDS + 4, 3600]
    began = time.monotonic()
    try:
        daemons = [daemon(upstream=up) for up in ups]
        with contextlib.ExitStack() as stack:
            tunnels = [stack.enter_context(Tunnel(d, "open.test")) for d in daemons]
            for tunnel, pause in zip(tunnels, pauses, strict=True):
                tunnel.start("GET", f"/test/sse?n=1&ms={pause * 1000}", host="open.test")
            heads = [tunnel.read_head() for tunnel in tunnels]
            assert [head.status for head in heads] == [200, 200]
            time.sleep(SILENT_SECONDS + 0.5)
            asked = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answers = list(pool.map(lambda one: [ask_h2(one, "/test/echo", method).json()["conn"]
                                                     for method in ("POST", "GET")], daemons))  # fmt: skip
            assert answers == [[2, 2], [2, 2]]
            assert time.monotonic() - asked < PONG_SECONDS + 2
            body = b"".join(tunnels[0].pieces(heads[0]))
            assert body.count(b"data:") == 1 and time.monotonic() - began > pauses[0] - 1
            with pytest.raises(Closed):
                b"".join(tunnels[1].pieces(heads[1]))
            assert LOST_SECONDS - 1 < time.monotonic() - asked < LOST_SECONDS + 3
        (lost,) = until("its record", lambda: [r for r in daemons[1].journal(event="close") if not r["complete"]])
        assert lost["reason"] == "upstream_closed"
        assert all(r["complete"] for r in daemons[0].journal(event="close"))
    finally:
        for up in ups:
            up.stop()


def test_an_upstream_that_never_begins_to_speak(daemon, up):
    up.unsettled = {1}
    d = daemon({"timeouts": {"handshake": "1s"}})
    with h2_tunnel(d, "open.test") as client:
        first = client.start("GET", "/test/echo?n=1")
        until("it is connected", lambda: up.connections == 1)
        second = client.start("POST", "/test/echo?n=2", end=False)
        client.put(second, b"x", end=True)
        answer = client.wait(first)
        assert answer.status == 504 and "begin to speak" in answer.text()
        # The other one waited for what the first had gone ahead of.
        answer = client.wait(second)
        assert answer.status == 200 and answer.json()["conn"] == 2
        assert client.ask("GET", "/test/echo").json()["conn"] == 2
    assert len(d.journal(event="close", reason="response_timeout")) == 1
    until("the dead one is let go", lambda: up.of("end", conn=1))


def test_a_shared_connection_that_nobody_uses_is_closed(daemon, up):
    d = daemon({"timeouts": {"idle_up": "300ms"}})
    with h2_tunnel(d, "open.test") as client:
        assert client.ask("GET", "/test/echo").json()["conn"] == 1
        until("it is closed", lambda: up.of("end", conn=1), 5)
        assert client.ask("GET", "/test/echo").json()["conn"] == 2
        held = client.start("GET", "/test/sse?n=20&ms=100")
        assert client.wait(held).complete, "one in use stays"
    assert not up.of("reset")


def test_a_reload_ends_what_it_forbids_and_nothing_else_on_a_shared_connection(daemon, up):
    d = daemon(overrides={"tenants": {"acme": {"rules": [{"allow": "https://open.test"}]}}})
    with h2_tunnel(d, "open.test") as client, Tunnel(d, "open.test") as h1:
        forbidden = [client.start("GET", f"/test/hold?n={n}") for n in range(3)]
        upload = client.start("POST", "/test/echo?up=1", end=False)
        client.put(upload, b"first half, ")
        until("they are there", lambda: len(up.of("head")) == 4)
        kept = client.start("GET", "/test/sse?n=30&ms=50")
        client.wait_head(kept)
        assert up.connections == 1
        reload(d, {"deny": "https://open.test/test/hold"}, {"allow": "https://open.test"})
        assert [client.wait(stream).status for stream in forbidden] == [403] * 3
        client.put(upload, b"second half", end=True)
        assert client.wait(kept).complete and client.wait(upload).json()["body_bytes"] == 23
        assert client.ask("GET", "/test/hold").status == 403
        # What is decided under the new rules goes by a connection of theirs, from either version.
        assert client.ask("GET", "/test/echo").json()["conn"] == 2
        assert h1.ask("GET", "/test/echo").json()["conn"] == 2
        until("the old one is let go", lambda: up.of("end", conn=1))
    assert sorted(e["code"] for e in up.of("reset", conn=1)) == [8] * 3
    assert len(d.journal(event="close", reason="no_rule")) == 3


def test_another_credential_is_another_connection(daemon, up):
    """One host, on one connection of the sandbox's: what goes up differs, and so does its connection."""
    d = daemon({
        "credentials": {"second": {"value": {"file": "secret"}, "header": {"x-second": "{}"}, "hosts": ["api.test"]}},
        "tenants": {"acme": {"rules": [
            {"allow": "https://api.test/test/echo/second", "credential": "second"},
            {"allow": "https://api.test/test/echo/none"},
            {"allow": "https://api.test", "credential": "main"},
        ]}},
    })  # fmt: skip
    seen = {}
    with h2_tunnel(d, "api.test") as client:
        for path in ("main", "second", "none", "main", "none", "second"):
            what = client.ask("GET", "/test/echo/" + path).json()
            keys = [n for n, _ in what["fields"] if n in ("x-api-key", "x-second")]
            seen.setdefault((path, *keys), set()).add(what["conn"])
    assert sorted(seen) == [("main", "x-api-key"), ("none",), ("second", "x-second")]
    assert sorted(seen.values(), key=min) == [{1}, {2}, {3}]


def test_credentials_change_with_a_reload_while_a_shared_connection_is_open(daemon, up):
    """A connection's key holds what its rules meant: after a reload no request of theirs goes by it."""
    rules = [{"allow": "https://api.test", "credential": "main"}]
    d = daemon(overrides={"tenants": {"acme": {"rules": rules}}})
    with h2_tunnel(d, "api.test") as client:
        held = client.start("GET", "/test/sse?n=20&ms=50")
        client.wait_head(held)
        seen = dict(map(tuple, client.ask("GET", "/test/echo").json()["fields"]))
        assert seen["x-api-key"].startswith("sha256:")
        reload(d, {"allow": "https://api.test"})
        # What was decided just before still has its key, by a connection of its own.
        answer = until("the new rules are there", lambda: (
            lambda a: a if "x-api-key" not in dict(map(tuple, a.json()["fields"])) else None)(
                client.ask("GET", "/test/echo")))  # fmt: skip
        assert answer.json()["conn"] != 1
        assert client.wait(held).complete


def test_through_the_sites_own_proxy(daemon, up):
    proxy = ConnectProxy({"*": up.address})
    try:
        d = daemon({"upstream": {"resolve": None, "proxy": {"url": proxy.url}}})
        with h2_tunnel(d, "open.test") as client:
            streams = [client.start("GET", f"/test/bytes?n={n}") for n in range(0, 200_000, 10_000)]
            assert [len(client.wait(s).body) for s in streams] == list(range(0, 200_000, 10_000))
            assert client.ask("POST", "/test/echo", body=b"x" * 500_000).json()["body_bytes"] == 500_000
        assert ask_h1(d, "/test/echo").json()["conn"] == 1
        assert proxy.targets == ["open.test:443"], "one CONNECT for all"
        assert up.of("open")[0]["alpn"] == "h2" and up.connections == 1
        # Another host is another tunnel, whatever the certificate would cover.
        assert ask_h2(d, "/test/echo", host="auth.test").status == 200
        assert proxy.targets == ["open.test:443", "auth.test:443"]
        assert not [head for head in proxy.heads if b"PRI" in head]
    finally:
        proxy.close()
