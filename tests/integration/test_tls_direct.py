"""TLS straight away on the sandbox's socket: its SNI says where to."""

import ssl
import subprocess

import pytest
from harness import FINGERPRINT, PATIENCE, Tunnel, Wire, until
from tunnels import Direct, alert_of, hello_bytes

UNRECOGNIZED_NAME, DECODE_ERROR = 112, 50


def denials(daemon, **match):
    return until("it is in the journal", lambda: daemon.journal(event="deny", via="tls", **match))


def test_the_sni_is_the_host(shared, mock):
    with Direct(shared, "api.test") as tunnel:
        what = tunnel.ask("GET", "/test/echo?direct", [("X-Test-Id", "direct-1")]).json()
        assert ["x-api-key", "sha256:" + FINGERPRINT] in what["fields"]
        assert tunnel.ask("POST", "/test/echo", body=b"again").status == 200
    assert mock.requests("direct-1")
    opened = shared.journal(event="open", via="tls")[0]
    assert (opened["server.address"], opened["server.port"]) == ("api.test", 443)
    assert opened["url.scheme"] == "https"


def test_the_leaf_is_for_the_sni(shared):
    with Direct(shared, "api.test") as tunnel:
        names = {value for _, value in tunnel.sock.getpeercert()["subjectAltName"]}
        assert names == {"api.test"}


def test_a_refusal_is_read_inside(shared, mock):
    with Direct(shared, "other.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("X-Test-Id", "direct-2")])
        assert answer.status == 403 and answer.json()["keyhole"]["reason"] == "no_rule"
    mock.never("direct-2")


@pytest.mark.parametrize("host", ["open.test", "api.test:8443", "api.test:80"])
def test_another_host_inside_is_421(shared, mock, host):
    with Direct(shared, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("X-Test-Id", "direct-3")], host=host).status == 421
    mock.never("direct-3")


def test_no_sni_is_an_alert(shared):
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes(None))
        assert alert_of(wire.rest()) == UNRECOGNIZED_NAME
    assert "without an SNI" in denials(shared, reason="authority_mismatch")[-1]["detail"]


def test_an_encrypted_hello_without_an_outer_name_is_an_alert(shared):
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes(None, ech=True))
        assert alert_of(wire.rest()) == UNRECOGNIZED_NAME
    assert "encrypted hello" in denials(shared, reason="authority_mismatch")[-1]["detail"]


def test_with_an_encrypted_hello_only_the_outer_name_counts(shared):
    """It ends here, so what is inside of it is never followed: the rules are asked for the outer name."""
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes("other.test", ech=True))
        assert wire.take(1) == b"\x16", "a ServerHello for the outer name"


@pytest.mark.parametrize("sni", [b"api.test.", b"a\x00pi.test", b"127.0.0.1", b"::1", b"*.test", b"api test", b"\xe4.test", b""])
def test_an_sni_that_is_no_name_is_an_alert(shared, sni):
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes(sni))
        assert alert_of(wire.rest()) == DECODE_ERROR


def test_two_names_are_an_alert(shared):
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes("api.test", twice=True))
        assert alert_of(wire.rest()) == DECODE_ERROR


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_hello_in_many_records_is_read(shared, size):
    with Wire(shared.socket_path) as wire:
        wire.send(hello_bytes("api.test", record=size))
        assert wire.take(1) == b"\x16"


def test_a_hello_byte_by_byte_is_read(shared):
    with Wire(shared.socket_path) as wire:
        for byte in hello_bytes("api.test"):
            wire.send(bytes([byte]))
        assert wire.take(1) == b"\x16"


def test_half_a_hello_ends_by_the_clock(daemon):
    one = daemon({"timeouts": {"handshake": "300ms"}})
    with Wire(one.socket_path) as wire:
        wire.send(hello_bytes("api.test")[:100])
        assert wire.is_closed()
    assert denials(one)[0]["reason"] == "request_timeout"


def test_a_hello_without_an_end_is_bounded(shared):
    with Wire(shared.socket_path) as wire:
        wire.send(b"\x16\x03\x01\x40\x00\x01\x00\x3f\xf0" + b"x" * 16379)
        assert alert_of(wire.rest()) == DECODE_ERROR


def test_records_that_are_no_hello_are_an_alert(shared):
    for bad in (b"\x16\x02\x00\x00\x10", b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", b"\x16\x03\x01\x00\x00"):
        with Wire(shared.socket_path) as wire:
            wire.send(bad)
            assert alert_of(wire.rest()) == DECODE_ERROR


def test_a_client_that_distrusts_the_ca_is_told_apart(shared, mock):
    context = ssl.create_default_context(cafile=mock.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        Direct(shared, "api.test", context=context)


def test_tls_inside_tls_is_refused(shared):
    with Direct(shared, "api.test") as tunnel:
        tunnel.send(hello_bytes("open.test"))
        assert tunnel.rest().startswith(b"HTTP/1.1 400 ")


def test_openssl_s_client_over_the_unix_socket(shared):
    done = subprocess.run(
        ["openssl", "s_client", "-unix", shared.socket_path, "-servername", "api.test", "-CAfile", shared.ca,
         "-verify_return_error", "-verify_hostname", "api.test", "-quiet", "-no_ign_eof"],
        input=b"GET /test/echo HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n",
        capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    # It ends with its input; the handshake alone is what counts here.
    assert b"verify return:1" in done.stderr and b"error" not in done.stderr.lower(), done.stderr


def test_direct_and_connect_share_nothing_but_the_rules(shared):
    with Direct(shared, "open.test") as one, Tunnel(shared, "api.test") as other:
        assert one.ask("GET", "/test/echo").status == other.ask("GET", "/test/echo").status == 200
