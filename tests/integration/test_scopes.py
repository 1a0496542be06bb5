"""Sandboxes that have keyhole make value after value use up nothing that others need."""

import contextlib
import os
import secrets
import signal
import tempfile

import pytest
import sigv4
import test_sigv4
from aws_origin import AwsOrigin
from clients import Tunnel
from common import PATIENCE, until
from daemons import Daemons
from harness import Daemon

USER = 64998  # who may lock no more than the limit says
SANDBOXES, CREDENTIALS, EACH = 5, 2, 128
GOOD = 403, 200
HOST, OTHER, EMPTY = "iam.amazonaws.com", "minio.test", sigv4.EMPTY


def region(n):
    """Those of AWS are few; one that looks like them can be made up."""
    return f"{chr(97 + n // 36 % 26)}{chr(97 + n // 936)}-{('east', 'west', 'north', 'south')[n // 9 % 4]}-{n % 9 + 1}"


def config(origin):
    paths = [f"/c{i}/**" for i in range(CREDENTIALS)]
    return {
        **test_sigv4.config(origin),
        "listen": [
            {"unix": "d/s", "tenant": "acme", "mode": "0660"},
            *({"unix": f"e{i}/s", "tenant": "evil", "mode": "0660"} for i in range(SANDBOXES)),
        ],
        "credentials": {
            "good": {"value": {"file": "secret"}, "hosts": [OTHER], "paths": ["/signed/**"],
                     "aws_sigv4": {"region": "auto", "service": "s3"}},
            "plain": {"value": {"file": "plain"}, "header": {"x-api-key": "{}"}, "hosts": [OTHER], "paths": ["/plain/**"]},
            **{f"aws{i}": {"value": {"file": "secret"}, "aws_sigv4": {}, "hosts": [HOST], "paths": [path]}
               for i, path in enumerate(paths)},
        },
        "tenants": {
            "acme": {"rules": [{"allow": f"https://{OTHER}/signed/**", "credential": "good"},
                               {"allow": f"https://{OTHER}/plain/**", "credential": "plain"}]},
            "evil": {"rules": [{"allow": f"https://{HOST}{path}", "credential": f"aws{i}"} for i, path in enumerate(paths)]},
        },
    }  # fmt: skip


class Sandbox:
    def __init__(self, daemon, name):
        self.socket_path, self.ca = os.path.join(daemon.folder, name, "s"), daemon.ca


def signed(service, where, host, target):
    return [field for field in test_sigv4.signer(service, where).header("GET", host, target, [("X-Amz-Content-Sha256", EMPTY)], EMPTY)
            if field[0] != "Host"]  # fmt: skip


def flood(daemon):
    """As many regions as each sandbox may ask for at once."""
    served = 0
    for i in range(SANDBOXES):
        with Tunnel(Sandbox(daemon, f"e{i}"), HOST) as tunnel:
            for n in range(i * EACH, (i + 1) * EACH):
                target = f"/c{n % CREDENTIALS}/x"
                served += tunnel.ask("GET", target, signed("iam", region(n // CREDENTIALS), HOST, target)).status == 200
    return served


def serves(daemon):
    """Both kinds of another tenant's values get there. The origin itself refuses what is not signed."""
    with Tunnel(daemon, OTHER) as tunnel:
        plain = tunnel.ask("GET", "/plain/x").status
        return plain, tunnel.ask("GET", "/signed/x", signed("s3", "auto", OTHER, "/signed/x")).status


@pytest.fixture
def folder():
    """That whoever the daemon runs as can read."""
    with tempfile.TemporaryDirectory(prefix="kh.") as path:
        os.chmod(path, 0o755)
        yield path


def own(folder):
    for where, _, names in os.walk(folder):
        for path in (where, *(os.path.join(where, name) for name in names)):
            os.chown(path, USER, USER)


@pytest.mark.parametrize(("nofile", "memlock"), [(0, 2 * 1024 * 1024), (400, None)], ids=["memlock", "nofile"])
def test_a_flood_of_scopes_leaves_others_their_values_and_the_next_worker_its_start(folder, nofile, memlock):
    origin = AwsOrigin(folder, test_sigv4.NAMES, {test_sigv4.KEY_ID: (test_sigv4.KEY, test_sigv4.TOKEN)})
    try:
        with Daemons([origin]) as made:
            daemon = made(config=config(origin), secret=test_sigv4.value(), start=False, nofile=nofile or None)
            plain = os.open(os.path.join(daemon.folder, "plain"), os.O_WRONLY | os.O_CREAT, 0o600)
            os.write(plain, b"sk-plain-q7Zt1vXw93LmPa8sRk20")
            os.close(plain)
            daemon.memlock = memlock
            if os.getuid() == 0:
                daemon.identity = {"user": USER, "group": USER, "extra_groups": []}
                own(daemon.folder)
            daemon.start()
            served = flood(daemon)
            assert serves(daemon) == GOOD, daemon.stderr()
            before = daemon.worker_pid()
            os.kill(before, signal.SIGKILL)
            until("another worker runs", lambda: daemon.worker_pid() not in (None, before))
            until("it serves", lambda: still(daemon) == GOOD)
            assert served == SANDBOXES * EACH
    finally:
        origin.stop()


def still(daemon):
    try:
        return serves(daemon)
    except (OSError, EOFError, AssertionError):
        return None


def test_the_keeper_outlives_a_derived_key_that_it_has_no_page_for(folder):
    """It gives up idle keys for the fingerprints of another, whatever it is doing with them. There may be too little for a worker."""
    hosts = [f"s3.us-east-{n}.amazonaws.com" for n in (1, 2, 3)]
    plain = {f"p{n}": {"value": {"file": f"p{n}"}, "bearer": True, "hosts": ["api.test"]} for n in range(8)}
    # Those who ask wait until there is a file `go`.
    command = ["/bin/sh", "-c", f"until test -e {folder}/go; do sleep 0.05; done; cat {folder}/pair"]
    one = Daemon(start=False, config={
        "version": 1, "authority": {"certificate": "ca.pem", "key": "ca.key"}, "audit": {"file": "audit.jsonl"},
        "listen": [{"unix": "d/s", "tenant": "acme", "mode": "0660"}],
        "upstream": {"resolve": {host: "127.0.0.1:1" for host in hosts}},
        "credentials": {**plain, "aws": {"value": {"exec": command}, "aws_sigv4": {}, "hosts": hosts, "shared_host": "accept"}},
        "tenants": {"acme": {"rules": [{"allow": f"https://{host}", "credential": "aws"} for host in hosts]}},
    })  # fmt: skip
    for name in plain:
        with open(os.path.join(one.folder, name), "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(secrets.token_hex(20))
    with open(os.path.join(folder, "pair"), "w") as file:
        file.write("AKIA0123456789ABCDEF\n" + "A7f" * 13 + "Q\n")
    one.memlock = 64 * 1024
    if os.getuid() == 0:
        one.identity = {"user": USER, "group": USER, "extra_groups": []}
        own(one.folder)
    try:
        assert one.spawn(), one.stderr()
        with contextlib.ExitStack() as stack:
            for host in hosts:
                tunnel = stack.enter_context(Tunnel(one, host))
                tunnel.start("GET", "/bucket/x")
                tunnel.send(b"")
            with open(os.path.join(folder, "go"), "w"):
                pass
            until("they are answered, or the worker ends", lambda: one.process.poll() is not None
                  or len(one.journal(event="close")) >= len(hosts) or "a new one is started" in one.stderr())
        one.process.terminate()
        assert one.process.wait(PATIENCE) == 0, one.stderr()
    finally:
        one.remove()
