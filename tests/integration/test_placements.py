"""Every place that a credential can go to, by HTTP/1.1 and HTTP/2 on both sides; nothing of the client's beside it."""

import base64
import hashlib
import json
import os
import subprocess
from urllib.parse import quote

import pytest
import readable
from common import until
from daemons import NAMES, Daemons, base_config, merge
from h2upstream import H2Upstream, ask_h1, ask_h2, both
from harness import KEYHOLE, Tunnel
from test_base_url import origin_form

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
        self.what = what = answer.json()
        self.fields = [(n.lower(), v) for n, v in what["fields"]]
        self.path = dict(self.fields).get(":path") or what["line"].split(" ")[1]
        self.text = answer.text()

    def all(self, name):
        if name == "?":
            return self.path.partition("?")[2].split("&")
        return [v for n, v in self.fields if n == name]


def at_rest(daemon, n=1):
    """So many exchanges have come to their ends, in the journal too."""
    until("they are written", lambda: len(daemon.journal(event="close")) == n)


@pytest.fixture(scope="module", params=["to-h1", "to-h2"])
def up(request, mock, tmp_path_factory):
    if request.param == "to-h1":
        yield mock
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
    at_rest(d)
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
    at_rest(d, 2)
    everything = d.stderr() + json.dumps(d.journal())
    assert PLAIN not in everything
    assert any(r.get("url.query.names") == ["a"] for r in d.journal(event="open"))


@both
@pytest.mark.parametrize("value", [PLAIN, "a b/c+d&e=f"])
def test_fields_behind_the_content_do_not_bring_the_key_back(mock, ask, value):
    with Daemons([mock]) as daemons:
        config = base_config(mock)
        config["credentials"]["main"].pop("header")
        config["credentials"]["main"]["query"] = "key"
        d = daemons(config=config, secret=value)
        fields = [("te", "trailers")]
        answer = ask(d, "/test/trailed?a=1", fields=fields, host="api.test")
    assert answer.status == 200
    trailers = {n.lower(): v for n, v in answer.trailers}
    assert trailers["x-line"] == "GET /test/trailed?a=1&key=keyhole HTTP/1.1"
    assert (trailers["x-sum"], trailers["x-last"]) == ("7", "8")


@both
@pytest.mark.parametrize("value", [PLAIN, "a b/c+d&e=f"])
def test_a_reason_phrase_and_a_fields_name_do_not_bring_the_key_back(mock, ask, value):
    """A server of HTTP/1.1 has both to itself."""
    with Daemons([mock]) as daemons:
        config = base_config(mock)
        config["credentials"]["main"].pop("header")
        config["credentials"]["main"]["query"] = "key"
        answer = ask(daemons(config=config, secret=value), "/test/mirror?a=1", host="api.test")
    assert answer.status == 200 and "x-keyhole" in [name.lower() for name, _ in answer.fields]
    assert getattr(answer, "reason", "") in ("", "for a=1&key=keyhole")
    seen = repr((getattr(answer, "reason", ""), answer.fields))
    assert value not in seen and quote(value, safe="~").lower() not in seen.lower()


@both
@pytest.mark.parametrize("value", [PLAIN, "a b/c+d&e=f"])
def test_a_redirect_does_not_bring_the_key_back(start, ask, value):
    """As servers do that miss a slash at the end; whoever follows it gets the key anew."""
    d = start({"query": "key"}, value)
    answer = ask(d, "/test/redirect?a=1", host="api.test")
    assert answer.status == 308
    assert answer.get("location") == "https://api.test/test/echo?a=1&key=keyhole"
    assert answer.get("link") == "<https://api.test/test/echo?a=1&key=keyhole>; rel=x"
    assert value not in str(answer.fields) and quote(value, safe="~") not in str(answer.fields)
    followed = Seen(ask(d, answer.get("location").removeprefix("https://api.test"), host="api.test"))
    assert followed.path == "/test/echo?a=1&key=" + quote(value, safe="~")


@both
@pytest.mark.parametrize("how", ["once", "small", "slashes-left", "form", "all", "twice", "three-times", "as-it-is"])
def test_a_login_does_not_bring_the_key_back_in_another_spelling(start, ask, how):
    d = start({"query": "key"}, "q7Zr/8vXo+1LkT93=~*b(x)%4aZ")
    answer = ask(d, "/test/login?how=" + how, host="api.test")
    assert answer.get("location") == "/login?next=%2Fa%3Fkey%3Dkeyhole&b=1"


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
    at_rest(d)
    assert [r["credential"] for r in d.journal(event="open")] == ["main,other,third,fourth"]


def test_where_one_of_several_has_no_value_nothing_goes(start, up):
    more = {"credentials": {"other": {"value": {"env": "NOT_SET"}, "cookie": "first", "hosts": ["api.test"]}}}
    d = start({"bearer": True}, PLAIN, more, start=False)
    d.config["tenants"]["acme"]["rules"] = [{"allow": "https://api.test", "credentials": ["main", "other"]}]
    d.write(d.config)
    d.start()
    answer = ask_h1(d, "/test/echo", host="api.test")
    assert answer.status == 503 and "other" in answer.text()
    until("it is written", lambda: d.journal(event="deny"))
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


# ---- content ----

JSON = ("content-type", "application/json")
FORM = ("content-type", "application/x-www-form-urlencoded")
JSON_PLACE = {"body": {"json": "/auth/key"}}
FORM_PLACE = {"body": {"form": "client_secret"}}


def chunks(body, size):
    """Chunked, in pieces that part whatever they meet."""
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


def post(ask, daemon, body, *fields, path="/test/echo"):
    if ask is ask_h2:
        fields = (*fields, ("content-length", str(len(body))))  # as HTTP/1.1's has it
    return ask(daemon, path, "POST", list(fields), body, host="api.test")


@both
def test_a_place_in_json_is_filled(start, ask):
    d = start(JSON_PLACE, "quote\"back\\slash")
    seen = Seen(post(ask, d, b'{"key":"1","auth":{"key":"PLACEHOLDER-\\u0041"},"t":"\xc3\xa9"}', JSON)).what
    assert seen["body"] == '{"key":"1","auth":{"key":"quote\\"back\\\\slash"},"t":"Ã©"}'
    fields = {n.lower(): v for n, v in seen["fields"]}
    assert fields["content-length"] == str(seen["body_bytes"]), "a short one keeps a length, the right one"
    assert "transfer-encoding" not in fields


@both
def test_a_place_in_a_form_is_filled(start, ask):
    d = start(FORM_PLACE, "a b&c=d+e%f")
    seen = Seen(post(ask, d, b"grant_type=x&client_secret=placeholder&scope=a+b", FORM)).what
    assert seen["body"] == "grant_type=x&client_secret=a%20b%26c%3Dd%2Be%25f&scope=a+b"
    assert {n.lower(): v for n, v in seen["fields"]}["content-length"] == str(seen["body_bytes"])


@both
@pytest.mark.parametrize("where", ["in front", "behind"])
def test_a_long_content_passes_by_without_a_length(start, ask, where):
    d = start(JSON_PLACE, PLAIN)
    pad = b'"pad":"' + b"x" * 3_000_000 + b'"'
    key = b'"auth":{"key":"placeholder"}'
    body = b"{" + b",".join([key, pad] if where == "in front" else [pad, key]) + b"}"
    seen = Seen(post(ask, d, body, JSON)).what
    made = body.replace(b"placeholder", PLAIN.encode())
    assert seen["body_bytes"] == len(made)
    assert seen["body_sha256"] == hashlib.sha256(made).hexdigest()
    assert "content-length" not in {n.lower() for n, _ in seen["fields"]}


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_content_in_chunks_of_any_size(start, size):
    d = start(JSON_PLACE, PLAIN)
    body = b'{"a":[1,{"auth":{"key":"no"}}],"auth":{"x":"\\"","key":"placeholder"}}'
    with Tunnel(d, "api.test") as tunnel:
        tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n" + chunks(body, size))  # fmt: skip
        seen = Seen(tunnel.response("POST")).what
    assert seen["body"] == body.decode().replace("placeholder", PLAIN)


@both
@pytest.mark.parametrize(
    "body, words",
    [
        (b'{"auth":{}}', "not in it"),
        (b'{"auth":{"key":1}}', "no text"),
        (b'{"auth":{"key":"x","key":"attackers-own"}}', "twice"),
        (b'{"auth":{"key":"x","KEY":"attackers-own"}}', "twice"),
        (b'{"auth":{"key":"x"},"auth":{"key":"attackers-own"}}', "twice"),
        (b'{"auth":{"key":"x"}', "not JSON"),
        (b"", "not JSON"),
    ],
)
@pytest.mark.parametrize("long", [False, True])
def test_content_without_the_one_place_is_refused_with_the_reason(start, ask, up, body, words, long):
    d = start(JSON_PLACE, PLAIN)
    if long:
        body = b" " * 200_000 + body
    answer = post(ask, d, body, JSON, path="/test/echo?refused")
    assert answer.status == 403 and words in answer.text() and "/auth/key" in answer.text()
    assert PLAIN not in answer.text()
    kind = "close" if long else "deny"
    until("it is written", lambda: d.journal(event=kind))
    assert [r["reason"] for r in d.journal(event=kind)] == ["credential_place"]
    # What reached the upstream was never a whole request.
    if hasattr(up, "of"):
        assert not any(e.get("path", "").endswith("refused") for e in up.of("request"))


@both
@pytest.mark.parametrize(
    "fields, words",
    [
        ([], "Content-Type"),
        ([("content-type", "text/plain")], "Content-Type"),
        ([FORM], "Content-Type"),
        ([JSON, ("content-encoding", "gzip")], "Content-Encoding"),
        ([JSON, ("content-range", "bytes 0-1/2")], "Content-Range"),
    ],
)
def test_content_that_can_not_be_read_is_refused(start, ask, fields, words):
    d = start(JSON_PLACE, PLAIN)
    answer = post(ask, d, b'{"auth":{"key":"x"}}', *fields)
    assert answer.status == 403 and words in answer.text()


@both
def test_a_request_without_content_is_refused(start, ask):
    d = start(JSON_PLACE, PLAIN)
    answer = ask(d, "/test/echo", host="api.test")
    assert answer.status == 403 and "no content" in answer.text()


@both
def test_fields_that_speak_of_the_clients_bytes_are_taken_out(start, ask):
    d = start(JSON_PLACE, PLAIN)
    digests = [("content-md5", "x"), ("content-digest", "sha-256=:x:"), ("x-amz-content-sha256", "x"), ("digest", "x")]
    seen = Seen(post(ask, d, b'{"auth":{"key":"x"}}', JSON, *digests))
    assert not {n for n, _ in digests} & {n for n, _ in seen.fields}
    at_rest(d)
    assert d.journal(event="open")[0]["stripped"] == "content-md5,content-digest,x-amz-content-sha256,digest"


@pytest.mark.parametrize("pad", [0, 100_000])
def test_whoever_waits_for_a_100_gets_one(start, pad):
    d = start(JSON_PLACE, PLAIN)
    body = b'{"auth":{"key":"x"}' + b" " * pad + b"}"
    with Tunnel(d, "api.test") as tunnel:
        tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n"
                    b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))  # fmt: skip
        tunnel.send(body)  # without waiting, as RFC 9110 10.1.1 lets it
        seen = Seen(tunnel.response("POST")).what
    assert seen["body_bytes"] == len(body) - 1 + len(PLAIN)


def test_content_that_is_cut_off_never_arrives_whole(start, up):
    d = start(JSON_PLACE, PLAIN)
    with Tunnel(d, "api.test") as tunnel:
        tunnel.send(b"POST /test/echo?cutoff HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n"
                    b"Content-Length: 300000\r\n\r\n" + b'{"auth":{"key":"x"},"pad":"' + b"x" * 100000)  # fmt: skip
    until("it is written", lambda: d.journal(event="close"))
    assert not d.journal(event="close")[0].get("http.response.status_code")


@both
def test_an_attackers_own_key_beside_ours_in_the_content(start, ask):
    """Other carriers go; a second place of that name is refused; ours goes in once."""
    d = start(FORM_PLACE, PLAIN)
    for name in CARRIERS:
        if name.lower().replace("_", "-") == "x-special":
            continue
        seen = Seen(post(ask, d, b"client_secret=x", FORM, (name.lower(), "attackers-own"),
                         path="/test/echo?client_secret=attackers-own&key=attackers-own"))  # fmt: skip
        assert "attackers-own" not in seen.text
        assert seen.what["body"] == "client_secret=" + PLAIN
    for body in (b"client_secret=x&client_secret=attackers-own", b"client_secret=x&Client-Secret=attackers-own",
                 b"client_secret[]=attackers-own&client_secret=x", b"a=1;client_secret=attackers-own"):  # fmt: skip
        answer = post(ask, d, body, FORM)
        assert answer.status == 403 and "attackers-own" not in answer.text(), body


def test_half_a_gibibyte_passes_by_in_bounded_memory(start, up):
    """Memory does not grow with the content."""
    d = start(JSON_PLACE, PLAIN)
    total, piece = 512 * 2**20, b"x" * 2**20
    with Tunnel(d, "api.test") as tunnel:
        head, tail = b'{"auth":{"key":"x"},"pad":"', b'"}'
        tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: api.test\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n" % (len(head) + total + len(tail)) + head)  # fmt: skip
        before = d.memory_kib(d.worker_pid())
        most = before
        for i in range(total // len(piece)):
            tunnel.send(piece)
            if i % 64 == 0:
                most = max(most, d.memory_kib(d.worker_pid()))
        tunnel.send(tail)
        seen = Seen(tunnel.response("POST")).what
    assert seen["body_bytes"] == len(head) + total + len(tail) - 1 + len(PLAIN)
    assert most - before < 8 * 1024


# ---- what is told of them ----


def test_pages_status_and_explain_show_kind_and_binding_and_never_a_value(start):
    d = start({"query": "key", "paths": ["/v1/**"], "methods": ["GET"]}, PLAIN, start=False)
    d.config["tenants"]["acme"]["rules"] = [{"allow": "GET https://api.test/v1/**", "credential": "main"}]
    d.write(d.config)
    d.start()
    home = origin_form(d, "/").text()
    why = origin_form(d, "/why?url=https://api.test/v1/x%3Fkey=mine").text()
    told = subprocess.run([KEYHOLE, "explain", "-c", d.config_path, "-t", "acme", "GET", "https://api.test/v1/x"],
                          capture_output=True, text=True, timeout=20, check=True).stdout  # fmt: skip
    assert "main: ready; goes in as query key, to api.test, api.anthropic.com; paths /v1/**; methods GET" in home
    assert "the credential main goes in as query key" in why
    assert "credential: main as query key, bound to api.test, api.anthropic.com; paths /v1/**; methods GET" in told
    assert PLAIN not in home + why + told


@pytest.mark.skipif(os.getuid() != 0, reason="reading another process's memory map needs root")
@both
@pytest.mark.parametrize("kind", ["basic", "query", "cookie", "json", "form"])
def test_neither_the_value_nor_its_encodings_stay_in_a_readable_page(start, ask, kind):
    placement, value = {"json": (JSON_PLACE, PLAIN), "form": (FORM_PLACE, PLAIN)}.get(kind) or KINDS[kind][:2]
    d = start(placement, value)
    quiet = "/test/status?code=404"  # which says nothing of what came
    for i in range(4):
        if kind in ("json", "form"):
            pad = "x" * (i * 50_000)
            body = f'{{"auth":{{"key":"x"}},"p":"{pad}"}}' if kind == "json" else f"client_secret=x&p={pad}"
            assert post(ask, d, body.encode(), JSON if kind == "json" else FORM, path=quiet).status == 404
        else:
            assert ask(d, quiet, host="api.test").status == 404
    at_rest(d, 4)
    needles = [value.encode(), base64.b64encode(b"x-access-token:" + value.encode())]
    assert readable.found(d.worker_pid(), needles) == []
