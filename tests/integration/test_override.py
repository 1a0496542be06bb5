"""A rule on methods or paths is no way round by a field that names another method or path."""

import json
import subprocess
from urllib.parse import quote

import pytest
from common import KEYHOLE
from daemons import Daemons
from harness import Tunnel
from test_base_url import origin_form

RULES = [
    {"allow": "GET,POST https://api.test/v1/**", "credential": "main"},
    {"deny": "DELETE https://open.test"},
    {"allow": "https://open.test"},
]


@pytest.fixture(scope="module")
def one(standin):
    with Daemons([standin]) as daemons:
        yield daemons(rules=RULES)


@pytest.mark.parametrize(
    "host, target, fields, status",
    [
        ("api.test", "/v1/x", [], 404),
        ("api.test", "/v1/x", [("X-HTTP-Method-Override", "GET")], 404),
        ("api.test", "/v1/x", [("X-HTTP-Method-Override", "DELETE")], 403),
        ("api.test", "/v1/x", [("x_http_method_override", "delete")], 403),
        ("api.test", "/v1/x", [("X-HTTP-Method", "MERGE")], 403),
        ("api.test", "/v1/x", [("X-Method-Override", "GET, DELETE")], 403),
        ("api.test", "/v1/x", [("X-HTTP-Method-Override", "TRACE")], 403),
        ("api.test", "/v1/x?a=1&_method=put", [], 403),
        ("api.test", "/v1/x?%5fmethod=put", [], 403),
        ("api.test", "/v1/x", [("X-Original-URL", "/admin")], 403),
        ("open.test", "/v1/x", [("X-HTTP-Method-Override", "PUT")], 404),
        ("open.test", "/v1/x", [("X-HTTP-Method-Override", "DELETE")], 403),
        ("open.test", "/v1/x", [("X-HTTP-Method-Override", "DELETE, GET")], 403),
        ("open.test", "/v1/x", [("X-HTTP-Method-Override", "")], 404),
        ("open.test", "/v1/x?_method=delete;x", [], 403),
        ("open.test", "/v1/x?_method=delete%00", [], 403),
        ("open.test", "/v1/x", [("X-Original-URL", "/admin")], 404),
    ],
)
def test_what_a_field_asks_for_is_decided_too(one, standin, host, target, fields, status):
    before = len(standin.events("request"))
    with Tunnel(one, host) as tunnel:
        answer = tunnel.ask("POST", target, fields, host=host)
    assert (answer.status == 403) == (status == 403), answer
    assert (answer.get("proxy-status") is None) == (status != 403)
    assert len(standin.events("request")) == before + (status != 403)
    if status == 403 and host == "api.test":
        assert b"that a field" in answer.body


# Any method, but none that a credential never goes with: there the rule allows what the binding does not.
UNREAD = "a method that a field or parameter asks for and nobody can read"
BOUND = {"tenants": {"acme": {"rules": [{"allow": "https://api.test", "credential": "main"}]}}}


@pytest.mark.parametrize(
    "target, fields, leaves_out",
    [
        ("/v1/x?_method=delete", [], None),
        ("/v1/x?_method=trace", [], "TRACE"),
        ("/v1/x", [("X-HTTP-Method-Override", "TRACE")], "TRACE"),
        ("/v1/x", [("X-HTTP-Method-Override", "TRACE, GET")], UNREAD),
        ("/v1/x?_method=trace%20get", [], UNREAD),
        ("/v1/x", [("X-HTTP-Method-Override", "")], None),
        ("/v1/x", [("X-Original-URL", "/v1/y")], None),
    ],
)
def test_explain_and_why_say_of_a_binding_what_the_proxy_does(daemon, tmp_path, target, fields, leaves_out):
    one = daemon(BOUND)
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("POST", target, fields)
    assert (answer.status == 403) == bool(leaves_out)
    words = [word for name, value in fields for word in ("-H", f"{name}: {value}")]
    done = subprocess.run([KEYHOLE, "explain", "-c", one.config_path, "--json", *words, "POST", "https://api.test" + target],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    out = json.loads(done.stdout)
    assert done.returncode == (3 if leaves_out else 0)
    assert (out["decision"], out["reason"]) == (("deny", "credential_binding") if leaves_out else ("allow", "none"))
    assert out.get("leaves_out") == leaves_out and out.get("credential") == ("main" if leaves_out else None)
    if leaves_out:
        assert f"its binding leaves {leaves_out} out" in answer.get("proxy-status")
    if not fields:
        url = quote("https://api.test" + target, safe="")
        why = origin_form(one, f"/why?method=POST&url={url}", [("accept", "application/json")]).json()
        assert why["allow"] == (not leaves_out)
        assert not leaves_out or (why["reason"] == "credential_binding" and leaves_out in why["message"])


def test_explain_says_in_words_what_a_binding_leaves_out(daemon):
    one = daemon(BOUND)
    done = subprocess.run([KEYHOLE, "explain", "-c", one.config_path, "-H", "X-HTTP-Method: TRACE", "POST", "https://api.test/v1/x"],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    assert "deny: credential_binding" in done.stdout
    assert "the credential main may not go in: it is bound to " in done.stdout
    assert "which leaves out TRACE" in done.stdout


def test_expect_knows_of_a_binding(daemon):
    one = daemon({**BOUND, "expect": [{"tenant": "acme", "deny": "POST https://api.test/v1/x?_method=trace"},
                                      {"tenant": "acme", "allow": "POST https://api.test/v1/x?_method=post"}]})  # fmt: skip
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr


def test_explain_shows_each_reading(tmp_path):
    config = tmp_path / "k.yaml"
    config.write_text(
        "version: 1\ntenants: { a: { rules: [ { allow: \"POST https://h.test/v1/**\" }, { allow: \"https://h.test/v2\" } ] } }\n"
    )
    done = subprocess.run([KEYHOLE, "explain", "-c", str(config), "-H", "x-http-method: delete", "POST", "https://h.test/v1/x"],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    assert done.returncode == 3
    assert '"POST https://h.test/v1/**": matches' in done.stdout
    assert '(as DELETE, which it asks for): another method' in done.stdout
