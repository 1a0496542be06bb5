"""Under `mode: observe` what a tenant's rules would refuse goes through without any credential, and is marked.

A single rule that observes is as if it were not there; a limit that is only observed keeps nothing back.
"""

import json
import shutil
import socket
import ssl
import subprocess

import pytest
import sigv4
from aws_origin import AwsOrigin
from clients import Tunnel
from common import FINGERPRINT, KEYHOLE, until
from daemons import NAMES, Daemons, base_config
from h2client import h2_tunnel
from mtls_origin import HOST as MTLS_HOST
from mtls_origin import Origin as MtlsOrigin
from mtls_origin import config_of, make_ca, make_client, read
from test_placeholders import env_of
from test_readings import both
from test_reload import reload
from test_sigv4 import FAKE_ID, FAKE_KEY, KEY, KEY_ID, S3, TOKEN, value
from test_sigv4 import config as sigv4_config
from test_tcp import Connect, greeter, origin, to  # noqa: F401 (origin and to are fixtures)
from wspeer import CLOSE, TEXT, WsClient, close_payload
from wspeer import Origin as WsOrigin

RANGE = "https://[127.0.0.0/8]"


def observing(mock, rules=None, mode="observe", **credential):
    config = base_config(mock)
    config["credentials"]["main"].update(credential)
    config["tenants"]["acme"]["mode"] = mode
    if rules:
        config["tenants"]["acme"]["rules"] = rules
    return config


REQUIRED = {"placeholder": {"env": "MAIN_KEY"}, "require_placeholder": True}


def opened(one, path):
    return [r for r in one.records_of(path) if r["event"] == "open"][-1]


def closed(one, path):
    return until("its end", lambda: [r for r in one.records_of(path) if r["event"] == "close"])[-1]


def came(mock, since):
    (request,) = mock.requests(since=since)
    return request


def has_key(mock, since):
    return came(mock, since)["key"] == FINGERPRINT


# --- placeholders ---------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("sent", [None, "nonsense", "own", "elsewhere"])
def test_who_does_not_show_the_placeholder_gets_no_credential_where_the_tenant_observes(daemon, mock, ask, sent):
    one = daemon(config=observing(mock, **REQUIRED))
    own = env_of(one)["MAIN_KEY"]
    fields = {None: [], "nonsense": [("x-api-key", "nonsense")], "own": [("x-api-key", own)],
              "elsewhere": [("x-api-key", own), ("x-note", own)]}[sent]  # fmt: skip
    since = mock.mark()
    assert ask(one, "api.test", "GET", "/test/echo", fields).get("proxy-status") is None
    would = {"own": None, "elsewhere": "exfiltration"}.get(sent, "placeholder_missing")
    assert has_key(mock, since) == (would is None)
    record = opened(one, "/test/echo")
    assert (record.get("would_deny"), record.get("credential")) == (would, None if would else "main")


def test_no_websocket_has_a_credential_that_only_the_mode_lets_through(tmp_path):
    peer = WsOrigin(str(tmp_path), NAMES)
    try:
        with Daemons([peer]) as daemons:
            one = daemons(config=observing(peer, **REQUIRED))
            with WsClient(one) as client:
                client.open("/echo", [("x-note", "1")])
                assert not peer.last().all("x-api-key")
                client.put(TEXT, "x")
                assert client.message() == (TEXT, b"x")
                client.put(CLOSE, close_payload(1000))
                client.expect_close(1000)
            record = opened(one, "/echo")
            assert record["would_deny"] == "placeholder_missing" and "credential" not in record
    finally:
        peer.stop()


def test_nothing_is_signed_that_only_the_mode_lets_through(tmp_path):
    aws = AwsOrigin(str(tmp_path), [S3], {KEY_ID: (KEY, TOKEN)})
    config = sigv4_config(aws)
    config["credentials"]["aws"].update(placeholder={"env": "AWS_SECRET_ACCESS_KEY"}, require_placeholder=True)
    config["tenants"]["acme"]["mode"] = "observe"
    try:
        with Daemons([aws]) as daemons:
            one = daemons(config=config, secret=value())
            signer = sigv4.Signer(FAKE_ID, FAKE_KEY, "eu-west-1", "s3")
            headers = signer.header("GET", S3, "/k", [("x-amz-content-sha256", sigv4.EMPTY)], sigv4.EMPTY)
            with Tunnel(one, S3) as tunnel:
                tunnel.ask("GET", "/k", [(n, v) for n, v in headers if n != "Host"])
            (seen,) = aws.seen
            assert FAKE_ID in str(seen.headers) and KEY_ID not in str(seen.headers) and TOKEN not in str(seen.headers)
            assert opened(one, "/k")["would_deny"] == "placeholder_missing"
    finally:
        aws.stop()


# --- rules and limits -----------------------------------------------------------------------------


@both
def test_a_rule_that_observes_is_as_if_it_were_not_there(daemon, mock, ask):
    tried = {"deny": "https://api.test/test/echo", "mode": "observe"}
    one = daemon(config=observing(mock, [tried, {"allow": "https://api.test", "credential": "main"}], "enforce", **REQUIRED))
    own, since = env_of(one)["MAIN_KEY"], mock.mark()
    assert ask(one, "api.test", "GET", "/test/echo", [("x-api-key", own)]).status == 200
    assert has_key(mock, since), "the rule below it sets one"
    record = opened(one, "/test/echo")
    assert (record["would_deny"], record["credential"]) == ("denied_by_rule", "main")
    # What guards the credential stays as it is.
    since = mock.mark()
    assert ask(one, "api.test", "GET", "/test/echo", []).status == 403
    assert ask(one, "api.test", "GET", "/test/echo", [("x-api-key", own), ("x-note", own)]).status == 403
    assert not mock.requests(since=since)


def test_where_all_rules_observe_one_that_says_so_is_like_the_others(daemon, mock):
    tried = {"deny": "https://api.test/test/echo", "mode": "observe"}
    one = daemon(config=observing(mock, [tried, {"allow": "https://api.test", "credential": "main"}]))
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert not has_key(mock, since)
    record = opened(one, "/test/echo")
    assert record["would_deny"] == "denied_by_rule" and "credential" not in record


def test_what_a_field_asks_for_and_the_rules_refuse_goes_without_a_credential(daemon, mock):
    one = daemon(config=observing(mock, [{"allow": "GET https://api.test", "credential": "main"}]))
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.ask("GET", "/test/echo", [("X-HTTP-Method-Override", "DELETE")])
    assert not has_key(mock, since)
    assert opened(one, "/test/echo")["would_deny"] == "no_rule"


def test_a_limit_that_is_only_observed_keeps_the_credential(daemon, mock):
    config = observing(mock)
    config["tenants"]["acme"]["limits"] = {"requests": "1/day"}
    one = daemon(config=config)
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo?1").status == 200
        since = mock.mark()
        assert tunnel.ask("GET", "/test/echo?2").status == 200
    assert has_key(mock, since)
    record = opened(one, "/test/echo")
    assert (record["would_deny"], record["credential"]) == ("limit_spent", "main")
    assert record["would_deny.limit"] == "tenant acme: requests 1/day" and "would_deny.rule" not in record


def test_a_limit_on_top_gives_no_credential_back(daemon, mock):
    config = observing(mock, **REQUIRED)
    config["tenants"]["acme"]["limits"] = {"requests": "1/day"}
    one = daemon(config=config)
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        for _ in range(2):
            tunnel.ask("GET", "/test/echo")
    assert [r["key"] for r in mock.requests(since=since)] == [None, None]
    record = opened(one, "/test/echo")
    assert record["would_deny"] == "placeholder_missing" and record["would_deny.limit"]


def test_what_has_a_credential_ends_where_it_would_get_none_any_more(daemon, mock):
    """A reload that leaves it to the mode alone."""
    one = daemon(config=observing(mock))
    with Tunnel(one, "api.test") as tunnel:
        tunnel.send("GET /test/sse?n=100&ms=100 HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert tunnel.read_head().status == 200
        reload(one, lambda config: config["tenants"]["acme"].update(rules=[{"allow": "https://open.test"}]))
        assert until("its end", lambda: closed(one, "/test/sse"))["reason"] == "no_rule"


# --- rules by address -----------------------------------------------------------------------------

BY_ADDRESS = [{"deny": RANGE}, {"allow": "https://api.test", "credential": "main"}, {"allow": "https://open.test"}]


@both
def test_a_name_in_a_range_that_is_denied_goes_without_a_credential_and_is_marked(daemon, mock, ask):
    one = daemon(config=observing(mock, BY_ADDRESS))  # both are pinned to loopback
    for target in ("/test/bytes?n=1", "/test/bytes?n=2"):
        since = mock.mark()
        ask(one, "api.test", "GET", target, [])
        assert not has_key(mock, since)
    record = closed(one, "/test/bytes")
    assert (record["would_deny"], record["would_deny.rule"]) == ("denied_by_rule", RANGE)
    assert record["withheld"] is True and opened(one, "/test/bytes")["credential"] == "main"
    since = mock.mark()
    for _ in range(2):  # also on the connection that is there
        assert ask(one, "open.test", "GET", "/test/echo", []).status == 200
    record = closed(one, "/test/echo")
    assert record["would_deny"] == "denied_by_rule" and "withheld" not in record
    assert one.journal(event="deny") == []


def test_content_goes_along_to_where_only_the_mode_lets_it_go(daemon, mock):
    one = daemon(config=observing(mock, BY_ADDRESS))
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.ask("POST", "/test/echo", body=b"x" * 70000)
    assert not has_key(mock, since)
    record = closed(one, "/test/echo")
    assert record["withheld"] is True and record["http.request.body.size"] == 70000


@pytest.mark.parametrize("where", ["site", "tenant"])
def test_a_rule_by_address_that_observes_keeps_the_credential_and_marks(daemon, mock, where):
    tried, below = {"deny": RANGE, "mode": "observe"}, [{"allow": "https://api.test", "credential": "main"}]
    config = observing(mock, [tried, *below] if where == "tenant" else below, "enforce")
    if where == "site":
        config["site"] = {"rules": [tried, {"allow": "https://**"}]}
    one = daemon(config=config)
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        for _ in range(2):
            assert tunnel.ask("GET", "/test/echo").status == 200
    assert all(r["key"] == FINGERPRINT for r in mock.requests(since=since))
    record = closed(one, "/test/echo")
    assert (record["would_deny"], record["would_deny.rule"]) == ("denied_by_rule", RANGE) and "withheld" not in record


@pytest.mark.parametrize("rules, marked", [
    ([{"allow": "https://api.test", "credential": "main"}, {"deny": RANGE}], False),  # below it
    ([{"allow": RANGE}, {"deny": RANGE + "/**", "mode": "observe"}, {"allow": "https://api.test", "credential": "main"}], False),
    ([{"deny": RANGE, "spelling": "exact"}, {"allow": "https://api.test", "credential": "main"}], False),
    ([{"deny": RANGE + "/admin"}, {"allow": "https://api.test", "credential": "main"}], False),
])  # fmt: skip
def test_what_enforcing_would_not_refuse_by_address_is_not_marked(daemon, mock, rules, marked):
    one = daemon(config=observing(mock, rules))
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert has_key(mock, since) and ("would_deny" in closed(one, "/test/echo")) == marked


def test_what_the_site_denies_by_address_is_not_softened(daemon, mock):
    config = observing(mock, BY_ADDRESS)
    config["site"] = {"rules": [{"deny": RANGE + "/test/**"}, {"allow": "https://**"}]}
    one = daemon(config=config)
    since = mock.mark()
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 403
    assert not mock.requests(since=since)


def test_of_several_addresses_the_credential_goes_to_one_that_is_allowed(daemon, mock, fake_dns):
    port = mock.address.rpartition(":")[2]
    config = observing(mock, [{"deny": f"https://[127.0.0.2]:{port}"},
                              {"allow": f"https://api.test:{port}", "credential": "main"}])  # fmt: skip
    config["upstream"] = {"ca_file": mock.ca, "nameservers": [fake_dns.address], "allow_addresses": ["127.0.0.0/8"]}
    fake_dns.names["api.test"] = ["127.0.0.2", "127.0.0.1"]
    one = daemon(config=config)
    since = mock.mark()
    with Tunnel(one, "api.test", port=int(port)) as tunnel:
        assert tunnel.ask("GET", "/test/echo", host=f"api.test:{port}").status == 200
    assert has_key(mock, since)
    record = closed(one, "/test/echo")
    assert record["network.peer.address"] == "127.0.0.1" and "would_deny" not in record


def test_what_was_withheld_goes_along_where_a_reload_allows_it_before_anything_was_sent(daemon, mock):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = observing(mock, BY_ADDRESS)
        config["upstream"]["resolve"]["api.test"] = f"127.0.0.1:{silent.getsockname()[1]}"
        one = daemon(config=config)

        def allow(config):
            config["tenants"]["acme"]["rules"] = BY_ADDRESS[1:]
            config["upstream"]["resolve"]["api.test"] = mock.address

        with Tunnel(one, "api.test") as tunnel:
            tunnel.send("GET /test/echo HTTP/1.1\r\nHost: api.test\r\n\r\n")
            first, _ = silent.accept()
            with first:
                assert first.recv(1), "the greeting of the connection that is for no credential"
                since = mock.mark()
                reload(one, allow)
                assert tunnel.read_head().status == 200
        assert has_key(mock, since)
    records = until("both ends", lambda: len(found := one.records_of("/test/echo")) == 4 and found)
    assert not any("would_deny" in r or "withheld" in r for r in records)


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_a_tunnel_to_a_range_that_is_denied_is_marked(to, mode):  # noqa: F811
    tried = {"deny": "tcp://[127.0.0.0/8]:22", **({"mode": "observe"} if mode == "enforce" else {})}
    one, _ = to(greeter, [tried, {"allow": "tcp://git.test:22"}], {"tenants": {"acme": {"mode": mode}}})
    with Connect(one, "git.test:22") as wire:
        assert wire.answer.status == 200
        assert wire.take(14) == b"SSH-2.0-mock\r\n"
    record = until("its end", lambda: one.journal(event="close"))[-1]
    assert (record["would_deny"], record["would_deny.rule"]) == ("denied_by_rule", "tcp://[127.0.0.0/8]:22")


@pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
@pytest.mark.parametrize("refused_by", ["address", "placeholder"])
def test_no_client_certificate_is_shown_to_where_only_the_mode_lets_it_go(tmp_path, alpn, refused_by):
    ca = make_ca(str(tmp_path), "client-ca")
    certificate, key = make_client(str(tmp_path), ca, "first")
    peer = MtlsOrigin(str(tmp_path), ca[0], mode=ssl.CERT_OPTIONAL, alpn=(alpn,))
    config = config_of(peer, "client.pem")
    rules = config["tenants"]["acme"]["rules"]
    if refused_by == "address":
        rules.insert(0, {"deny": RANGE})
    else:
        config["credentials"]["second"] = {"value": {"env": "SECOND"}, "header": {"x-second": "{}"}, "hosts": [MTLS_HOST], **REQUIRED}
        rules[0]["credentials"] = [rules[0].pop("credential"), "second"]
    config["tenants"]["acme"]["mode"] = "observe"
    try:
        with Daemons([peer]) as daemons:
            one = daemons(config=config, secret=read(key).rstrip("\n"), start=False, env={"SECOND": "x" * 30})
            shutil.copy(certificate, f"{one.folder}/client.pem")
            one.start()
            with Tunnel(one, MTLS_HOST) as tunnel:
                for _ in range(2):
                    said = tunnel.ask("GET", "/").json()
                    assert said["subject"] is None and "x-second" not in said["fields"], said
            with h2_tunnel(one, MTLS_HOST) as client:
                assert json.loads(client.ask("GET", "/").body)["subject"] is None
            record = [r for r in one.records_of("/") if "would_deny" in r][-1]
            assert record["would_deny"] == ("denied_by_rule" if refused_by == "address" else "placeholder_missing")
    finally:
        peer.stop()


# --- explain --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, rule_mode, decision, would, credentials", [
    ("enforce", None, "deny", None, None),
    ("observe", None, "allow", "denied_by_rule", None),
    ("enforce", "observe", "allow", "denied_by_rule", ["main"]),
    ("observe", "observe", "allow", "denied_by_rule", None),
])  # fmt: skip
def test_explain_says_what_becomes_of_a_name_in_a_denied_range(tmp_path, mode, rule_mode, decision, would, credentials):
    path = tmp_path / "k.yaml"
    tried = {"deny": RANGE, **({"mode": rule_mode} if rule_mode else {})}
    path.write_text(json.dumps({
        "version": 1,
        "upstream": {"resolve": {"api.test": "127.0.0.1:9"}},
        "credentials": {"main": {"value": {"env": "X"}, "header": {"x-api-key": "{}"}, "hosts": ["api.test"]}},
        "tenants": {"acme": {"mode": mode, "rules": [tried, {"allow": "https://api.test", "credential": "main"}]}},
    }))  # fmt: skip
    done = subprocess.run([KEYHOLE, "explain", "-c", path, "--json", "https://api.test/x"], capture_output=True, text=True,
                          timeout=30, check=False)  # fmt: skip
    said = json.loads(done.stdout)
    assert (said["decision"], said.get("would_deny"), said.get("credentials")) == (decision, would, credentials), said
    if decision == "deny":
        assert said["reason"] == "denied_by_rule" and said["rule"]["rule"] == RANGE and done.returncode == 3
        assert said["addresses"][0]["rule"] == RANGE and said["reading"] == "an address that its host resolves into"
    else:
        assert said["addresses"][0]["would_deny_rule"] == RANGE and said["would_deny_rule"]["rule"] == RANGE
        assert said["client_auth"] == ("removed" if credentials else "pass")
    text = subprocess.run([KEYHOLE, "explain", "-c", path, "https://api.test/x"], capture_output=True, text=True,
                          timeout=30, check=False).stdout  # fmt: skip
    assert ("refused: " if decision == "deny" else "only observed; enforced it would be refused: ") + RANGE in text
