"""`credential: [ a, b ]`: the first that has a value; of a command that is known when it has run."""

import copy
import os
import signal

from harness import SECRET, Tunnel, until
from test_reload_grants import goes_on, stream
from test_sources import COMMON, OTHER, put, real, script, told


def alternatives(argv, **more):
    return {
        "credentials": {"first": {"value": {"exec": argv, **more}, **COMMON}},
        "tenants": {"acme": {"rules": [{"allow": "https://api.test", "credential": ["first", "main"]}]}},
    }


def test_a_command_that_is_not_there_is_passed_over(daemon):
    one = daemon(alternatives(["/nowhere/at/all"]))
    assert told(one) == (200, real(SECRET)), "from the first request on"
    assert "credential first has no value: rules that name others beside it choose anew" in one.stderr()


def test_who_waits_for_a_command_that_fails_gets_the_next(daemon, tmp_path):
    go = tmp_path / "go"
    command = script(tmp_path, f"while ! test -e {go}; do sleep 0.05; done; exit 4")
    one = daemon(alternatives([command]))
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        go.write_text("")
        answer = tunnel.response()
    assert answer.status == 200
    assert [v for n, v in answer.json()["fields"] if n.lower() == "x-api-key"] == [real(SECRET)]


def test_a_command_that_works_later_is_taken_from_then_on(daemon, tmp_path):
    flag = tmp_path / "logged-in"
    one = daemon(alternatives([script(tmp_path, f"test -e {flag} && echo {OTHER}")]))
    assert told(one) == (200, real(SECRET))
    flag.write_text("")
    until("it is tried again", lambda: told(one) == (200, OTHER), 60)


def test_a_command_that_has_had_a_value_is_not_passed_over(daemon, tmp_path):
    """Another identity is not what a rule goes on to because one can't be renewed."""
    flag = tmp_path / "fails"
    command = script(tmp_path, f"test -e {flag} && exit 7; echo {OTHER}")
    one = daemon(alternatives([command], refresh="1s", max_age="2s"))
    assert told(one) == (200, OTHER)
    flag.write_text("")

    def refused():
        status, text = told(one)
        assert (status, text) == (200, OTHER) or (status == 503 and "first" in text)
        return status == 503

    until("it has ended", refused, 60)


def test_a_reload_leaves_the_choice_as_it_is(daemon):
    one = daemon(alternatives(["/nowhere/at/all"]))
    assert told(one) == (200, real(SECRET))
    config, seen = copy.deepcopy(one.config), one.stderr().count("the new configuration is in force")
    config["tenants"]["acme"]["rules"].insert(0, {"deny": "https://none.test"})
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: one.stderr().count("the new configuration is in force") > seen)
    assert told(one) == (200, real(SECRET))


def test_a_file_that_comes_later_is_taken_from_then_on(daemon, tmp_path):
    path = tmp_path / "value"
    config = alternatives([])
    config["credentials"]["first"]["value"] = {"file": str(path)}
    one = daemon(config)
    assert told(one) == (200, real(SECRET))
    put(str(path) + ".new", OTHER)
    os.rename(str(path) + ".new", path)
    until("it is taken", lambda: told(one) == (200, OTHER), 60)


def test_what_went_up_with_another_goes_on_when_the_first_has_a_value(daemon, tmp_path):
    path = tmp_path / "value"
    config = alternatives([])
    config["credentials"]["first"]["value"] = {"file": str(path)}
    one = daemon(config)
    with stream(one, "api.test") as tunnel:
        put(str(path) + ".new", OTHER)
        os.rename(str(path) + ".new", path)
        until("it is taken", lambda: told(one) == (200, OTHER))
        assert goes_on(tunnel)
