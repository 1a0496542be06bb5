"""Base-URL mode: http://keyhole.internal/to/HOST/PATH is the request https://HOST/PATH."""

import os
import subprocess

import pytest
from h2client import h2_plain
from harness import FINGERPRINT, PATIENCE, PLACEHOLDER, SECRET, Tunnel, Wire, until
from tunnels import Direct, Socks

OWN = "keyhole.internal"


def origin_form(daemon, path, fields=(), method="GET", host=OWN, body=None):
    with Wire(daemon.socket_path) as wire:
        return wire.ask(method, path, fields, body, host=host)


def absolute_form(daemon, path, fields=(), method="GET", host=OWN, body=None):
    with Wire(daemon.socket_path) as wire:
        return wire.ask(method, f"http://{host}{path}", fields, body, host=host)


def in_a_tunnel(daemon, path, fields=(), method="GET", host=OWN, body=None):
    with Wire(daemon.socket_path) as wire:
        wire.send(f"CONNECT {OWN}:80 HTTP/1.1\r\nHost: {OWN}:80\r\n\r\n")
        assert wire.read_head().status == 200
        return wire.ask(method, path, fields, body, host=host)


def in_tls(daemon, path, fields=(), method="GET", host=OWN, body=None):
    with Tunnel(daemon, OWN) as tunnel:
        return tunnel.ask(method, path, fields, body, host=host)


def over_socks(daemon, path, fields=(), method="GET", host=OWN, body=None):
    with Socks(daemon, OWN, 80) as wire:
        return wire.ask(method, path, fields, body, host=host)


WAYS = [origin_form, absolute_form, in_a_tunnel, in_tls, over_socks]
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@ways
def test_it_is_that_request(shared, mock, way):
    target = "/test/echo/a%2Fb//%41;p=1?q=%20x&r=%C3%A9&&s"
    answer = way(shared, "/to/api.test" + target, [("x-api-key", PLACEHOLDER), ("X-Test-Id", way.__name__)])
    assert answer.status == 200, answer
    what = answer.json()
    assert what["line"] == f"GET {target} HTTP/1.1", "byte for byte"
    fields = {n.lower(): v for n, v in what["fields"]}
    assert fields["host"] == "api.test"
    assert fields["x-api-key"] == "sha256:" + FINGERPRINT
    record = shared.journal(event="open", via="base_url")[-1]
    assert (record["server.address"], record["server.port"]) == ("api.test", 443)
    assert (record["url.scheme"], record["credential"]) == ("https", "main")
    assert record["url.path"].startswith("/test/echo/") and record["stripped"] == "x-api-key"


def test_content_and_further_requests_on_the_connection(shared):
    with Wire(shared.socket_path) as wire:
        for n in range(3):
            answer = wire.ask("POST", "/to/api.test/test/echo", [], b"x" * n, host=OWN)
            assert answer.json()["body_bytes"] == n
        assert wire.ask("GET", "/to/open.test/test/echo", host=OWN).status == 200


def test_http2_on_the_socket_too(shared):
    with h2_plain(shared) as client:
        answer = client.ask("GET", "/to/api.test/test/echo", authority=OWN)
        assert answer.status == 200 and FINGERPRINT in answer.text()


@ways
def test_the_same_rules_hold(shared, mock, way):
    answer = way(shared, "/to/other.test/test/echo", [("X-Test-Id", "base-1")])
    assert answer.status == 403 and answer.json()["keyhole"]["reason"] == "no_rule"
    assert "https://other.test/test/echo" in answer.text()
    answer = way(shared, "/to/open.test/test/echo", [("X-Test-Id", "base-1"), ("Authorization", "Bearer mine")])
    assert answer.status == 403 and answer.json()["keyhole"]["reason"] == "client_auth"
    mock.never("base-1")
    record = shared.journal(event="deny", via="base_url")[-1]
    assert record["server.address"] == "open.test"


def test_a_port_is_that_port(daemon, mock):
    one = daemon(rules=[{"allow": "https://api.test:8443", "credential": "main"}])
    assert origin_form(one, "/to/api.test:8443/test/echo").status == 200
    assert origin_form(one, "/to/api.test/test/echo").status == 403
    assert one.journal(event="open")[0]["server.port"] == 8443


def test_no_path_is_the_root(shared):
    assert origin_form(shared, "/to/open.test").status == origin_form(shared, "/to/open.test/").status
    records = until("both", lambda: [r for r in shared.journal(via="base_url") if r.get("url.path") == "/"])
    assert len(records) == 2


@pytest.mark.parametrize(
    "path",
    ["/to/", "/to//test/echo", "/to/?x=1", "/to/user@api.test/test/echo", "/to/user:pw@api.test/x", "/to/api.test%2ftest/echo",
     "/to/api%2etest/test/echo", "/to/%61pi.test/test/echo", "/to/api.test:/x", "/to/api.test:0443/x", "/to/api.test:0/x",
     "/to/api.test:99999/x", "/to/api.test./x", "/to/api.test;x/y", "/to/[api.test]/x", "/to/::1/x", "/to/0x7f000001/x",
     "/to/https://api.test/x", "/to/api.test?x=1", "/to/api.test/../open.test/x", "/to/../to/api.test/x",
     "/to/./api.test/x", "/to/open.test/%2e%2e/api.test/test/echo", "/to/api.test/a/..%2f../b", "/to/api.test\\@open.test/x",
     "/to/api.test#@open.test/x", "/to/api.test,open.test/x", "/to/keyhole.internal/to/api.test/x", "/to/KEYHOLE.internal/x"],
)  # fmt: skip
@pytest.mark.parametrize("way", [origin_form, absolute_form], ids=lambda way: way.__name__)
def test_an_ambiguous_spelling_is_refused(shared, mock, way, path):
    mark = mock.mark()
    assert way(shared, path).status == 400
    assert mock.requests(since=mark) == []


@pytest.mark.parametrize("path", ["/status", "/to", "/To/api.test/x", "/%74o/api.test/x", "/t%6F/api.test/x", "/x/to/api.test/x",
                                  "//to/api.test/x", "/status?x=1"])  # fmt: skip
def test_elsewhere_there_is_nothing(shared, mock, path):
    mark = mock.mark()
    answer = origin_form(shared, path, [("Accept", "application/json")])
    assert answer.status == 404 and answer.json()["keyhole"]["reason"] == "no_page"
    assert "/to/HOST" in answer.text()
    assert mock.requests(since=mark) == []


def test_the_name_is_never_looked_up_or_dialled(daemon, fake_dns):
    one = daemon(
        {"upstream": {"resolve": None, "nameservers": [fake_dns.address]}},
        rules=[{"allow": "https://**"}, {"allow": "http://**"}, {"allow": "http://**:8080"}, {"allow": "tcp://**:22"},
               {"allow": "tcp://**:80"}],
    )  # fmt: skip
    assert absolute_form(one, "/x").status == 404
    assert absolute_form(one, "/to/api.test/x", host=OWN + ":8080").status == 404
    with Wire(one.socket_path) as wire:
        wire.send(f"CONNECT {OWN}:22 HTTP/1.1\r\nHost: {OWN}:22\r\n\r\n")
        assert wire.read_head().status == 200
        wire.send(b"\0")
        assert wire.is_closed()
    assert one.journal(event="open") == []
    assert fake_dns.asked == []


@pytest.mark.parametrize("host", ["keyhole.internal.", "x.keyhole.internal", "keyhole.internal.test", "keyhole.internal:8080", ""])
def test_another_name_is_another_host(shared, host):
    answer = origin_form(shared, "/to/api.test/test/echo", host=host)
    assert answer.status in (400, 404)


def test_the_host_field_must_agree(shared, mock):
    with Wire(shared.socket_path) as wire:
        wire.start("GET", f"http://{OWN}/to/api.test/test/echo", [("X-Test-Id", "base-2")], host="api.test")
        assert wire.response().status == 400
    assert in_a_tunnel(shared, "/to/api.test/test/echo", [("X-Test-Id", "base-2")], host="api.test").status == 421
    mock.never("base-2")


def test_a_tunnel_to_another_host_knows_no_base_url(shared, mock):
    with Tunnel(shared, "open.test") as tunnel:
        answer = tunnel.ask("GET", "/to/api.test/test/echo", [("X-Test-Id", "base-3")])
    assert "/to/api.test/" in str(mock.requests("base-3")[0]), "it is a path like any other"
    assert answer.status != 200 or FINGERPRINT not in answer.text()


def test_redirects_are_left_alone(shared, mock):
    answer = origin_form(shared, "/to/open.test/test/status?code=302")
    assert answer.status == 302 and answer.get("location") is None


def test_tls_straight_away_to_the_own_name(shared):
    with Direct(shared, OWN) as tunnel:
        assert tunnel.ask("GET", "/to/api.test/test/echo").status == 200


def test_curl_with_a_base_url_over_the_unix_socket(shared):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", str(PATIENCE), "--unix-socket", shared.socket_path,
         f"http://{OWN}/to/api.test/test/echo?by=curl"],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and FINGERPRINT in done.stdout, done.stderr
    assert SECRET not in done.stdout
