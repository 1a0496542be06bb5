"""Upstream TLS sessions: a ticket is worth what its handshake was worth, so none goes from one credential or tenant to another."""

import os
import ssl

import pytest
from clients import Tunnel
from daemons import Daemons
from mtls_origin import HOST, Origin, make_ca, make_client
from sandboxes import inside

KEYS = ["one", "two"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("sessions"))


@pytest.fixture(scope="module")
def pairs(folder):
    ca = make_ca(folder, "client-ca")
    return ca, {name: make_client(folder, ca, name) for name in KEYS}


@pytest.fixture(scope="module", params=["1.2", "1.3"])
def origin(request, pairs, tmp_path_factory):
    """Takes a client certificate, and does without; gives tickets."""
    made = Origin(str(tmp_path_factory.mktemp("origin")), pairs[0][0], ssl.CERT_OPTIONAL, alpn=("http/1.1",))
    version = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}[request.param]
    made.context.minimum_version = made.context.maximum_version = version
    yield made
    made.stop()


def config_of(origin, pairs):
    credentials = {}
    for name, (certificate, key) in pairs[1].items():
        credentials[name] = {"value": {"file": name}, "header": {"x-api-key": "{}"}, "hosts": [HOST]}
        credentials["mtls-" + name] = {"value": {"file": key}, "mtls": {"certificate": certificate}, "hosts": [HOST]}
    rules = [{"allow": f"https://{HOST}/{name}", "credential": name} for name in credentials]
    rules += [{"allow": f"https://{HOST}/none"}, {"allow": f"https://{HOST}/pass", "client_auth": "pass"}]
    return {
        "version": 1,
        "authority": {"certificate": "ca.pem", "key": "ca.key"},
        "listen": [{"unix": f"{name}/s", "tenant": tenant} for name, tenant in (("a", "acme"), ("b", "beta"), ("c", "acme"))],
        "worker": {"threads": 1},  # a thread has its own sessions
        "upstream": {"ca_file": origin.ca, "resolve": {HOST: origin.address}},
        "audit": {"file": "audit.jsonl"},
        "credentials": credentials,
        "tenants": {"acme": {"rules": rules}, "beta": {"rules": rules}},
    }  # fmt: skip


@pytest.fixture
def ask(origin, pairs):
    """ask(sandbox, path): on a connection that has just been made; what the upstream saw of it."""
    with Daemons([origin]) as daemons:
        one = daemons(config=config_of(origin, pairs), start=False)
        for name in KEYS:
            with open(os.path.join(one.folder, name), "w", encoding="ascii") as file:
                file.write("a-value-of-" + name)
            os.chmod(file.name, 0o600)
        one.start()
        seen = set()

        def run(sandbox, path):
            origin.close_idle()
            with Tunnel(inside(one, os.path.join(one.folder, sandbox, "s")), HOST) as tunnel:
                what = tunnel.ask("GET", path).json()
            assert what["connection"] not in seen, "each on a connection of its own"
            seen.add(what["connection"])
            return what

        yield run


# Who asks, for what: each differs from every other in the tenant, the credential, or, where a client's own
# authentication passes, the sandbox.
WAYS = [("a", "/one"), ("a", "/two"), ("b", "/one"), ("a", "/none"), ("b", "/none"), ("a", "/pass"), ("b", "/pass"), ("c", "/pass")]


def test_a_session_is_resumed_for_the_same_and_for_nobody_else(ask):
    for way in WAYS:
        assert not ask(*way)["resumed"], f"{way}: a ticket of another one"
    for way in WAYS:
        assert ask(*way)["resumed"], f"{way}: its own ticket is there"
    assert ask("c", "/none")["resumed"], "another sandbox of the same tenant, where nothing of its own passes"


def test_a_client_certificate_goes_by_no_session(ask):
    """Each has a ticket of the ways without one before it, and leaves tickets that were given for it."""
    for way in WAYS:
        ask(*way)
    for sandbox, name in (("a", "one"), ("b", "one"), ("a", "two"), ("a", "one"), ("b", "two")):
        what = ask(sandbox, "/mtls-" + name)
        assert (what["subject"], what["resumed"]) == (name, False)
        plain = ask(sandbox, "/none")
        assert plain["subject"] is None and plain["resumed"], "of the handshake without a certificate"
