"""denied_by: each refusal in the journal says whose rules it was, by whichever way the request came."""

import pytest
from h2client import StreamWire, h2_plain
from harness import PLACEHOLDER, Refused, Tunnel, until
from test_tcp import Connect
from tunnels import Socks, SocksRefused
from wspeer import WsClient

RULES = [
    {"deny": "tcp://tenant.test:22"},
    {"allow": "tcp://**:22"},
    {"allow": "https://pin.test", "tls": "passthrough"},
    {"deny": "https://api.test/tenant"},
    {"deny": "https://api.test", "headers": {"x-model": "*"}},
    {"allow": "POST https://api.test/model", "models": "good"},
    {"allow": "https://api.test/small", "max_body": "1B"},
    {"allow": "https://api.test/ws", "websocket": False},
    {"allow": "https://api.test", "credential": "main"},
    {"allow": "https://open.test"},
    {"allow": "https://169.254.169.254"},
]
SITE = [
    {"deny": "tcp://site.test:22"},
    {"allow": "tcp://tenant.test:22"},
    {"allow": "tcp://box.test:22"},
    {"allow": "tcp://nobox.test:22"},
    {"deny": "https://api.test/site"},
    {"allow": "https://open.test/ws", "websocket": False},
    {"allow": "https://**"},
    {"allow": "https://169.254.169.254"},
]
NARROW = [
    {"deny": "tcp://box.test:22"},
    {"allow": "https://**", "max_body": "100B"},
    {"allow": "tcp://tenant.test:22"},
]


@pytest.fixture(scope="module")
def one(mock):
    from daemons import Daemons

    with Daemons([mock]) as daemons:
        made = daemons({"site": {"rules": SITE}}, rules=RULES, start=False)
        made.config["listen"][0]["narrow"] = NARROW
        made.write(made.config)
        made.start()
        yield made


def by_connect(one, authority):
    with Connect(one, authority) as wire:
        assert wire.answer.status == 403


def by_h2(one, authority):
    with h2_plain(one) as client, pytest.raises(Refused):
        StreamWire(client, authority).accept()


def by_socks(one, authority):
    host, port = authority.rsplit(":", 1)
    with pytest.raises(SocksRefused):
        Socks(one, host, int(port))


def denied(one, before):
    return until("a deny record", lambda: one.journal(event="deny")[before:])[-1]


@pytest.mark.parametrize("ask", [by_connect, by_h2, by_socks])
@pytest.mark.parametrize(
    "host, by, rule",
    [
        ("tenant.test", "tenant", "tcp://tenant.test:22"),
        ("site.test", "site", "tcp://site.test:22"),
        ("nosite.test", "site", None),
        ("box.test", "sandbox", "tcp://box.test:22"),
        ("nobox.test", "sandbox", None),
    ],
)
def test_a_tunnel(one, ask, host, by, rule):
    before = len(one.journal(event="deny"))
    ask(one, host + ":22")
    record = denied(one, before)
    assert record["denied_by"] == by
    assert record["reason"] == ("denied_by_rule" if rule else "no_rule")
    assert record.get("rule") == rule
    assert ("rule_at" in record) == bool(rule)
    assert (record["server.address"], record["server.port"]) == (host, 22)


JSON = ("Content-Type", "application/json")


@pytest.mark.parametrize(
    "path, body, fields, status, reason, by",
    [
        ("/tenant", b"", [], 403, "denied_by_rule", "tenant"),
        ("/site", b"", [], 403, "denied_by_rule", "site"),
        ("/x", b"x" * 101, [], 403, "no_rule", "sandbox"),
        ("/model", b"no JSON", [JSON], 403, "model_unreadable", None),
        ("/x", b"", [("X-HTTP-Method-Override", "TRACE")], 403, "no_rule", "tenant"),
    ],
)  # fmt: skip
def test_a_request(one, path, body, fields, status, reason, by):
    before = len(one.journal(event="deny"))
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("POST", path, fields, body).status == status
    record = denied(one, before)
    assert (record["reason"], record.get("denied_by")) == (reason, by)


@pytest.mark.parametrize("host, by", [("api.test", "tenant"), ("open.test", "site")])
def test_a_websocket_and_the_text_names_the_same_rule(one, host, by):
    before = len(one.journal(event="deny"))
    fields = [("Authorization", "Bearer " + PLACEHOLDER)] if host == "api.test" else []
    with WsClient(one, host) as client:
        answer = client.ask_for("/ws", fields)
    assert answer.status == 426
    assert f"the rule is 'https://{host}/ws'" in answer.text()
    record = denied(one, before)
    assert (record["reason"], record["denied_by"]) == ("upgrade_unsupported", by)


def test_a_request_that_only_a_tunnel_rule_allows(daemon):
    one = daemon(rules=[{"allow": "GET https://pin.test/x"}, {"allow": "https://pin.test", "tls": "passthrough"}])
    with Tunnel(one, "pin.test") as tunnel:
        assert tunnel.ask("GET", "/y").status == 403
    record = denied(one, 0)
    assert (record["reason"], record["denied_by"]) == ("tunnel_only", "tenant")
    assert record["rule"] == "https://pin.test"


@pytest.mark.parametrize("host, reason", [("open.test", "client_auth"), ("169.254.169.254", None)])
def test_what_is_no_rules_affair_names_nobody(one, host, reason):
    from harness import client_context

    before = len(one.journal(event="deny"))
    context = client_context(one.ca, check=False)
    fields = [("Authorization", "Bearer mine")] if reason else []
    with Tunnel(one, host, sni=host if reason else "", context=context) as tunnel:
        assert tunnel.ask("GET", "/x", fields, host=host).status == 403
    records = until("its end", lambda: one.journal(event="deny")[before:] or one.journal(event="close"))
    assert "denied_by" not in records[-1]
    assert records[-1]["reason"] == (reason or "address_prohibited")


def test_a_tunnel_that_the_site_refuses_where_it_allows_some_requests(daemon):
    """It is to be passed on unread, which the site's rule does not allow."""
    one = daemon({"site": {"rules": [{"allow": "GET https://pin.test"}]}}, rules=[{"allow": "https://pin.test", "tls": "passthrough"}])
    with pytest.raises(Refused):
        Tunnel(one, "pin.test")
    record = denied(one, 0)
    assert (record["reason"], record["denied_by"], record["rule"]) == ("denied_by_rule", "site", "GET https://pin.test")
