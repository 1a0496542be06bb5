"""A refusal can be read by the program, the model and the person that it is made to."""

import json
import os
import subprocess

import pytest
from harness import Refused, Tunnel, Wire, until


@pytest.fixture
def picky(daemon):
    return daemon(
        rules=[
            {"deny": "* https://api.test/admin/**"},
            {"allow": "POST https://api.test/v1/messages", "credential": "main"},
            {"allow": "GET https://api.test/v1/models", "credential": "main", "websocket": False},
            {"allow": "https://open.test"},
        ]
    )


def refuse(daemon, host, method, path, fields=()):
    """The tunnel is accepted and TLS completed: the refusal is an answer, not a broken pipe."""
    with Tunnel(daemon, host) as tunnel:
        assert tunnel.connect_response.status == 200
        answer = tunnel.ask(method, path, fields)
    assert answer.status == 403
    return answer


def test_a_host_off_the_list_is_refused_inside_the_tunnel(picky):
    answer = refuse(picky, "nowhere.test", "GET", "/")
    assert answer.get("proxy-status").startswith("keyhole;")
    assert "error=http_request_denied" in answer.get("proxy-status").replace(" ", "")
    text = answer.text()
    assert "nowhere.test" in text
    assert "open.test" in text, "it says what is allowed"


def test_a_refusal_by_rule_quotes_the_rule_and_what_is_allowed_near_it(picky):
    text = refuse(picky, "api.test", "GET", "/admin/users").text()
    assert "https://api.test/admin/**" in text
    assert "/v1/messages" in text and "/v1/models" in text


def test_a_refusal_without_a_rule_says_so(picky):
    text = refuse(picky, "api.test", "DELETE", "/v1/models").text()
    assert "no rule" in text.lower()
    assert "GET https://api.test/v1/models" in text


def test_it_says_that_a_retry_is_no_use(picky):
    answer = refuse(picky, "api.test", "GET", "/other")
    assert "retry" in answer.text().lower()
    assert answer.get("retry-after") is None
    assert answer.get("x-should-retry") in (None, "false")


def test_a_refusal_of_what_the_request_holds_lists_no_rule_that_allows_it(picky):
    text = refuse(picky, "open.test", "GET", "/x", [("Authorization", "Bearer mine")]).text()
    assert "without it the rules allow this request" in text
    assert "Allowed:" not in text and "use what is allowed" not in text


def test_json_for_programs(picky):
    answer = refuse(picky, "api.test", "GET", "/other", [("Accept", "application/json")])
    assert answer.get("content-type").startswith("application/json")
    assert isinstance(answer.json(), dict)
    message = json.dumps(answer.json())
    assert "api.test" in message and "/other" in message


def test_json_where_nothing_is_asked_for(picky):
    assert refuse(picky, "api.test", "GET", "/other").get("content-type").startswith("application/json")


@pytest.mark.parametrize(
    "fields", [[("Accept", "text/plain")], [("User-Agent", "curl/7.88.1"), ("Accept", "*/*")]]
)
def test_text_for_people(picky, fields):
    answer = refuse(picky, "api.test", "GET", "/other", fields)
    assert answer.get("content-type").startswith("text/plain")
    assert not answer.text().startswith("{")
    assert answer.text().endswith("\n")


def test_head_has_the_refusals_head_and_no_body(picky):
    with Tunnel(picky, "api.test") as tunnel:
        answer = tunnel.ask("HEAD", "/other")
        assert (answer.status, answer.body) == (403, b"")
        assert "http_request_denied" in answer.get("proxy-status")
        assert tunnel.ask("GET", "/v1/models").status == 200, "the connection is still in step"


def test_the_connection_goes_on_after_a_refusal(picky):
    with Tunnel(picky, "api.test") as tunnel:
        for _ in range(5):
            assert tunnel.ask("GET", "/other").status == 403
            assert tunnel.ask("GET", "/v1/models").status == 200


def test_a_refused_upload_is_answered_and_not_taken_upstream(picky, mock):
    with Tunnel(picky, "api.test") as tunnel:
        answer = tunnel.ask("POST", "/other", [("X-Test-Id", "refused upload")], b"x" * 300_000)
        assert answer.status == 403
    mock.never("refused upload")


def test_a_refused_expect_is_not_told_to_continue(picky):
    with Tunnel(picky, "api.test") as tunnel:
        tunnel.start("POST", "/other", [("Expect", "100-continue"), ("Content-Length", "5")])
        assert tunnel.read_head().status == 403


def test_what_the_client_wrote_comes_back_harmless(picky):
    with Tunnel(picky, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/x'y%22%3Cscript%3E?secret=hunter2")
    assert answer.status == 403
    assert "hunter2" not in answer.text(), "no query value is echoed"
    assert "<script>" not in answer.text()


def test_plain_http_is_refused_the_same_way(picky):
    with Wire(picky.socket_path) as wire:
        answer = wire.ask("GET", "http://nowhere.test/", host="nowhere.test")
    assert answer.status == 403
    assert "http_request_denied" in answer.get("proxy-status")


def test_an_upgrade_is_426_on_which_clients_fall_back(picky, mock):
    fields = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
              ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="), ("X-Test-Id", "upgrade")]  # fmt: skip
    with Tunnel(picky, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/v1/models", fields)
    assert answer.status == 426
    mock.never("upgrade")


@pytest.mark.parametrize("upgrade", ["h2c", "TLS/1.0"])
def test_no_upgrade_is_a_way_out_of_http(picky, mock, upgrade):
    fields = [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", upgrade),
              ("HTTP2-Settings", "AAMAAABkAARAAAAAAAIAAAAA"), ("X-Test-Id", "up " + upgrade)]  # fmt: skip
    with Tunnel(picky, "api.test") as tunnel:
        answer = tunnel.ask("GET", "/v1/models", fields)
    assert answer.status != 101
    if answer.status == 200:
        assert "upgrade" not in mock.requests("up " + upgrade)[0]["fields"]
    else:
        mock.never("up " + upgrade)


def test_curl_shows_the_reason(picky, curl):
    done = curl(picky, "https://api.test/admin/x")
    assert done.returncode == 0
    assert "https://api.test/admin/**" in done.stdout


def test_urllib_raises_an_error_with_the_reason(picky, relay):
    script = (
        "import urllib.request as u, urllib.error\n"
        "try: u.urlopen('https://nowhere.test/x', timeout=20)\n"
        "except urllib.error.HTTPError as e: print(e.code, e.read().decode())\n"
    )
    env = {"HTTPS_PROXY": relay(picky).url, "SSL_CERT_FILE": picky.ca, "PATH": os.environ["PATH"]}
    done = subprocess.run(["/usr/bin/python3", "-c", script], env=env, capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.stdout.startswith("403 "), done.stderr
    assert "nowhere.test" in done.stdout


def test_every_refusal_is_in_the_journal_with_its_reason(picky):
    refuse(picky, "nowhere.test", "GET", "/noted?x=y")
    refuse(picky, "api.test", "GET", "/admin/noted")

    def reason(path):  # the record is written at the end of the turn in which the answer left
        return until(path, lambda: json.dumps(picky.records_of(path)) if picky.records_of(path) else "")

    assert "no_rule" in reason("/noted")
    assert "denied_by_rule" in reason("/admin/noted")


def test_a_connect_that_cannot_be_read_is_an_answer_too(picky):
    with pytest.raises(Refused) as refused:
        Tunnel(picky, "api.test", authority="api.test")
    assert refused.value.response.status == 400
    assert refused.value.response.body


def test_a_refusal_of_a_field_names_it_and_what_to_do(picky):
    text = refuse(picky, "open.test", "GET", "/", [("X-Forwarded-Host", "elsewhere.test")]).text()
    assert "remove X-Forwarded-Host, or allow that host too" in text, text
    text = refuse(picky, "open.test", "GET", "/", [("Authorization", "Bearer x")]).text().lower()
    assert "authorization carries authentication" in text and "remove it from the request" in text, text
