"""test_reload.py - SIGHUP: another configuration in force, whole or not at all."""

import copy
import os
import re
import signal
import socket

import pytest
from harness import SECRET, Closed, Tunnel, until

IN_FORCE = "the new configuration is in force"
REFUSED = "nothing changes"


def rules(*list_):
    return {"tenants": {"acme": {"rules": list(list_)}}}


def reload(one, change, says=IN_FORCE):
    """Changes the configuration and waits until the keeper has said what it makes of it."""
    seen = one.stderr().count(says)
    config = copy.deepcopy(one.config)
    change(config)
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until(says, lambda: one.stderr().count(says) > seen)


def only(*list_):
    return lambda config: config["tenants"]["acme"].update(rules=list(list_))


def test_new_rules_hold_for_the_next_request_of_an_open_tunnel(daemon):
    one = daemon()
    pid = one.worker_pid()
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        reload(one, only({"deny": "https://open.test/test/echo"}, {"allow": "https://open.test"}))
        assert tunnel.ask("GET", "/test/echo").status == 403
        assert tunnel.ask("GET", "/else").status != 403
    assert one.worker_pid() == pid, "the worker stays"


def test_mode_and_owner_follow_no_link_that_took_the_sockets_name(daemon, tmp_path):
    one = daemon()
    folder, victim, aside = os.path.dirname(one.socket_path), tmp_path / "victim", one.socket_path + ".aside"
    victim.write_text("not the proxy's", encoding="ascii")
    victim.chmod(0o600)

    def with_mode(mode):
        return lambda config: config["listen"][0].update(mode=mode)

    os.chmod(folder, 0o777)
    reload(one, with_mode("0660"))
    assert os.lstat(one.socket_path).st_mode & 0o777 == 0o660
    os.rename(one.socket_path, aside)
    os.symlink(victim, one.socket_path)
    reload(one, with_mode("0666"))
    assert victim.stat().st_mode & 0o777 == 0o600
    assert "somebody else took the socket's name away" in one.stderr()
    os.unlink(one.socket_path)
    os.rename(aside, one.socket_path)
    reload(one, with_mode("0600"))
    assert os.lstat(one.socket_path).st_mode & 0o777 == 0o600
    # Nor is a link removed at the end.
    one.checked = False
    os.rename(one.socket_path, aside)
    os.symlink(victim, one.socket_path)
    one.stop()
    assert os.path.islink(one.socket_path) and victim.exists()


def test_an_exchange_that_the_new_rules_forbid_ends(daemon):
    one = daemon()
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=1000&ms=50")
        assert tunnel.read_head().status == 200
        tunnel.take_until(b"data:")
        reload(one, only({"allow": "https://auth.test", "client_auth": "pass"}))
        with pytest.raises(Closed):
            while True:
                tunnel.take_until(b"data:")
    until("its close", lambda: one.records_of("/test/sse")[-1].get("reason") == "no_rule")


def test_an_exchange_that_they_allow_goes_on(daemon):
    one = daemon()
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=30&ms=50")
        assert tunnel.read_head().status == 200
        tunnel.take_until(b"data:")
        reload(one, only({"allow": "GET https://open.test"}))
        for _ in range(20):
            tunnel.take_until(b"data:")


def test_an_idle_tunnel_to_a_host_that_is_off_the_list_now_ends(daemon):
    one = daemon()
    with Tunnel(one, "open.test") as idle:
        assert idle.ask("GET", "/test/echo").status == 200
        reload(one, only({"allow": "https://auth.test", "client_auth": "pass"}))
        assert idle.is_closed()


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.update(surprise=1),
        lambda config: config.update(audit={"file": "elsewhere.jsonl"}),
        lambda config: config.update(authority={"certificate": "x.pem", "key": "x.key"}),
        lambda config: config["listen"].append({"unix": "/proc/none/s", "tenant": "acme"}),
        lambda config: config.update(listen=[]),
    ],
    ids=["unknown-key", "journal", "authority", "socket-that-cannot-be", "no-listener"],
)
def test_a_bad_file_changes_nothing_and_is_said_loudly(daemon, change):
    one = daemon()
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        reload(one, change, REFUSED)
        assert tunnel.ask("GET", "/test/echo").status == 200
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_a_new_value_of_a_file_is_used_from_the_reload_on(daemon, mock):
    one = daemon()
    with Tunnel(one, "api.test") as tunnel:
        before = tunnel.ask("GET", "/test/echo").get("x-mock-key")
        one.write_secret("another-value-of-the-key")
        reload(one, lambda config: None)
        assert tunnel.ask("GET", "/test/echo").get("x-mock-key") != before
    one.write_secret(SECRET)


def test_a_value_of_the_environment_outlives_a_reload(daemon):
    one = daemon(
        {"credentials": {"main": {"value": {"env": "KEY_OF_TEST", "file": None}}}},
        env={"KEY_OF_TEST": SECRET},
    )
    with Tunnel(one, "api.test") as tunnel:
        before = tunnel.ask("GET", "/test/echo").get("x-mock-key")
        reload(one, only({"allow": "GET https://api.test", "credential": "main"}))
        assert tunnel.ask("GET", "/test/echo").get("x-mock-key") == before


def test_credentials_that_change_places_never_take_each_others(daemon, mock):
    """An index of the old configuration must not fetch a value of the new one."""
    one = daemon()
    with open(os.path.join(one.folder, "other"), "w", encoding="ascii") as file:
        file.write("a-value-for-auth-test")
    with Tunnel(one, "api.test") as tunnel:
        right = tunnel.ask("GET", "/test/echo").get("x-mock-key")

        def change(config):
            main = config["credentials"].pop("main")
            other = {"value": {"file": "other"}, "header": {"x-api-key": "{}"}, "hosts": ["auth.test"]}
            first_main = "other" in config["credentials"]
            config["credentials"] = {"main": main, "other": other} if first_main else {
                "other": other, "main": main}  # fmt: skip
            config["tenants"]["acme"]["rules"] = [
                {"allow": "https://api.test", "credential": "main"},
                {"allow": "https://auth.test", "credential": "other"},
                {"allow": "https://open.test"},
            ]

        for _ in range(10):
            reload(one, change)
            for _ in range(5):
                answer = tunnel.ask("GET", "/test/echo")
                assert answer.status == 503 or answer.get("x-mock-key") == right


def test_listeners_come_and_go_and_those_that_stay_keep_their_connections(daemon):
    one = daemon()
    other = os.path.join(one.folder, "e", "s")
    with Tunnel(one, "open.test") as stays:
        assert stays.ask("GET", "/test/echo").status == 200
        reload(one, lambda c: c["listen"].append({"unix": "e/s", "tenant": "acme", "sandbox": "two"}))
        first, one.socket_path = one.socket_path, other
        gone = Tunnel(one, "open.test")
        assert gone.ask("GET", "/test/echo").status == 200
        one.socket_path = first
        reload(one, lambda c: c["listen"].pop())
        assert gone.is_closed(), "a listener that is taken away takes its connections along"
        gone.close()
        assert not os.path.exists(other)
        with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(other)
        assert stays.ask("GET", "/test/echo").status == 200


@pytest.mark.skipif(os.getuid() != 0, reason="counting the worker's descriptors needs root")
def test_an_exchange_of_before_keeps_no_listeners(daemon):
    """It holds on to the rules that it was let in under, for hours perhaps: not to descriptors."""
    one = daemon({"worker": {"threads": 2}})
    reload(one, lambda c: c["listen"].extend({"unix": f"e/{n}/s", "tenant": "acme"} for n in range(50)))
    until("they are there", lambda: one.descriptors() > 50)
    few = one.baseline + 50 + 20
    tunnels = []
    try:
        for n in range(4):
            tunnels.append(Tunnel(one, "open.test"))
            tunnels[-1].start("GET", "/test/sse?n=1000&ms=20")
            assert tunnels[-1].read_head().status == 200
            reload(one, lambda c, n=n: c["tenants"]["acme"]["rules"].append({"allow": f"https://x{n}.test"}))
            until("those of before are closed", lambda: one.descriptors() < few)
        for n in (0, 49):
            first, one.socket_path = one.socket_path, os.path.join(one.folder, "e", str(n), "s")
            with Tunnel(one, "open.test") as tunnel:
                assert tunnel.ask("GET", "/test/echo").status == 200
            one.socket_path = first
        assert all(tunnel.take(5) for tunnel in tunnels), "they still run"
    finally:
        for tunnel in tunnels:
            tunnel.close()
    reload(one, lambda c: c.update(listen=c["listen"][:1]))


def test_a_worker_that_dies_after_a_reload_comes_back_under_the_new_rules(daemon):
    one = daemon()
    reload(one, only({"allow": "https://open.test/only"}))
    pid = one.worker_pid()
    os.kill(pid, signal.SIGKILL)
    until("a new worker", lambda: one.worker_pid() not in (None, pid))
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 403


def test_fifty_reloads_under_load_drop_nothing(daemon):
    one = daemon()
    with Tunnel(one, "open.test") as tunnel:
        for i in range(50):
            tunnel.start("GET", "/test/echo")
            reload(one, only({"allow": "https://open.test"}, {"allow": f"https://n{i}.test"}))
            assert tunnel.response().status == 200


def test_a_bad_rule_changes_nothing_and_its_place_is_in_the_log(daemon):
    one = daemon()
    reload(one, only({"allow": "https://open.test"}, {"allow": "https://*.co.uk"}), REFUSED)
    assert re.search(r"keyhole\.yaml:\d+:\d+: error: host \"\*\.co\.uk\"", one.stderr())
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200, "the rule that the bad file left out is still there"
