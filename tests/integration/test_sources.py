"""Values from files that change, commands, the service's credentials, and one a tenant."""

import hashlib
import json
import os
import re
import signal
import subprocess
import time

import pytest
from harness import FINGERPRINT, KEYHOLE, SECRET, Tunnel, until
from memory_search import forms, found, may_read

OTHER = "sk-other-" + "0" * 40
COMMON = {"header": {"x-api-key": "{}"}, "hosts": ["api.test"]}


def fingerprint(value):
    return hashlib.sha256(value.encode()).hexdigest()[:16]


def told(daemon, path="/test/echo"):
    """What the upstream was told, as (status, value or its fingerprint)."""
    with Tunnel(daemon, "api.test") as tunnel:
        answer = tunnel.ask("GET", path)
        if answer.status != 200:
            return answer.status, answer.text()
        return 200, [v for n, v in answer.json()["fields"] if n.lower() == "x-api-key"][0]


def real(value):
    return "sha256:" + FINGERPRINT if value == SECRET else value


def script(folder, text, name="command"):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def by_command(argv, **more):
    return {"credentials": {"main": {"value": {"file": None, "exec": argv, **more}, **COMMON}}}


# --- files ----------------------------------------------------------------------------------------


def put(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


def test_a_file_that_is_replaced_is_used_from_the_next_request_on(daemon):
    one = daemon()
    assert told(one) == (200, real(SECRET))
    put(one.secret_path + ".new", OTHER + "\n")
    os.rename(one.secret_path + ".new", one.secret_path)
    until("the new value is used", lambda: told(one) == (200, OTHER))
    put(one.secret_path, SECRET)  # in place, without a line's end
    until("the old one again", lambda: told(one) == (200, real(SECRET)))


def test_a_byte_order_mark_does_not_go_out_with_the_value(daemon):
    one = daemon(secret=None)
    with open(one.secret_path, "wb") as file:
        file.write(b"\xef\xbb\xbf" + OTHER.encode() + b"\r\n")
    until("it is used", lambda: told(one) == (200, OTHER))


def test_a_link_that_is_turned_is_seen(daemon, tmp_path):
    """As Kubernetes does it: key → ..data/key, ..data → a folder of the day."""
    for day, value in (("1", SECRET), ("2", OTHER)):
        (tmp_path / day).mkdir()
        put(tmp_path / day / "key", value)
    os.symlink("1", tmp_path / "..data")
    os.symlink("..data/key", tmp_path / "key")
    one = daemon({"credentials": {"main": {"value": {"file": str(tmp_path / "key")}}}})
    assert told(one) == (200, real(SECRET))
    os.symlink("2", tmp_path / "..tmp")
    os.rename(tmp_path / "..tmp", tmp_path / "..data")
    until("the new value is used", lambda: told(one) == (200, OTHER))
    # and the day after, in a folder that was not there
    (tmp_path / "3").mkdir()
    put(tmp_path / "3" / "key", SECRET)
    os.symlink("3", tmp_path / "..tmp")
    os.rename(tmp_path / "..tmp", tmp_path / "..data")
    until("the next value is used", lambda: told(one) == (200, real(SECRET)))


@pytest.mark.parametrize("path", ["current/secrets/keys/key", "links/key"])
def test_a_folder_above_the_file_that_is_replaced_is_seen(daemon, tmp_path, path):
    """As a rollout by folders does it: the file's own folder stays as it was."""
    for version, value in (("1", SECRET), ("2", OTHER)):
        (tmp_path / version / "secrets" / "keys").mkdir(parents=True)
        put(tmp_path / version / "secrets" / "keys" / "key", value)
    os.rename(tmp_path / "1", tmp_path / "current")
    (tmp_path / "links").mkdir()
    os.symlink("../current/secrets/keys/key", tmp_path / "links" / "key")
    one = daemon({"credentials": {"main": {"value": {"file": str(tmp_path / path)}}}})
    assert told(one) == (200, real(SECRET))
    os.rename(tmp_path / "current", tmp_path / "1")
    os.rename(tmp_path / "2", tmp_path / "current")
    until("the new value is used", lambda: told(one) == (200, OTHER))


@pytest.mark.parametrize("content", ["", "two\nlines-of-it", "a\x01control-byte", "tooshrt"])
def test_a_bad_file_leaves_the_value_before(daemon, content):
    one = daemon()
    assert told(one) == (200, real(SECRET))
    put(one.secret_path, content)
    until("it is said", lambda: "the value before serves on" in one.stderr())
    assert "credential main: the file" in one.stderr()
    assert told(one) == (200, real(SECRET))
    assert content == "" or content not in one.stderr()
    one.write_secret(OTHER)
    until("a good one is used", lambda: told(one) == (200, OTHER))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
def test_another_users_link_gets_him_no_file_that_only_the_daemon_may_read(daemon, tmp_path):
    theirs, secret = tmp_path / "theirs", tmp_path / "secret"
    theirs.mkdir()
    put(theirs / "key", OTHER)
    put(secret, "a-secret-of-another-tenant-9d4c71")
    os.chown(theirs / "key", 4242, 4242)
    one = daemon({"credentials": {"main": {"value": {"file": str(theirs / "key")}, **COMMON}}})
    assert told(one) == (200, OTHER)
    os.symlink(secret, theirs / "new")
    os.lchown(theirs / "new", 4242, 4242)
    os.rename(theirs / "new", theirs / "key")
    until("it is said", lambda: "is another user's than the file that it leads to" in one.stderr())
    assert told(one) == (200, OTHER)


def test_a_file_that_is_deleted_leaves_the_value_before_until_a_reload(daemon):
    one = daemon()
    assert told(one) == (200, real(SECRET))
    os.unlink(one.secret_path)
    until("it is said", lambda: "is not there" in one.stderr() and "the value before serves on" in one.stderr())
    assert told(one) == (200, real(SECRET))
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
    assert told(one)[0] == 503


def test_a_file_that_comes_late_is_found(daemon):
    one = daemon(secret=None)
    status, text = told(one)
    assert status == 503 and "credential main" in text
    one.write_secret(SECRET)
    until("it is found", lambda: told(one) == (200, real(SECRET)))


# --- commands -------------------------------------------------------------------------------------


def test_a_command_is_started_without_a_shell_and_with_nothing_of_ours(daemon, tmp_path):
    report = tmp_path / "report"
    command = script(
        tmp_path,
        f'ls -l /proc/self/fd >{report}; env >>{report}; echo "args:$#:$1" >>{report}\n'
        f"ps -o pid=,pgid=,sid= $$ >>{report} 2>/dev/null\nprintf %s\\\\n {SECRET}\n",
    )
    one = daemon(
        by_command([command, "$(id) `id` ; *"], environment=["CHOSEN", "SET=this"]),
        env={"CHOSEN": "passed-on", "HIDDEN": "not-passed-on", "HOME": "/nowhere"},
    )
    assert told(one) == (200, real(SECRET))
    text = report.read_text()
    assert "args:1:$(id) `id` ; *" in text
    assert "CHOSEN=passed-on" in text and "SET=this" in text and "HOME=/nowhere" in text
    assert "HIDDEN" not in text and "not-passed-on" not in text
    # 0, 1, 2, and what ls opens itself
    links = [line.split(" -> ")[1] for line in text.splitlines() if " -> " in line]
    assert not [link for link in links if "socket" in link or "memfd" in link or "ca.key" in link
                or "event" in link]  # fmt: skip


def test_it_is_run_again_after_refresh(daemon, tmp_path):
    counter = tmp_path / "counter"
    command = script(tmp_path, f"echo x >>{counter}; echo value-number-$(wc -l <{counter})")
    one = daemon(by_command([command], refresh="1s"))
    assert told(one) == (200, "value-number-1")
    until("the next one is used", lambda: told(one) == (200, "value-number-2"))


def test_one_run_serves_all_who_wait(daemon, tmp_path):
    counter = tmp_path / "counter"
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = script(tmp_path, f"echo x >>{counter}; cat {gate} >/dev/null; echo {SECRET}")
    one = daemon(by_command([command]))
    tunnels = [Tunnel(one, "api.test") for _ in range(20)]
    for tunnel in tunnels:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
    time.sleep(0.2)  # they wait; nothing depends on how many do
    with open(gate, "w", encoding="ascii"):
        pass
    for tunnel in tunnels:
        assert tunnel.response().status == 200
        tunnel.__exit__(None, None, None)
    assert counter.read_text() == "x\n"


SHAPES = [
    ('{"access_token":"VALUE","expires_in":3600,"token_type":"Bearer"}', {}),
    ('{"credential":{"access_token":"VALUE","token_expiry":"2099-01-01T00:00:00Z"}}', {}),
    ('{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
     '"status":{"token":"VALUE","expirationTimestamp":"2099-01-01T00:00:00+01:00"}}', {}),
    ('{"request_id":"x","lease_duration":0,"data":{"data":{"key":"VALUE"},"metadata":{}}}', {}),
    ('{"lease_duration":2764800,"data":{"password":"VALUE"}}', {}),
    ('{"auth":{"client_token":"VALUE","lease_duration":60,"renewable":true}}', {}),
    ('{"id":"credential","type":"CONCEALED","value":"VALUE"}', {}),
    ('{"token":"VALUE","expires_at":"2099-01-01T00:00:00.123456Z"}', {}),
    ('{"a":[{"b":"no"},{"b":"VALUE"}],"until":4070908800}', {"json": "a.1.b", "expires": "until"}),
    ("VALUE", {}),
    ("VALUE\r", {}),
    ('"VALUE"', {"format": "json"}),
    ("VALUE\nlogin: somebody\nurl: https://x", {"first_line": True}),
]  # fmt: skip


@pytest.mark.parametrize("printed, more", SHAPES)
def test_what_well_known_programs_print_is_understood(daemon, tmp_path, printed, more):
    put(tmp_path / "printed", printed.replace("VALUE", SECRET) + "\n")
    one = daemon(by_command(["cat", str(tmp_path / "printed")], **more))
    assert told(one) == (200, real(SECRET))


FAILURES = [
    ("exit 3", {}, "ended with status 3"),
    ("echo VALUE >&2; exit 1", {}, "standard error are not shown"),
    ("true", {}, "prints nothing"),
    ("printf 'VALUE\\nVALUE\\n'", {}, "more than one line"),
    ("printf 'VALUE\\001'", {}, "control byte"),
    ("printf abc", {}, "fewer than 8 bytes"),
    ("head -c 70000 /dev/zero | tr '\\0' k", {}, "more than 65536 bytes"),
    ("sleep 60", {"timeout": "200ms"}, "did not end within 200 ms"),
    ("sleep 60 & sleep 61 & wait", {"timeout": "200ms"}, "did not end within 200 ms"),
    ("kill -9 $$", {}, "killed by signal 9 (Killed)"),
    ("exit 127", {}, "ended with status 127, and said nothing"),
    ("exit 126", {}, "ended with status 126, and said nothing"),
    ("exit 125", {}, "ended with status 125, and said nothing"),
    ("echo '{\"x\":\"VALUE\"}'", {}, "shape that is not known"),
    ("echo '{\"x\":\"VALUE\"}'", {"json": "y"}, "without the member"),
    ("echo VALUE", {"json": "y"}, "no JSON"),
    ("echo '{\"token\":\"VALUE\"'", {}, "write format: text"),
    ("echo VALUE", {"format": "json"}, "no JSON"),
    ("echo '{\"token\":\"VALUE\",\"expires_at\":\"2001-01-01T00:00:00Z\"}'", {}, "ended already"),
    ("echo '{\"token\":\"VALUE\",\"expires_at\":\"soon\"}'", {}, "not in words"),
    ('echo \'{"AccessKeyId":"AKIAVALUE","SecretAccessKey":"VALUE"}\'', {}, "credentials of AWS"),
]  # fmt: skip


@pytest.mark.parametrize("text, more, words", FAILURES)
def test_a_command_that_fails_is_named_and_its_value_is_not(daemon, mock, tmp_path, text, more, words):
    command = script(tmp_path, text.replace("VALUE", SECRET))
    mark = mock.mark()
    one = daemon(by_command([command], **more))
    status, answer = told(one)
    assert status == 503 and "credential main" in answer
    assert SECRET not in answer and str(tmp_path) not in answer
    until("it is logged", lambda: words in one.stderr())
    assert "credential main: " in one.stderr()
    assert SECRET not in one.stderr()
    assert not mock.requests(since=mark), "no request went out"


@pytest.mark.parametrize("argv, words", [
    (["keyhole-no-such-program"], "can't be started: there is no such program in PATH"),
    (["/nowhere/keyhole-no-such-program"], "can't be started: there is no such file"),
    (["/etc/passwd"], "can't be started: it may not be executed"),
    (["/etc/passwd/program"], "can't be started: Not a directory"),
])  # fmt: skip
def test_a_program_that_can_not_be_started_is_told_with_the_reason(daemon, argv, words):
    one = daemon(by_command(argv))
    assert told(one)[0] == 503
    assert words in one.stderr()


def test_all_that_a_command_has_started_ends_with_it(daemon, tmp_path):
    pids = tmp_path / "pids"
    command = script(tmp_path, f"sleep 1000 & echo $! >>{pids}; sleep 1001 & echo $! >>{pids}; echo {SECRET}")
    one = daemon(by_command([command]))
    assert told(one) == (200, real(SECRET))
    for pid in pids.read_text().split():
        until("it is gone", lambda pid=pid: not alive(int(pid)))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_failing_command_leaves_the_value_until_its_end(daemon, tmp_path):
    flag = tmp_path / "fails"
    command = script(tmp_path, f"test -e {flag} && exit 1; echo {SECRET}")
    one = daemon(by_command([command], refresh="1s", max_age="4s"))
    assert told(one) == (200, real(SECRET))
    flag.write_text("")
    until("it is said", lambda: "the value before serves on" in one.stderr())
    assert told(one) == (200, real(SECRET))
    until("it has ended", lambda: told(one)[0] == 503)
    flag.unlink()
    until("it is there again", lambda: told(one) == (200, real(SECRET)))


def test_json_that_is_cut_off_leaves_the_value_before(daemon, tmp_path):
    """Else half of an answer would go out as the key."""
    put(tmp_path / "printed", json.dumps({"token": SECRET}))
    one = daemon(by_command(["cat", str(tmp_path / "printed")], refresh="1s"))
    assert told(one) == (200, real(SECRET))
    put(tmp_path / "printed", json.dumps({"token": OTHER})[:-2])
    until("it is said", lambda: "begins like JSON and is none" in one.stderr())
    assert "the value before serves on" in one.stderr() and OTHER not in one.stderr()
    assert told(one) == (200, real(SECRET))
    put(tmp_path / "printed", json.dumps({"token": OTHER}))
    until("a whole one is used", lambda: told(one) == (200, OTHER))


def test_text_that_looks_like_json_is_the_value_where_that_is_said(daemon, tmp_path):
    put(tmp_path / "printed", "{" + OTHER)
    one = daemon(by_command(["cat", str(tmp_path / "printed")], format="text"))
    assert told(one) == (200, "{" + OTHER)


def test_the_end_that_it_says_is_kept(daemon, tmp_path):
    counter = tmp_path / "counter"
    command = script(
        tmp_path,
        f"echo x >>{counter}; "
        'echo "{\\"token\\":\\"value-number-$(wc -l <' + str(counter) + ')\\",\\"expires_in\\":2}"',
    )
    one = daemon(by_command([command]))
    assert told(one) == (200, "value-number-1")
    until("the next one", lambda: told(one)[1] != "value-number-1")


def test_a_commands_value_outlives_a_reload(daemon, tmp_path):
    counter = tmp_path / "counter"
    command = script(tmp_path, f"echo x >>{counter}; echo {SECRET}")
    one = daemon(by_command([command]))
    assert told(one) == (200, real(SECRET))
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
    assert told(one) == (200, real(SECRET))
    assert counter.read_text() == "x\n"


def test_a_reload_while_a_command_runs_loses_nobody(daemon, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    command = script(tmp_path, f"cat {gate} >/dev/null; echo {SECRET}")
    one = daemon(by_command([command]))
    with Tunnel(one, "api.test") as tunnel:
        tunnel.start("GET", "/test/echo")
        tunnel.send(b"")
        one.process.send_signal(signal.SIGHUP)
        until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
        with open(gate, "w", encoding="ascii"):
            pass
        assert tunnel.response().status == 200


# --- the service's credentials, and tenants ---------------------------------------------------------


def test_a_credential_of_the_service_is_found_by_its_name(daemon, tmp_path):
    put(tmp_path / "api-key", SECRET)
    one = daemon(
        {"credentials": {"main": {"value": {"systemd": "api-key", "file": None}}}},
        env={"CREDENTIALS_DIRECTORY": str(tmp_path)},
    )
    assert told(one) == (200, real(SECRET))


def test_without_the_folder_it_says_what_to_write(daemon):
    one = daemon({"credentials": {"main": {"value": {"systemd": "api-key", "file": None}}}})
    assert told(one)[0] == 503
    assert "LoadCredential=api-key:PATH" in one.stderr()


def test_each_tenant_has_its_own_value_under_one_name(daemon, tmp_path):
    put(tmp_path / "globex", OTHER)
    rules = [{"allow": "https://api.test", "credential": "main"}]
    one = daemon(
        {
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "globex"},
                       {"unix": "f/s", "tenant": "initech"}],
            "credentials": {"main": {"value": {"file": None, "tenants": {
                "acme": {"env": "ACME_KEY"}, "globex": {"file": str(tmp_path / "globex")}}}}},
            "tenants": {name: {"rules": rules} for name in ("acme", "globex", "initech")},
        },
        env={"ACME_KEY": SECRET},
    )  # fmt: skip
    assert told(one) == (200, real(SECRET))
    one.socket_path = os.path.join(one.folder, "e", "s")
    assert told(one) == (200, OTHER)
    one.socket_path = os.path.join(one.folder, "f", "s")
    status, text = told(one)
    assert status == 503 and "no value for this tenant" in text


def test_a_variables_value_is_wiped_where_it_stood(daemon):
    """/proc/PID/environ shows where the variable was, and not what it held."""
    one = daemon({"credentials": {"main": {"value": {"file": None, "env": "MAIN_KEY"}}}},
                 env={"MAIN_KEY": SECRET})  # fmt: skip
    assert told(one) == (200, real(SECRET))
    try:
        with open(f"/proc/{one.process.pid}/environ", "rb") as file:
            environ = file.read()
    except PermissionError:
        pytest.skip("this user may not read /proc/PID/environ of what is not dumpable")
    assert b"MAIN_KEY=" in environ
    assert SECRET.encode() not in environ


def test_a_commands_own_secret_is_kept_as_one(daemon, tmp_path):
    """A token of the store that is asked: in no environment but the command's, and in no page."""
    command = script(tmp_path, 'printf "%s" "$STORE_VALUE$STORE_ADDRESS"')
    store = "sk-of-the-store-" + os.urandom(12).hex()
    one = daemon(by_command([command], refresh="1s", environment=["STORE_VALUE", "STORE_ADDRESS", "SET=this", "HOME"]),
                 env={"STORE_VALUE": store, "STORE_ADDRESS": "-address", "HOME": "/nowhere", "OTHER": "stays"})  # fmt: skip
    assert told(one) == (200, store + "-address")
    if not may_read(one.process.pid):
        pytest.skip("this user may not read the memory of what is not dumpable")
    with open(f"/proc/{one.process.pid}/environ", "rb") as file:
        environ = file.read().split(b"\0")
    assert b"HOME=/nowhere" in environ and b"OTHER=stays" in environ and b"STORE_VALUE=" in environ
    assert not any(store.encode() in entry for entry in environ)
    # It is run again, while one looks, and after a reload.
    os.rename(script(tmp_path, 'printf "%s" "again-$STORE_VALUE"', "next"), command)
    needles = list(forms(store.encode()))
    found_so_far = []

    def again():
        found_so_far.extend(found(one.process.pid, needles))
        return told(one) == (200, "again-" + store)

    until("the command has run again", again)
    assert not found_so_far
    config = json.loads(json.dumps(one.config))
    config["credentials"]["main"]["value"]["timeout"] = "29s"  # another one in the configuration's eyes
    one.write(config)
    one.process.send_signal(signal.SIGHUP)
    until("it is reloaded", lambda: "the new configuration is in force" in one.stderr())
    until("the command has it still", lambda: told(one) == (200, "again-" + store))


# --- what the operator sees -------------------------------------------------------------------------


def ctl(daemon):
    done = subprocess.run(
        [KEYHOLE, "ctl", "--socket", os.path.join(daemon.folder, "adm", "s"), "status", "--json"],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {state["name"]: state for state in json.loads(done.stdout)["credential_states"]}


def test_the_operator_sees_the_state_of_each_tenants_value(daemon, tmp_path):
    rules = [{"allow": "https://api.test", "credential": "main"}]
    one = daemon(
        {
            "admin": {"unix": "adm/s"},
            "listen": [{"unix": "d/s", "tenant": "acme"}, {"unix": "e/s", "tenant": "globex"}],
            "credentials": {"main": {"value": {"file": None, "tenants": {
                "acme": {"env": "ACME_KEY"}, "globex": {"file": str(tmp_path / "globex")}}}}},
            "tenants": {name: {"rules": rules} for name in ("acme", "globex")},
        },
        env={"ACME_KEY": SECRET},
    )  # fmt: skip
    socket = os.path.join(one.folder, "adm", "s")
    for of in "de":  # whoever asks last
        one.socket_path = os.path.join(one.folder, of, "s")
        told(one)
        done = subprocess.run([KEYHOLE, "ctl", "--socket", socket, "status", "--json"], capture_output=True, text=True,
                              timeout=20, check=True)  # fmt: skip
        states = json.loads(done.stdout)["credential_states"]
        assert [(s["name"], s["tenant"], s["source"]) for s in states] == [("main", "acme", "env"), ("main", "globex", "file")]
        assert states[0]["since"] and states[0]["last_error"] is None
        assert states[1]["since"] is None and "globex" in states[1]["last_error"]
    text = subprocess.run([KEYHOLE, "ctl", "--socket", socket, "status"], capture_output=True, text=True, timeout=20, check=True).stdout
    assert "credential   main of globex FAILED at" in text and "main of acme" not in text
    page = subprocess.run(["curl", "-sS", "--unix-socket", socket, "http://admin/metrics"], capture_output=True, text=True,
                          timeout=20, check=True).stdout  # fmt: skip
    assert 'keyhole_credential_renewals_total{credential="main",tenant="acme"} 1\n' in page
    assert 'keyhole_credential_renewals_total{credential="main",tenant="globex"} 0\n' in page


def readiness(one):
    """Of `main`, as `status` and the metrics tell it."""
    command = [KEYHOLE, "ctl", "--socket", os.path.join(one.folder, "adm", "s"), "status"]
    whole, text = (
        subprocess.run([*command, *more], capture_output=True, text=True, timeout=20, check=True).stdout
        for more in (["--json"], [])
    )
    page = subprocess.run(
        ["curl", "-sS", "--unix-socket", os.path.join(one.folder, "adm", "s"), "http://admin/metrics"],
        capture_output=True, text=True, timeout=20, check=True,
    ).stdout  # fmt: skip
    return (
        json.loads(whole)["credentials"][0]["ready"],
        json.loads(whole)["credential_states"][0]["ready"],
        re.search(r"^main +(ready|has no value) ", text, re.M).group(1) == "ready",
        'keyhole_credential_ready{credential="main"} 1\n' in page,
    )


def test_a_credential_is_ready_only_when_its_value_has_been_read(daemon, tmp_path):
    """No request is needed for that: neither to see that its command fails, nor that it has not ended yet."""
    go, works = tmp_path / "go", tmp_path / "works"
    command = script(tmp_path, f"while test ! -e {go}; do sleep 0.05; done; test -e {works} || exit 7; echo {SECRET}")
    one = daemon({"admin": {"unix": "adm/s"}, **by_command([command], refresh="1s")})
    assert readiness(one) == (False,) * 4
    go.write_text("")
    until("the failure is told", lambda: ctl(one)["main"]["last_error"])
    assert readiness(one) == (False,) * 4
    works.write_text("")
    until("a request has the command run again", lambda: told(one) == (200, real(SECRET)))
    until("the value is there", lambda: readiness(one) == (True,) * 4)


def test_the_operator_sees_where_a_value_is_from_and_why_it_fails(daemon, tmp_path):
    flag = tmp_path / "fails"
    command = script(tmp_path, f"test -e {flag} && exit 7; echo {SECRET}")
    one = daemon({"admin": {"unix": "adm/s"}, **by_command([command], refresh="1s", max_age="1h")})
    assert told(one) == (200, real(SECRET))
    until("it is told", lambda: ctl(one)["main"]["since"])
    state = ctl(one)["main"]
    assert state["source"] == "exec" and state["expires"] and state["last_error"] is None
    flag.write_text("")
    until("the failure is told", lambda: ctl(one)["main"]["last_error"])
    state = ctl(one)["main"]
    assert "ended with status 7" in state["last_error"] and state["failed"] and state["failures"] > 0
    text = subprocess.run(
        [KEYHOLE, "ctl", "--socket", os.path.join(one.folder, "adm", "s"), "status"],
        capture_output=True, text=True, timeout=20, check=False,
    ).stdout  # fmt: skip
    assert "credential   main FAILED at" in text and SECRET not in text
    page = subprocess.run(
        ["curl", "-sS", "--unix-socket", os.path.join(one.folder, "adm", "s"), "http://admin/metrics"],
        capture_output=True, text=True, timeout=20, check=True,
    ).stdout  # fmt: skip
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if line.endswith(tuple("0123456789")))
    assert int(found['keyhole_credential_failures_total{credential="main"}']) > 0
    assert int(found['keyhole_credential_renewals_total{credential="main"}']) > 0
    left = int(found['keyhole_credential_expiry_timestamp_seconds{credential="main"}']) - time.time()
    assert 3000 < left <= 3600


def test_the_states_of_many_credentials_are_all_there(daemon):
    many = {f"many{i}": {"value": {"env": "NOT_SET"}, **COMMON} for i in range(600)}
    one = daemon({"admin": {"unix": "adm/s"}, "credentials": many})
    states = ctl(one)
    assert len(json.dumps(states)) > 64 * 1024, "more than a message holds"
    assert set(states) == {"main", *many}
    assert "NOT_SET is not set" in states["many599"]["last_error"]
