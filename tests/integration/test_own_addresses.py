"""The host's own addresses: a sandbox does not reach services of the host by them, public or not."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))

# Runs in a network namespace of its own. Prints [[authority, status, Proxy-Status], …].
INSIDE = textwrap.dedent("""
    import http.server, json, os, socket, sys, threading
    sys.path.insert(0, sys.argv[1])
    from harness import Daemon, Wire

    class Service(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")
        def log_message(self, *args):
            pass

    class Six(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6

    servers = [http.server.ThreadingHTTPServer(("0.0.0.0", 80), Service), Six(("::", 81), Service)]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "version": 1,
        "listen": [{"unix": "d/s", "tenant": "acme"}],
        "audit": {"file": "audit.jsonl"},
        "upstream": json.loads(sys.argv[2]),
        "tenants": {"acme": {"rules": [{"allow": "http://**"}, {"allow": "http://**:81"}]}},
    }
    daemon = Daemon(config)
    answers = []
    for authority in json.loads(sys.argv[3]):
        with Wire(daemon.socket_path) as wire:
            wire.send(f"GET http://{authority}/ HTTP/1.1\\r\\nHost: {authority}\\r\\nConnection: close\\r\\n\\r\\n")
            response = wire.response()
            answers.append([authority, response.status, response.get("proxy-status") or ""])
    daemon.process.terminate()
    daemon.process.wait(timeout=30)
    print(json.dumps(answers))
""")
SETUP = "ip link set lo up && ip addr add 11.22.33.44/24 dev lo && ip addr add 11.22.33.45/24 dev lo && " \
        "ip addr add 2a00:1234::1/128 dev lo && exec \"$@\""  # fmt: skip
OWN = ["11.22.33.44", "11.22.33.45", "[2a00:1234::1]:81", "[::ffff:11.22.33.44]", "[64:ff9b::11.22.33.44]"]


def ask(upstream, authorities):
    probe = subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("no network namespace can be made: " + probe.stderr.decode().strip())
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", SETUP, "sh", sys.executable, "-c", INSIDE, HERE, json.dumps(upstream),
         json.dumps(authorities)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_sandbox_does_not_reach_the_host_by_the_hosts_own_public_addresses():
    for authority, status, proxy_status in ask({}, OWN):
        assert status == 403, authority
        assert "destination_ip_prohibited" in proxy_status, authority
        assert "local" in proxy_status, (authority, proxy_status)


def test_an_exception_opens_an_own_address_and_no_other():
    answers = ask({"allow_addresses": ["11.22.33.44"]}, ["11.22.33.44", "11.22.33.45"])
    assert [status for _, status, _ in answers] == [200, 403]
