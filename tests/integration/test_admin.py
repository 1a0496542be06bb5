"""The admin socket: what it says to whom, what harms it not, and what its description says."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest
from admin_client import (
    AS_ROOT,
    GRANTED,
    STRANGER,
    TWO_TENANTS,
    admin,
    answers,
    ask,
    ask_as,
    connect,
    read_answer,
    samples,
    serves,
    status,
)
from harness import KEYHOLE, ROOT, free_port, until

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
        assert "is where the sandbox" in done.stderr


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
        ({"unix": "a/s", "allow": [{"user": 1, "tenants": "acme"}] * 2}, "is there already"),
        ({"unix": "a/" + "s" * 120}, "too long"),
        ({"unix": "a/s", "sandboxes": "d"}, "admin.sandboxes: "),
        ({"unix": "a/s", "sandboxes": "d/below"}, "is where the sandbox"),
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
        assert time.monotonic() - began < 15


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


@pytest.mark.parametrize("said", [b"", b"GET /metr", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"], ids=["nothing", "half", "asked"])
def test_no_user_of_the_host_keeps_the_port_from_being_scraped(daemon, said):
    port = free_port()
    one = daemon(admin(port))
    held = []
    try:
        for _ in range(100):
            held.append(connect(one, port))
            held[-1].sendall(said)
        for _ in range(10):
            assert ask(one, "/metrics", port=port)[0] == 200
    finally:
        for sock in held:
            sock.close()


HOLD = """
import socket, sys
held = []
for _ in range(int(sys.argv[2])):
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(sys.argv[1])
    sock.sendall(sys.argv[3].encode() + b" HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" if len(sys.argv) > 3 else b"")
    if len(sys.argv) > 3:
        assert b" 200 " in sock.recv(100)
    held.append(sock)
print("held", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def holding(one, uid, count, *request):
    """That many connections of another user's."""
    os.chmod(one.folder, 0o755)
    with subprocess.Popen(["/usr/bin/python3", "-I", "-c", HOLD, os.path.join(one.folder, "adm", "s"), str(count), *request], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, user=uid, group=uid, extra_groups=[], cwd="/") as process:  # fmt: skip
        try:
            assert process.stdout.readline() == b"held\n"
            yield
        finally:
            process.stdin.close()
            process.wait(20)


@AS_ROOT
@pytest.mark.parametrize(("count", "asked"), [(300, ()), (256, ("GET /healthz",)), (8, ("GET /v1/events",))])
def test_no_user_shuts_another_out_of_the_admin_socket(daemon, count, asked):
    other = GRANTED + 7
    one = daemon({**TWO_TENANTS, **admin(allow=[{"user": GRANTED, "tenants": ["acme"]}, {"user": other, "tenants": ["dev"]}])})
    with holding(one, GRANTED, count, *asked):
        for _ in range(3):
            assert ask_as(one, other, "/v1/status")[0] == 200
        with holding(one, other, 1, "GET /v1/events"):
            pass
    assert serves(one)


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
    with open(os.path.join(ROOT, "src", "admin", "admin_routes.c"), encoding="utf-8") as file:
        served = set(re.findall(r'\{ "(/[\w/]+)", "(?:GET|POST|DELETE)"', file.read()))
    with open(os.path.join(ROOT, "docs", "admin.openapi.yaml"), encoding="utf-8") as file:
        described = set(re.findall(r"^  (/[\w/]+)(?:\{tenant\}/\{id\})?:", file.read(), re.M))
    assert served == described
