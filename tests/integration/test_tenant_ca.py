"""authority.per_tenant: a sandbox trusts its own tenant's CA alone, and is shown that one's leaves."""

import os
import shutil
import signal
import ssl

from admin_client import ctl
import pytest
from daemons import base_config, merge
from harness import Tunnel, until
from sandboxes import add, admin, clear, inside
from test_base_url import origin_form
from test_ca import ca, certificates
from test_ca_rotation import As

RULES = {"rules": [{"allow": "https://api.test"}, {"allow": "https://open.test"}]}


def two_tenants(mock, **more):
    config = merge(base_config(mock), {"authority": {"per_tenant": True}, **admin(), **more})
    config["listen"] = [{"unix": "d/s", "tenant": "acme"}, {"unix": "d/b", "tenant": "beta"}]
    config["tenants"] = {"acme": RULES, "beta": RULES}
    config["credentials"] = {"main": {"value": {"file": "secret"}, "header": {"x-api-key": "{}"},
                                      "hosts": ["api.test"], "placeholder": {"env": "MAIN_KEY"}}}  # fmt: skip
    config["tenants"]["acme"]["rules"][0] = {"allow": "https://api.test", "credential": "main"}
    return config


@pytest.fixture
def one(daemon, mock):
    made = daemon(config=two_tenants(mock))
    yield made
    clear(made)


def at(one, name):
    return os.path.join(one.folder, name)


def bundle(one, tenant):
    """What the tenant's CA is, from its files, in a trust store that stays as it is."""
    name = at(one, f"{tenant}.trusted")
    if not os.path.exists(name):
        shutil.copy(at(one, f"ca.key.tenants/{tenant}.pem"), name)
    return name


def seen_from(one, acceptor, tenant):
    """A client at that listener which trusts that tenant's CA alone."""
    there = As(one, bundle(one, tenant))
    there.socket_path = at(one, acceptor)
    return there


def holds_apart(one, first="d/s", second="d/b"):
    a, b = seen_from(one, first, "acme").issuer(), seen_from(one, second, "beta").issuer()
    assert a != b
    assert seen_from(one, first, "beta").refuses() and seen_from(one, second, "acme").refuses()
    return a, b


def test_a_tenants_sandbox_refuses_what_another_tenants_ca_signed(one):
    signers = holds_apart(one)
    assert holds_apart(one) == signers, "from the cache of leaves too"
    for host in ("open.test", "not-allowed.test"):
        with pytest.raises(ssl.SSLCertVerificationError), Tunnel(seen_from(one, "d/s", "beta"), host):
            pass
    main = As(one, one.ca)
    assert main.refuses(), "the CA that the configuration names signs nothing"


def test_each_bundle_holds_the_tenants_own_ca_alone(one):
    for tenant, acceptor in (("acme", "d/s"), ("beta", "d/b")):
        own = open(bundle(one, tenant), encoding="ascii").read()
        assert certificates(ca("bundle", "-c", one.config_path, "--tenant", tenant)) == certificates(own)
        assert certificates(add(one, f"sb-{tenant}", tenant)["ca"]) == certificates(own)
        there = seen_from(one, acceptor, tenant)
        assert certificates(origin_form(there, "/ca.pem").text()) == certificates(own)
        key = at(one, f"ca.key.tenants/{tenant}.key")
        assert os.stat(key).st_mode & 0o777 == 0o600
    assert os.stat(at(one, "ca.key.tenants")).st_mode & 0o777 == 0o700


def test_sandboxes_that_come_meanwhile_are_held_apart_too(one):
    a, b = inside(one, add(one, "g-a", "acme")), inside(one, add(one, "g-b", "beta"))
    holds_apart(one, os.path.relpath(a.socket_path, one.folder), os.path.relpath(b.socket_path, one.folder))


def test_the_next_worker_and_the_next_daemon_show_the_same(one):
    signers = holds_apart(one)
    worker = one.worker_pid()
    os.kill(worker, signal.SIGKILL)
    until("another worker", lambda: one.worker_pid() not in (None, worker))
    assert holds_apart(one) == signers
    one.stop()
    one.start()
    assert holds_apart(one) == signers


def test_a_reload_brings_a_tenant_and_mixes_nobody_up(one):
    signers = holds_apart(one)
    config = one.config
    # In front: the others' places in the list are other ones now.
    config["tenants"] = {"aaa": RULES, "beta": config["tenants"]["beta"], "acme": config["tenants"]["acme"]}
    config["listen"].insert(0, {"unix": "d/c", "tenant": "aaa"})
    one.write(config)
    ctl(one, "reload")
    assert holds_apart(one) == signers
    assert seen_from(one, "d/c", "aaa").issuer() not in signers
    assert seen_from(one, "d/c", "acme").refuses()
    # A listener that goes to another tenant shows that one's.
    config["listen"][0]["tenant"] = "beta"
    del config["tenants"]["aaa"], config["listen"][2]
    one.write(config)
    ctl(one, "reload")
    assert holds_apart(one, second="d/c") == signers


def test_one_tenants_ca_is_changed_and_the_others_stay(one):
    signers = holds_apart(one)
    holds = origin_form(one, "/env", [("Accept", "application/json")]).json()["MAIN_KEY"]
    for _ in range(2):
        ca("rotate", "-c", one.config_path, "--tenant", "acme")
        said = ctl(one, "reload").stdout
    assert "signs for tenant acme from now on" in said and "beta" not in said
    assert seen_from(one, "d/b", "beta").issuer() == signers[1]
    assert seen_from(one, "d/s", "acme").refuses(), "its key is not the old one"
    os.unlink(bundle(one, "acme"))
    assert holds_apart(one) != signers
    assert len(certificates(add(one, "sb-1", "acme")["ca"])) == 2
    assert len(certificates(add(one, "sb-1", "beta")["ca"])) == 1
    assert origin_form(one, "/env", [("Accept", "application/json")]).json()["MAIN_KEY"] == holds


def test_a_ca_that_is_gone_or_switched_off_leaves_what_is_in_force(one):
    signers = holds_apart(one)
    os.rename(at(one, "ca.key.tenants/beta.pem"), at(one, "kept.pem"))
    assert "beta.pem" in ctl(one, "reload", expected=1).stderr
    os.rename(at(one, "kept.pem"), at(one, "ca.key.tenants/beta.pem"))
    one.config["authority"]["per_tenant"] = False
    one.write(one.config)
    assert "authority can't change" in ctl(one, "reload", expected=1).stderr
    assert holds_apart(one) == signers


def test_keyhole_ca_asks_whose_it_is(one):
    where = ["-c", one.config_path]
    for command in ("init", "show", "bundle", "rotate"):
        assert "--tenant NAME" in ca(command, *where, status=1)
    assert "no such tenant" in ca("show", *where, "--tenant", "gamma", status=1)
    assert "-c" in ca("show", "--certificate", one.ca, "--tenant", "acme", status=2)
    assert seen_from(one, "d/s", "acme").issuer() in ca("show", *where, "--tenant", "acme")


def test_without_files_each_has_one_for_the_daemons_life(daemon, mock):
    config = two_tenants(mock)
    config["authority"] = {"per_tenant": True}
    one = daemon(config=config)

    def fetch(acceptor, tenant):
        there = As(one, None)
        there.socket_path = at(one, acceptor)
        with open(at(one, f"{tenant}.trusted"), "w", encoding="ascii") as file:
            file.write(origin_form(there, "/ca.pem").text())

    fetch("d/s", "acme")
    fetch("d/b", "beta")
    signers = holds_apart(one)
    ctl(one, "reload")
    assert holds_apart(one) == signers


def test_a_handover_keeps_them_and_refuses_another(upgradable, mock):
    one = upgradable(two_tenants(mock))
    signers = holds_apart(one)
    one.hand_over()
    one.last_ended()
    assert holds_apart(one) == signers
    for _ in range(2):
        ca("rotate", "-c", one.config_path, "--tenant", "beta")
    since = one.mark()
    one.usr2()
    one.said("a tenant's CA is not the one in use", since)
    assert holds_apart(one) == signers
