"""http://keyhole.internal/: what a sandbox is told about itself, and nothing of anybody else's."""

import json
import os
import re
import signal
import subprocess

import pytest
from common import until
from harness import PATIENCE, PLACEHOLDER, SECRET, Tunnel, Wire
from h2client import h2_plain
from test_base_url import OWN, WAYS, origin_form

JSON = [("Accept", "application/json")]
RULES = [
    {"deny": "* https://api.test/admin/**"},
    {"allow": "POST https://api.test/v1/messages", "credential": "main", "models": ["small-*"]},
    {"allow": "GET https://api.test/**", "credential": "main", "limits": {"concurrency": 7}},
    {"allow": "https://open.test"},
]


@pytest.fixture
def one(daemon):
    two = daemon(
        {"site": {"rules": [{"deny": "https://ceiling.test"}, {"allow": "https://**"}]}},
        rules=RULES, start=False,
    )  # fmt: skip
    config = two.config
    config["tenants"]["other-people"] = {"rules": [{"allow": "https://theirs.test/**"}]}
    name = next(iter(config["tenants"]))
    config["tenants"][name]["limits"] = {"requests": "600/h"}
    config["listen"][0].update(sandbox="sb-1", limits={"requests": "50/min", "max_body": "1MiB"})
    two.write(config)
    two.start()
    two.tenant = name
    return two


def why(daemon, url, *more):
    return origin_form(daemon, "/why?" + "&".join([f"url={url}", *more]), JSON).json()


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_who_am_i_and_what_may_i_reach(one, way):
    answer = way(one, "/")
    assert answer.status == 200 and answer.get("content-type").startswith("text/plain")
    assert answer.get("cache-control") == "no-store"
    text = answer.text()
    for part in ["sandbox: sb-1", "Device or resource busy", f"tenant: {one.tenant}", "deny  * https://api.test/admin/**",
                 "allow POST https://api.test/v1/messages  (on conditions)  (with main)", "allow https://open.test",
                 "main: ready", "http://keyhole.internal/why?"]:  # fmt: skip
        assert part in text, part


def test_for_programs(one):
    what = origin_form(one, "/", JSON).json()
    assert (what["sandbox"], what["tenant"], what["mode"], what["site_rules"]) == ("sb-1", one.tenant, "enforce", True)
    assert what["rules"][0] == {"deny": "* https://api.test/admin/**"}
    assert what["rules"][1] == {"allow": "POST https://api.test/v1/messages", "conditions": True, "credential": ["main"]}
    assert [(c["name"], c["ready"], c["kind"]) for c in what["credentials"]] == [("main", True, "header x-api-key")]
    assert what["credentials"][0]["binding"].startswith("api.test")


@pytest.mark.parametrize("accept, text", [
    ("*/*", True), ("text/html, application/json", True), ("application/json;q=0.9, text/plain", False),
    ("application/JSON", False), ("application/jsonx", True), ("", True), (",,;,", True),
])  # fmt: skip
def test_what_is_accepted_decides(one, accept, text):
    answer = origin_form(one, "/", [("Accept", accept)])
    assert answer.get("content-type").startswith("text/plain" if text else "application/json")


def test_limits_that_are_left(one):
    def limits():
        return {(e["of"], e["limit"]): e for e in origin_form(one, "/", JSON).json()["limits"]}

    before = limits()
    assert before["sandbox", "requests 50/min"]["used"] == 0, "a page is no request that counts"
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(3):
            assert tunnel.ask("GET", "/test/echo").status == 200
    after = limits()
    assert after["sandbox", "requests 50/min"]["used"] in (2, 3) and after["sandbox", "requests 50/min"]["reset_ms"] > 0
    assert (after["tenant", "requests 600/h"]["used"], after["tenant", "requests 600/h"]["most"]) == (3, 600)
    assert after["sandbox", "max_body 1MiB"]["most"] == 1 << 20
    rule = after["rule", "concurrency 7"]
    assert rule["name"] == "GET https://api.test/**" and rule["used"] == 0
    assert "requests 600/h of tenant" in origin_form(one, "/").text()


def test_nothing_of_others_no_address_and_no_secret(one, mock):
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo", [("x-api-key", PLACEHOLDER)]).status == 200
    for path in ["/", "/why?url=https://theirs.test/", "/why?url=https://ceiling.test/", "/why?url=https://api.test/x"]:
        for fields in ([], JSON):
            text = origin_form(one, path, fields).text()
            assert "other-people" not in text and ("theirs" not in text or "url=" in path), text
            for secret in (SECRET, PLACEHOLDER, "127.0.0.1", one.folder, mock.address):
                assert secret not in text, secret
    assert "theirs.test/**" not in origin_form(one, "/why?url=https://theirs.test/").text()
    assert "ceiling" not in origin_form(one, "/").text(), "the site's rules are not listed"


def test_why(one):
    what = why(one, "https://api.test/admin/x", "method=DELETE")
    assert (what["allow"], what["reason"]) == (False, "denied_by_rule")
    assert what["rule"] == "* https://api.test/admin/**" and "GET https://api.test/**" in what["nearby"]
    what = why(one, "https%3A%2F%2Fapi.test%2Fx%3Fa%3Db%26c%3Dd")
    assert what["allow"] and what["url"] == "https://api.test/x?a=b&c=d"
    assert (what["credential"], what["ready"]) == ("main", True)
    assert why(one, "https://elsewhere.test/")["reason"] == "no_rule"
    what = why(one, "https://ceiling.test/")
    assert not what["allow"] and what["nearby"], "the tenant's own rules are what it is told of"


def test_why_agrees_with_what_happens(one, mock):
    for method, url in [("GET", "https://api.test/test/echo"), ("PUT", "https://api.test/test/echo"),
                        ("GET", "https://api.test/admin/x"), ("GET", "https://open.test/test/echo"),
                        ("GET", "https://ceiling.test/x")]:  # fmt: skip
        host, path = url[8:].split("/", 1)
        with Tunnel(one, host) as tunnel:
            answer = tunnel.ask(method, "/" + path, JSON, host=host)
        what = why(one, url, "method=" + method)
        assert what["allow"] == (answer.status == 200), url
        if not what["allow"]:
            assert what["reason"] == answer.json()["keyhole"]["reason"]
            assert what["message"] in answer.json()["error"]["message"]


def test_why_where_the_model_decides(one):
    url = "https://api.test/v1/messages"
    assert why(one, url, "method=POST")["reason"] == "depends_on_model"
    assert why(one, url, "method=POST", "model=small-1")["allow"]
    assert why(one, url, "method=POST", "model=large-1")["reason"] == "no_rule"


def test_why_where_nothing_may_say_the_model(daemon):
    two = daemon(rules=[{"allow": "POST https://api.test/**", "models": ["small-*"]}])
    what = why(two, "https://api.test//v1beta/models/small-1:generateContent", "method=POST", "model=small-1")
    assert (what["allow"], what["reason"]) == (False, "model_unreadable")
    assert "may be read as one that names a model" in what["message"]


def test_why_as_text(one):
    text = origin_form(one, "/why?method=PUT&url=https://api.test/x").text()
    assert text.startswith("PUT https://api.test/x\ndenied: no rule allows it.\nAllowed near it:\n")
    text = origin_form(one, "/why?url=https://api.test/x").text()
    assert text == "GET https://api.test/x\nallowed: the rule 'GET https://api.test/**' allows it; the credential main goes in as header x-api-key.\n"


def test_why_says_what_the_address_guard_refuses_and_what_it_can_not_know(one):
    config = one.config
    config["tenants"][one.tenant]["rules"] += [{"allow": "https://169.254.169.254"}, {"allow": "https://later.test"}]
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until("it is in force", lambda: why(one, "https://later.test/")["allow"])
    what = why(one, "https://169.254.169.254/latest")
    assert (what["allow"], what["reason"], what["nearby"]) == (False, "address_prohibited", [])
    assert what["message"] == "169.254.169.254:443 is a metadata address, which is not connected to"
    assert why(one, "https://later.test/")["message"].endswith("; the address of a name is checked only when the request is sent")
    assert "address" not in why(one, "https://api.test/x")["message"], "that name is pinned"


@pytest.mark.parametrize("query", [
    "", "url=", "url=api.test", "url=/x", "url=https://", "url=ftp://x/", "url=https://user:pw@api.test/", "url=https://api.test/%",
    "url=https://api.test/%2", "url=https://api.test/a%250a", "url=https://api.test/%2500", "url=https://a/&url=https://b/",
    "url=https://api.test/&method=", "url=https://api.test/&method=G%20T", "url=https://api.test:443&method=CONNECT",
    "url=https://keyhole.internal/", "url=https://api.test/%252e%252e/x", "method=GET",
])  # fmt: skip
def test_what_is_no_question(one, query):
    answer = origin_form(one, "/why" + ("?" + query if query else ""), JSON)
    if query.endswith("method="):
        assert answer.status == 200, "GET is meant"
    else:
        assert answer.status == 400 and answer.json()["keyhole"]["reason"] == "malformed_request"


def test_what_was_asked_comes_back_harmless(one):
    answer = origin_form(one, "/why?url=https://api.test/%2522%253Cscript%253E", JSON)
    assert answer.status == 200 and json.loads(answer.body)["url"] == "https://api.test/%22%3Cscript%3E"
    assert "nosniff" == answer.get("x-content-type-options")


@pytest.mark.parametrize("rest, shown", [
    ("/left-pad", "/left-pad"), ("", ""), ("?a=b", "?a=b"), ("/x7Kq2vWz9Rt4LmPd8Ys", "/(hidden)"), ("?k=x7Kq2vWz9Rt4LmPd8Ys", "/(hidden)"),
])  # fmt: skip
def test_the_host_that_was_asked_for_is_shown_and_nothing_that_is_hard_to_guess(one, rest, shown):
    url = "https://registry.npmjs.org" + rest
    asked = "/why?url=" + url.replace("?", "%3F")
    assert json.loads(origin_form(one, asked, JSON).body)["url"] == "https://registry.npmjs.org" + shown
    assert origin_form(one, asked).text().startswith(f"GET https://registry.npmjs.org{shown}\n")


@pytest.mark.parametrize("method, body", [("POST", b""), ("POST", b"x"), ("PUT", None), ("GET", b"x"), ("OPTIONS", None)])
def test_only_asked_and_never_told(one, method, body):
    assert origin_form(one, "/", method=method, body=body).status == 404


def test_head_and_the_connection_goes_on(one):
    with Wire(one.socket_path) as wire:
        for _ in range(3):
            answer = wire.ask("HEAD", "/", host=OWN)
            assert (answer.status, answer.body) == (200, b"") and int(answer.get("content-length")) > 100
            assert wire.ask("GET", "/to/open.test/test/echo", host=OWN).status == 200


def test_it_stands_in_the_journal(one):
    assert origin_form(one, "/why?url=https://api.test/hidden").status == 200
    record = until("it is opened", lambda: one.journal(event="open"))[-1]
    assert (record["server.address"], record["url.path"]) == (OWN, "/why")
    assert "hidden" not in json.dumps(record) and "rule" not in record
    end = until("it is closed", lambda: [r for r in one.journal(event="close") if r["id"] == record["id"]])[0]
    assert end["http.response.status_code"] == 200


def test_it_is_asked_by_http2_and_a_reload_leaves_it_alone(one):
    with h2_plain(one) as client:
        for _ in range(3):
            answer = client.ask("GET", "/", authority=OWN)
            assert answer.status == 200 and "sandbox: sb-1" in answer.text()


def test_a_narrowed_sandbox_is_told_its_own(daemon):
    two = daemon(rules=RULES, start=False)
    two.config["listen"][0].update(sandbox="box", narrow=[{"allow": "GET https://api.test/one/**"}])
    two.write(two.config)
    two.start()
    assert origin_form(two, "/", JSON).json()["sandbox_rules"] == [{"allow": "GET https://api.test/one/**"}]
    what = why(two, "https://api.test/two")
    assert (what["allow"], what["reason"], what["nearby"]) == (False, "no_rule", ["GET https://api.test/one/**"])


def test_observed_rules_are_said_to_be(daemon):
    two = daemon(rules=RULES, start=False)
    next(iter(two.config["tenants"].values()))["mode"] = "observe"
    two.write(two.config)
    two.start()
    assert "only observe" in origin_form(two, "/").text()
    assert why(two, "https://elsewhere.test/")["allow"]


def test_a_thousand_rules_are_cut_and_counted(daemon):
    two = daemon(rules=[{"allow": f"https://h{n}.test/**"} for n in range(1000)])
    assert "and 800 more" in origin_form(two, "/").text()
    what = origin_form(two, "/", JSON).json()
    assert (len(what["rules"]), what["n_rules"]) == (200, 1000)


def test_long_rules_are_cut_and_counted(daemon):
    """200 of the longest, with limits of their own, would be more than a page holds."""
    rule = {"limits": {"requests": ["1/s", "9/h"], "concurrency": 3}}
    two = daemon(rules=[{"allow": f"https://h{n}.test/" + "x" * 3800, **rule} for n in range(300)])
    for fields in ([], JSON):
        answer = origin_form(two, "/", fields)
        assert answer.status == 200 and 30_000 < len(answer.body) < 500_000
    what = origin_form(two, "/", JSON).json()
    assert 5 < len(what["rules"]) < 20 and what["n_rules"] == 300
    assert f"and {300 - len(what['rules'])} more" in origin_form(two, "/").text()


def test_curl_by_the_proxy(one, relay):
    done = subprocess.run(
        ["curl", "-sS", "--max-time", str(PATIENCE), "-x", f"http://127.0.0.1:{relay(one).port}", f"http://{OWN}/"],
        env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "sandbox: sb-1" in done.stdout, done.stderr


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_the_ca_that_clients_have_to_trust(one, way):
    answer = way(one, "/ca.pem")
    assert answer.status == 200 and answer.get("content-type") == "application/x-pem-file"
    with open(one.ca, encoding="ascii") as file:
        ours = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", file.read(), re.S)[0]
    assert answer.text() == ours
