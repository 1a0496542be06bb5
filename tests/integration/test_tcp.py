"""tcp:// rules: bytes go through as they are, counted, and nowhere else."""

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest
from clients import Closed
from h2client import StreamWire, h2_plain
from harness import KEYHOLE, PATIENCE, Refused, Relay, Wire, free_port, until
from tcp_origins import TcpOrigin, after_the_end, deaf, echo, first_to_end, fountain, greeter
from test_reload import only, reload
from tunnels import Socks, SocksRefused

MIB = 1 << 20


@pytest.fixture
def origin():
    """origin(serve): a loopback server that is ended with the test."""
    origins = []

    def make(serve):
        origins.append(TcpOrigin(serve))
        return origins[-1]

    yield make
    for one in origins:
        one.close()


@pytest.fixture
def to(daemon, origin):
    """to(serve, rules…): a daemon with a tcp rule for git.test:22, which is that server."""

    def make(serve, rules=({"allow": "tcp://git.test:22"},), overrides=None):
        server = origin(serve)
        config = {"upstream": {"resolve": {"git.test": server.address}}, **(overrides or {})}
        return daemon(config, rules=list(rules)), server

    return make


class Connect(Wire):
    """CONNECT and nothing more."""

    def __init__(self, daemon, authority, **options):
        super().__init__(daemon.socket_path, **options)
        self.send(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
        self.answer = self.read_head()
        if self.answer.status != 200:
            for piece in self.pieces(self.answer):
                self.answer.body += piece


def closed(daemon, **match):
    return until("it is closed", lambda: daemon.journal(event="close", **match))


# --- bytes ----------------------------------------------------------------------------------------


def test_bytes_go_both_ways_as_they_are(to):
    one, server = to(echo)
    data = bytes(range(256)) * 4000
    with Connect(one, "git.test:22") as wire:
        threading.Thread(target=wire.send, args=(data,), daemon=True).start()
        assert wire.take(len(data)) == data
        wire.shutdown()
        assert wire.is_closed()
    opened = one.journal(event="open")[0]
    assert (opened["url.scheme"], opened["server.address"], opened["server.port"]) == ("tcp", "git.test", 22)
    assert (opened["tunnel"], opened["http.request.method"]) == ("tcp", "CONNECT")
    assert opened["rule"] == "tcp://git.test:22" and "credential" not in opened and "url.path" not in opened
    record = closed(one)[0]
    assert record["http.request.body.size"] == record["http.response.body.size"] == len(data)
    assert record["complete"] is True and record["network.peer.port"] == server.port


def test_a_server_may_speak_first(to):
    one, _ = to(greeter)
    with Connect(one, "git.test:22") as wire:
        assert wire.take(14) == b"SSH-2.0-mock\r\n", "before the client has said a byte"
        wire.send(b"SSH-2.0-client\r\n")
        assert wire.take(16) == b"SSH-2.0-client\r\n"


def test_bytes_behind_connect_go_through(to):
    """A client that does not wait for the answer."""
    one, _ = to(echo)
    with Wire(one.socket_path) as wire:
        wire.send(b"CONNECT git.test:22 HTTP/1.1\r\nHost: git.test:22\r\n\r\nearly")
        assert wire.read_head().status == 200
        assert wire.take(5) == b"early"


def test_what_looks_like_http_or_tls_is_bytes(to):
    one, _ = to(echo)
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x05\x01\x00", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        with Connect(one, "git.test:22") as wire:
            wire.send(data)
            assert wire.take(len(data)) == data


def test_socks5_is_the_same(to):
    one, _ = to(greeter)
    with Socks(one, "git.test", 22) as wire:
        assert wire.take(14) == b"SSH-2.0-mock\r\n"
    record = one.journal(event="open")[0]
    assert (record["via"], record["tunnel"]) == ("socks5", "tcp")


def test_a_stream_of_http2_is_the_same(to):
    """CONNECT in HTTP/2 on the socket: each stream a tunnel of its own."""
    one, server = to(greeter)
    with h2_plain(one) as client:
        wires = [StreamWire(client, "git.test:22").accept() for _ in range(3)]
        for number, wire in enumerate(wires):
            wire.send(b"from stream %d" % number)
        for number, wire in enumerate(wires):
            assert wire.take(14 + 13) == b"SSH-2.0-mock\r\nfrom stream %d" % number
        for wire in wires:
            wire.close()
    until("all are closed", lambda: len(one.journal(event="close")) == 3)
    assert server.accepted == 3


def refusal_in_a_stream(one, authority="git.test:22"):
    """The answer to CONNECT; then the connection serves on."""
    with h2_plain(one) as client:
        with pytest.raises(Refused) as refused:
            StreamWire(client, authority).accept()
        assert client.ask("GET", "/", authority="nowhere.test").status == 403
        return refused.value.response


def test_a_stream_to_where_nobody_answers_is_refused(daemon):
    one = daemon({"upstream": {"resolve": {"git.test": f"127.0.0.1:{free_port()}"}}},
                 rules=[{"allow": "tcp://git.test:22"}])  # fmt: skip
    answer = refusal_in_a_stream(one)
    assert answer.status == 502 and "connection_refused" in answer.get("proxy-status")
    assert closed(one)[0]["reason"] == "connection_refused"


def test_a_stream_to_where_the_guard_stands_is_refused(daemon):
    one = daemon(rules=[{"allow": "tcp://169.254.169.254:22"}])
    assert refusal_in_a_stream(one, "169.254.169.254:22").status == 403


@pytest.fixture
def slow(daemon, origin):
    """A daemon that may go to git.test, and to full.test, whose backlog is full: nobody gets there."""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        resolve = {"git.test": origin(greeter).address, "full.test": "127.0.0.1:%d" % full.getsockname()[1]}
        yield daemon({"upstream": {"resolve": resolve}, "timeouts": {"connect": "700ms"}},
                     rules=[{"allow": "tcp://git.test:22"}, {"allow": "tcp://full.test:22"}])  # fmt: skip


def test_a_stream_is_answered_when_the_upstream_is_there(slow):
    with h2_plain(slow) as client:
        waits = StreamWire(client, "full.test:22")
        waits.send(b"early")
        assert StreamWire(client, "git.test:22").accept().take(14) == b"SSH-2.0-mock\r\n"
        assert client.streams[waits.stream].response is None
        with pytest.raises(Refused) as refused:
            waits.accept()
        assert refused.value.response.status == 504


def test_streams_may_be_given_up_while_they_are_dialled(slow):
    with h2_plain(slow) as client:
        wires = [StreamWire(client, "full.test:22") for _ in range(20)]
        until("they are dialled", lambda: len(slow.journal(event="open")) == 20)
        for wire in wires:
            wire.close()
        assert StreamWire(client, "git.test:22").accept().take(14) == b"SSH-2.0-mock\r\n"
    until("all are closed", lambda: len(slow.journal(event="close")) == 21)


# --- ends -----------------------------------------------------------------------------------------


def test_a_half_close_comes_through(to):
    one, server = to(after_the_end)
    data = b"z" * (3 * MIB + 7)
    with Connect(one, "git.test:22") as wire:
        wire.send(data)
        wire.shutdown()
        assert wire.rest() == b"%d bytes, thank you" % len(data)
    assert server.seen == [data]
    assert closed(one)[0]["complete"] is True


def test_the_servers_half_close_comes_through(to):
    one, server = to(first_to_end)
    data = b"y" * (2 * MIB)
    with Connect(one, "git.test:22") as wire:
        assert wire.rest() == b"that is all"
        wire.send(data)
        wire.shutdown()
        until("all came up", lambda: server.seen == [data])
    assert closed(one)[0]["http.request.body.size"] == len(data)


def test_a_reset_ends_the_tunnel(to):
    def reset(_, sock):
        sock.recv(1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    one, _ = to(reset)
    with Connect(one, "git.test:22") as wire:
        wire.send(b"x")
        assert wire.is_closed()
    record = closed(one)[0]
    assert record["complete"] is False and record["reason"] == "upstream_closed"


def test_a_client_that_goes_away_ends_the_upstreams(to):
    ended = threading.Event()

    def watch(_, sock):
        while sock.recv(1000):
            pass
        ended.set()

    one, _ = to(watch)
    with Connect(one, "git.test:22") as wire:
        wire.send(b"x")
    assert ended.wait(PATIENCE)
    closed(one)


# --- bounds ---------------------------------------------------------------------------------------


def test_an_upstream_that_takes_nothing_holds_the_sandbox_back(to):
    one, server = to(deaf)
    server.gate = threading.Event()
    with Connect(one, "git.test:22") as wire:
        wire.sock.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 * MIB:
                sent += wire.sock.send(b"x" * 65536)
        assert sent < 32 * MIB, "nobody held it back"
        before = one.resident_kib(one.worker_pid())
        server.gate.set()
        wire.sock.settimeout(PATIENCE)
        wire.shutdown()
        until("all came", lambda: server.seen)
        assert server.seen[0] == sent
        assert one.resident_kib(one.worker_pid()) - before < 4096


def test_a_sandbox_that_takes_nothing_holds_the_upstream_back(to):
    one, server = to(fountain)
    with Connect(one, "git.test:22") as wire:
        wire.take(1)

        def stands():
            before = server.sent
            time.sleep(0.3)
            return server.sent == before

        until("it stands", stands)
        assert server.sent < 32 * MIB
        # And goes on when room is made.
        before = server.sent
        wire.take(8 * MIB)
        until("it goes on", lambda: server.sent > before)


def test_silence_ends_by_the_clock(to):
    one, _ = to(greeter, overrides={"timeouts": {"tunnel_idle": "400ms"}})
    with Connect(one, "git.test:22") as wire:
        for _ in range(4):
            wire.send(b"alive")
            time.sleep(0.2)
        assert wire.rest() == b"SSH-2.0-mock\r\n" + b"alive" * 4
    assert closed(one)[0]["reason"] == "response_timeout"


def test_a_busy_tunnel_ends_by_the_clock_too(to):
    one, _ = to(fountain, overrides={"timeouts": {"tunnel": "500ms"}})
    begun = time.monotonic()
    with Connect(one, "git.test:22") as wire:
        wire.rest()
    assert 0.4 < time.monotonic() - begun < 10
    assert closed(one)[0]["reason"] == "response_timeout"


# --- where to -------------------------------------------------------------------------------------


def test_no_rule_no_tunnel(to):
    """Nothing is dialled; it is a tunnel like any other, and what comes inside is refused."""
    one, server = to(greeter)
    for authority in ("git.test:23", "other.test:22"):
        with Connect(one, authority) as wire:
            wire.send(b"\0")
            assert wire.is_closed()
    assert server.accepted == 0
    assert one.journal(event="open") == []


def test_a_rule_that_denies_is_answered_at_once(to):
    one, server = to(greeter, rules=[{"deny": "tcp://git.test:22"}, {"allow": "tcp://**:22"}])
    wire = Connect(one, "git.test:22")
    assert wire.answer.status == 403 and "tcp://git.test:22" in wire.answer.text()
    assert wire.is_closed()
    with pytest.raises(SocksRefused) as refused:
        Socks(one, "git.test", 22)
    assert refused.value.code == 2
    assert server.accepted == 0


def test_the_site_is_a_ceiling(daemon, origin):
    server = origin(greeter)
    base = {"upstream": {"resolve": {"git.test": server.address}}}
    rules = [{"allow": "tcp://git.test:22"}]
    for site, status in (
        ([{"allow": "https://**"}], 403),
        ([{"deny": "tcp://git.test:22"}, {"allow": "tcp://**:22"}], 403),
        ([{"allow": "tcp://**:22"}], 200),
    ):
        one = daemon({**base, "site": {"rules": site}}, rules=rules)
        with Connect(one, "git.test:22") as wire:
            assert wire.answer.status == status, wire.answer
    until("it came", lambda: server.accepted == 1)


@pytest.mark.parametrize("where", ["site", "tenant"])
def test_a_rule_that_observes_lets_it_through_and_marks_it(to, where):
    watched, open_ = {"deny": "tcp://git.test:22", "mode": "observe"}, {"allow": "tcp://**:22"}
    lists = {"site": [open_], "tenant": [open_]}
    lists[where] = [watched, open_]
    one, _ = to(greeter, lists["tenant"], {"site": {"rules": lists["site"]}})
    with Connect(one, "git.test:22") as wire:
        assert wire.answer.status == 200
        assert wire.take(14) == b"SSH-2.0-mock\r\n"
    (record,) = one.journal(event="open")
    assert (record["would_deny"], record["would_deny.rule"]) == ("denied_by_rule", "tcp://git.test:22")
    assert record["rule"] == "tcp://**:22"


@pytest.mark.parametrize("first", ["https", "tcp"])
def test_of_two_rules_for_one_place_the_upper_one_decides(daemon, mock, first):
    https, tcp = {"allow": "https://api.test"}, {"allow": "tcp://api.test:443"}
    one = daemon(rules=[https, tcp] if first == "https" else [tcp, https])
    with Connect(one, "api.test:443") as wire:
        # With the upper one over https the leaf is of our CA, with tcp it is the upstream's own.
        context = ssl.create_default_context(cafile=one.ca if first == "https" else mock.ca)
        wire.sock = context.wrap_socket(wire.sock, server_hostname="api.test")
    assert one.journal(event="open", tunnel="tcp") == [] if first == "https" else one.journal(tunnel="tcp")


def test_a_denial_over_https_above_is_said_inside(daemon, origin):
    server = origin(greeter)
    one = daemon(
        {"upstream": {"resolve": {"git.test": server.address}}},
        rules=[{"deny": "https://git.test:22"}, {"allow": "tcp://git.test:22"}],
    )
    with Connect(one, "git.test:22") as wire:
        wire.send(b"\0")
        assert wire.is_closed()
    assert server.accepted == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.1.2.3", "169.254.169.254"])
def test_the_address_guard_holds(daemon, host):
    one = daemon(rules=[{"allow": f"tcp://{host}:9"}])
    wire = Connect(one, f"{host}:9")
    assert wire.answer.status == 403 and wire.answer.json()["keyhole"]["reason"] == "address_prohibited"
    with pytest.raises(SocksRefused) as refused:
        Socks(one, host.strip("[]"), 9)
    assert refused.value.code == 2


def test_failures_have_their_codes(daemon):
    port = free_port()
    one = daemon(
        {"upstream": {"resolve": {"git.test": f"127.0.0.1:{port}"}, "nameservers": ["127.0.0.1:1"]},
         "timeouts": {"resolve": "500ms"}},
        rules=[{"allow": "tcp://**:22"}],
    )  # fmt: skip
    assert Connect(one, "git.test:22").answer.status == 502
    with pytest.raises(SocksRefused) as refused:
        Socks(one, "git.test", 22)
    assert refused.value.code == 5
    with pytest.raises(SocksRefused) as refused:
        Socks(one, "nowhere.test", 22)
    assert refused.value.code == 4


def test_nothing_goes_before_the_journal_has_it(to):
    """As for a request: the open record stands before the upstream is dialled."""
    one, server = to(greeter)
    with Connect(one, "git.test:22"):
        until("it came", lambda: server.accepted == 1)
        assert len(one.journal(event="open")) == 1


def test_rules_that_forbid_it_end_a_running_tunnel(to):
    one, _ = to(greeter)
    with Connect(one, "git.test:22") as wire:
        wire.take(14)
        reload(one, only({"allow": "https://git.test:22"}))
        assert wire.is_closed()
    assert closed(one)[0]["reason"] == "no_rule"


def test_rules_that_still_allow_it_leave_it_alone(to):
    one, _ = to(greeter)
    with Connect(one, "git.test:22") as wire:
        wire.take(14)
        reload(one, only({"allow": "tcp://git.test:22"}, {"allow": "https://open.test"}))
        wire.send(b"still there")
        assert wire.take(11) == b"still there"


def test_through_the_sites_proxy_too(daemon, origin):
    """upstream.proxy stands in between; a server that speaks first may speak with the proxy's answer."""

    def proxy(self, sock):
        head = b""
        while b"\r\n\r\n" not in head:
            head += sock.recv(1000)
        self.seen.append(head.split(b"\r\n")[0])
        sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-mock\r\n")
        echo(self, sock)

    server = origin(proxy)
    one = daemon(
        {"upstream": {"proxy": {"url": f"http://127.0.0.1:{server.port}"}, "resolve": None,
                      "allow_addresses": ["127.0.0.1/32"]}},
        rules=[{"allow": "tcp://git.test:22"}],
    )  # fmt: skip
    with Connect(one, "git.test:22") as wire:
        assert wire.take(14) == b"SSH-2.0-mock\r\n"
        wire.send(b"hello")
        assert wire.take(5) == b"hello"
    assert server.seen == [b"CONNECT git.test:22 HTTP/1.1"]


# --- real clients ---------------------------------------------------------------------------------

NC = """
import os, socket, sys, threading
host, port, path = sys.argv[1:]
s = socket.socket(socket.AF_UNIX); s.connect(path)
s.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
head = b""
while not head.endswith(b"\\r\\n\\r\\n"):
    head += s.recv(1)
def up():
    while data := os.read(0, 65536):
        s.sendall(data)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := s.recv(65536):
    os.write(1, data)
"""


def test_ssh_asks_for_the_servers_key_through_it(to, tmp_path):
    """OpenSSH with a ProxyCommand reads the server's words, which come first, and answers."""
    one, server = to(greeter)
    helper = tmp_path / "nc.py"
    helper.write_text(NC)
    done = subprocess.run(
        ["ssh", "-v", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
         "-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=5",
         "-o", f"ProxyCommand={sys.executable} {helper} %h %p {one.socket_path}", "git.test", "true"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )  # fmt: skip
    assert "remote software version mock" in done.stderr, done.stderr
    until("it came", lambda: server.accepted == 1)


def test_curl_by_connect_and_telnet(to):
    """curl's telnet:// through the proxy is raw bytes."""
    one, _ = to(echo)
    relay = Relay(one.socket_path)
    done = subprocess.run(
        ["curl", "-sS", "--max-time", "2", "--proxytunnel", "-x", relay.url, "telnet://git.test:22"],
        input=b"through\n", capture_output=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    relay.close()
    assert b"through" in done.stdout, done.stderr


def test_many_at_a_time(to):
    one, server = to(greeter)
    wires = [Connect(one, "git.test:22") for _ in range(50)]
    try:
        for number, wire in enumerate(wires):
            wire.send(b"%04d" % number)
        for number, wire in enumerate(wires):
            assert wire.take(18) == b"SSH-2.0-mock\r\n%04d" % number
    finally:
        for wire in wires:
            wire.close()
    until("all are closed", lambda: len(one.journal(event="close")) == 50)
    until("it came", lambda: server.accepted == 50)


def test_a_connection_is_never_shared(to):
    one, server = to(greeter)
    for _ in range(3):
        with Connect(one, "git.test:22") as wire:
            wire.take(14)
    until("it came", lambda: server.accepted == 3)


def test_the_summary_shows_them(to):
    one, _ = to(echo)
    with Connect(one, "git.test:22") as wire:
        wire.send(b"x")
        wire.take(1)
    closed(one)
    done = subprocess.run([KEYHOLE, "audit", "show", "--json", one.journal_path],
                          capture_output=True, text=True, timeout=PATIENCE, check=True)  # fmt: skip
    shown = [json.loads(line) for line in done.stdout.splitlines()]
    assert any(e.get("server.address") == "git.test" or "git.test" in json.dumps(e) for e in shown)


def test_a_client_that_leaves_before_the_upstream_answers(to):
    one, _ = to(greeter)
    for _ in range(5):
        with Wire(one.socket_path) as wire:
            wire.send(b"CONNECT git.test:22 HTTP/1.1\r\nHost: git.test:22\r\n\r\n")
    until("all are over", lambda: len(one.journal(event="close")) == len(one.journal(event="open")))


def test_half_a_connect_is_nothing(to):
    one, server = to(greeter)
    with Wire(one.socket_path) as wire:
        wire.send(b"CONNECT git.test:22 HTTP/1.1\r\nHost: git.te")
        wire.shutdown()
        with contextlib.suppress(Closed):
            wire.read_head()
    assert server.accepted == 0
