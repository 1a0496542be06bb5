"""Limits of site, tenant, sandbox and rule: what is refused, with which words, and exactly when."""

import json
import subprocess
import threading
import time

import pytest
from clients import Closed
from h2client import StreamWire, h2_plain, h2_tunnel
from harness import KEYHOLE, Refused, Tunnel, Wire, until
from tcp_origins import TcpOrigin, echo
from tunnels import Socks, SocksRefused


def ask(daemon, target="/test/status?code=204", method="GET", fields=(), body=None, host="open.test", **kind):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask(method, target, fields, body, host, **kind)


def is_served(daemon):
    try:
        return ask(daemon).status == 204
    except Refused:
        return False


def limits(**of):
    """limits(tenant={…}, site={…}, sandbox={…}) as overrides."""
    config = {}
    if "tenant" in of:
        config["tenants"] = {"acme": {"limits": of["tenant"]}}
    if "site" in of:
        config["site"] = {"limits": of["site"]}
    if "sandbox" in of:
        config["listen"] = [
            {"unix": "d/s", "tenant": "acme", "sandbox": "one", "limits": of["sandbox"]},
            {"unix": "e/s", "tenant": "acme", "sandbox": "two"},
        ]
    return config


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner, name", [("site", ""), ("tenant", "acme"), ("sandbox", "one")])
def test_requests_are_counted_and_the_next_one_is_told_when_to_come_back(daemon, mock, owner, name):
    one = daemon(limits(**{owner: {"requests": "3/min"}}))
    assert [ask(one).status for _ in range(3)] == [204] * 3
    answer = ask(one, "/test/echo", fields=[("Accept", "application/json"), ("X-Test-Id", f"over-{owner}")])
    assert answer.status == 429
    assert 18 <= int(answer.get("retry-after")) <= 20
    assert "http_request_denied" not in answer.get("proxy-status")
    body = answer.json()
    assert body["error"]["type"] == "rate_limit_error" and body["error"]["code"] == "keyhole_limit"
    assert body["keyhole"]["retry"] is True
    limit = body["keyhole"]["limit"]
    assert limit["of"] == owner and limit["name"] == name
    assert limit["limit"] == "requests 3/min" and limit["used"] == limit["most"] == 3
    assert 58000 <= limit["reset_ms"] <= 60000 and limit["retry_after_ms"] <= 20000
    mock.never(f"over-{owner}")
    (record,) = [r for r in one.records_of("/test/echo") if r["event"] == "deny"]
    assert record["reason"] == "limit" and record["http.response.status_code"] == 429
    assert record["limit"] == f"{owner} {name}: requests 3/min".replace(" :", ":")


def test_a_rules_limit_is_the_rules_alone(daemon):
    one = daemon(rules=[
        {"allow": "GET https://open.test/test/echo", "limits": {"requests": "2/h"}},
        {"allow": "https://open.test"},
    ])  # fmt: skip
    assert [ask(one, "/test/echo").status for _ in range(3)] == [200, 200, 429]
    assert ask(one).status == 204
    answer = ask(one, "/test/echo")
    assert "rule 'GET https://open.test/test/echo'" in answer.text()


def test_a_rule_of_the_site_has_limits_too(daemon):
    one = daemon({"site": {"rules": [
        {"allow": "https://open.test/test/**", "limits": {"requests": "1/h"}},
        {"allow": "https://**"},
    ]}})  # fmt: skip
    assert [ask(one).status for _ in range(2)] == [204, 429]
    assert ask(one, host="auth.test").status == 204


def test_sandboxes_share_their_tenants_limit_and_not_each_others(daemon):
    one = daemon({**limits(sandbox={"requests": "2/h"}), "tenants": {"acme": {"limits": {"requests": "5/h"}}}})
    got = [ask(one).status for _ in range(3)]
    one.socket_path = one.socket_path.replace("/d/", "/e/")
    got += [ask(one).status for _ in range(4)]
    one.socket_path = one.socket_path.replace("/e/", "/d/")
    # The third one was refused by its sandbox, and used up nothing of the tenant's.
    assert got == [204, 204, 429, 204, 204, 204, 429]


def test_a_burst_and_two_periods(daemon):
    one = daemon(limits(tenant={"requests": [{"rate": "60/min", "burst": 2}, "4/h"]}))
    assert [ask(one).status for _ in range(3)] == [204, 204, 429]
    answer = ask(one)
    assert int(answer.get("retry-after")) == 1 and "60/min, burst 2" in answer.text()
    time.sleep(2.1)
    assert [ask(one).status for _ in range(2)] == [204, 204]
    time.sleep(1.1)
    answer = ask(one)
    assert answer.status == 429 and "4/h" in answer.text()
    assert int(answer.get("retry-after")) > 800


def test_where_waiting_does_not_help_it_is_403(daemon):
    one = daemon(limits(tenant={"requests": "2/day"}))
    ask(one), ask(one)
    answer = ask(one, "/test/echo", fields=[("Accept", "application/json")])
    assert answer.status == 403 and answer.get("retry-after") is None
    body = answer.json()
    assert body["keyhole"]["reason"] == "limit_spent" and body["keyhole"]["retry"] is False
    assert "Allowed:" not in body["error"]["message"]
    (record,) = [r for r in one.records_of("/test/echo") if r["event"] == "deny"]
    assert record["reason"] == "limit_spent" and record["limit"] == "tenant acme: requests 2/day"


def test_what_is_denied_or_malformed_uses_up_nothing(daemon):
    one = daemon(limits(tenant={"requests": "2/h"}))
    for _ in range(4):
        assert ask(one, "/", host="other.test").status == 403
        assert ask(one, "/../x").status == 400
        assert ask(one, "/test/echo", fields=[("Authorization", "Bearer x")]).status == 403
    assert [ask(one).status for _ in range(3)] == [204, 204, 429]


def test_many_at_once_on_all_threads_get_exactly_as_many(daemon):
    """20 connections, 400 requests, 4 threads, 123 of them."""
    one = daemon({**limits(tenant={"requests": "123/day"}), "worker": {"threads": 4}})
    got = []

    def work():
        with Tunnel(one, "open.test") as tunnel:
            for _ in range(20):
                got.append(tunnel.ask("GET", "/test/status?code=204", host="open.test").status)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.count(204) == 123 and got.count(429) == 277


def test_streams_of_http2_are_requests_each(daemon):
    one = daemon(limits(tenant={"requests": "5/h"}))
    with h2_tunnel(one, "open.test") as client:
        streams = [client.start("GET", "/test/status?code=204") for _ in range(8)]
        answers = [client.wait(stream) for stream in streams]
    refused = [a for a in answers if a.status == 429]
    assert len(refused) == 3 and len(answers) - 3 == [a.status for a in answers].count(204)
    assert all(0 < int(a.get("retry-after")) <= 720 for a in refused)
    assert refused[0].json()["keyhole"]["limit"]["limit"] == "requests 5/h"


# --- concurrency ----------------------------------------------------------------------------------


def test_so_many_run_at_a_time_and_a_place_comes_back(daemon):
    one = daemon(limits(tenant={"concurrency": 2, "requests": "100/day"}))
    with Tunnel(one, "open.test") as a, Tunnel(one, "open.test") as b:
        a.start("GET", "/test/hold", host="open.test")
        b.start("GET", "/test/hold", host="open.test")
        until("both run", lambda: len(one.journal(event="open")) == 2)
        answer = ask(one)
        assert answer.status == 429 and answer.get("retry-after") == "1"
        assert "concurrency 2 (2 at this moment)" in answer.text()
        assert "connection_limit_reached" in answer.get("proxy-status")
        a.close()
        until("a place is free", lambda: is_served(one))
    until("all are", lambda: is_served(one))


def test_a_refused_request_gives_back_what_it_took(daemon):
    one = daemon(limits(tenant={"concurrency": 1, "requests": "4/day"}))
    with Tunnel(one, "open.test") as held:
        held.start("GET", "/test/hold", host="open.test")
        until("it runs", lambda: len(one.journal(event="open")) == 1)
        assert [ask(one).status for _ in range(6)] == [429] * 6
    until("a place is free", lambda: is_served(one))
    assert [ask(one).status for _ in range(3)] == [204, 204, 403]


# --- connections ----------------------------------------------------------------------------------


def test_a_connection_too_many_is_told_so_in_its_protocol(daemon, plain_mock):
    config = limits(tenant={"connections": 2})
    config["upstream"] = {"resolve": {"plain.test": plain_mock.address}}
    one = daemon(config, rules=[{"allow": "https://open.test"}, {"allow": "http://plain.test"}])
    with Tunnel(one, "open.test") as a, Tunnel(one, "open.test") as b:
        assert a.ask("GET", "/test/status?code=204", host="open.test").status == 204
        with Wire(one.socket_path) as wire:
            wire.send(b"CONNECT open.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n")
            answer = wire.response("CONNECT")
        assert answer.status == 429 and answer.get("retry-after") == "1"
        assert "connections 2" in answer.text()
        with Wire(one.socket_path) as wire:
            answer = wire.ask("GET", "http://plain.test/test/echo", host="plain.test")
            assert answer.status == 429 and answer.get("retry-after") == "1"
        with pytest.raises(SocksRefused) as refused:
            Socks(one, "open.test")
        assert refused.value.code == 1
        with h2_plain(one) as client:
            answer = client.ask("GET", "/test/echo", authority="plain.test")
            assert answer.status == 429 and answer.get("retry-after") == "1"
        record = one.journal(event="deny")[-1]
        assert record["limit"] == "tenant acme: connections 2"
        b.close()
        until("there is room", lambda: is_served(one))


def test_who_waits_becomes_a_connection_when_there_is_room(daemon, plain_mock):
    config = limits(sandbox={"connections": 1})
    config["upstream"] = {"resolve": {"plain.test": plain_mock.address}}
    one = daemon(config, rules=[{"allow": "http://plain.test"}])
    with Wire(one.socket_path) as first:
        assert first.ask("GET", "http://plain.test/test/echo", host="plain.test").status == 200
        # Not sooner: several threads accept, so of two connections that come together either may be the first.
        with Wire(one.socket_path) as second:
            assert second.ask("GET", "http://plain.test/test/echo", host="plain.test").status == 429
            first.close()
            until("its place is free", lambda: second.ask(
                "GET", "http://plain.test/test/echo", host="plain.test").status == 200)  # fmt: skip


def test_tunnels_in_http2_are_connections(daemon):
    one = daemon(limits(tenant={"connections": 3}))
    with h2_plain(one) as client:
        for _ in range(2):
            StreamWire(client, "open.test:443").accept()
        with pytest.raises(Refused) as refused:
            StreamWire(client, "open.test:443").accept()
        answer = refused.value.response
        assert answer.status == 429 and answer.get("retry-after") == "1"
        assert until("its record", lambda: one.journal(event="deny"))[0]["limit"] == "tenant acme: connections 3"
    until("all are gone", lambda: is_served(one))


# --- bytes and sizes ------------------------------------------------------------------------------


def test_bytes_down_end_an_answer_and_refuse_the_next(daemon):
    one = daemon(limits(tenant={"bytes_down": "100KiB/day"}))
    assert len(ask(one, "/test/bytes?n=60000").body) == 60000
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=300000", host="open.test")
        assert len(tunnel.response(partial=True).body) == 102400 - 60000
    record = until("its end", lambda: [r for r in one.journal(event="close") if r.get("limit")])[0]
    assert record["limit"] == "tenant acme: bytes_down 100KiB/day" and record["complete"] is False
    assert record["reason"] == "limit_spent"
    closes = one.journal(event="close")
    assert sum(r["http.response.body.size"] for r in closes) == 102400
    answer = ask(one, "/test/echo", fields=[("Accept", "application/json")])
    assert answer.status == 403  # one byte comes back each 0.84 seconds
    assert 102400 - 20 <= answer.json()["keyhole"]["limit"]["used"] <= 102400


def test_an_upload_needs_its_bytes_and_a_request_without_content_does_not(daemon):
    one = daemon(limits(tenant={"bytes_up": "10KiB/h"}))
    assert ask(one, "/test/echo", "POST", body=b"x" * 10241).status == 403, "never"
    assert ask(one, "/test/echo", "POST", body=b"x" * 10000).status == 200
    answer = ask(one, "/test/echo", "POST", body=b"x" * 600)
    assert answer.status == 429 and 0 < int(answer.get("retry-after")) <= 130
    assert ask(one).status == 204
    assert ask(one, "/test/echo", "POST", body=b"x" * 200).status == 200


def test_chunked_content_is_counted_as_it_flows(daemon, mock):
    one = daemon(limits(tenant={"bytes_up": "10KiB/day"}))
    with Tunnel(one, "open.test") as tunnel:
        tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(20):
            tunnel.send(b"400\r\n" + b"x" * 1024 + b"\r\n")
        answer = tunnel.response("POST")
    assert answer.status == 403 and "bytes_up 10KiB/day" in answer.text()
    (record,) = until("its end", lambda: one.journal(event="close"))
    assert record["http.request.body.size"] == 10240


@pytest.mark.parametrize("announced", [True, False])
def test_content_above_max_body_is_413(daemon, mock, announced):
    one = daemon(limits(tenant={"max_body": "1KiB"}))
    assert ask(one, "/test/echo", "POST", body=b"x" * 1024).status == 200
    with Tunnel(one, "open.test") as tunnel:
        head = b"POST /test/echo?large HTTP/1.1\r\nHost: open.test\r\nAccept: application/json\r\n"
        if announced:
            tunnel.send(head + b"Content-Length: 1025\r\n\r\n" + b"x" * 1025)
        else:
            tunnel.send(head + b"Transfer-Encoding: chunked\r\n\r\n401\r\n" + b"x" * 1025 + b"\r\n0\r\n\r\n")
        answer = tunnel.response("POST")
    assert answer.status == 413
    assert answer.json()["keyhole"]["limit"]["limit"] == "max_body 1KiB"
    (record,) = until("its record", lambda: [r for r in one.journal() if "limit" in r])
    assert record["reason"] == "content_too_large" and record["limit"] == "tenant acme: max_body 1KiB"


# --- tunnels --------------------------------------------------------------------------------------


@pytest.fixture
def tcp(daemon):
    origins = []

    def make(overrides, rule=None):
        origins.append(TcpOrigin(echo))
        config = {"upstream": {"resolve": {"git.test": origins[-1].address}}, **overrides}
        return daemon(config, rules=[{"allow": "tcp://git.test:22", **(rule or {})}])

    yield make
    for origin in origins:
        origin.close()


def connect(daemon):
    wire = Wire(daemon.socket_path)
    wire.send(b"CONNECT git.test:22 HTTP/1.1\r\nHost: git.test:22\r\n\r\n")
    answer = wire.read_head()
    if answer.status != 200:
        for piece in wire.pieces(answer):
            answer.body += piece
    return wire, answer


def test_a_tunnel_is_one_request_and_one_exchange(tcp):
    one = tcp(limits(tenant={"requests": "5/h", "concurrency": 1}))
    wire, answer = connect(one)
    assert answer.status == 200
    wire.send(b"hello")
    assert wire.take(5) == b"hello"
    other, answer = connect(one)
    assert answer.status == 429 and answer.get("retry-after") == "1"
    assert json.loads(answer.body)["keyhole"]["limit"]["limit"] == "concurrency 1"
    other.close()
    with pytest.raises(SocksRefused) as refused:
        Socks(one, "git.test", 22)
    assert refused.value.code == 1
    wire.close()
    until("its place is free", lambda: connect(one)[1].status == 200)


def test_a_tunnels_bytes_are_counted_both_ways(tcp):
    one = tcp(limits(tenant={"bytes_up": "3000B/day"}))
    wire, answer = connect(one)
    wire.send(b"x" * 2000)
    assert len(wire.take(2000)) == 2000
    wire.send(b"x" * 2000)
    with pytest.raises((Closed, OSError)):
        wire.take(2000)
    (record,) = until("its end", lambda: one.journal(event="close"))
    assert record["reason"] == "limit_spent" and record["http.request.body.size"] == 3000
    wire, answer = connect(one)
    assert answer.status == 403


@pytest.mark.parametrize("of", ["tenant", "rule"])
def test_a_tunnel_lives_as_long_as_it_may(tcp, of):
    life = {"tunnel_lifetime": "1s"}
    one = tcp(limits(tenant=life) if of == "tenant" else {}, {"limits": life} if of == "rule" else None)
    began = time.monotonic()
    wire, answer = connect(one)
    assert answer.status == 200
    with pytest.raises((Closed, OSError)):
        while True:
            wire.send(b"x")
            wire.take(1)
            time.sleep(0.05)
    assert 0.9 <= time.monotonic() - began < 15
    (record,) = until("its end", lambda: one.journal(event="close"))
    assert record["reason"] == "tunnel_lifetime" and record["limit"].endswith("tunnel_lifetime 1s")


def test_a_tunnel_that_is_read_ends_between_two_requests(daemon):
    one = daemon(limits(tenant={"tunnel_lifetime": "1s"}))
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/status?code=204", host="open.test").status == 204
        # What runs at the end comes to its own.
        answer = tunnel.ask("GET", "/test/sse?n=15&ms=100", host="open.test")
        assert answer.status == 200 and answer.body.count(b"data:") == 15
        assert tunnel.is_closed()
    with h2_tunnel(one, "open.test") as client:
        answer = client.ask("GET", "/test/sse?n=15&ms=100")
        assert answer.body.count(b"data:") == 15
        assert client.until_goaway() == 0


# --- observe --------------------------------------------------------------------------------------


def test_a_tenant_that_observes_is_told_what_would_be_refused(daemon):
    config = limits(tenant={"requests": "1/day", "bytes_down": "100B/day"}, site={"requests": "4/day"})
    config["tenants"]["acme"]["mode"] = "observe"
    one = daemon(config)
    assert [ask(one, f"/test/bytes?n=90&{i}").status for i in range(5)] == [200, 200, 200, 200, 403]
    opens = one.journal(event="open")
    assert [r.get("would_deny") for r in opens] == [None, "limit_spent", "limit_spent", "limit_spent"]
    assert opens[1]["would_deny.limit"] == "tenant acme: requests 1/day"
    denied = one.journal(event="deny")
    assert denied[0]["limit"] == "site: requests 4/day"


def test_what_is_reached_on_the_way_is_observed_too(daemon):
    config = limits(tenant={"bytes_down": "1000B/day", "max_body": "10B"})
    config["tenants"]["acme"]["mode"] = "observe"
    one = daemon(config)
    assert len(ask(one, "/test/bytes?n=5000").body) == 5000
    (close,) = until("its end", lambda: one.journal(event="close"))
    assert close["would_deny.limit"] == "tenant acme: bytes_down 1000B/day" and close["complete"]
    assert "limit" not in close and "reason" not in close


# --- check and explain ----------------------------------------------------------------------------


def said(tmp_path, limits_, rule="", site="", more=""):
    path = tmp_path / "k.yaml"
    path.write_text(f"version: 1\nsite: {{ limits: {{ {site} }} }}\ntenants:\n  a:\n    limits: {{ {limits_} }}\n"
                    f"    rules: [ {{ allow: 'https://x.test'{rule} }} ]\n{more}")  # fmt: skip
    done = subprocess.run([KEYHOLE, "check", "-c", path], capture_output=True, text=True, timeout=30, check=False)
    return done.returncode, done.stderr.replace(str(path) + ":", "")


@pytest.mark.parametrize("limits_, wrong", [
    ("requests: 600", "5:25: error: tenants.a.limits.requests: expected a rate such as 10/s"),
    ("requests: 600/week", "5:25: error: tenants.a.limits.requests: expected a rate"),
    ("requests: 0/min", "5:25: error: tenants.a.limits.requests: nothing could ever go through"),
    ("requests: { rate: 5/s, burst: 0 }", "5:25: error: tenants.a.limits.requests: with a burst of 0"),
    ("requests: { rate: 5/s, size: 3 }", "5:38: error: unknown key \"size\""),
    ("requests: { burst: 3 }", "5:25: error: tenants.a.limits.requests: expected a rate"),
    ("requests: []", "5:25: error: tenants.a.limits.requests: expected a rate"),
    ("requests: [ 5/s, 6/s ]", "5:32: error: tenants.a.limits.requests: one of this period"),
    ("requests: 100001/s", "5:25: error: tenants.a.limits.requests: more than 100000 a second"),
    ("requests: 99999999999999999999/s", "5:25: error: tenants.a.limits.requests: expected a rate"),
    ("bytes_up: 600/min", "5:25: error: tenants.a.limits.bytes_up: expected a rate such as 1MiB/s"),
    ("bytes_down: 9GiB/s", "5:27: error: tenants.a.limits.bytes_down: more than 8GiB"),
    ("concurrency: 0", "5:28: error: tenants.a.limits.concurrency: expected a whole number"),
    ("connections: many", "5:28: error: tenants.a.limits.connections: expected a whole number"),
    ("max_body: 0B", "5:25: error: tenants.a.limits.max_body: expected a size"),
    ("tunnel_lifetime: 10", "5:32: error: tenants.a.limits.tunnel_lifetime: expected a duration"),
    ("request: 5/s", "5:15: error: unknown key \"request\" in tenants.a.limits (did you mean \"requests\"?)"),
])  # fmt: skip
def test_each_mistake_in_a_limit_has_its_place(tmp_path, limits_, wrong):
    status, text = said(tmp_path, limits_)
    assert status == 1 and wrong in text, text


@pytest.mark.parametrize("limits_, rule, site, warning", [
    ("requests: [ 10/s, 600/min ]", "", "", "600/min can never be reached: 10/s is reached first"),
    ("requests: 600/min", "", "requests: 500/min", "600/min can never be reached: the site's 500/min"),
    ("concurrency: 10", ", limits: { concurrency: 11 }", "", "11 can never be reached: its tenant's 10"),
    ("bytes_up: 1MiB/h, max_body: 2MiB", "", "", "2MiB can never be reached: its own bytes_up, with 1MiB"),
    ("connections: 99999", "", "connections: 5", "99999 can never be reached: the site's 5"),
    ("tunnel_lifetime: 2h", "", "tunnel_lifetime: 1h", "2h can never be reached: the site's 1h"),
])  # fmt: skip
def test_a_limit_that_can_never_be_reached_is_warned_about(tmp_path, limits_, rule, site, warning):
    status, text = said(tmp_path, limits_, rule, site)
    assert status == 0 and f"warning: limits." in text and warning in text, text


@pytest.mark.parametrize("limits_, rule, site", [
    ("requests: [ 100/s, 600/min ]", "", "requests: 600/min"),
    ("concurrency: 10", ", limits: { concurrency: 10, requests: 2M/day }", "concurrency: 10"),
    ("bytes_up: 1MiB/h, max_body: 1MiB", "", ""),
])  # fmt: skip
def test_what_can_be_reached_is_not_warned_about(tmp_path, limits_, rule, site):
    assert said(tmp_path, limits_, rule, site) == (0, "")


def test_limits_belong_where_something_goes_through(tmp_path):
    more = "listen: [ { unix: d/s, narrow: [ { allow: 'https://x.test', limits: { requests: 5/s } } ] } ]\n"
    status, text = said(tmp_path, "", ", limits: { connections: 4 }", more=more)
    assert 'unknown key "connections" in rules[].limits' in text
    assert "a narrowing only takes away: a sandbox's limits are listen[].limits" in text
    status, text = said(tmp_path, "", " }, { deny: 'https://y.test', limits: { requests: 5/s } ")
    assert status == 1 and "belongs to a rule that allows" in text
    status, text = said(tmp_path, "", ", tls: passthrough, limits: { max_body: 1KiB }")
    assert status == 1 and "nobody reads what passes there" in text


def test_explain_names_the_limits(tmp_path):
    path = tmp_path / "k.yaml"
    path.write_text("version: 1\nsite: { limits: { max_body: 5MiB } }\ntenants:\n  a:\n"
                    "    limits: { requests: { rate: 600/min, burst: 20 } }\n"
                    "    rules: [ { allow: 'https://x.test', limits: { concurrency: 3 } } ]\n")  # fmt: skip
    done = subprocess.run([KEYHOLE, "explain", "-c", path, "--json", "https://x.test/"], capture_output=True,
                          text=True, timeout=30, check=True)  # fmt: skip
    assert json.loads(done.stdout)["limits"] == [
        {"of": "rule", "limit": "concurrency", "text": "concurrency 3", "name": "https://x.test", "most": 3},
        {"of": "tenant", "limit": "requests", "text": "requests 600/min, burst 20", "name": "a", "most": 20,
         "period_ms": 60000},
        {"of": "site", "limit": "max_body", "text": "max_body 5MiB", "most": 5 << 20},
    ]  # fmt: skip
