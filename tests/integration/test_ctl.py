"""`keyhole ctl` tells people and programs how the daemon is, and steers it."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import time

import pytest
from admin_client import TWO_TENANTS, admin, answers, ask, connect, ctl, samples, serves, status
from harness import KEYHOLE, Tunnel, free_port, until


def test_status_tells_people_and_programs_how_the_daemon_is(daemon):
    one = daemon({**TWO_TENANTS, **admin()})
    with Tunnel(one, "open.test"):
        seen = json.loads(ctl(one, "status", "--json").stdout)
        assert [(s["id"], s["tenant"], s["connections"]) for s in seen["sandboxes"]] == [
            ("acme", "acme", 1), ("dev-1", "dev", 0)]  # fmt: skip
    assert seen["state"] == "serving" and seen["pid"] == one.process.pid
    assert seen["policy"]["file"] == os.path.realpath(one.config_path)
    with open(one.config_path, "rb") as file:
        assert seen["policy"]["sha256"] == hashlib.sha256(file.read()).hexdigest()
    [main] = seen["credentials"]
    assert (main["name"], main["ready"], main["kind"]) == ("main", True, "header x-api-key")
    assert main["binding"].startswith("api.test")
    assert seen["journal"]["file"] == one.journal_path and seen["journal"]["writable"]
    text = ctl(one, "status").stdout
    for word in (one.config_path, one.journal_path, "serving", "main", "ready", "dev-1"):
        assert word in text
    listed = ctl(one, "sandbox", "ls").stdout.splitlines()
    assert [line.split()[:2] for line in listed] == [["SANDBOX", "TENANT"], ["acme", "acme"], ["dev-1", "dev"]]


def test_ctl_finds_the_socket_by_the_configuration(daemon):
    one = daemon(admin())
    done = subprocess.run([KEYHOLE, "ctl", "-c", one.config_path, "status"], capture_output=True,
                          text=True, timeout=20, check=False)  # fmt: skip
    assert done.returncode == 0 and "serving" in done.stdout


def test_a_credential_without_a_value_is_shown(daemon):
    one = daemon(admin(), secret=None)
    assert samples(one)['keyhole_credential_ready{credential="main"}'] == 0
    assert "main        has no value" in ctl(one, "status").stdout


def test_a_bad_reload_is_told_in_the_answer_the_status_and_the_metrics(daemon):
    one = daemon(admin())
    good = dict(one.config)
    one.config["surprise"] = 1
    one.write(one.config)
    done = ctl(one, "reload", expected=1)
    check = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True,
                           text=True, timeout=20, check=False)  # fmt: skip
    assert check.returncode == 1
    assert check.stderr in done.stderr, "the words of check"
    failure = status(one)["reloads"]["last_failure"]
    assert failure["error"] == check.stderr.strip()
    assert "FAILED" in ctl(one, "status").stdout
    found = samples(one)
    assert found['keyhole_config_reloads_total{result="failed"}'] == 1
    assert found["keyhole_config_last_reload_successful"] == 0
    assert serves(one)
    one.write(good)
    assert "in force" in ctl(one, "reload").stdout
    assert status(one)["reloads"] == {"ok": 1, "failed": 1, "last_failure": None}
    assert samples(one)["keyhole_config_last_reload_successful"] == 1


def test_status_says_how_many_errors_a_bad_reload_had(daemon):
    one = daemon(admin())
    one.write({**one.config, "surprise": 1, "another": 2})
    assert ctl(one, "reload", expected=1).stderr.count(": error: ") == 2
    said = status(one)["reloads"]["last_failure"]["error"]
    assert said.count(": error: ") == 1 and said.endswith(" (and 1 more: keyhole check -c FILE shows all)")


def test_a_reload_warns_of_values_as_check_does_and_status_shows_none_of_before(daemon):
    rules = [{"allow": f"https://api.test/{name}/**", "credential": name} for name in ("main", "kept")]
    one = daemon({**admin(), "tenants": {"acme": {"rules": rules}}, "credentials": {
        "kept": {"value": {"env": "KEPT_KEY"}, "header": {"x-kept": "{}"}, "hosts": ["api.test"]}}},
        env={"KEPT_KEY": "kept-0a1B2c3D4e5F6g7H8"})  # fmt: skip
    good, other = dict(one.config), os.path.join(one.folder, "other")
    with open(other, "w", encoding="ascii") as file:
        os.fchmod(file.fileno(), 0o604)
        file.write("short")
    bad = json.loads(json.dumps(good))
    bad["credentials"]["main"]["value"]["file"] = other
    one.write(bad)
    said = ctl(one, "reload").stdout
    check = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=20, check=False,
                           env={**os.environ, "KEPT_KEY": "kept-0a1B2c3D4e5F6g7H8"})  # fmt: skip
    assert said == check.stderr + "the new configuration is in force\n" and said.count(": warning: ") == 2, said
    assert "fewer than 8 bytes" in said and "everybody on this host may use the file" in said and "KEPT_KEY" not in said
    # In the very next answers, and not a moment later.
    assert [one["last_error"] is None for one in status(one)["credential_states"] if one["name"] == "main"] == [False]
    one.write(good)
    assert ctl(one, "reload").stdout == "the new configuration is in force\n"
    assert [one["last_error"] for one in status(one)["credential_states"]] == [None, None]


def test_a_configuration_that_breaks_its_own_expectations_is_refused(daemon):
    one = daemon(admin())
    good = dict(one.config)
    one.write({**good, "expect": [{"tenant": next(iter(good["tenants"])), "allow": "GET https://nobody.test/"}]})
    said = ctl(one, "reload", expected=1).stderr
    check = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True, timeout=20, check=False)
    assert check.returncode == 1 and 'expect: "GET https://nobody.test/" is denied: no_rule' in check.stderr
    assert 'expect: "GET https://nobody.test/" is denied: no_rule' in said
    assert "expect: " in status(one)["reloads"]["last_failure"]["error"] and serves(one)
    # Nor does a daemon start with it.
    start = subprocess.run([KEYHOLE, "proxy", "-c", one.config_path], capture_output=True, text=True, timeout=20, check=False)
    assert start.returncode == 1 and 'expect: "GET https://nobody.test/" is denied' in start.stderr
    one.write({**good, "expect": [{"tenant": next(iter(good["tenants"])), "deny": "GET https://nobody.test/"}]})
    assert "in force" in ctl(one, "reload").stdout


def test_callers_that_ask_for_reloads_and_go_away_are_served_one_by_one(daemon):
    one = daemon(admin())
    pid = one.worker_pid()
    assert serves(one), "its leaf is there"
    one.process.send_signal(signal.SIGSTOP)  # the keeper takes its time
    try:
        for _ in range(20):
            with connect(one) as sock:
                sock.sendall(b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")
            # In two turns of its loop the server has read what was there before.
            assert ask(one, "/healthz")[0] == ask(one, "/healthz")[0] == 200
        assert ask(one, "/v1/reload", "POST")[0] == 409
        time.sleep(2.5)
        assert ask(one, "/v1/reload", "POST")[0] == 409
        assert serves(one)
    finally:
        one.process.send_signal(signal.SIGCONT)
    until("the one that was asked for is done", lambda: status(one)["reloads"]["ok"] == 1)
    ctl(one, "reload")
    assert one.worker_pid() == pid


def test_a_reload_by_signal_is_told_as_well(daemon):
    one = daemon(admin())
    one.config["surprise"] = 1
    one.write(one.config)
    one.process.send_signal(signal.SIGHUP)
    until("it is told", lambda: status(one)["reloads"]["failed"] == 1)


def test_what_a_running_daemon_can_not_change_is_an_answer_too(daemon):
    one = daemon(admin())
    one.config["audit"]["file"] = "elsewhere.jsonl"
    one.write(one.config)
    assert ctl(one, "reload", expected=1).stderr.splitlines() == [
        "keyhole: ctl: audit.file or audit.durability can't change while the daemon runs (restart it for that)",
        "keyhole: ctl: nothing changes, the configuration in force stays",
    ]


def test_admin_comes_changes_and_goes_with_a_reload(daemon):
    port = free_port()
    one = daemon()
    one.config.update(admin(port))
    one.write(one.config)
    one.process.send_signal(signal.SIGHUP)
    until("the socket is there", lambda: os.path.exists(os.path.join(one.folder, "adm", "s")))
    until("it answers", lambda: answers(one, port))
    assert status(one)["state"] == "serving"
    del one.config["admin"]["metrics"]
    one.write(one.config)
    ctl(one, "reload")
    with pytest.raises(OSError):
        connect(one, port)
    one.config.pop("admin")
    one.write(one.config)
    one.process.send_signal(signal.SIGHUP)
    until("it is gone", lambda: not os.path.exists(os.path.join(one.folder, "adm", "s")))
    assert serves(one)
    one.baseline += 6  # the loop of its thread is kept for the next time


def test_drain_finishes_what_runs_and_is_seen_by_readyz(daemon):
    one = daemon(admin())
    one.checked = False
    with Tunnel(one, "open.test") as tunnel:
        tunnel.start("GET", "/test/sse?n=40&ms=50")
        assert tunnel.read_head().status == 200
        assert "draining" in ctl(one, "drain").stdout
        answer, content = until("it drains", lambda: (a := ask(one, "/readyz"))[0] == 503 and a)
        assert b"drains" in content
        assert ask(one, "/healthz")[0] == 200
        assert status(one)["state"] == "draining"
        assert "it drains already" in ctl(one, "drain").stdout
        tunnel.take_until(b'"n": 39')
    assert one.process.wait(20) == 0
    assert not os.path.exists(os.path.join(one.folder, "adm", "s"))


def test_a_worker_that_died_is_replaced_and_counted(daemon):
    one = daemon(admin())
    pid = one.worker_pid()
    os.kill(pid, signal.SIGKILL)
    until("a new worker", lambda: one.worker_pid() not in (None, pid))
    assert until("it answers", lambda: status(one)["worker_starts"] == 2)
    assert "it has been replaced 1 time" in ctl(one, "status").stdout
    one.baseline = one.descriptors()


def test_a_daemon_that_is_not_there_is_an_answer_in_words(tmp_path):
    for args in (["--socket", str(tmp_path / "s")], []):
        done = subprocess.run([KEYHOLE, "ctl", *args, "status"], capture_output=True, text=True,
                              timeout=20, check=False)  # fmt: skip
        assert done.returncode == 1
        assert "no daemon answers at" in done.stderr
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "t"))
        server.listen()
        server.settimeout(10)
        child = subprocess.Popen([KEYHOLE, "ctl", "--socket", str(tmp_path / "t"), "status"],
                                 stderr=subprocess.PIPE, text=True)  # fmt: skip
        conn = server.accept()[0]
        conn.recv(1000)
        conn.sendall(b"220 mail.test ESMTP\r\n")
        conn.close()
        assert "no keyhole" in child.communicate(timeout=20)[1]
        assert child.returncode == 1


def test_a_list_without_sandboxes_is_said_to_be_empty(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "t"))
        server.listen()
        server.settimeout(10)
        child = subprocess.Popen([KEYHOLE, "ctl", "--socket", str(tmp_path / "t"), "sandbox", "ls"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip
        conn = server.accept()[0]
        conn.recv(1000)
        answer = b'{"sandboxes":[]}'
        conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))
        conn.close()
        assert child.communicate(timeout=20) == ("", "keyhole: ctl: there are no sandboxes\n") and child.returncode == 0


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["statsu"], "did you mean `keyhole ctl status`"),
        ([], "which command"),
        (["sandbox", "list"], '"sandbox list": no such command (did you mean `keyhole ctl sandbox ls`?)'),
        (["sandbox", "rm", "--tenant", "acme", "--id", "zz"], '"sandbox rm": no such command (did you mean `keyhole ctl sandbox remove`?)'),
        (["sandbox"], '"sandbox": no such command (sandbox ls, sandbox add, sandbox remove)'),
        (["snadbox", "ls"], "did you mean `keyhole ctl sandbox"),
        (["status", "now"], '`status`: unexpected argument "now"'),
        (["sandbox", "remove", "job1"], '`sandbox remove`: unexpected argument "job1" (a sandbox is named by --tenant TENANT --id ID)'),
        (["sandbox", "add", "--id", "zz", "bob"], '`sandbox add`: unexpected argument "bob"'),
        (["sandbox", "add", "--id", "zz"], "`sandbox add`: --tenant is missing (a sandbox is named by --tenant TENANT --id ID)"),
        (["sandbox", "add", "--tenant", "acme"], "`sandbox add`: --id is missing"),
        (["sandbox", "remove"], "`sandbox remove`: --tenant and --id are missing"),
        (["--socket", "x", "-c", "y", "status"], "name one thing twice"),
    ],
)
def test_ctl_called_wrongly_says_how(args, says):
    done = subprocess.run([KEYHOLE, "ctl", *args], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert says in done.stderr


@pytest.mark.parametrize("fault", ["key", "value", "syntax"])
def test_ctl_asks_the_daemon_whose_file_has_an_error(daemon, fault):
    one = daemon(admin())
    one.config.update({"key": {"surprise": 1}, "value": {"version": 2}, "syntax": {}}[fault])
    one.write(one.config)
    if fault == "syntax":
        with open(one.config_path, "a", encoding="utf-8") as file:
            file.write("\n a: [ b: c\n")
    by_file = [KEYHOLE, "ctl", "-c", one.config_path]
    done = subprocess.run([*by_file, "status"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0 and "serving" in done.stdout and done.stderr == ""
    done = subprocess.run([*by_file, "reload"], capture_output=True, text=True, timeout=20, check=False)
    check = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True,
                           text=True, timeout=20, check=False)  # fmt: skip
    assert check.returncode == 1 and check.stderr
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == check.stderr + "keyhole: ctl: nothing changes, the configuration in force stays\n"


def test_a_reload_by_a_faulty_file_says_that_the_socket_is_not_known(tmp_path):
    (tmp_path / "k.yaml").write_text("version: 1\nadmin: { unix: [ s ] }\nnonsense: 1\n")
    done = subprocess.run([KEYHOLE, "ctl", "-c", "k.yaml", "reload"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1 and "k.yaml:3:1: error: " in done.stderr
    assert "the admin socket is not known, since k.yaml is no sound configuration" in done.stderr
    assert "can't be read" not in done.stderr
