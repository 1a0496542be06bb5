"""test_reload_slices.py - a reload with many requests under way: nobody stands still, and nothing moves by the old rules."""

import contextlib
import copy
import os
import signal

import pytest
from harness import Tunnel, Wire, finish, until
from tcp_origins import TcpOrigin
from test_reload import IN_FORCE

MANY = 60
# What takes the thread some milliseconds to decide.
COSTLY = [{"deny": f"http://x.test/**/secrets{i}/**"} for i in range(60)]
PATH = "/" + 700 * "secret/" + "%2F%2561"
FIELDS = "".join(f"X-HTTP-Method-Override: {method}\r\n" for method in ("GET", "PUT", "POST", "HEAD"))
FIELDS += "X-Forwarded-Host: x.test\r\nX-Host: x.test:80\r\n"
ALLOWED = [*COSTLY, {"allow": "http://x.test"}]
DENIED = [*COSTLY, {"deny": "http://x.test"}, {"allow": "https://open.test"}]


def swallow(origin, sock):
    while piece := sock.recv(65536):
        origin.seen.append(piece)


@pytest.fixture
def far():
    one = TcpOrigin(swallow)
    yield one
    one.close()


@pytest.fixture
def one(daemon, far):
    return daemon(
        {
            "listen": [
                {"unix": "d/s", "tenant": "acme", "mode": "0660"},
                {"unix": "e/s", "tenant": "dev", "sandbox": "two", "mode": "0660"},
            ],
            "worker": {"threads": 1},
            "upstream": {"resolve": {"x.test": far.address}},
            "tenants": {
                "acme": {"rules": ALLOWED},
                "dev": {"rules": [{"allow": "https://open.test"}]},
            },
        }
    )


def of_dev(one):
    other = copy.copy(one)
    other.socket_path = os.path.join(one.folder, "e", "s")
    return other


def upload(one):
    wire = Wire(one.socket_path)
    wire.send(f"POST http://x.test{PATH} HTTP/1.1\r\nHost: x.test\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n")
    wire.send("5\r\nfirst\r\n")
    return wire


@contextlib.contextmanager
def uploads(one, far):
    """Each has sent some of its content."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(upload(one)) for _ in range(MANY)]
        until("all are on their way", lambda: b"".join(far.seen).count(b"first") == MANY)
        yield wires


def begin(one, *rules):
    """A reload. Return: as soon as the keeper says that the rules are in force."""
    config = copy.deepcopy(one.config)
    config["tenants"]["acme"]["rules"] = list(rules)
    one.write(config)
    seen = one.stderr().count(IN_FORCE)
    one.process.send_signal(signal.SIGHUP)
    until("it is in force", lambda: one.stderr().count(IN_FORCE) > seen)


def ended(one):
    return one.journal(event="close", reason="denied_by_rule") + one.journal(event="close", reason="no_rule")


def test_another_tenant_is_served_between_its_decisions(one, far):
    two = of_dev(one)
    with Tunnel(two, "open.test") as tunnel, uploads(one, far):
        assert tunnel.ask("GET", "/test/echo").status == 200
        begin(one, *DENIED)
        assert tunnel.ask("GET", "/test/echo?2").status == 200
        until("all are ended", lambda: len(ended(one)) == MANY)
    records = one.journal()
    served = max(i for i, r in enumerate(records) if r["event"] == "open" and r["tenant"] == "dev")
    last = max(records.index(r) for r in ended(one))
    assert served < last, "the last of acme's requests was decided after that"


def test_nothing_of_them_goes_up_once_the_rules_are_in_force(one, far):
    with uploads(one, far) as wires:
        begin(one, *DENIED)
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.send("6\r\nsecond\r\n")
        until("all are ended", lambda: len(ended(one)) == MANY)
    assert b"second" not in b"".join(far.seen)


def test_what_the_rules_still_allow_goes_on(one, far):
    with uploads(one, far) as wires:
        for rules in ([*COSTLY, {"allow": "http://x.test", "max_body": "1MiB"}], ALLOWED):
            begin(one, *rules)
        for wire in wires:
            wire.send("6\r\nsecond\r\n")
        until("all of it came", lambda: b"".join(far.seen).count(b"second") == MANY)
        for wire in wires[: MANY // 2]:
            wire.close()
        begin(one, *DENIED)
        until("the others are ended", lambda: len(ended(one)) == MANY - MANY // 2)
    assert len(one.journal(event="open")) == MANY


def test_a_drain_meanwhile_comes_to_its_end(one, far):
    with uploads(one, far):
        begin(one, *DENIED)
        one.process.send_signal(signal.SIGTERM)
        until("all are ended", lambda: len(ended(one)) == MANY)
    assert finish(one.process) == 0
    one.process = None
