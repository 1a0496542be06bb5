"""models: a rule asks which model a request is for; its content is held, read strictly, and goes on as it came."""

import contextlib
import json
import signal
import subprocess
import zlib

import pytest
from harness import KEYHOLE, Tunnel, until

JSON = [("Content-Type", "application/json")]
GOOD = b'{"model": "claude-haiku-4", "max_tokens": 5, "messages": [{"model": "other", "role": "user"}]}'
RULES = [{"allow": "POST https://open.test/test/echo", "models": ["claude-haiku-*", "mini"]}]


def ask(one, body, path="/test/echo", fields=JSON, host="open.test", **how):
    with Tunnel(one, host) as tunnel:
        return tunnel.ask("POST", path, fields, body, **how)


def reason(answer):
    assert answer.status in (403, 413, 429), answer
    return answer.json()["keyhole"]["reason"]


@pytest.fixture(scope="module")
def limits():
    return {"limits": {"held_content": "1MiB"}}


def test_the_model_of_the_content_decides_and_the_content_goes_on_as_it_came(daemon, limits):
    one = daemon(limits, rules=RULES)
    answer = ask(one, GOOD)
    assert answer.status == 200
    assert answer.json()["body"] == GOOD.decode() or answer.json()["body_bytes"] == len(GOOD)
    assert reason(ask(one, GOOD.replace(b"haiku", b"opus"))) == "no_rule"
    opened = [r for r in one.journal() if r["event"] == "open"]
    assert opened[0]["gen_ai.request.model"] == "claude-haiku-4"
    denied = [r for r in one.journal() if r["event"] == "deny"]
    assert denied[0]["gen_ai.request.model"] == "claude-opus-4"
    with open(one.journal_path, "rb") as file:
        assert b"max_tokens" not in file.read()


UNREADABLE = {
    "twice": b'{"model": "claude-haiku-4", "model": "claude-opus-4"}',
    "twice, the good one last": b'{"model": "claude-opus-4", "model": "claude-haiku-4"}',
    "escaped": b'{"mod\\u0065l": "claude-haiku-4"}',
    "both": b'{"model": "claude-haiku-4", "\\u006dodel": "claude-opus-4"}',
    "another case": b'{"model": "claude-haiku-4", "Model": "claude-opus-4"}',
    "not a text": b'{"model": ["claude-haiku-4"]}',
    "no name": b'{"model": "claude-haiku-4\\u0000"}',
    "no JSON": b"model=claude-haiku-4",
    "a list": b'[{"model": "claude-haiku-4"}]',
    "cut": GOOD[:-1],
    "more behind it": GOOD + b"{}",
    "a trailing comma": b'{"model": "claude-haiku-4",}',
    "a comment": b'{"model": "claude-haiku-4" /* , "model": "x" */}',
    "NaN": b'{"model": "claude-haiku-4", "t": NaN}',
    "a mark in front": b"\xef\xbb\xbf" + GOOD,
    "not UTF-8": b'{"model": "claude-haiku-4", "x": "\xff"}',
    "UTF-16": GOOD.decode().encode("utf-16"),
    "a bare control": b'{"model": "claude-haiku-4", "x": "\n"}',
    "too deep": b'{"model": "claude-haiku-4", "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_content_that_another_reader_may_read_otherwise_is_refused(daemon, limits, mock, what):
    one = daemon(limits, rules=RULES + [{"allow": "POST https://open.test/**"}])
    mark = mock.mark()
    answer = ask(one, UNREADABLE[what])
    assert reason(answer) == "model_unreadable"
    assert not mock.events("request", since=mark)


HEADS = {
    "none": [],
    "text": [("Content-Type", "text/plain")],
    "form": [("Content-Type", "application/x-www-form-urlencoded")],
    "two": JSON + [("Content-Type", "text/plain")],
    "charset": [("Content-Type", "application/json; charset=utf-16")],
    "gzip": [*JSON, ("Content-Encoding", "gzip")],
}


@pytest.mark.parametrize("what", HEADS)
def test_content_that_is_not_plainly_json_is_refused(daemon, limits, what):
    one = daemon(limits, rules=RULES)
    body = zlib.compress(GOOD) if what == "gzip" else GOOD
    assert reason(ask(one, body, fields=HEADS[what])) == "model_unreadable"


def test_json_with_utf8_and_other_json_types_are_read(daemon, limits):
    one = daemon(limits, rules=RULES)
    for kind in ("application/json; charset=UTF-8", "application/vnd.api+json"):
        assert ask(one, GOOD, fields=[("Content-Type", kind), ("Content-Encoding", "identity")]).status == 200


def test_no_model_is_none_that_is_allowed(daemon, limits):
    one = daemon(limits, rules=RULES)
    assert reason(ask(one, b'{"max_tokens": 5}')) == "no_rule"
    assert reason(ask(one, b"")) == "no_rule"


def test_a_rule_that_denies_a_model_stands_in_front_of_one_that_allows(daemon, limits):
    one = daemon(limits, rules=[{"deny": "https://open.test", "models": "*opus*"}, {"allow": "https://open.test"}])
    assert ask(one, GOOD).status == 200
    assert reason(ask(one, GOOD.replace(b"haiku", b"OPUS"))) == "denied_by_rule"
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200, "without content there is no model"


def test_content_is_held_only_where_a_rule_that_is_reached_asks_for_it(daemon, limits):
    one = daemon(limits, rules=[{"allow": "https://open.test/test/sse"}, *RULES,
                                {"allow": "POST https://open.test/test/echo/more"}])  # fmt: skip
    big = b"x" * 3000000
    assert ask(one, big, path="/test/echo/more", fields=[]).status == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_content_over_the_limit_is_refused_and_up_to_it_goes_whole(daemon, limits, chunked):
    one = daemon(limits, rules=RULES)

    def content(size):
        return GOOD[:-1] + b', "pad": "' + b"p" * (size - len(GOOD) - 11) + b'"}'

    fits, over = content(1 << 20), content((1 << 20) + 1)
    with Tunnel(one, "open.test") as tunnel:
        for body in (fits, over):
            fields = list(JSON)
            if chunked:
                fields.append(("Transfer-Encoding", "chunked"))
                tunnel.start("POST", "/test/echo", fields)
                for at in range(0, len(body), 50000):
                    piece = body[at : at + 50000]
                    tunnel.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                tunnel.send(b"0\r\n\r\n")
            else:
                tunnel.start("POST", "/test/echo", fields, body)
            answer = tunnel.response()
            if body is fits:
                assert answer.status == 200 and answer.json()["body_bytes"] == len(fits)
            else:
                assert reason(answer) == "content_too_large"


def test_who_waits_for_a_100_is_told_by_us_and_the_upstream_is_not_asked(daemon, limits):
    one = daemon(limits, rules=RULES)
    with Tunnel(one, "open.test") as tunnel:
        fields = [*JSON, ("Expect", "100-continue"), ("Content-Length", str(len(GOOD)))]
        tunnel.start("POST", "/test/echo", fields)
        assert tunnel.read_head().status == 100
        tunnel.send(GOOD)
        answer = tunnel.response()
        assert answer.status == 200
        assert "expect" not in [name.lower() for name, _ in answer.json()["fields"]]


def test_a_hundred_small_pieces_of_a_slow_client_are_put_together(daemon, limits):
    one = daemon(limits, rules=RULES)
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("POST", "/test/echo", [*JSON, ("Content-Length", str(len(GOOD)))])
        for at in range(len(GOOD)):
            tunnel.send(GOOD[at : at + 1])
        assert tunnel.response().json()["body_bytes"] == len(GOOD)
        tunnel.start("POST", "/test/echo", JSON, GOOD)
        assert tunnel.response().status == 200, "the connection goes on"


def test_one_sandbox_holds_no_more_than_its_share(daemon):
    one = daemon({"limits": {"held_content": "64KiB"}}, rules=RULES)
    tunnels = [Tunnel(one, "open.test") for _ in range(6)]
    try:
        for tunnel in tunnels:
            tunnel.start("POST", "/test/echo", [*JSON, ("Content-Length", "60000")])
            tunnel.send(b'{"pad": "' + b"x" * 59000)
        refused = []
        for tunnel in tunnels:
            tunnel.sock.settimeout(1)
            with contextlib.suppress(TimeoutError):
                refused.append(reason(tunnel.response()))
        assert refused == ["limit"] * 2, "four times the limit are held, and no more"
    finally:
        for tunnel in tunnels:
            tunnel.close()
    assert ask(one, GOOD).status == 200, "and it is given back"


PATHS = {
    "/v1beta/models/gemini-nano:generateContent": True,
    "/v1beta/models/gemini-pro:generateContent": False,
    "/v1/projects/p/locations/eu/publishers/google/models/gemini-nano:streamGenerateContent": True,
    "/model/eu.anthropic.nano%3A0/invoke": True,
    "/model/eu.anthropic.big%3A0/converse": False,
    "/openai/deployments/my-nano/chat/completions": True,
    "/openai/deployments/my-big/chat/completions": False,
}


@pytest.mark.parametrize("path", PATHS)
def test_a_model_in_the_path_needs_no_content(daemon, path):
    one = daemon(rules=[{"allow": "https://open.test/**", "models": "*nano*"}])
    answer = ask(one, b"this is no JSON", path=path, fields=[])
    if PATHS[path]:
        assert answer.status not in (403, 413)
    else:
        assert reason(answer) == "no_rule"


GEMINI = "/v1beta/models/gemini-pro:generateContent"


@pytest.mark.parametrize("path", [GEMINI.replace("/", "//", 1), GEMINI + "/", GEMINI.replace("models", "Models"),
                                  GEMINI.replace("models/", "models%2F"), GEMINI.replace("models", "models;x"),
                                  "/proxy" + GEMINI, "//openai/deployments/big/chat", "//model/big/invoke"])  # fmt: skip
def test_content_does_not_speak_for_a_path_that_may_name_another_model(daemon, mock, path):
    one = daemon(rules=[{"allow": "https://open.test/**", "models": "claude-haiku-*"}])
    mark = mock.mark()
    assert reason(ask(one, GOOD, path=path)) == "model_unreadable"
    assert not mock.events("request", since=mark)
    assert ask(one, GOOD).status == 200


@pytest.mark.parametrize("path", ["/v1/projects/p/locations/l/endpoints/99:generateContent", "/async-invoke",
                                  "/v1/engines/big/completions", "/v1/models/owner/big/predictions",
                                  "/deployments/big/chat/completions"])  # fmt: skip
def test_content_does_not_speak_for_a_path_that_names_a_model_in_an_unknown_form(daemon, mock, path):
    one = daemon(rules=[{"allow": "https://open.test/**", "models": "claude-haiku-*"}])
    mark = mock.mark()
    assert reason(ask(one, GOOD, path=path)) == "model_unreadable"
    assert not mock.events("request", since=mark)
    with_id = b'{"modelId":"big",' + GOOD.lstrip()[1:]
    assert reason(ask(one, with_id)) == "model_unreadable"
    assert ask(one, GOOD).status == 200


def test_a_path_that_a_field_names_may_name_any_model(daemon, mock):
    one = daemon(rules=[{"deny": "https://auth.test", "models": "*pro"}, {"allow": "https://auth.test"},
                        {"allow": "https://open.test/**", "models": "claude-haiku-*"}])  # fmt: skip
    mark = mock.mark()
    fields = [*JSON, ("X-Original-URL", GEMINI)]
    assert reason(ask(one, GOOD, fields=fields)) == "no_rule"
    assert reason(ask(one, GOOD, fields=fields, host="auth.test")) == "denied_by_rule"
    assert not mock.events("request", since=mark)


def test_a_reload_takes_the_question_away_while_content_is_held(daemon, limits):
    one = daemon(limits, rules=RULES)
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("POST", "/test/echo", [*JSON, ("Content-Length", str(len(GOOD)))])
        tunnel.send(GOOD[:40])
        one.write({**one.config, "tenants": {"acme": {"rules": [{"allow": "https://open.test"}]}}})
        one.process.send_signal(signal.SIGHUP)
        until("it is in force", lambda: "the new configuration is in force" in one.stderr())
        until("it is opened", lambda: [r for r in one.journal() if r["event"] == "open"])
        tunnel.send(GOOD[40:])
        assert tunnel.response().json()["body_bytes"] == len(GOOD)


def test_a_client_that_goes_while_its_content_is_held_leaves_nothing(daemon, limits):
    one = daemon(limits, rules=RULES)
    for _ in range(5):
        with Tunnel(one, "open.test") as tunnel:
            tunnel.start("POST", "/test/echo", [*JSON, ("Content-Length", "1000000")])
            tunnel.send(b'{"pad": "' + b"x" * 500000)
    assert ask(one, GOOD).status == 200


def test_over_http2_too(daemon, limits, curl):
    one = daemon(limits, rules=RULES)
    good = curl(one, "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "-H",
                "content-type: application/json", "-d", GOOD.decode(), "https://open.test/test/echo")  # fmt: skip
    assert good.stdout == "200 2", good
    bad = curl(one, "--http2", "-H", "content-type: application/json", "-d",
               '{"model":"mini","model":"big"}', "https://open.test/test/echo")  # fmt: skip
    assert "does not say it plainly" in bad.stdout


def check(tmp_path, rules, cases):
    path = tmp_path / "k.yaml"
    path.write_text(json.dumps({"version": 1, "tenants": {"t": {"rules": rules}}, "expect": cases}))
    return subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True, timeout=20,
                          check=False), path  # fmt: skip


def test_expect_and_explain_take_a_model(tmp_path):
    rules = [{"allow": "POST https://a.test/v1/messages", "models": ["claude-*"]},
             {"allow": "POST https://a.test/**"}]  # fmt: skip
    cases = [{"allow": "POST https://a.test/v1/messages", "model": "claude-x"},
             {"allow": "POST https://a.test/v1/messages", "model": "gpt"},
             {"deny": "POST https://a.test/v1/messages"}]  # fmt: skip
    done, path = check(tmp_path, rules, cases)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run([KEYHOLE, "explain", "-c", str(path), "--model", "gpt", "POST",
                            "https://a.test/v1/messages"], capture_output=True, text=True, timeout=20,
                           check=False)  # fmt: skip
    assert shown.returncode == 0 and "another model" in shown.stdout
    unsaid = subprocess.run([KEYHOLE, "explain", "-c", str(path), "POST", "https://a.test/v1/messages"],
                            capture_output=True, text=True, timeout=20, check=False)  # fmt: skip
    assert unsaid.returncode == 3 and "say --model NAME" in unsaid.stdout
    twofold = subprocess.run([KEYHOLE, "explain", "-c", str(path), "--model", "claude-x", "POST",
                              "https://a.test/v1/messages%2Fmodels%2Fx:y"], capture_output=True, text=True, timeout=20,
                             check=False)  # fmt: skip
    assert twofold.returncode == 0, "no rule with models is reached"
    rules[0]["allow"] = "POST https://a.test/**"
    done, path = check(tmp_path, rules, [{"deny": "POST https://a.test/v1%2Fmodels%2Fx:y", "model": "claude-x"}])
    assert done.returncode == 0, done.stderr
    twofold = subprocess.run([KEYHOLE, "explain", "-c", str(path), "--model", "claude-x", "POST",
                              "https://a.test/v1%2Fmodels%2Fx:y"], capture_output=True, text=True, timeout=20,
                             check=False)  # fmt: skip
    assert twofold.returncode == 3 and "deny: model_unreadable" in twofold.stdout
    assert "its path may be read as one that names a model" in twofold.stdout
