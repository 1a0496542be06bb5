"""sandboxes.py - sandboxes that tests add and remove by the admin socket"""

import contextlib
import copy
import json
import os
import socket

from admin_client import read_answer
from harness import PATIENCE, Tunnel


def admin(**more):
    return {"admin": {"unix": "adm/s", **more}}


def call(one, method, path, content=None, raw=None):
    """Status and the answer as JSON."""
    body = raw if raw is not None else b"" if content is None else json.dumps(content).encode()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(os.path.join(one.folder, "adm", "s"))
        sock.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        status, answer = read_answer(sock)
    assert status, "the connection ended without an answer"
    return status, json.loads(answer)


def add(one, id, tenant="acme", expected=201, **more):
    status, answer = call(one, "POST", "/v1/sandboxes", {"tenant": tenant, "id": id, **more})
    assert status == expected, answer
    return answer


def remove(one, id, tenant="acme", expected=200):
    status, answer = call(one, "DELETE", f"/v1/sandboxes/{tenant}/{id}")
    assert status == expected, answer
    return answer


def listed(one):
    return call(one, "GET", "/v1/sandboxes")[1]["sandboxes"]


def added(one):
    return [s["id"] for s in listed(one) if s["added"]]


def clear(one):
    for sandbox in listed(one):
        if sandbox["added"]:
            remove(one, sandbox["id"], sandbox["tenant"])


def inside(one, answer):
    """The daemon as that sandbox sees it: for Tunnel and its kin."""
    seen = copy.copy(one)
    seen.socket_path = answer["listener"] if isinstance(answer, dict) else answer
    return seen


def asks(one, answer, host="open.test", path="/test/echo", method="GET"):
    """The status of a request from inside."""
    with Tunnel(inside(one, answer), host) as tunnel:
        return tunnel.ask(method, path).status


def refuses(path):
    with socket.socket(socket.AF_UNIX) as sock:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError):
            sock.connect(path)
            return False
    return True


def files_below(folder):
    return sorted(
        os.path.relpath(os.path.join(at, name), folder)
        for at, folders, names in os.walk(folder)
        for name in folders + names
    )
