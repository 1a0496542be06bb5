"""tenants.*.resolve: a name that is pinned for one tenant leads nowhere for another one."""

import json

from harness import Tunnel
from test_check import check


def two_tenants(mock, name, site=None):
    """Both tenants may reach any name by rule; `name` is pinned for acme alone."""
    rules = [{"allow": "https://**"}]
    return {
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}, {"unix": "e/s", "tenant": "other", "mode": "0660"}],
        "upstream": {"resolve": site, "nameservers": ["127.0.0.1:9"]},
        "tenants": {
            "acme": {"rules": rules, "resolve": {name: mock.address}},
            "other": {"rules": rules},
        },
    }


def status(daemon, socket, host):
    daemon.socket_path = daemon.socket_path[: -len("d/s")] + socket
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask("GET", "/test/echo").status


def test_a_tenants_pin_is_not_reached_by_another_tenants_wildcard(daemon, mock):
    one = daemon(two_tenants(mock, "open.test"))
    mark = mock.mark()
    assert status(one, "e/s", "open.test") in (502, 504)
    assert mock.requests(since=mark) == []
    assert status(one, "d/s", "open.test") == 200


def test_a_tenants_pin_comes_before_the_sites(daemon, mock):
    site = {"open.test": "127.0.0.1:9", "api.test": mock.address}
    one = daemon(two_tenants(mock, "open.test", site))
    assert status(one, "d/s", "open.test") == 200
    assert status(one, "d/s", "api.test") == 200  # the site's pins hold for everybody
    assert status(one, "e/s", "open.test") == 502


def test_check_names_a_site_wide_pin_that_a_wildcard_reaches(tmp_path):
    text = json.dumps({
        "version": 1,
        "upstream": {"resolve": {"db.internal.example": "10.0.0.7:443"}},
        "tenants": {
            "exact": {"rules": [{"allow": "https://db.internal.example"}]},
            "wide": {"rules": [{"allow": "https://**"}]},
        },
    })  # fmt: skip
    code, out, err = check(tmp_path, text)
    assert code == 0
    assert 'tenant "wide" reaches "db.internal.example" by the wildcard of its rule' in out + err
    scoped = json.loads(text)
    scoped["tenants"]["exact"]["resolve"] = scoped.pop("upstream")["resolve"]
    code, out, err = check(tmp_path, json.dumps(scoped))
    assert code == 0 and "wildcard" not in out + err
