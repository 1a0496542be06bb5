"""A placeholder goes where its credential goes and nowhere else; a real credential never leaves."""

import base64
import copy
import itertools
import json
import urllib.parse

import pytest
from common import until
from daemons import Daemons, base_config
from h2client import h2_tunnel
from harness import FINGERPRINT, SECRET, Tunnel
from test_base_url import origin_form
from test_reload import reload
from wspeer import CLOSE, PING, TEXT, WsClient, close_payload, closed, origin, start  # noqa: F401 (fixtures)

JSON = [("Accept", "application/json")]
REAL = 12
turns = itertools.cycle(range(REAL))
OTHER = "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"  # a real one's shape; from GitHub's announcement


@pytest.fixture(scope="module")
def two(mock):
    """Two sandboxes: `one` and `two` of a daemon."""
    config = base_config(mock)
    config["listen"] = [
        {"unix": "d/s", "tenant": "acme", "sandbox": "one"},
        {"unix": "e/s", "tenant": "acme", "sandbox": "two"},
    ]
    # How often a sandbox may send a real value is bounded, and the tests do it more often.
    config["listen"] += [{"unix": f"r{n}/s", "tenant": "acme", "sandbox": f"real{n}"} for n in range(REAL)]
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    config["credentials"]["other"] = {
        "value": {"file": "other"},
        "bearer": True,
        "hosts": ["other.test"],
        "require_placeholder": True,
        "placeholder": {"env": "OTHER_TOKEN"},
    }
    config["tenants"]["acme"]["rules"] += [
        {"allow": "https://other.test", "credential": "other"},
        {"allow": "https://a.wild.test", "placeholder": "refuse"},
    ]
    with Daemons([mock]) as daemons:
        daemon = daemons(config=config, start=False)
        with open(daemon.folder + "/other", "w", encoding="ascii") as file:
            file.write(OTHER + "\n")
        daemon.start()
        yield daemon


@pytest.fixture
def one(two, mock):
    yield two
    two.settle([mock])


def sandbox_two(daemon):
    """The same daemon by the other socket."""
    other = copy.copy(daemon)
    other.socket_path = daemon.folder + "/e/s"
    return other


def any_sandbox(daemon):
    """The same daemon by the next of its other sockets."""
    other = copy.copy(daemon)
    other.socket_path = f"{daemon.folder}/r{next(turns)}/s"
    return other


def env_of(daemon):
    return origin_form(daemon, "/env", JSON).json()


def spellings(text, user="x"):
    """As it is, and in every encoding that is looked into."""
    basic = base64.b64encode(f"{user}:{text}".encode()).decode()
    return {
        "raw": text,
        "within": "aa" + text + "bb",
        "basic": "Basic " + basic,
        "basic-other-user": "Basic " + base64.b64encode(f"abc:{text}".encode()).decode(),
        "urlsafe": base64.urlsafe_b64encode(f"{text}:".encode()).decode(),
        "percent": urllib.parse.quote(text),
        "all-percent": "".join(f"%{ord(c):02x}" for c in text),
        "percent-twice": "".join(f"%25{ord(c):02X}" for c in text),
        "percent-base64": urllib.parse.quote(basic, safe=""),
        "json": "".join(f"\\u{ord(c):04x}" for c in text),
    }


SPELLINGS = list(spellings(""))


def denied(daemon, since, reason="exfiltration"):
    records = []

    def is_there():
        records[:] = [r for r in daemon.journal()[since:] if r.get("reason")]
        return bool(records)

    until("the refusal is in the journal", is_there)
    assert [r["reason"] for r in records] == [reason], records
    return records[0]


def marked(daemon, since, count=1):
    """`placeholders` of each close record."""

    def closes():
        records = daemon.journal()[since:]
        ours = {r["id"] for r in records if r["event"] == "open" and r["url.path"] == "/test/echo"}
        return [r for r in records if r["event"] == "close" and r["id"] in ours]

    until("the close records", lambda: len(closes()) == count)
    return [r.get("placeholders") for r in closes()]


def test_each_sandbox_is_told_its_own_and_always_the_same(one):
    mine, theirs = env_of(one), env_of(sandbox_two(one))
    assert mine == env_of(one) and set(mine) == set(theirs) == {"MAIN_KEY", "OTHER_TOKEN"}
    for name in mine:
        assert mine[name] != theirs[name]
    assert mine["MAIN_KEY"].startswith("sk-ant-api03-") and len(mine["MAIN_KEY"]) == len(SECRET)
    assert mine["OTHER_TOKEN"].startswith("ghp_") and len(mine["OTHER_TOKEN"]) == 40
    text = origin_form(one, "/env").text()
    assert text == "".join(f"export {n}='{v}'\n" for n, v in mine.items())


def test_in_its_place_it_is_replaced(one):
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("x-api-key", env_of(one)["MAIN_KEY"])])
    assert ["x-api-key", "sha256:" + FINGERPRINT] in answer.json()["fields"]


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize("host", ["api.test", "open.test", "auth.test"])
@pytest.mark.parametrize("where", ["field", "path", "query"])
def test_elsewhere_it_is_refused_and_marked(one, mock, host, where, how):
    """With a credential that goes in, without one, and where the client's own passes."""
    text = spellings(env_of(one)["MAIN_KEY"])[how]
    quoted = urllib.parse.quote(text, safe="%")  # what a target can't hold
    since, seen = len(one.journal()), mock.mark()
    with Tunnel(one, host) as tunnel:
        path = {"field": "/test/echo", "path": "/test/echo/" + quoted.replace("/", "%2F"),
                "query": "/test/echo?note=" + quoted}[where]  # fmt: skip
        fields = [("X-Note", text)] if where == "field" else []
        answer = tunnel.ask("GET", path, fields)
    assert answer.status == 403, answer
    assert "placeholder of main" in answer.text()
    assert denied(one, since)["reason"] == "exfiltration"
    assert not mock.requests(since=seen)


@pytest.mark.parametrize("name", ["x-api-key", "authorization", "x-note"])
@pytest.mark.parametrize("host", ["api.test", "open.test"])
def test_another_sandboxs_is_refused_anywhere(one, host, name):
    theirs = env_of(sandbox_two(one))["MAIN_KEY"]
    since = len(one.journal())
    with Tunnel(one, host) as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [(name, "Bearer " + theirs)])
    assert answer.status == 403 and "not this sandbox's" in answer.text()
    assert denied(one, since)["reason"] == "exfiltration"
    assert "main" not in answer.text().split("not this sandbox's")[1][:40]


def test_its_own_in_a_field_that_is_taken_out_does_no_harm(one):
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("authorization", "Bearer " + env_of(one)["MAIN_KEY"])])
    assert answer.status == 200


@pytest.mark.parametrize("how", SPELLINGS)
@pytest.mark.parametrize("host", ["api.test", "open.test", "auth.test", "nobody.test"])
@pytest.mark.parametrize("where", ["x-api-key", "x-note", "path", "query"])
def test_a_real_credential_never_leaves(one, mock, host, where, how):
    """To its own host, to others, to one that no rule allows; even where it would be taken out."""
    text = spellings(SECRET)[how]
    quoted = urllib.parse.quote(text, safe="%").replace("/", "%2F")
    path = {"path": "/test/echo/" + quoted, "query": "/test/echo?note=" + quoted}.get(where, "/test/echo")
    since, seen = len(one.journal()), mock.mark()
    with Tunnel(any_sandbox(one), host) as tunnel:
        answer = tunnel.ask("GET", path, [] if path != "/test/echo" else [(where, text)])
    assert answer.status == 403
    shown = answer.text() + json.dumps(denied(one, since)) + one.stderr()
    assert SECRET not in shown and text not in shown and quoted not in shown
    assert not mock.requests(since=seen)


@pytest.mark.parametrize("host", ["api.test", "open.test", "auth.test"])
@pytest.mark.parametrize("where", ["method", "name", "within a name"])
@pytest.mark.parametrize("whose", ["real", "placeholder"])
def test_names_and_methods_are_texts_too(one, mock, host, where, whose):
    """Any token is one (RFC 9110 §9.1, §5.1), and a key often is a token."""
    text = SECRET if whose == "real" else env_of(one)["MAIN_KEY"]
    method = text if where == "method" else "GET"
    fields = [] if where == "method" else [(text if where == "name" else f"x-{text}-y", "z")]
    since, seen = len(one.journal()), mock.mark()
    with Tunnel(any_sandbox(one) if whose == "real" else one, host) as tunnel:
        answer = tunnel.ask(method, "/test/echo", fields)
    # Under a rule without methods no credential goes with such a method, whatever it says.
    unknown_method = where == "method" and host == "api.test"
    assert answer.status == 403 and (whose == "real" or unknown_method or "placeholder" in answer.text())
    reason = "no_rule" if unknown_method and whose == "placeholder" else "exfiltration"
    shown = json.dumps(denied(one, since, reason)) + one.stderr() + answer.text()
    assert whose != "real" or SECRET not in shown
    assert not mock.requests(since=seen)


@pytest.mark.parametrize("line", [b"X-Note: %s", b"%s: x"])
def test_a_real_credential_in_a_trailer_does_not_leave(one, line):
    with Tunnel(one, "auth.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Transfer-Encoding", "chunked")])
        tunnel.send(b"2\r\nhi\r\n0\r\n%s\r\n\r\n" % (line % SECRET.encode()))
        answer = tunnel.response()
    assert answer.status == 403


def test_over_http2_as_well(one):
    placeholder = env_of(one)["MAIN_KEY"]
    for value in (placeholder, SECRET):
        with h2_tunnel(one, "open.test") as tunnel:
            answer = tunnel.ask("GET", "/test/echo", [("x-note", value)])
            assert answer.status == 403, answer


BODIES = {
    "json": lambda p: json.dumps({"note": "the key is " + p + "."}),
    "form": lambda p: "a=1&note=" + p,
    "escaped": lambda p: "".join(f"\\u{ord(c):04X}" for c in p),
    "percent": lambda p: "".join(f"%{ord(c):02x}" for c in p),
    "base64": lambda p: base64.b64encode(b"some text, " + p.encode() + b" and more").decode(),
}


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("chunk", [1, 7, 50, 100000])
def test_in_content_it_passes_and_is_marked(one, kind, chunk):
    body = BODIES[kind](env_of(one)["MAIN_KEY"]).encode()
    since = len(one.journal())
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Content-Length", len(body))])
        for at in range(0, len(body), chunk):
            tunnel.send(body[at : at + chunk])
        answer = tunnel.response()
    assert answer.status == 200 and answer.json()["body_bytes"] == len(body)
    assert marked(one, since) == ["main"]


def test_in_content_another_sandboxs_is_marked_as_such(one):
    theirs = env_of(sandbox_two(one))["OTHER_TOKEN"]
    since = len(one.journal())
    with Tunnel(one, "open.test") as tunnel:
        answer = tunnel.ask("POST", "/test/echo", [], theirs.encode())
        assert answer.status == 200
        answer = tunnel.ask("POST", "/test/echo", [], b"nothing of the kind")
    assert answer.status == 200
    assert marked(one, since, 2) == ["(another's)", None]


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("chunk", [1, 50, 100000])
def test_where_the_rule_says_so_content_with_one_is_refused(one, kind, chunk):
    placeholder = env_of(one)["MAIN_KEY"]
    body = BODIES[kind](placeholder).encode()
    since = len(one.journal())
    with Tunnel(one, "a.wild.test") as tunnel:
        tunnel.start("POST", "/test/echo", [("Content-Length", len(body))])
        for at in range(0, len(body), chunk):
            tunnel.send(body[at : at + chunk])
        answer = tunnel.response()
    assert answer.status == 403 and "placeholder: refuse" in answer.text()
    assert denied(one, since)["http.request.body.size"] < len(body), "not all of it has gone"


def test_without_its_placeholder_no_credential_goes_in_where_one_is_required(one, mock):
    mine, theirs = env_of(one)["OTHER_TOKEN"], env_of(sandbox_two(one))["OTHER_TOKEN"]
    with Tunnel(one, "other.test") as tunnel:
        for fields, reason in [
            ([], "placeholder_missing"),
            ([("Authorization", "Bearer something")], "placeholder_missing"),
            ([("Authorization", "Bearer " + env_of(one)["MAIN_KEY"])], "placeholder_missing"),
            ([("x-api-key", mine)], "placeholder_missing"),
            ([("Authorization", "Bearer " + theirs)], "exfiltration"),
        ]:
            since = len(one.journal())
            answer = tunnel.ask("GET", "/test/echo", fields)
            assert answer.status == 403, (fields, answer)
            assert denied(one, since, reason)
        answer = tunnel.ask("GET", "/test/echo", [("Authorization", "Bearer " + mine)])
        assert answer.status == 200
        basic = base64.b64encode(f"x-access-token:{mine}".encode()).decode()
        answer = tunnel.ask("GET", "/test/echo", [("Authorization", "Basic " + basic)])
        assert answer.status == 200


def test_a_new_daemon_knows_the_placeholders_of_the_one_before(daemon, mock):
    config = base_config(mock)
    config["credentials"]["main"].update(placeholder={"env": "MAIN_KEY"}, require_placeholder=True)
    first = daemon(config=config)
    before = env_of(first)
    first.stop()
    first.start()
    assert env_of(first) == before
    with Tunnel(first, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("x-api-key", before["MAIN_KEY"])]).status == 200


def test_a_new_value_is_known_after_a_reload(daemon, mock):
    first = daemon()
    value = "another-secret-value-Kq7xW2mR9vTz4LbN"
    with Tunnel(first, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("x-note", value)]).status == 200
    first.write_secret(value)
    reload(first, lambda config: None)
    with Tunnel(first, "open.test") as tunnel:
        until("the new value is known",
              lambda: tunnel.ask("GET", "/test/echo", [("x-note", value)]).status == 403)  # fmt: skip


def test_who_only_observes_is_told_and_a_real_one_is_refused_all_the_same(daemon, mock):
    config = base_config(mock)
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    config["tenants"]["acme"]["mode"] = "observe"
    first = daemon(config=config)
    with Tunnel(first, "open.test") as tunnel:
        answer = tunnel.ask("GET", "/test/echo", [("x-note", env_of(first)["MAIN_KEY"])])
        assert answer.status == 200
        answer = tunnel.ask("GET", "/test/echo", [("x-note", SECRET)])
        assert answer.status == 403
    opened = [r for r in first.journal() if r["event"] == "open" and r.get("url.path") == "/test/echo"]
    assert [r.get("would_deny") for r in opened] == ["exfiltration"]


def test_what_a_websocket_says_is_content_too(start, origin):  # noqa: F811
    config = base_config(origin)
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    ours = start(config=config)
    placeholder = env_of(ours)["MAIN_KEY"]
    with WsClient(ours) as client:
        client.open("/echo")
        client.put(TEXT, placeholder)
        assert client.message() == (TEXT, placeholder.encode())
        client.put(CLOSE, close_payload(1000))
        client.expect_close(1000)
        assert client.gone()
    assert closed(ours, "/echo")["placeholders"] == "main"


@pytest.mark.parametrize("kind", [PING, CLOSE])
@pytest.mark.parametrize("refuse", [False, True])
def test_what_a_control_frame_says_is_content_too(start, origin, kind, refuse):  # noqa: F811
    config = base_config(origin)
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    rule = next(rule for rule in config["tenants"]["acme"]["rules"] if rule.get("allow", "").startswith("https://api.test"))
    if refuse:
        rule["placeholder"] = "refuse"
    ours = start(config=config)
    placeholder = env_of(ours)["MAIN_KEY"].encode()
    with WsClient(ours) as client:
        client.open("/echo")
        head = close_payload(1000) if kind == CLOSE else b""
        client.put(kind, head + placeholder)
        if refuse:
            client.expect_close(1008)
        else:
            assert client.get()[2] == head + placeholder
    record = closed(ours, "/echo")
    assert record["placeholders"] == "main" and (record.get("reason") == "exfiltration") == refuse


def test_a_ping_inside_a_message_hides_no_placeholder(start, origin):  # noqa: F811
    config = base_config(origin)
    config["credentials"]["main"]["placeholder"] = {"env": "MAIN_KEY"}
    ours = start(config=config)
    placeholder = env_of(ours)["MAIN_KEY"].encode()
    middle = len(placeholder) // 2
    with WsClient(ours) as client:
        client.open("/echo")
        client.put(TEXT, placeholder[:middle], fin=False)
        client.put(PING, "x" * 50)
        client.put(0, placeholder[middle:])
        assert client.message() == (TEXT, placeholder)
        client.put(CLOSE, close_payload(1000))
        client.expect_close(1000)
    assert closed(ours, "/echo")["placeholders"] == "main"


def test_beside_a_value_that_goes_into_the_content_no_other_is_let_through(daemon, mock):
    config = base_config(mock)
    config["credentials"]["main"] = {
        "value": {"file": "secret"}, "body": {"json": "/key"}, "hosts": ["api.test"], "placeholder": {"env": "MAIN_KEY"},
    }  # fmt: skip
    config["tenants"]["acme"]["rules"] = [{"allow": "https://api.test", "credential": "main", "placeholder": "refuse"}]
    first = daemon(config=config)
    held = env_of(first)["MAIN_KEY"]
    kind = [("Content-Type", "application/json")]
    with Tunnel(first, "api.test") as tunnel:
        answer = tunnel.ask("POST", "/test/echo", kind, json.dumps({"key": held, "note": "fine"}).encode())
        assert answer.status == 200, answer
        body = json.dumps({"key": held, "note": "it is " + held + ".", "more": "x" * 100}).encode()
        answer = tunnel.ask("POST", "/test/echo", kind, body)
        assert answer.status == 403 and "placeholder: refuse" in answer.text()
