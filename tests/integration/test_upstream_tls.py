"""An upstream that can't prove who it is gets nothing: 502, the reason, and not a byte of a request."""

import os
import subprocess

import pytest
from daemons import merge
from harness import Tunnel, Upstream, finish, free_port, until
from certificates import make_ca, make_leaf, openssl

CA_CONF = """
[ca]
default_ca = it
[it]
dir = {folder}
new_certs_dir = {folder}
database = {folder}/index
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = optional
"""


def make_dated(folder, ca, name, start, end):
    """A certificate with dates of our choice (what `openssl req` can't give)."""
    os.makedirs(folder)
    with open(folder + "/conf", "w", encoding="ascii") as file:
        file.write(CA_CONF.format(folder=folder))
    open(folder + "/index", "w").close()
    with open(folder + "/serial", "w", encoding="ascii") as file:
        file.write("01\n")
    cert, key, request = folder + "/leaf.pem", folder + "/leaf.key", folder + "/leaf.csr"
    openssl(
        "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", key,
        "-out", request, "-subj", "/CN=" + name, "-addext", "subjectAltName=DNS:" + name,
        "-addext", "extendedKeyUsage=serverAuth",
    )  # fmt: skip
    openssl(
        "ca", "-batch", "-notext", "-config", folder + "/conf", "-cert", ca[0], "-keyfile", ca[1],
        "-in", request, "-out", cert, "-startdate", start, "-enddate", end,
    )  # fmt: skip
    return cert, key


def make_odd(folder, ca, *extensions, name="odd.test"):
    """A certificate signed by the good CA with extensions of our choice."""
    os.makedirs(folder)
    cert, key = folder + "/leaf.pem", folder + "/leaf.key"
    adds = [a for e in extensions for a in ("-addext", e)]
    openssl(
        "req", "-x509", "-CA", ca[0], "-CAkey", ca[1], "-newkey", "ec", "-pkeyopt",
        "ec_paramgen_curve:P-256", "-noenc", "-keyout", key, "-out", cert, "-days", "2", "-subj",
        "/CN=" + name, *adds,
    )  # fmt: skip
    return cert, key


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory):
    """name → upstream; one of each fault, and a good one under the same CA."""
    folder = str(tmp_path_factory.mktemp("tls"))
    good, stranger = make_ca(folder, "good"), make_ca(folder, "stranger")
    end_entity = "basicConstraints=critical,CA:FALSE"
    certs = {
        "good.test": make_leaf(folder, good, ["good.test"], "good-leaf"),
        "a.star.test": make_leaf(folder, good, ["*.star.test"], "star-leaf"),
        "expired.test": make_dated(folder + "/e", good, "expired.test", "20200101000000Z", "20210101000000Z"),
        "future.test": make_dated(folder + "/f", good, "future.test", "20400101000000Z", "20410101000000Z"),
        "self.test": make_leaf(folder, good, ["self.test"], "self-leaf", self_signed=True),
        "unknown.test": make_leaf(folder, stranger, ["unknown.test"], "unknown-leaf"),
        "wrong.test": make_leaf(folder, good, ["right.test"], "wrong-leaf"),
        "b.c.star.test": make_leaf(folder, good, ["*.star.test"], "deep-leaf"),
        "cn-only.test": make_odd(folder + "/cn", good, end_entity, name="cn-only.test"),
        "client.test": make_odd(folder + "/cl", good, end_entity, "extendedKeyUsage=clientAuth",
                                "subjectAltName=DNS:client.test"),  # fmt: skip
        "tls10.test": make_leaf(folder, good, ["tls10.test"], "tls10-leaf"),
        "tls11.test": make_leaf(folder, good, ["tls11.test"], "tls11-leaf"),
        "tls12.test": make_leaf(folder, good, ["tls12.test"], "tls12-leaf"),
    }
    running = {}
    try:
        for name, (cert, key) in certs.items():
            options = {"cert": cert, "cert_key": key}
            if name.startswith("tls1"):
                options["tls"] = name[3] + "." + name[4]
            running[name] = Upstream(f"{folder}/run-{name}", [name], **options)
        running["plain.test"] = Upstream(f"{folder}/run-plain", plain=True)
        running["good.test"].ca = good[0]
        yield running
    finally:
        for upstream in running.values():
            upstream.stop()


@pytest.fixture
def strict(daemon, upstreams):
    config = {
        "upstream": {
            "ca_file": upstreams["good.test"].ca,
            "resolve": {**{n: u.address for n, u in upstreams.items()},
                        "closed.test": f"127.0.0.1:{free_port()}"},
        },
    }  # fmt: skip
    names = [*upstreams, "closed.test"]
    rules = [{"allow": f"https://{n}", "credential": "main"} for n in names]
    return daemon(merge(config, {"credentials": {"main": {"hosts": names}}}), rules=rules)


def ask(daemon, name):
    with Tunnel(daemon, name) as tunnel:
        return tunnel.ask("POST", "/test/echo", [("x-api-key", "placeholder")], b"private text")


@pytest.mark.parametrize("name", ["good.test", "a.star.test", "tls12.test"])
def test_a_proper_upstream_is_spoken_to(strict, upstreams, name):
    assert ask(strict, name).status == 200


@pytest.mark.parametrize(
    "name, token, word",
    [
        ("expired.test", "tls_certificate_error", "expired"),
        ("future.test", "tls_certificate_error", "not yet valid"),
        ("self.test", "tls_certificate_error", "self"),
        ("unknown.test", "tls_certificate_error", "issuer"),
        ("wrong.test", "tls_certificate_error", "mismatch"),
        ("b.c.star.test", "tls_certificate_error", "mismatch"),
        ("cn-only.test", "tls_certificate_error", ""),
        ("client.test", "tls_certificate_error", "purpose"),
        ("tls10.test", "tls_protocol_error", ""),
        ("tls11.test", "tls_protocol_error", ""),
        ("plain.test", "tls_protocol_error", ""),
        ("closed.test", "connection_refused", ""),
    ],
)
def test_an_upstream_that_cannot_prove_itself_gets_nothing(strict, upstreams, name, token, word):
    answer = ask(strict, name)
    assert answer.status == 502, answer
    assert f"error={token}" in answer.get("proxy-status").replace(" ", ""), answer
    # Clients that retry each 502 for minutes are told where that is in vain.
    assert answer.get("x-should-retry") == ("false" if token == "tls_certificate_error" else None)
    assert name in answer.text() and word in answer.text().lower(), answer.text()
    if name in upstreams:
        assert upstreams[name].requests() == [], "a request was sent all the same"
    until("a record", lambda: [r for r in strict.journal() if r.get("server.address") == name])


def test_the_journal_says_to_its_end_what_to_do_about_a_certificate(strict):
    ask(strict, "unknown.test")
    close = until("a close", lambda: [r for r in strict.journal() if r["event"] == "close" and r.get("reason") == "tls_certificate"])
    assert close[0]["detail"].endswith("(no trusted root issued it; a private one goes into upstream.ca_file)")


def test_no_setting_turns_verification_off(daemon, upstreams):
    for option in ("insecure", "verify", "skip_verify", "tls_verify"):
        config = {"upstream": {option: True}}
        one = daemon(config, start=False)
        assert not one.spawn(), f"upstream.{option} was taken"
        one.process.wait(20)
        one.process = None


def test_the_chain_is_verified_anew_when_a_session_could_be_resumed(daemon, upstreams):
    """A ticket from a good connection is no pass for another name on the same port."""
    good = upstreams["good.test"]
    one = daemon(
        {
            "worker": {"threads": 1},
            "upstream": {"ca_file": good.ca, "resolve": {"good.test": good.address, "other.test": good.address}},
            "credentials": {"main": {"hosts": ["good.test", "other.test"]}},
        },
        rules=[{"allow": f"https://{n}", "credential": "main"} for n in ("good.test", "other.test")],
    )
    first = ask(one, "good.test").json()["conn"]
    good.close_idle()
    until("its end", lambda: good.events("end", conn=first))
    assert ask(one, "good.test").status == 200
    assert ask(one, "other.test").status == 502


# --- what is too weak, though the certificate is good ----------------------------------------------

SERVER = ["openssl", "s_server", "-www", "-quiet", "-tls1_2"]
# name → the key, the digest of the signature, the ciphers of the server
WEAK = {
    "control.test": ("rsa:2048", "sha256", "ECDHE-RSA-AES256-GCM-SHA384"),
    "dhe.test": ("rsa:2048", "sha256", "DHE-RSA-AES256-GCM-SHA384"),
    "no-secrecy.test": ("rsa:2048", "sha256", "AES256-GCM-SHA384"),
    "cbc.test": ("rsa:2048", "sha256", "ECDHE-RSA-AES256-SHA384"),
    "short-key.test": ("rsa:1024", "sha256", "ECDHE-RSA-AES256-GCM-SHA384"),
    "sha1.test": ("rsa:2048", "sha1", "ECDHE-RSA-AES256-GCM-SHA384"),
}


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """The CA's certificate, and name → address of a server of TLS 1.2."""
    folder = str(tmp_path_factory.mktemp("weak"))
    ca = make_ca(folder, "weak")
    running, addresses = [], {}
    try:
        for name, (key, digest, ciphers) in WEAK.items():
            stem, port = f"{folder}/{name}", free_port()
            openssl(
                "req", "-x509", "-CA", ca[0], "-CAkey", ca[1], "-newkey", key, "-noenc", "-" + digest,
                "-keyout", stem + ".key", "-out", stem + ".pem", "-days", "2", "-subj", "/CN=" + name,
                "-addext", "subjectAltName=DNS:" + name, "-addext", "extendedKeyUsage=serverAuth",
                "-addext", "basicConstraints=critical,CA:FALSE",
            )  # fmt: skip
            running.append(subprocess.Popen(
                [*SERVER, "-accept", f"127.0.0.1:{port}", "-cert", stem + ".pem", "-key", stem + ".key",
                 "-cipher", ciphers + ":@SECLEVEL=0"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            ))  # fmt: skip
            addresses[name] = f"127.0.0.1:{port}"
        yield ca[0], addresses
    finally:
        for process in running:
            process.terminate()
            finish(process)


@pytest.fixture
def of_weak(daemon, weak):
    config = {"upstream": {"ca_file": weak[0], "resolve": weak[1]}}
    return daemon(config, rules=[{"allow": f"https://{n}"} for n in WEAK])


def get(daemon, name):
    with Tunnel(daemon, name) as tunnel:
        return tunnel.ask("GET", "/")


def test_tls_1_2_with_a_key_exchange_of_its_own_and_aead_is_spoken(of_weak):
    until("the server listens", lambda: get(of_weak, "control.test").status == 200, pause=0.05)


@pytest.mark.parametrize(
    "name, token",
    [
        ("no-secrecy.test", "tls_protocol_error"),
        ("dhe.test", "tls_protocol_error"),
        ("cbc.test", "tls_protocol_error"),
        ("short-key.test", "tls_certificate_error"),
        ("sha1.test", "tls_certificate_error"),
    ],
)
def test_weak_ciphers_keys_and_signatures_are_refused(of_weak, name, token):
    def answer():
        said = get(of_weak, name)
        return said if "connection_refused" not in said.get("proxy-status") else None

    said = until("the server listens", answer, pause=0.05)
    assert said.status == 502, said
    assert f"error={token}" in said.get("proxy-status").replace(" ", ""), said
