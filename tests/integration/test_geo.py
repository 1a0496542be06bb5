"""Geography: an address is dialled only where site, tenant and rule let it lie."""

import copy
import json
import os
import signal
import socket
import subprocess
import threading

import mmdb
import pytest
from connect_proxy import ConnectProxy
from daemons import base_config
from harness import KEYHOLE, Closed, Daemon, Refused, Tunnel, until
from mmdb import country, network

HOME, AWAY = "DE", "XX"
IN_FORCE = "the new configuration is in force"


class Databases:
    def __init__(self, folder):
        self.country, self.asn = str(folder / "country.mmdb"), str(folder / "asn.mmdb")
        self.lie(HOME, 64500)

    def lie(self, code, number, others=None):
        """127.0.0.1 lies there from now on; 127.2.0.0/16 in AWAY."""
        away = {"127.2.0.0/16": country(AWAY), "::1/128": country(AWAY), **(others or {})}
        mmdb.write(self.country, {**away, **({"127.0.0.0/16": country(code)} if code else {})})
        mmdb.write(self.asn, {"127.2.0.0/16": network(64666),
                              **({"127.0.0.0/16": network(number)} if number else {})})  # fmt: skip

    @property
    def option(self):
        return {"country_db": self.country, "asn_db": self.asn}


@pytest.fixture
def databases(tmp_path):
    return Databases(tmp_path)


@pytest.fixture
def start(daemon, databases):
    """start(site=…, tenant=…, rules=…): a daemon with these lists and both databases."""

    def make(site=None, tenant=None, rules=None, upstream=None, site_rules=None):
        above = {k: v for k, v in (("geo", site), ("rules", site_rules)) if v}
        return daemon(
            {"upstream": {"geo": databases.option, **(upstream or {})}, "log": {"level": "debug"},
             "tenants": {"acme": {"geo": tenant} if tenant else {}}, "site": above or None},
            rules=rules or [{"allow": "https://open.test"}],
        )  # fmt: skip

    return make


def get(one, path="/test/echo", host="open.test", **how):
    with Tunnel(one, host, **how) as tunnel:
        return tunnel.ask("GET", path)


def get_at(one, port):
    with Tunnel(one, "open.test", port=port) as tunnel:
        return tunnel.ask("GET", "/test/echo", host=f"open.test:{port}")


def end_of(one, path="/test/echo"):
    return until("its end", lambda: [r for r in one.records_of(path) if r["event"] == "close"])[-1]


def refused(answer):
    assert answer.status == 403, answer
    assert "destination_ip_prohibited" in answer.get("proxy-status")
    assert answer.json()["keyhole"]["reason"] == "geo_prohibited"


# --- the decision ---------------------------------------------------------------------------------


def test_where_an_address_lies_stands_in_the_journal(start):
    one = start()
    assert get(one).status == 200
    close = end_of(one)
    assert close["geo.country.iso_code"] == HOME and close["as.number"] == 64500
    shown = subprocess.run([KEYHOLE, "audit", "show", one.journal_path], capture_output=True,
                           text=True, timeout=20, check=True).stdout  # fmt: skip
    assert f"in {HOME}  AS64500" in shown


DENYING = [
    {"deny_countries": [HOME]},
    {"allow_countries": [AWAY, "FR"]},
    {"deny_asns": [64500]},
    {"deny_asns": ["AS64500", 1]},
    {"allow_asns": [64666]},
    {"allow_countries": [HOME], "deny_asns": [64500]},
    {"allow_asns": [64500], "deny_countries": [HOME], "unknown": "allow"},
]


@pytest.mark.parametrize("lists", DENYING, ids=str)
def test_an_address_that_a_list_denies_is_not_dialled(start, mock, lists):
    one = start(tenant=lists)
    mark = mock.mark()
    refused(get(one))
    assert not mock.events(since=mark)
    end = end_of(one)
    assert end["reason"] == "geo_prohibited" and HOME in end["detail"]
    assert "network.peer.address" not in end


@pytest.mark.parametrize("level", ["site", "tenant", "site's rule", "rule"])
def test_what_one_level_denies_no_other_allows(start, mock, level):
    deny, allow = {"deny_countries": [HOME]}, {"allow_countries": [HOME]}
    lists = {name: deny if name == level else allow for name in ["site", "tenant", "site's rule", "rule"]}
    one = start(site=lists["site"], tenant=lists["tenant"],
                site_rules=[{"allow": "https://**", "geo": lists["site's rule"]}],
                rules=[{"allow": "https://open.test", "geo": lists["rule"]}])  # fmt: skip
    mark = mock.mark()
    refused(get(one))
    assert not mock.events(since=mark)
    assert level.split("'")[0] in end_of(one)["detail"]


def test_what_all_levels_allow_goes_through(start):
    allow = {"allow_countries": [HOME], "allow_asns": [64500], "deny_countries": [AWAY]}
    one = start(site=allow, tenant=allow, site_rules=[{"allow": "https://**", "geo": allow}],
                rules=[{"allow": "https://open.test", "geo": allow}])  # fmt: skip
    assert get(one).status == 200


@pytest.mark.parametrize(
    "lists, passes",
    [
        ({"allow_countries": [HOME]}, False),
        ({"allow_asns": [64500]}, False),
        ({"deny_countries": [AWAY]}, True),
        ({"deny_asns": [64666]}, True),
        ({"deny_countries": [AWAY], "unknown": "deny"}, False),
        ({"deny_asns": [64666], "unknown": "deny"}, False),
        ({"allow_countries": [HOME], "unknown": "allow"}, True),
        ({"allow_countries": [HOME], "allow_asns": [64500], "unknown": "allow"}, True),
    ],
    ids=str,
)
def test_an_address_that_no_database_knows(start, databases, lists, passes):
    databases.lie(None, None)
    answer = get(start(tenant=lists))
    if passes:
        assert answer.status == 200
    else:
        refused(answer)


def test_a_damaged_record_is_a_denial_and_nothing_else(start, databases):
    # Beside a record that is sound: its country points far behind the end of the file.
    damaged = {"country": {"iso_code": b"\x27\xff"}}
    mmdb.write(databases.country, {"1.0.0.0/24": country("AU"), "127.0.0.0/16": damaged})
    one = start(tenant={"deny_countries": [AWAY], "unknown": "allow"},
                rules=[{"allow": "https://open.test"}])  # fmt: skip
    refused(get(one))
    assert "damaged" in end_of(one)["detail"]


def test_a_damaged_record_matters_only_where_it_is_asked_for(start, databases):
    damaged = {"country": {"iso_code": b"\x27\xff"}}
    mmdb.write(databases.country, {"1.0.0.0/24": country("AU"), "127.0.0.0/16": damaged})
    one = start()
    assert get(one).status == 200
    assert "geo.country.iso_code" not in end_of(one)


class Listener:
    """Counts who connects to an address where nobody may."""

    def __init__(self, address, port):
        self.came = 0
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sock = socket.create_server((address, port), family=family)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                self.sock.accept()[0].close()
                self.came += 1
            except OSError:
                return

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


def test_of_a_names_addresses_only_those_that_may_be_are_dialled(start, fake_dns, mock):
    """The forbidden one comes first, and is there."""
    trap = Listener("127.2.0.1", mock.port)
    fake_dns.names["open.test"] = ["127.2.0.1", "127.0.0.1"]
    one = start(tenant={"deny_countries": [AWAY]},
                rules=[{"allow": f"https://open.test:{mock.port}"}],
                upstream={"resolve": None, "nameservers": [fake_dns.address],
                          "allow_addresses": ["127.0.0.0/8"]})  # fmt: skip
    try:
        assert get_at(one, mock.port).status == 200
        assert trap.came == 0
        assert end_of(one)["geo.country.iso_code"] == HOME
    finally:
        trap.close()


def test_a_name_that_moves_abroad_between_two_answers_is_refused(start, fake_dns, mock):
    trap = Listener("127.2.0.1", mock.port)
    fake_dns.names["open.test"] = ["127.0.0.1"]
    one = start(tenant={"allow_countries": [HOME]},
                rules=[{"allow": f"https://open.test:{mock.port}"}],
                upstream={"resolve": None, "nameservers": [fake_dns.address],
                          "allow_addresses": ["127.0.0.0/8"]})  # fmt: skip
    try:
        assert get_at(one, mock.port).status == 200
        fake_dns.names["open.test"] = ["127.2.0.1"]

        def is_refused():
            mock.close_idle()
            return get_at(one, mock.port).status == 403

        until("the new answer is asked for", is_refused)
        assert trap.came == 0
    finally:
        trap.close()


@pytest.mark.parametrize("alpn", [["http/1.1"], ["h2", "http/1.1"]], ids=["h1", "h2"])
def test_a_connection_dialled_under_no_lists_is_not_lent_where_some_hold(start, mock, alpn):
    """Both rules lead to the same host; only what the second allows has to lie elsewhere."""
    one = start(rules=[{"allow": "https://open.test/test/**"},
                       {"allow": "https://open.test/**", "geo": {"deny_countries": [HOME]}}],
                upstream={"http2": "h2" in alpn})  # fmt: skip
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        mark = mock.mark()
        refused(tunnel.ask("GET", "/elsewhere"))
        assert not mock.events("request", since=mark)
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_a_tunnel_that_nobody_reads_is_judged_too(start, mock):
    one = start(rules=[{"allow": "tcp://open.test:443", "geo": {"deny_asns": [64500]}}])
    mark = mock.mark()
    with pytest.raises(Refused) as tunnel:
        get(one)
    refused(tunnel.value.response)
    assert not mock.events(since=mark)


# --- databases that change ------------------------------------------------------------------------


def hang_up(one, says=IN_FORCE):
    seen = one.stderr().count(says)
    one.process.send_signal(signal.SIGHUP)
    until(says, lambda: one.stderr().count(says) > seen)


def becomes(one, status, **how):
    def is_there():
        try:
            return get(one, **how).status == status
        except (OSError, Closed):
            return False

    until(f"status {status}", is_there)


def test_another_database_holds_for_what_runs_and_what_comes(start, databases):
    one = start(rules=[{"allow": "https://open.test", "geo": {"deny_countries": [AWAY]}},
                       {"allow": "https://auth.test"}])  # fmt: skip
    pid = one.worker_pid()
    with Tunnel(one, "open.test") as leaves, Tunnel(one, "auth.test") as stays:
        for tunnel in (leaves, stays):
            tunnel.start("GET", "/test/sse?n=1000&ms=20")
            assert tunnel.read_head().status == 200
            tunnel.take_until(b"data:")
        databases.lie(AWAY, 64500)
        hang_up(one)
        with pytest.raises(Closed):
            while True:
                leaves.take_until(b"data:")
        for _ in range(20):
            stays.take_until(b"data:")
        becomes(one, 403)
        databases.lie("FR", 64500)
        hang_up(one)
        becomes(one, 200)
        for _ in range(20):
            stays.take_until(b"data:")
    assert one.worker_pid() == pid, "the worker stays"


def test_a_database_that_is_replaced_is_taken_without_being_told(start, databases):
    one = start(tenant={"deny_countries": [AWAY]})
    with Tunnel(one, "open.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
        pid = one.worker_pid()
        databases.lie(AWAY, 64500)
        until("the keeper has seen it", lambda: "has changed: the new one is in force" in one.stderr(), 25)
        becomes(one, 403)
        # Each event thread takes the new one for itself.
        until("also in a tunnel that is open", lambda: tunnel.ask("GET", "/test/echo").status == 403)
    assert one.worker_pid() == pid


def test_a_bad_database_is_said_loudly_and_the_one_before_stays(start, databases):
    one = start(tenant={"allow_countries": [HOME]})
    with open(databases.country, "r+b") as file:
        file.truncate(200)  # in place: a mapping of the file itself would be cut as well
    until("it is said", lambda: "the database in force stays" in one.stderr(), 25)
    assert get(one).status == 200
    hang_up(one, "nothing changes")
    assert get(one).status == 200
    databases.lie(AWAY, 64500)
    until("the good one is taken", lambda: "has changed: the new one is in force" in one.stderr(), 25)
    becomes(one, 403)


def test_a_worker_that_dies_is_given_the_databases_again(start, databases):
    one = start(tenant={"deny_countries": [HOME]})
    one.baseline = None
    os.unlink(databases.country)
    os.kill(one.worker_pid(), signal.SIGKILL)
    becomes(one, 403)


BAD = {
    "missing": None,
    "empty": b"",
    "no database": b"these are no countries\n" * 100,
    "cut": mmdb.build({"127.0.0.0/16": country(HOME)})[:-30],
    "another kind": mmdb.build({"127.0.0.0/16": network(1)}),
}


@pytest.mark.parametrize("what", BAD)
def test_without_a_sound_database_it_does_not_start(daemon, tmp_path, what):
    path = tmp_path / "countries.mmdb"
    if BAD[what] is not None:
        path.write_bytes(BAD[what])
    one = daemon({"upstream": {"geo": {"country_db": str(path)}}}, start=False)
    assert not one.spawn()
    assert one.process.wait(20) == 1
    assert f"upstream.geo.country_db: {path}" in one.stderr()
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1 and f"error: upstream.geo.country_db: {path}" in done.stderr
    one.process = None


# --- behind upstream.proxy ------------------------------------------------------------------------


def behind(start, proxy, fake_dns, **lists):
    fake_dns.names["open.test"] = ["127.0.0.1"]
    return start(**lists, upstream={"resolve": None, "nameservers": [fake_dns.address],
                                    "allow_addresses": ["127.0.0.0/8"],
                                    "proxy": {"url": proxy.url, "resolve_locally": True}})  # fmt: skip


def test_an_address_that_the_proxy_is_told_is_judged_first(start, fake_dns, mock, databases):
    proxy = ConnectProxy({"*": mock.address})
    try:
        one = behind(start, proxy, fake_dns, tenant={"deny_countries": [AWAY]})
        assert get(one).status == 200
        assert proxy.targets == ["127.0.0.1:443"]
        assert end_of(one)["geo.country.iso_code"] == HOME, "not the proxy's, but the target's"
        databases.lie(AWAY, 64500)
        hang_up(one)
        becomes(one, 403)
        assert len(proxy.targets) == 1
    finally:
        proxy.close()


# --- the configuration ----------------------------------------------------------------------------

HEAD = "version: 1\n"
DB = "upstream: { geo: { country_db: c.mmdb, asn_db: a.mmdb } }\n"
ONLY_COUNTRIES = "upstream: { geo: { country_db: c.mmdb } }\n"
PROXIED = 'upstream: { geo: { country_db: c.mmdb }, proxy: { url: "http://10.0.0.1:3128" } }\n'
TENANT = 'tenants: { acme: { rules: [ { allow: "https://a.test" } ], geo: %s } }\n'
RULE = 'tenants: { acme: { rules: [ { allow: "https://a.test", geo: %s } ] } }\n'
SITE = "site: { geo: %s }\n"
# The mistake stands behind the mark.
WRONG = [
    (DB + TENANT % "{ allow_countries: [ ^Germany ] }", "two capital letters"),
    (DB + TENANT % "{ allow_countries: [ DE, ^de ] }", "two capital letters"),
    (DB + TENANT % "{ allow_countries: ^[] }", "an empty one"),
    (DB + TENANT % "{ allow_countries: ^DE }", "expected a list"),
    (DB + TENANT % "{ deny_asns: [ ^AS0 ] }", "number of an autonomous system"),
    (DB + TENANT % "{ deny_asns: [ ^4294967296 ] }", "number of an autonomous system"),
    (DB + TENANT % "{ deny_asns: [ ^ASx ] }", "number of an autonomous system"),
    (DB + TENANT % "{ ^deny_country: [ DE ] }", 'did you mean "deny_countries"?'),
    (DB + TENANT % "^{ unknown: deny }", "names neither countries nor networks"),
    (DB + TENANT % "{ allow_asns: [ 1 ], unknown: ^maybe }", "expected allow or deny"),
    (DB + TENANT % "^DE", "expected a map"),
    (ONLY_COUNTRIES + TENANT % "^{ deny_asns: [ 1 ] }", "upstream.geo.asn_db"),
    (RULE % "^{ deny_countries: [ DE ] }", "upstream.geo.country_db"),
    (SITE % "^{ deny_countries: [ DE ] }", "upstream.geo.country_db"),
    (DB + RULE.replace("allow", "deny") % "^{ deny_countries: [ DE ] }", "belongs to a rule that allows"),
    (DB + 'tenants: { acme: { rules: [ { allow: "https://a.test" } ] } }\nlisten: [ { unix: s/s, narrow: [ '
     '{ allow: "https://a.test", geo: ^{ deny_countries: [ DE ] } } ] } ]\n', "of the site or of a tenant"),
    (PROXIED + TENANT % "^{ deny_countries: [ DE ] }", "resolve_locally"),
    (PROXIED + RULE % "^{ deny_countries: [ DE ] }", "resolve_locally"),
    (PROXIED + SITE % "^{ deny_countries: [ DE ] }", "resolve_locally"),
]


@pytest.mark.parametrize("text, says", WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_every_mistake_is_shown_where_it_stands(tmp_path, text, says):
    before = (HEAD + text).partition("^")[0]
    where = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + text.replace("^", ""))
    done = subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert [e for e in errors if f"k.yaml:{where}: " in e and says in e], done.stderr


def test_a_code_that_is_no_countrys_is_warned_of(tmp_path, databases):
    path = tmp_path / "k.yaml"
    path.write_text(HEAD + DB.replace("c.mmdb", databases.country).replace("a.mmdb", databases.asn)
                    + TENANT % "{ deny_countries: [ UK, GB, XX, NO ] }")  # fmt: skip
    done = subprocess.run([KEYHOLE, "check", "-c", str(path)], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'gives "UK" to no country (the United Kingdom is GB)' in done.stderr
    assert done.stderr.count("ISO 3166") == 1


# --- explain --------------------------------------------------------------------------------------


def explain(one, *args):
    return subprocess.run([KEYHOLE, "explain", "-c", one.config_path, *args], capture_output=True,
                          text=True, timeout=20, check=False)  # fmt: skip


def test_explain_shows_where_addresses_lie_and_what_is_made_of_it(start):
    one = start(tenant={"allow_countries": [HOME]},
                rules=[{"allow": "https://open.test"},
                       {"allow": "https://auth.test", "geo": {"deny_asns": [64500]}}])  # fmt: skip
    good, bad = explain(one, "https://open.test/"), explain(one, "https://auth.test/")
    assert good.returncode == 0 and f"(pinned) in {HOME} AS64500" in good.stdout
    assert bad.returncode == 3 and "deny: geo_prohibited" in bad.stdout
    assert "where the rule's geo lets nobody connect" in bad.stdout
    shown = json.loads(explain(one, "--json", "https://auth.test/").stdout)
    (address,) = shown["addresses"]
    assert (address["country"], address["asn"], address["allowed"]) == (HOME, 64500, False)
    assert shown["decision"] == "deny" and shown["reason"] == "geo_prohibited"


# --- who reads them -------------------------------------------------------------------------------


class Ordinary(Daemon):
    """Started by an ordinary user, not by root."""

    identity = {"user": 64999, "group": 64999, "extra_groups": []}

    def write(self, config):
        super().write(config)
        for path in (self.folder, self.config_path, self.secret_path):
            os.chown(path, 64999, 64999)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become somebody else")
def test_an_ordinary_users_worker_takes_other_databases_too(mock, databases, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordinary")
    for path in [folder, *folder.parents][:-2]:
        os.chmod(path, 0o755)
    mmdb.write(folder / "c", {"127.0.0.0/16": country(HOME)})
    os.chmod(folder / "c", 0o644)
    with open(mock.ca, "rb") as file:
        (folder / "roots").write_bytes(file.read())
    config = copy.deepcopy(base_config(mock))
    config["upstream"].update(ca_file=str(folder / "roots"), geo={"country_db": str(folder / "c")})
    config["tenants"]["acme"]["geo"] = {"deny_countries": [AWAY]}
    one = Ordinary(config)
    try:
        assert get(one).status == 200
        pid = one.worker_pid()
        mmdb.write(folder / "c", {"127.0.0.0/16": country(AWAY)})
        os.chmod(folder / "c", 0o644)
        hang_up(one)
        becomes(one, 403)
        assert one.worker_pid() == pid
        one.stop()
    finally:
        one.remove()
