"""A rule that asks for a query, fields, a content type or a size gets what was really sent."""

import pytest
from common import until
from daemons import Daemons
from harness import Tunnel

RULES = [
    {"deny": "* https://api.test", "query": {"debug": "*"}},
    {"allow": "GET https://api.test/search", "query": {"v": "2*"}},
    {"allow": "GET https://api.test/beta", "headers": {"x-mode": "read"}},
    {"allow": "POST https://api.test/json", "content_type": "application/json"},
    {"allow": "POST https://api.test/echo", "max_body": "1KiB"},
]


@pytest.fixture(scope="module")
def ruled(mock):
    with Daemons([mock]) as daemons:
        yield daemons(rules=RULES)


@pytest.mark.parametrize(
    "method, target, fields, allowed",
    [
        ("GET", "/search?v=2", [], True),
        ("GET", "/search?v=20&w=1", [], True),
        ("GET", "/search", [], False),
        ("GET", "/search?v=3", [], False),
        ("GET", "/search?v=2&v=3", [], False),
        ("GET", "/search?v=2;v=3", [], False),
        ("GET", "/search?v=2&debug=", [], False),
        ("GET", "/search?v=2&%44ebug=1", [], False),
        ("GET", "/beta", [("X-Mode", "read")], True),
        ("GET", "/beta", [], False),
        ("GET", "/beta", [("X-Mode", "read"), ("x-mode", "write")], False),
        # A field that Connection names goes no further: it is as if it were not there.
        ("GET", "/beta", [("X-Mode", "read"), ("Connection", "x-mode")], False),
        ("POST", "/json", [("Content-Type", "Application/JSON; charset=utf-8"), ("Content-Length", "0")], True),
        ("POST", "/json", [("Content-Type", "text/plain"), ("Content-Length", "0")], False),
        ("POST", "/echo", [("Content-Length", "0")], True),
    ],
)  # fmt: skip
def test_what_is_asked_must_be_there(ruled, mock, method, target, fields, allowed):
    mark = f"{method} {target} {fields}"
    with Tunnel(ruled, "api.test") as tunnel:
        answer = tunnel.ask(method, target, [("X-Test-Id", mark), *fields], host="api.test")
    assert (answer.status != 403) == allowed, answer
    assert bool(mock.requests(mark)) == allowed


def test_a_body_that_is_announced_too_large_goes_nowhere(ruled, mock):
    with Tunnel(ruled, "api.test") as tunnel:
        answer = tunnel.ask("POST", "/echo", [("X-Test-Id", "announced")], b"x" * 1025, host="api.test")
    assert answer.status == 403
    mock.never("announced")


def test_a_body_that_turns_out_too_large_is_cut_off(ruled, mock):
    with Tunnel(ruled, "api.test") as tunnel:
        head = "POST /echo HTTP/1.1\r\nHost: api.test\r\nX-Test-Id: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
        tunnel.send(head.encode() + b"400\r\n" + b"x" * 1024 + b"\r\n")
        tunnel.send(b"1\r\nx\r\n0\r\n\r\n")
        answer = tunnel.response("POST")
    assert answer.status == 413
    assert "max_body" in answer.text()
    until("its close", lambda: "content_too_large" in str(ruled.records_of("/echo")))


@pytest.mark.parametrize("where", ["site", "sandbox"])
def test_a_ceiling_bounds_what_announces_nothing(daemon, mock, where):
    one = daemon(rules=[{"allow": "https://api.test", "max_body": "1MiB"}], start=False)
    ceiling = [{"allow": "https://**", "max_body": "1KiB"}]
    if where == "site":
        one.config["site"] = {"rules": ceiling}
    else:
        one.config["listen"][0]["narrow"] = ceiling
    one.write(one.config)
    one.start()
    for size, status in ((1024, 200), (1025, 413)):
        with Tunnel(one, "api.test") as tunnel:
            tunnel.send(b"POST /test/echo HTTP/1.1\r\nHost: api.test\r\nTransfer-Encoding: chunked\r\n\r\n")
            tunnel.send(b"%x\r\n%s\r\n0\r\n\r\n" % (size, b"x" * size))
            answer = tunnel.response("POST")
        assert answer.status == status
    assert "the rule 'https://**' lets through (max_body: 1024 bytes)" in answer.text()


def test_a_chunked_body_that_fits_goes_up(ruled, mock):
    with Tunnel(ruled, "api.test") as tunnel:
        head = "POST /echo HTTP/1.1\r\nHost: api.test\r\nX-Test-Id: fits\r\nTransfer-Encoding: chunked\r\n\r\n"
        tunnel.send(head.encode() + b"400\r\n" + b"x" * 1024 + b"\r\n0\r\n\r\n")
        answer = tunnel.response("POST")
    assert answer.get("proxy-status") is None and mock.requests("fits")
