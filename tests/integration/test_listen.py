"""Listeners beside Unix sockets: TCP, which asks for a token, and vsock, where the peer's CID is checked."""

import base64
import os
import secrets
import shutil
import socket
import subprocess

import pytest
from admin_client import admin, samples
from clients import Closed, Tunnel, Wire, client_context
from h2client import StreamWire, h2_plain
from harness import FINGERPRINT, KEYHOLE, PATIENCE, SECRET, free_port, until
from test_check import check
from test_reload import reload
from test_sources import put
from tunnels import alert_of, hello_bytes, socks_address

TOKEN = "t0ken-" + secrets.token_hex(16)
ACCESS_DENIED = 49


@pytest.fixture(params=["127.0.0.1", "::1"])
def address(request):
    return request.param


@pytest.fixture
def tcp(daemon, address, tmp_path):
    """A daemon with a TCP listener beside its Unix socket."""
    return start(daemon, address, tmp_path)


def start(daemon, address, tmp_path, token=TOKEN, **overrides):
    file = tmp_path / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    port = free_port()
    shown = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    listen = [{"unix": "d/s", "tenant": "acme", "mode": "0660"},
              {"tcp": shown, "tenant": "acme", "sandbox": "by-tcp", "token": {"file": str(file)}}]  # fmt: skip
    one = daemon({"listen": listen, **overrides})
    one.tcp_address = (address, port)
    one.tcp_url = shown
    return one


class TcpWire(Tunnel):
    def __init__(self, daemon, timeout=PATIENCE):  # noqa: the others open a Unix socket
        self.sock = socket.create_connection(daemon.tcp_address, timeout)
        self.buffer, self.tail, self.ended = b"", b"", False
        self.host = "api.test"

    def connect(self, authority, *fields):
        self.send("".join([f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n", *(f"{f}\r\n" for f in fields), "\r\n"]))
        answer = self.read_head()
        if answer.status != 200:
            for piece in self.pieces(answer):
                answer.body += piece
        return answer


def basic(user, password):
    return "Proxy-Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


GOOD = [basic("anybody", TOKEN), basic("", TOKEN), basic(TOKEN, ""), basic(TOKEN, "x"), "Proxy-Authorization: Bearer " + TOKEN,
        "proxy-authorization:  bEaReR   " + TOKEN]  # fmt: skip
BAD = [
    basic("anybody", TOKEN[:-1]), basic("anybody", TOKEN + "x"), basic("", ""), basic("anybody", TOKEN.upper()),
    "Proxy-Authorization: Bearer", "Proxy-Authorization: Bearer x" + TOKEN, "Proxy-Authorization: " + TOKEN,
    "Proxy-Authorization: Digest " + TOKEN, "Proxy-Authorization: Basic " + TOKEN, "Proxy-Authorization: Basic ====",
    "Proxy-Authorization: Basic " + "QUFB" * 600, "Authorization: Bearer " + TOKEN,
    "Proxy-Authorization: Bearer " + TOKEN + "\r\nProxy-Authorization: Bearer " + TOKEN,
]  # fmt: skip


def denials(daemon, **match):
    return until("it is in the journal", lambda: daemon.journal(event="deny", **match))


# --- TCP ------------------------------------------------------------------------------------------


def test_every_spelling_of_the_token_opens_a_tunnel(tcp, mock):
    for field in GOOD:
        with TcpWire(tcp) as wire:
            assert wire.connect("api.test:443", field).status == 200, field
            wire.start_tls(tcp, "api.test")
            what = wire.ask("GET", "/test/echo").json()
            assert ["x-api-key", "sha256:" + FINGERPRINT] in what["fields"]
    record = tcp.journal(event="open")[0]
    assert record["sandbox"] == "by-tcp" and tcp.tcp_address[0] in record["client.address"]
    assert "peer.pid" not in record


def test_without_it_407_and_the_connection_stays(tcp, mock):
    with TcpWire(tcp) as wire:
        for field in [None, *BAD, None]:
            answer = wire.connect("api.test:443", *([field] if field else []))
            assert answer.status == 407, field
            assert answer.get("proxy-authenticate") == 'Basic realm="keyhole"'
            assert answer.get("connection") is None
        assert wire.connect("api.test:443", GOOD[0]).status == 200
        wire.start_tls(tcp, "api.test")
        assert wire.ask("GET", "/test/echo").status == 200
    records = denials(tcp, reason="proxy_auth")
    assert len(records) == len(BAD) + 2 and records[0]["sandbox"] == "by-tcp"
    assert TOKEN not in open(tcp.journal_path).read() + tcp.stderr()


def test_every_whole_url_shows_it(daemon, tmp_path, plain_mock):
    one = start(daemon, "127.0.0.1", tmp_path, upstream={"resolve": {"plain.test": plain_mock.address}},
                tenants={"acme": {"rules": [{"allow": "http://plain.test"}]}})  # fmt: skip
    name, value = GOOD[0].split(": ")
    with TcpWire(one) as wire:
        for field in ([], [(name, value)], [], [(name, value)]):
            answer = wire.ask("POST", "http://plain.test/test/echo", field, b"body", host="plain.test")
            assert answer.status == (200 if field else 407)
            if field:
                assert "proxy-authorization" not in {n.lower() for n, _ in answer.json()["fields"]}
                assert TOKEN not in answer.text() and value not in answer.text()
    assert all("proxy-authorization" not in e["fields"] for e in plain_mock.requests())


def test_base_url_mode_shows_it_too(tcp):
    name, value = GOOD[0].split(": ")
    with TcpWire(tcp) as wire:
        assert wire.ask("GET", "/to/api.test/test/echo", host="keyhole.internal").status == 407
        assert wire.ask("GET", "/to/api.test/test/echo", [(name, value)], host="keyhole.internal").status == 200


def test_the_journal_counts_it_among_nothing_that_was_taken_out(tcp):
    """`stripped` speaks of what was meant for the upstream; the token was meant for the listener."""
    token = tuple(GOOD[0].split(": "))
    mine = ("Authorization", "Bearer of-the-sandbox")

    def stripped(path, fields, inside=False):
        with TcpWire(tcp) as wire:
            if inside:
                assert wire.connect("api.test:443", GOOD[0]).status == 200
                wire.start_tls(tcp, "api.test")
                answer = wire.ask("GET", path, fields)
            else:
                answer = wire.ask("GET", "/to/api.test" + path, fields, host="keyhole.internal")
        assert answer.status == 200 and TOKEN not in answer.text() and "of-the-sandbox" not in answer.text()
        return tcp.records_of(path)[0].get("stripped")

    assert stripped("/test/echo/token", [token]) is None
    assert stripped("/test/echo/both", [token, mine]) == "Authorization"
    # Inside of a tunnel it is no longer asked for, so there it is one like any other.
    assert stripped("/test/echo/inside", [token], inside=True) == "Proxy-Authorization"


def test_inside_the_tunnel_it_is_not_asked_for_and_never_passes(tcp):
    name, value = GOOD[0].split(": ")
    with TcpWire(tcp) as wire:
        wire.connect("api.test:443", GOOD[4])
        wire.start_tls(tcp, "api.test")
        what = wire.ask("GET", "/test/echo", [(name, value)]).json()
        assert "proxy-authorization" not in {n.lower() for n, _ in what["fields"]}


def socks(wire, login):
    wire.send(b"\x05\x02\x00\x02")
    assert wire.take(2) == b"\x05\x02"
    user, password = (part.encode() for part in login)
    wire.send(b"\x01" + bytes([len(user)]) + user + bytes([len(password)]) + password)
    return wire.take(2)


def test_socks5_shows_it_as_a_password(tcp):
    for login in (("any", TOKEN), (TOKEN, "x")):
        with TcpWire(tcp) as wire:
            assert socks(wire, login) == b"\x01\x00"
            wire.send(b"\x05\x01\x00" + socks_address("api.test") + b"\x01\xbb")
            assert wire.take(10)[1] == 0
            wire.start_tls(tcp, "api.test")
            assert wire.ask("GET", "/test/echo").status == 200
    for login in (("any", TOKEN[:-1]), ("", ""), ("any", "")):
        with TcpWire(tcp) as wire:
            assert socks(wire, login) == b"\x01\x01"
            assert wire.is_closed()
    with TcpWire(tcp) as wire:
        wire.send(b"\x05\x01\x00\x05\x01\x00" + socks_address("api.test") + b"\x01\xbb")
        assert wire.rest() == b"\x05\xff"
    assert len(denials(tcp, reason="proxy_auth")) == 4


def test_tls_straight_away_has_no_place_for_it(tcp):
    with TcpWire(tcp) as wire:
        wire.send(hello_bytes("api.test"))
        assert alert_of(wire.rest()) in (ACCESS_DENIED, 80)
    assert denials(tcp, reason="proxy_auth")


def test_http2_with_prior_knowledge_shows_it(tcp):
    from h2client import H2Client

    class Raw(TcpWire):
        pass

    name, value = GOOD[4].split(": ")
    with H2Client(Raw(tcp), scheme="http") as client:
        assert client.ask("GET", "/to/api.test/test/echo", authority="keyhole.internal").status == 407
        answer = client.ask("GET", "/to/api.test/test/echo", [(name.lower(), value)], authority="keyhole.internal")
        assert answer.status == 200


def test_the_unix_socket_beside_it_asks_for_nothing(tcp):
    with Tunnel(tcp, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_the_journal_has_who_came_by_the_unix_socket(shared):
    """Of each request, also where a whole machine's tunnels share a connection (HTTP/2)."""
    with Tunnel(shared, "api.test") as tunnel:
        tunnel.ask("GET", "/test/echo/plain")
    with h2_plain(shared) as client:
        inside = StreamWire(client, "api.test:443").accept().start_tls(shared, "api.test")
        inside.ask("GET", "/test/echo/stream")
    for path in ("/test/echo/plain", "/test/echo/stream"):
        opened = shared.records_of(path)[0]
        assert (opened["peer.pid"], opened["peer.uid"]) == (os.getpid(), os.getuid())


def test_guessing_is_bounded(daemon, tmp_path):
    one = start(daemon, "127.0.0.1", tmp_path, worker={"threads": 1})
    statuses = []
    with TcpWire(one) as wire:
        for n in range(400):
            answer = wire.connect("api.test:443", basic("x", f"{n:040}"))
            statuses.append(answer.status)
            if answer.status != 407:
                break
    assert statuses[-1] == 429 and 90 <= len(statuses) <= 200
    # Whoever is inside stays; and it opens again by itself.
    def opens():
        with TcpWire(one) as wire:
            return wire.connect("api.test:443", GOOD[0]).status == 200

    until("it is looked at again", opens)


def test_too_many_wrong_tokens_are_not_the_limit_of_connections(daemon, tmp_path):
    """Not for the metrics, and not for the record, also where that limit had been reached before."""
    one = start(daemon, "127.0.0.1", tmp_path, **admin(), worker={"threads": 1},
                tenants={"acme": {"limits": {"connections": 1}}})  # fmt: skip
    with Wire(one.socket_path) as first, TcpWire(one) as second:
        first.send(b"GET ")
        statuses = []
        while len(statuses) < 200 and 429 not in statuses:
            second.send(f"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n{basic('x', 'wrong' * 5)}\r\n\r\n")
            answer = second.read_head()
            for _ in second.pieces(answer):
                pass
            statuses.append(answer.status)
        assert statuses[-1] == 429 and set(statuses[:-1]) == {407}
        [record] = denials(one, reason="limit")
        assert "too many wrong tokens" in record["detail"] and "limit" not in record
        found = samples(one)
        assert found['keyhole_limit_refusals_total{limit="connections"}'] == 0
        assert found['keyhole_denials_total{reason="limit"}'] == 1


def test_a_token_that_is_too_short_lets_nobody_in(daemon, tmp_path):
    one = start(daemon, "127.0.0.1", tmp_path, token="short")
    until("it is said", lambda: "shorter than 16 bytes" in one.stderr())
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200, "the other listener serves"


def test_curl_by_its_proxy_user(tcp):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", str(PATIENCE), "-x", f"http://{tcp.tcp_url}", "-U", f"any:{TOKEN}",
         "--cacert", tcp.ca, "https://api.test/test/echo"],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and FINGERPRINT in done.stdout, done.stderr
    assert SECRET not in done.stdout


JAVA = """
import java.net.*; import java.net.http.*; import java.nio.file.*; import java.security.*; import java.security.cert.*;
import javax.net.ssl.*;
public class Ask {
  public static void main(String[] a) throws Exception {
    KeyStore store = KeyStore.getInstance("PKCS12"); store.load(null, null);
    try (var in = Files.newInputStream(Path.of(a[2]))) {
      store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(in)); }
    TrustManagerFactory trust = TrustManagerFactory.getInstance("PKIX"); trust.init(store);
    SSLContext tls = SSLContext.getInstance("TLS"); tls.init(null, trust.getTrustManagers(), null);
    Authenticator asked = new Authenticator() { protected PasswordAuthentication getPasswordAuthentication() {
      return new PasswordAuthentication("any", a[1].toCharArray()); } };
    var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).sslContext(tls).authenticator(asked)
      .proxy(ProxySelector.of(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[0])))).build();
    for (int i = 0; i < 3; i++) {
      var got = client.send(HttpRequest.newBuilder(URI.create("https://api.test/test/echo")).build(),
        HttpResponse.BodyHandlers.ofString());
      System.out.println(got.statusCode() + " " + got.body()); }
  }
}
"""


@pytest.mark.skipif(not shutil.which("java"), reason="no Java here")
def test_java_answers_the_407_on_the_same_connection(daemon, tmp_path):
    one = start(daemon, "127.0.0.1", tmp_path)
    source = tmp_path / "Ask.java"
    source.write_text(JAVA)
    if not shutil.which("javac"):
        pytest.skip("no Java compiler here")
    done = subprocess.run(
        ["java", "-Djdk.http.auth.tunneling.disabledSchemes=", str(source), str(one.tcp_address[1]), TOKEN, one.ca],
        capture_output=True, text=True, timeout=120, check=False, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.stdout.count(FINGERPRINT) == 3, done.stderr + one.stderr()
    assert one.journal(event="deny", reason="proxy_auth"), "it asks without at first"


# --- configuration --------------------------------------------------------------------------------

TENANT = "tenants: { a: { rules: [ { allow: \"https://a.example\" } ] } }\n"


@pytest.mark.parametrize(
    "entry, message",
    [
        ("{ tcp: \"127.0.0.1:3128\" }", "listen[].token is missing: whoever can connect by TCP has to show one"),
        ("{ tcp: \"127.0.0.1\", token: { env: T } }", "listen[].tcp"),
        ("{ tcp: \"localhost:3128\", token: { env: T } }", "listen[].tcp"),
        ("{ tcp: \"127.0.0.1:3128\", token: secret }", "listen[].token"),
        ("{ tcp: \"127.0.0.1:3128\", token: { env: T }, mode: \"0660\" }", "mode, owner and group go with unix only"),
        ("{ unix: /tmp/x/s, token: { env: T } }", "listen[].token: goes with tcp only"),
        ("{ unix: /tmp/x/s, tcp: \"127.0.0.1:3128\", token: { env: T } }", "expected one of unix, vsock and tcp"),
        ("{ tenant: a }", "expected one of unix, vsock and tcp"),
        ("{ vsock: 3128 }", "listen[].cid is missing"),
        ("{ vsock: 3128, cid: 7, token: { env: T } }", "listen[].token: goes with tcp only"),
        ("{ unix: /tmp/x/s, cid: 7 }", "listen[].cid: goes with vsock only"),
        ("{ vsock: 3128, cid: 7 }, { vsock: 3128, cid: 8 }", "\"vsock:3128\" is served by another listener already"),
        ("{ tcp: \"[::1]:1\", token: { env: T } }, { tcp: \"[::1]:1\", token: { env: T } }", "served by another listener"),
        ("{ vsock: 0, cid: 7 }", "listen[].vsock"),
        ("{ tcp: \"127.0.0.1:3128\", token: { } }", "token"),
    ],
)  # fmt: skip
def test_a_listener_that_is_none_is_an_error(tmp_path, entry, message):
    status, _, errors = check(tmp_path, f"version: 1\n{TENANT}listen: [ {entry} ]\n")
    assert status == 1 and message in errors, errors
    assert "token: secret" not in errors and "\"secret\"" not in errors


def test_an_address_that_others_reach_is_warned_of(tmp_path):
    for shown in ("0.0.0.0:3128", "[::]:3128", "192.0.2.1:3128"):
        status, _, errors = check(tmp_path, f"version: 1\n{TENANT}listen: [ {{ tcp: \"{shown}\", token: {{ env: T }} }} ]\n")
        assert status == 0 and "warning" in errors and "others than this host" in errors
    status, _, errors = check(tmp_path, f"version: 1\n{TENANT}listen: [ {{ tcp: \"127.0.0.1:3128\", token: {{ env: T }} }} ]\n")
    assert status == 0 and "others than this host" not in errors


def test_no_rule_can_name_a_token(tmp_path):
    text = ("version: 1\ntenants: { a: { rules: [ { allow: \"https://a.example\", credential: \"token of listener 1\" } ] } }\n"
            "listen: [ { tcp: \"127.0.0.1:3128\", token: { env: T } } ]\n")  # fmt: skip
    status, _, errors = check(tmp_path, text)
    assert status == 1 and "no credential is called" in errors


OTHER_TOKEN = "another-" + secrets.token_hex(16)


def same_token(one, tmp_path):
    reload(one, lambda config: None)


def replaced_file(one, tmp_path):
    (tmp_path / "token").write_text(OTHER_TOKEN + "\n")
    reload(one, lambda config: None)


def other_file(one, tmp_path):
    put(tmp_path / "other", OTHER_TOKEN)
    reload(one, lambda config: config["listen"][1].update(token={"file": str(tmp_path / "other")}))


def no_file(one, tmp_path):
    (tmp_path / "token").unlink()
    reload(one, lambda config: None)


@pytest.mark.parametrize("change, ends", [(same_token, False), (replaced_file, True), (other_file, True), (no_file, True)])
def test_a_token_that_a_reload_replaces_ends_the_tunnels_that_it_opened(daemon, tmp_path, change, ends):
    one = start(daemon, "127.0.0.1", tmp_path)
    with TcpWire(one) as idle, TcpWire(one) as busy:
        for wire in (idle, busy):
            assert wire.connect("api.test:443", GOOD[0]).status == 200
            wire.start_tls(one, "api.test")
            assert wire.ask("GET", "/test/echo").status == 200
        busy.start("GET", "/test/sse?n=400&ms=20")
        assert busy.read_head().status == 200
        change(one, tmp_path)
        if not ends:
            assert idle.ask("GET", "/test/echo").status == 200
            assert busy.take_until(b"data:")
            return
        for wire in (idle, busy):
            with pytest.raises((Closed, OSError)):
                while True:
                    wire.take_until(b"data:")
    until("its record", lambda: one.journal(event="close", complete=False))


def test_what_opens_a_tunnel_after_its_token_was_replaced_goes_on(daemon, tmp_path):
    one = start(daemon, "127.0.0.1", tmp_path)
    replaced_file(one, tmp_path)
    with TcpWire(one) as wire:
        assert wire.connect("api.test:443", basic("x", OTHER_TOKEN)).status == 200
        wire.start_tls(one, "api.test")
        reload(one, lambda config: None)
        assert wire.ask("GET", "/test/echo").status == 200


# --- vsock ----------------------------------------------------------------------------------------


def local_vsock():
    """Why vsock can't be tried here within this host (CID 1), or None."""
    if not hasattr(socket, "AF_VSOCK"):
        return "this Python knows no vsock"
    try:
        with socket.socket(socket.AF_VSOCK) as server, socket.socket(socket.AF_VSOCK) as client:
            server.bind((socket.VMADDR_CID_ANY, socket.VMADDR_PORT_ANY))
            server.listen(1)
            client.settimeout(2)
            client.connect((1, server.getsockname()[1]))
    except OSError as error:
        return f"no vsock to this host itself (vsock_loopback): {error}"
    return None


VSOCK = local_vsock()


def vsock_to(port):
    """The kernel gives each attempt two seconds, which a busy machine can exceed."""
    for last in (False, False, False, False, True):
        sock = socket.socket(socket.AF_VSOCK)
        try:
            sock.settimeout(PATIENCE)
            sock.connect((1, port))
            return sock
        except TimeoutError:
            sock.close()
            if last:
                raise
    return None


@pytest.mark.skipif(VSOCK is not None, reason=str(VSOCK))
@pytest.mark.parametrize("cid, enters", [(1, True), (7, False)])
def test_vsock_lets_its_one_cid_in(daemon, cid, enters):
    port = 20000 + secrets.randbelow(40000)
    one = daemon({"listen": [{"vsock": port, "cid": cid, "tenant": "acme"}]})
    with vsock_to(port) as sock:
        sock.sendall(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        got = sock.recv(100)
        assert got.startswith(b"HTTP/1.1 200") if enters else got == b""


@pytest.mark.skipif(VSOCK is not None, reason=str(VSOCK))
def test_a_reload_that_names_another_cid_ends_what_the_one_before_opened(daemon):
    port = 20000 + secrets.randbelow(40000)
    one = daemon({"listen": [{"vsock": port, "cid": 1, "tenant": "acme"}]})
    with vsock_to(port) as sock:
        sock.sendall(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")
        reload(one, lambda config: config["listen"][0].update(cid=7))
        assert sock.recv(100) == b""
