"""A client certificate and its key are two files: what does not fit is told before it is needed, and what is replaced is used."""

import datetime
import os
import shutil
import subprocess

from admin_client import status
import pytest
from certificates import openssl
from clients import Tunnel
from common import KEYHOLE, until
from daemons import Daemons
from mtls_origin import HOST, Origin, config_of, make_ca, make_client, read
from sandboxes import admin
from test_reload import reload
from test_upstream_tls import make_dated


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def ca(folder):
    return make_ca(folder, "client-ca")


@pytest.fixture(scope="module")
def pairs(folder, ca):
    """first, second; renewed: another certificate for the key of the first; expired."""
    first, second = make_client(folder, ca, "first"), make_client(folder, ca, "second")
    renewed = os.path.join(folder, "renewed.pem")
    openssl("req", "-x509", "-CA", ca[0], "-CAkey", ca[1], "-key", first[1], "-out", renewed, "-days", "3",
            "-subj", "/CN=renewed", "-addext", "basicConstraints=critical,CA:FALSE")  # fmt: skip
    expired = make_dated(folder + "/e", ca, "expired.test", "20200101000000Z", "20210101000000Z")
    locked = os.path.join(folder, "locked.key")
    openssl("pkey", "-in", first[1], "-aes128", "-passout", "pass:x", "-out", locked)
    return {"first": first, "second": second, "renewed": (renewed, first[1]), "expired": expired,
            "foreign": (first[0], second[1]), "locked": (first[0], locked)}  # fmt: skip


@pytest.fixture(scope="module")
def origin(ca, tmp_path_factory):
    made = Origin(str(tmp_path_factory.mktemp("origin")), ca[0], alpn=("http/1.1",))
    yield made
    made.stop()


@pytest.fixture
def start(origin, pairs):
    with Daemons([origin]) as daemons:

        def run(name):
            certificate, key = pairs[name]
            config = config_of(origin, "client.pem")
            one = daemons(config={**config, **admin()}, secret=read(key).rstrip("\n"), start=False)
            shutil.copy(certificate, os.path.join(one.folder, "client.pem"))
            one.start()
            return one

        yield run


def put(one, pair, which="both"):
    """As a renewal does: the file beside, and renamed over."""
    for part, path in ((0, os.path.join(one.folder, "client.pem")), (1, one.secret_path)):
        if which in ("both", ("certificate", "key")[part]):
            shutil.copy(pair[part], path + ".new")
            os.chmod(path + ".new", 0o600)
            os.rename(path + ".new", path)


def subject(tunnel):
    answer = tunnel.ask("GET", "/")
    assert answer.status == 200, answer.text()
    return answer.json()["subject"]


FAULTS = {"foreign": "do not belong together", "expired": "has expired, at 2021-01-01", "locked": "has a passphrase"}


@pytest.mark.parametrize("name, says", FAULTS.items())
def test_what_is_no_pair_is_told_at_the_start_and_by_check(start, origin, name, says):
    one = start(name)
    certificate = os.path.join(one.folder, "client.pem")
    said = [line for line in one.stderr().splitlines() if says in line]
    assert len(said) == 1 and certificate in said[0] and one.secret_path in said[0], "nobody has asked yet"
    with Tunnel(one, HOST) as tunnel:
        answer = tunnel.ask("GET", "/")
    assert answer.status == 503 and certificate not in answer.text()
    assert [c["ready"] for c in status(one)["credentials"]] == [False]
    assert says in status(one)["credential_states"][0]["last_error"]
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1 and says in done.stderr and certificate in done.stderr
    assert "BEGIN" not in done.stderr + one.stderr()


def test_check_says_nothing_of_a_pair_that_fits_or_is_not_there(start):
    one = start("first")

    def check():
        return subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=30, check=False)

    assert check().returncode == 0 and "credentials.own" not in check().stderr
    os.truncate(os.path.join(one.folder, "client.pem"), 0)
    assert check().returncode == 1 and "is empty" in check().stderr
    os.unlink(os.path.join(one.folder, "client.pem"))
    assert check().returncode == 0 and "credentials.own" not in check().stderr


def test_check_warns_of_a_client_certificate_that_is_a_cas(start, ca):
    one = start("first")
    put(one, ca)
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and "its certificate is a CA's" in done.stderr


def test_check_takes_no_key_out_of_its_pipe(start):
    one = start("first")
    one.stop()
    with open(one.secret_path, "rb") as file:
        key = file.read()
    os.unlink(one.secret_path)
    os.mkfifo(one.secret_path, 0o600)
    pipe = os.open(one.secret_path, os.O_RDWR)
    try:
        os.write(pipe, key)
        done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 0 and "credentials.own" not in done.stderr
        assert os.read(pipe, len(key) + 1) == key
    finally:
        os.close(pipe)
    one.checked = False


def test_status_says_until_when_a_certificate_is_good(start):
    one = start("first")
    assert [c["ready"] for c in status(one)["credentials"]] == [True]
    until = datetime.datetime.fromisoformat(status(one)["credential_states"][0]["expires"])
    assert 2 <= (until - datetime.datetime.now(datetime.UTC)).days < 3


@pytest.mark.parametrize("to", ["renewed", "second"])
def test_a_new_pair_is_used_from_the_next_connection_on(start, pairs, to):
    one = start("first")
    with Tunnel(one, HOST) as tunnel:
        before = tunnel.ask("GET", "/").json()
        assert before["subject"] == "first"
        assert tunnel.ask("GET", "/").json()["connection"] == before["connection"], "kept, so that it could be used again"
        put(one, pairs[to], "certificate" if to == "renewed" else "both")
        until("the new one is shown", lambda: subject(tunnel) == to)
        for _ in range(3):
            now = tunnel.ask("GET", "/").json()
            assert now["subject"] == to and now["connection"] != before["connection"]


@pytest.mark.parametrize("first", ["certificate", "key"])
def test_half_a_new_pair_leaves_the_old_one_in_force(start, pairs, first):
    one = start("first")
    with Tunnel(one, HOST) as tunnel:
        before = tunnel.ask("GET", "/").json()
        put(one, pairs["second"], first)
        until("it is said", lambda: "the previous certificate stays in use" in one.stderr())
        assert tunnel.ask("GET", "/").json() == before, "also on the same connection"
        reload(one, lambda config: None)
        assert tunnel.ask("GET", "/").json()["subject"] == "first"
        put(one, pairs["second"], "key" if first == "certificate" else "certificate")
        until("the new one is shown", lambda: subject(tunnel) == "second")
