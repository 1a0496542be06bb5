"""What sandboxes share of one worker: memory, descriptors, lookups. One of them, or one tenant, can't use it up."""

import contextlib
import copy
import json
import os
import re
import resource
import select
import socket
import subprocess
import threading
import time

import pytest
from common import KEYHOLE, ROOT, may_have, until
from fakedns import SILENCE
from h2client import h2_plain, h2_tunnel
from harness import Closed, Tunnel, Wire
from tcp_origins import TcpOrigin
from wspeer import KEY, accept_for


def acceptor(one, folder):
    other = copy.copy(one)
    other.socket_path = os.path.join(one.folder, folder, "s")
    return other


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(5)
    sock.connect(path)
    return sock


@contextlib.contextmanager
def many():
    """A list of sockets that are closed at the end."""
    socks = []
    try:
        yield socks
    finally:
        for sock in socks:
            sock.close()


def ended(socks):
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN)
    return len(poll.poll(0))


def hung_up(socks):
    poll = select.poll()
    for sock in socks:
        poll.register(sock, 0)
    return len(poll.poll(0))


def serves(one, host="open.test"):
    with Tunnel(one, host) as tunnel:
        return tunnel.ask("GET", "/test/echo").status == 200


def answer_of(one, host="open.test"):
    """The status of a request; 429 also where the connection ends: what was closed is not yet given back."""
    with contextlib.suppress(Closed, OSError), Tunnel(one, host) as tunnel:
        return tunnel.ask("GET", "/test/echo").status
    return 429


TWO = {
    "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "dev", "sandbox": "two"}],
    "tenants": {"dev": {"rules": [{"allow": "https://open.test"}, {"allow": "https://other.test"}]}},
}


# --- memory ---------------------------------------------------------------------------------------

HALF = b"GET http://open.test/ HTTP/1.1\r\nHost: open.test\r\nA: " + b"x" * 30000 + b"\r\nB: " + b"x" * 30000 + b"\r\nC: "


def test_half_heads_of_one_sandbox_keep_no_more_than_its_share(daemon):
    one = daemon({**TWO, "worker": {"threads": 1, "memory": "48MiB"}})
    two = acceptor(one, "e")
    assert serves(two)
    pid = one.worker_pid()
    before = one.resident_kib(pid)
    with many() as socks:
        for _ in range(800):
            socks.append(connect(one.socket_path))
            with contextlib.suppress(OSError):
                socks[-1].sendall(HALF)
        until("some are refused", lambda: ended(socks) > 400)
        # A third of 48 MiB, with what malloc and the kernel add.
        assert one.resident_kib(pid) - before < 32 * 1024
        assert serves(two)
        refused = next(sock for sock in socks if select.select([sock], [], [], 0)[0])
        assert refused.recv(100).startswith(b"HTTP/1.1 429 ")
    until("it may have connections again", lambda: answer_of(one) == 200)


def test_answers_that_nobody_reads_keep_no_more_than_their_sandboxs_share(daemon, plain_mock):
    one = daemon({**TWO, "worker": {"threads": 1, "memory": "48MiB"},
                  "upstream": {"resolve": {"plain.test": plain_mock.address}}},
                 rules=[{"allow": "http://plain.test"}])  # fmt: skip
    two = acceptor(one, "e")
    pid = one.worker_pid()
    assert serves(two)
    before = one.resident_kib(pid)
    ask = b"GET http://plain.test/test/bytes?n=5000000 HTTP/1.1\r\nHost: plain.test\r\n\r\n"
    with many() as socks:
        for _ in range(300):
            socks.append(connect(one.socket_path))
            socks[-1].setblocking(False)
            with contextlib.suppress(OSError):
                socks[-1].send(ask + b"G" * 150000)
        until("some are refused", lambda: one.journal(reason="limit"))
        assert one.resident_kib(pid) - before < 40 * 1024
        assert serves(two)
    until("all is given back", lambda: answer_of(one) != 429)


def answer_websocket(sock, more):
    head = b""
    while b"\r\n\r\n" not in head:
        head += sock.recv(4096)
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", head)[1].decode()
    sock.sendall(f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 f"Sec-WebSocket-Accept: {accept_for(key)}\r\n\r\n".encode() + more)  # fmt: skip
    while sock.recv(65536):
        pass


def test_frames_that_never_end_keep_no_more_than_their_sandboxs_share(daemon):
    """A piece of 16 KiB that lacks its last byte, in both directions of each WebSocket."""
    piece = b"\0\0\0\0\0\x10\0\0", b"x" * 16383
    far = TcpOrigin(lambda _, sock: answer_websocket(sock, b"\x82\x7f" + b"".join(piece)))
    one = daemon({**TWO, "worker": {"threads": 1, "memory": "48MiB"},
                  "upstream": {"resolve": {"far.test": far.address}}},
                 rules=[{"allow": "http://far.test"}])  # fmt: skip
    two = acceptor(one, "e")
    pid = one.worker_pid()
    assert serves(two)
    before = one.resident_kib(pid)
    ask = (f"GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n").encode()  # fmt: skip
    with contextlib.closing(far), many() as socks:
        for _ in range(600):
            socks.append(connect(one.socket_path))
            with contextlib.suppress(OSError):
                socks[-1].sendall(ask)
                if b" 101 " in socks[-1].recv(4096):
                    socks[-1].sendall(b"\x82\xff" + piece[0] + b"abcd" + piece[1])
        until("some are refused", lambda: hung_up(socks) > 100)
        assert one.resident_kib(pid) - before < 40 * 1024
        assert serves(two)
    until("it may have connections again", lambda: answer_of(one) != 429)


EARLY = b"HTTP/1.1 103 Early Hints\r\nA: " + b"x" * 31000 + b"\r\nB: " + b"y" * 31000 + b"\r\n\r\n"


@contextlib.contextmanager
def upstream_of(said):
    """A server that says it to whoever asks, and nothing more."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    with many() as socks:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    socks.append(listener.accept()[0])
                    threading.Thread(target=answer, args=(socks[-1],), daemon=True).start()

        def answer(sock):
            with contextlib.suppress(OSError):
                sock.recv(65536)
                sock.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        yield "127.0.0.1:%d" % listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("said", [EARLY * 15, EARLY.replace(b"103 Early Hints", b"200 OK")], ids=["interim", "final"])
def test_heads_that_nobody_reads_keep_no_more_than_their_sandboxs_share(daemon, said):
    """Windows of HTTP/2 hold content back, and no head."""
    with upstream_of(said) as address, contextlib.ExitStack() as stack:
        one = daemon({**TWO, "worker": {"threads": 1, "memory": "48MiB"}, "upstream": {"resolve": {"loot.test": address}}},
                     rules=[{"allow": "http://loot.test"}])  # fmt: skip
        two = acceptor(one, "e")
        assert serves(two)
        pid = one.worker_pid()
        before = one.resident_kib(pid)
        for _ in range(4):
            client = stack.enter_context(h2_plain(one))
            for n in range(100):
                with contextlib.suppress(Closed, OSError):
                    client.start("GET", f"/{n}", authority="loot.test")
        until("some are refused", lambda: one.journal(reason="limit"))
        for _ in range(4):
            assert serves(two)
            assert one.resident_kib(pid) - before < 40 * 1024
            time.sleep(0.25)


def test_an_interim_response_is_passed_on_where_somebody_reads(daemon):
    with upstream_of(EARLY + b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as address:
        one = daemon({"upstream": {"resolve": {"loot.test": address}}}, rules=[{"allow": "http://loot.test"}])
        with h2_plain(one) as client:
            answer = client.ask("GET", "/", authority="loot.test")
        assert (answer.status, answer.body) == (200, b"ok")


def test_content_held_for_a_models_name_is_charged_over_http_2(daemon):
    one = daemon({**TWO, "worker": {"threads": 1, "memory": "32MiB"}, "tenants": {
        **TWO["tenants"], "acme": {"rules": [{"allow": "POST https://open.test/**", "models": "mini"}]}}})  # fmt: skip
    two = acceptor(one, "e")
    assert serves(two)
    pid = one.worker_pid()
    before = one.resident_kib(pid)
    with contextlib.ExitStack() as stack:
        for _ in range(4):
            client = stack.enter_context(h2_tunnel(one, "open.test"))
            length = ("content-length", str(15 << 20))
            stream = client.start("POST", "/v1", [("content-type", "application/json"), length], end=False)
            with contextlib.suppress(Closed, OSError):
                client.put(stream, b" " * (14 << 20))
            assert serves(two)
        until("some are refused", lambda: one.journal(reason="limit"))
        assert one.resident_kib(pid) - before < 24 * 1024


def test_a_kept_alive_connection_is_charged_for_what_it_keeps_and_no_more(daemon):
    one = daemon({**TWO, "worker": {"threads": 1, "memory": "16MiB"}})
    # Far more bytes than there is memory, one after the other and on many connections.
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(20):
            assert len(tunnel.ask("GET", "/test/bytes?n=2000000").body) == 2000000
    for _ in range(60):
        assert serves(one)


# --- descriptors ----------------------------------------------------------------------------------


def test_one_sandbox_leaves_descriptors_to_another_tenant(daemon):
    one = daemon({**TWO, "worker": {"threads": 1}}, nofile=1024)
    two = acceptor(one, "e")
    assert serves(two)
    with many() as socks:
        for _ in range(900):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                sock.connect(one.socket_path)
            socks.append(sock)
        until("some are refused", lambda: ended(socks) > 2)
        for _ in range(3):
            assert serves(two)
        assert "of the 1024 descriptors (RLIMIT_NOFILE)" in one.stderr()
        # Half of the three quarters that are shared out.
        assert one.descriptors() < 1024 / 2
    until("it may have connections again", lambda: not refuses(one))


def refuses(one):
    try:
        return not serves(one)
    except (Closed, OSError):
        return True


def test_requests_to_upstreams_that_do_not_answer_leave_descriptors_to_another_tenant(daemon):
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(2):
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex(full.getsockname())
        address = "127.0.0.1:%d" % full.getsockname()[1]
        one = daemon({**TWO, "worker": {"threads": 1}, "upstream": {"resolve": {"full.test": address}}},
                     rules=[{"allow": "http://full.test"}, {"allow": "https://open.test"}], nofile=512)  # fmt: skip
        two = acceptor(one, "e")
        socks = stack.enter_context(many())
        for _ in range(300):
            socks.append(connect(one.socket_path))
            with contextlib.suppress(OSError):
                socks[-1].sendall(b"GET http://full.test/ HTTP/1.1\r\nHost: full.test\r\n\r\n")
        until("some are refused", lambda: ended(socks) > 2)
        for _ in range(3):
            assert serves(two)


def test_attempts_to_reach_many_mute_addresses_leave_descriptors_to_another_tenant(daemon, fake_dns):
    """One dial has up to four sockets under way; each is charged to whoever asked."""
    with contextlib.ExitStack() as stack:
        addresses = [f"127.0.0.{n}" for n in range(2, 10)]
        first = stack.enter_context(socket.socket())
        first.bind((addresses[0], 0))
        port = first.getsockname()[1]
        first.listen(0)
        for address in addresses[1:]:
            full = stack.enter_context(socket.socket())
            full.bind((address, port))
            full.listen(0)
        for address in addresses * 2:
            sock = stack.enter_context(socket.socket())
            sock.setblocking(False)
            sock.connect_ex((address, port))
        fake_dns.names = {"loot.test": addresses}
        one = daemon({**TWO, "worker": {"threads": 1}, "timeouts": {"connect": "30s"},
                      "upstream": {"nameservers": [fake_dns.address], "allow_addresses": ["127.0.0.0/8"]}},
                     rules=[{"allow": f"http://loot.test:{port}"}], nofile=1024)  # fmt: skip
        two = acceptor(one, "e")
        assert serves(two)
        client = stack.enter_context(h2_plain(one))
        for n in range(300):
            client.start("GET", f"/{n}", authority=f"loot.test:{port}")
        most = 0
        until("it dials", lambda: one.descriptors() > 300)
        for _ in range(12):
            assert serves(two)
            most = max(most, one.descriptors())
            time.sleep(0.25)
        # Half of the three quarters that are shared out, and what the daemon has for itself.
        assert most < 1024 / 2


def test_kept_connections_leave_descriptors_to_another_tenant(daemon, fake_dns):
    """An upstream for each of many names: what is kept for later is a small part of RLIMIT_NOFILE."""

    class Names(dict):
        def get(self, key, default=None):
            return ["127.0.0.1"] if key.endswith(".loot.test") else dict.get(self, key, default)

    fake_dns.names = Names()
    with upstream_of(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as address:
        port = int(address.split(":")[1])
        one = daemon({**TWO, "worker": {"threads": 2}, "upstream": {
            "nameservers": [fake_dns.address], "allow_addresses": ["127.0.0.0/8"]}},
            rules=[{"allow": f"http://*.loot.test:{port}"}], nofile=512)  # fmt: skip
        two = acceptor(one, "e")
        assert serves(two)
        before = one.descriptors()
        for n in range(400):
            with Wire(one.socket_path, timeout=5) as wire:
                host = f"n{n}.loot.test:{port}"
                assert wire.ask("GET", f"http://{host}/", host=host).status == 200
        # A quarter of 512 is not shared out; half of it is for these.
        assert 8 < one.descriptors() - before <= 64 + 8
        assert serves(two)


def test_the_pages_name_the_limits_that_the_daemon_has():
    with open(os.path.join(ROOT, "include", "keyhole", "base", "limits.h"), encoding="utf-8") as file:
        limits = dict(re.findall(r"^\t(KH_LIMIT_\w+) = (\d+),$", file.read(), re.M))
    with open(os.path.join(ROOT, "docs", "limits.md"), encoding="utf-8") as file:
        page = file.read()
    with open(os.path.join(ROOT, "CHANGELOG.md"), encoding="utf-8") as file:
        changes = file.read()
    leaves, lookups = limits["KH_LIMIT_LEAVES_WANTED"], int(limits["KH_LIMIT_RESOLVES"])
    assert f"| leaves that wait for the keeper's signature | {leaves} |" in page
    assert f"At most {leaves} leaves wait for the keeper" in changes
    assert f"| {lookups:,} | the request gets 429 |" in page
    assert f"kept, {limits['KH_LIMIT_POOL_IDLE']} of HTTP/2 and" in page


def test_check_and_doctor_say_where_connections_are_out_of_reach(tmp_path):
    def said(descriptors, *args):
        done = subprocess.run([KEYHOLE, *args], capture_output=True, text=True, timeout=60, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors,) * 2))  # fmt: skip
        return done.stdout

    def written(limits):
        path = tmp_path / "k.yaml"
        path.write_text("version: 1\ntenants: { t: { rules: [ { allow: \"http://a.example\" } ] } }\n"
                        "listen: [ { unix: /nowhere/s, tenant: t } ]\n" + limits)  # fmt: skip
        return str(path)

    short = ("limits.connections is 16384, and 4096 descriptors (RLIMIT_NOFILE) leave room for 3072, of which each sandbox has "
             "a share (LimitNOFILE= of the unit, or `ulimit -n`, gives more)")  # fmt: skip
    same = written("limits: { connections: 16384 }\n")
    assert f"note: {short}\n" in said(4096, "check", "-c", same)
    assert short in [note["text"] for note in json.loads(said(4096, "check", "--json", "-c", same))["notes"]]
    checks = json.loads(said(4096, "doctor", "--json"))["checks"]
    assert [(row["state"], row["text"]) for row in checks if row["name"] == "descriptors"] == [("warning", short)]
    within = written("limits: { connections: 3072 }\n")
    assert "RLIMIT_NOFILE" not in said(4096, "check", "-c", within)
    assert "RLIMIT_NOFILE" in said(4094, "check", "-c", within)
    assert "RLIMIT_NOFILE" not in said(4096, "check", "-c", written("")), "the default is nobody's wish"


@pytest.mark.parametrize("limits, says", [(None, False), ({"exchanges": 5000}, False), ({"connections": 16384}, True)])
def test_the_daemon_names_a_limit_out_of_reach_only_where_it_was_written(daemon, limits, says):
    one = daemon({**TWO, **({"limits": limits} if limits else {})}, nofile=1024)
    assert serves(one)
    assert ("limits.connections is 16384, and 1024 descriptors" in one.stderr()) == says


# --- lookups --------------------------------------------------------------------------------------


def most_lookups(descriptors):
    """From 1.20 on, c-ares has sockets for a lookup alone, and so there are fewer lookups."""
    version = subprocess.run(["pkg-config", "--modversion", "libcares"], capture_output=True, text=True, check=True).stdout
    has_own = tuple(int(part) for part in version.split(".")[:2]) >= (1, 20)
    return min(8192, descriptors // 16) if has_own else 8192


def test_sandboxes_of_other_tenants_do_not_fill_the_resolver_for_another(daemon, fake_dns, mock):
    """Two tenants, for one alone may not have descriptors for all the lookups that there are."""
    class Names(dict):
        def get(self, key, default=None):
            return SILENCE if key.endswith(".evil.test") else dict.get(self, key, default)

    may_have(20000)
    fake_dns.names = Names({"open.test": ["127.0.0.1"], "other.test": ["127.0.0.1"]})
    port = int(mock.address.split(":")[1])
    listen = [{"unix": f"d{n}/s", "tenant": ("acme", "more")[n % 2], "sandbox": f"a{n}"} for n in range(4)]
    evil = {"rules": [{"allow": "http://*.evil.test"}]}
    one = daemon({
        "listen": [*listen, {"unix": "e/s", "tenant": "dev", "sandbox": "two"}],
        "worker": {"threads": 1},
        "timeouts": {"resolve": "60s"},
        "upstream": {"nameservers": [fake_dns.address], "resolve": None, "allow_addresses": ["127.0.0.0/8"]},
        "tenants": {"acme": evil, "more": evil,
                    "dev": {"rules": [{"allow": f"https://open.test:{port}"}, {"allow": f"https://other.test:{port}"}]}},
    }, nofile=20000)  # fmt: skip
    two = acceptor(one, "e")

    def asks(host):
        with Tunnel(two, host, port=port) as tunnel:
            tunnel.host = f"{host}:{port}"
            return tunnel.ask("GET", "/test/echo").status

    assert asks("open.test") == 200
    with contextlib.ExitStack() as stack:
        for n in range(40):
            client = stack.enter_context(h2_plain(acceptor(one, f"d{n % 4}")))
            for i in range(250):
                client.start("GET", "/", authority=f"n{n}-{i}.evil.test")
        until("many are looked up", lambda: len(set(fake_dns.asked)) > most_lookups(20000) // 2 - 100)
        until("some are refused", lambda: one.journal(reason="limit"))
        assert asks("other.test") == 200


def test_a_full_share_of_lookups_is_refused_as_every_other_share_is(daemon, fake_dns):
    class Silent(dict):
        def get(self, key, default=None):
            return SILENCE

    fake_dns.names = Silent()
    one = daemon({**TWO, "worker": {"threads": 1}, "timeouts": {"resolve": "60s"},
                  "upstream": {"nameservers": [fake_dns.address], "resolve": None}},
                 rules=[{"allow": "http://*.evil.test"}])  # fmt: skip
    with contextlib.ExitStack() as stack:
        # Half of 8,192 is the most that a tenant has which is not alone.
        for box in range(18):
            client = stack.enter_context(h2_plain(one))
            for n in range(250):
                last = client.start("GET", "/", authority=f"n{box}-{n}.evil.test")
        answer = client.wait(last)
    assert answer.status == 429
    assert b"has its share of the proxy's lookups of names: ask for fewer new hosts" in answer.body


def test_lookups_that_a_sandbox_gives_up_are_its_own_until_nobody_is_asked_any_more(daemon, fake_dns, mock):
    """Nameservers go on being asked for a name that nobody waits for; that is charged to whoever wanted it."""

    class Names(dict):
        def get(self, key, default=None):
            return SILENCE if key.endswith(".evil.test") else dict.get(self, key, default)

    fake_dns.names = Names({"open.test": ["127.0.0.1"]})
    port = int(mock.address.split(":")[1])
    one = daemon({
        "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "dev", "sandbox": "two"}],
        "worker": {"threads": 1},
        "upstream": {"nameservers": [fake_dns.address], "resolve": None, "allow_addresses": ["127.0.0.0/8"]},
        "tenants": {"acme": {"rules": [{"allow": "http://*.evil.test"}]},
                    "dev": {"rules": [{"allow": f"https://open.test:{port}"}]}},
    })  # fmt: skip
    two = acceptor(one, "e")

    # Half of 8,192 is the most that a tenant has which is not alone.
    for box in range(17):
        with h2_plain(one) as client:
            for n in range(250):
                client.start("GET", "/", authority=f"n{box}-{n}.evil.test")
            assert client.ask("GET", "/", authority="denied.test").status == 403  # the others have begun
    with h2_plain(one) as client:
        answer = client.wait(client.start("GET", "/", authority="more.evil.test"))
    assert answer.status == 429
    assert b"has its share of the proxy's lookups of names" in answer.body
    with Tunnel(two, "open.test", port=port) as tunnel:
        tunnel.host = f"open.test:{port}"
        assert tunnel.ask("GET", "/test/echo").status == 200
