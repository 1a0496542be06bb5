"""gRPC as it is used: @grpc/grpc-js on both ends, the client by a proxy of the environment."""

import hashlib
import json
import os
import subprocess

import pytest
from common import HERE, SECRET, until
from daemons import NAMES, Daemons, base_config, merge
from node_packages import PackagedServer, packages  # noqa: F401 (a fixture)

OK, CANCELLED, DEADLINE_EXCEEDED, PERMISSION_DENIED = 0, 1, 4, 7
FAILED_PRECONDITION, ABORTED, UNIMPLEMENTED = 9, 10, 12
MIB4 = 4 << 20


def sha256(data):
    return hashlib.sha256(data).hexdigest()


FIRST = {"x-first": ["1"], "x-first-bin": [sha256(bytes([0, 1, 254, 255]))]}
LAST = {"x-last": ["2"], "x-last-bin": [sha256(bytes([255, 0]))]}


class GrpcServer(PackagedServer):
    script = "grpc_server.js"


@pytest.fixture(scope="module")
def server(packages, tmp_path_factory):
    server = GrpcServer(str(tmp_path_factory.mktemp("grpc")), NAMES, packages)
    yield server
    server.stop()


@pytest.fixture
def start(server):
    def make(overrides=None):
        rules = [{"deny": "* https://api.test/test.Calls/Denied"},
                 {"allow": "POST https://api.test/test.Calls/*", "credential": "main"}]  # fmt: skip
        ours = {"tenants": {"acme": {"rules": rules}}, "worker": {"threads": 1}}
        return daemons(config=merge(merge(base_config(server), ours), overrides or {}))

    with Daemons([server]) as daemons:
        yield make


@pytest.fixture
def calls(relay, packages):
    """calls(daemon, case): what the client saw."""

    def run(daemon, case):
        done = subprocess.run(
            ["node", os.path.join(HERE, "grpc_client.js"), "api.test:443", daemon.ca, case],
            capture_output=True, text=True, timeout=120, check=False,
            env={"PATH": os.environ["PATH"], "NODE_PATH": packages, "https_proxy": relay(daemon).url},
        )  # fmt: skip
        assert SECRET not in done.stdout + done.stderr, "the client was given the real key"
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


def closed(daemon, method, count=1):
    """The close records of that method's calls, once they are there."""

    def there():
        records = [r for r in daemon.records_of(f"/test.Calls/{method}") if r["event"] == "close"]
        return records if len(records) >= count else None

    return until("the close records", there)


def good(seen):
    return seen["code"] == OK and seen["first"] == FIRST and seen["last"] == LAST


def test_four_kinds_of_calls_with_metadata_and_the_credential(start, calls, server):
    daemon, mark = start(), server.mark()
    seen = calls(daemon, "kinds")
    many = [bytes([n]) * (n * 997) for n in range(50)]
    assert all(good(one) for one in seen.values()), seen
    assert seen["unary"]["sha256"] == sha256(b"hello") and seen["empty"]["length"] == 0
    assert (seen["down"]["messages"], seen["down"]["total"]) == (100, 300_000)
    assert seen["down"]["sha256"] == sha256(b"".join(bytes([n]) * 3000 for n in range(100)))
    assert seen["up"]["answer"] == {
        "messages": 50, "total": sum(map(len, many)), "sha256": sha256(b"".join(many)),
    }  # fmt: skip
    assert (seen["both"]["messages"], seen["both"]["equal"]) == (50, True)
    # What the server had: the key in its one place, the client's metadata as they were.
    requests = server.requests(since=mark)
    assert [r["method"] for r in requests] == ["Unary", "Unary", "Down", "Up", "Both"]
    for request in requests:
        assert request["keys"] == [sha256(SECRET.encode())] and request["others"] == []
        assert request["own"] == ['mine, and "more"'] and request["binary"] == [sha256(bytes(range(256)))]
        assert 20_000 < request["deadline_ms"] <= 60_000 and "grpc-node-js" in request["agent"]


def test_the_journal_has_a_record_a_call(start, calls):
    daemon = start()
    calls(daemon, "kinds")
    records = closed(daemon, "Both") and daemon.journal()
    opened = [r for r in records if r["event"] == "open"]
    assert [r["url.path"] for r in opened] == [
        f"/test.Calls/{name}" for name in ("Unary", "Unary", "Down", "Up", "Both")
    ]
    for record in opened:
        assert record["http.request.method"] == "POST" and record["network.protocol.version"] == "2"
        assert record["credential"] == "main" and record["stripped"] == "authorization"
    for record in (r for r in records if r["event"] == "close"):
        assert record["http.response.status_code"] == 200 and record["complete"] is True
        assert "reason" not in record
    sent = {name: closed(daemon, name)[-1] for name in ("Down", "Up", "Both")}
    messages = 5 * 50 + sum(n * 997 for n in range(50))  # five bytes before each
    assert sent["Down"]["http.response.body.size"] == 100 * 3005
    assert sent["Up"]["http.request.body.size"] == messages
    assert sent["Both"]["http.request.body.size"] == sent["Both"]["http.response.body.size"] == messages


def test_messages_of_four_mebibytes(start, calls):
    daemon = start()
    seen = calls(daemon, "large")
    assert seen["unary"]["sha256"] == seen["sent"]["sha256"] and seen["unary"]["length"] == MIB4
    assert (seen["down"]["messages"], seen["down"]["total"]) == (3, 3 * MIB4)
    assert (seen["up"]["answer"]["messages"], seen["up"]["answer"]["total"]) == (2, 2 * MIB4)
    assert (seen["both"]["messages"], seen["both"]["equal"]) == (2, True)


def test_two_hundred_calls_side_by_side(start, calls, server):
    mark = server.mark()
    seen = calls(start(), "side_by_side")
    assert not [one for one in seen if one["code"] != OK]
    assert [one["length"] for one in seen] == [n * 100 for n in range(200)]
    assert len(server.requests(since=mark)) == 200


def test_errors_come_as_they_are(start, calls, server):
    daemon = start()
    seen = calls(daemon, "fail")
    assert seen["fail"]["code"] == FAILED_PRECONDITION and seen["fail"]["details"] == "not so: 100 % grün"
    assert seen["fail"]["last"] == LAST and "first" not in seen["fail"], "trailers are all there is"
    assert seen["half"]["code"] == ABORTED and seen["half"]["messages"] == 1
    assert seen["unknown"]["code"] == UNIMPLEMENTED
    assert good(seen["after"])
    # To HTTP they went well; what gRPC says of itself is the client's affair.
    for name in ("Fail", "Half", "Unknown"):
        record = closed(daemon, name)[0]
        assert record["http.response.status_code"] == 200 and record["complete"] is True


def test_a_deadline_ends_the_call_on_both_sides(start, calls, server):
    daemon, mark = start(), server.mark()
    seen = calls(daemon, "deadline")
    assert seen["late"]["code"] == DEADLINE_EXCEEDED and seen["late"]["first"] == FIRST
    assert seen["allowed"] - 50 <= seen["ms"] < seen["allowed"] + 5000
    assert good(seen["before"]) and good(seen["after"])
    until("the server is told", lambda: server.requests(mark, method="Slow", cancelled=True))
    begun = [r for r in server.requests(mark, method="Slow") if "deadline_ms" in r][-1]
    assert begun["deadline_ms"] <= seen["allowed"]

    def answered():
        return [r for r in closed(daemon, "Slow") if "http.response.status_code" in r]

    record = until("its record", answered)[-1]
    # Both sides have a clock. Where the server's is first, its DEADLINE_EXCEEDED is an answer, and whole.
    assert (record.get("reason"), record["complete"]) in (("sandbox_closed", False), (None, True))


def test_a_call_that_is_cancelled_ends_on_both_sides(start, calls, server):
    daemon, mark = start(), server.mark()
    seen = calls(daemon, "cancel")
    assert seen["down"]["code"] == CANCELLED and seen["down"]["messages"] >= 20
    assert seen["both"]["code"] == CANCELLED and seen["both"]["messages"] == 50
    assert good(seen["after"]), "the connection goes on"
    until("the server is told", lambda: server.requests(mark, method="Endless", cancelled=True))
    record = closed(daemon, "Endless")[0]
    assert record["reason"] == "sandbox_closed" and record["complete"] is False
    # The other one may have been whole before its end was heard of.
    assert closed(daemon, "Both")[0]["http.response.status_code"] == 200


def test_a_method_that_is_denied_never_arrives(start, calls, server):
    daemon, mark = start(), server.mark()
    seen = calls(daemon, "denied")
    assert seen["denied"]["code"] == PERMISSION_DENIED, seen["denied"]
    assert good(seen["after"]), "the connection goes on"
    assert [r["method"] for r in server.requests(since=mark)] == ["Unary"]
    record = daemon.records_of("/test.Calls/Denied")[0]
    assert record["event"] == "deny" and record["reason"] == "denied_by_rule"


def test_keepalive_pings_of_a_quiet_call_are_answered(start, calls):
    seen = calls(start(), "keepalive")
    assert seen["code"] == OK and seen["messages"] == 2
