"""test_admin.py - the admin socket and the port for metrics: what they say, to whom, and what harms neither."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
from harness import KEYHOLE, ROOT, Tunnel, free_port, until

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="other users are tried as root")
STRANGER = 54321
GRANTED = 54322
TWO_TENANTS = {
    "listen": [
        {"unix": "d/s", "tenant": "acme", "mode": "0660"},
        {"unix": "e/s", "tenant": "dev", "sandbox": "dev-1"},
    ],
    "tenants": {"dev": {"rules": [{"allow": "https://open.test"}]}},
}


def admin(port=None, **more):
    return {"admin": {"unix": "adm/s", **({"metrics": f"127.0.0.1:{port}"} if port else {}), **more}}


def connect(one, port=None):
    if port:
        return socket.create_connection(("127.0.0.1", port), 10)
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(10)
    sock.connect(os.path.join(one.folder, "adm", "s"))
    return sock


def read_answer(sock):
    """Status and content of one answer; its length stands in its head."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return None, data
        data += piece
    head, content = data.split(b"\r\n\r\n", 1)
    length = int(re.search(rb"content-length: (\d+)", head)[1])
    while len(content) < length:
        content += sock.recv(65536)
    return int(head.split()[1]), content


def ask(one, path, method="GET", port=None):
    with connect(one, port) as sock:
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
        return read_answer(sock)


def ask_as(one, uid, path, method="GET"):
    """The same by another user; Return: status and content."""
    path_ = os.path.join(one.folder, "adm", "s")
    script = (
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
        "s.sendall((sys.argv[2]+' '+sys.argv[3]+' HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: 0\\r\\n"
        "Connection: close\\r\\n\\r\\n').encode())\n"
        "d=b''\nwhile True:\n p=s.recv(65536)\n if not p: break\n d+=p\n"
        "sys.stdout.buffer.write(d)\n"
    )
    os.chmod(one.folder, 0o755)
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", script, path_, method, path],
        capture_output=True, user=uid, group=uid, extra_groups=[], cwd="/", timeout=20, check=False,
    )  # fmt: skip
    if done.returncode:
        return None, done.stderr
    head, content = done.stdout.split(b"\r\n\r\n", 1)
    return int(head.split()[1]), content


def samples(one, port=None):
    """{name and labels: value} of /metrics."""
    status, content = ask(one, "/metrics", port=port)
    assert status == 200
    lines = [line for line in content.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def status(one):
    answer, content = ask(one, "/v1/status")
    assert answer == 200
    return json.loads(content)


def ctl(one, *args, expected=0):
    done = subprocess.run(
        [KEYHOLE, "ctl", "--socket", os.path.join(one.folder, "adm", "s"), *args],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == expected, done.stdout + done.stderr
    return done


def serves(one):
    with Tunnel(one, "open.test") as tunnel:
        return tunnel.ask("GET", "/test/echo").status == 200


# --- who may what ---------------------------------------------------------------------------------


def test_health_and_readiness(daemon):
    port = free_port()
    one = daemon(admin(port))
    for where in (None, port):
        assert ask(one, "/healthz", port=where) == (200, b"ok\n")
        assert ask(one, "/readyz", port=where) == (200, b"ready\n")


def test_the_port_serves_metrics_and_nothing_else(daemon):
    port = free_port()
    one = daemon(admin(port))
    assert ask(one, "/metrics", port=port)[0] == 200
    for path in ("/v1/status", "/v1/sandboxes", "/v1/reload", "/v1/drain", "/", "/metrics/"):
        for method in ("GET", "POST"):
            assert ask(one, path, method, port)[0] == 404
    assert ask(one, "/metrics", "POST", port)[0] == 405
    assert one.process.poll() is None


def test_the_socket_is_for_its_owner_unless_the_configuration_says_more(daemon):
    one = daemon(admin())
    assert os.stat(os.path.join(one.folder, "adm", "s")).st_mode & 0o777 == 0o600
    two = daemon(admin(allow=[{"user": GRANTED, "tenants": ["acme"]}]))
    assert os.stat(os.path.join(two.folder, "adm", "s")).st_mode & 0o777 == 0o666


@AS_ROOT
def test_a_user_that_is_not_allowed_gets_nothing(daemon):
    one = daemon(admin(allow=[{"user": GRANTED, "tenants": ["acme"]}]))
    for method, path in (("GET", "/v1/status"), ("GET", "/v1/sandboxes"), ("GET", "/metrics"),
                         ("POST", "/v1/reload"), ("POST", "/v1/drain")):  # fmt: skip
        answer, content = ask_as(one, STRANGER, path, method)
        assert answer == 403, path
        assert b"acme" not in content
    assert ask_as(one, STRANGER, "/healthz")[0] == 200
    assert serves(one)


@AS_ROOT
def test_a_user_sees_the_tenants_that_the_configuration_gives_and_steers_nothing(daemon):
    one = daemon({**TWO_TENANTS, **admin(allow=[{"user": GRANTED, "tenants": ["dev"]}])})
    answer, content = ask_as(one, GRANTED, "/v1/status")
    seen = json.loads(content)
    assert answer == 200
    assert [s["id"] for s in seen["sandboxes"]] == ["dev-1"]
    assert "policy" not in seen and "credentials" not in seen and b"acme" not in content
    answer, content = ask_as(one, GRANTED, "/v1/sandboxes")
    assert [s["tenant"] for s in json.loads(content)["sandboxes"]] == ["dev"]
    for method, path in (("GET", "/metrics"), ("POST", "/v1/reload"), ("POST", "/v1/drain")):
        assert ask_as(one, GRANTED, path, method)[0] == 403
    assert [s["id"] for s in status(one)["sandboxes"]] == ["acme", "dev-1"]
    assert serves(one)


def test_the_admin_socket_is_refused_where_a_sandbox_would_see_it(daemon):
    one = daemon(admin(), start=False)
    for path in ("d/admin", "d/below/admin"):
        one.config["admin"]["unix"] = path
        one.write(one.config)
        done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True,
                              text=True, timeout=20, check=False)  # fmt: skip
        assert done.returncode == 1
        assert "lies where the sandbox" in done.stderr


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ({"metrics": "127.0.0.1"}, "no address and port"),
        ({"metrics": "127.0.0.1:0"}, "no address and port"),
        ({"metrics": "somewhere:80"}, "admin.metrics"),
        ({"allow": [{"user": 1, "tenants": ["acme"]}]}, "goes with admin.unix only"),
        ({"unix": "a/s", "allow": [{"user": "no-such-user", "tenants": ["acme"]}]}, "no user is called"),
        ({"unix": "a/s", "allow": [{"user": 1, "tenants": ["acmee"]}]}, 'did you mean "acme"'),
        ({"unix": "a/s", "allow": [{"user": 1, "tenants": []}]}, "expected a list of tenants"),
        ({"unix": "a/s", "allow": [{"user": 1}]}, "admin.allow[].tenants"),
        ({"unix": "a/s", "allow": [{"user": 1, "tenants": "acme"}] * 2}, "stands there already"),
        ({"unix": "a/" + "s" * 120}, "too long"),
        ({"unix": "a/s", "sandboxes": "d"}, "admin.sandboxes: "),
        ({"unix": "a/s", "sandboxes": "d/below"}, "lies where the sandbox"),
        ({"metrics": "127.0.0.1:1234", "sandboxes": "x"}, "goes with admin.unix only"),
        ({"unx": "a/s"}, 'did you mean "unix"'),
    ],
)
def test_check_says_what_is_wrong_with_admin(daemon, section, says):
    one = daemon({"admin": section}, start=False)
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 1
    assert says in done.stderr


def test_a_port_that_others_can_reach_is_warned_of(daemon):
    one = daemon({"admin": {"metrics": "0.0.0.0:9464"}}, start=False)
    done = subprocess.run([KEYHOLE, "check", "-c", one.config_path], capture_output=True, text=True,
                          timeout=20, check=False)  # fmt: skip
    assert done.returncode == 0
    assert "others than this host can connect there" in done.stderr


# --- metrics --------------------------------------------------------------------------------------


def test_promtool_has_nothing_to_say_about_a_live_scrape(daemon):
    if not shutil.which("promtool"):
        pytest.skip("promtool (of prometheus) is not installed")
    one = daemon(admin())
    assert serves(one)
    content = ask(one, "/metrics")[1]
    done = subprocess.run(["promtool", "check", "metrics"], input=content, capture_output=True,
                          timeout=30, check=False)  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_each_kind_of_request_is_counted_as_what_it_was(daemon):
    one = daemon(admin(), rules=[
        {"allow": "POST https://api.test", "credential": "main"},
        {"deny": "https://open.test/no"},
        {"allow": "https://open.test"},
    ])  # fmt: skip
    before = samples(one)
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(3):
            assert tunnel.ask("GET", "/test/echo").status == 200
        assert tunnel.ask("GET", "/no").status == 403
        running = samples(one)
    with Tunnel(one, "api.test") as tunnel:
        assert tunnel.ask("POST", "/test/echo", body=b"x" * 1000).status == 200
        assert tunnel.ask("GET", "/other").status == 403
    with contextlib.suppress(Exception), Tunnel(one, "nowhere.test") as tunnel:
        tunnel.ask("GET", "/")
    until("all connections have ended", lambda: samples(one)['keyhole_connections{tenant="acme"}'] == 0)
    after = samples(one)

    def grew(name):
        return after[name] - before.get(name, 0)

    assert running['keyhole_connections{tenant="acme"}'] == 1
    assert running["keyhole_tunnels"] == 1
    assert after["keyhole_tunnels"] == after["keyhole_requests_running"] == 0
    opens, denials = len(one.journal(event="open")), len(one.journal(event="deny"))
    assert opens == 4 and denials == 3
    assert grew('keyhole_requests_total{tenant="acme",decision="allow"}') == opens
    assert grew('keyhole_requests_total{tenant="acme",decision="deny"}') == denials
    assert grew('keyhole_requests_total{tenant="acme",decision="would_deny"}') == 0
    assert grew('keyhole_denials_total{reason="denied_by_rule"}') == 1
    assert grew('keyhole_denials_total{reason="no_rule"}') == 2
    assert grew('keyhole_content_bytes_total{tenant="acme",direction="up"}') == 1000
    assert grew('keyhole_content_bytes_total{tenant="acme",direction="down"}') == sum(
        r["http.response.body.size"] for r in one.journal(event="close")
    )
    assert grew("keyhole_request_duration_seconds_count") == opens
    assert grew("keyhole_request_own_seconds_count") == opens
    assert 0 < grew("keyhole_request_own_seconds_sum") < grew("keyhole_request_duration_seconds_sum")
    assert grew("keyhole_connections_opened_total") >= 2
    assert grew('keyhole_upstream_requests_total{connection="new"}') == 2
    assert grew('keyhole_upstream_requests_total{connection="reused"}') == 2
    assert grew("keyhole_upstream_connections_opened_total") == 2
    # The refusal of nowhere.test is told inside TLS.
    assert grew('keyhole_tls_handshakes_total{side="sandbox",result="full"}') == 3
    assert grew('keyhole_tls_handshakes_total{side="upstream",result="full"}') == 2
    assert grew("keyhole_journal_records_total") == 2 * opens + denials
    assert after['keyhole_credential_ready{credential="main"}'] == 1
    assert after["keyhole_ready"] == after["keyhole_journal_writable"] == 1


def test_buckets_of_a_histogram_rise_and_end_with_all(daemon):
    one = daemon(admin())
    with Tunnel(one, "open.test") as tunnel:
        for _ in range(20):
            assert tunnel.ask("GET", "/test/echo").status == 200
    until("all are counted", lambda: samples(one)["keyhole_request_duration_seconds_count"] == 20)
    for name in ("keyhole_request_duration_seconds", "keyhole_request_own_seconds"):
        found = samples(one)
        buckets = [v for n, v in found.items() if n.startswith(name + "_bucket")]
        assert buckets == sorted(buckets)
        assert found[name + '_bucket{le="+Inf"}'] == buckets[-1] == found[name + "_count"] == 20


def test_what_is_only_observed_is_counted_as_that(daemon):
    one = daemon({**admin(), "tenants": {"acme": {"mode": "observe"}}}, rules=[{"deny": "https://open.test"}])
    assert serves(one)
    until("it is counted", lambda: samples(one)[
        'keyhole_requests_total{tenant="acme",decision="would_deny"}'] == 1)  # fmt: skip


def test_a_limit_that_refuses_is_counted_and_shown_when_it_is_near(daemon):
    one = daemon({**admin(), "tenants": {"acme": {"limits": {"requests": "2/h"}}}})
    with Tunnel(one, "open.test") as tunnel:
        assert [tunnel.ask("GET", "/test/echo").status for _ in range(3)] == [200, 200, 429]
    assert samples(one)['keyhole_limit_refusals_total{limit="requests"}'] == 1
    [near] = status(one)["limits"]
    assert (near["of"], near["name"], near["limit"], near["used"], near["most"]) == (
        "tenant", "acme", "requests 2/h", 2, 2)  # fmt: skip
    assert "2 of 2 (100 %)" in ctl(one, "status").stdout


def test_no_label_is_the_sandboxes_to_choose(daemon):
    one = daemon(admin())
    names = set(samples(one))
    with Tunnel(one, "open.test") as tunnel:
        for i in range(30):
            tunnel.ask("GET", f"/made-up-{i}?x={i}")
    for i in range(30):
        with contextlib.suppress(Exception), Tunnel(one, f"made-up-{i}.test") as tunnel:
            tunnel.ask("GET", "/")
    text = ask(one, "/metrics")[1].decode()
    assert "made-up" not in text and "open.test" not in text
    new = {re.sub(r"\{.*", "", n) for n in set(samples(one)) - names}
    assert new <= {"keyhole_failures_total", "keyhole_denials_total"}


def test_counters_of_a_tenant_outlive_a_reload(daemon):
    one = daemon(admin())
    assert serves(one)
    name = 'keyhole_requests_total{tenant="acme",decision="allow"}'
    until("it is counted", lambda: samples(one)[name] == 1)
    one.config["tenants"]["new"] = {"rules": []}
    one.config["tenants"] = dict(reversed(one.config["tenants"].items()))
    one.write(one.config)
    ctl(one, "reload")
    assert serves(one)
    until("both are there", lambda: samples(one)[name] == 2)
    assert samples(one)['keyhole_requests_total{tenant="new",decision="allow"}'] == 0


# --- ctl ------------------------------------------------------------------------------------------


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
    assert "audit can't change while it runs" in ctl(one, "reload", expected=1).stderr


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


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["statsu"], "did you mean `keyhole ctl status`"),
        ([], "which command"),
        (["sandbox", "list"], "no such command"),
        (["status", "now"], "no such command"),
        (["--socket", "x", "-c", "y", "status"], "name one thing twice"),
    ],
)
def test_ctl_called_wrongly_says_how(args, says):
    done = subprocess.run([KEYHOLE, "ctl", *args], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2
    assert says in done.stderr


# --- harm -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("over_tcp", [False, True], ids=["unix", "tcp"])
@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"POST /v1/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\0" * 70000,
        b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 200000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n" + b"z" * 300000,
    ],
    ids=["tls", "h2", "no-version", "no-host", "two-hosts", "smuggling", "nul", "long-line",
         "long-field", "many-fields", "large-content"],
)  # fmt: skip
def test_garbage_is_refused_and_harms_nobody(daemon, garbage, over_tcp):
    port = free_port()
    one = daemon(admin(port))
    with connect(one, port if over_tcp else None) as sock:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(garbage)
            answer = read_answer(sock)[0]
            assert answer is None or 400 <= answer < 500 or answer == 505
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sock.recv(65536):
                pass  # what was answered before all was sent; then the connection ends
    assert serves(one)
    assert ask(one, "/healthz", port=port)[0] == 200


def test_a_client_that_drips_is_cut_off_and_holds_nobody_up(daemon):
    one = daemon(admin())
    with connect(one) as slow:
        began = time.monotonic()
        ended = None
        for byte in b"GET /healthz HTTP/1.1\r\nHost: " + b"a" * 500:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                slow.send(bytes([byte]))
            assert ask(one, "/healthz")[0] == 200
            slow.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                ended = slow.recv(1000)
                break
            slow.setblocking(True)
            time.sleep(0.05)
        assert ended is not None and 4 < time.monotonic() - began < 12
        assert not ended or b" 408 " in ended
    assert serves(one)


def test_a_client_that_does_not_read_its_answer_is_let_go(daemon):
    tenants = {f"tenant-{i}": {"rules": []} for i in range(3000)}
    one = daemon({**admin(), "tenants": tenants})
    with connect(one) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(3):
            sock.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
        began = time.monotonic()
        assert serves(one)
        assert len(samples(one)) > 3000
        assert time.monotonic() - began < 5


def test_a_thousand_connections_leave_room_for_the_sandboxes_and_for_root(daemon):
    port = free_port()
    one = daemon(admin(port))
    held = []
    try:
        for _ in range(1000):
            with contextlib.suppress(OSError):
                held.append(connect(one, port))
        assert serves(one)
        assert ask(one, "/healthz")[0] == 200, "the socket's places are others than the port's"
        assert samples(one)["process_open_fds"] < 200
    finally:
        for sock in held:
            sock.close()
    until("the port answers again", lambda: answers(one, port))


def test_two_hundred_launchers_may_ask_at_once(daemon):
    one = daemon(admin())
    with contextlib.ExitStack() as stack:
        several = [stack.enter_context(connect(one)) for _ in range(200)]
        assert ask(one, "/healthz")[0] == 200, "whoever comes last has found a place, so all have"
        for sock in several:
            sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for sock in several:
            assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert serves(one)


def answers(one, port):
    with contextlib.suppress(OSError, TypeError):
        return ask(one, "/healthz", port=port)[0] == 200
    return False


def test_requests_one_behind_the_other_are_answered_in_turn(daemon):
    one = daemon(admin())
    with connect(one) as sock:
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 50 + b"HEAD /metrics HTTP/1.1\r\n"
                     b"Host: a\r\nConnection: close\r\n\r\n")  # fmt: skip
        data = b""
        while piece := sock.recv(65536):
            data += piece
    assert data.count(b"HTTP/1.1 200 OK") == 51 and data.endswith(b"\r\n\r\n")


def test_a_handover_takes_the_admin_socket_along(daemon):
    port = free_port()
    one = daemon(admin(port))
    one.checked = False
    first = status(one)["pid"]
    one.process.send_signal(signal.SIGUSR2)
    second = until("another process answers", lambda: (p := status(one)["pid"]) != first and p)
    try:
        assert ask(one, "/readyz", port=port) == (200, b"ready\n")
        assert one.process.wait(20) == 0
        assert serves(one)
        assert status(one)["pid"] == second
    finally:
        os.kill(second, signal.SIGTERM)
        until("it has ended", lambda: not os.path.exists(f"/proc/{second}") or is_zombie(second))
    assert not os.path.exists(os.path.join(one.folder, "adm", "s"))


def is_zombie(pid):
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().split()[2] == "Z"
    return True


# --- the pages ------------------------------------------------------------------------------------


def test_the_description_of_the_api_holds_for_what_is_answered(daemon):
    jsonschema = pytest.importorskip("jsonschema")
    yaml = pytest.importorskip("yaml")
    with open(os.path.join(ROOT, "docs", "admin.openapi.yaml"), encoding="utf-8") as file:
        api = yaml.safe_load(file)
    one = daemon({**admin(), "tenants": {"acme": {"limits": {"requests": "1/h"}}}})
    assert serves(one)
    schemas = {"components": api["components"]}
    for path, method, expected in (("/v1/status", "GET", 200), ("/v1/sandboxes", "GET", 200),
                                   ("/v1/reload", "POST", 200), ("/v1/drain", "GET", 405)):  # fmt: skip
        answer, content = ask(one, path, method)
        assert answer == expected
        described = api["paths"][path][method.lower() if expected == 200 else "post"]["responses"]
        if expected != 200:
            continue
        response = described[str(expected)]
        if "$ref" in response:
            response = api["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
        schema = response["content"]["application/json"]["schema"]
        jsonschema.validate(json.loads(content), {**schemas, **schema})
    assert len(status(one)["limits"]) == 1


def test_every_path_of_the_api_is_described(daemon):
    with open(os.path.join(ROOT, "src", "proxy", "admin_routes.c"), encoding="utf-8") as file:
        served = set(re.findall(r'\{ "(/[\w/]+)", "(?:GET|POST|DELETE)"', file.read()))
    with open(os.path.join(ROOT, "docs", "admin.openapi.yaml"), encoding="utf-8") as file:
        described = set(re.findall(r"^  (/[\w/]+)(?:\{tenant\}/\{id\})?:", file.read(), re.M))
    assert served == described


def test_the_page_names_every_metric_and_no_other(daemon):
    one = daemon(admin())
    assert serves(one)
    families = set(re.findall(r"^# TYPE (\w+)", ask(one, "/metrics")[1].decode(), re.M))
    with open(os.path.join(ROOT, "docs", "operations.md"), encoding="utf-8") as file:
        rows = [line for line in file if line.startswith("| `")]
    named = set(re.findall(r"`(keyhole_\w+)`", "".join(rows)))
    assert named == {name for name in families if name.startswith("keyhole_")}
    for name in families - named:
        assert name.startswith("process_")
