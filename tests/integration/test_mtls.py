"""The upstream that asks for a certificate gets the credential's; the sandbox holds neither it nor its key."""

import json
import os
import ssl

import pytest
from certificates import openssl
from clients import Tunnel
from common import until
from daemons import Daemons
from h2client import h2_tunnel
from mtls_origin import HOST, OTHER, Origin, config_of, make_ca, make_client, read
from test_reload import reload

@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def ca(folder):
    return make_ca(folder, "client-ca")


@pytest.fixture(scope="module")
def one(folder, ca):
    return make_client(folder, ca, "first")


@pytest.fixture(scope="module")
def other(folder, ca):
    return make_client(folder, ca, "second", kind=("rsa:2048",))


@pytest.fixture(scope="module", params=["1.1", "2"])
def origin(request, ca, tmp_path_factory):
    alpn = ("http/1.1",) if request.param == "1.1" else ("h2",)
    made = Origin(str(tmp_path_factory.mktemp("origin")), ca[0], alpn=alpn)
    made.version = request.param
    yield made
    made.stop()


@pytest.fixture
def start(origin):
    with Daemons([origin]) as daemons:

        def run(key, certificate, to=origin, **more):
            return daemons(config=config_of(to, certificate), secret=key.rstrip("\n"), **more)

        yield run


def ask(daemon, host=HOST, headers=()):
    with Tunnel(daemon, host) as tunnel:
        return tunnel.ask("GET", "/", list(headers))


def test_the_upstream_gets_the_certificate(start, origin, one):
    daemon = start(read(one[1]), one[0])
    what = ask(daemon, headers=[("Authorization", "Bearer attackers-own"), ("Cookie", "a=b")]).json()
    assert (what["subject"], what["version"]) == ("first", origin.version)
    assert "authorization" not in what["fields"] and "cookie" not in what["fields"]
    with h2_tunnel(daemon, HOST) as client:
        assert json.loads(client.ask("GET", "/").body)["subject"] == "first"


def test_a_key_of_rsa_with_its_certificate_in_one_file(start, other):
    assert ask(start(read(other[1]) + read(other[0]), None)).json()["subject"] == "second"


def test_a_chain_goes_along(start, folder, ca):
    middle = make_client(folder, ca, "middle", is_ca=True)
    leaf = make_client(folder, middle, "leaf")
    chain = os.path.join(folder, "chain.pem")
    with open(chain, "w", encoding="ascii") as file:
        file.write(read(leaf[0]) + read(middle[0]))
    assert ask(start(read(leaf[1]), chain)).json()["subject"] == "leaf"
    answer = ask(start(read(leaf[1]), leaf[0]))
    assert answer.status == 502, "without what leads to the root it is worth nothing"


def test_a_rule_without_the_credential_shows_no_certificate(start, origin, one):
    daemon = start(read(one[1]), one[0])
    assert ask(daemon).status == 200
    answer = ask(daemon, OTHER)
    assert answer.status == 502
    assert all(seen.get("host") != OTHER for seen in origin.seen)


def test_an_upstream_that_asks_for_none_gets_none(start, one, ca, tmp_path):
    plain = Origin(str(tmp_path), None, ssl.CERT_NONE)
    try:
        assert ask(start(read(one[1]), one[0], to=plain)).json()["subject"] is None
    finally:
        plain.stop()


def test_connections_of_a_certificate_are_kept_and_sessions_not_resumed(start, origin, one):
    daemon = start(read(one[1]), one[0])
    with Tunnel(daemon, HOST) as tunnel:
        first, second = (tunnel.ask("GET", "/").json() for _ in range(2))
        assert first["connection"] == second["connection"]
        origin.close_idle()
        until("another connection", lambda: tunnel.ask("GET", "/").json()["connection"] != first["connection"])
        assert not tunnel.ask("GET", "/").json()["resumed"]


@pytest.mark.parametrize("change, says", [
    (lambda one, other: (read(one[1]), other[0]), "do not belong together"),
    (lambda one, other: (read(one[1]), one[1]), "its certificate is none"),
    (lambda one, other: (read(one[0]), one[0]), "its key is not a private key in PEM"),
    (lambda one, other: (read(one[1]), None), "name its file"),
    (lambda one, other: (read(one[1]), "/nowhere/at-all.pem"), "/nowhere/at-all.pem"),
    (lambda one, other: (openssl("pkey", "-in", one[1], "-aes128", "-passout", "pass:x").decode(), one[0]), "passphrase"),
])  # fmt: skip
def test_what_is_no_pair_is_said_by_the_names_of_both_files(start, origin, one, other, change, says):
    key, certificate = change(one, other)
    daemon = start(key, certificate)
    before = len(origin.seen)
    answer = ask(daemon)
    assert answer.status == 503
    assert certificate is None or certificate not in answer.text(), "the sandbox is not told of the host's files"
    said = [line for line in daemon.stderr().splitlines() if says in line]
    assert said and daemon.secret_path in said[0] and (certificate is None or certificate in said[0])
    assert "BEGIN" not in daemon.stderr() + answer.text()
    assert len(origin.seen) == before


def test_a_reload_shows_the_new_certificate(start, one, other):
    daemon = start(read(one[1]), one[0])
    assert ask(daemon).json()["subject"] == "first"
    daemon.write_secret(read(other[1]).rstrip("\n"))
    reload(daemon, lambda config: config["credentials"]["own"]["mtls"].update(certificate=other[0]))
    until("the new one is shown", lambda: ask(daemon).json().get("subject") == "second")


def test_a_new_key_file_is_noticed_and_its_certificate_with_it(start, one, other, tmp_path):
    certificate = tmp_path / "client.pem"
    certificate.write_text(read(one[0]))
    daemon = start(read(one[1]), str(certificate))
    assert ask(daemon).json()["subject"] == "first"
    certificate.write_text(read(other[0]))
    daemon.write_secret(read(other[1]).rstrip("\n"))
    until("the new one is shown", lambda: ask(daemon).json().get("subject") == "second")
