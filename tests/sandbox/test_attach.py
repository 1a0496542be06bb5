"""`keyhole run` with a daemon that runs already: a sandbox of that daemon's, for the run's life."""

import json
import os
import select
import signal
import subprocess
import tempfile
import time

import pytest
from conftest import PATIENCE, USER
from test_run import KEY, Run


class Running:
    """A daemon without a listener of its own, and `keyhole run` with its configuration."""

    def __init__(self, sandbox, run, allow=(), as_root=False):
        self.sandbox, self.run, self.as_root = sandbox, run, as_root
        self.own = None
        if as_root:  # no other user may rename the journal, or a folder above it
            self.own = tempfile.TemporaryDirectory(prefix="kh-daemon.")
            os.chmod(self.own.name, 0o755)
        self.folder = self.own.name if self.own else sandbox.folder("daemon", 0o755)
        self.admin = os.path.join(self.folder, "adm", "s")
        self.sandboxes = os.path.join(self.folder, "adm", "sandboxes")
        self.path = os.path.join(self.folder, "keyhole.yaml")
        config = {
            "version": 1,
            "authority": {"certificate": "ca.pem", "key": "ca.key"},
            "audit": {"file": "audit.jsonl"},
            "admin": {"unix": "adm/s", **({"allow": list(allow)} if allow else {})},
            "tenants": {"acme": {"rules": [{"use": "anthropic"}]}, "dev": {"rules": []}},
        }
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        os.chmod(self.path, 0o644)
        ready, theirs = os.pipe()
        command = [run.keyhole, "proxy", "-c", self.path, "--ready-fd", str(theirs)]
        self.process = subprocess.Popen(
            command if as_root else sandbox.as_identity(command), pass_fds=[theirs],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=run.environment(),
        )  # fmt: skip
        os.close(theirs)
        said = select.select([ready], [], [], PATIENCE)[0] and os.read(ready, 1)
        os.close(ready)
        assert said == b"\n", "the daemon did not start"

    def __call__(self, *args, tenant="acme", **more):
        return self.run("-c", self.path, *(["--tenant", tenant] if tenant else []), *args, use=None, **more)

    def left(self):
        return [name for _, folders, files in os.walk(self.sandboxes) for name in folders + files]

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=PATIENCE)
        if self.own:
            self.own.cleanup()


@pytest.fixture
def running(sandbox):
    made = []

    def make(**options):
        made.append(Running(sandbox, Run(sandbox), **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_a_run_is_a_sandbox_of_the_daemon_for_its_life(running):
    one = running()
    done = one("--", "curl", "-sS", "-H", "Accept: application/json", "http://keyhole.internal/", check=0)
    page = json.loads(done.stdout)
    assert page["tenant"] == "acme" and page["sandbox"].startswith("run-")
    assert "0 requests allowed, 0 refused" in done.stderr
    assert one.left() == []
    with open(os.path.join(one.folder, "audit.jsonl"), encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    assert [r["sandbox"] for r in records if r["event"] == "open"] == [page["sandbox"]]


def test_it_gets_placeholders_and_the_daemons_ca(running):
    one = running()
    done = one("--", "sh", "-c", "echo $ANTHROPIC_API_KEY; openssl x509 -noout -fingerprint < $SSL_CERT_FILE | wc -l", check=0)
    key = done.stdout.split()[0]
    assert key.startswith("sk-ant-") and key != KEY
    other = one("--", "sh", "-c", "echo $ANTHROPIC_API_KEY", check=0).stdout.strip()
    assert other.startswith("sk-ant-") and other != key, "each sandbox has its own"


def test_a_run_that_is_killed_leaves_no_sandbox(running):
    one = running()
    with one.run.start("-c", one.path, "--tenant", "acme", "--", "sh", "-c", "echo in; sleep 60", use=None) as run:
        assert run.stdout.readline() == b"in\n"
        assert one.left()
        run.send_signal(signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while one.left() and time.monotonic() < end:
        time.sleep(0.05)
    assert one.left() == []


def test_a_run_whose_daemon_ends_before_the_command_says_so(running):
    one = running()
    script = "echo in; while curl -sS -o /dev/null http://keyhole.internal/; do sleep 0.1; done"
    with one.run.start("-c", one.path, "--tenant", "acme", "--", "sh", "-c", script, use=None) as run:
        assert run.stdout.readline() == b"in\n"
        one.end()
        err = run.communicate(timeout=PATIENCE)[1]
    assert b"the daemon ended, or removed this sandbox, before the command did" in err and run.returncode == 125, err


def test_what_only_a_private_daemon_has_makes_one(running, sandbox):
    one = running()
    journal = os.path.join(sandbox.folder("own", 0o700), "audit.jsonl")
    done = one("--audit", journal, "--", "curl", "-sS", "http://keyhole.internal/", check=0)
    assert f"journal {journal}" in done.stderr
    assert not os.path.exists(one.sandboxes)


def test_without_the_daemon_a_private_one_is_started(running):
    one = running()
    one.end()
    done = one("--", "curl", "-sS", "http://keyhole.internal/", check=0)
    assert "0 requests allowed, 0 refused; journal" in done.stderr, "its own page is no request"


def test_a_tenant_has_to_be_named_where_there_are_several(running):
    one = running()
    assert "several tenants" in one("--", "true", tenant=None, check=125).stderr


@pytest.mark.identity("user")
@pytest.mark.skipif(os.geteuid() != 0, reason="another user's daemon is tried as root")
def test_a_user_of_admin_allow_gets_the_tenants_that_it_names(running):
    one = running(allow=[{"user": USER, "tenants": ["acme"]}], as_root=True)
    done = one("--", "curl", "-sS", "http://keyhole.internal/", check=0)
    assert "tenant: acme" in done.stdout
    assert "0 requests allowed, 0 refused; the daemon writes the journal" in done.stderr, "its own page is no request"
    refused = one("--", "true", tenant="dev", check=125)
    assert "may not do this for that tenant" in refused.stderr
    assert one.left() == []
