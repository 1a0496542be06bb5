"""A rule on methods or paths is no way round by a field that names another method or path."""

import subprocess

import pytest
from common import KEYHOLE
from harness import Tunnel

RULES = [
    {"allow": "GET,POST https://api.test/v1/**", "credential": "main"},
    {"deny": "DELETE https://open.test"},
    {"allow": "https://open.test"},
]


@pytest.fixture(scope="module")
def one(standin):
    from daemons import Daemons

    daemons = Daemons([standin])
    try:
        yield daemons(rules=RULES)
    finally:
        daemons.end()


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
