"""An upstream answers 401 to a token before its end: another one is made, once, and nothing is sent anew."""

import os
import time

import pytest
from harness import Tunnel, until
from test_sources import by_command, script
from test_sources import told as key
from test_tokens import app, client, endpoint, serve, told  # noqa: F401

REFUSED = "/test/status?code=401"
SAID = "an upstream answered 401 to its token"


def refuse(one, times=1):
    with Tunnel(one, "api.test") as tunnel:
        for _ in range(times):
            assert tunnel.ask("GET", REFUSED).status == 401


def test_the_next_request_has_another_token_and_this_one_is_not_sent_again(serve, endpoint, mock):  # noqa: F811
    one = serve(endpoint.client[1], client())
    assert told(one) == (200, "Bearer token-number-1")
    mark = mock.mark()
    refuse(one)
    assert told(one) == (200, "Bearer token-number-2")
    assert [r["target"] for r in mock.requests(since=mark)] == [REFUSED, "/test/echo"]
    assert len(endpoint.asked) == 2 and one.stderr().count(SAID) == 1


def test_an_upstream_that_refuses_every_token_does_not_have_the_endpoint_hammered(serve, endpoint):  # noqa: F811
    one = serve(endpoint.client[1], client())
    began = time.monotonic()
    refuse(one, times=50)
    status, token = told(one)
    minutes = (time.monotonic() - began) / 60
    assert status == 200 and token.startswith("Bearer token-number-")
    assert 2 <= len(endpoint.asked) <= 2 + minutes, "one for the first, and one a minute"


def test_where_no_other_token_is_to_be_had_the_one_that_was_refused_serves_on(serve, endpoint):  # noqa: F811
    """Else an upstream could take it from all others while the endpoint is down."""
    one = serve(endpoint.client[1], client())
    assert told(one) == (200, "Bearer token-number-1")
    endpoint.trouble = lambda request: endpoint.reply(request, 503, "{}")
    refuse(one)
    assert told(one) == (200, "Bearer token-number-1")
    assert "the token before serves on" in one.stderr()


def test_who_comes_while_another_one_is_made_waits_for_it(serve, endpoint):  # noqa: F811
    one = serve(endpoint.client[1], client())
    assert told(one)[0] == 200
    endpoint.gate.clear()
    refuse(one)
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("another one is asked for", lambda: len(endpoint.asked) == 2)
        endpoint.gate.set()
        assert "Bearer token-number-2" in [value for _, value in tunnel.response().json()["fields"]]


def test_a_repositorys_token_is_renewed_by_itself(serve, endpoint):  # noqa: F811
    """The mock answers 401 to all that it does not know the key of."""
    one = serve(endpoint.make_key("app"), app(installation_id=77, per_repository=True))
    assert [told(one, f"/repos/somebody/{name}/issues")[0] for name in ["tools", "tools", "tools", "other"]] == [401] * 4
    opened = [body for _, path, _, body in endpoint.asked if path.endswith("access_tokens")]
    assert opened == ['{"repositories":["tools"]}'] * 2 + ['{"repositories":["other"]}']


AGAIN = "an upstream answered 401 to its value: its command is run again"


def counting(tmp_path, text="echo value-number-$(wc -l <{})"):
    counter = tmp_path / "counter"
    return script(tmp_path, f"echo x >>{counter}; " + text.format(counter)), lambda: len(counter.read_text().split())


@pytest.mark.parametrize("more", [{"refresh": "1h"}, {"max_age": "1h"}])
def test_a_command_whose_value_is_refused_is_run_again(daemon, mock, tmp_path, more):
    command, runs = counting(tmp_path)
    one = daemon(by_command([command], **more))
    assert key(one) == (200, "value-number-1")
    mark = mock.mark()
    refuse(one)
    assert key(one) == (200, "value-number-2"), "a value that was revoked recovers"
    assert [r["target"] for r in mock.requests(since=mark)] == [REFUSED, "/test/echo"]
    assert runs() == 2 and one.stderr().count(AGAIN) == 1


def test_an_upstream_that_refuses_every_value_does_not_have_the_command_hammered(daemon, tmp_path):
    command, runs = counting(tmp_path)
    one = daemon(by_command([command], refresh="1h"))
    began = time.monotonic()
    refuse(one, times=50)
    assert key(one)[0] == 200
    assert 2 <= runs() <= 2 + (time.monotonic() - began) / 60, "one for the first, and one a minute"


@pytest.mark.parametrize("text, runs", [("test $(wc -l <{}) = 1 && echo value-number-1", 2), ("echo value-number-1", 2)])
def test_where_the_command_has_no_other_value_the_one_before_serves_on(daemon, tmp_path, text, runs):
    command, count = counting(tmp_path, text)
    one = daemon(by_command([command], refresh="1h"))
    assert key(one) == (200, "value-number-1")
    refuse(one)
    assert key(one) == (200, "value-number-1") and count() == runs


def test_who_comes_while_the_command_runs_again_waits_for_it(daemon, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command, runs = counting(tmp_path, f"test $(wc -l <{{0}}) = 1 || cat {gate} >/dev/null; echo value-number-$(wc -l <{{0}})")
    one = daemon(by_command([command], refresh="1h"))
    assert key(one) == (200, "value-number-1")
    refuse(one)
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is run again", lambda: runs() == 2)
        with open(gate, "w", encoding="ascii"):
            pass
        assert "value-number-2" in [value for _, value in tunnel.response().json()["fields"]]


def test_a_command_whose_value_stays_is_not_run_again(daemon, tmp_path):
    command, runs = counting(tmp_path)
    one = daemon(by_command([command]))
    refuse(one, times=3)
    assert key(one) == (200, "value-number-1") and runs() == 1 and AGAIN not in one.stderr()


def test_a_value_that_is_no_token_stays_what_it_is(daemon, mock):
    one = daemon()
    mark = mock.mark()
    refuse(one, times=3)
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    assert len(mock.requests(since=mark)) == 4 and SAID not in one.stderr()
