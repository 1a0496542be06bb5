"""admin_client.py - a client of the admin socket and of the port for metrics"""

import contextlib
import json
import os
import re
import socket
import subprocess

import pytest
from harness import KEYHOLE, Tunnel

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


def answers(one, port):
    with contextlib.suppress(OSError, TypeError):
        return ask(one, "/healthz", port=port)[0] == 200
    return False
