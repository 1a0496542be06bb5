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
def one(mock):
    with Daemons([mock]) as daemons:
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
def test_what_a_field_asks_for_is_decided_too(one, mock, host, target, fields, status):
    before = len(mock.events("request"))
    with Tunnel(one, host) as tunnel:
        answer = tunnel.ask("POST", target, fields, host=host)
    assert (answer.status == 403) == (status == 403), answer
    assert (answer.get("proxy-status") is None) == (status != 403)
    assert len(mock.events("request")) == before + (status != 403)
    if status == 403 and host == "api.test":
        assert b"that a field" in answer.body, answer.body


# A rule without methods: its credential goes with the common ones only.
BOUND = {"tenants": {"acme": {"rules": [{"allow": "https://api.test", "credential": "main"}]}}}


@pytest.mark.parametrize(
    "target, fields, allowed",
    [
        ("/v1/x?_method=delete", [], True),
        ("/v1/x?_method=trace", [], False),
        ("/v1/x", [("X-HTTP-Method-Override", "TRACE")], False),
        ("/v1/x", [("X-HTTP-Method-Override", "TRACE, GET")], False),
        ("/v1/x?_method=trace%20get", [], False),
        ("/v1/x", [("X-HTTP-Method-Override", "")], False),
        ("/v1/x", [("X-Original-URL", "/v1/y")], True),
        ("/v1/x", [("X-Forwarded-Host", "open.test")], False),
    ],
)
def test_explain_and_why_say_of_an_override_what_the_proxy_does(daemon, tmp_path, target, fields, allowed):
    one = daemon(BOUND)
    with Tunnel(one, "api.test") as tunnel:
        answer = tunnel.ask("POST", target, fields)
    assert (answer.status == 403) == (not allowed)
    words = [word for name, value in fields for word in ("-H", f"{name}: {value}")]
    done = subprocess.run([KEYHOLE, "explain", "-c", one.config_path, "--json", *words, "POST", "https://api.test" + target],
                          capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    out = json.loads(done.stdout)
    assert done.returncode == (0 if allowed else 3)
    assert (out["decision"], out["reason"]) == (("allow", "none") if allowed else ("deny", "no_rule"))
    assert allowed or "a field" in out["reading"]
    if not fields:
        url = quote("https://api.test" + target, safe="")
        why = origin_form(one, f"/why?method=POST&url={url}", [("accept", "application/json")]).json()
        assert why["allow"] == allowed


# A path that names no repository is outside of such a binding.
REPOSITORY = {
    "version": 1,
    "credentials": {"hub": {"value": {"env": "KEY"}, "header": {"authorization": "Bearer {}"}, "hosts": ["api.github.com"],
                            "github_app": {"app_id": 1, "installation_id": 77, "per_repository": True}}},
    "tenants": {"acme": {"rules": [{"allow": "https://api.github.com", "credential": "hub"}]}},
    "expect": [{"deny": "GET https://api.github.com/user"}, {"allow": "GET https://api.github.com/repos/a/b"}],
}  # fmt: skip


def test_explain_and_expect_know_of_a_binding(tmp_path):
    path = tmp_path / "keyhole.yaml"
    path.write_text(json.dumps(REPOSITORY))
    words = [KEYHOLE, "explain", "-c", path, "GET", "https://api.github.com/user"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert "deny: credential_binding" in done.stdout
    assert "the credential hub may not go in: it is bound to " in done.stdout
    assert "which leaves out a path that names no repository" in done.stdout
    out = json.loads(subprocess.run([*words, "--json"], capture_output=True, text=True, timeout=20, check=False).stdout)
    assert (out["decision"], out["reason"], out["credential"]) == ("deny", "credential_binding", "hub")
    done = subprocess.run([KEYHOLE, "check", "-c", path], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, done.stderr
