"""Every place that a credential can go to, by HTTP/1.1 and HTTP/2 on both sides; nothing of the client's beside it."""

import base64
import json
from urllib.parse import quote

import pytest
from daemons import NAMES, Daemons, base_config, merge
from h2upstream import H2Upstream, ask_h1, ask_h2, both

PLAIN = "plain-value_0123456789~"
PAIR = "some-user:and-a-password"

# name: (placement, the value, what the upstream gets: field or parameter, and its value)
KINDS = {
    "header": ({"header": {"x-special": "v={};k"}}, PLAIN, ("x-special", f"v={PLAIN};k")),
    "bearer": ({"bearer": True}, PLAIN, ("authorization", "Bearer " + PLAIN)),
    "basic": (
        {"basic": {"username": "x-access-token"}}, PLAIN,
        ("authorization", "Basic " + base64.b64encode(b"x-access-token:" + PLAIN.encode()).decode()),
    ),
    "basic-pair": ({"basic": {}}, PAIR, ("authorization", "Basic " + base64.b64encode(PAIR.encode()).decode())),
    "azure": ({"azure": True}, PLAIN, ("api-key", PLAIN)),
    "query": ({"query": "key"}, PLAIN, ("?", f"key={PLAIN}")),
    "query-own-name": ({"query": "Special.name"}, PLAIN, ("?", f"Special.name={PLAIN}")),
    "cookie": ({"cookie": "session"}, PLAIN, ("cookie", "session=" + PLAIN)),
}  # fmt: skip
CARRIERS = ["Authorization", "X-Api-Key", "api-key", "API_KEY", "x-goog-api-key", "Cookie", "cookie2", "Private-Token",
            "Job-Token", "X-Auth-Token", "X-Amz-Security-Token", "token", "x-special", "X_Special"]  # fmt: skip
QUERIES = ["key", "KEY", "%6bey", "key%5b%5d", "api_key", "access_token", "X-Amz-Signature", "token", "special.name",
           "Special%2ename", "%20key", "key%00x"]  # fmt: skip


class Seen:
    """What the upstream got, whichever version it speaks."""

    def __init__(self, answer):
        assert answer.status == 200, (answer.status, answer.text())
        what = answer.json()
        self.fields = [(n.lower(), v) for n, v in what["fields"]]
        self.path = dict(self.fields).get(":path") or what["line"].split(" ")[1]
        self.text = answer.text()

    def all(self, name):
        if name == "?":
            return self.path.partition("?")[2].split("&")
        return [v for n, v in self.fields if n == name]


@pytest.fixture(scope="module", params=["to-h1", "to-h2"])
def up(request, standin, tmp_path_factory):
    if request.param == "to-h1":
        yield standin
        return
    upstream = H2Upstream(str(tmp_path_factory.mktemp("h2up")), NAMES)
    yield upstream
    upstream.stop()


@pytest.fixture
def start(up):
    with Daemons([up]) as daemons:

        def make(placement, value, more=None, **options):
            config = merge(base_config(up), {"worker": {"threads": 1}})
            config["credentials"]["main"].pop("header")
            config["credentials"]["main"].update(placement)
            return daemons(config=merge(config, more or {}), secret=value, **options)

        yield make


@both
@pytest.mark.parametrize("kind", KINDS)
def test_the_value_goes_where_it_belongs_once(start, ask, kind):
    placement, value, (where, expected) = KINDS[kind]
    d = start(placement, value)
    seen = Seen(ask(d, "/test/echo?a=1&b", host="api.test"))
    assert seen.all(where) == ([expected] if where != "?" else ["a=1", "b", expected])
    assert seen.text.count(expected) == 1
    d.settle()
    assert [r["credential"] for r in d.journal(event="open")] == ["main"]


@both
@pytest.mark.parametrize("kind", KINDS)
def test_an_attackers_own_key_beside_ours_never_reaches_the_upstream(start, ask, kind):
    """In every carrier; also where the carrier is the place that ours goes to."""
    placement, value, (where, expected) = KINDS[kind]
    d = start(placement, value)
    cased = str.lower if ask is ask_h2 else str  # HTTP/2 has no other
    for name in CARRIERS:
        if name.lower().replace("_", "-") == "x-special" and kind != "header":
            continue  # an ordinary field
        for own in ("attackers-own", "Basic YXR0YWNrZXI6a2V5", "session=attackers-own"):
            seen = Seen(ask(d, "/test/echo", fields=[(cased(name), own), (name.lower(), own)], host="api.test"))
            assert "attackers-own" not in seen.text and "YXR0YWNrZXI6a2V5" not in seen.text, name
            assert expected in seen.all(where) and len(seen.all(where)) == 1, name
    for name in QUERIES:
        ordinary = "pecial" in name and kind != "query-own-name"
        seen = Seen(ask(d, f"/test/echo?x=1&{name}=attackers-own;{name}=attackers-own&y=2", host="api.test"))
        assert ordinary or "attackers-own" not in seen.text, name
        assert seen.all(where).count(expected) == 1, name
        assert "x=1" in seen.path and "y=2" in seen.path, name


@both
def test_a_query_credential_takes_the_place_of_the_clients(start, ask):
    d = start({"query": "key"}, PLAIN)
    for given, expected in [
        ("", f"?key={PLAIN}"),
        ("?", f"?&key={PLAIN}"),
        ("?a=1", f"?a=1&key={PLAIN}"),
        ("?key=mine&a=1", f"?key={PLAIN}&a=1"),
        ("?a=1&key=mine&b=2", f"?a=1&key={PLAIN}&b=2"),
        ("?a=1;key=mine;b=2", f"?a=1&key={PLAIN}&b=2"),
        ("?a=%20&KEY=mine&b=2&key=again&c", f"?a=%20&key={PLAIN}&b=2&c"),
        ("?access_token=x&a=1", f"?a=1&key={PLAIN}"),
    ]:
        assert Seen(ask(d, "/test/echo" + given, host="api.test")).path == "/test/echo" + expected


def test_a_query_value_is_percent_encoded(start):
    value = "a b/c+d&e=f%g?h#i\"j"
    d = start({"query": "key"}, value)
    assert Seen(ask_h1(d, "/test/echo", host="api.test")).all("?") == ["key=" + quote(value, safe="~")]


@both
def test_a_query_credential_is_in_no_log_journal_page_or_refusal(start, ask, up):
    d = start({"query": "key"}, PLAIN, {"log": {"level": "debug"}})
    assert ask(d, "/test/echo?a=1", host="api.test").status == 200
    answer = ask(d, "/test/cut?nothing=1", host="api.test")
    assert answer.status == 502 and PLAIN not in answer.text() + str(answer.fields)
    d.settle()
    everything = d.stderr() + json.dumps(d.journal())
    assert PLAIN not in everything
    assert any(r.get("url.query.names") == ["a"] for r in d.journal(event="open"))


@both
def test_several_credentials_go_in_together(start, ask, up):
    more = {
        "credentials": {
            "other": {"value": {"env": "OTHER_KEY"}, "cookie": "first", "hosts": ["api.test"]},
            "third": {"value": {"env": "THIRD_KEY"}, "cookie": "second", "hosts": ["api.test"]},
            "fourth": {"value": {"env": "OTHER_KEY"}, "query": "token", "hosts": ["api.test"]},
        }
    }
    d = start({"bearer": True}, PLAIN, more, env={"OTHER_KEY": "the-others-value", "THIRD_KEY": "a-third-value"},
              start=False)  # fmt: skip
    d.config["tenants"]["acme"]["rules"] = [
        {"allow": "https://api.test", "credentials": ["main", "other", "third", "fourth"]}
    ]
    d.write(d.config)
    d.start()
    seen = Seen(ask(d, "/test/echo", fields=[("cookie", "mine=1")], host="api.test"))
    assert seen.all("authorization") == ["Bearer " + PLAIN]
    assert seen.all("cookie") == ["first=the-others-value; second=a-third-value"] or seen.all("cookie") == [
        "first=the-others-value", "second=a-third-value"]  # fmt: skip
    assert seen.all("?") == ["token=the-others-value"]
    d.settle()
    assert [r["credential"] for r in d.journal(event="open")] == ["main,other,third,fourth"]


def test_where_one_of_several_has_no_value_nothing_goes(start, up):
    more = {"credentials": {"other": {"value": {"env": "NOT_SET"}, "cookie": "first", "hosts": ["api.test"]}}}
    d = start({"bearer": True}, PLAIN, more, start=False)
    d.config["tenants"]["acme"]["rules"] = [{"allow": "https://api.test", "credentials": ["main", "other"]}]
    d.write(d.config)
    d.start()
    answer = ask_h1(d, "/test/echo", host="api.test")
    assert answer.status == 503 and "other" in answer.text()
    d.settle()
    assert d.journal(event="open") == []


def test_connections_are_not_shared_across_sets_of_credentials(start, up):
    more = {
        "credentials": {"other": {"value": {"env": "OTHER_KEY"}, "cookie": "first", "hosts": ["api.test"]}},
    }
    d = start({"bearer": True}, PLAIN, more, env={"OTHER_KEY": "the-others-value"}, start=False)
    d.config["tenants"]["acme"]["rules"] = [
        {"allow": "https://api.test/one/**", "credential": "main"},
        {"allow": "https://api.test/two/**", "credential": "other"},
        {"allow": "https://api.test/both/**", "credentials": ["main", "other"]},
    ]
    d.write(d.config)
    d.start()
    conns = {}
    for _ in range(2):
        for path in ("one", "two", "both"):
            answer = ask_h1(d, f"/{path}/test/echo", host="api.test")
            conns.setdefault(path, set()).add(answer.json()["conn"])
    assert not conns["one"] & conns["two"] and not conns["one"] & conns["both"] and not conns["two"] & conns["both"]
    assert all(len(c) == 1 for c in conns.values()), "and each is used again"


@pytest.mark.parametrize(
    "placement, value, words",
    [
        ({"cookie": "session"}, "semi;colon-in-it", "cookie"),
        ({"cookie": "session"}, "a blank in it", "cookie"),
        ({"basic": {}}, "no-colon-in-it", "user:password"),
    ],
)
def test_a_value_that_does_not_fit_its_place_goes_nowhere_and_is_not_shown(start, placement, value, words):
    d = start(placement, value)
    answer = ask_h1(d, "/test/echo", host="api.test")
    assert answer.status == 503 and words in answer.text() and value not in answer.text() + d.stderr()


def test_a_short_value_is_refused_unless_it_is_allowed_by_name(start):
    d = start({"bearer": True}, "short-7", start=False)
    d.checked = False
    assert d.spawn() is False or ask_h1(d, "/test/echo", host="api.test").status == 503
    assert "short-7" not in d.stderr() and "8 bytes" in d.stderr()
    again = start({"bearer": True, "allow_short": True}, "short-7")
    assert Seen(ask_h1(again, "/test/echo", host="api.test")).all("authorization") == ["Bearer short-7"]


# ---- binding ----


def bound(start, binding, rule="https://api.test"):
    d = start({"bearer": True, **binding}, PLAIN, start=False)
    d.config["tenants"]["acme"]["rules"] = [{"allow": rule, "credential": "main"}]
    d.write(d.config)
    return d


@pytest.mark.parametrize(
    "binding, rule, words",
    [
        ({"paths": ["/v1/**"]}, "https://api.test", "paths"),
        ({"paths": ["/v1/**"]}, "https://api.test/**", "paths"),
        ({"paths": ["/v1/*"]}, "https://api.test/v1/**", "paths"),
        ({"paths": ["/v1/*/x"]}, "https://api.test/v1/**/x", "paths"),
        ({"methods": ["GET"]}, "https://api.test", "methods"),
        ({"methods": ["GET"]}, "GET,POST https://api.test", "methods"),
        ({"hosts": ["other.test"]}, "https://api.test", "hosts"),
    ],
)
def test_a_rule_beyond_the_binding_is_an_error_with_its_place(start, binding, rule, words):
    d = bound(start, binding, rule)
    assert not d.spawn()
    d.process.wait(10)
    d.process = None
    assert f"its own `{words}`" in d.stderr() and "keyhole.yaml:" in d.stderr()


@both
def test_a_request_outside_of_the_binding_is_refused(start, ask):
    d = bound(start, {"paths": ["/v1/**", "/exactly"], "methods": ["GET", "POST"]}, "GET,POST https://api.test/v1/**")
    d.start()
    assert ask(d, "/v1/test/echo", host="api.test").status == 200
    for fields in ([("x-http-method-override", "DELETE")], [("x-original-url", "/admin")]):
        answer = ask(d, "/v1/test/echo", fields=fields, host="api.test")
        assert answer.status == 403, fields
    assert ask(d, "/v1/a%2F..%2f..%2fadmin", host="api.test").status in (400, 403)
    for method in ("TRACE", "DELETE"):
        assert ask(d, "/v1/test/echo", method, host="api.test").status in (403, 501), method
