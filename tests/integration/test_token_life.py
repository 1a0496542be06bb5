"""A question to a token endpoint outlives what happens to the daemon meanwhile: reload, handover, the end."""

import copy
import os
import signal
import urllib.parse

import pytest
from harness import Tunnel, finish, until
from test_tokens import children, client, command, endpoint, refresh, state, told  # noqa: F401
from token_endpoints import HOST

LONG = 60


@pytest.fixture
def running(upgradable, mock, endpoint, tmp_path):  # noqa: F811
    """A daemon that can be replaced; the endpoint's answers wait for its gate."""
    both = tmp_path / "roots.pem"
    both.write_text(open(mock.ca).read() + open(endpoint.ca).read())

    def make(value, credential):
        path = tmp_path / "value"
        path.write_text(value)
        os.chmod(path, 0o600)
        (tmp_path / "client").write_text(endpoint.client[1])
        endpoint.gate.clear()
        credential["oauth2"]["timeout"] = f"{LONG}s"
        return upgradable({
            "upstream": {"ca_file": str(both), "resolve": {HOST: endpoint.address}},
            "credentials": {"main": {"header": None, "value": {"file": str(path)}, **credential}},
        })  # fmt: skip

    return make


def begin(one, endpoint, count=1):  # noqa: F811
    """A request that waits for its token."""
    tunnel = Tunnel(one, "api.test", timeout=LONG)
    tunnel.start("GET", "/test/echo")
    tunnel.send(b"")
    until("it is asked", lambda: len(endpoint.asked) >= count, LONG)
    return tunnel


def authorization(answer):
    assert answer.status == 200, answer.text()
    return [v for n, v in answer.json()["fields"] if n.lower() == "authorization"][0]


def reload(one, change):
    config, seen = copy.deepcopy(one.config), one.stderr().count("the new configuration is in force")
    change(config)
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: one.stderr().count("the new configuration is in force") > seen, LONG)


# --- a reload -------------------------------------------------------------------------------------


def test_a_reload_in_the_middle_asks_once_and_answers_who_waits(running, endpoint):  # noqa: F811
    one = running(endpoint.client[1], client())
    with begin(one, endpoint) as tunnel:
        reload(one, lambda config: config["tenants"]["acme"]["rules"].insert(0, {"deny": "https://none.test"}))
        endpoint.gate.set()
        assert authorization(tunnel.response()) == "Bearer token-number-1"
    assert told(one) == (200, "Bearer token-number-1")
    assert len(endpoint.asked) == 1


def test_who_waits_is_refused_when_a_reload_takes_the_rule_away(running, endpoint):  # noqa: F811
    one = running(endpoint.client[1], client())
    with begin(one, endpoint) as tunnel:
        reload(one, lambda config: config["tenants"]["acme"].update(rules=[{"allow": "https://open.test"}]))
        assert tunnel.response().status == 403, "at once, whatever the endpoint does"
    endpoint.gate.set()


def test_another_key_in_the_middle_of_a_question_is_what_counts(running, endpoint, tmp_path):  # noqa: F811
    """The question of the old one is let go; its token would open what is no longer meant."""
    one = running("the-old-one", client())
    other = tmp_path / "other"
    other.write_text(endpoint.client[1])
    os.chmod(other, 0o600)
    with begin(one, endpoint) as tunnel:
        reload(one, lambda config: config["credentials"]["main"]["value"].update(file=str(other)))
        endpoint.gate.set()
        assert authorization(tunnel.response()) == "Bearer token-number-1"


# --- a handover -----------------------------------------------------------------------------------


def hand_over_in_the_middle(one, endpoint):  # noqa: F811
    """One who waits meanwhile, one who comes then (to either process: both accept for a moment), one who comes when
    the process before has ended. Return: what they brought upstream."""
    with begin(one, endpoint) as tunnel:
        one.install()
        one.hand_over()
        with Tunnel(one, "api.test", timeout=LONG) as other:
            other.start("GET", "/test/echo")
            other.send(b"")
            endpoint.gate.set()
            brought = [authorization(tunnel.response()), authorization(other.response())]
    one.last_ended()
    return [*brought, told(one)[1]]


def test_a_handover_in_the_middle_answers_who_waits_and_who_comes(running, endpoint):  # noqa: F811
    one = running(endpoint.client[1], client())
    assert set(hand_over_in_the_middle(one, endpoint)) == {"Bearer token-number-1", "Bearer token-number-2"}
    assert len(endpoint.asked) == 2, "once a process"


def test_a_handover_in_the_middle_of_a_rotation_shows_no_refresh_token_twice(running, endpoint, tmp_path):  # noqa: F811
    """Who took over waits until the one before has put away what is good now."""
    one = running(endpoint.refresh, refresh(tmp_path))
    assert set(hand_over_in_the_middle(one, endpoint)) == {"Bearer token-number-1", "Bearer token-number-2"}
    shown = [urllib.parse.parse_qs(body)["refresh_token"][0] for _, _, _, body in endpoint.asked]
    assert len(shown) == len(set(shown)) == 2
    assert state(tmp_path) == endpoint.refresh


# --- the end --------------------------------------------------------------------------------------


def stop_in_the_middle(one, endpoint):  # noqa: F811
    begin(one, endpoint).close()
    one.process.terminate()
    until("its worker has ended", lambda: one.worker_pid() is None, LONG)


def test_a_refresh_token_that_is_on_its_way_at_the_end_is_put_away(running, endpoint, tmp_path):  # noqa: F811
    one = running(endpoint.refresh, refresh(tmp_path))
    stop_in_the_middle(one, endpoint)
    assert one.process.poll() is None
    endpoint.gate.set()
    assert finish(one.process, LONG) == 0
    assert state(tmp_path) == endpoint.refresh == "refresh-token-number-1"


def test_one_who_asks_for_the_end_again_gets_it(running, endpoint, tmp_path):  # noqa: F811
    one = running(endpoint.refresh, refresh(tmp_path))
    stop_in_the_middle(one, endpoint)
    fetchers = [pid for pid in children(one.process.pid) if b"fetcher" in command(pid)]
    assert len(fetchers) == 1

    def ended():
        one.process.send_signal(signal.SIGTERM)  # those of one moment are one
        return one.process.poll() is not None

    until("it has ended", ended, LONG, pause=0.1)
    assert "a refresh token that was on its way is lost" in one.stderr()
    assert not os.path.exists(f"/proc/{fetchers[0]}") and not endpoint.gate.is_set()


def test_a_question_of_no_consequence_is_not_waited_for_at_the_end(running, endpoint):  # noqa: F811
    one = running(endpoint.client[1], client())
    begin(one, endpoint).close()
    one.process.terminate()
    assert finish(one.process, LONG) == 0
    assert not endpoint.gate.is_set()
