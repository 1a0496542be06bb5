"""SOCKS5 on the sandbox's socket is CONNECT in another spelling, and as strict."""

import os
import subprocess

import pytest
from harness import FINGERPRINT, PATIENCE, SECRET, Tunnel, Wire, client_context, until
from test_reload import only, reload
from tunnels import Socks, SocksRefused

NOT_ALLOWED, FAILURE, COMMAND, ADDRESS = 2, 1, 7, 8


def deny_records(daemon, **match):
    return daemon.journal(event="deny", **match)


# --- it works -------------------------------------------------------------------------------------


def test_a_name_is_a_tunnel_like_any_other(shared, mock):
    with Socks(shared, "api.test").tls() as tunnel:
        what = tunnel.ask("GET", "/test/echo?socks", [("X-Test-Id", "socks-1")]).json()
        assert ["x-api-key", "sha256:" + FINGERPRINT] in what["fields"]
        assert tunnel.ask("GET", "/test/bytes?n=100000").body
    assert mock.requests("socks-1")
    opened = [r for r in shared.journal(event="open", via="socks5") if r["url.path"] == "/test/echo"]
    assert opened[0]["server.address"] == "api.test" and opened[0]["credential"] == "main"


def test_capitals_are_the_same_name(shared):
    with Socks(shared, "API.Test").tls("api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", host="api.test").status == 200


def test_plain_http_is_read_inside(daemon, plain_mock):
    one = daemon(
        {"upstream": {"resolve": {"plain.test": plain_mock.address}}},
        rules=[{"allow": "http://plain.test:8080"}],
    )
    with Socks(one, "plain.test", 8080) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host="plain.test:8080").status == 200
        assert tunnel.ask("GET", "/test/echo", host="plain.test").status == 421


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_addresses_are_hosts_and_the_guard_judges_them(daemon, mock, address):
    shown = f"[{address}]" if ":" in address else address
    one = daemon(rules=[{"allow": f"https://{shown}:{mock.port}"}])
    with Socks(one, address, mock.port).tls() as tunnel:
        answer = tunnel.ask("GET", "/test/echo", host=f"{shown}:{mock.port}")
        assert answer.status == 403 and "loopback" in answer.text()


def test_an_address_as_a_name_is_that_address(daemon, mock):
    """One reading: what a rule says of the address holds for its text too."""
    one = daemon(rules=[{"deny": "https://127.0.0.1"}, {"allow": "https://**"}])
    wire = Wire(one.socket_path)
    wire.send(b"\x05\x01\x00\x05\x01\x00\x03\x09127.0.0.1\x01\xbb")
    wire.take(2 + 10)
    tunnel = object.__new__(Socks)
    tunnel.__dict__.update(wire.__dict__, host="127.0.0.1")
    tunnel.start_tls(one, "127.0.0.1")
    with tunnel:
        answer = tunnel.ask("GET", "/test/echo")
        assert answer.status == 403 and "denies it" in answer.text()


def test_all_may_come_at_once(shared, mock):
    """Greeting, request and the first bytes of the tunnel in one piece."""
    with Wire(shared.socket_path) as wire:
        wire.send(b"\x05\x01\x00\x05\x01\x00\x03\x08api.test\x00\x50GET /x HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert wire.take(12) == b"\x05\x00" + b"\x05\x00\x00\x01" + bytes(6)
        assert wire.response().status == 403


def test_byte_by_byte(shared):
    with Wire(shared.socket_path) as wire:
        for byte in b"\x05\x02\x02\x00":
            wire.send(bytes([byte]))
        assert wire.take(2) == b"\x05\x00"
        for byte in b"\x05\x01\x00\x03\x08api.test\x01\xbb":
            wire.send(bytes([byte]))
        assert wire.take(10)[1] == 0


# --- refusals -------------------------------------------------------------------------------------


def test_a_refusal_is_read_inside(shared, mock):
    with Socks(shared, "other.test").tls() as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("X-Test-Id", "socks-2")])
        assert answer.status == 403 and answer.json()["keyhole"]["reason"] == "no_rule"
    mock.never("socks-2")


def test_another_sni_or_host_than_the_request_names_is_421(shared, mock):
    lax = client_context(shared.ca, check=False)
    with Socks(shared, "api.test").tls("open.test", context=lax) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 421
    with Socks(shared, "api.test").tls() as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("X-Test-Id", "socks-3")], host="open.test").status == 421
    mock.never("socks-3")


def test_a_tcp_rule_that_denies_is_answered_at_once(daemon):
    one = daemon(rules=[{"deny": "tcp://git.test:22"}, {"allow": "tcp://git.test:22"}])
    with pytest.raises(SocksRefused) as refused:
        Socks(one, "git.test", 22)
    assert refused.value.code == NOT_ALLOWED
    record = until("it is in the journal", lambda: deny_records(one))[0]
    assert (record["server.address"], record["server.port"]) == ("git.test", 22)
    assert (record["reason"], record["via"]) == ("denied_by_rule", "socks5")


@pytest.mark.parametrize(
    "request_bytes, code",
    [
        (b"\x05\x02\x00\x01\xc0\x00\x02\x01\x00\x50", COMMAND),
        (b"\x05\x03\x00\x01\xc0\x00\x02\x01\x00\x50", COMMAND),
        (b"\x05\x00\x00\x01\xc0\x00\x02\x01\x00\x50", COMMAND),
        (b"\x05\x01\x01\x03\x08api.test\x01\xbb", FAILURE),
        (b"\x04\x01\x00\x03\x08api.test\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x02\x08api.test\x01\xbb", ADDRESS),
        (b"\x05\x01\x00\x03\x00\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x08api.test\x00\x00", FAILURE),
        (b"\x05\x01\x00\x03\x13api.test\x00.other.test\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x09api.test\x00\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x09 api.test\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x09api.test \x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x09api.test.\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x0capi.test:443\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x0auser@a.tes\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\x0a0x7f000001\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\xff" + b"a" * 255 + b"\x01\xbb", FAILURE),
        (b"\x05\x01\x00\x03\xfe" + b".".join([b"a" * 50] * 5)[:254] + b"\x01\xbb", FAILURE),
    ],
)
def test_what_is_no_request_gets_its_code_and_the_end(shared, mock, request_bytes, code):
    mark = mock.mark()
    seen = len(deny_records(shared))
    with Wire(shared.socket_path) as wire:
        wire.send(b"\x05\x01\x00")
        assert wire.take(2) == b"\x05\x00"
        wire.send(request_bytes)
        assert wire.take(10) == bytes([5, code, 0, 1]) + bytes(6)
        assert wire.is_closed()
    assert len(deny_records(shared)) == seen + 1
    assert mock.requests(since=mark) == []


def test_a_name_of_300_bytes_is_the_44_that_its_length_says(shared, mock):
    """The length is one byte: what stands behind is the tunnel's, and no part of the name."""
    name = b"a" * 300
    with Wire(shared.socket_path) as wire:
        wire.send(b"\x05\x01\x00\x05\x01\x00\x03" + bytes([300 & 255]) + name + b"\x01\xbb")
        wire.take(2)
        assert wire.take(10)[1] == 0
        assert wire.response().status in (400, 414)
    record = until("it is refused", lambda: deny_records(shared, via="socks5"))[-1]
    assert record["server.address"] == "a" * 44


@pytest.mark.parametrize(
    "greeting, answer",
    [(b"\x05\x00", b"\x05\xff"), (b"\x05\x01\x02", b"\x05\xff"), (b"\x05\x03\x01\x02\x80", b"\x05\xff")],
)
def test_a_greeting_without_our_method_is_refused(shared, greeting, answer):
    with Wire(shared.socket_path) as wire:
        wire.send(greeting)
        assert wire.rest() == answer


@pytest.mark.parametrize("half", [b"\x05", b"\x05\x01", b"\x05\x01\x00\x05\x01", b"\x05\x01\x00\x05\x01\x00\x03\x08api"])
def test_half_a_hello_ends_by_the_clock(daemon, half):
    one = daemon({"timeouts": {"header": "300ms"}})
    with Wire(one.socket_path) as wire:
        wire.send(half)
        assert wire.rest() in (b"", b"\x05\x00")
    assert until("it is in the journal", lambda: deny_records(one))[0]["reason"] == "request_timeout"


def test_one_that_goes_away_in_the_middle_leaves_nothing(shared):
    for half in (b"\x05", b"\x05\x01\x00\x05", b"\x05\x01\x00\x05\x01\x00\x03\x08api.test\x01\xbb"):
        with Wire(shared.socket_path) as wire:
            wire.send(half)


def test_socks4_and_other_first_bytes_are_refused(shared):
    for first in (b"\x04\x01\x00\x50\x7f\x00\x00\x01\x00", b"\x00", b"\xff\xff"):
        with Wire(shared.socket_path) as wire:
            wire.send(first)
            wire.shutdown()
            got = wire.rest()
            assert got == b"" or got.startswith(b"HTTP/1.1 400 ")


def test_socks_inside_a_tunnel_is_refused(shared):
    with Socks(shared, "api.test", 80) as tunnel:
        tunnel.send(b"\x05\x01\x00\x05\x01\x00\x03\x08api.test\x01\xbb")
        assert tunnel.is_closed()
    assert until("said", lambda: deny_records(shared, reason="protocol_unknown"))


def test_rules_that_change_end_a_tunnel_without_use(daemon):
    one = daemon()
    with Socks(one, "api.test") as tunnel:
        reload(one, only({"allow": "https://open.test"}))
        assert tunnel.is_closed()


# --- real clients ---------------------------------------------------------------------------------


def run_curl(daemon, *args):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", str(PATIENCE), *args],
        env={"PATH": os.environ["PATH"], "SSL_CERT_FILE": daemon.ca},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert SECRET not in done.stdout + done.stderr
    return done


def test_curl_over_the_unix_socket(shared, mock):
    done = run_curl(shared, "--proxy", f"socks5h://localhost{shared.socket_path}",
                    "-H", "X-Test-Id: socks-curl", "https://api.test/test/echo")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert FINGERPRINT in done.stdout
    assert mock.requests("socks-curl")


def test_curl_over_tcp(shared, relay, mock):
    port = relay(shared).port
    done = run_curl(shared, "--socks5-hostname", f"127.0.0.1:{port}", "-d", "x=1", "https://api.test/test/echo")
    assert done.returncode == 0, done.stderr
    assert '"body": "x=1"' in done.stdout


def test_curl_shows_the_refusal(shared, relay):
    done = run_curl(shared, "--socks5-hostname", f"127.0.0.1:{relay(shared).port}", "https://other.test/")
    assert done.returncode == 0, done.stderr
    assert "no rule allows it" in done.stdout


def test_curl_with_socks5_resolves_by_itself_and_names_an_address(shared, relay):
    done = run_curl(shared, "--resolve", "api.test:443:192.0.2.1",
                    "--socks5", f"127.0.0.1:{relay(shared).port}", "https://api.test/test/echo")  # fmt: skip
    # The tunnel is to the address, so that is what the leaf is for.
    assert done.returncode == 60, done.stderr


def test_tunnels_of_both_kinds_side_by_side(shared):
    with Socks(shared, "api.test").tls() as one, Tunnel(shared, "api.test") as other:
        assert one.ask("GET", "/test/echo").status == other.ask("GET", "/test/echo").status == 200
