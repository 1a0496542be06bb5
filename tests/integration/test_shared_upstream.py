"""No sandbox holds another one up at an upstream that both use, whatever it does there."""

import copy
import os
import socket

import pytest
from daemons import Daemons, base_config, merge
from h2client import h2_tunnel
from h2upstream import make_daemon, make_up  # noqa: F401
from harness import Tunnel, Wire, until

TWO = {"listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"},
                  {"unix": "e/s", "tenant": "acme", "sandbox": "two", "mode": "0660"}]}  # fmt: skip


@pytest.fixture
def pair(daemon):
    """Two sandboxes of a tenant, on one event thread."""
    one = daemon(TWO)
    two = copy.copy(one)
    two.socket_path = os.path.join(one.folder, "e", "s")
    return one, two


def ask_quickly(seen, path, **kind):
    """Status and content; the test fails when it takes longer than 2 seconds."""
    with Tunnel(seen, "open.test", timeout=2) as tunnel:
        answer = tunnel.ask(kind.pop("method", "GET"), path, **kind)
        return answer.status, answer.body


def outstanding(up):
    """Streams with an answer that the windows do not take."""
    return sum(bool(body) for connection in up.live for body in list(connection.pending.values()))


@pytest.fixture
def watched(up, monkeypatch):
    """up.live: its connections' objects."""
    up.live = []

    class Seen(up.connection):
        def __init__(self, *args):
            super().__init__(*args)
            up.live.append(self)

    monkeypatch.setattr(up, "connection", Seen, raising=False)
    return up


@pytest.mark.parametrize("protocol", ["h1", "h2"])
def test_answers_that_one_sandbox_does_not_read_stop_no_other(pair, watched, protocol):
    one, two = pair
    assert ask_quickly(two, "/test/bytes?n=100000")[0] == 200
    slow = []
    if protocol == "h1":
        for _ in range(24):
            slow.append(Tunnel(one, "open.test"))
            slow[-1].start("GET", "/test/bytes?n=3000000")
    else:
        slow.append(h2_tunnel(one, "open.test", acknowledge=False))
        for _ in range(24):
            slow[0].start("GET", "/test/bytes?n=3000000")
    until("nothing more of them is taken", lambda: outstanding(watched) == 24)
    for _ in range(3):
        status, body = ask_quickly(two, "/test/bytes?n=1000000")
        assert status == 200 and len(body) == 1000000
    assert watched.connections == 2, "each has its own"
    for client in slow:
        (client.wire if hasattr(client, "wire") else client).close()


def test_content_that_an_upstream_does_not_read_stops_no_others_content(pair, watched):
    one, two = pair
    assert ask_quickly(two, "/test/echo")[0] == 200
    client = h2_tunnel(one, "open.test")
    for size in (16384, 16384, 16384, 16383):
        stream = client.start("POST", "/test/deaf", end=False)
        client.h2.send_data(stream, b"x" * size)
        client.flush()
    until("the window is used up", lambda: any(window_of(connection) == 0 for connection in watched.live))
    for _ in range(3):
        assert ask_quickly(two, "/test/echo", method="POST", body=b"y" * 20000)[0] == 200
    client.wire.close()


def test_what_ends_the_connection_of_one_sandbox_ends_no_other_ones(pair, watched):
    """A request can make a server end the whole connection: nginx does so for a field that is too large."""
    one, two = pair
    with Tunnel(two, "open.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=3000000")
        head = tunnel.read_head()
        assert ask_quickly(one, "/test/echo")[0] == 200
        watched.live[1].sock.shutdown(socket.SHUT_RDWR)
        assert sum(len(piece) for piece in tunnel.pieces(head)) == 3000000


def window_of(connection):
    """What is left of the window that the upstream gave for all streams together."""
    return connection.h2._inbound_flow_control_window_manager.current_window_size


def test_streams_that_one_sandbox_holds_leave_room_for_others(pair, watched):
    one, two = pair
    watched.max_streams = 4
    client = h2_tunnel(one, "open.test")
    for _ in range(12):
        client.start("GET", "/test/hold")
    until("they are there", lambda: len(watched.of("request")) == 12)
    for _ in range(3):
        assert ask_quickly(two, "/test/echo")[0] == 200
    client.wire.close()


def test_a_sandbox_that_reads_gets_wider_windows(pair, watched):
    one, _ = pair
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/bytes?n=4000000")
        pieces, total, widest = tunnel.pieces(tunnel.read_head()), 0, 0
        (shared,) = watched.live
        while total < 3500000:
            total += len(next(pieces))
            widest = max([widest, *(one.outbound_flow_control_window for one in list(shared.h2.streams.values()))])
    assert widest > 65536, "it is granted more than at first"


def test_kept_connections_of_one_sandbox_leave_those_of_others(mock, plain_mock):
    names = [f"n{i}.test" for i in range(300)]
    config = merge(base_config(mock), {**TWO, "worker": {"threads": 1}})
    config["upstream"]["resolve"] |= dict.fromkeys(["mine.test", *names], plain_mock.address)
    config["tenants"]["acme"]["rules"] = [{"allow": f"http://{name}"} for name in ["mine.test", *names]]
    with Daemons([mock]) as daemons:
        one = daemons(config=config)

        def connection_of(path, name):
            with Wire(path) as wire:
                return wire.ask("GET", f"http://{name}/test/echo", host=name).json()["conn"]

        two = os.path.join(one.folder, "e", "s")
        kept = connection_of(two, "mine.test")
        with Wire(one.socket_path) as wire:
            for name in names:
                assert wire.ask("GET", f"http://{name}/test/echo", host=name).status == 200
        assert connection_of(two, "mine.test") == kept
        plain_mock.close_idle()


def test_a_tenant_with_many_sandboxes_leaves_another_tenants_kept_connections(mock, plain_mock):
    """Each of the many keeps fewer than the other tenant's one sandbox does."""
    many, mine = 40, [f"mine{i}.test" for i in range(12)]
    names = [f"n{i}.test" for i in range(300)]
    rules = {tenant: {"rules": [{"allow": f"http://{name}"} for name in hosts]}
             for tenant, hosts in (("acme", names), ("dev", mine))}  # fmt: skip
    config = merge(base_config(mock), {"worker": {"threads": 1}, "tenants": rules, "credentials": {}})
    config["upstream"]["resolve"] |= dict.fromkeys([*mine, *names], plain_mock.address)
    config["listen"] = [{"unix": f"d{n}/s", "tenant": "acme", "sandbox": f"a{n}"} for n in range(many)]
    config["listen"].append({"unix": "e/s", "tenant": "dev", "sandbox": "one"})
    with Daemons([mock]) as daemons:
        one = daemons(config=config)

        def ask(acceptor, hosts):
            with Wire(os.path.join(one.folder, acceptor, "s")) as wire:
                answers = [wire.ask("GET", f"http://{name}/test/echo", host=name) for name in hosts]
            return [answer.json()["conn"] for answer in answers]

        kept = ask("e", mine)
        for n in range(many):
            ask(f"d{n}", names[n::many])
        assert ask("e", mine) == kept
        plain_mock.close_idle()


def test_connections_that_one_sandbox_holds_cost_others_one_handshake(pair, watched):
    one, two = pair
    watched.max_streams = 1
    clients = [h2_tunnel(one, "open.test") for _ in range(2)]
    for n in range(270):
        clients[n % 2].start("GET", "/test/hold")
    until("each is on a connection of its own", lambda: len(watched.of("request")) == 270, 30)
    before = watched.connections
    for _ in range(4):
        assert ask_quickly(two, "/test/echo")[0] == 200
    assert watched.connections == before + 1
    for client in clients:
        client.wire.close()
