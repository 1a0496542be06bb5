"""CONNECT, SNI and Host name one and the same place, in one spelling, or nothing leaves."""

import pytest
from harness import Refused, Tunnel, Wire, client_context, until


@pytest.fixture
def nothing_upstream(mock):
    """Whatever the test does, no request may reach the upstream."""
    mark = mock.mark()
    yield
    assert mock.requests(since=mark) == []


@pytest.fixture
def still_serving(shared):
    yield
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("X-Test-Id", "after")]).status == 200


def unchecked(daemon):
    """A client that trusts the CA but does not look at the name: an attacker's."""
    return client_context(daemon.ca, check=False)


@pytest.mark.parametrize("sni", ["open.test", "other.test", "api.test.other.test", "test", "pi.test"])
def test_another_sni_is_421(shared, nothing_upstream, sni):
    with Tunnel(shared, "api.test", sni=sni, context=unchecked(shared)) as tunnel:
        answer = tunnel.ask("GET", "/test/echo")
        assert answer.status == 421
        assert "http_request_error" in answer.get("proxy-status")
        assert sni in answer.text() and "api.test" in answer.text(), "it says which names differ"


def test_with_another_sni_not_even_a_matching_host_helps(shared, nothing_upstream):
    with Tunnel(shared, "api.test", sni="open.test", context=unchecked(shared)) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host="open.test").status == 421


def test_the_same_sni_in_capitals_is_the_same_name(shared):
    with Tunnel(shared, "api.test", sni="API.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_no_sni_is_no_contradiction(shared):
    with Tunnel(shared, "api.test", sni="", context=unchecked(shared)) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize(
    "host",
    ["open.test", "other.test", "api.test:8443", "api.test:80", "a.api.test", "127.0.0.1",
     "api.anthropic.com"],
)  # fmt: skip
def test_another_host_is_421(shared, nothing_upstream, host):
    with Tunnel(shared, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", host=host)
        assert answer.status == 421
        assert "api.test" in answer.text()


@pytest.mark.parametrize("host", ["api.test", "api.test:443", "API.test", "Api.Test:443"])
def test_the_same_host_in_its_spellings_is_the_same_name(shared, host):
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["", "api.test.", "api.test:", "api.test:0443", "api.test:65979", "api.test:+443", "api.test:443:443",
     "user@api.test", "api.test/", "api.test,open.test", "api.test open.test", "api%2etest",
     "[api.test]", "api.test\x00.other.test", "api.test\t.other.test", "\xe4pi.test", "api..test",
     "-api.test", "api.test#", "api.test?", "api.test\\", "http://api.test"],
)  # fmt: skip
def test_a_host_in_an_odd_spelling_is_refused(shared, nothing_upstream, host):
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=host).status in (400, 421)


def test_absolute_form_in_a_tunnel_must_name_the_tunnel(shared, mock):
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        for target in (
            "https://open.test/test/echo",
            "http://api.test/test/echo",
            "https://api.test:8443/test/echo",
            "https://api.test@open.test/test/echo",
        ):
            with Tunnel(shared, "api.test") as one:
                assert one.ask("GET", target).status in (400, 421), target
        assert mock.requests(since=mark) == []
        answer = tunnel.ask("GET", "https://api.test/test/echo")
        assert answer.status == 200
        assert answer.json()["line"] == "GET /test/echo HTTP/1.1"


def test_absolute_form_and_host_must_agree(shared, nothing_upstream):
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "https://api.test/test/echo", host="open.test").status == 421


def test_plain_absolute_form_and_host_must_agree(daemon, plain_mock):
    names = {"plain.test": plain_mock.address, "evil.test": plain_mock.address}
    one = daemon({"upstream": {"resolve": names}}, rules=[{"allow": "http://plain.test"}])
    mark = plain_mock.mark()
    for target, host in (
        ("http://plain.test/test/echo", "evil.test"),
        ("http://evil.test/test/echo", "plain.test"),
        ("http://plain.test/test/echo", "plain.test:8080"),
        ("/test/echo", "plain.test"),
    ):
        with Wire(one.socket_path) as wire:
            assert wire.ask("GET", target, host=host).status in (400, 403, 421), (target, host)
    assert plain_mock.requests(since=mark) == []


def test_the_host_field_of_connect_must_agree(shared, nothing_upstream):
    with Wire(shared.socket_path) as wire:
        wire.send("CONNECT api.test:443 HTTP/1.1\r\nHost: open.test:443\r\n\r\n")
        assert wire.read_head().status in (400, 421)


@pytest.mark.parametrize(
    "authority",
    ["api.test", "api.test:", "api.test:0", "api.test:65536", "api.test:0443", "api.test:443x", "api.test:-1",
     ":443", "api.test.:443", "api..test:443", "api%2etest:443", "user@api.test:443", "[[::1]]:443",
     "[::1:443", "::1:443", "[::1%25lo]:443", "127.1:443", "0x7f.0.0.1:443", "0177.0.0.1:443",
     "2130706433:443", "127.0.0.1.:443", "0x7f000001:443", "api.test/:443", "http://api.test:443", "*:443", "api.test,open.test:443",
     "api.test:443/x", "a\x01pi.test:443", "\xe4pi.test:443", "a" * 64 + ".test:443", "a." * 130 + "test:443"],
)  # fmt: skip
def test_connect_in_an_odd_spelling_is_400(shared, nothing_upstream, authority):
    with Wire(shared.socket_path) as wire:
        wire.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode("latin-1"))
        assert wire.read_head().status == 400, authority


@pytest.mark.parametrize("authority", ["api.test:8443", "api.test:80", "api.test:22", "open.test:444"])
def test_another_port_is_another_place(shared, nothing_upstream, authority):
    host, port = authority.split(":")
    try:
        with Tunnel(shared, host, int(port)) as tunnel:
            assert tunnel.ask("GET", "/test/echo", host=authority).status == 403
    except Refused as refused:
        assert refused.response.status == 403


@pytest.mark.parametrize("literal", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:127.0.0.1]", "8.8.8.8"])
def test_an_address_is_no_way_around_the_names(shared, nothing_upstream, literal):
    with Tunnel(shared, literal, sni="", context=unchecked(shared)) as tunnel:
        answer = tunnel.ask("GET", "/test/echo", host=literal)
        assert answer.status == 403
        assert "http_request_denied" in answer.get("proxy-status")


def test_the_leaf_is_for_the_tunnel_whatever_sni_says(shared):
    with Tunnel(shared, "api.test", sni="open.test", context=unchecked(shared)) as tunnel:
        names = [value for _, value in tunnel.sock.getpeercert()["subjectAltName"]]
        assert names == ["api.test"]


def test_a_tunnel_stays_what_it_was(shared, mock, still_serving):
    """The second request of a connection is checked like the first."""
    mark = mock.mark()
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        assert tunnel.ask("GET", "/test/echo/evil", host="open.test").status == 421
    assert [e["target"] for e in mock.requests(since=mark)] == ["/test/echo"]


def test_connect_inside_a_tunnel_is_refused(shared, nothing_upstream):
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("CONNECT", "open.test:443", host="open.test:443").status >= 400


def test_bytes_that_are_neither_tls_nor_http_are_refused(shared, still_serving, nothing_upstream):
    for garbage in (b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00" * 64, b"\x05\x01\x00", os_random()):
        with Wire(shared.socket_path) as wire:
            wire.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
            assert wire.read_head().status == 200
            wire.send(garbage)
            wire.shutdown()
            assert b" 200 " not in wire.rest()


def test_ssh_in_a_tunnel_is_no_known_protocol_and_no_broken_http(shared, nothing_upstream):
    with Wire(shared.socket_path) as wire:
        wire.send("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        assert wire.read_head().status == 200
        wire.send(b"SSH-2.0-x\r\n")
        assert wire.rest() == b""
    records = until("said", lambda: shared.journal(event="deny", reason="protocol_unknown"))
    assert records[-1]["server.address"] == "api.test"


def os_random():
    return b"\x81" + bytes(range(200, 255)) * 4


def test_every_mismatch_is_in_the_journal(shared):
    with Tunnel(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/noted", host="open.test").status == 421
    (record,) = until("its record", lambda: shared.records_of("/test/noted"))
    assert "authority_mismatch" in record.values()
