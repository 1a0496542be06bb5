"""What a token is made of is replaced: nothing of the one before serves any more, ready or under way."""

import os

import pytest
from harness import Tunnel, until
from test_sources import script
from test_tokens import client, endpoint, refresh, serve, state, told  # noqa: F401

READ = "credential main has another value now"


@pytest.fixture
def owner(endpoint):  # noqa: F811
    """The endpoint's tokens say which secret they were given for; any is good."""

    def token():
        secret = owner.secrets[-1]
        return 200, {"access_token": f"token-of-{secret}", "expires_in": 3600}

    def knows(_, form):
        owner.secrets.append(form["client_secret"])
        return True

    owner.secrets = []
    endpoint.token, endpoint.knows = token, knows
    return owner


def replace(tmp_path, value, name="value"):
    fresh = tmp_path / "fresh"
    fresh.write_text(value)
    os.chmod(fresh, 0o600)
    os.rename(fresh, tmp_path / name)


def test_a_token_of_the_value_before_does_not_serve(serve, owner, endpoint, tmp_path):  # noqa: F811
    one = serve("the-first-secret", client(client_auth="body"))
    assert told(one) == (200, "Bearer token-of-the-first-secret")
    replace(tmp_path, "the-other-secret")
    until("it is read", lambda: READ in one.stderr())
    assert told(one) == (200, "Bearer token-of-the-other-secret")
    assert owner.secrets == ["the-first-secret", "the-other-secret"]


def test_a_token_that_is_being_made_of_the_value_before_does_not_serve(serve, owner, endpoint, tmp_path):  # noqa: F811
    one = serve("the-first-secret", client(client_auth="body"))
    endpoint.gate.clear()
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        until("it is asked", lambda: endpoint.asked)
        replace(tmp_path, "the-other-secret")
        until("it is read", lambda: READ in one.stderr())
        until("it is asked anew", lambda: len(endpoint.asked) == 2)
        assert ["the-other-secret" in body for _, _, _, body in endpoint.asked] == [False, True]
        endpoint.gate.set()
        assert "Bearer token-of-the-other-secret" in [v for _, v in tunnel.response().json()["fields"]]
    assert told(one) == (200, "Bearer token-of-the-other-secret")
    assert len(endpoint.asked) == 2


def test_another_value_that_gives_no_token_leaves_none(serve, owner, endpoint, tmp_path):  # noqa: F811
    one = serve("the-first-secret", client(client_auth="body"))
    assert told(one)[0] == 200
    endpoint.trouble = lambda request: endpoint.reply(request, 401, '{"error":"invalid_client"}')
    replace(tmp_path, "a-wrong-secret")
    until("it is read", lambda: READ in one.stderr())
    assert told(one)[0] == 503


def test_the_same_value_again_leaves_the_token(serve, owner, endpoint, tmp_path):  # noqa: F811
    command = script(str(tmp_path), f'echo x >> {tmp_path}/runs\necho the-first-secret\n')
    one = serve("unused", client(client_auth="body") | {"value": {"exec": [command], "refresh": "1s", "file": None}})
    assert told(one) == (200, "Bearer token-of-the-first-secret")

    def runs():
        return len((tmp_path / "runs").read_text().split())

    before = runs()
    until("it has run again", lambda: runs() >= before + 2)
    assert told(one) == (200, "Bearer token-of-the-first-secret")
    assert len(endpoint.asked) == 1


def test_a_refresh_token_of_a_command_comes_with_the_clients_secret(serve, endpoint, tmp_path):  # noqa: F811
    command = script(str(tmp_path), f"echo {endpoint.refresh}\n")
    (tmp_path / "client").write_text(endpoint.client[1])
    one = serve("unused", refresh(tmp_path) | {"value": {"exec": [command], "file": None}})
    assert told(one) == (200, "Bearer token-number-1")
    assert state(tmp_path) == endpoint.refresh


def test_another_client_secret_is_asked_with_from_then_on(serve, endpoint, tmp_path):  # noqa: F811
    (tmp_path / "client").write_text("not-the-clients-secret")
    one = serve(endpoint.refresh, refresh(tmp_path))
    assert told(one)[0] == 503 and "invalid_client" in one.stderr()
    replace(tmp_path, endpoint.client[1], "client")
    until("it is read", lambda: "credential main has another client secret now" in one.stderr())
    until("it is asked with", lambda: told(one)[0] == 200)
