"""test_sandboxes.py - sandboxes that come and go while the daemon runs."""

import os
import stat

from admin_client import AS_ROOT, GRANTED, STRANGER, ask_as, ctl, samples
import pytest
from harness import Tunnel, until
from sandboxes import add, added, admin, asks, call, clear, files_below, inside, listed, refuses, remove


def test_a_sandbox_that_is_added_is_served_by_its_tenants_rules(daemon):
    one = daemon(admin())
    made = add(one, "sb-1")
    assert made["tenant"] == "acme" and made["id"] == "sb-1" and made["expires"] is None
    assert made["listener"] == made["directory"] + "/s"
    assert asks(one, made) == 200
    assert asks(one, made, host="other.test") == 403
    opened = one.journal(event="open", sandbox="sb-1")
    assert len(opened) == 1 and opened[0]["tenant"] == "acme"
    remove(one, "sb-1")
    assert asks(one, one.socket_path) == 200


def test_an_added_sandbox_goes_with_all_that_it_had(daemon):
    one = daemon(admin())
    made = add(one, "sb-1")
    with Tunnel(inside(one, made), "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        remove(one, "sb-1")
        with pytest.raises(Exception, match="."):
            tunnel.ask("GET", "/test/echo")
    assert refuses(made["listener"])
    assert files_below(os.path.join(one.folder, "adm", "sandboxes")) == []
    assert added(one) == []
    one.settle(daemon.upstreams)


def test_ctl_adds_lists_and_removes(daemon, tmp_path):
    one = daemon(admin())
    path = ctl(one, "sandbox", "add", "--tenant", "acme", "--id", "sb-1", "--ttl", "2h").stdout
    assert path == os.path.join(one.folder, "adm", "sandboxes", "acme", "sb-1", "s") + "\n"
    assert asks(one, path.strip()) == 200
    assert "sb-1" in ctl(one, "sandbox", "ls").stdout
    again = ctl(one, "sandbox", "add", "--tenant", "acme", "--id", "sb-1", expected=1)
    assert 'there is a sandbox "sb-1" of the tenant "acme" already' in again.stderr
    assert ctl(one, "sandbox", "remove", "--tenant", "acme", "--id", "sb-1").stdout == "removed sb-1 of tenant acme\n"
    gone = ctl(one, "sandbox", "remove", "--tenant", "acme", "--id", "sb-1", expected=1)
    assert 'there is no sandbox "sb-1"' in gone.stderr


def test_a_narrowing_only_takes_away(daemon, tmp_path):
    one = daemon(admin())
    rules = tmp_path / "rules.yaml"
    rules.write_text("narrow:\n  - allow: GET https://open.test/test/**\n  - allow: https://other.test\n")
    path = ctl(one, "sandbox", "add", "--tenant", "acme", "--id", "n", "--narrow", str(rules)).stdout.strip()
    assert asks(one, path) == 200
    assert asks(one, path, method="POST") == 403
    assert asks(one, path, host="other.test") == 403  # the tenant's rules do not have it
    listing = add(one, "m", narrow=[{"allow": "https://open.test/test/**"}])
    assert asks(one, listing) == 200
    assert asks(one, listing, path="/else") == 403
    nothing = add(one, "none", narrow=[])
    assert asks(one, nothing) == 403
    assert [(s["id"], s["narrowed"]) for s in listed(one) if s["added"]] == [
        ("n", True), ("m", True), ("none", True)]  # fmt: skip
    clear(one)


def test_its_time_over_it_ends_as_if_removed(daemon):
    one = daemon(admin())
    made = add(one, "sb-1", ttl="1s")
    assert made["expires"]
    with Tunnel(inside(one, made), "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        until("it is over", lambda: added(one) == [])
        with pytest.raises(Exception, match="."):
            tunnel.ask("GET", "/test/echo")
    assert refuses(made["listener"])
    assert files_below(os.path.join(one.folder, "adm", "sandboxes")) == []


def test_no_listener_is_needed_where_there_is_an_admin_socket(daemon):
    one = daemon({**admin(), "listen": None})
    assert listed(one) == []
    assert asks(one, add(one, "sb-1")) == 200
    assert samples(one)["keyhole_sandboxes"] == samples(one)["keyhole_sandboxes_added"] == 1
    clear(one)


@AS_ROOT
def test_who_may_use_a_tenant_adds_its_sandboxes_and_no_others(daemon):
    one = daemon({**admin(allow=[{"user": GRANTED, "tenants": ["dev"]}]),
                  "tenants": {"dev": {"rules": [{"allow": "https://open.test"}]}}})  # fmt: skip
    add(one, "theirs")
    status, content = ask_as(one, GRANTED, "/v1/sandboxes/acme/theirs", "DELETE")
    assert status == 403
    assert ask_as(one, GRANTED, "/v1/sandboxes/nobody/theirs", "DELETE")[0] == 403
    assert ask_as(one, GRANTED, "/v1/sandboxes/dev/theirs", "DELETE")[0] == 404
    assert ask_as(one, STRANGER, "/v1/sandboxes/acme/theirs", "DELETE")[0] == 403
    assert ask_as(one, STRANGER, "/v1/sandboxes", "POST")[0] == 403
    assert added(one) == ["theirs"]
    clear(one)


def test_the_socket_is_its_owners_alone(daemon):
    one = daemon(admin())
    made = add(one, "sb-1")
    assert stat.S_IMODE(os.stat(made["listener"]).st_mode) == 0o600
    other = add(one, "sb-2", mode="0660")
    assert stat.S_IMODE(os.stat(other["listener"]).st_mode) == 0o660
    base = os.path.join(one.folder, "adm", "sandboxes")
    assert [stat.S_IMODE(os.stat(p).st_mode) for p in (base, base + "/acme", base + "/acme/sb-1")] == [
        0o711, 0o711, 0o755]  # fmt: skip
    clear(one)


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "/etc", "../../x", "x" * 300, "a\nb", "a\x00b", "-x", ".x", "ä", "a b"])
def test_an_id_that_is_none_is_refused_and_makes_nothing(daemon, id):
    one = daemon(admin())
    assert add(one, id, expected=400 if "\0" in id else 422)["error"]
    assert not os.path.exists(os.path.join(one.folder, "adm", "sandboxes"))
    assert added(one) == []


@pytest.mark.parametrize(
    ("asked", "status", "says"),
    [
        ({"ttl": "0s"}, 422, "not between"),
        ({"ttl": "-5s"}, 422, "no duration"),
        ({"ttl": "999ms"}, 422, "not between"),
        ({"ttl": "8761h"}, 422, "not between"),
        ({"ttl": "99999999999999999999h"}, 422, "no duration"),
        ({"ttl": "2025-01-01T00:00:00Z"}, 422, "no duration"),
        ({"ttl": 60}, 400, "ttl: expected text"),
        ({"mode": "1777"}, 422, "no octal mode"),
        ({"mode": 384}, 400, "mode: expected text"),
        ({"owner": "root"}, 400, "owner: expected"),
        ({"owner": -1}, 400, "owner: expected"),
        ({"hold": "yes"}, 400, "hold: expected"),
        ({"narow": []}, 400, '"narow": no such member'),
        ({"id": None}, 400, "id: is missing"),
        ({"id": 5}, 400, "id: expected text"),
        ({"tenant": ["acme"]}, 400, "tenant: expected text"),
        ({"tenant": "acmee"}, 404, 'no tenant is called "acmee" (did you mean "acme"?)'),
        ({"tenant": "a/b"}, 422, "tenant"),
        ({"narrow": {"allow": "https://open.test"}}, 400, "narrow: expected a list"),
        ({"narrow": [{"allow": "https://open.test", "credential": "main"}]}, 422, "credential"),
        ({"narrow": [{"allow": "https://open.test", "client_auth": "pass"}]}, 422, "client_auth"),
        ({"narrow": [{"allow": "https://open.test", "limits": {"requests": "1/s"}}]}, 422, "limits"),
        ({"narrow": [{"allow": "nonsense"}]}, 422, "narrow:1:"),
        ({"narrow": [{"use": "npm"}]}, 422, "npm"),
        ({"narrow": "rules: []"}, 422, 'narrow'),
        ({"narrow": "narrow: [" * 50}, 422, "narrow"),
        ({"narrow": [{"allow": f"https://h{i}.test/{'x' * 60}"} for i in range(600)]}, 413, "too long"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused_and_makes_nothing(daemon, asked, status, says):
    one = daemon(admin())
    wish = {"tenant": "acme", "id": "sb-1", **asked}
    answer = call(one, "POST", "/v1/sandboxes", {k: v for k, v in wish.items() if v is not None})
    assert answer[0] == status, answer
    assert says in answer[1]["error"]
    assert not os.path.exists(os.path.join(one.folder, "adm", "sandboxes"))
    assert asks(one, add(one, "sb-1")) == 200
    clear(one)


@pytest.mark.parametrize("content", ['{"tenant":"acme","id":"x","narrow":%s}', '{"tenant":%s}', "%s"])
def test_what_nests_deep_is_refused_and_every_other_tenant_is_served_on(daemon, content):
    one = daemon(admin())
    made = add(one, "sb-1")
    with Tunnel(inside(one, made), "open.test") as tunnel:
        for begin, end in (("[", "]"), ('{"a":[', "]}")):
            for depth in (33, 1000, 2040, 8000):
                nested = begin * depth + end * depth
                status, answer = call(one, "POST", "/v1/sandboxes", raw=(content % nested).encode())
                assert (status, "nests deeper than 32" in answer["error"]) == (400, True), answer
        # The worker is the one that it was.
        assert tunnel.ask("GET", "/test/echo").status == 200
    clear(one)
