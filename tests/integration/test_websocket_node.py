"""WebSocket by Node's package ws on both ends."""

import hashlib
import json
import os
import subprocess

import pytest
from common import HERE, SECRET, until
from daemons import NAMES, Daemons
from node_packages import PackagedServer, packages  # noqa: F401 (a fixture)
from wspeer import closed

ABNORMAL = 1006


class WsServer(PackagedServer):
    script = "ws_server.js"


@pytest.fixture(scope="module")
def server(packages, tmp_path_factory):
    server = WsServer(str(tmp_path_factory.mktemp("ws")), NAMES, packages)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def ours(server):
    with Daemons([server]) as daemons:
        yield daemons()


@pytest.fixture
def talk(relay, packages, ours):
    """talk(url, **script): what the client saw."""

    def run(url, **script):
        done = subprocess.run(
            ["node", os.path.join(HERE, "ws_package_client.js"), str(relay(ours).port), ours.ca, url, json.dumps(script)],
            capture_output=True, text=True, timeout=60, check=False,
            env={"PATH": os.environ["PATH"], "NODE_PATH": packages},
        )  # fmt: skip
        assert SECRET not in done.stdout + done.stderr, "the client was given the real key"
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


def seen_of(data, binary):
    return {"binary": binary, "length": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_messages_of_each_kind_come_back(ours, talk, server):
    seen = talk(
        "wss://api.test/kinds", protocols=["realtime"],
        headers={"Authorization": "Bearer mine", "X-Own": "1"},
        messages=["hello", "grüße 🌍", {"bytes": 0}, {"bytes": 70_000}, {"bytes": 3 << 20}, {"ping": "there?"},
                  {"parts": ["three ", "frag", "ments"]}],
        close=[4000, "done"],
    )  # fmt: skip
    assert seen["messages"] == [
        seen_of(b"hello", False), seen_of("grüße 🌍".encode(), False), seen_of(b"", True),
        seen_of(b"\xa5" * 70_000, True), seen_of(b"\xa5" * (3 << 20), True), {"pong": "there?"},
        seen_of(b"three fragments", False),
    ]  # fmt: skip
    assert (seen["protocol"], seen["extensions"]) == ("realtime", ""), "permessage-deflate was offered, and not taken"
    assert (seen["code"], seen["reason"]) == (4000, "done")
    request = server.requests(path="/kinds")[0]
    assert request["key"] == hashlib.sha256(SECRET.encode()).hexdigest() and not request["authorization"]
    assert request["own"] == "1" and request["extensions"] == ""
    until("the server has its end", lambda: server.requests(path="/kinds", code=4000, reason="done"))
    record = closed(ours, "/kinds")
    assert record["websocket.up.messages"] == record["websocket.down.messages"] == 6
    assert record["websocket.close.code"] == 4000


@pytest.mark.parametrize("code", [1000, 1001, 1011, 3000, 4999])
def test_the_servers_close_comes_through(ours, talk, code):
    seen = talk(f"wss://api.test/close?code={code}", waits=1)
    assert (seen["code"], seen["reason"]) == (code, "as asked")


def test_a_server_that_goes_without_a_word(ours, talk):
    assert talk("wss://api.test/terminate", waits=1)["code"] == ABNORMAL
    assert closed(ours, "/terminate")["websocket.close.code"] == ABNORMAL


def test_the_servers_ping_is_answered_by_the_client(talk):
    seen = talk("wss://api.test/ping", waits=1)
    assert seen["messages"] == [seen_of(b"pong are you there", False)]


def test_another_answer_is_shown(talk):
    assert talk("wss://api.test/refuse")["status"] == 401
    assert talk("wss://other.test/kinds")["status"] == 403
