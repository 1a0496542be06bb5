"""What a request names outside of its first line and head is held against the rules as well."""

import signal

import pytest
from common import until
from harness import Tunnel

JSON = ("Content-Type", "application/json")
FORM = ("Content-Type", "application/x-www-form-urlencoded")
RULES = [
    {"deny": "https://api.test/private/**"},
    {"deny": "https://api.test/**", "query": {"action": "delete"}},
    {"deny": "https://api.test/**", "content_type": "multipart/form-data"},
    {"deny": "https://api.test/**", "headers": {"x-beta": "*"}},
    {"deny": "https://api.test/users"},
    {"allow": "https://git.test/**", "query": {"service": "git-upload-pack"}, "credential": "main"},
    {"allow": "GET,POST,PUT,COPY https://api.test", "credential": "main"},
    {"deny": "https://open.test/**", "models": "*pro*"},
    {"allow": "https://open.test"},
]
GIT = {"credentials": {"main": {"hosts": ["api.test", "git.test"]}}}


@pytest.fixture
def one(daemon):
    return daemon(GIT, rules=RULES)


def ask(daemon, method, target, fields=(), body=None, host="api.test"):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask(method, target, list(fields), body, host=host)


@pytest.mark.parametrize("name", ["X-Original-URL", "x_rewrite_url", "X-Forwarded-Uri", "X-Forwarded-Url", "Destination"])
def test_a_query_that_a_field_names_is_held_against_conditions(daemon, mock, name):
    one = daemon(rules=[RULES[1], RULES[-3]])
    before = len(mock.events("request"))
    assert ask(one, "GET", "/v1?action=delete").status == 403
    for value in ("/v1?action=delete", "/v1?a=1&%2561ction=Delete", "/v1%3Faction=delete", "https://api.test/?action=delete"):
        assert ask(one, "GET", "/v1", [(name, value)]).status == 403, value
    assert len(mock.events("request")) == before
    assert ask(one, "GET", "/test/echo", [(name, "/test/echo?action=get")]).status == 200


def test_an_allowance_by_query_must_hold_for_the_one_that_a_field_names(one, mock):
    target = "/x/info/refs?service=git-upload-pack"
    before = len(mock.events("request"))
    for value in ("/x/info/refs?service=git-receive-pack", "/x/info/refs"):
        assert ask(one, "GET", target, [("X-Original-URL", value)], host="git.test").status == 403
    assert len(mock.events("request")) == before


def test_a_copy_is_held_against_the_rules_for_where_it_goes(one, mock):
    before = len(mock.events("request"))
    for where in ("https://api.test/private/x", "/private/x", "https://elsewhere.test/x"):
        assert ask(one, "COPY", "/public/x", [("Destination", where)]).status == 403
    assert len(mock.events("request")) == before


@pytest.mark.parametrize(
    "name, value",
    [
        ("SCRIPT_NAME", "/v1"),  # gunicorn takes it off the front of the path
        ("Script-Name", "/v1"),
        ("PATH_INFO", "/private/x"),
        ("X-Script-Name", "/v1"),
        ("x_script_name", "/v1"),
        ("X-Forwarded-Prefix", "/v1"),
        ("X-Request-URI", "/private/x"),
        ("X-Accel-Mapping", "/v1=/private"),
        ("X-Symlink-Target", "private/x"),
        ("X-Object-Manifest", "private/x"),
        ("x-oss-symlink-target", "private/x"),
    ],
)
def test_a_path_or_source_that_a_field_or_trailer_names_evades_no_denial(one, mock, name, value):
    before = len(mock.events("request"))
    assert ask(one, "GET", "/v1/private/x", [(name, value)]).status == 403
    with Tunnel(one, "api.test") as tunnel:
        tunnel.send("POST /v1/x HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n"
                    f"1\r\nx\r\n0\r\n{name}: {value}\r\n\r\n")  # fmt: skip
        assert tunnel.response("POST").status == 400
    if name.lower().startswith("x"):
        assert ask(one, "GET", f"/v1/private/x?{name}={value}").status == 403
    assert all(not event["path"].startswith("/v1/private") for event in mock.events("request")[before:])


def test_a_registry_takes_no_blob_from_a_repository_that_a_rule_denies(daemon, mock):
    one = daemon(rules=[{"allow": "https://api.test/v2/mine/**", "credential": "main"}])
    before = len(mock.events("request"))
    uploads = "/v2/mine/app/blobs/uploads/"
    for query in ("mount=sha256:1a&from=private/other", "mount=sha256%3A1a&from=private%2Fother", "mount=sha256:1a",
                  "mount=sha256:1a&from=mine/../private/other"):  # fmt: skip
        assert ask(one, "POST", f"{uploads}?{query}").status == 403, query
    assert len(mock.events("request")) == before
    assert ask(one, "POST", f"{uploads}?mount=sha256:1a&from=mine/other").status == 404
    assert len(mock.events("request")) == before + 1


@pytest.mark.parametrize("end", ["/", "//", "/;x", "%20/", "%2F", "::$DATA"])
def test_a_slash_at_the_end_evades_no_denial(one, mock, end):
    before = len(mock.events("request"))
    assert ask(one, "GET", "/users" + end).status == 403
    assert len(mock.events("request")) == before


def test_a_content_type_ends_at_a_blank_for_a_denial(one):
    for value in ("multipart/form-data; boundary=x", "multipart/form-data boundary=x", "Multipart/Form-Data\tx"):
        assert ask(one, "POST", "/v1", [("Content-Type", value)], b"x").status == 403, value


@pytest.mark.parametrize("name", ["X-Beta", "x_beta", "Content-Type"])
def test_a_trailer_that_a_rule_looks_at_is_refused(daemon, mock, name):
    one = daemon(rules=[*RULES[2:4], {"allow": "https://open.test"}, {"deny": "https://open.test/**", "headers": {"x-beta": "*"}},
                        {"deny": "https://open.test/**", "content_type": "text/x"}])  # fmt: skip
    head = "POST /test/echo HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    with Tunnel(one, "open.test") as tunnel:
        tunnel.send(f"{head}{name}: on\r\n\r\n")
        assert tunnel.response("POST").status == 400
    with Tunnel(one, "open.test") as tunnel:
        tunnel.send(f"{head}X-Other: on\r\n\r\n")
        assert tunnel.response("POST").status == 200


@pytest.mark.parametrize("path", ["/v1beta/%256Dodels/gemini-2.5-pro:x", "/v1beta/models./gemini-2.5-pro:x",
                                  "/v1beta/models%20/gemini-2.5-pro:x", "/v1beta/models/gemini-2.5-p%2572o:x",
                                  "/v1beta/models/gemini-2.5-pro:x", "/model/gemini-pro/invoke%20"])  # fmt: skip
def test_content_does_not_speak_for_a_path_in_another_spelling(one, mock, path):
    before = len(mock.events("request"))
    assert ask(one, "POST", path, [JSON], b'{"model":"gemini-flash"}', host="open.test").status == 403
    assert len(mock.events("request")) == before


@pytest.mark.parametrize("name", ["private_token", "api_key", "ApiKey", "job_token", "auth%5ftoken", "access_token"])
@pytest.mark.parametrize("kind", [[("Content-Type", "application/x-www-form-urlencoded")], []], ids=["form", "no type"])
def test_a_token_of_the_clients_own_in_a_form_does_not_go_beside_ours(one, mock, name, kind):
    before = len(mock.events("request"))
    answer = ask(one, "POST", "/test/echo", kind, f"a=1&{name}=mine".encode())
    assert answer.status == 403 and b"client_auth" in answer.body, answer
    assert len(mock.events("request")) == before
    assert ask(one, "POST", "/test/echo", kind, b"a=api_key&token=revoke-me").status == 200


@pytest.mark.parametrize("front", ["+" * 250, " " * 250, "+" * 379, "%20" * 100, "%2520" * 200, "%E3%80%80" * 90])
def test_blanks_in_front_hide_no_token_in_a_form(one, mock, front):
    before = len(mock.events("request"))
    for rest in ("", "&y=" + "z" * 100_000):
        answer = ask(one, "POST", "/test/echo", [FORM], f"{front}access_token=mine{rest}".encode())
        assert answer.status == 403 and b"client_auth" in answer.body, answer
    assert not [event for event in mock.events("request")[before:] if "mine" in str(event)]


BODY = {"credentials": {"form": {"value": {"file": "secret"}, "body": {"form": "api_key"}, "hosts": ["auth.test"]},
                        "query": {"value": {"file": "secret"}, "query": "api_key", "hosts": ["other.test"]}}}  # fmt: skip
BODY_RULES = [{"allow": "https://open.test"}, {"allow": "https://auth.test", "credential": "form"},
              {"allow": "https://other.test", "credential": "query"}]  # fmt: skip


@pytest.mark.parametrize("query", ["access[token=mine", "access%5Btoken=mine", "access%255Btoken=mine", "api%5Bkey=mine",
                                   "x-amz%5Bsecurity-token=mine", "access_token%5B%5D=mine"])  # fmt: skip
def test_a_bracket_for_an_underscore_hides_no_token_in_a_query(daemon, mock, query):
    one = daemon(BODY, rules=BODY_RULES)
    field = [("X-Original-URL", f"/test/echo?{query}")]
    before = len(mock.events("request"))
    assert ask(one, "GET", f"/test/echo?{query}", host="open.test").status == 403
    assert ask(one, "GET", "/test/echo", field, host="open.test").status == 403
    assert len(mock.events("request")) == before
    assert ask(one, "GET", f"/test/echo?a=1&{query}", host="other.test").status == 200
    assert "mine" not in str(mock.events("request")[-1])


@pytest.mark.parametrize("member", ["api[key=mine", "api%5Bkey=mine", "%2561pi_key=mine", "\uff41pi_key=mine", "api_key[]=mine",
                                    "access_token=mine", "%2561ccess%5Btoken=mine", "+" * 300 + "apikey=mine"])  # fmt: skip
def test_nothing_that_could_be_a_second_token_goes_in_a_form_beside_ours(daemon, mock, member):
    one = daemon(BODY, rules=BODY_RULES)
    before = len(mock.events("request"))
    for content in (f"api_key=P&{member}", f"{member}&api_key=P"):
        assert ask(one, "POST", "/test/echo", [FORM], content.encode(), host="auth.test").status == 403, content
    assert len(mock.events("request")) == before
    assert ask(one, "POST", "/test/echo", [FORM], b"api_key=P&token=revoke-me", host="auth.test").status == 200


@pytest.mark.parametrize("method, fields", [
    ("POST", [FORM, ("Content-Encoding", "gzip")]), ("POST", [FORM, ("content_encoding", "gzip")]),
    ("POST", [("Content-Type", '"application/x-www-form-urlencoded"')]),
    ("POST", [("Content-Type", "text/plain,application/x-www-form-urlencoded")]), ("POST", [("Content-Type", ";")]),
    ("PUT", [("X-HTTP-Method-Override", "POST")])])  # fmt: skip
def test_a_form_that_only_some_servers_see_is_looked_through(one, mock, method, fields):
    before = len(mock.events("request"))
    answer = ask(one, method, "/test/echo", fields, b"access_token=mine")
    assert answer.status == 403 and b"client_auth" in answer.body, answer
    assert len(mock.events("request")) == before


@pytest.mark.parametrize("name", ["_HttpMethod", "X-HTTP-Method-Override", "x_http_method"])
def test_a_method_that_a_parameter_names_is_decided_too(daemon, mock, name):
    one = daemon(rules=[{"deny": "DELETE https://open.test"}, {"allow": "https://open.test"}])
    before = len(mock.events("request"))
    assert ask(one, "POST", f"/test/echo?{name}=DELETE", host="open.test").status == 403
    assert len(mock.events("request")) == before
    assert ask(one, "POST", f"/test/echo?{name}=PATCH", host="open.test").status == 200


def test_a_token_in_the_path_that_a_field_names_does_not_go_beside_ours(daemon, mock):
    one = daemon(rules=[{"allow": "https://api.test", "credential": "main"}, {"allow": "https://open.test"}])
    field = [("X-Original-URL", "/test/echo?access_token=mine")]
    before = len(mock.events("request"))
    assert ask(one, "GET", "/test/echo", field, host="open.test").status == 403
    assert len(mock.events("request")) == before
    assert ask(one, "GET", "/test/echo", field).status == 200
    assert "x-original-url" in one.journal(event="open")[-1]["stripped"].lower()
    assert b"mine" not in str(mock.events("request")[-1]).encode()


def test_what_was_held_is_bounded_by_max_body_after_a_reload(daemon, mock):
    one = daemon(rules=[{"allow": "https://open.test", "models": "good"}])
    before = len(mock.events("request"))
    with Tunnel(one, "open.test") as tunnel:
        body = '{"model":"good","pad":"' + "x" * 3000
        tunnel.send("POST /test/echo HTTP/1.1\r\nHost: open.test\r\nTransfer-Encoding: chunked\r\n"
                    f"Content-Type: application/json\r\n\r\n{len(body):x}\r\n{body}\r\n")  # fmt: skip
        one.write({**one.config, "tenants": {"acme": {"rules": [{"allow": "https://open.test", "max_body": "1KiB"}]}}})
        one.process.send_signal(signal.SIGHUP)
        until("it is in force", lambda: "the new configuration is in force" in one.stderr())
        tunnel.send("2\r\n\"}\r\n0\r\n\r\n")
        assert tunnel.response("POST").status in (413, 403)
    assert all(len(str(event.get("body", ""))) < 3000 for event in mock.events("request")[before:])
