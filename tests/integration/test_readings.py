"""One reading for each notion: what a spelling says in one place it says in all, on the wire as in `explain`."""

import json
import subprocess

import pytest
from common import FINGERPRINT, KEYHOLE, SECRET, until
from daemons import Daemons
from h2client import Reset, h2_tunnel
from harness import Tunnel

RULES = [
    {"deny": "DELETE https://open.test"},
    {"deny": "https://open.test/test/admin/**"},
    {"deny": "https://open.test/test/echo/secret"},
    {"deny": "https://open.test", "query": {"action": "delete"}},
    {"deny": "https://open.test", "headers": {"x-beta": "*"}},
    {"allow": "https://open.test"},
    {"allow": "https://*.wild.test", "credential": "main"},
    {"allow": "PROPFIND,GET https://wild.test", "credential": "main"},
]
CREDENTIAL = {"main": {"value": {"file": "secret"}, "header": {"x-api-key": "{}"},
                       "hosts": ["*.wild.test", "wild.test"]}}  # fmt: skip


@pytest.fixture(scope="module")
def one(mock):
    with Daemons([mock]) as daemons:
        yield daemons({"credentials": CREDENTIAL}, rules=RULES)


def ask_h1(one, host, method, target, fields):
    with Tunnel(one, host) as tunnel:
        return tunnel.ask(method, target, fields, host=host)


def ask_h2(one, host, method, target, fields):
    with h2_tunnel(one, host) as client:
        return client.ask(method, target, [(name.lower(), value) for name, value in fields])


both = pytest.mark.parametrize("ask", [ask_h1, ask_h2])


@both
@pytest.mark.parametrize("name, value", [("content_length", "3"), ("transfer_encoding", "chunked"), ("content.length", "0")])
def test_a_disguised_framing_field_is_refused_by_both_versions(one, mock, ask, name, value):
    before = len(mock.events("request"))
    if ask is ask_h1:
        assert ask(one, "open.test", "POST", "/test/echo", [(name, value)]).status == 400
    else:
        with pytest.raises(Reset):
            ask(one, "open.test", "POST", "/test/echo", [(name, value)])
    assert len(mock.events("request")) == before


DENIED = [
    ("GET", "/test/echo?%20action=delete", [], "query"),
    ("GET", "/test/echo?+action=delete", [], "query"),
    ("GET", "/test/echo?action%00=delete", [], "query"),
    ("GET", "/test/echo?%2561ction=Delete", [], "query"),
    ("GET", "/test/echo", [("X_Beta", "1")], "fields"),
    ("delete", "/test/echo", [], "method"),
    ("GET", "/test/ADMIN/x", [], "path"),
    ("GET", "/test/%2561dmin/x", [], "path"),
    ("GET", "/test/admin%252Fx", [], "path"),
    ("GET", "/test/%EF%BD%81dmin/x", [], "path"),
    ("GET", "/test/echo/secret%3Fx", [], "path"),
    ("GET", "/test/echo%3Faction=delete", [], "path"),
    ("GET", "/test/echo%EF%BC%9Faction%3Ddelete", [], "path"),
]


@both
@pytest.mark.parametrize("method, target, fields, reading", DENIED)
def test_no_spelling_evades_a_denial(one, mock, ask, method, target, fields, reading):
    before = len(mock.events("request"))
    answer = ask(one, "open.test", method, target, fields)
    assert answer.status == 403 and b"denied_by_rule" in answer.body
    assert len(mock.events("request")) == before
    words = [word for name, value in fields for word in ("-H", f"{name}: {value}")]
    done = subprocess.run([KEYHOLE, "explain", "-c", one.config_path, "--json", *words, method, "https://open.test" + target],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    out = json.loads(done.stdout)
    assert (out["decision"], out["reason"]) == ("deny", "denied_by_rule")
    assert reading in out["reading"] and out["reading"].encode() in answer.body


@both
@pytest.mark.parametrize("target", ["/a/%c0%ae%c0%ae/b", "/a/%EF%BC%8E%EF%BC%8E/b", "/a%2500b"])
def test_dots_in_another_spelling_are_malformed(one, ask, target):
    assert ask(one, "open.test", "GET", target, []).status == 400


HOSTS = [
    ("X-Forwarded-Host", "b.a.wild.test", True),
    ("X-Forwarded-Host", "a.wild.test", True),
    ("X-Forwarded-Host", "wild.test", False),  # another rule
    ("X-Forwarded-Host", "evil.example", False),
    ("X-Forwarded-Host", "a.wild.test:8443", False),
    ("X-Forwarded-Host", "a.wild.test, evil.example", False),
    ("X-Forwarded-Host", "", False),
    ("x_forwarded_host", "evil.example", False),
    ("X-Host", "evil.example", False),
    ("X-Original-Host", "evil.example", False),
    ("X-Forwarded-Server", "evil.example", False),
    ("Forwarded", "for=1.2.3.4;host=evil.example;proto=https", False),
    ("Forwarded", 'for=1.2.3.4, HOST="evil.example"', False),
    ("Forwarded", 'host="a.wild.test"', True),
    ("Forwarded", "for=1.2.3.4", True),
    ("X-MS-Original-Url", "https://evil.example/x", False),
    ("X-MS-Original-Url", "https://a.wild.test/x", True),
    ("X-Envoy-Original-Path", "/x", True),  # the rule allows any path
]


@both
@pytest.mark.parametrize("name, value, passes", HOSTS)
def test_a_host_that_a_field_names_is_decided_as_an_override(one, mock, ask, name, value, passes):
    before = len(mock.events("request"))
    answer = ask(one, "a.wild.test", "GET", "/test/echo", [(name, value)])
    assert (answer.status == 200) == passes, answer
    assert len(mock.events("request")) == before + passes


@both
@pytest.mark.parametrize("name", ["X-MS-Original-Url", "X-Envoy-Original-Path", "X-Original-URL", "X-Original-URI"])
def test_a_path_that_a_field_names_may_be_any(one, ask, name):
    assert ask(one, "open.test", "GET", "/test/echo", [(name, "/test/echo")]).status == 403


@both
@pytest.mark.parametrize(
    "query, passes",
    [("?$httpMethod=POST", True), ("?$httpMethod=TRACK", False), ("?%24httpmethod=DEBUG", False), ("?$httpHeaders=a:b", False),
     ("?$req=x", False)],
)  # fmt: skip
def test_googles_system_parameters_are_overrides(one, ask, query, passes):
    assert (ask(one, "a.wild.test", "GET", "/test/echo" + query, []).status == 200) == passes


@both
@pytest.mark.parametrize("host", ["a.wild.test", "open.test"])  # with a credential, and without
def test_authentication_after_an_escaped_mark_in_the_path_is_refused(one, mock, ask, host):
    before = len(mock.events("request"))
    answer = ask(one, host, "GET", "/test/echo%3Faccess_token=mine", [])
    assert answer.status == 403 and b"client_auth" in answer.body, answer
    assert len(mock.events("request")) == before
    assert ask(one, host, "GET", "/test/echo%3Fpage=1", []).status in (200, 404)


@both
@pytest.mark.parametrize("method", ["TRACK", "DEBUG", "PROPFIND", "get", "QUERY"])
def test_a_credential_goes_with_common_methods_unless_the_rule_names_others(one, mock, ask, method):
    before = len(mock.events("request"))
    assert ask(one, "a.wild.test", method, "/test/echo", []).status == 403
    assert len(mock.events("request")) == before
    # Without a credential, and where the rule names it, it goes.
    assert ask(one, "open.test", method, "/test/echo", []).status == 200
    assert (ask(one, "wild.test", method, "/test/echo", []).status == 200) == (method == "PROPFIND")


@both
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_the_common_methods_get_the_credential(one, mock, ask, method):
    before = mock.mark()
    answer = ask(one, "a.wild.test", method, "/test/echo", [])
    assert answer.status == 200 and SECRET.encode() not in answer.body
    assert "x-api-key" in {name.lower() for name in mock.requests(since=before)[0]["fields"]}
    assert method == "HEAD" or FINGERPRINT in answer.text()


RESOLVED = [
    {"allow": "https://open.test/test/first/**"},
    {"deny": "https://[127.0.0.0/8]/test/admin/**"},
    {"deny": "https://[8.8.8.0/24]"},
    {"deny": "https://[2606:4700::/32]", "spelling": "exact"},
    {"allow": "https://open.test"},
    {"allow": "https://**"},
    {"allow": "GET http://**"},
]


@both
def test_a_rule_by_address_denies_names_that_resolve_into_it(daemon, mock, ask):
    one = daemon(rules=RESOLVED)  # open.test is pinned to loopback
    assert ask(one, "open.test", "GET", "/test/echo", []).status == 200
    assert ask(one, "open.test", "GET", "/test/first/admin", []).status == 404  # allowed above the denial
    before = len(mock.events("request"))
    for target in ("/test/admin/x", "/test/ADMIN/x", "/test/%2561dmin/x"):  # also on the connection that is there
        answer = ask(one, "open.test", "GET", target, [])
        assert answer.status == 403 and b"an address that its host resolves into" in answer.body, answer
    assert len(mock.events("request")) == before
    record = until("it is written", lambda: one.journal(event="close", reason="denied_by_rule"))[-1]
    assert record["reason"] == "denied_by_rule" and RESOLVED[1]["deny"] in record["detail"], record
    assert ask(one, "open.test", "GET", "/test/echo", []).status == 200


CARVED_OUT = [
    {"allow": "GET https://[127.0.0.0/8]/test/echo"},
    {"deny": "https://[127.0.0.0/8]/**"},
    {"allow": "https://open.test"},
]


@both
@pytest.mark.parametrize(
    "method, target, fields, status",
    [
        ("GET", "/test/echo", [], 200),
        ("DELETE", "/test/echo", [], 403),
        ("GET", "/test/bytes", [], 403),
        ("GET", "/test/echo", [("X-HTTP-Method-Override", "DELETE")], 403),
        ("GET", "/test/echo", [("X-Original-URL", "/admin")], 403),
        ("GET", "/test/echo?_method=DELETE", [], 403),
    ],
)
def test_what_is_taken_out_of_a_denied_range_is_so_in_every_reading(daemon, ask, method, target, fields, status):
    assert ask(daemon(rules=CARVED_OUT), "open.test", method, target, fields).status == status


@pytest.mark.parametrize("addresses", [["8.8.8.8"], ["::ffff:8.8.8.8"], ["64:ff9b::8.8.8.8"], ["8.8.8.9", "8.8.8.10"]])
def test_every_address_of_a_name_is_held_against_the_rules(daemon, fake_dns, addresses):
    one = daemon({"upstream": {"nameservers": [fake_dns.address], "resolve": None}}, rules=RESOLVED)
    fake_dns.names["dns.example"] = addresses
    with Tunnel(one, "dns.example") as tunnel:
        answer = tunnel.ask("GET", "/")
    assert answer.status == 403 and b"denied_by_rule" in answer.body, answer
    record = until("it is written", lambda: one.journal(event="close", reason="denied_by_rule"))[-1]
    assert record["reason"] == "denied_by_rule" and RESOLVED[2]["deny"] in record["detail"], record


def test_of_several_addresses_the_others_are_dialled(daemon, fake_dns):
    """The denied one is left out; what remains is refused by the guard, which shows that it was asked."""
    one = daemon({"upstream": {"nameservers": [fake_dns.address], "resolve": None}}, rules=RESOLVED)
    fake_dns.names["two.example"] = ["8.8.8.8", "10.1.2.3"]
    with Tunnel(one, "two.example") as tunnel:
        answer = tunnel.ask("GET", "/")
    assert answer.status == 403 and b"10.1.2.3" in answer.body and b"address_prohibited" in answer.body, answer


FORM = [("Content-Type", "application/x-www-form-urlencoded")]


@pytest.mark.parametrize("name", ["access_token", "Access-Token", "access%5ftoken", "%2561ccess_token", "+access_token", "access_token[]"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_token_in_a_form_does_not_go_beside_ours(one, mock, name, chunked):
    body = f"a=1&{name}=mine&b=2".encode()
    before = len(mock.events("request"))
    with Tunnel(one, "a.wild.test") as tunnel:
        if chunked:
            tunnel.send("POST /test/echo HTTP/1.1\r\nHost: a.wild.test\r\nTransfer-Encoding: chunked\r\n"
                        f"Content-Type: {FORM[0][1]}\r\n\r\n{len(body):x}\r\n{body.decode()}\r\n0\r\n\r\n")  # fmt: skip
            assert tunnel.response("POST").status == 403
        else:
            answer = tunnel.ask("POST", "/test/echo", FORM, body, host="a.wild.test")
            assert answer.status == 403 and b"client_auth" in answer.body
            assert len(mock.events("request")) == before
    with Tunnel(one, "a.wild.test") as tunnel:
        fine = tunnel.ask("POST", "/test/echo", FORM, b"a=1&b=access_token&token_type=x", host="a.wild.test")
    assert fine.status == 200


@pytest.mark.parametrize("key", ["model\\u0000", "MODEL", " model", "model ", "\uff4dodel", "mod\\u0065l"])
def test_another_spelling_of_a_json_name_is_refused(daemon, key):
    one = daemon(rules=[{"allow": "https://open.test", "models": "good"}])
    body = ('{"model":"good","%s":"bad"}' % key).encode()
    with Tunnel(one, "open.test") as tunnel:
        answer = tunnel.ask("POST", "/test/echo", [("Content-Type", "application/json")], body)
        assert answer.status == 403 and b"model_unreadable" in answer.body, answer
    with Tunnel(one, "open.test") as tunnel:
        fine = tunnel.ask("POST", "/test/echo", [("Content-Type", "application/json")], b'{"model":"good","modest":"x"}')
    assert fine.status == 200
