"""The certificates that sandboxes see, held against what the strictest clients want."""

import copy
import os
import re
import ssl
import stat
import subprocess
import threading
import time

import pytest
from harness import Tunnel, client_context, finish
from certificates import openssl


def chain(daemon, relay, name):
    """The certificates that the proxy sends for `name`, PEM, in order."""
    done = subprocess.run(
        ["openssl", "s_client", "-proxy", relay(daemon).url.removeprefix("http://"), "-connect",
         f"{name}:443", "-servername", name, "-showcerts", "-CAfile", daemon.ca],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    return re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", done.stdout, re.S)


def show(pem, *what):
    return openssl("x509", "-noout", *what, text=pem.encode()).decode()


def test_a_strict_verifier_accepts_the_chain(shared, relay, tmp_path):
    leaf, issuer = chain(shared, relay, "api.test")
    (tmp_path / "leaf.pem").write_text(leaf)
    (tmp_path / "issuer.pem").write_text(issuer)
    openssl("verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "api.test",
            "-CAfile", shared.ca, str(tmp_path / "leaf.pem"))  # fmt: skip
    with open(shared.ca, encoding="ascii") as file:
        assert show(file.read(), "-fingerprint") == show(issuer, "-fingerprint"), "the chain holds the CA"


def test_the_leaf_has_what_a_leaf_has(shared, relay):
    leaf, issuer = chain(shared, relay, "api.test")
    text = show(leaf, "-text")
    assert "DNS:api.test\n" in text
    assert "TLS Web Server Authentication" in text and "CA:FALSE" in text
    assert "Digital Signature" in text and "prime256v1" in text and "Version: 3" in text
    ski = re.search(r"Subject Key Identifier:[^\n]*\n\s*([0-9A-F:]+)", show(issuer, "-text")).group(1)
    assert ski in re.search(r"Authority Key Identifier:[^\n]*\n([^\n]*)", text).group(1)
    assert "Subject Key Identifier" in text
    assert len(show(leaf, "-serial").split("=")[1].strip()) >= 30, "128 random bits"


def lives(pem, seconds):
    """Is the certificate good for so long, and not much longer?"""
    def ends_within(n):
        return "will expire" in subprocess.run(
            ["openssl", "x509", "-noout", "-checkend", str(n)], input=pem, capture_output=True, text=True, check=False
        ).stdout  # fmt: skip

    return ends_within(seconds + 60) and not ends_within(seconds - 60)


def seen_leaf(daemon, host):
    with Tunnel(daemon, host) as tunnel:
        return ssl.DER_cert_to_PEM_cert(tunnel.sock.getpeercert(True))


def test_a_leaf_lives_a_day_where_a_rule_allows_and_minutes_for_a_refusal(shared, relay):
    assert lives(chain(shared, relay, "api.test")[0], 24 * 3600)
    assert lives(chain(shared, relay, "accounts.no-rule.test")[0], 10 * 60)
    with Tunnel(shared, "accounts.no-rule.test") as tunnel:
        assert tunnel.ask("GET", "/").status == 403


def test_a_clock_an_hour_behind_still_accepts_it(shared, relay):
    leaf = chain(shared, relay, "api.test")[0]
    assert lives(leaf, 24 * 3600)
    begin = show(leaf, "-startdate", "-dateopt", "iso_8601").split("=")[1].strip()
    then = time.mktime(time.strptime(begin, "%Y-%m-%d %H:%M:%SZ")) - time.timezone
    assert 3000 <= time.time() - then <= 7300


def test_an_address_stands_as_an_address(shared):
    for literal in ("127.0.0.1", "[::1]"):
        context = client_context(shared.ca)
        with Tunnel(shared, literal, sni=literal.strip("[]"), context=context) as tunnel:
            kinds = [kind for kind, _ in tunnel.sock.getpeercert()["subjectAltName"]]
            assert kinds == ["IP Address"]


def test_a_long_name_has_a_leaf_too(shared):
    name = ".".join(["a" * 60] * 3) + ".test"
    with Tunnel(shared, name) as tunnel:
        assert tunnel.ask("GET", "/").status == 403


def test_a_leaf_is_made_once(shared, relay):
    first, again = (chain(shared, relay, "api.test")[0] for _ in range(2))
    assert first == again
    assert chain(shared, relay, "open.test")[0] != first


@pytest.mark.parametrize("rules", [[], [{"allow": "https://*.flood.test/only/here"}]], ids=["refused", "allowed"])
def test_a_flood_of_names_is_bounded_and_does_not_stop_the_others(daemon, rules):
    """Each sandbox has a rate of its own, for names of rules as for those that only a refusal is said for."""
    two = {"unix": "e/s", "tenant": "acme", "sandbox": "two"}
    one = daemon({"listen": [{"unix": "d/s", "tenant": "acme"}, two], "limits": {"leaves": 1}},
                 rules=[{"allow": "https://api.test"}, *rules])  # fmt: skip
    other = copy.copy(one)
    other.socket_path = os.path.join(one.folder, "e", "s")
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200
    minted, refused = [], []

    def flood(part):
        for n in range(100):
            try:
                with Tunnel(one, f"n{n}.p{part}.flood.test") as tunnel:
                    tunnel.ask("GET", "/")
                minted.append(n)
            except Exception as why:  # noqa: BLE001  whatever form the refusal has
                refused.append(repr(why))

    begin = time.monotonic()
    threads = [threading.Thread(target=flood, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        with Tunnel(one, "api.test") as tunnel:
            assert tunnel.ask("GET", "/test/echo").status == 200
    for thread in threads:
        thread.join(60)
    seconds = time.monotonic() - begin
    assert len(minted) <= 500 + seconds + 1, f"{len(minted)} leaves in {seconds:.1f} s"
    assert minted and len(minted) + len(refused) == 800
    assert lives(seen_leaf(one, "n0.p0.flood.test"), 24 * 3600 if rules else 10 * 60)
    for n in range(20):
        with Tunnel(other, f"n{n}.other.flood.test") as tunnel:
            assert tunnel.ask("GET", "/").status == 403
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


def test_the_ca_key_is_made_private_and_kept(daemon):
    one = daemon()
    key = os.path.join(one.folder, "ca.key")
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    with open(key, "rb") as file:
        before = file.read()
    one.stop()
    one.start()
    with open(key, "rb") as file:
        assert file.read() == before
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("GET", "/test/echo").status == 200


@pytest.mark.parametrize("mistake", ["key alone", "certificate alone", "open key", "not a key"])
def test_a_ca_that_cannot_be_right_is_an_error_that_says_what_to_do(daemon, mistake):
    one = daemon()
    one.stop()
    key = os.path.join(one.folder, "ca.key")
    if mistake == "key alone":
        os.unlink(one.ca)
    elif mistake == "certificate alone":
        os.unlink(key)
    elif mistake == "open key":
        os.chmod(key, 0o644)
    else:
        with open(key, "w", encoding="ascii") as file:
            file.write("nonsense\n")
    os.truncate(one.stderr_path, 0)
    assert not one.spawn()
    assert finish(one.process) != 0
    assert "ca." in one.stderr()
    one.process = None


@pytest.mark.skipif(os.getuid() != 0, reason="looking into the worker needs root")
def test_the_worker_never_sees_the_ca_key(shared):
    pid = shared.worker_pid()
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert not [link for link in links if "ca.key" in link or "secret" == os.path.basename(link)]

