"""models over HTTP/2: what was held goes up whole, whichever version either side speaks."""

import hashlib

import pytest
from h2upstream import both, make_daemon, make_up  # noqa: F401 (daemon and up are fixtures)

MODELS = {"tenants": {"acme": {"rules": [{"allow": "POST https://open.test/**", "models": "mini"}]}}}
JSON = [("content-type", "application/json")]


def content(size):
    head, tail = b'{"model":"mini","pad":"', b'"}'
    return head + b"p" * (size - len(head) - len(tail)) + tail


@both
@pytest.mark.parametrize("size", [25, 16_384, 100_000, 3_000_000])
def test_content_that_was_held_goes_up_whole(daemon, ask, size):
    body = content(size)
    seen = ask(daemon(MODELS), "/test/echo", "POST", JSON, body).json()
    assert seen["body_bytes"] == size
    assert seen["body_sha256"] == hashlib.sha256(body).hexdigest()


@both
def test_another_model_is_refused_before_anything_goes_up(daemon, up, ask):
    answer = ask(daemon(MODELS), "/test/echo", "POST", JSON, content(50000).replace(b"mini", b"maxi"))
    assert answer.status == 403 and not up.of("open")


@both
@pytest.mark.parametrize("path", ["/test/refuse", "/test/goaway"])
def test_what_the_upstream_has_not_looked_at_is_said_again_with_what_was_held(daemon, ask, path):
    answer = ask(daemon(MODELS), path, "POST", JSON, content(9000))
    assert answer.status == 200, answer


@both
def test_an_answer_before_the_content_has_gone_ends_it_well(daemon, ask):
    one = daemon(MODELS)
    assert ask(one, "/test/early", "POST", JSON, content(2_000_000)).status in (200, 413)
    assert ask(one, "/test/echo", "POST", JSON, content(30)).status == 200

