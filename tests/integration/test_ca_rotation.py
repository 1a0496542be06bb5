"""The CA is changed under a running daemon: each step is a reload, and what stands goes on."""

import os
import shutil
import ssl
import threading

from admin_client import ctl
import pytest
from harness import Tunnel
from sandboxes import add, admin, inside, remove
from test_base_url import origin_form
from test_ca import age, ca, certificates

HOSTS = ["api.test", "open.test", "other.test", "a.wild.test"]
KEPT = {"credentials": {"main": {"placeholder": {"env": "MAIN_KEY"}, "require_placeholder": True}}, **admin()}


@pytest.fixture
def one(daemon):
    return daemon(KEPT, rules=[{"allow": "https://api.test", "credential": "main"},
                               *({"allow": f"https://{host}"} for host in HOSTS[1:])])  # fmt: skip


def path(one, name):
    return os.path.join(one.folder, name)


def rotate(one, *more):
    """The next step, and the daemon takes it."""
    said = ca("rotate", "-c", one.config_path, *more)
    assert "reload" in said.lower() and "restart" not in said.lower()
    return ctl(one, "reload").stdout


def bundle(one):
    return origin_form(one, "/ca.pem").text()


def store(one, name, text):
    """A client's trust store, which stays as it is whatever becomes of the daemon's files."""
    with open(path(one, name), "w", encoding="ascii") as file:
        file.write(text)
    return path(one, name)


def env(one):
    return origin_form(one, "/env", [("Accept", "application/json")]).json()["MAIN_KEY"]


class As:
    """The daemon as a client with this trust store sees it."""

    def __init__(self, one, trusts):
        self.socket_path, self.ca = one.socket_path, trusts

    def leaf(self, host="open.test"):
        with Tunnel(self, host) as tunnel:
            assert tunnel.ask("GET", "/test/echo").status == 200
            return tunnel.sock.getpeercert()

    def issuer(self):
        return dict(part[0] for part in self.leaf()["issuer"])["commonName"]

    def refuses(self):
        with pytest.raises(ssl.SSLCertVerificationError):
            self.leaf()
        return True

    def holds(self, placeholder):
        with Tunnel(self, "api.test") as tunnel:
            return tunnel.ask("GET", "/test/echo", [("x-api-key", placeholder)]).status == 200


def test_each_step_is_a_reload_and_nothing_that_stands_ends(one):
    worker = one.worker_pid()
    old = As(one, store(one, "old", bundle(one)))
    first, before = old.issuer(), env(one)
    with Tunnel(one, "api.test") as kept:
        def goes_on(held=before):
            assert kept.ask("GET", "/test/echo", [("x-api-key", held)]).status == 200

        goes_on()
        said = rotate(one)
        assert "signs" not in said
        both = As(one, store(one, "both", bundle(one)))
        new = As(one, store(one, "new", ca("bundle", "-c", one.config_path, "--which", "next")))
        assert len(certificates(bundle(one))) == 2
        assert old.issuer() == both.issuer() == first and new.refuses()
        between = env(one)
        assert between != before
        assert both.holds(before) and both.holds(between)
        goes_on()

        said = rotate(one)
        second = new.issuer()
        assert f"the CA {second} signs" in said and "warning" not in said
        assert both.issuer() == second != first and old.refuses()
        assert certificates(bundle(one)) == certificates(ca("bundle", "-c", one.config_path))
        assert len(certificates(bundle(one))) == 2
        assert both.holds(before) and both.holds(between) and env(one) == between
        goes_on()
        goes_on(between)

        age(one.ca + ".old", 31)
        rotate(one)
        assert bundle(one) == (open(one.ca, encoding="ascii")).read()
        assert both.issuer() == new.issuer() == second and old.refuses()
        assert both.holds(before), "known by the daemon that was there when it was drawn"
        goes_on()
    assert one.worker_pid() == worker


def test_placeholders_from_before_are_known_by_the_next_daemon_too_until_the_old_ca_goes(one):
    before = env(one)
    rotate(one)
    rotate(one)
    kept = path(one, "ca.key.placeholders")
    assert os.stat(kept).st_mode & 0o777 == 0o600
    one.stop()
    one.start()
    here = As(one, one.ca)
    assert here.holds(before) and here.holds(env(one))
    age(one.ca + ".old", 31)
    rotate(one)
    assert not os.path.exists(kept)
    one.stop()
    one.start()
    assert not here.holds(before) and here.holds(env(one))


def test_what_was_kept_of_the_old_key_and_is_damaged_is_said(one):
    rotate(one)
    rotate(one)
    with open(path(one, "ca.key.placeholders"), "w", encoding="ascii") as file:
        file.write("0123\n")
    assert "ca.key.placeholders is not as it was written" in ctl(one, "reload", expected=1).stderr
    os.unlink(path(one, "ca.key.placeholders"))
    ctl(one, "reload")


def test_a_sandbox_that_is_added_meanwhile_trusts_both_and_holds_what_is_known_later(one):
    rotate(one)
    added = add(one, "sb-1")
    assert len(certificates(added["ca"])) == 2
    there = inside(one, added)
    there.ca = store(one, "added", added["ca"])
    held = added["env"]["MAIN_KEY"]
    for _ in range(2):
        with Tunnel(there, "api.test") as tunnel:
            assert tunnel.ask("GET", "/test/echo", [("x-api-key", held)]).status == 200
        if os.path.exists(one.ca + ".next"):
            rotate(one)
    remove(one, "sb-1")


def test_at_once_says_whom_it_breaks(one):
    old = As(one, store(one, "old", bundle(one)))
    before = env(one)
    said = rotate(one, "--now")
    assert "signs from now on" in said and "until they are started anew" in said
    assert old.refuses() and len(certificates(bundle(one))) == 1
    new = As(one, store(one, "new", bundle(one)))
    assert new.holds(before), "one that fetched the bundle goes on with the placeholder that it holds"


def test_a_reload_that_changes_no_ca_keeps_the_leaves(one):
    here = As(one, one.ca)
    serial = here.leaf()["serialNumber"]
    ctl(one, "reload")
    assert here.leaf()["serialNumber"] == serial
    rotate(one)
    assert here.leaf()["serialNumber"] == serial, "what only comes to be trusted signs nothing yet"
    both = As(one, store(one, "both", bundle(one)))
    rotate(one)
    assert both.leaf()["serialNumber"] != serial


def other_pair(one):
    files = path(one, "other.pem"), path(one, "other.key")
    if not os.path.exists(files[0]):
        ca("init", "--certificate", files[0], "--key", files[1])
    return files


def put(name):
    def change(one):
        shutil.copy(other_pair(one)[name == "ca.key"], path(one, name))

    return change


def garbage(one):
    with open(one.ca, "w", encoding="ascii") as file:
        file.write("no certificate\n")


BAD = {
    "another key": (put("ca.key"), "is not the one of the certificate"),
    "another certificate": (put("ca.pem"), "is not the one of the certificate"),
    "garbage": (garbage, "contains no certificate in PEM"),
    "no key": (lambda one: os.unlink(path(one, "ca.key")), "ca.key is not (restore it"),
    "neither": (lambda one: [os.unlink(path(one, n)) for n in ("ca.pem", "ca.key")], "neither"),
    "a key for all to read": (lambda one: os.chmod(path(one, "ca.key"), 0o644), "is open to others"),
}


@pytest.mark.parametrize("change, says", BAD.values(), ids=BAD)
def test_a_bad_ca_leaves_the_one_in_force(one, change, says):
    kept = {name: open(path(one, name), "rb").read() for name in ("ca.pem", "ca.key")}
    here = As(one, store(one, "mine", bundle(one)))
    serial, held = here.leaf()["serialNumber"], env(one)
    change(one)
    assert says in ctl(one, "reload", expected=1).stderr
    assert certificates(bundle(one)) == certificates(kept["ca.pem"].decode())
    assert here.leaf()["serialNumber"] == serial and here.holds(held)
    assert here.leaf("other.test")["issuer"] == here.leaf()["issuer"], "it signs still"
    for name, content in kept.items():
        with open(path(one, name), "wb") as file:
            file.write(content)
        os.chmod(path(one, name), 0o600)
    ctl(one, "reload")
    assert here.leaf()["serialNumber"] == serial


def test_a_pair_of_your_own_in_place_of_ours(one):
    """Put there by hand: with the one before beside it as the old one, both are trusted."""
    before = env(one)
    first = bundle(one)
    shutil.copy(one.ca, one.ca + ".old")
    for name in ("ca.pem", "ca.key"):
        put(name)(one)
    said = ctl(one, "reload").stdout
    assert "until they are started anew" in said, "nobody had been given it"
    assert set(certificates(bundle(one))) == set(certificates(first) + certificates(open(one.ca, encoding="ascii").read()))
    assert As(one, store(one, "both", bundle(one))).holds(before)


def test_no_handshake_fails_while_it_is_changed(one):
    """Clients that fetch the bundle as they start, on several hosts, never resumed."""
    rotate(one)
    both = As(one, store(one, "both", bundle(one)))
    over = threading.Event()
    counts, failures, issuers = [0] * len(HOSTS), [], [set() for _ in HOSTS]

    def client(i):
        while not over.is_set() and not failures:
            try:
                with Tunnel(both, HOSTS[i]) as tunnel:
                    issuers[i].add(tunnel.sock.getpeercert()["issuer"])
                counts[i] += 1
            except Exception as error:
                failures.append((HOSTS[i], error))

    def all_went_on():
        target = [n + 3 for n in counts]
        while not failures and any(n < most for n, most in zip(counts, target, strict=True)):
            over.wait(0.001)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(len(HOSTS))]
    for thread in threads:
        thread.start()
    try:
        all_went_on()
        rotate(one)
        all_went_on()
        ctl(one, "reload")
        all_went_on()
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures
    assert all(len(seen) == 2 for seen in issuers), "each saw both CAs"
