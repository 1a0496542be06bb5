"""tls: passthrough: the client's TLS goes through as it is, to the host that it names and no other."""

import contextlib
import socket
import ssl
import subprocess
import threading
import time

import pytest
from clients import client_context
from h2client import StreamWire, h2_plain
from harness import PATIENCE, SECRET, Tunnel, Wire, until
from tcp_origins import TcpOrigin, echo
from test_reload import only, reload
from test_tcp import Connect
from tunnels import Direct, Socks, alert_of, hello_bytes

UNRECOGNIZED_NAME, DECODE_ERROR, ACCESS_DENIED, INTERNAL_ERROR = 112, 50, 49, 80
PASS = {"allow": "https://open.test", "tls": "passthrough"}


@pytest.fixture
def one(daemon):
    return daemon(rules=[PASS, {"allow": "https://api.test", "credential": "main"}])


def trusting(mock):
    """A client that trusts the upstream's own CA, and not ours."""
    return client_context(mock.ca)


def denials(daemon, **match):
    return until("it is in the journal", lambda: daemon.journal(event="deny", **match))


# --- it passes ------------------------------------------------------------------------------------


def test_the_client_sees_the_upstreams_own_certificate(one, mock):
    with Tunnel(one, "open.test", context=trusting(mock)) as tunnel:
        issuer = dict(pair[0] for pair in tunnel.sock.getpeercert()["issuer"])
        assert "keyhole" not in str(issuer).lower()
        mark = mock.mark()
        answer = tunnel.ask("GET", "/test/echo?passed", [("X-Test-Id", "pass-1"), ("Authorization", "Bearer own")])
        assert answer.status == 200
        names = {n.lower(): v for n, v in answer.json()["fields"]}
        assert names["authorization"] == "Bearer own" and "x-api-key" not in names
        assert mock.requests("pass-1", since=mark)
        sent = len(tunnel.ask("GET", "/test/bytes?n=1000000").body)
    record = until("it is closed", lambda: one.journal(event="close"))[0]
    opened = one.journal(event="open")[0]
    assert (opened["tunnel"], opened["url.scheme"]) == ("passthrough", "https")
    assert opened["rule"] == "https://open.test" and "url.path" not in opened
    assert record["http.response.body.size"] > sent and record["http.request.body.size"] > 500


def test_every_way_in_passes(one, mock):
    with Socks(one, "open.test").tls(context=trusting(mock)) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    with Direct(one, "open.test", context=trusting(mock)) as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert [r.get("via") for r in one.journal(event="open")] == ["socks5", "tls"]


def test_a_stream_of_http2_passes(one, mock):
    hello = hello_bytes("open.test")
    with h2_plain(one) as client:
        wire = StreamWire(client, "open.test:443").accept()
        wire.send(hello)
        assert wire.take(1) == b"\x16", "the upstream's ServerHello"
        wire.close()
        wire = StreamWire(client, "open.test:443").accept()
        wire.send(hello_bytes("api.test"))
        assert alert_of(wire.rest()) == UNRECOGNIZED_NAME


def test_the_others_are_still_decrypted(one):
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert one.journal(event="open")[0].get("tunnel") is None


def test_tls_1_2_and_resumption_pass(one, mock):
    context = trusting(mock)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with Tunnel(one, "open.test", context=context) as tunnel:
        assert tunnel.sock.version() == "TLSv1.2"
        assert tunnel.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize("size", [1, 5, 64])
def test_a_hello_in_many_records_passes_byte_for_byte(daemon, size):
    origin = TcpOrigin(echo)
    one = daemon({"upstream": {"resolve": {"open.test": origin.address}}}, rules=[PASS])
    hello = hello_bytes("OPEN.test", record=size)
    with Connect(one, "open.test:443") as wire:
        for at in range(0, len(hello), 50):
            wire.send(hello[at : at + 50])
            time.sleep(0.002)
        assert wire.take(len(hello)) == hello
    origin.close()


def test_curl_verifies_the_upstream_itself(one, mock, curl):
    done = curl(one, "https://open.test/test/echo", ca=mock.ca)
    assert done.returncode == 0, done.stderr
    done = curl(one, "https://open.test/test/echo")
    assert done.returncode == 60, "our CA has nothing to do with it"


# --- it does not pass -----------------------------------------------------------------------------


def refused(daemon, data, alert, reason="authority_mismatch"):
    with Connect(daemon, "open.test:443") as wire:
        wire.send(data)
        assert alert_of(wire.rest()) == alert
    record = denials(daemon, reason=reason)[-1]
    assert record["server.address"] == "open.test"
    return record["detail"]


def test_another_sni_is_refused(one, mock):
    mark = mock.mark()
    for sni in ("api.test", "open.test.api.test", "n.open.test", "pen.test"):
        assert sni in refused(one, hello_bytes(sni), UNRECOGNIZED_NAME)
    assert mock.events(since=mark) == []
    assert one.journal(event="open") == []


def test_no_sni_is_refused(one):
    assert "names no host" in refused(one, hello_bytes(None), UNRECOGNIZED_NAME)


def test_an_encrypted_hello_is_refused_grease_too(one):
    """Nobody but its server can tell the two apart."""
    assert "ECH" in refused(one, hello_bytes("open.test", ech=True), UNRECOGNIZED_NAME)
    assert "ECH" in refused(one, hello_bytes(None, ech=True), UNRECOGNIZED_NAME)


def test_two_names_in_one_hello_are_refused(one):
    refused(one, hello_bytes("open.test", twice=True), DECODE_ERROR, "sandbox_tls")


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\nHost: open.test\r\n\r\n", b"\x05\x01\x00", b"\x15\x03\x01\x00\x02\x01\x00", b"\x80\x2e\x01\x03\x01",
     b"\x16\x03\x01\x00\x05\x01\x00\x00\x00\x00", b"\x16\x03\x01\x40\x00\x01\x00\x3f\xf0" + b"x" * 16379],
)  # fmt: skip
def test_what_is_no_hello_is_refused(one, data):
    refused(one, data, DECODE_ERROR, "sandbox_tls")


def test_half_a_hello_ends_by_the_clock_and_dials_nobody(daemon, mock):
    one = daemon({"timeouts": {"handshake": "300ms"}}, rules=[PASS])
    mark = mock.mark()
    with Connect(one, "open.test:443") as wire:
        wire.send(hello_bytes("open.test")[:60])
        assert wire.is_closed()
    assert denials(one)[0]["reason"] == "request_timeout"
    assert mock.events(since=mark) == []


def test_an_address_has_no_sni_so_it_never_passes(daemon, mock):
    one = daemon({"upstream": {"allow_addresses": ["127.0.0.1/32"]}},
                 rules=[{"allow": f"https://127.0.0.1:{mock.port}", "tls": "passthrough"}])  # fmt: skip
    with Connect(one, f"127.0.0.1:{mock.port}") as wire:
        wire.send(hello_bytes(None))
        assert alert_of(wire.rest()) == UNRECOGNIZED_NAME


def test_a_request_that_is_read_is_never_allowed_by_such_a_rule(one, mock):
    """Not in plain, and not by a whole URL, where keyhole would make the TLS itself."""
    with Wire(one.socket_path) as wire:
        wire.send("GET https://open.test/test/echo HTTP/1.1\r\nHost: open.test\r\nX-Test-Id: pass-2\r\n\r\n")
        answer = wire.response()
        assert answer.status == 403 and "undecrypted" in answer.text()
    assert denials(one)[0]["reason"] == "tunnel_only"
    mock.never("pass-2")


def test_the_guard_and_failures_are_an_alert(daemon):
    one = daemon({"upstream": {"resolve": {"open.test": None}, "nameservers": ["127.0.0.1:1"]},
                  "timeouts": {"resolve": "300ms"}}, rules=[PASS])  # fmt: skip
    with Connect(one, "open.test:443") as wire:
        wire.send(hello_bytes("open.test"))
        assert alert_of(wire.rest()) == INTERNAL_ERROR
    record = until("it is closed", lambda: one.journal(event="close"))[0]
    assert record["reason"].startswith("dns") or record["reason"] == "name_not_found"


def test_the_site_must_allow_everything_there(daemon, mock):
    for site, passes in (
        ([{"allow": "GET https://**"}], False),
        ([{"deny": "https://open.test/admin/**"}, {"allow": "https://**"}], False),
        ([{"allow": "https://**"}], True),
    ):
        one = daemon({"site": {"rules": site}}, rules=[PASS])
        wire = Connect(one, "open.test:443")
        assert wire.answer.status == (200 if passes else 403)
        wire.close()


def test_rules_that_change_between_connect_and_hello_count(one, mock):
    with Connect(one, "open.test:443") as wire:
        reload(one, only({"allow": "GET https://open.test/only/this"}))
        wire.send(hello_bytes("open.test"))
        assert alert_of(wire.rest()) == ACCESS_DENIED


def test_no_credential_is_ever_near_it(one, mock):
    """The tenant has one for another host: nothing of it is in what passes."""
    seen = []

    def look(_, sock):
        while piece := sock.recv(65536):
            seen.append(piece)

    origin = TcpOrigin(look)
    reload(one, lambda config: config["upstream"]["resolve"].update({"open.test": origin.address}))
    hello = hello_bytes("open.test")

    def arrives():
        with Connect(one, "open.test:443") as wire:
            wire.send(hello)
            wire.shutdown()
            wire.rest()
        return b"".join(seen).endswith(hello)

    until("it arrives", arrives)
    assert SECRET.encode() not in b"".join(seen)
    origin.close()


def test_a_tunnel_waits_for_no_other_ones_connection(daemon):
    """What is decrypted may share one of HTTP/2, so it waits for what is being made; a tunnel has its own."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())  # nobody is ever accepted there
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        one = daemon({"upstream": {"resolve": {"open.test": "127.0.0.1:%d" % full.getsockname()[1]}},
                      "timeouts": {"connect": "3s"}, "worker": {"threads": 1}}, rules=[PASS])  # fmt: skip
        first, second = (stack.enter_context(Connect(one, "open.test:443")) for _ in range(2))
        first.send(hello_bytes("open.test"))
        time.sleep(1.5)
        began = time.monotonic()
        second.send(hello_bytes("open.test"))
        assert alert_of(second.rest()) == INTERNAL_ERROR
        assert time.monotonic() - began > 2.5, "it failed with the first one"


def test_many_at_a_time(one, mock):
    failures = []

    def ask():
        try:
            with Tunnel(one, "open.test", context=trusting(mock)) as tunnel:
                assert tunnel.ask("GET", "/test/bytes?n=200000").status == 200
        except Exception as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failures == []


def test_openssl_s_client_through_socks(one, mock):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "10", "--proxy", f"socks5h://localhost{one.socket_path}",
         "--cacert", mock.ca, "https://open.test/test/echo"],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
