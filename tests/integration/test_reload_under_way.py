"""test_reload_under_way.py - a reload while a request is under way: whose rules it keeps to, whatever has moved."""

import contextlib
import copy
import fcntl
import sys
import termios
import threading

import pytest
from connect_proxy import ConnectProxy
from fakedns import SILENCE
from harness import FINGERPRINT, SECRET, Tunnel, Wire, until
from tcp_origins import TcpOrigin, echo
from test_reload import reload

FIRST = {"rules": [{"allow": "https://nothing.test"}]}


def in_front(config, count=1):
    """Tenants whose numbers are those of the ones that were there."""
    config["tenants"] = {**{f"a{i:04}": copy.deepcopy(FIRST) for i in range(count)}, **config["tenants"]}


@contextlib.contextmanager
def origin(serve):
    one = TcpOrigin(serve)
    try:
        yield one
    finally:
        one.close()


def answers(one, sock):
    one.seen.append(sock.recv(65536))
    sock.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")


def slowly_named(fake_dns, scheme, port, **config):
    """What `*.evil.test` may be asked for, whose names have addresses when the test says so."""
    fake_dns.names["slow.evil.test"] = SILENCE
    config.setdefault("tenants", {"acme": {"rules": [{"allow": f"{scheme}://*.evil.test:{port}"}]}})
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
        "upstream": {"nameservers": [fake_dns.address], "allow_addresses": ["127.0.0.0/8"]},
        "audit": {"file": "audit.jsonl"},
        **config,
    }


@contextlib.contextmanager
def waiting(one, fake_dns, scheme, port):
    """A request, or a tunnel, that waits for its host's address."""
    authority = f"slow.evil.test:{port}"
    line = f"CONNECT {authority}" if scheme == "tcp" else f"GET http://{authority}/x"
    with Wire(one.socket_path) as wire:
        wire.send(f"{line} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
        until("the name is asked for", lambda: "slow.evil.test" in fake_dns.asked)
        yield wire


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("scheme", ["http", "tcp"])
@pytest.mark.parametrize("whose", ["site", "tenant"])
def test_a_denial_by_address_holds_where_a_reload_moves_the_tenant(daemon, fake_dns, whose, scheme, count):
    with origin(answers) as far:
        denied = {"deny": f"{scheme}://[127.0.0.0/8]:{far.port}"}
        config = slowly_named(fake_dns, scheme, far.port)
        if whose == "site":
            config["site"] = {"rules": [denied, {"allow": f"{scheme}://**:{far.port}"}]}
        else:
            config["tenants"]["acme"]["rules"].insert(0, denied)
        one = daemon(config=config)
        with waiting(one, fake_dns, scheme, far.port) as wire:
            reload(one, lambda config: in_front(config, count))
            fake_dns.names["slow.evil.test"] = ["127.0.0.1"]
            assert wire.read_head().status == 403
        assert far.accepted == 0
        until("its record", lambda: one.journal(event="close", reason="denied_by_rule"))


@pytest.mark.parametrize("scheme", ["http", "tcp"])
def test_a_denial_by_address_that_a_reload_adds_holds_for_what_connects(daemon, fake_dns, scheme):
    with origin(answers) as far:
        one = daemon(config=slowly_named(fake_dns, scheme, far.port))
        denied = {"deny": f"{scheme}://[127.0.0.0/8]:{far.port}"}
        with waiting(one, fake_dns, scheme, far.port) as wire:
            reload(one, lambda config: config["tenants"]["acme"]["rules"].insert(0, denied))
            fake_dns.names["slow.evil.test"] = ["127.0.0.1"]
            assert wire.read_head().status == 403
        assert far.accepted == 0


@pytest.mark.parametrize("scheme", ["http", "tcp"])
def test_what_connects_goes_where_the_rules_in_force_pin_it(daemon, fake_dns, scheme):
    with origin(answers) as far:
        one = daemon(config=slowly_named(fake_dns, scheme, far.port))
        with waiting(one, fake_dns, scheme, far.port) as wire:
            reload(one, lambda config: config["upstream"].update(resolve={"slow.evil.test": far.address}))
            assert wire.read_head().status == 200, "no name server has answered"
        until("it is connected to where the pin says", lambda: far.accepted == 1)


@pytest.mark.parametrize("scheme", ["http", "tcp"])
def test_what_connects_is_decided_anew_and_has_records_of_its_own(daemon, fake_dns, scheme):
    with origin(answers) as far:
        one = daemon(config=slowly_named(fake_dns, scheme, far.port))
        exact = f"{scheme}://slow.evil.test:{far.port}"
        with waiting(one, fake_dns, scheme, far.port) as wire:
            before = until("its record", lambda: one.journal(event="open"))[-1]
            reload(one, lambda config: config["tenants"]["acme"]["rules"].insert(0, {"allow": exact}))
            fake_dns.names["slow.evil.test"] = ["127.0.0.1"]
            assert wire.read_head().status == 200
        until("its end", lambda: one.journal(event="close", complete=True) or scheme == "tcp")
        opens = one.journal(event="open")
        assert [r["rule"] for r in opens] == [before["rule"], exact]
        assert opens[0]["id"] == before["id"] != opens[1]["id"]
        close = one.journal(event="close", id=before["id"])[0]
        assert close["reason"] == "decided_anew" and opens[1]["id"] in close["detail"]
        assert "http.response.status_code" not in close


def test_what_connects_is_taken_from_its_limits_once(daemon, fake_dns):
    limits = {"requests": "2/day", "concurrency": 1, "connections": 1}
    with origin(answers) as far:
        config = slowly_named(fake_dns, "http", far.port)
        config["tenants"]["acme"]["limits"] = limits
        one = daemon(config=config)
        with waiting(one, fake_dns, "http", far.port) as wire:
            for _ in range(3):
                reload(one, lambda config: None)
            fake_dns.names["slow.evil.test"] = ["127.0.0.1"]
            request = f"GET http://slow.evil.test:{far.port}/x HTTP/1.1\r\nHost: slow.evil.test:{far.port}\r\n\r\n"
            assert wire.response().status == 200
            wire.send(request)
            assert wire.response().status == 200
            wire.send(request)
            assert wire.response().status == 403, "two a day"


def to_mock(mock, fake_dns):
    """api.test with the credential, by a name server."""
    fake_dns.names["api.test"] = SILENCE
    port = int(mock.address.rpartition(":")[2])
    return port, {
        "upstream": {"resolve": None, "nameservers": [fake_dns.address], "allow_addresses": ["127.0.0.0/8"]},
        "tenants": {"acme": {"rules": [{"allow": f"https://api.test:{port}", "credential": "main"}]}},
    }


@pytest.mark.parametrize("change", ["rule", "value", "nothing"])
def test_what_connects_takes_the_credential_of_the_rules_in_force(daemon, mock, fake_dns, change):
    port, overrides = to_mock(mock, fake_dns)
    one = daemon(overrides)

    def other(config):
        if change == "rule":
            config["tenants"]["acme"]["rules"] = [{"allow": f"https://api.test:{port}"}]
        elif change == "value":
            one.write_secret("another-value-of-the-key")

    with Tunnel(one, "api.test", port=port) as tunnel:
        tunnel.send(f"GET /test/echo HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n")
        until("the name is asked for", lambda: "api.test" in fake_dns.asked)
        reload(one, other)
        fake_dns.names["api.test"] = ["127.0.0.1"]
        answer = tunnel.response()
    one.write_secret(SECRET)
    key = answer.get("x-mock-key")
    assert answer.status == 200
    assert (key == FINGERPRINT) == (change == "nothing")
    assert bool(key) == (change != "rule")


def upload(one, path="/x"):
    wire = Wire(one.socket_path)
    wire.send(f"POST http://x.test{path} HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n")
    wire.send("3e8\r\n" + 1000 * "x" + "\r\n")
    return wire


def swallow(one, sock):
    while piece := sock.recv(65536):
        one.seen.append(piece)


def test_content_under_way_keeps_to_the_max_body_of_the_rules_in_force(daemon):
    with origin(swallow) as far:
        one = daemon(config=observing(far))
        with upload(one) as wire:
            until("it is on its way", lambda: b"x" * 1000 in b"".join(far.seen))
            reload(one, lambda config: config["tenants"]["acme"].update(
                mode="enforce", rules=[{"allow": "http://x.test", "max_body": "2KiB"}]))  # fmt: skip
            wire.send("1000\r\n" + 4096 * "y" + "\r\n")
            assert wire.read_head().status == 413
        assert b"y" not in b"".join(far.seen)


def test_trailers_under_way_are_looked_at_by_the_rules_in_force(daemon):
    with origin(swallow) as far:
        one = daemon(config=observing(far))
        with upload(one) as wire:
            until("it is on its way", lambda: b"x" * 1000 in b"".join(far.seen))
            reload(one, lambda config: config["tenants"]["acme"].update(
                mode="enforce", rules=[{"deny": "http://x.test", "headers": {"x-kind": "bad"}},
                                       {"allow": "http://x.test"}]))  # fmt: skip
            wire.send("0\r\nX-Kind: bad\r\n\r\n")
            assert wire.read_head().status == 400
        assert b"bad" not in b"".join(far.seen)


def observing(far, **limits):
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": "d/s", "tenant": "acme", "sandbox": "one", "mode": "0660"}],
        "upstream": {"resolve": {"x.test": far.address}},
        "audit": {"file": "audit.jsonl"},
        "tenants": {"acme": {"mode": "observe", "rules": [{"allow": "http://x.test"}],
                             **({"limits": limits} if limits else {})}},  # fmt: skip
    }


def ask(wire):
    wire.send("GET http://x.test/x HTTP/1.1\r\nHost: x.test\r\n\r\n")


class InPieces:
    """An origin's answer of which a piece goes out for each step()."""

    def __init__(self, *pieces):
        self.pieces = pieces
        self.may = threading.Semaphore(1)

    def __call__(self, one, sock):
        sock.recv(65536)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % sum(self.pieces))
        for piece in self.pieces:
            self.may.acquire(timeout=20)
            sock.sendall(b"x" * piece)
        with contextlib.suppress(OSError):
            sock.recv(1)

    def step(self):
        self.may.release()


@pytest.mark.parametrize("count", [1, 400])
def test_a_limit_is_told_as_whose_it_was_where_a_reload_moves_the_tenant(daemon, count):
    """400: the tenant's new number is far behind the end of the list that it stood in."""
    serve = InPieces(5000, 5000)
    with origin(serve) as far:
        one = daemon(config=observing(far, bytes_down="1KiB/h"))
        pid = one.worker_pid()

        def forbid(config):
            config["listen"][0]["sandbox"] = "two"
            config["site"] = {"rules": [{"allow": "http://other.test"}]}
            in_front(config, count)

        with Wire(one.socket_path) as wire:
            ask(wire)
            assert wire.read_head().status == 200
            wire.take(5000)
            reload(one, forbid)
            assert wire.is_closed()
        close = until("its end", lambda: one.journal(event="close"))[-1]
        assert close["reason"] == "no_rule"
        assert close["would_deny.limit"] == "tenant acme: bytes_down 1KiB/h"
        assert one.worker_pid() == pid, "the worker stays"
        serve.step()


def test_a_limit_outlives_the_configuration_that_it_was_read_from(daemon):
    """It is reached behind the first reload, and told behind the second."""
    serve = InPieces(100, 4900, 1000)
    with origin(serve) as far:
        one = daemon(config=observing(far, bytes_down="1KiB/h"))
        pid = one.worker_pid()

        def other(config):
            config["tenants"]["acme"]["limits"] = {"requests": "7/h", "bytes_up": "3KiB/min"}

        with Wire(one.socket_path) as wire:
            ask(wire)
            assert wire.read_head().status == 200
            wire.take(100)
            reload(one, lambda config: None)
            serve.step()
            wire.take(4900)
            reload(one, other)
            reload(one, other)
            serve.step()
            wire.take(1000)
        close = until("its end", lambda: one.journal(event="close"))[-1]
        assert close["would_deny.limit"] == "tenant acme: bytes_down 1KiB/h"
        assert one.worker_pid() == pid, "the worker stays"


def is_read(sock):
    queued = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0")
    return int.from_bytes(queued, sys.byteorder) == 0


def test_content_that_is_held_keeps_to_the_limit_of_the_rules_in_force(daemon):
    """What was taken under a higher limit is refused, and the worker goes on with all else."""
    one = daemon(
        config={
            "version": 1,
            "authority": {"certificate": "ca.pem", "key": "ca.key"},
            "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
            "limits": {"held_content": "8MiB"},
            "tenants": {"acme": {"rules": [{"allow": "POST http://open.test/**", "models": ["m*"]}]}},
            "audit": {"file": "audit.jsonl"},
        }
    )
    worker = one.worker_pid()
    with Wire(one.socket_path) as wire:
        wire.send(
            "POST http://open.test/x HTTP/1.1\r\nHost: open.test\r\nContent-Type: application/json\r\n"
            "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        assert wire.read_head().status == 100
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        for _ in range(64):
            wire.send(chunk)
        until("it is held", lambda: is_read(wire.sock))
        reload(one, lambda config: config["limits"].update(held_content="1MiB"))
        assert wire.read_head().status == 413
    assert one.worker_pid() == worker
    until("its record", lambda: one.journal(event="deny", reason="content_too_large"))


@pytest.mark.parametrize("change", ["nothing", "not allowed", "pinned elsewhere", "pinned there"])
def test_a_connection_stays_only_where_one_would_be_made(daemon, fake_dns, change):
    with origin(echo) as far:
        one = daemon(config=slowly_named(fake_dns, "tcp", far.port))
        fake_dns.names["slow.evil.test"] = ["127.0.0.1"]

        def to(config):
            if change == "not allowed":
                del config["upstream"]["allow_addresses"]
            elif change != "nothing":
                port = far.port + (change == "pinned elsewhere")
                config["upstream"]["resolve"] = {"slow.evil.test": f"127.0.0.1:{port}"}

        with waiting(one, fake_dns, "tcp", far.port) as wire:
            assert wire.read_head().status == 200
            reload(one, to)
            if change in ("nothing", "pinned there"):
                wire.send(b"still")
                assert wire.take(5) == b"still"
            else:
                assert wire.is_closed()
                until("its record", lambda: one.journal(event="close", reason="no_rule"))


def test_what_is_connected_stays_on_its_way_when_a_reload_names_a_proxy(daemon, fake_dns):
    with contextlib.ExitStack() as stack:
        far = stack.enter_context(origin(echo))
        proxy = stack.enter_context(contextlib.closing(ConnectProxy({"*": far.address})))
        one = daemon(config=slowly_named(fake_dns, "tcp", far.port))
        fake_dns.names["slow.evil.test"] = ["127.0.0.1"]
        with waiting(one, fake_dns, "tcp", far.port) as wire:
            assert wire.read_head().status == 200
            reload(one, lambda config: config["upstream"].update(proxy={"url": proxy.url}))
            wire.send(b"still")
            assert wire.take(5) == b"still"
        with waiting(one, fake_dns, "tcp", far.port):
            until("the next one goes through it", lambda: proxy.heads)
