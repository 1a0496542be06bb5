"""test_load_h2.py - the load generator and the origin in HTTP/2, gRPC and SOCKS5; keyhole between them

That the two count right is tested first, then that keyhole carries what they do and records it.
"""

import os
import shutil
import subprocess
import sys

import pytest
from test_load import Origin, check_journal, load, straight

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def origin(tmp_path):
    one = Origin(tmp_path, "--name", "api.test", "--h2-name", "open.test", "--ca-out", str(tmp_path / "origin-ca.pem"))
    yield one
    one.stop()


TO_H2 = ("--to", "open.test:443")


def test_the_tools_count_the_same_in_h2(origin):
    report = straight(origin, *TO_H2, "--h2", 16, "--connections", 2, "--requests", 503, "--ids", "t")
    assert (report["requests"], report["statuses"], report["errors"]) == (503, {"200": 503}, {})
    assert len(set(origin.targets())) == len(origin.targets()) == 503
    assert report["bytes"] >= 503 * 1024
    assert 0 < report["p50_us"] <= report["p99_us"] <= report["max_us"]
    seen = straight(origin, *TO_H2, "--h2", 1, "--method", "GET", "--body", 0, "--path", "/count", "--requests", 1)
    assert seen["statuses"] == {"200": 1}


@pytest.mark.parametrize("method, body, path, each", [("POST", 100000, "/echo", 100000), ("GET", 0, "/bytes/70000", 70000)])
def test_the_tools_carry_content_in_h2(origin, method, body, path, each):
    report = straight(origin, *TO_H2, "--h2", 1, "--method", method, "--body", body, "--path", path, "--requests", 20)
    assert (report["statuses"], report["bytes"], report["errors"]) == ({"200": 20}, 20 * each, {})


def test_the_tools_say_what_went_wrong_in_h2(origin):
    assert straight(origin, *TO_H2, "--h2", 2, "--path", "/nope", "--requests", 3)["statuses"] == {"404": 3}
    report = straight(origin, "--h2", 2, "--seconds", 1)
    assert (report["requests"], set(report["errors"])) == (0, {"tls"}), "the name is served in HTTP/1.1 only"


def start(daemon, origin):
    return daemon({"upstream": {"ca_file": origin.ca,
                                "resolve": {"api.test": origin.address, "open.test": origin.address}},
                   "audit": {"file": "audit.jsonl"}})  # fmt: skip


def through(one, *arguments):
    return ["--unix", one.socket_path, "--to", "api.test:443", "--ca", one.ca, *map(str, arguments)]


@pytest.mark.parametrize("to", ["api.test:443", "open.test:443"])
@pytest.mark.parametrize("kind", [(), ("--grpc",)])
def test_32_streams_of_one_connection_have_their_records(daemon, origin, to, kind):
    one = start(daemon, origin)
    report = load(*through(one, "--to", to, "--h2", 32, *kind, "--requests", 2000, "--ids", "q"))
    # HTTP/1.1 has no trailers where a length is said: a call's status is lost with the origin.
    errors = {"grpc": 2000} if kind and to == "api.test:443" else {}
    assert (report["statuses"], report["errors"], report["tunnels"]) == ({"200": 2000}, errors, 1)
    one.stop()
    reached, records = check_journal(one, origin)
    assert len(reached) == len(origin.targets()) == 2000
    closes = [r for r in records if r["event"] == "close"]
    assert len(closes) == 2000
    assert all(r["http.response.status_code"] == 200 and r["complete"] for r in closes)
    one.checked = False


@pytest.mark.parametrize("kind", [("--connections", 4), ("--connections", 4, "--new-tunnels"), ("--h2", 8)])
def test_tunnels_by_socks5(daemon, origin, kind):
    one = start(daemon, origin)
    report = load(*through(one, "--to", "open.test:443", "--socks", *kind, "--requests", 200))
    assert (report["statuses"], report["errors"]) == ({"200": 200}, {})
    # Who is on the way when the last request is answered has its tunnel for nothing.
    least = 1 if "--h2" in kind else 200 if "--new-tunnels" in kind else 4
    assert least <= report["tunnels"] < least + 4
    one.checked = False


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core for the proxy and one for the load are needed")
@pytest.mark.skipif(not shutil.which("nghttpx"), reason="no nghttpx (nghttp2-proxy) here")
def test_the_benchmark_makes_its_table(tmp_path):
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tests", "bench", "bench.py"), "--quick", "--only", "nghttpx", "--figures",
         "h2,socks", "--json", tmp_path / "results.json"],
        capture_output=True, text=True, timeout=120, check=True)  # fmt: skip
    lines = done.stdout.splitlines()
    assert lines[0] == "|  | keyhole | nghttpx | direct |"
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("| ")}
    assert "×" in rows["&nbsp;&nbsp;CPU a request, h2 to h2, µs"]
    assert "new tunnels by SOCKS5, tunnels/s" in rows
    assert not [line for line in lines if line.startswith("went wrong") or line.startswith("not measured")]
