"""The worker of a daemon answers `keyhole run` and `ctl`, and may have been taken over: nothing that it names is believed."""

import json
import os
import select
import subprocess

import pytest
from conftest import PATIENCE, PYTHON
from test_attach import running  # noqa: F401
from test_run import Run

# Stands at the daemon's admin socket, and changes what it answers to who adds a sandbox.
BETWEEN = """
import json, os, socket, sys
real, shown, changes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
os.rename(shown, real)
at = socket.socket(socket.AF_UNIX)
at.bind(shown)
os.chmod(shown, 0o666)
at.listen(8)
print("up", flush=True)
while True:
    client, _ = at.accept()
    asked = client.recv(65536)
    if not asked:
        client.close()
        continue
    there = socket.socket(socket.AF_UNIX)
    there.connect(real)
    there.sendall(asked)
    got = b""
    while more := there.recv(65536):
        got += more
    head, _, body = got.partition(b"\\r\\n\\r\\n")
    if asked.startswith(b"POST") and b" 201 " in head:
        answer = json.loads(body)
        if "made" in changes:
            open(answer["directory"] + "/" + changes["made"], "w").close()
        if "opened" in changes:
            os.chmod(answer["directory"], int(changes["opened"], 8))
        for name, value in changes.items():
            if name not in answer:
                continue
            answer[name] = {**answer[name], **value} if isinstance(value, dict) else value
        body = json.dumps(answer, ensure_ascii=False).encode()
        head = b"HTTP/1.1 201 Created\\r\\ncontent-type: application/json\\r\\ncontent-length: %d" % len(body)
    client.sendall(head + b"\\r\\n\\r\\n" + body)
    client.close()
    there.close()
"""


@pytest.fixture
def taken_over(running, sandbox):  # noqa: F811
    """A daemon whose answers to who adds a sandbox are changed."""
    made, daemons = [], []

    def make(**changes):
        if daemons:
            made[-1].kill()
            daemons[-1].end()
            os.unlink(daemons[-1].admin)
        one = running()
        daemons.append(one)
        command = sandbox.as_identity([PYTHON, "-c", BETWEEN, one.admin + ".real", one.admin, json.dumps(changes)])
        made.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE))
        assert select.select([made[-1].stdout], [], [], PATIENCE)[0] and made[-1].stdout.readline() == b"up\n"
        return one

    yield make
    for process in made:
        process.kill()
        process.communicate(timeout=PATIENCE)


def ctl(one, *args):
    return subprocess.run(
        one.run.sandbox.as_identity([one.run.keyhole, "ctl", *args]), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=PATIENCE, check=False, env=one.run.environment(), cwd="/",
    )  # fmt: skip


def test_a_worker_that_was_taken_over_has_no_folder_of_the_host_mounted(taken_over, sandbox):
    secret = sandbox.folder("secret", 0o755)
    sandbox.file(os.path.join(secret, "word"), "the word")
    one = taken_over(directory=secret, listener=secret + "/s")
    done = one("--", "sh", "-c", "cat /run/keyhole/word", check=125)
    assert "the word" not in done.stdout and "nothing is mounted" in done.stderr and secret in done.stderr
    assert one.left() == [], "the sandbox was removed all the same"


def test_nor_one_that_holds_more_than_the_socket_or_that_others_may_write_to(taken_over):
    assert 'contains more than the socket "s"' in taken_over(made="more")("--", "true", check=125).stderr
    assert "can be written to by others" in taken_over(opened="0777")("--", "true", check=125).stderr


def test_a_worker_that_was_taken_over_sets_no_variable_but_a_placeholders(taken_over):
    for name, value in (("LD_PRELOAD", "/run/keyhole/s"), ("PATH", "/run/keyhole"), ("A=B", "x"), ("GIT_SSH_COMMAND", "x")):
        done = taken_over(env={name: value})("--", "true", check=125)
        assert "no credential of the configuration has" in done.stderr
    assert "has no placeholder" in taken_over(env={"ANTHROPIC_API_KEY": "x\ny"})("--", "true", check=125).stderr


def test_the_journal_that_is_named_is_the_configurations(taken_over):
    one = taken_over(journal="/etc/shadow\x1b[2J")
    done = one("--", "true", check=0)
    assert os.path.join(one.folder, "audit.jsonl") in done.stderr and "shadow" not in done.stderr


def test_ctl_shows_no_folder_that_is_not_the_sandboxs(taken_over, sandbox):
    secret = sandbox.folder("secret", 0o755)
    own = os.path.join(secret, "acme", "a")
    os.makedirs(own)
    sandbox.file(os.path.join(own, "word"), "the word")
    for changes in ({"directory": secret, "listener": secret + "/s"}, {"directory": own, "listener": own + "/s"},
                    {"listener": secret + "/s"}):  # fmt: skip
        one = taken_over(**changes)
        for how in (["-c", one.path], ["--socket", one.admin]):
            for more in ([], ["--json"]):
                done = ctl(one, *how, *more, "sandbox", "add", "--tenant", "acme", "--id", "a")
                assert done.returncode == 1 and done.stdout == "" and done.stderr, (how, done)
                assert ctl(one, *how, "sandbox", "remove", "--tenant", "acme", "--id", "a").returncode == 0
    good = taken_over()
    path = os.path.join(good.sandboxes, "acme", "a", "s")
    assert ctl(good, "-c", good.path, "sandbox", "add", "--tenant", "acme", "--id", "a").stdout == path + "\n"
    assert ctl(good, "--socket", good.admin, "sandbox", "add", "--tenant", "acme", "--id", "b").stdout == path.replace("/a/s", "/b/s") + "\n"


def test_no_terminal_obeys_what_ctl_shows_for_programs(taken_over):
    one = taken_over(ca="\x9b2J\u202e\u2028\x7f\U0001f600")
    done = ctl(one, "-c", one.path, "--json", "sandbox", "add", "--tenant", "acme", "--id", "a")
    assert done.stdout.isascii() and "\x7f" not in done.stdout
    assert json.loads(done.stdout)["ca"] == "\x9b2J\u202e\u2028\x7f\U0001f600"


STRANGER = """
import os, socket, sys
os.setgid(61999); os.setuid(61999)
at = socket.socket(socket.AF_UNIX)
at.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
at.listen(8)
print("up", flush=True)
while True:
    client, _ = at.accept()
    if client.recv(65536):
        print("asked", flush=True)
    client.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's server is tried as root")
def test_another_users_server_is_not_taken_for_the_daemon(sandbox):
    run, folder = Run(sandbox), sandbox.folder("daemon", 0o755)
    os.makedirs(os.path.join(folder, "adm"))
    os.chmod(os.path.join(folder, "adm"), 0o777)
    path, admin = os.path.join(folder, "keyhole.yaml"), os.path.join(folder, "adm", "s")
    config = {"version": 1, "authority": {"certificate": "ca.pem", "key": "ca.key"}, "audit": {"file": "audit.jsonl"},
              "admin": {"unix": "adm/s"}, "tenants": {"acme": {"rules": [{"use": "anthropic"}]}}}  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
    os.chmod(path, 0o644)
    with subprocess.Popen([PYTHON, "-c", STRANGER, admin], stdout=subprocess.PIPE) as stranger:
        try:
            assert stranger.stdout.readline() == b"up\n"
            done = run("-c", path, "--", "true", use=None, check=125)
            assert "user 61999 listens at" in done.stderr
            for words in (["status"], ["events"], ["sandbox", "add", "--tenant", "acme", "--id", "a"], ["drain"]):
                done = subprocess.run(sandbox.as_identity([run.keyhole, "ctl", "-c", path, *words]), capture_output=True, text=True,
                                      timeout=PATIENCE, check=False, env=run.environment(), cwd="/")  # fmt: skip
                assert done.returncode == 1 and "user 61999 listens at" in done.stderr, done
        finally:
            stranger.kill()
        assert stranger.stdout.read() == b"", "nobody asked it anything"
