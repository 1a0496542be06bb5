"""test_reload_grants.py - what went up with a credential, with authentication of its own or with a placeholder ends when
a reload would let it go up with that no more"""

import contextlib

import pytest
from harness import Closed, Tunnel, until
from test_handover_rules import sockets, with_sockets  # noqa: F401
from test_placeholders import env_of
from test_reload import only, reload
from test_reload_under_way import origin, swallow, upload
from test_sources import OTHER, put
from test_tenant_values import by_tenant
from wspeer import TEXT, WsClient

OWN_AUTH = [("Authorization", "Bearer of-the-client")]


@contextlib.contextmanager
def stream(one, host, fields=()):
    """An answer that goes on until somebody ends it."""
    with Tunnel(one, host) as tunnel:
        tunnel.start("GET", "/test/sse?n=400&ms=20", fields)
        assert tunnel.read_head().status == 200
        tunnel.take_until(b"data:")
        yield tunnel


def goes_on(tunnel):
    """Has it ended? What was on its way may still come; the whole answer would be 400 events."""
    try:
        for _ in range(20):
            tunnel.take_until(b"data:")
    except Closed:
        return False
    return True


def record_of_end(one):
    return until("its record", lambda: one.journal(event="close", reason="no_rule"))


def no_value(config):
    config["credentials"]["own"]["value"]["tenants"].pop("acme")


def other_tenant(config):
    config["listen"][0]["tenant"] = "globex"


def nothing(config):
    config["tenants"]["acme"]["rules"].append({"allow": "https://another.test"})


@pytest.mark.parametrize("change, credentials, ends", [
    (nothing, ["own", "main"], False),
    (no_value, ["own"], True),
    (no_value, ["own", "main"], True),
    (other_tenant, ["own"], True),
])  # fmt: skip
def test_a_reload_ends_what_has_a_value_that_its_tenant_would_not_get(daemon, tmp_path, change, credentials, ends):
    put(tmp_path / "globex", "globex-" + OTHER)
    one = daemon(by_tenant(tmp_path, credentials))
    with stream(one, "api.test") as tunnel:
        reload(one, change)
        assert goes_on(tunnel) != ends
    assert not ends or record_of_end(one)


@pytest.mark.parametrize("rule, ends", [
    ({"allow": "https://auth.test", "client_auth": "pass", "max_body": "1MiB"}, False),
    ({"allow": "https://auth.test"}, True),
    ({"allow": "https://auth.test", "credential": "main"}, True),
])  # fmt: skip
def test_a_reload_ends_what_has_authentication_of_its_own_that_would_not_pass(daemon, rule, ends):
    one = daemon({"credentials": {"main": {"hosts": ["api.test", "auth.test"]}}})
    with stream(one, "auth.test", OWN_AUTH) as tunnel:
        reload(one, only(rule))
        assert goes_on(tunnel) != ends
    assert not ends or record_of_end(one)


def test_a_reload_keeps_what_has_no_authentication_of_its_own(daemon):
    one = daemon()
    with stream(one, "auth.test") as tunnel:
        reload(one, only({"allow": "https://auth.test"}))
        assert goes_on(tunnel)


@pytest.mark.parametrize("what", ["authentication", "placeholder"])
def test_what_was_only_observed_ends_when_the_rules_are_enforced(daemon, what):
    one = daemon({
        "tenants": {"acme": {"mode": "observe", "rules": [{"allow": "https://open.test"},
                                                          {"allow": "https://api.test", "credential": "main"}]}},
        "credentials": {"main": {"placeholder": {"env": "MAIN_KEY"}}},
    })  # fmt: skip
    fields = OWN_AUTH if what == "authentication" else [("X-Note", env_of(one)["MAIN_KEY"])]
    with stream(one, "open.test", fields) as tunnel:
        reload(one, lambda config: config["tenants"]["acme"]["rules"].append({"allow": "https://another.test"}))
        assert goes_on(tunnel), "it is still observed"
        reload(one, lambda config: config["tenants"]["acme"].update(mode="enforce"))
        assert not goes_on(tunnel)
    record_of_end(one)


def test_a_reload_ends_a_websocket_whose_own_authentication_would_not_pass(daemon, mock, sockets, tmp_path):  # noqa: F811
    config = with_sockets(mock, sockets, str(tmp_path))
    config["tenants"]["acme"]["rules"] = [{"allow": "https://ws.test", "client_auth": "pass"}]
    one = daemon(config)
    with WsClient(one, "ws.test") as client:
        client.open(fields=OWN_AUTH)
        client.put(TEXT, "before")
        assert client.message() == (TEXT, b"before")
        reload(one, lambda config: config["tenants"]["acme"]["rules"][0].pop("client_auth"))
        client.expect_close(1001)


def refuse(config):
    config["tenants"]["acme"]["rules"][0]["placeholder"] = "refuse"


def test_content_under_way_holds_no_placeholder_once_the_rules_in_force_refuse_it(daemon):
    with origin(swallow) as far:
        one = daemon({
            "upstream": {"resolve": {"x.test": far.address}},
            "tenants": {"acme": {"rules": [{"allow": "http://x.test"},
                                           {"allow": "https://api.test", "credential": "main"}]}},
            "credentials": {"main": {"placeholder": {"env": "MAIN_KEY"}}},
        })  # fmt: skip
        placeholder = env_of(one)["MAIN_KEY"]
        with upload(one) as wire:
            until("it is on its way", lambda: b"x" * 1000 in b"".join(far.seen))
            reload(one, refuse)
            wire.send(f"{len(placeholder):x}\r\n{placeholder}\r\n")
            assert wire.read_head().status == 403
        assert placeholder.encode() not in b"".join(far.seen)


def test_a_websocket_sends_no_placeholder_once_the_rules_in_force_refuse_it(daemon, mock, sockets, tmp_path):  # noqa: F811
    config = with_sockets(mock, sockets, str(tmp_path))
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    config["tenants"]["acme"]["rules"] = [{"allow": "https://ws.test"}, {"allow": "https://api.test", "credential": "main"}]
    one = daemon(config)
    with WsClient(one, "ws.test") as client:
        client.open()
        reload(one, refuse)
        client.put(TEXT, "harmless")
        assert client.message() == (TEXT, b"harmless")
        client.put(TEXT, env_of(one)["MAIN_KEY"])
        client.expect_close(1008)
